//! The sizes of a collection: counts are exact, storage sizes are the engine's estimates.

use std::sync::Arc;

use quarry_storage::{Engine, KeyRange};

use crate::catalog::cache::Catalog;
use crate::catalog::collection::{Capped, Collection};
use crate::catalog::time_series::TimeSeries;
use crate::commit::commits::Commits;
use crate::definitions::remembered_sums::RememberedSums;
use crate::error::Result;
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::snapshot::reads::Reads;

/// The counts and sizes of one collection.
#[derive(Debug)]
pub struct CollStats {
    /// The exact number of documents.
    pub documents: u64,
    /// The exact bytes of documents.
    pub data_bytes: u64,
    /// The bytes of the records on disk, roughly.
    pub storage_bytes: u64,
    /// The bounds, if the collection is capped.
    pub capped: Option<Capped>,
    /// The definition, if the collection is a time series.
    pub series: Option<Box<TimeSeries>>,
    /// The indexes, the `_id` index first.
    pub indexes: Vec<IndexStats>,
}

/// The size of one index.
#[derive(Debug)]
pub struct IndexStats {
    /// The index's name.
    pub name: String,
    /// The bytes of its entries on disk, roughly.
    pub bytes: u64,
    /// Whether the index is being built.
    pub is_building: bool,
}

/// The parts of a database from which the sizes of collections and databases are read.
pub struct Sizes {
    engine: Arc<dyn Engine>,
    catalog: Arc<Catalog>,
    reads: Reads,
    commits: Arc<Commits>,
    remembered: RememberedSums,
}

impl Sizes {
    pub fn new(
        engine: Arc<dyn Engine>,
        catalog: Arc<Catalog>,
        reads: Reads,
        commits: Arc<Commits>,
    ) -> Sizes {
        Sizes {
            engine,
            catalog,
            reads,
            commits,
            remembered: RememberedSums::default(),
        }
    }

    pub(super) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(super) fn commits(&self) -> &Commits {
        &self.commits
    }

    pub(super) fn remembered(&self) -> &RememberedSums {
        &self.remembered
    }

    /// The sizes of one collection; none if it does not exist.
    pub fn coll_stats(&self, namespace: &Namespace) -> Result<Option<CollStats>> {
        match self.catalog.get(namespace)? {
            Some(collection) => {
                collection.refuse_view()?;
                self.stats_of(&collection).map(Some)
            }
            None => Ok(None),
        }
    }

    fn stats_of(&self, collection: &Collection) -> Result<CollStats> {
        let counts = self.commits.counts(collection.ident)?;
        let storage_bytes = self.size_of(collection.ident)?;
        let mut indexes = Vec::new();
        if collection.is_clustered() {
            // The records are the `_id` index: it takes no space of its own.
            indexes.push(IndexStats {
                name: collection.id_index_name().to_owned(),
                bytes: 0,
                is_building: false,
            });
        }
        for index in self.catalog.index_catalog(collection)?.shown() {
            let bytes = self.size_of(index.ident)?;
            indexes.push(IndexStats {
                name: index.name.to_string(),
                bytes,
                is_building: index.building,
            });
        }
        Ok(CollStats {
            documents: counts.documents,
            data_bytes: counts.bytes,
            storage_bytes,
            capped: collection.capped,
            series: collection.series.clone(),
            indexes,
        })
    }

    pub(super) fn size_of(&self, ident: Ident) -> Result<u64> {
        let range = KeyRange {
            start: ident.prefix().as_bytes().to_vec(),
            end: ident.prefix().end(),
        };
        Ok(self.engine.size_estimate(&range)?)
    }
}
