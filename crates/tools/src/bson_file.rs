//! Documents one after the other in a file, of which any byte may be wrong.

use std::fmt;
use std::io::{self, Read};

use quarry_bson::{DOCUMENT_BYTES_INTERNAL_MAX, FRAME_BYTES, RawDocument};

use crate::error::{Error, Result};

/// A stream of bytes that knows its name and how far it is, for messages.
pub struct Source<R> {
    reader: R,
    name: String,
    /// Bytes read so far, as they are without compression.
    position: u64,
}

impl<R: Read> Source<R> {
    pub fn new(reader: R, name: impl Into<String>) -> Source<R> {
        Source {
            reader,
            name: name.into(),
            position: 0,
        }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// An error at a byte.
    pub fn damaged(&self, at: u64, what: impl fmt::Display) -> Error {
        Error::damaged(format_args!("`{}` at byte {at}", self.name), what)
    }

    /// Reads a little-endian number; none at the end.
    pub fn number(&mut self) -> Result<Option<u32>> {
        let at = self.position;
        let mut bytes = [0; 4];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read_some(&mut bytes[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(self.damaged(at, "the file is cut off within a length")),
                read => filled += read,
            }
        }
        Ok(Some(u32::from_le_bytes(bytes)))
    }

    /// Appends the rest of the document whose length has been read, and checks all of it.
    pub fn rest_of_document(&mut self, length: u32, out: &mut Vec<u8>) -> Result<()> {
        let at = self.position - 4;
        let bytes = length as usize;
        if !(FRAME_BYTES..=DOCUMENT_BYTES_INTERNAL_MAX).contains(&bytes) {
            let what = format!(
                "a document of {} bytes, where {FRAME_BYTES} to {DOCUMENT_BYTES_INTERNAL_MAX} are possible",
                length.cast_signed()
            );
            return Err(self.damaged(at, what));
        }
        let start = out.len();
        out.extend_from_slice(&length.to_le_bytes());
        out.resize(start + bytes, 0);
        let mut filled = start + 4;
        while filled < out.len() {
            match self.read_some(&mut out[filled..])? {
                0 => {
                    let what = format!(
                        "the file is cut off within a document of {bytes} bytes, of which {} are here",
                        filled - start
                    );
                    return Err(self.damaged(at, what));
                }
                read => filled += read,
            }
        }
        match RawDocument::validated_any_text(&out[start..]) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.damaged(at, error)),
        }
    }

    /// Appends the next document; false at the end.
    pub fn document(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        match self.number()? {
            None => Ok(false),
            Some(length) => self.rest_of_document(length, out).map(|()| true),
        }
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(into) {
                Ok(read) => {
                    self.position += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Of a damaged compressed file, too.
                Err(error) => return Err(self.damaged(self.position, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::doc;

    fn all(bytes: &[u8]) -> (usize, Option<String>) {
        let mut source = Source::new(bytes, "x.bson");
        let mut documents = 0;
        let mut out = Vec::new();
        loop {
            match source.document(&mut out) {
                Ok(true) => documents += 1,
                Ok(false) => return (documents, None),
                Err(error) => return (documents, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn damage_is_named_by_its_place() {
        let one = doc! { "a": 1 }.into_bytes();
        let mut two = one.clone();
        two.extend_from_slice(&one);
        assert_eq!(all(&two), (2, None));
        assert_eq!(all(&[]), (0, None));
        let place = format!("`x.bson` at byte {}: ", one.len());
        for cut in one.len() + 1..two.len() {
            let (documents, error) = all(&two[..cut]);
            let error = error.unwrap();
            assert_eq!(documents, 1);
            assert!(
                error.starts_with(&place) && error.contains("cut off"),
                "{error}"
            );
        }
        for (at, byte, said) in [
            (0, 4, "a document of 4 bytes"),
            (3, 0xFF, "a document of -"),
            (4, 0x77, ""),
        ] {
            let mut bad = two.clone();
            bad[one.len() + at] = byte;
            let error = all(&bad).1.unwrap();
            assert!(error.starts_with(&place) && error.contains(said), "{error}");
        }
    }
}
