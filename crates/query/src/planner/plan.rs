//! A chosen plan: owned, so that a cursor can keep it between batches.

use quarry_bson::Document;
use quarry_database::{Ident, KeyRange, PlanSummary};

#[derive(Debug, Clone)]
pub struct Plan {
    pub access: Access,
    /// In key order; a reversed plan reads them from the last to the first.
    pub ranges: Vec<KeyRange>,
    /// Each range begins with the one key that it can hold, a record's or a unique index's.
    pub is_of_whole_keys: bool,
    /// Every document that the ranges lead to matches the filter.
    pub answers_filter: bool,
    pub is_reversed: bool,
    /// Documents come out of the access in the order that was asked for.
    pub is_sorted: bool,
}

/// What the ranges are of.
#[derive(Debug, Clone)]
pub enum Access {
    /// The whole collection.
    Collection,
    /// The records of a clustered collection, by `_id`.
    Records(IndexAccess),
    /// The entries of an index; the documents are fetched.
    Index(IndexAccess),
}

#[derive(Debug, Clone)]
pub struct IndexAccess {
    pub name: String,
    /// The index's own; the collection's for its records.
    pub ident: Ident,
    pub pattern: Document,
    pub is_multikey: bool,
    pub is_unique: bool,
    pub is_sparse: bool,
    /// Each field with its intervals, as explain prints them; empty unless that was asked for.
    pub bounds: Vec<(String, Vec<String>)>,
    /// One record by its whole `_id`.
    pub is_point: bool,
}

impl Plan {
    /// The access in the words of log lines.
    pub fn summary(&self) -> PlanSummary {
        match &self.access {
            Access::Collection => PlanSummary::CollectionScan,
            Access::Records(access) if access.is_point => PlanSummary::IdHack,
            Access::Records(access) | Access::Index(access) => {
                PlanSummary::IndexScan(access.pattern.clone())
            }
        }
    }

    /// The name explain gives the access.
    pub fn stage(&self) -> &'static str {
        match &self.access {
            Access::Collection => "COLLSCAN",
            Access::Records(access) if access.is_point => "IDHACK",
            Access::Records(_) | Access::Index(_) => "IXSCAN",
        }
    }
}
