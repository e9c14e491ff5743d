//! The catalog: namespaces to collections, read on demand into a bounded cache.
//!
//! Keeps true: what the cache holds is what the engine's latest state says. Memory changes only by applying a
//! committed record: while a record with catalog keys is applied (`Applying`), the gate is shut, so that no reader
//! can load an entry from before it and keep it. Multikey marks shut no gate (`Marking`): whoever loads indexes meanwhile
//! adds the marks that are on their way, because a plan may rather know one too many than miss one. A collection that went with its database does not exist, though its
//! entry may still stand (`database_drop`). `is_current` lets a reader that took a snapshot make sure that its
//! collection was not replaced before the snapshot. Leaves out: who may change the catalog (`definitions`).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use quarry_bson::{Document, RawDocument, doc};
use quarry_storage::{Engine, KeyRange, Op, WriteBatch};

use crate::catalog::collection::{COLLATION, Collection, IndexCatalog};
use crate::catalog::plan_memory::PlanMemories;
use crate::catalog::validation::Validators;
use crate::error::{Error, Result};
use crate::index::definition::Index;
use crate::index::kind::IndexKinds;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;

/// Collections kept in memory; beyond it some are forgotten and read again when needed.
pub const CACHED_COLLECTIONS_MAX: usize = 16_384;
const FORGET_AT_ONCE: usize = CACHED_COLLECTIONS_MAX / 16;

pub struct Catalog {
    engine: Arc<dyn Engine>,
    /// Whose language the filters of partial indexes are in, too.
    pub validators: Validators,
    index_kinds: Arc<dyn IndexKinds>,
    cache: RwLock<CachedCollections>,
    /// Changes whenever the cache does, and is the number of no other catalog's state.
    state: AtomicU64,
    pub plan_memories: PlanMemories,
    /// Dropped databases that are being cleaned up: their collections below the ident do not exist.
    dropping: RwLock<HashMap<Box<str>, Ident>>,
    /// Lock order: the gate, the marks, the others.
    gate: Mutex<()>,
    /// Held for moments, also by the one who has the gate.
    marks: Mutex<Marks>,
}

type CachedCollections = HashMap<Box<str>, Arc<Collection>>;

/// The collection that a thread found last, and the state of the catalog in which it did: most operations are on the collection of
/// the one before, and threads that look it up do not meet on the cache's lock.
struct LastFound {
    state: u64,
    collection: Arc<Collection>,
}

thread_local! {
    static LAST_FOUND: RefCell<Option<LastFound>> = const { RefCell::new(None) };
}

/// A number that no state of a catalog in this process has had.
fn next_state() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// The multikey marks between the commit that makes them and the engine that shows them.
#[derive(Default)]
struct Marks {
    /// Those of the group that is being applied.
    on_their_way: Vec<(Ident, u8)>,
    /// How many groups with marks have been applied.
    groups: u64,
}

/// Held from before to after a record with catalog keys is written to the engine.
pub struct Applying<'c> {
    catalog: &'c Catalog,
    _gate: MutexGuard<'c, ()>,
}

/// Held from before to after multikey marks are written to the engine. One group is applied at a time.
pub struct Marking<'c>(&'c Catalog);

impl Catalog {
    /// The bytes that keys and values in the range take about.
    pub fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        Ok(self.engine.size_estimate(range)?)
    }

    /// Reads the marks of dropped databases and nothing else.
    pub fn new(
        engine: Arc<dyn Engine>,
        validators: Validators,
        index_kinds: Arc<dyn IndexKinds>,
    ) -> Result<Catalog> {
        let mut dropping = HashMap::new();
        {
            let snapshot = engine.snapshot()?;
            let mut cursor = snapshot.cursor(KeyRange::prefix(layout::DROPPED_DATABASE))?;
            cursor.first()?;
            while cursor.valid() {
                let (Some(database), Some(ident)) = (
                    layout::split_dropped_database(cursor.key()),
                    layout::read_ident(cursor.value()),
                ) else {
                    let message = "the mark of a dropped database is broken";
                    return Err(Error::Corrupt(message.to_owned()));
                };
                dropping.insert(database.into(), ident);
                cursor.next()?;
            }
        }
        Ok(Catalog {
            engine,
            validators,
            index_kinds,
            cache: RwLock::default(),
            state: AtomicU64::new(next_state()),
            plan_memories: PlanMemories::new(),
            dropping: RwLock::new(dropping),
            gate: Mutex::default(),
            marks: Mutex::default(),
        })
    }

    pub fn get(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        if let Some(collection) = self.cached(namespace, Arc::clone) {
            return Ok(Some(collection));
        }
        let _gate = self.gate.lock();
        let Some(mut collection) = self.load(namespace)?.filter(|found| !self.is_dead(found))
        else {
            return Ok(None);
        };
        collection.plan_memory = Some(self.plan_memories.of(collection.ident));
        let collection = Arc::new(collection);
        let mut cache = self.change_cache();
        if cache.len() >= CACHED_COLLECTIONS_MAX {
            let forgotten: Vec<Box<str>> = cache.keys().take(FORGET_AT_ONCE).cloned().collect();
            for name in forgotten {
                if let Some(forgotten) = cache.remove(&name)
                    && let Some(accesses) = &forgotten.plan_memory
                {
                    self.plan_memories.forget_unused(forgotten.ident, accesses);
                }
            }
        }
        cache.insert(namespace.as_str().into(), Arc::clone(&collection));
        Ok(Some(collection))
    }

    /// Whether `collection` is still what its namespace means.
    pub fn is_current(&self, collection: &Arc<Collection>) -> Result<bool> {
        let is_it = |now: &Arc<Collection>| Arc::ptr_eq(now, collection);
        if let Some(is_it) = self.cached(&collection.namespace, is_it) {
            return Ok(is_it);
        }
        // Another object with the same entry is refused too: marks go to the one in the cache.
        let now = self.get(&collection.namespace)?;
        Ok(now.is_some_and(|now| Arc::ptr_eq(&now, collection)))
    }

    /// Looks at what the cache has under a name.
    #[inline]
    fn cached<R>(
        &self,
        namespace: &Namespace,
        look: impl FnOnce(&Arc<Collection>) -> R,
    ) -> Option<R> {
        LAST_FOUND.with_borrow_mut(|last| {
            let state = self.state.load(Ordering::Acquire);
            if let Some(last) = last
                && last.state == state
                && last.collection.namespace == *namespace
            {
                return Some(look(&last.collection));
            }
            let cache = self.cache.read();
            let collection = cache.get(namespace.as_str())?;
            *last = Some(LastFound {
                // It stays as long as the lock is held.
                state: self.state.load(Ordering::Relaxed),
                collection: Arc::clone(collection),
            });
            Some(look(collection))
        })
    }

    /// The cache, for a change of it: what threads found last is no longer believed.
    fn change_cache(&self) -> RwLockWriteGuard<'_, CachedCollections> {
        let cache = self.cache.write();
        self.state.store(next_state(), Ordering::Release);
        cache
    }

    /// The indexes of a collection, parsed once.
    pub fn index_catalog<'c>(&self, collection: &'c Collection) -> Result<&'c IndexCatalog> {
        if let Some(index_catalog) = collection.index_catalog.get() {
            return Ok(index_catalog);
        }
        loop {
            let groups = self.marks.lock().groups;
            let index_catalog = self.load_index_catalog(collection)?;
            let marks = self.marks.lock();
            // A group that has gone to the engine meanwhile is in none of what was read.
            if marks.groups != groups {
                continue;
            }
            mark(&index_catalog, &marks.on_their_way);
            // Under the lock: the next group finds it and marks it.
            return Ok(collection.index_catalog.get_or_init(|| index_catalog));
        }
    }

    /// Completes the specification of a new index with what its kind says. Fails for an index that cannot be compiled.
    pub fn checked(&self, spec: &Document) -> Result<Document> {
        let mut index = Index::from_spec(spec.as_raw(), Ident(0))?;
        if let Some(partial) = &index.partial {
            let language = &self.validators.language;
            language.compile(partial.as_raw(), &index.collation)?;
        }
        if let Some(kind) = &index.pattern.kind {
            let options = self.index_kinds.check(kind, &index)?;
            let pattern = self.index_kinds.key_pattern(kind, &index);
            index.complete(options, pattern)?;
        }
        let mut checked = index.spec;
        // Said, so that the collection's is not taken in its place.
        if spec.contains(COLLATION) && !checked.contains(COLLATION) {
            checked.append(COLLATION, doc! { "locale": "simple" });
        }
        Ok(checked)
    }

    /// The indexes of a collection, with the marks that the engine shows.
    fn load_index_catalog(&self, collection: &Collection) -> Result<IndexCatalog> {
        let (language, kinds) = (self.validators.language.as_ref(), self.index_kinds.as_ref());
        let mut index_catalog = collection.parse_index_catalog(language, kinds)?;
        if let Some(accesses) = &collection.plan_memory {
            self.plan_memories
                .hand_out(accesses, &mut index_catalog.indexes);
        }
        if index_catalog.indexes.is_empty() {
            return Ok(index_catalog);
        }
        let snapshot = self.engine.snapshot()?;
        for index in &index_catalog.indexes {
            let range = KeyRange::prefix(&layout::multikey_prefix(index.ident));
            let mut cursor = snapshot.cursor(range)?;
            cursor.first()?;
            while cursor.valid() {
                if let Some((_, component)) = multikey_mark(cursor.key()) {
                    index.mark(component);
                }
                cursor.next()?;
            }
        }
        Ok(index_catalog)
    }

    /// Adds the multikey marks of a group to the indexes that are loaded, before the engine shows the entries that need
    /// them; none if it has none.
    pub fn marking(&self, batch: &WriteBatch) -> Option<Marking<'_>> {
        let mut new = Vec::new();
        for op in batch {
            if let Op::Put(key, _) = op {
                new.extend(multikey_mark(key));
            }
        }
        if new.is_empty() {
            return None;
        }
        let mut marks = self.marks.lock();
        debug_assert!(
            marks.on_their_way.is_empty(),
            "one group is applied at a time"
        );
        let cache = self.cache.read();
        let loaded = cache
            .values()
            .filter_map(|collection| collection.index_catalog.get());
        for index_catalog in loaded {
            mark(index_catalog, &new);
        }
        marks.on_their_way = new;
        Some(Marking(self))
    }

    /// Shuts the gate for the time a record with catalog keys is applied.
    pub fn applying(&self) -> Applying<'_> {
        Applying {
            catalog: self,
            _gate: self.gate.lock(),
        }
    }

    /// Returns when the catalog has followed every record that the engine shows.
    pub fn wait_until_applied(&self) {
        drop(self.gate.lock());
    }

    /// The collection that went with its database and still has its entry under `namespace`.
    pub fn dead(&self, namespace: &Namespace) -> Result<Option<Collection>> {
        let _gate = self.gate.lock();
        if !self.is_dropping(namespace.database()) {
            return Ok(None);
        }
        Ok(self.load(namespace)?.filter(|found| self.is_dead(found)))
    }

    /// Whether collections of a database of that name wait to be cleaned up.
    pub fn is_dropping(&self, database: &str) -> bool {
        self.dropping.read().contains_key(database)
    }

    pub fn dropping(&self) -> Vec<String> {
        self.dropping
            .read()
            .keys()
            .map(ToString::to_string)
            .collect()
    }

    fn is_dead(&self, collection: &Collection) -> bool {
        let dropping = self.dropping.read();
        let mark = dropping.get(collection.namespace.database());
        mark.is_some_and(|mark| collection.ident < *mark)
    }

    fn load(&self, namespace: &Namespace) -> Result<Option<Collection>> {
        let mut bytes = Vec::new();
        let key = layout::catalog_key(namespace.database(), namespace.collection());
        if !self
            .engine
            .get(&key, &mut |value| bytes.extend_from_slice(value))?
        {
            return Ok(None);
        }
        let entry = Document::from_bytes_any_text(bytes).map_err(|error| {
            Error::Corrupt(format!("the catalog entry of `{namespace}`: {error}"))
        })?;
        Collection::from_entry(namespace.clone(), entry).map(Some)
    }
}

impl Drop for Marking<'_> {
    /// The engine shows the marks, or has refused them: those in memory stay.
    fn drop(&mut self) {
        let mut marks = self.0.marks.lock();
        marks.on_their_way.clear();
        marks.groups += 1;
    }
}

/// The index and the component that the key of a multikey mark names.
fn multikey_mark(key: &[u8]) -> Option<(Ident, u8)> {
    match layout::split_ident(layout::MULTIKEY, key) {
        Some((ident, &[component])) => Some((ident, component)),
        _ => None,
    }
}

/// Adds marks to the indexes that they are of.
fn mark(index_catalog: &IndexCatalog, marks: &[(Ident, u8)]) {
    for index in &index_catalog.indexes {
        for (_, component) in marks.iter().filter(|(ident, _)| *ident == index.ident) {
            index.mark(*component);
        }
    }
}

/// Whether a batch writes an entry of the collection, under whatever name.
fn has_entry_of(batch: &WriteBatch, ident: Ident) -> bool {
    let mut puts = batch.into_iter();
    puts.any(|op| match op {
        Op::Put(key, value) if layout::split_catalog_key(key).is_some() => {
            let entry = RawDocument::new(value).ok();
            let written = entry.and_then(|entry| entry.get("ident"));
            written.and_then(|ident| ident.as_i64_exact()) == i64::try_from(ident.0).ok()
        }
        _ => false,
    })
}

impl Applying<'_> {
    /// After the engine write: changed entries are forgotten.
    pub fn after(&self, batch: &WriteBatch) {
        for op in batch {
            let (Op::Put(key, _) | Op::Delete(key)) = op;
            if let Some((database, collection)) = layout::split_catalog_key(key) {
                let name = format!("{database}.{collection}");
                let forgotten = self.catalog.change_cache().remove(name.as_str());
                if let (Op::Delete(_), Some(forgotten)) = (op, forgotten)
                    && !has_entry_of(batch, forgotten.ident)
                {
                    self.catalog.plan_memories.forget(forgotten.ident);
                }
            } else if let Some(database) = layout::split_dropped_database(key) {
                self.follow_database(database, op);
            }
        }
    }
    /// A database was dropped, or its last collection has been cleaned up.
    fn follow_database(&self, database: &str, op: Op<'_>) {
        let mut dropping = self.catalog.dropping.write();
        match op {
            Op::Put(_, value) => {
                if let Some(ident) = layout::read_ident(value) {
                    dropping.insert(database.into(), ident);
                }
                let mut cache = self.catalog.change_cache();
                cache.retain(|_, collection| {
                    let stays = collection.namespace.database() != database;
                    if !stays {
                        self.catalog.plan_memories.forget(collection.ident);
                    }
                    stays
                });
            }
            Op::Delete(_) => {
                dropping.remove(database);
            }
        }
    }
}
