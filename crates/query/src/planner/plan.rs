//! A chosen plan: owned, so that a cursor can keep it between batches.

use quarry_bson::Document;
use quarry_database::{Collection, Ident, KeyRange, PlanSummary};

/// The way to a query's documents.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the documents come from.
    pub access: Access,
    /// In key order; a reversed plan reads them from the last to the first.
    pub ranges: Vec<KeyRange>,
    /// Each range begins with the one key that it can hold, a record's or a unique index's.
    pub is_of_whole_keys: bool,
    /// Every document that the ranges lead to matches the filter.
    pub answers_filter: bool,
    /// Whether the keys are walked downwards.
    pub is_reversed: bool,
    /// Documents come out of the access in the order that was asked for.
    pub is_sorted: bool,
}

/// The way to the documents of a plan: the keys that its ranges are of.
#[derive(Debug, Clone)]
pub enum Access {
    /// The whole collection.
    Collection,
    /// The records of a clustered collection, by `_id`.
    Records(IndexAccess),
    /// The entries of an index; the documents are fetched.
    Index(IndexAccess),
    /// A plan for each branch of an `$or`. The plan itself has no ranges.
    Or(Union),
}

/// The plans for the branches of an `$or`, run one after the other; a document that several of them lead to is read once.
#[derive(Debug, Clone)]
pub struct Union {
    /// Each of records or of an index.
    pub branches: Vec<Plan>,
    /// Whether the filter is the `$or` and nothing else, so that explain calls its branches planned one by one (SUBPLAN).
    pub is_whole_filter: bool,
}

/// The use of one index, or of records by `_id`.
#[derive(Debug, Clone)]
pub struct IndexAccess {
    /// The index's name.
    pub name: String,
    /// The index's own; the collection's for its records.
    pub ident: Ident,
    /// The index's key pattern.
    pub pattern: Document,
    /// Whether the index has met an array.
    pub is_multikey: bool,
    /// Whether the index is unique.
    pub is_unique: bool,
    /// Whether the index is sparse.
    pub is_sparse: bool,
    /// Each field with its intervals, as explain prints them; empty unless that was asked for.
    pub bounds: Vec<(String, Vec<String>)>,
    /// One record by its whole `_id`.
    pub is_point: bool,
}

impl Plan {
    /// Reads all records in natural order.
    pub fn of_collection(collection: &Collection) -> Plan {
        let range = KeyRange::new(collection.prefix.as_bytes(), collection.prefix.end());
        Plan {
            access: Access::Collection,
            ranges: vec![range],
            is_of_whole_keys: false,
            answers_filter: false,
            is_reversed: false,
            is_sorted: true,
        }
    }

    /// The access in the words of log lines.
    pub fn summary(&self) -> PlanSummary {
        match &self.access {
            Access::Collection => PlanSummary::CollectionScan,
            Access::Records(access) if access.is_point => PlanSummary::IdHack,
            Access::Records(access) | Access::Index(access) => {
                PlanSummary::IndexScan(access.pattern.clone())
            }
            Access::Or(union) => {
                let mut patterns: Vec<Document> = Vec::new();
                for branch in &union.branches {
                    if let Some(access) = branch.index()
                        && !patterns.contains(&access.pattern)
                    {
                        patterns.push(access.pattern.clone());
                    }
                }
                PlanSummary::IndexScans(patterns)
            }
        }
    }

    /// The index that a plan of one access goes through, the records' own among them.
    pub fn index(&self) -> Option<&IndexAccess> {
        match &self.access {
            Access::Records(access) | Access::Index(access) => Some(access),
            Access::Collection | Access::Or(_) => None,
        }
    }

    /// The plans that are run one after the other: the branches, or the plan itself.
    pub fn branches(&self) -> &[Plan] {
        match &self.access {
            Access::Or(union) => &union.branches,
            _ => std::slice::from_ref(self),
        }
    }

    /// The name explain gives the access.
    pub fn stage(&self) -> &'static str {
        match &self.access {
            Access::Collection => "COLLSCAN",
            Access::Records(access) if access.is_point => "IDHACK",
            Access::Records(_) | Access::Index(_) => "IXSCAN",
            Access::Or(_) => "OR",
        }
    }
}
