//! The memory of the plans over a collection: how often they have read it, by each of its indexes and as a whole, and the
//! index filters that an operator has set.
//!
//! It is in memory, and so of this life of the server. It belongs to a collection and to its indexes by ident, not to a name,
//! and outlives the objects of the catalog's cache, which every change of a definition replaces: what is loaded finds its counters
//! here. They go with the collection or the index, and an index that is changed begins anew, as in MongoDB.
//! Who counts has a counter in hand (`Collection::plan_memory`, `Index::accesses`): there is no map and no lock on the way.
//!
//! Keeps true: a counter says since when it counts, and has counted every access since. So it may be given up where there are too many: the
//! next one counts from a later moment on.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quarry_bson::DateTime;
use rustc_hash::FxHashMap;

use crate::index::access_counter::AccessCounter;
use crate::index::definition::Index;
use crate::index::index_filters::IndexFilters;
use crate::keyspace::ident::Ident;

/// Collections that are remembered; beyond it those are given up that the cache does not hold.
const COLLECTIONS_MAX: usize = if cfg!(test) { 4 } else { 65_536 };

/// The memory of one collection.
pub struct PlanMemory {
    /// Plans that found records by their `_id`s: those of the index `_id_` of a clustered collection.
    pub by_id: AccessCounter,
    /// Plans that scanned the collection.
    pub scans: AccessCounter,
    /// Plans among them that went on at the end of a capped collection.
    pub tailing: AccessCounter,
    /// The indexes that plans may use for queries of a shape, where an operator has said so.
    pub filters: IndexFilters,
    indexes: Mutex<Vec<IndexAccesses>>,
}

/// The counter of an index, and what tells whether the index was changed.
struct IndexAccesses {
    ident: Ident,
    specification: u64,
    counter: Arc<AccessCounter>,
}

/// The memories of all collections that were used.
pub struct PlanMemories {
    opened_ms: i64,
    /// Idents below it were given out before the database was opened.
    first_new: AtomicU64,
    /// Nothing else is locked under it.
    collections: Mutex<FxHashMap<Ident, Arc<PlanMemory>>>,
}

impl PlanMemory {
    fn since(ms: i64) -> PlanMemory {
        PlanMemory {
            by_id: AccessCounter::since(ms),
            scans: AccessCounter::since(ms),
            tailing: AccessCounter::since(ms),
            filters: IndexFilters::default(),
            indexes: Mutex::default(),
        }
    }

    fn is_empty(&self) -> bool {
        let indexes = self.indexes.lock();
        self.filters.are_none()
            && self.by_id.accesses() == 0
            && self.scans.accesses() == 0
            && indexes.iter().all(|index| index.counter.accesses() == 0)
    }
}

impl PlanMemories {
    pub fn new() -> PlanMemories {
        PlanMemories {
            opened_ms: DateTime::now().0,
            first_new: AtomicU64::new(u64::MAX),
            collections: Mutex::default(),
        }
    }

    /// Collections and indexes with this ident or a greater one are new from now on: their counters begin when they are asked for first.
    pub fn begin(&self, first_new: Ident) {
        self.first_new.store(first_new.0, Ordering::Relaxed);
    }

    fn since(&self, ident: Ident) -> i64 {
        match ident.0 < self.first_new.load(Ordering::Relaxed) {
            true => self.opened_ms,
            false => DateTime::now().0,
        }
    }

    /// The memory of a collection.
    pub fn of(&self, ident: Ident) -> Arc<PlanMemory> {
        let mut collections = self.collections.lock();
        if let Some(known) = collections.get(&ident) {
            return Arc::clone(known);
        }
        if collections.len() >= COLLECTIONS_MAX {
            collections
                .retain(|_, memory| Arc::strong_count(memory) > 1 || !memory.filters.are_none());
            // Nobody knows any more who was counted before: what comes back counts from now on.
            self.begin(Ident(0));
        }
        let memory = Arc::new(PlanMemory::since(self.since(ident)));
        collections.insert(ident, Arc::clone(&memory));
        memory
    }

    /// Gives the indexes of a collection their counters, and forgets those of indexes that have gone.
    pub fn hand_out(&self, memory: &PlanMemory, indexes: &mut [Index]) {
        let mut known = memory.indexes.lock();
        for index in &mut *indexes {
            let specification = hash(index);
            let before = known.iter().position(|known| known.ident == index.ident);
            if let Some(place) = before {
                if known[place].specification == specification {
                    index.accesses = Some(Arc::clone(&known[place].counter));
                    continue;
                }
                known.swap_remove(place);
            }
            let since = match before {
                Some(_) => DateTime::now().0,
                None => self.since(index.ident),
            };
            let counter = Arc::new(AccessCounter::since(since));
            index.accesses = Some(Arc::clone(&counter));
            known.push(IndexAccesses {
                ident: index.ident,
                specification,
                counter,
            });
        }
        // Whoever still holds one reads another version of the collection, perhaps a newer one.
        known.retain(|known| Arc::strong_count(&known.counter) > 1);
    }

    /// The collection has gone.
    pub fn forget(&self, ident: Ident) {
        self.collections.lock().remove(&ident);
    }

    /// The cache holds the collection no more: a memory without anything in it goes, too.
    pub fn forget_unused(&self, ident: Ident, memory: &PlanMemory) {
        if memory.is_empty() {
            self.forget(ident);
        }
    }
}

fn hash(index: &Index) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write(index.spec.as_raw().as_bytes());
    hash.finish()
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Value, doc};

    use super::*;
    use crate::index::index_filters::IndexFilter;

    #[test]
    fn what_is_old_counts_since_the_start_and_what_is_new_since_it_was_met() {
        let memories = PlanMemories::new();
        memories.begin(Ident(100));
        let old = memories.of(Ident(20));
        assert_eq!(old.by_id.since_ms(), memories.opened_ms);
        old.by_id.count();
        assert_eq!(memories.of(Ident(20)).by_id.accesses(), 1);
        assert!(memories.of(Ident(100)).by_id.since_ms() >= memories.opened_ms);
        memories.forget(Ident(20));
        assert_eq!(memories.of(Ident(20)).by_id.accesses(), 0);
    }

    #[test]
    fn the_memories_are_bounded_and_filters_are_kept() {
        let memories = PlanMemories::new();
        let filter = IndexFilter {
            query: doc! { "query": {} },
            indexes: vec![Value::from("a")],
        };
        memories.of(Ident(1)).filters.set(7, filter).unwrap();
        let held = memories.of(Ident(2));
        for ident in 3..100 {
            memories.of(Ident(ident)).by_id.count();
            assert!(memories.collections.lock().len() <= COLLECTIONS_MAX);
        }
        assert!(!memories.of(Ident(1)).filters.are_none());
        assert!(Arc::ptr_eq(&held, &memories.of(Ident(2))));
        assert_eq!(memories.first_new.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_empty_memory_goes_with_the_cached_collection() {
        let memories = PlanMemories::new();
        let memory = memories.of(Ident(1));
        memories.forget_unused(Ident(1), &memory);
        assert!(memories.collections.lock().is_empty());
        let memory = memories.of(Ident(1));
        memory.scans.count();
        memories.forget_unused(Ident(1), &memory);
        assert_eq!(memories.of(Ident(1)).scans.accesses(), 1);
    }
}
