//! Sizes of collections and databases: counts are exact, storage sizes are the engine's estimates.

use quarry_storage::KeyRange;

use crate::collection::{Capped, Collection};
use crate::database::Database;
use crate::error::Result;
use crate::ident::Ident;
use crate::namespace::Namespace;
use crate::operation::Operation;

#[derive(Debug)]
pub struct CollStats {
    pub documents: u64,
    pub data_bytes: u64,
    pub storage_bytes: u64,
    pub capped: Option<Capped>,
    pub indexes: Vec<IndexStats>,
}

#[derive(Debug)]
pub struct IndexStats {
    pub name: String,
    pub bytes: u64,
    pub is_building: bool,
}

#[derive(Debug, Default)]
pub struct DbStats {
    pub collections: u64,
    pub documents: u64,
    pub data_bytes: u64,
    pub storage_bytes: u64,
    pub indexes: u64,
    pub index_bytes: u64,
}

impl Database {
    /// The sizes of one collection; none if it does not exist.
    pub fn coll_stats(&self, namespace: &Namespace) -> Result<Option<CollStats>> {
        match self.catalog.get(namespace)? {
            Some(collection) => self.stats_of(&collection).map(Some),
            None => Ok(None),
        }
    }

    pub fn db_stats(&self, database: &str, operation: &Operation) -> Result<DbStats> {
        let mut sum = DbStats::default();
        for collection in self.list_collections(database)? {
            operation.check()?;
            let stats = self.stats_of(&collection)?;
            sum.collections += 1;
            sum.documents += stats.documents;
            sum.data_bytes += stats.data_bytes;
            sum.storage_bytes += stats.storage_bytes;
            sum.indexes += stats.indexes.len() as u64;
            sum.index_bytes += stats.indexes.iter().map(|index| index.bytes).sum::<u64>();
        }
        Ok(sum)
    }

    /// The engine's estimate of what a database takes.
    pub fn database_size_bytes(&self, database: &str) -> Result<u64> {
        let stats = self.db_stats(database, &Operation::default())?;
        Ok(stats.storage_bytes + stats.index_bytes)
    }

    fn stats_of(&self, collection: &Collection) -> Result<CollStats> {
        let counts = self.counts(collection)?;
        let storage_bytes = self.size_of(collection.ident)?;
        let mut indexes = Vec::new();
        if collection.is_clustered() {
            // The records are the `_id` index: it takes no space of its own.
            indexes.push(IndexStats {
                name: "_id_".to_owned(),
                bytes: 0,
                is_building: false,
            });
        }
        for index in &self.catalog.detail(collection)?.indexes {
            let bytes = self.size_of(index.ident)?;
            indexes.push(IndexStats {
                name: index.name.clone(),
                bytes,
                is_building: index.building,
            });
        }
        Ok(CollStats {
            documents: counts.documents,
            data_bytes: counts.bytes,
            storage_bytes,
            capped: collection.capped,
            indexes,
        })
    }

    fn size_of(&self, ident: Ident) -> Result<u64> {
        let range = KeyRange {
            start: ident.prefix().as_bytes().to_vec(),
            end: ident.prefix().end(),
        };
        Ok(self.engine.size_estimate(&range)?)
    }
}
