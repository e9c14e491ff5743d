//! The index that a scan goes through, as the planner describes it and explain prints it.

use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder};
use quarry_database::Ident;

/// The index that a scan goes through, or the records in their own order.
#[derive(Debug, Clone)]
pub struct IndexAccess {
    /// The index's name.
    pub name: Arc<str>,
    /// The index's own; the collection's for its records.
    pub ident: Ident,
    /// Whether the keys are those of the records themselves.
    pub is_of_records: bool,
    /// The index's key pattern.
    pub pattern: Arc<Document>,
    /// Whether the index has met an array.
    pub is_multikey: bool,
    /// Whether the index is unique.
    pub is_unique: bool,
    /// Whether the index is sparse.
    pub is_sparse: bool,
    /// The collation of the index, if it keeps sort keys.
    pub collation: Option<Document>,
    /// Whether the index is partial.
    pub is_partial: bool,
    /// Each field with its intervals, as explain prints them; empty unless that was asked for.
    pub bounds: Vec<(String, Vec<String>)>,
}

impl IndexAccess {
    /// Appends what explain prints of an index and its bounds.
    pub fn describe(&self, direction: &str, out: &mut DocumentBuilder<'_>) {
        out.append("keyPattern", self.pattern.as_raw());
        out.append("indexName", &*self.name);
        if let Some(collation) = &self.collation {
            out.append("collation", collation.as_raw());
        }
        out.append("isMultiKey", self.is_multikey);
        out.append("isUnique", self.is_unique);
        out.append("isSparse", self.is_sparse);
        out.append("isPartial", self.is_partial);
        out.append("indexVersion", 2);
        out.append("direction", direction);
        let mut bounds = out.document("indexBounds");
        for (path, intervals) in &self.bounds {
            let mut shown = bounds.array(path.as_str());
            for interval in intervals {
                shown.push(interval.as_str());
            }
            shown.finish();
        }
        bounds.finish();
    }
}
