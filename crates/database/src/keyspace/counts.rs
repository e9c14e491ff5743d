//! The counters of a collection, as they stand under its key.

/// Document count and data size of one collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of documents.
    pub documents: u64,
    /// The bytes of documents.
    pub bytes: u64,
}

impl Counts {
    pub(crate) fn change(&mut self, documents: i64, bytes: i64) {
        debug_assert!(
            self.documents.checked_add_signed(documents).is_some()
                && self.bytes.checked_add_signed(bytes).is_some(),
            "no more goes out of a collection than is in it: {self:?} {documents} {bytes}"
        );
        self.documents = self.documents.saturating_add_signed(documents);
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }
}

pub(crate) fn encode_counts(counts: Counts) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&counts.documents.to_le_bytes());
    value[8..].copy_from_slice(&counts.bytes.to_le_bytes());
    value
}

pub(crate) fn decode_counts(value: &[u8]) -> Counts {
    let number = |range: std::ops::Range<usize>| {
        value
            .get(range)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    Counts {
        documents: number(0..8),
        bytes: number(8..16),
    }
}
