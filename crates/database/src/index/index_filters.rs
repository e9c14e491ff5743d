//! The index filters of a collection: for queries of a shape, the indexes that plans may use, which an operator has named.
//!
//! They are in memory, and so of this life of the server, as in MongoDB; they outlive changes of the collection's indexes and go
//! with the collection. What a shape is, is the planner's; here are numbers. A collection without filters costs a plan one relaxed load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quarry_bson::compare::compare_documents;
use quarry_bson::{Document, RawValue, Value};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;

/// The filters of one collection.
const FILTERS_MAX: usize = 256;

/// The indexes that plans may use for the queries of a shape.
#[derive(Debug)]
pub struct IndexFilter {
    /// The query of which the shape was taken: `query`, `sort`, `projection`, `collation`.
    pub query: Document,
    /// The names and the key patterns of the indexes.
    pub indexes: Vec<Value>,
}

/// The filters of a collection, by the shape of the queries that they are for.
#[derive(Default)]
pub struct IndexFilters {
    are_any: AtomicBool,
    by_shape: Mutex<BTreeMap<u64, Arc<IndexFilter>>>,
}

impl IndexFilter {
    /// Whether plans may use the index of this name and key pattern.
    pub fn allows(&self, name: &str, pattern: &Document) -> bool {
        self.indexes.iter().any(|index| match index.as_raw() {
            RawValue::String(named) => named == name,
            RawValue::Document(asked) => compare_documents(asked, pattern.as_raw()).is_eq(),
            _ => false,
        })
    }

    /// Like `allows`.
    pub fn allows_index(&self, index: &Index) -> bool {
        self.allows(&index.name, &index.pattern.document)
    }
}

impl IndexFilters {
    /// Whether no query has a filter.
    #[inline]
    pub fn are_none(&self) -> bool {
        !self.are_any.load(Ordering::Relaxed)
    }

    /// The filter for the queries of a shape.
    pub fn get(&self, shape: u64) -> Option<Arc<IndexFilter>> {
        self.by_shape.lock().get(&shape).cloned()
    }

    /// Sets the filter for the queries of a shape, in place of the one before.
    pub fn set(&self, shape: u64, filter: IndexFilter) -> Result<()> {
        let mut by_shape = self.by_shape.lock();
        if by_shape.len() >= FILTERS_MAX && !by_shape.contains_key(&shape) {
            let text = format!("a collection has at most {FILTERS_MAX} index filters");
            return Err(Error::invalid(ErrorCode::BAD_VALUE, text));
        }
        by_shape.insert(shape, Arc::new(filter));
        self.are_any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes away the filter for the queries of a shape, if there is one.
    pub fn remove(&self, shape: u64) {
        let mut by_shape = self.by_shape.lock();
        by_shape.remove(&shape);
        self.are_any.store(!by_shape.is_empty(), Ordering::Relaxed);
    }

    /// Takes away all filters.
    pub fn clear(&self) {
        self.by_shape.lock().clear();
        self.are_any.store(false, Ordering::Relaxed);
    }

    /// All filters.
    pub fn list(&self) -> Vec<Arc<IndexFilter>> {
        self.by_shape.lock().values().cloned().collect()
    }
}
