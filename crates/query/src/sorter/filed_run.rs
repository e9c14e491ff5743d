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
    longest_row: usize,
    written: Spilled,
}

/// A run that is read: the rows that it has not given yet.
pub(super) struct FiledRun {
    file: Box<dyn SpillFile>,
    /// The block that was read last. What was not given yet begins at `position`.
    read: Vec<u8>,
    position: usize,
    /// The head of the row that is being read.
    head: Vec<u8>,
    /// The bytes of the longest row.
    longest_row: usize,
    block_charge: Charge,
    /// For the row that was given last, which waits in the merge until the next one is asked for.
    row_charge: Charge,
}

impl RunWriter {
    pub fn create(space: &dyn SpillSpace) -> Result<RunWriter> {
        Ok(RunWriter {
            file: space.create()?,
            block: Vec::with_capacity(BLOCK_BYTES),
            longest_row: 0,
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
        self.longest_row = self.longest_row.max(bytes.len());
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
            head: Vec::new(),
            longest_row: self.longest_row,
            block_charge: Charge::default(),
            row_charge: Charge::default(),
        };
        Ok((run, self.written))
    }
}

impl FiledRun {
    /// The memory that the run takes while it is merged: a block, and its longest row.
    pub fn merge_bytes(&self) -> usize {
        BLOCK_BYTES + self.longest_row + size_of::<Row>()
    }

    /// The next row, None at the end. The one that was given before is counted no longer.
    pub fn next(&mut self) -> Result<Option<Row>> {
        self.row_charge = Charge::default();
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        self.read_on(HEAD_BYTES, &mut head)?;
        if head.is_empty() {
            return Ok(None);
        }
        let (key_bytes, row_bytes, sequence) = parse_head(&head).ok_or_else(cut)?;
        self.head = head;
        if key_bytes > row_bytes || row_bytes > self.longest_row {
            return Err(cut());
        }
        self.row_charge.grow(row_bytes + size_of::<Row>())?;
        let mut row = Vec::with_capacity(row_bytes);
        self.read_on(row_bytes, &mut row)?;
        match row.len() == row_bytes {
            true => Ok(Some(Row::of_bytes(row.into(), key_bytes, sequence))),
            false => Err(cut()),
        }
    }

    /// Appends so many of the bytes that come next; fewer where the file ends before.
    fn read_on(&mut self, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let end = out.len() + bytes;
        loop {
            let left = &self.read[self.position..];
            let now = left.len().min(end - out.len());
            out.extend_from_slice(&left[..now]);
            self.position += now;
            if out.len() == end {
                return Ok(());
            }
            self.read.clear();
            self.position = 0;
            if self.read.capacity() == 0 {
                self.block_charge.grow(BLOCK_BYTES)?;
                self.read.reserve_exact(BLOCK_BYTES);
            }
            if !self.file.read_block(&mut self.read)? {
                return Ok(());
            }
            interrupts::work_on_bytes(BLOCK_BYTES)?;
        }
    }
}

/// The bytes of the key, those of the row, and its sequence; None where the head was cut off.
fn parse_head(head: &[u8]) -> Option<(usize, usize, u64)> {
    let (key_bytes, rest) = head.split_first_chunk()?;
    let (row_bytes, rest) = rest.split_first_chunk()?;
    let (sequence, _) = rest.split_first_chunk()?;
    Some((
        u32::from_be_bytes(*key_bytes) as usize,
        u32::from_be_bytes(*row_bytes) as usize,
        u64::from_be_bytes(*sequence),
    ))
}

#[cold]
fn cut() -> Error {
    Error::new(
        ErrorCode::DATA_CORRUPTION_DETECTED,
        "a spilled row is not what was written",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    struct Blocks(VecDeque<Vec<u8>>);

    impl SpillFile for Blocks {
        fn append(&mut self, block: &[u8]) -> Result<u64> {
            self.0.push_back(block.to_vec());
            Ok(block.len() as u64)
        }

        fn read_block(&mut self, out: &mut Vec<u8>) -> Result<bool> {
            let block = self.0.pop_front();
            out.extend(block.iter().flatten());
            Ok(block.is_some())
        }
    }

    struct InMemory;

    impl SpillSpace for InMemory {
        fn create(&self) -> Result<Box<dyn SpillFile>> {
            Ok(Box::new(Blocks(VecDeque::new())))
        }
    }

    #[test]
    fn a_run_counts_a_block_and_the_row_that_it_gave_last() {
        let lengths = [0, 10, 3 * BLOCK_BYTES + 7, 1, BLOCK_BYTES - HEAD_BYTES, 5];
        let mut writer = RunWriter::create(&InMemory).unwrap();
        for (sequence, length) in (0..).zip(lengths) {
            let payload = vec![sequence as u8; length];
            writer.push(&Row::new(b"k", &payload, sequence)).unwrap();
        }
        let (mut run, written) = writer.finish().unwrap();
        assert_eq!(written.records, lengths.len() as u64);
        for (sequence, length) in (0_u64..).zip(lengths) {
            let row = run.next().unwrap().unwrap();
            assert_eq!((row.key(), row.sequence()), (&b"k"[..], sequence));
            assert_eq!(row.payload(), vec![sequence as u8; length]);
            assert_eq!(run.row_charge.bytes(), row.held_bytes());
            assert_eq!(run.block_charge.bytes(), BLOCK_BYTES);
            assert!(run.read.capacity() <= BLOCK_BYTES);
            assert!(row.held_bytes() + BLOCK_BYTES <= run.merge_bytes());
        }
        assert!(run.next().unwrap().is_none());
        assert_eq!(run.row_charge.bytes(), 0);
    }
}
