//! How many bytes things take: the reading of integers, names and value sizes that every walker shares.
//!
//! Nothing here trusts its input: out-of-range reads give `None`. Names end at the first NUL, found eight
//! bytes at a time; a value's size follows from its type byte and, for some types, its leading length.

use crate::ElementType;

/// Bytes of the smallest document: a length and a terminator.
pub(crate) const DOCUMENT_BYTES_MIN: usize = 5;

#[inline(always)]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk::<4>()
        .map(|b| u32::from_le_bytes(*b))
}

/// A length as BSON writes it: a signed 32-bit number that must not be negative.
#[inline(always)]
pub(crate) fn read_len(bytes: &[u8], at: usize) -> Option<usize> {
    let len = read_u32(bytes, at)?;
    // Negative lengths become numbers above any slice's size, and every caller compares with one.
    Some(len as usize)
}

#[inline(always)]
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk::<8>()
        .map(|b| u64::from_le_bytes(*b))
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
pub(crate) const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A word whose lowest set bit is the high bit of the first zero byte of `word` (little-endian); bits above
/// that one may be wrong, as a borrow runs upwards.
#[inline(always)]
pub(crate) fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

/// The length of the name that starts `bytes`: the position of its NUL.
#[inline(always)]
pub(crate) fn name_len(bytes: &[u8]) -> Option<usize> {
    if let Some(word) = bytes.first_chunk::<8>() {
        let zeros = zero_bytes(u64::from_le_bytes(*word));
        if zeros != 0 {
            return Some((zeros.trailing_zeros() / 8) as usize);
        }
    }
    long_name_len(bytes)
}

/// Finds where names end, guessing that a name is as long as the one before.
///
/// The guess is worth its check: an element can only be looked at when the one before it has been measured, and
/// a guess that holds lets the processor run ahead instead of waiting for the search of each name's end.
#[derive(Clone, Debug)]
pub(crate) struct NameLens {
    len: usize,
    /// The high bit of the byte at `len`: where the NUL should show.
    bit: u64,
}

impl NameLens {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { len: 0, bit: 0x80 }
    }

    /// The length of the name that starts `bytes`, and its key: the name's first eight bytes, zeros behind a
    /// shorter one.
    #[inline(always)]
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Option<(usize, u64)> {
        let Some(first) = bytes.first_chunk::<8>() else {
            return short_name(bytes);
        };
        let word = u64::from_le_bytes(*first);
        let zeros = zero_bytes(word);
        if zeros & (self.bit | (self.bit - 1)) == self.bit {
            return Some((self.len, word & (self.bit - 1)));
        }
        if zeros == 0 {
            return Some((long_name_len(bytes)?, word));
        }
        self.len = (zeros.trailing_zeros() / 8) as usize;
        self.bit = zeros & zeros.wrapping_neg();
        Some((self.len, word & (self.bit - 1)))
    }
}

impl Default for NameLens {
    fn default() -> Self {
        Self::new()
    }
}

/// Fewer than eight bytes to the end of the document.
#[cold]
#[inline(never)]
fn short_name(bytes: &[u8]) -> Option<(usize, u64)> {
    let len = memchr::memchr(0, bytes)?;
    Some((len, name_key(&bytes[..len])))
}

/// The first eight bytes of a name, zeros behind a shorter one: names of up to seven bytes are their key.
#[inline(always)]
pub(crate) fn name_key(name: &[u8]) -> u64 {
    match name.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => short_word(name),
    }
}

/// Text of up to seven bytes, zeros behind it.
#[inline(always)]
pub(crate) fn short_word(text: &[u8]) -> u64 {
    match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(head), Some(tail)) => {
            u64::from(u32::from_le_bytes(*head))
                | u64::from(u32::from_le_bytes(*tail)) << (8 * (text.len() - 4))
        }
        _ => text
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// A name of eight bytes or more: word by word for as long as names usually are.
#[inline(never)]
fn long_name_len(bytes: &[u8]) -> Option<usize> {
    const WORDS_MAX: usize = 4;
    for (i, word) in bytes.as_chunks::<8>().0.iter().take(WORDS_MAX).enumerate() {
        let zeros = zero_bytes(u64::from_le_bytes(*word));
        if zeros != 0 {
            return Some(i * 8 + (zeros.trailing_zeros() / 8) as usize);
        }
    }
    memchr::memchr(0, bytes)
}

/// Evaluates an expression with the type of a type byte and the size of the value that starts at `at` in
/// `bytes`. Where the type is unknown, or the value does not hold together, the function around it returns
/// `None`; the size may still exceed what `bytes` have, which the expression compares anyway.
///
/// The expression stands in the way of each common type, so that whatever it decides by the type is decided
/// already: a macro, for a closure is not inlined thirteen times whenever the compiler feels otherwise. A size
/// that the type alone decides looks at no byte of the value.
macro_rules! by_type {
    ($tag:expr, $bytes:expr, $at:expr, |$element_type:ident, $size:ident| $then:expr) => {{
        macro_rules! then {
            ($type:expr, $bytes_of_it:expr) => {{
                let ($element_type, $size): ($crate::ElementType, usize) = ($type, $bytes_of_it);
                $then
            }};
        }
        use $crate::{ElementType as Type, layout};
        match $tag {
            0x10 => then!(Type::Int32, 4),
            0x02 => then!(Type::String, layout::text_bytes($bytes, $at)?),
            0x12 => then!(Type::Int64, 8),
            0x01 => then!(Type::Double, 8),
            0x08 => then!(Type::Boolean, 1),
            0x09 => then!(Type::DateTime, 8),
            0x03 => then!(Type::Document, layout::frame_bytes($bytes, $at)?),
            0x04 => then!(Type::Array, layout::frame_bytes($bytes, $at)?),
            0x07 => then!(Type::ObjectId, 12),
            0x0A => then!(Type::Null, 0),
            0x05 => then!(Type::Binary, 5 + layout::read_len($bytes, $at)?),
            0x11 => then!(Type::Timestamp, 8),
            rare => {
                let (rare_type, rare_bytes) = layout::rare_type_and_bytes(rare, $bytes, $at)?;
                then!(rare_type, rare_bytes)
            }
        }
    }};
}
pub(crate) use by_type;

/// The size of a value of a type that is known.
pub(crate) fn value_bytes(tag: u8, rest: &[u8]) -> Option<usize> {
    by_type!(tag, rest, 0, |_element_type, size| Some(size))
}

/// A length, text and NUL.
#[inline(always)]
pub(crate) fn text_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    match read_len(bytes, at)? {
        0 => None,
        len => Some(4 + len),
    }
}

#[inline(always)]
pub(crate) fn frame_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    match read_len(bytes, at)? {
        0..DOCUMENT_BYTES_MIN => None,
        len => Some(len),
    }
}

#[inline(never)]
pub(crate) fn rare_type_and_bytes(
    tag: u8,
    bytes: &[u8],
    at: usize,
) -> Option<(ElementType, usize)> {
    let element_type = ElementType::from_u8(tag)?;
    let size = match element_type {
        ElementType::JavaScript | ElementType::Symbol => text_bytes(bytes, at)?,
        _ => rare_value_bytes(tag, bytes.get(at..)?)?,
    };
    Some((element_type, size))
}

#[inline(never)]
fn rare_value_bytes(tag: u8, rest: &[u8]) -> Option<usize> {
    Some(match tag {
        0x06 | 0xFF | 0x7F => 0,
        0x13 => 16,
        0x0B => {
            let pattern = memchr::memchr(0, rest)?;
            pattern + 2 + memchr::memchr(0, &rest[pattern + 1..])?
        }
        0x0C => match read_len(rest, 0)? {
            0 => return None,
            len => 4 + len + 12,
        },
        0x0F => {
            let total = read_len(rest, 0)?;
            let code = read_len(rest, 4)?;
            let scope = read_len(rest, 8usize.checked_add(code)?)?;
            if code == 0 || scope < DOCUMENT_BYTES_MIN || total != 8 + code + scope {
                return None;
            }
            total
        }
        _ => return None,
    })
}

/// The first byte that JSON writes as an escape: a quote, a backslash or a control character.
#[inline]
pub(crate) fn escape_at(text: &[u8]) -> Option<usize> {
    const BLOCK_BYTES: usize = 32;
    let escaped = |b: &u8| (*b < 0x20) | (*b == b'"') | (*b == b'\\');
    // A whole block is looked at without a branch, so that it becomes a few vector instructions.
    let (blocks, _) = text.as_chunks::<BLOCK_BYTES>();
    let clean = blocks
        .iter()
        .take_while(|block| !block.iter().fold(false, |found, b| found | escaped(b)));
    let start = clean.count() * BLOCK_BYTES;
    text[start..].iter().position(escaped).map(|at| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_nul_whatever_follows() {
        for len in 0..40 {
            let mut bytes = vec![b'x'; len];
            bytes.push(0);
            assert_eq!(name_len(&bytes), Some(len));
            bytes.extend([0, 1, 0, 0, 0xff, 0, 0, 0, 0]);
            assert_eq!(name_len(&bytes), Some(len));
            assert_eq!(name_len(&bytes[..len]), None);
        }
    }

    #[test]
    fn lengths_that_lie_have_no_size() {
        assert_eq!(value_bytes(0x02, &[0, 0, 0, 0, 0]), None);
        assert_eq!(value_bytes(0x03, &[4, 0, 0, 0, 0]), None);
        assert!(value_bytes(0x02, &[0xff, 0xff, 0xff, 0xff]).is_none_or(|n| n > 1 << 31));
        assert_eq!(value_bytes(0x0F, &[0xff; 16]), None);
        assert_eq!(value_bytes(0x0B, b"ab\0c"), None);
        assert_eq!(value_bytes(0x0B, b"ab\0c\0"), Some(5));
        assert_eq!(value_bytes(0x14, &[0; 32]), None);
    }
}
