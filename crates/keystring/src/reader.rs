//! A walk over the bytes of a key that undoes inversion as it goes.

use crate::Direction;
use crate::error::{Error, Result};

/// The escape of a text: stands before 0x01 for a NUL and before 0x02 for itself.
pub(crate) const ESCAPE: u8 = 0x01;
/// Ends a text. Nothing inside a text encodes to it, so what follows the text does not matter.
pub(crate) const TERMINATOR: u8 = 0x00;

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// 0xFF while bytes stand inverted, else 0.
    mask: u8,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            mask: 0,
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn set_direction(&mut self, direction: Direction) {
        self.mask = match direction {
            Direction::Ascending => 0,
            Direction::Descending => 0xFF,
        };
    }

    /// Bytes of negative numbers stand inverted once more.
    pub(crate) fn invert(&mut self) {
        self.mask = !self.mask;
    }

    pub(crate) fn error(&self, expected: &'static str) -> Error {
        Error::Key {
            offset: self.position,
            expected,
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8> {
        let Some(&byte) = self.bytes.get(self.position) else {
            return Err(self.error("another byte"));
        };
        self.position += 1;
        Ok(byte ^ self.mask)
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).map(|byte| byte ^ self.mask)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(&array) = self.bytes[self.position..].first_chunk::<N>() else {
            return Err(self.error("a value of fixed size"));
        };
        self.position += N;
        Ok(array.map(|byte| byte ^ self.mask))
    }

    pub(crate) fn skip(&mut self, bytes: usize) -> Result<()> {
        if self.bytes.len() - self.position < bytes {
            return Err(self.error("as many bytes as the length says"));
        }
        self.position += bytes;
        Ok(())
    }

    pub(crate) fn take(&mut self, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = self.position;
        self.skip(bytes)?;
        out.extend(
            self.bytes[start..self.position]
                .iter()
                .map(|byte| byte ^ self.mask),
        );
        Ok(())
    }

    /// Up to and over the terminator of a text or name; returns where what it ends lies.
    fn terminated(&mut self) -> Result<std::ops::Range<usize>> {
        let start = self.position;
        let Some(len) = memchr::memchr(TERMINATOR ^ self.mask, &self.bytes[start..]) else {
            return Err(self.error("a terminator"));
        };
        self.position += len + 1;
        Ok(start..start + len)
    }

    pub(crate) fn skip_text(&mut self) -> Result<()> {
        self.terminated().map(drop)
    }

    /// Appends a field's name: bytes without escapes.
    pub(crate) fn name(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let range = self.terminated()?;
        out.extend(self.bytes[range].iter().map(|byte| byte ^ self.mask));
        Ok(())
    }

    /// Appends a text without its escapes.
    pub(crate) fn text(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let range = self.terminated()?;
        let mut bytes = self.bytes[range.clone()]
            .iter()
            .map(|byte| byte ^ self.mask);
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                ESCAPE => match bytes.next() {
                    Some(0x01) => 0x00,
                    Some(0x02) => 0x01,
                    _ => {
                        return Err(Error::Key {
                            offset: range.start,
                            expected: "a text with 0x01 or 0x02 behind each escape",
                        });
                    }
                },
                plain => plain,
            });
        }
        Ok(())
    }
}
