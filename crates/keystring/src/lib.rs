//! Keys that order as bytes the way BSON values order.
//!
//! [`encode_value`] appends the key of one value; keys of several values stand one after the other.
//! Always true, for keys made in the same directions: `memcmp(key(a), key(b))` has the sign of
//! `compare_values(a, b)`, whatever follows the keys; equal values have equal keys; a key says by
//! itself where it ends. What a key merges (1, 1.0, 1L and Decimal128 1; String and Symbol) is kept
//! apart in [`TypeBits`], with which [`decode`] gives the values back, bit for bit. One thing is not
//! kept: the elements of an array come back named "0", "1", ... whatever their names were.
//!
//! docs/formats/keystring.md describes the bytes. This crate knows nothing of indexes or storage: a
//! caller decides what a missing field is encoded as and what follows a key.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bound;
mod decode;
mod direction;
mod encode;
mod error;
mod number;
mod reader;
mod type_bits;
mod type_byte;

pub use bound::{prefix_end, successor};
pub use decode::{Decoder, decode, decode_prefix_len, skip_value};
pub use direction::Direction;
pub use encode::{append_encoded_text, encode_id, encode_text, encode_value};
pub use error::{Error, Result};
pub use type_bits::TypeBits;
pub use type_byte::type_bytes;

/// The version of the encoding that docs/formats/keystring.md describes. The data format that holds
/// keys records it; a change of any byte of any key raises it.
pub const VERSION: u8 = 1;

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
