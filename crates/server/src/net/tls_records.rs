//! Where the bytes that a client sends are in its stream of TLS records: between two, or within one.
//!
//! The session hides that. Who waits for a client has to know, because a record that has begun and does not come is what half a message
//! is on a plain stream.

use std::io::{self, Read};

/// Type, version and length.
const HEAD_BYTES: usize = 5;

/// The place in the stream that all bytes so far have come to.
#[derive(Default)]
pub struct Records {
    head: [u8; HEAD_BYTES],
    /// How much of a head has come; 0 where none has begun.
    head_bytes: usize,
    /// How much of the body is missing whose head has come.
    missing: usize,
    /// Records that have come whole; it may wrap.
    whole: u32,
}

impl Records {
    /// Whether a record has begun and has not ended.
    pub fn is_within_one(&self) -> bool {
        self.head_bytes > 0 || self.missing > 0
    }

    /// How many have come whole. It wraps: it tells whether one more has.
    pub fn whole(&self) -> u32 {
        self.whole
    }

    /// Notes the bytes that have come.
    fn note(&mut self, mut came: &[u8]) {
        while let Some(first) = came.first() {
            if self.missing > 0 {
                let bytes = came.len().min(self.missing);
                self.missing -= bytes;
                came = &came[bytes..];
            } else {
                self.head[self.head_bytes] = *first;
                self.head_bytes += 1;
                came = &came[1..];
                if self.head_bytes < HEAD_BYTES {
                    continue;
                }
                self.head_bytes = 0;
                self.missing = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
            }
            if self.missing == 0 {
                self.whole = self.whole.wrapping_add(1);
            }
        }
    }
}

/// A stream whose bytes are noted as they are read.
pub struct Noted<'a, R> {
    /// The stream.
    pub from: R,
    /// Where its bytes are noted.
    pub records: &'a mut Records,
}

impl<R: Read> Read for Noted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        self.records.note(&buffer[..bytes]);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_begin_and_end_wherever_the_bytes_are_cut() {
        let one = |body: &[u8]| [&[23, 3, 3, 0, body.len() as u8], body].concat();
        let stream = [one(b"abc"), one(b""), one(b"d")].concat();
        let ends = [8, 13, 19];
        for step in 1..=stream.len() {
            let mut records = Records::default();
            let mut came = 0;
            for part in stream.chunks(step) {
                records.note(part);
                came += part.len();
                let whole = ends.iter().filter(|end| **end <= came).count();
                assert_eq!(records.whole() as usize, whole, "{came} by {step}");
                let is_within = !(came == 0 || ends.contains(&came));
                assert_eq!(records.is_within_one(), is_within, "{came} by {step}");
            }
        }
    }
}
