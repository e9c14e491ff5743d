//! A row that is sorted: its key, its payload, and its number among those that came.

use std::cmp::Ordering;

/// A row by its key; rows with equal keys by the order in which they came.
pub(crate) struct Row {
    /// The key and behind it the payload.
    bytes: Box<[u8]>,
    key_bytes: usize,
    sequence: u64,
}

impl Row {
    pub fn new(key: &[u8], payload: &[u8], sequence: u64) -> Row {
        Row::of_bytes(
            [key, payload].concat().into_boxed_slice(),
            key.len(),
            sequence,
        )
    }

    /// A row of its bytes, of which the first `key_bytes` are the key.
    pub(super) fn of_bytes(bytes: Box<[u8]>, key_bytes: usize, sequence: u64) -> Row {
        debug_assert!(key_bytes <= bytes.len());
        Row {
            bytes,
            key_bytes,
            sequence,
        }
    }

    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.key_bytes..]
    }

    /// The key and behind it the payload.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + size_of::<Row>()
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

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}
