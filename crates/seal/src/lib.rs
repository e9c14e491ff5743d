//! Encryption at rest: the key file, the keystore of a data directory, and what is sealed with its key.
//!
//! A *master key* is in a file that an administrator keeps. It encrypts nothing but one random *data key* a data directory,
//! which stands in the directory's [`Keystore`]. Everything else is sealed with keys that are derived from the data key: each
//! file of the engine has one of its own ([`engine_file`]), and so has each stretch of the journal ([`GroupSeal`]). A repository of
//! backups has a data key and a keystore as a directory has, and a key for each file ([`ObjectSeal`]). Files that do
//! not outlive the process are sealed with a random key that is never stored ([`Sealer::of_this_process`]).
//!
//! Kept true: every byte that is sealed is authenticated together with its place, so that what was changed, or moved to another
//! place, is told and never given as data; each sealing draws a nonce from the system, so that nothing depends on a counter that a
//! crash or a restored copy could set back; no key is printed, and what holds the bytes of one clears them when it goes.
//!
//! It opens and writes no file but the key file and the keystore, and knows neither engines nor the journal: those hand it
//! bytes. The cryptography is that of `ring`: AES-256 in Galois/counter mode, and HKDF over SHA-256.
//! docs/formats/encryption.md shows the bytes; docs/decisions/0030-encryption-at-rest.md says against whom all this is of use.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod data_key;
pub mod engine_file;
mod error;
mod groups;
mod keystore;
mod master_key;
mod objects;
mod sealer;

pub use data_key::DataKey;
pub use error::{Error, Result};
pub use groups::GroupSeal;
pub use keystore::{KEYSTORE_FILE, Keystore, rotate};
pub use master_key::MasterKey;
pub use objects::ObjectSeal;
pub use sealer::{ADDED_BYTES, Sealer};
