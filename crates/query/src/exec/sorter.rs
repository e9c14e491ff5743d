//! Sorting in memory: rows of a sort key and a payload, in order, no more of them than are wanted.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::error::{Result, memory_exceeded};

/// As MongoDB: what a sort may hold.
pub const SORT_BYTES_MAX: usize = 100 * 1024 * 1024;

pub struct Sorter {
    rows: BinaryHeap<Row>,
    /// Rows that are asked for.
    wanted: usize,
    bytes: usize,
    sequence: u64,
}

#[derive(PartialEq, Eq)]
struct Row {
    bytes: Box<[u8]>,
    key_bytes: usize,
    /// Rows with equal keys stay in the order they came in.
    sequence: u64,
}

impl Sorter {
    pub fn new(wanted: Option<u64>) -> Sorter {
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        Sorter {
            rows: BinaryHeap::new(),
            wanted: wanted.unwrap_or(usize::MAX),
            bytes: 0,
            sequence: 0,
        }
    }

    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        if self.rows.len() >= self.wanted {
            let is_late = self.rows.peek().is_none_or(|last| key >= last.key());
            if is_late {
                return Ok(());
            }
            if let Some(last) = self.rows.pop() {
                self.bytes -= last.bytes.len() + size_of::<Row>();
            }
        }
        self.sequence += 1;
        let row = Row {
            bytes: [key, payload].concat().into_boxed_slice(),
            key_bytes: key.len(),
            sequence: self.sequence,
        };
        self.bytes += row.bytes.len() + size_of::<Row>();
        if self.bytes > SORT_BYTES_MAX {
            return Err(memory_exceeded("Sort", SORT_BYTES_MAX));
        }
        self.rows.push(row);
        Ok(())
    }

    /// The payloads in order.
    pub fn finish(self) -> Sorted {
        Sorted {
            rows: self.rows.into_sorted_vec().into_iter(),
        }
    }
}

pub struct Sorted {
    rows: std::vec::IntoIter<Row>,
}

impl Sorted {
    /// Hands the next payload to `take`; false at the end.
    pub fn next(&mut self, take: impl FnOnce(&[u8]) -> Result<()>) -> Result<bool> {
        match self.rows.next() {
            Some(row) => take(&row.bytes[row.key_bytes..]).map(|()| true),
            None => Ok(false),
        }
    }
}

impl Row {
    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        self.key()
            .cmp(other.key())
            .then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
