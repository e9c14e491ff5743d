//! Counts of what a stage reads of other collections, for explain.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use quarry_bson::DocumentBuilder;

/// Names of indexes that are told. A pipeline may read another index for each document.
const INDEXES_MAX: usize = 1000;

/// The figures of all reads of one stage.
#[derive(Debug, Default)]
pub struct ReadFigures {
    docs_examined: AtomicU64,
    keys_examined: AtomicU64,
    collection_scans: AtomicU64,
    /// By name.
    indexes: Mutex<BTreeSet<String>>,
}

impl ReadFigures {
    /// Adds what a step of a read has examined.
    pub(crate) fn add_examined(&self, docs: u64, keys: u64) {
        self.docs_examined.fetch_add(docs, Relaxed);
        self.keys_examined.fetch_add(keys, Relaxed);
    }

    /// Adds a scan of a collection.
    pub(crate) fn add_collection_scan(&self) {
        self.collection_scans.fetch_add(1, Relaxed);
    }

    /// Adds an index that a read goes through.
    pub(crate) fn add_index(&self, name: &str) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if indexes.len() < INDEXES_MAX && !indexes.contains(name) {
            indexes.insert(name.to_owned());
        }
    }

    /// Appends MongoDB's fields.
    pub(super) fn append(&self, out: &mut DocumentBuilder<'_>) {
        for (name, count) in [
            ("totalDocsExamined", &self.docs_examined),
            ("totalKeysExamined", &self.keys_examined),
            ("collectionScans", &self.collection_scans),
        ] {
            out.append(name, i64::try_from(count.load(Relaxed)).unwrap_or(i64::MAX));
        }
        let mut used = out.array("indexesUsed");
        for name in self
            .indexes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            used.push(name.as_str());
        }
        used.finish();
    }
}
