//! Which keys of a group's batch are records: the cache of records has to follow them.

use quarry_storage::{Op, WriteBatch};
use smallvec::SmallVec;

use crate::commit::payload::{ChangeKind, Payload};
use crate::keyspace::ident::Prefix;
use crate::record_cache::{Applying, RecordCache};

/// Which of a group's operations are on records: those under the prefix of a collection whose documents it changes.
#[derive(Default)]
pub struct ChangedRecords {
    prefixes: SmallVec<[Prefix; 2]>,
    count: usize,
    /// Whether records may be in the cache that the group changes: what is inserted was not there.
    replaces: bool,
    /// A journal of an earlier version does not always name the collection.
    is_unknown: bool,
}

impl ChangedRecords {
    /// Adds one record of the group.
    pub fn note(&mut self, payload: &Payload<'_>) {
        if payload.changes_len() == 0 {
            return;
        }
        self.count += payload.changes_len();
        let mut changes = payload.changes();
        self.replaces |= changes.any(|change| change.kind != ChangeKind::Insert);
        self.is_unknown |= payload.deltas().next().is_none();
        for delta in payload.deltas() {
            let prefix = delta.ident.prefix();
            if !self.prefixes.contains(&prefix) {
                self.prefixes.push(prefix);
            }
        }
    }

    /// Takes what the group changes out of the cache, before the engine is written.
    pub fn begin<'c>(&self, cache: &'c RecordCache, batch: &WriteBatch) -> Applying<'c> {
        let applying = cache.apply();
        if self.is_unknown {
            cache.clear();
        }
        if self.replaces {
            for op in self.operations(batch) {
                applying.forget(op.key());
            }
        }
        applying
    }

    /// Puts what the group has written into the cache.
    pub fn keep(&self, applying: &Applying<'_>, batch: &WriteBatch) {
        if self.is_unknown {
            return;
        }
        for op in self.operations(batch) {
            if let Op::Put(key, document) = op {
                applying.keep(key, document);
            }
        }
    }

    fn operations<'b>(&self, batch: &'b WriteBatch) -> impl Iterator<Item = Op<'b>> {
        let is_record = |op: &Op<'_>| {
            self.prefixes
                .iter()
                .any(|prefix| op.key().starts_with(prefix.as_bytes()))
        };
        batch.iter().filter(is_record).take(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::changes::Changes;
    use crate::commit::payload::{Delta, Header};
    use crate::keyspace::ident::Ident;

    const COLLECTION: Ident = Ident(20);

    fn key(ident: Ident, suffix: &[u8]) -> Vec<u8> {
        [ident.prefix().as_bytes(), suffix].concat()
    }

    fn apply(cache: &RecordCache, kind: ChangeKind, deltas: &[Delta<'_>], batch: &WriteBatch) {
        let mut record = Vec::new();
        let mut changes = Changes::default();
        changes.push(kind, 1);
        let header = Header {
            deltas,
            changes: Some(&changes),
            ..Header::PLAIN
        };
        header.write(&mut record);
        let mut changed = ChangedRecords::default();
        changed.note(&Payload::parse(&record).unwrap());
        changed.keep(&changed.begin(cache, batch), batch);
    }

    #[test]
    fn records_are_what_stands_under_the_collection_that_the_journal_names() {
        let cache = RecordCache::new(1 << 20);
        let delta = [Delta {
            ident: COLLECTION,
            uuid: [0; 16],
            namespace: b"db.c",
            documents: 0,
            bytes: 0,
        }];
        let mut batch = WriteBatch::new();
        batch.put(&key(Ident(21), b"index entry"), b"value");
        batch.put(&key(COLLECTION, b"id"), b"document");
        apply(&cache, ChangeKind::Insert, &delta, &batch);
        assert_eq!(cache.records(), 1);
        let mut batch = WriteBatch::new();
        batch.delete(&key(Ident(21), b"index entry"));
        batch.delete(&key(COLLECTION, b"id"));
        apply(&cache, ChangeKind::Delete, &delta, &batch);
        assert_eq!(cache.records(), 0);
    }

    #[test]
    fn a_journal_that_does_not_name_the_collection_empties_the_cache() {
        let cache = RecordCache::new(1 << 20);
        let applying = cache.apply();
        applying.keep(b"key", b"document");
        drop(applying);
        assert_eq!(cache.records(), 1);
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"later");
        apply(&cache, ChangeKind::Update, &[], &batch);
        assert_eq!(cache.records(), 0);
    }
}
