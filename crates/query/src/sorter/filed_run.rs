//! A sorted run in a file. The file is a stream of rows that blocks cut anywhere; a row is
//!
//! ```text
//! bytes of the key      u32, big-endian, as all of them
//! bytes of key and payload  u32
//! sequence              u64
//! key, payload
//! ```

use super::row::Row;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::memory::Charge;
use crate::spilling::{BLOCK_BYTES, SpillFile, SpillSpace, Spilled};

const HEAD_BYTES: usize = 16;

/// A run that is being written.
pub(super) struct RunWriter {
    file: Box<dyn SpillFile>,
    /// The bytes that are no whole block yet.
    block: Vec<u8>,
    written: Spilled,
}

/// A run that is read: the rows that it has not given yet.
pub(super) struct FiledRun {
    file: Box<dyn SpillFile>,
    /// The rows that were read and not given yet begin at `position`.
    read: Vec<u8>,
    position: usize,
    charge: Charge,
}

impl RunWriter {
    pub fn create(space: &dyn SpillSpace) -> Result<RunWriter> {
        Ok(RunWriter {
            file: space.create()?,
            block: Vec::with_capacity(BLOCK_BYTES),
            written: Spilled {
                spills: 1,
                ..Spilled::default()
            },
        })
    }

    pub fn push(&mut self, row: &Row) -> Result<()> {
        let bytes = row.bytes();
        interrupts::work_on_bytes(bytes.len())?;
        let length = |bytes: usize| {
            u32::try_from(bytes).map_err(|_| Error::bad_value("a row is too long to be spilled"))
        };
        self.put(&length(row.key().len())?.to_be_bytes())?;
        self.put(&length(bytes.len())?.to_be_bytes())?;
        self.put(&row.sequence().to_be_bytes())?;
        self.put(bytes)?;
        self.written.records += 1;
        self.written.bytes += (HEAD_BYTES + bytes.len()) as u64;
        Ok(())
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.block.len() + bytes.len() >= BLOCK_BYTES {
            let (now, later) = bytes.split_at(BLOCK_BYTES - self.block.len());
            self.block.extend_from_slice(now);
            self.flush()?;
            bytes = later;
        }
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        interrupts::check()?;
        self.written.stored_bytes += self.file.append(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// The run to read, and what was written.
    pub fn finish(mut self) -> Result<(FiledRun, Spilled)> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        let run = FiledRun {
            file: self.file,
            read: Vec::new(),
            position: 0,
            charge: Charge::default(),
        };
        Ok((run, self.written))
    }
}

impl FiledRun {
    /// The next row, None at the end.
    pub fn next(&mut self) -> Result<Option<Row>> {
        if !self.fill(HEAD_BYTES)? {
            return match self.read.len() == self.position {
                true => Ok(None),
                false => Err(cut()),
            };
        }
        let head = &self.read[self.position..];
        let number = |at: usize| {
            let bytes = head[at..at + 4].try_into().expect("four bytes");
            u32::from_be_bytes(bytes) as usize
        };
        let (key_bytes, row_bytes) = (number(0), number(4));
        let sequence = u64::from_be_bytes(head[8..16].try_into().expect("eight bytes"));
        if key_bytes > row_bytes {
            return Err(cut());
        }
        if !self.fill(HEAD_BYTES + row_bytes)? {
            return Err(cut());
        }
        let start = self.position + HEAD_BYTES;
        let bytes = self.read[start..start + row_bytes].into();
        self.position = start + row_bytes;
        Ok(Some(Row::of_bytes(bytes, key_bytes, sequence)))
    }

    /// Reads until so many bytes are here; false where the file ends before.
    fn fill(&mut self, bytes: usize) -> Result<bool> {
        while self.read.len() - self.position < bytes {
            self.read.drain(..self.position);
            self.position = 0;
            if !self.file.read_block(&mut self.read)? {
                return Ok(false);
            }
            interrupts::work_on_bytes(BLOCK_BYTES)?;
            let room = self.read.capacity();
            self.charge.grow(room.saturating_sub(self.charge.bytes()))?;
        }
        Ok(true)
    }
}

#[cold]
fn cut() -> Error {
    Error::new(
        ErrorCode::DATA_CORRUPTION_DETECTED,
        "a spilled row is not what was written",
    )
}
