//! A row that is sorted: its key, its payload, and its number among those that came.

use std::cmp::Ordering;

/// A row by its key; rows with equal keys by the order in which they came.
pub(crate) struct Row {
    /// The key and behind it the payload.
    bytes: Box<[u8]>,
    /// The first bytes of the key, which mostly tell rows apart, as a number: to compare two rows is to look at nothing else.
    prefix: u64,
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
        Row {
            prefix: prefix(&bytes[..key_bytes]),
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
        Row::held_bytes_of(self.bytes.len())
    }

    /// The memory of a row whose key and payload have so many bytes.
    pub fn held_bytes_of(bytes: usize) -> usize {
        bytes + size_of::<Row>()
    }
}

impl Ord for Row {
    #[inline]
    fn cmp(&self, other: &Row) -> Ordering {
        match self.prefix.cmp(&other.prefix) {
            // A key that ends within them is told from one that goes on with zeros by the keys themselves.
            Ordering::Equal => self
                .key()
                .cmp(other.key())
                .then(self.sequence.cmp(&other.sequence)),
            told => told,
        }
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

/// The first bytes of a key as a number, in the order of the bytes; zeros stand where the key has ended.
#[inline]
pub(super) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(first)
        }
    }
}
