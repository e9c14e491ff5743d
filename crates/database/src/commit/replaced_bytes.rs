//! How many bytes commits have taken out of the latest state: what an engine keeps as long as a snapshot from before can see them.
//!
//! It is one number that only rises. Whoever makes a snapshot notes it before; what it has risen by since is about the most that
//! the engine keeps for that snapshot, and for all that were made later: of a document that was changed ten times since it counts all ten,
//! where RocksDB keeps one.
//!
//! Kept true: it rises when the engine has what it counts, and not before, so that a snapshot which lacks a commit was
//! noted with a number which lacks it, too.
//!
//! Leaves out: what replaced index entries hold beside their keys, and what a database replays at its start, where nobody reads it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quarry_storage::{Engine, Op, WriteBatch};

use super::changed_records::last_of_each_key;
use super::payload::{Payload, REPEATS};

#[derive(Default)]
pub(super) struct ReplacedBytes {
    by_records: AtomicU64,
    by_drops: AtomicU64,
}

impl ReplacedBytes {
    /// The engine has records that replace so much.
    pub fn note_records(&self, bytes: u64) {
        self.by_records.fetch_add(bytes, Relaxed);
    }

    /// Dropped collections and indexes of so many bytes wait from now on until nobody is left who began before.
    pub fn note_drops(&self, bytes: u64) {
        self.by_drops.fetch_add(bytes, Relaxed);
    }

    /// The number now. An engine that counts knows better what it keeps than records tell.
    pub fn total(&self, engine: &dyn Engine) -> u64 {
        let by_records = engine
            .retired_bytes()
            .unwrap_or_else(|| self.by_records.load(Relaxed));
        by_records + self.by_drops.load(Relaxed)
    }
}

/// The bytes of documents and keys of index entries that a record replaces or deletes, or a little more.
#[inline]
pub(super) fn replaced_by(payload: &Payload<'_>) -> u64 {
    match payload.is_one_insert() {
        true => 0,
        false => by_deltas(payload),
    }
}

fn by_deltas(payload: &Payload<'_>) -> u64 {
    let (mut documents, mut grown_bytes) = (0i64, 0i64);
    for delta in payload.deltas() {
        documents = documents.saturating_add(delta.documents);
        grown_bytes = grown_bytes.saturating_add(delta.bytes);
    }
    // Nothing but new documents, or none: definitions, entries of an index that is being built.
    if usize::try_from(documents) == Ok(payload.changes_len()) {
        return 0;
    }
    // New documents less what the data grows by are the old ones. The keys in the batch are those of the entries that go, too.
    let batch_bytes = match payload.has(REPEATS) {
        false => payload.batch.len(),
        true => last_of_each_key(WriteBatch::ops_in(payload.batch))
            .iter()
            .map(bytes_of)
            .sum(),
    };
    let batch_bytes = i64::try_from(batch_bytes).unwrap_or(i64::MAX);
    let replaced = batch_bytes.saturating_sub(grown_bytes);
    u64::try_from(replaced).unwrap_or(0)
}

/// About the bytes that an operation has in a batch.
fn bytes_of(op: &Op<'_>) -> usize {
    const LENGTHS: usize = 4;
    match op {
        Op::Put(key, value) => key.len() + value.len() + LENGTHS,
        Op::Delete(key) => key.len() + LENGTHS,
    }
}

#[cfg(test)]
mod tests {
    use quarry_storage::Memory;

    use super::*;
    use crate::commit::changes::{ChangeKind, Changes};
    use crate::commit::payload::{Delta, Header};
    use crate::keyspace::ident::Ident;

    /// The bytes that a record replaces which puts documents of `put_bytes`, deletes others, and lets the data grow by `grown_bytes`.
    fn replaced(kinds: &[ChangeKind], documents: i64, put_bytes: usize, grown_bytes: i64) -> u64 {
        let keys = 0..kinds.len() as u8;
        replaced_under(keys, kinds, documents, put_bytes, grown_bytes, 0)
    }

    fn replaced_under(
        keys: impl Iterator<Item = u8>,
        kinds: &[ChangeKind],
        documents: i64,
        put_bytes: usize,
        grown_bytes: i64,
        flags: u8,
    ) -> u64 {
        let (mut batch, mut changes) = (WriteBatch::new(), Changes::default());
        for (position, (key, kind)) in keys.zip(kinds).enumerate() {
            let key = [0x20, key];
            match kind.is_delete() {
                true => batch.delete(&key),
                false => batch.put(&key, &vec![1; put_bytes]),
            }
            changes.push(*kind, position);
        }
        let delta = [Delta {
            ident: Ident(0x20),
            uuid: [1; 16],
            namespace: b"db.c",
            documents,
            bytes: grown_bytes,
        }];
        let header = Header {
            flags,
            deltas: &delta,
            changes: Some(&changes),
            ..Header::PLAIN
        };
        replaced_by(&Payload::parse(&header.record(&batch)).unwrap())
    }

    #[test]
    fn a_record_replaces_the_old_documents_and_little_more() {
        use ChangeKind::{Delete, Insert, Replace, Trim, Update};
        let near =
            |found: u64, old: u64| assert!((old..old + 30).contains(&found), "{found} {old}");
        assert_eq!(replaced(&[Insert, Insert], 2, 500, 1_000), 0);
        near(replaced(&[Delete], -1, 0, -5_000), 5_000);
        near(replaced(&[Replace], 0, 10, 10 - 7_000), 7_000);
        near(replaced(&[Update], 0, 700, 0), 700);
        // A new document beside one that has gone, of which the numbers tell the difference alone.
        near(replaced(&[Insert, Delete], 0, 100, 100 - 900), 900);
        near(replaced(&[Insert, Trim, Trim], -1, 100, 100 - 900), 900);
        assert_eq!(replaced(&[], 0, 0, 0), 0);
        // What a transaction has put and changed again.
        let again = [Update, Update, Delete];
        let keys = [1, 1, 1];
        near(
            replaced_under(keys.into_iter(), &again, -1, 500, -900, REPEATS),
            900,
        );
        let new = [Insert, Update];
        near(
            replaced_under([1, 1].into_iter(), &new, 1, 500, 500, REPEATS),
            0,
        );
    }

    #[test]
    fn drops_are_added_to_what_records_replace() {
        let bytes = ReplacedBytes::default();
        bytes.note_records(5);
        bytes.note_drops(7);
        assert_eq!(bytes.total(&Memory::new()), 12);
    }
}
