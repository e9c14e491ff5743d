//! A sorted run in a file, where others may stand before and behind it. A run is a stream of rows that blocks cut anywhere; it begins
//! with a block of its own. A row is
//!
//! ```text
//! bytes of the key      u32, big-endian, as all of them
//! bytes of key and payload  u32
//! sequence              u64
//! key, payload
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::row::Row;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::memory::Charge;
use crate::spilling::{BLOCK_BYTES, BlockPlace, SpillFile, SpillSpace, Spilled};

const HEAD_BYTES: usize = 16;

/// A file of several runs. It is gone with the last of them, and only one thread asks for it at a time: that of the sort.
#[derive(Clone)]
pub(super) struct RunFile(Arc<Mutex<Box<dyn SpillFile>>>);

/// A run that is being written.
pub(super) struct RunWriter {
    file: RunFile,
    /// The run's first block.
    begin: BlockPlace,
    /// The bytes that are no whole block yet.
    block: Vec<u8>,
    longest_row: usize,
    written: Spilled,
}

/// A run that is read: the rows that it has not given yet.
pub(super) struct FiledRun {
    file: RunFile,
    /// The block that is read next, and the first one that is not the run's.
    next: BlockPlace,
    end: BlockPlace,
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

impl RunFile {
    pub fn create(space: &dyn SpillSpace) -> Result<RunFile> {
        Ok(RunFile(Arc::new(Mutex::new(space.create()?))))
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn SpillFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunWriter {
    /// Begins a run at the end of the file, which gets no other one before this is finished.
    pub fn begin(file: RunFile) -> RunWriter {
        let begin = file.lock().end();
        RunWriter {
            file,
            begin,
            block: Vec::with_capacity(BLOCK_BYTES),
            longest_row: 0,
            written: Spilled {
                spills: 1,
                ..Spilled::default()
            },
        }
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
        self.written.stored_bytes += self.file.lock().append(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// The run to read, and what was written.
    pub fn finish(mut self) -> Result<(FiledRun, Spilled)> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        let end = self.file.lock().end();
        let run = FiledRun {
            file: self.file,
            next: self.begin,
            end,
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

    /// Appends so many of the bytes that come next; fewer where the run ends before.
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
            if self.next.number >= self.end.number {
                return Ok(());
            }
            if self.read.capacity() == 0 {
                self.block_charge.grow(BLOCK_BYTES)?;
                self.read.reserve_exact(BLOCK_BYTES);
            }
            self.file
                .lock()
                .read_block(&mut self.next, &mut self.read)?;
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
    use super::*;

    struct Blocks(Vec<Vec<u8>>);

    impl SpillFile for Blocks {
        fn end(&self) -> BlockPlace {
            BlockPlace {
                number: self.0.len() as u32,
                position: 0,
            }
        }

        fn append(&mut self, block: &[u8]) -> Result<u64> {
            self.0.push(block.to_vec());
            Ok(block.len() as u64)
        }

        fn read_block(&mut self, place: &mut BlockPlace, out: &mut Vec<u8>) -> Result<()> {
            out.extend_from_slice(&self.0[place.number as usize]);
            place.number += 1;
            Ok(())
        }
    }

    const LENGTHS: [usize; 6] = [0, 10, 3 * BLOCK_BYTES + 7, 1, BLOCK_BYTES - HEAD_BYTES, 5];

    fn in_memory() -> RunFile {
        RunFile(Arc::new(Mutex::new(Box::new(Blocks(Vec::new())))))
    }

    /// A run of rows of these lengths, whose keys say which run it is.
    fn written(file: &RunFile, key: u8) -> FiledRun {
        let mut writer = RunWriter::begin(file.clone());
        for (sequence, length) in (0..).zip(LENGTHS) {
            let payload = vec![sequence as u8; length];
            writer.push(&Row::new(&[key], &payload, sequence)).unwrap();
        }
        let (run, written) = writer.finish().unwrap();
        assert_eq!(written.records, LENGTHS.len() as u64);
        run
    }

    #[test]
    fn a_run_counts_a_block_and_the_row_that_it_gave_last() {
        let mut run = written(&in_memory(), b'k');
        for (sequence, length) in (0_u64..).zip(LENGTHS) {
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

    #[test]
    fn runs_that_share_a_file_are_read_in_turns_and_end_where_they_end() {
        let file = in_memory();
        let mut runs = [b'a', b'b', b'c'].map(|key| written(&file, key));
        for sequence in 0..LENGTHS.len() as u64 {
            for (run, key) in runs.iter_mut().zip(*b"abc") {
                let row = run.next().unwrap().unwrap();
                assert_eq!((row.key(), row.sequence()), (&[key][..], sequence));
            }
        }
        for run in &mut runs {
            assert!(run.next().unwrap().is_none());
        }
        // An empty one has no block.
        let (mut empty, _) = RunWriter::begin(file).finish().unwrap();
        assert!(empty.next().unwrap().is_none());
    }
}
