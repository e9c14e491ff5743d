//! Which keys of a group's batch are records: the cache of records has to follow them.

use hashbrown::HashSet;
use quarry_storage::{Op, WriteBatch};
use smallvec::SmallVec;

use crate::commit::changes::{Change, ChangeKind};
use crate::commit::payload::{Payload, REPEATS};
use crate::keyspace::ident::Prefix;
use crate::record_cache::{Applying, RecordCache};

/// At most this many collections are compared one by one with the key of each operation. A transaction may change documents of
/// many thousands.
const COMPARED_MAX: usize = 8;

/// Which of a group's operations are on records: those under the prefix of a collection whose documents it changes.
#[derive(Default)]
pub struct ChangedRecords {
    collections: Collections,
    count: usize,
    /// Whether records may be in the cache that the group changes: what is inserted was not there.
    replaces: bool,
    /// Whether one of its records changes a document several times. No two records of a group change the same one: it is locked
    /// until the group is applied.
    repeats: bool,
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
        let is_insert = |change: Change<'_>| change.kind == ChangeKind::Insert;
        self.replaces |= !payload.is_one_insert() && !payload.changes().all(is_insert);
        self.repeats |= payload.has(REPEATS);
        let mut is_unknown = true;
        for delta in payload.deltas() {
            self.collections.insert(delta.ident.prefix());
            is_unknown = false;
        }
        self.is_unknown |= is_unknown;
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
        if self.repeats {
            for op in last_of_each_key(self.operations(batch)) {
                keep(applying, op);
            }
            return;
        }
        for op in self.operations(batch) {
            keep(applying, op);
        }
    }

    fn operations<'b>(&self, batch: &'b WriteBatch) -> impl Iterator<Item = Op<'b>> {
        let is_record = |op: &Op<'_>| self.collections.have(op.key());
        batch.iter().filter(is_record).take(self.count)
    }
}

fn keep(applying: &Applying<'_>, op: Op<'_>) {
    if let Op::Put(key, document) = op {
        applying.keep(key, document);
    }
}

/// The last operation of each key, from behind: nobody sees what the others do.
pub(super) fn last_of_each_key<'b>(operations: impl Iterator<Item = Op<'b>>) -> Vec<Op<'b>> {
    let mut operations: Vec<Op<'b>> = operations.collect();
    let mut seen = HashSet::new();
    operations.reverse();
    operations.retain(|op| seen.insert(op.key()));
    operations
}

/// The prefixes of collections, each once.
enum Collections {
    Few(SmallVec<[Prefix; 2]>),
    Many(HashSet<Prefix>),
}

impl Default for Collections {
    fn default() -> Collections {
        Collections::Few(SmallVec::new())
    }
}

impl Collections {
    fn insert(&mut self, prefix: Prefix) {
        match self {
            Collections::Few(few) if few.contains(&prefix) => {}
            Collections::Few(few) if few.len() < COMPARED_MAX => few.push(prefix),
            Collections::Few(few) => {
                let mut many: HashSet<Prefix> = few.drain(..).collect();
                many.insert(prefix);
                *self = Collections::Many(many);
            }
            Collections::Many(many) => {
                many.insert(prefix);
            }
        }
    }

    /// Whether the key is that of a record of one of them.
    fn have(&self, key: &[u8]) -> bool {
        match self {
            Collections::Few(few) => few.iter().any(|prefix| key.starts_with(prefix.as_bytes())),
            Collections::Many(many) => {
                Prefix::of_key(key).is_some_and(|prefix| many.contains(&prefix))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::commit::changes::Changes;
    use crate::commit::payload::{Delta, Header};
    use crate::keyspace::ident::Ident;

    const COLLECTION: Ident = Ident(20);

    fn key(ident: Ident, suffix: &[u8]) -> Vec<u8> {
        [ident.prefix().as_bytes(), suffix].concat()
    }

    fn delta_of(ident: Ident) -> Delta<'static> {
        Delta {
            ident,
            uuid: [0; 16],
            namespace: b"db.c",
            documents: 0,
            bytes: 0,
        }
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
        let delta = [delta_of(COLLECTION)];
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
    fn what_a_transaction_has_changed_again_does_not_stay() {
        let cache = RecordCache::new(1 << 20);
        let [deleted, long, changed] = [b"1", b"2", b"3"].map(|id| key(COLLECTION, id));
        let mut batch = WriteBatch::new();
        for key in [&deleted, &long, &changed] {
            batch.put(key, b"first");
        }
        batch.delete(&deleted);
        batch.put(&long, &[b'x'; 64 << 10]);
        batch.put(&changed, b"second");
        let kinds = [ChangeKind::Insert, ChangeKind::Delete, ChangeKind::Update];
        let mut changes = Changes::default();
        for position in 0..batch.len() {
            changes.push(kinds[position.saturating_sub(2).min(2)], position);
        }
        let header = Header {
            flags: REPEATS,
            deltas: &[delta_of(COLLECTION)],
            changes: Some(&changes),
            ..Header::PLAIN
        };
        let mut record = Vec::new();
        header.write(&mut record);
        let mut group = ChangedRecords::default();
        group.note(&Payload::parse(&record).unwrap());
        group.keep(&group.begin(&cache, &batch), &batch);
        assert_eq!(cache.records(), 1);
        // Nor was it there for a moment.
        let alone = RecordCache::new(1 << 20);
        alone.apply().keep(&changed, b"second");
        assert_eq!(cache.counters().bytes, alone.counters().bytes);
        let mut found = Vec::new();
        let read = &mut |bytes: &[u8]| found.extend_from_slice(bytes);
        let is_there = cache.read(&changed, cache.latest(), read, |_| Ok(false));
        assert!(is_there.unwrap() && found == b"second");
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
    /// Comparing each key with each collection would take half a minute here.
    #[test]
    fn a_group_over_very_many_collections_is_looked_through_once() {
        const COLLECTIONS: u64 = 30_000;
        let begun = Instant::now();
        let idents = || (0..COLLECTIONS).map(|number| Ident(230 + 2 * number));
        let deltas: Vec<Delta<'_>> = idents().map(|ident| delta_of(ident)).collect();
        let mut changes = Changes::default();
        let mut batch = WriteBatch::new();
        for ident in idents() {
            changes.push(ChangeKind::Insert, 0);
            batch.put(&key(Ident(ident.0 + 1), b"index entry"), b"value");
            batch.put(&key(ident, b"id"), b"document");
        }
        let header = Header {
            deltas: &deltas,
            changes: Some(&changes),
            ..Header::PLAIN
        };
        let mut record = Vec::new();
        header.write(&mut record);
        let mut changed = ChangedRecords::default();
        changed.note(&Payload::parse(&record).unwrap());
        let on_records = changed.operations(&batch).map(|op| op.key().to_vec());
        assert!(on_records.eq(idents().map(|ident| key(ident, b"id"))));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
