//! Type bits: the part of values that their key leaves out, because values of several types order together.
//!
//! Numbers and texts are counted as they are encoded. A value of its default type adds nothing; any
//! other adds one entry: a varint of `gap << 3 | tag`, where `gap` counts the defaults since the
//! entry before, and what the tag says follows. So keys of plain values have empty type bits.

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// The bytes that type bits hold without an allocation. Most keys that have type bits at all need fewer.
const INLINE_BYTES: usize = 24;

/// How a value differs from what its key alone would be decoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Double,
    NegativeZero,
    Int64,
    /// Sixteen bytes follow, as in a document.
    Decimal128([u8; 16]),
    /// A NaN that is not the common one: eight bytes follow, as in a document.
    DoubleBits([u8; 8]),
    Symbol,
}

/// The type bits of one key, appended to by [`crate::encode_value`].
#[derive(Clone, Debug, Default)]
pub struct TypeBits {
    bytes: SmallVec<[u8; INLINE_BYTES]>,
    gap: u32,
}

impl TypeBits {
    /// Type bits of no values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it for another key, keeping its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.gap = 0;
    }

    /// The bytes to store beside the key. They are empty when every value is of its default type.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Copies the bytes to store beside the key.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    /// Appends the bytes to store beside the key.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        if !self.bytes.is_empty() {
            out.extend_from_slice(&self.bytes);
        }
    }

    #[inline]
    pub(crate) fn push_default(&mut self) {
        self.gap += 1;
    }

    #[cold]
    pub(crate) fn push(&mut self, tag: Tag) {
        let (number, payload): (u64, &[u8]) = match &tag {
            Tag::Double => (0, &[]),
            Tag::NegativeZero => (1, &[]),
            Tag::Int64 => (2, &[]),
            Tag::Decimal128(bytes) => (3, bytes),
            Tag::DoubleBits(bytes) => (4, bytes),
            Tag::Symbol => (5, &[]),
        };
        let mut head = u64::from(self.gap) << 3 | number;
        while head >= 0x80 {
            self.bytes.push((head & 0x7F) as u8 | 0x80);
            head >>= 7;
        }
        self.bytes.push(head as u8);
        self.bytes.extend_from_slice(payload);
        self.gap = 0;
    }
}

/// Walks stored type bits beside the values of their key.
pub(crate) struct TypeBitsReader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Defaults before `tag`, where one has been read ahead.
    gap: u64,
    tag: Option<Tag>,
}

impl<'a> TypeBitsReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            gap: 0,
            tag: None,
        }
    }

    /// The tag of the next number or text; `None` for its default type.
    pub(crate) fn next(&mut self) -> Result<Option<Tag>> {
        if self.tag.is_none() {
            if self.position == self.bytes.len() {
                return Ok(None);
            }
            let head = self.varint()?;
            self.gap = head >> 3;
            self.tag = Some(self.tag_of((head & 7) as u8)?);
        }
        if self.gap > 0 {
            self.gap -= 1;
            return Ok(None);
        }
        Ok(self.tag.take())
    }

    pub(crate) fn offset(&self) -> usize {
        self.position
    }

    fn tag_of(&mut self, number: u8) -> Result<Tag> {
        Ok(match number {
            0 => Tag::Double,
            1 => Tag::NegativeZero,
            2 => Tag::Int64,
            3 => Tag::Decimal128(self.payload()?),
            4 => Tag::DoubleBits(self.payload()?),
            5 => Tag::Symbol,
            _ => return Err(self.error("a tag of 0 to 5")),
        })
    }

    fn varint(&mut self) -> Result<u64> {
        /// A gap has 32 bits and a tag 3: five bytes.
        const VARINT_BYTES_MAX: usize = 5;
        let mut number = 0;
        for i in 0..VARINT_BYTES_MAX {
            let Some(&byte) = self.bytes.get(self.position) else {
                break;
            };
            self.position += 1;
            number |= u64::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.error("a varint of at most five bytes"))
    }

    fn payload<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(&payload) = self.bytes[self.position..].first_chunk::<N>() else {
            return Err(self.error("the payload of a tag"));
        };
        self.position += N;
        Ok(payload)
    }

    fn error(&self, expected: &'static str) -> Error {
        Error::TypeBits {
            offset: self.position,
            expected,
        }
    }
}
