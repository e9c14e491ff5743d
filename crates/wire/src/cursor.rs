//! A bounds-checked walk over a message.

use quarry_bson::RawDocument;

use crate::error::{Error, Result};

pub(crate) struct Cursor<'a> {
    message: &'a [u8],
    position: usize,
    end: usize,
    has_deep_documents: bool,
}

impl<'a> Cursor<'a> {
    /// Walks `message` from `position` up to `end`.
    pub(crate) fn new(message: &'a [u8], position: usize, end: usize) -> Self {
        Self {
            message,
            position,
            end,
            has_deep_documents: false,
        }
    }

    /// Whether a document so far nests deeper than what may be stored.
    pub(crate) fn has_deep_documents(&self) -> bool {
        self.has_deep_documents
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position == self.end
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.message[self.position..self.end]
    }

    pub(crate) fn byte(&mut self, expected: &'static str) -> Result<u8> {
        let [byte] = self.array(expected)?;
        Ok(byte)
    }

    pub(crate) fn u32(&mut self, expected: &'static str) -> Result<u32> {
        self.array(expected).map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self, expected: &'static str) -> Result<i32> {
        self.array(expected).map(i32::from_le_bytes)
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N]> {
        let Some(&array) = self.rest().first_chunk::<N>() else {
            return Err(Error::malformed(self.position, expected));
        };
        self.position += N;
        Ok(array)
    }

    /// The text up to a NUL.
    pub(crate) fn text(&mut self, expected: &'static str) -> Result<&'a str> {
        let rest = self.rest();
        let text = memchr::memchr(0, rest)
            .and_then(|len| std::str::from_utf8(&rest[..len]).ok())
            .ok_or(Error::malformed(self.position, expected))?;
        self.position += text.len() + 1;
        Ok(text)
    }

    /// Cuts off the next `length` bytes as a walk of their own. `length` stood at `offset`.
    pub(crate) fn section(
        &mut self,
        length: usize,
        offset: usize,
        expected: &'static str,
    ) -> Result<Cursor<'a>> {
        if length > self.end - self.position {
            return Err(Error::Length {
                offset,
                length: length as i64,
                expected,
            });
        }
        let section = Cursor::new(self.message, self.position, self.position + length);
        self.position += length;
        Ok(section)
    }

    /// The document that stands next, validated but for its text: as MongoDB, the server stores text that is not UTF-8.
    pub(crate) fn document(&mut self) -> Result<RawDocument<'a>> {
        let offset = self.position;
        let expected = "the length of a document within the message";
        let length = self.i32(expected)?;
        self.position = offset;
        let bytes = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest().get(..length))
            .ok_or(Error::Length {
                offset,
                length: i64::from(length),
                expected,
            })?;
        let document = match RawDocument::validated_storable(bytes) {
            Some(document) => document,
            None => self.deep_document(bytes, offset)?,
        };
        self.position += bytes.len();
        Ok(document)
    }

    /// A command may nest deeper than what it stores; otherwise this finds the fault.
    #[cold]
    fn deep_document(&mut self, bytes: &'a [u8], offset: usize) -> Result<RawDocument<'a>> {
        let document = RawDocument::validated_any_text(bytes)
            .map_err(|source| Error::Document { offset, source })?;
        self.has_deep_documents = true;
        Ok(document)
    }
}
