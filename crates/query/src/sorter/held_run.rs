//! A sorted run in memory: rows in order, one behind the other in blocks that are given back as they have been read. To merge runs is
//! to read each of them from its beginning to its end, wherever its rows came from.
//!
//! ```text
//! bytes of the key      u32
//! bytes of key and payload  u32
//! sequence              u64
//! key, payload
//! ```

use std::collections::VecDeque;

use super::row::{Row, prefix};
use crate::error::{Error, Result};
use crate::interrupts;

/// The bytes of a block. A row is not cut.
const BLOCK_BYTES: usize = 64 * 1024;

/// A row that takes a block of its own is a run of its own, which is never copied.
pub(super) const ROW_BYTES_MAX: usize = BLOCK_BYTES;

/// Rows that are sorted at once, and their bytes, about as many as a processor has at hand. With one more row they still fit into
/// a buffer of a MiB.
const ROWS: usize = 8192;
const BYTES: usize = if cfg!(test) {
    8 * 1024
} else {
    (1 << 20) - ROW_BYTES_MAX
};

const HEAD_BYTES: usize = 16;

/// The work of finding a row's place in its run.
const UNITS_OF_A_ROW: usize = 40;

/// Rows as they came.
#[derive(Default)]
pub(super) struct Filling {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// A row within `Filling`.
struct Place {
    prefix: u64,
    start: usize,
    key_bytes: u32,
    bytes: u32,
    sequence: u64,
}

/// The rows of a run that were not read yet.
pub(super) struct HeldRun {
    blocks: VecDeque<Vec<u8>>,
    /// Where the next row begins in the first block.
    position: usize,
}

impl Filling {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether it is time to sort.
    pub fn is_full(&self) -> bool {
        self.places.len() >= ROWS || self.bytes.len() >= BYTES
    }

    /// The memory of its buffers, which stays when the rows have been copied into a run.
    pub fn buffer_bytes(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<Place>()
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], payload: &[u8], sequence: u64) -> Result<()> {
        let too_long = |_| Error::bad_value("a row is too long to be sorted");
        self.places.push(Place {
            prefix: prefix(key),
            start: self.bytes.len(),
            key_bytes: u32::try_from(key.len()).map_err(too_long)?,
            bytes: u32::try_from(key.len() + payload.len()).map_err(too_long)?,
            sequence,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        Ok(())
    }

    /// Makes a run of the rows; none are left.
    pub fn sort(&mut self) -> Result<HeldRun> {
        let Filling { bytes, places } = self;
        interrupts::work(places.len() * UNITS_OF_A_ROW)?;
        let key = |place: &Place| &bytes[place.start..place.start + place.key_bytes as usize];
        places.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            let by_key = by_prefix.then_with(|| key(a).cmp(key(b)));
            by_key.then(a.sequence.cmp(&b.sequence))
        });
        let mut blocks = VecDeque::new();
        let mut block = Vec::new();
        for place in &*places {
            let row = &bytes[place.start..place.start + place.bytes as usize];
            if block.len() + HEAD_BYTES + row.len() > BLOCK_BYTES && !block.is_empty() {
                blocks.push_back(std::mem::take(&mut block));
            }
            if block.capacity() == 0 {
                block.reserve_exact(BLOCK_BYTES.max(HEAD_BYTES + row.len()));
            }
            block.extend_from_slice(&place.key_bytes.to_ne_bytes());
            block.extend_from_slice(&place.bytes.to_ne_bytes());
            block.extend_from_slice(&place.sequence.to_ne_bytes());
            block.extend_from_slice(row);
        }
        block.shrink_to_fit();
        blocks.push_back(block);
        places.clear();
        bytes.clear();
        Ok(HeldRun {
            blocks,
            position: 0,
        })
    }
}

impl HeldRun {
    /// The next row, None at the end.
    pub fn next(&mut self) -> Option<Row> {
        let mut left = self.blocks.front()?.get(self.position..)?;
        if left.is_empty() {
            self.blocks.pop_front();
            self.position = 0;
            left = self.blocks.front()?;
        }
        let (key_bytes, rest) = left.split_first_chunk()?;
        let (row_bytes, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let row = rest.get(..u32::from_ne_bytes(*row_bytes) as usize)?;
        self.position += HEAD_BYTES + row.len();
        Some(Row::of_bytes(
            row.into(),
            u32::from_ne_bytes(*key_bytes) as usize,
            u64::from_ne_bytes(*sequence),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_gives_its_rows_in_order_whatever_their_size() {
        let mut filling = Filling::default();
        assert!(filling.is_empty());
        for (sequence, (key, payload)) in [
            ("b", 3),
            ("", BLOCK_BYTES),
            ("abcdefgh2", 0),
            ("abcdefgh1", 70_000),
            ("b", 0),
            ("b\0", 9),
        ]
        .into_iter()
        .enumerate()
        {
            let payload = vec![sequence as u8; payload];
            filling
                .push(key.as_bytes(), &payload, sequence as u64)
                .unwrap();
        }
        assert!(filling.is_full());
        let mut run = filling.sort().unwrap();
        assert!(filling.is_empty());
        let rows: Vec<Row> = std::iter::from_fn(|| run.next()).collect();
        let shown: Vec<_> = (rows.iter())
            .map(|row| (row.key(), row.payload().len(), row.sequence()))
            .collect();
        let expected: [(&[u8], usize, u64); 6] = [
            (b"", BLOCK_BYTES, 1),
            (b"abcdefgh1", 70_000, 3),
            (b"abcdefgh2", 0, 2),
            (b"b", 3, 0),
            (b"b", 0, 4),
            (b"b\0", 9, 5),
        ];
        assert_eq!(shown, expected);
        assert!(rows.iter().all(|row| {
            row.payload()
                .iter()
                .all(|byte| *byte as u64 == row.sequence())
        }));
        assert!(run.next().is_none());
    }
}
