//! The catalog: namespaces to collections, read on demand into a bounded cache.
//!
//! Keeps true: what the cache holds is what the engine's latest state says. Memory changes only by applying a
//! committed record (`Applying`): while a record with catalog keys is applied, the gate is shut, so that no reader
//! can load an entry from before it and keep it. A collection that went with its database does not exist, though its
//! entry may still stand (`database_drop`). `is_current` lets a reader that took a snapshot make sure that its
//! collection was not replaced before the snapshot. Leaves out: who may change the catalog (`definitions`).

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use quarry_bson::Document;
use quarry_storage::{Engine, KeyRange, Op, WriteBatch};

use crate::catalog::collection::{Collection, IndexCatalog};
use crate::error::{Error, Result};
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;

/// Collections kept in memory; beyond it some are forgotten and read again when needed.
pub const CACHED_COLLECTIONS_MAX: usize = 16_384;
const FORGET_AT_ONCE: usize = CACHED_COLLECTIONS_MAX / 16;

pub struct Catalog {
    engine: Arc<dyn Engine>,
    cache: RwLock<HashMap<Box<str>, Arc<Collection>>>,
    /// Dropped databases that are being cleaned up: their collections below the ident do not exist.
    dropping: RwLock<HashMap<Box<str>, Ident>>,
    /// Lock order: the gate before the others.
    gate: Mutex<()>,
}

/// Held from before to after a record with system keys is written to the engine.
pub struct Applying<'c> {
    catalog: &'c Catalog,
    _gate: MutexGuard<'c, ()>,
}

impl Catalog {
    /// Reads the marks of dropped databases and nothing else.
    pub fn new(engine: Arc<dyn Engine>) -> Result<Catalog> {
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
            cache: RwLock::default(),
            dropping: RwLock::new(dropping),
            gate: Mutex::default(),
        })
    }

    pub fn get(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        if let Some(collection) = self.cache.read().get(namespace.as_str()) {
            return Ok(Some(Arc::clone(collection)));
        }
        let _gate = self.gate.lock();
        let Some(collection) = self.load(namespace)?.filter(|found| !self.is_dead(found)) else {
            return Ok(None);
        };
        let collection = Arc::new(collection);
        let mut cache = self.cache.write();
        if cache.len() >= CACHED_COLLECTIONS_MAX {
            let forgotten: Vec<Box<str>> = cache.keys().take(FORGET_AT_ONCE).cloned().collect();
            for name in forgotten {
                cache.remove(&name);
            }
        }
        cache.insert(namespace.as_str().into(), Arc::clone(&collection));
        Ok(Some(collection))
    }

    /// Whether `collection` is still what its namespace means.
    pub fn is_current(&self, collection: &Arc<Collection>) -> Result<bool> {
        if let Some(now) = self.cache.read().get(collection.namespace.as_str()) {
            return Ok(Arc::ptr_eq(now, collection));
        }
        // Another object with the same entry is refused too: marks go to the one in the cache.
        let now = self.get(&collection.namespace)?;
        Ok(now.is_some_and(|now| Arc::ptr_eq(&now, collection)))
    }

    /// The indexes of a collection, parsed once.
    pub fn index_catalog<'c>(&self, collection: &'c Collection) -> Result<&'c IndexCatalog> {
        if let Some(index_catalog) = collection.index_catalog.get() {
            return Ok(index_catalog);
        }
        let _gate = self.gate.lock();
        let index_catalog = collection.parse_index_catalog()?;
        if !index_catalog.indexes.is_empty() {
            let snapshot = self.engine.snapshot()?;
            for index in &index_catalog.indexes {
                let mut range = layout::MULTIKEY.to_vec();
                range.extend_from_slice(&index.ident.0.to_be_bytes());
                let mut cursor = snapshot.cursor(KeyRange::prefix(&range))?;
                cursor.first()?;
                while cursor.valid() {
                    if let Some((_, &[component])) =
                        layout::split_ident(layout::MULTIKEY, cursor.key())
                    {
                        index.mark(component);
                    }
                    cursor.next()?;
                }
            }
        }
        Ok(collection.index_catalog.get_or_init(|| index_catalog))
    }

    /// Shuts the gate for the time a record with system keys is applied.
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

impl Applying<'_> {
    /// Before the engine write: multikey marks show before the entries that need them.
    pub fn before(&self, batch: &WriteBatch) {
        let mut marks: Vec<(Ident, u8)> = Vec::new();
        for op in batch {
            if let Op::Put(key, _) = op
                && let Some((ident, &[component])) = layout::split_ident(layout::MULTIKEY, key)
            {
                marks.push((ident, component));
            }
        }
        if marks.is_empty() {
            return;
        }
        let cache = self.catalog.cache.read();
        for index_catalog in cache
            .values()
            .filter_map(|collection| collection.index_catalog.get())
        {
            for index in &index_catalog.indexes {
                for (_, component) in marks.iter().filter(|(ident, _)| *ident == index.ident) {
                    index.mark(*component);
                }
            }
        }
    }

    /// After the engine write: changed entries are forgotten.
    pub fn after(&self, batch: &WriteBatch) {
        for op in batch {
            let (Op::Put(key, _) | Op::Delete(key)) = op;
            if let Some((database, collection)) = layout::split_catalog_key(key) {
                self.catalog
                    .cache
                    .write()
                    .remove(format!("{database}.{collection}").as_str());
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
                let mut cache = self.catalog.cache.write();
                cache.retain(|_, collection| collection.namespace.database() != database);
            }
            Op::Delete(_) => {
                dropping.remove(database);
            }
        }
    }
}
