//! How an operation reads, in the few words that MongoDB's log lines and profiler have for it.

use std::fmt;
use std::sync::Arc;

use quarry_bson::Document;

/// The access that an operation's plan chose.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanSummary {
    /// One record by its whole `_id`.
    IdHack,
    /// The whole collection.
    CollectionScan,
    /// Nothing: there is nothing to be found.
    Nothing,
    /// The collection's own count.
    RecordStoreCount,
    /// The keys of the index with this key pattern, which are only counted.
    CountScan(Arc<Document>),
    /// One key of the index with this key pattern for each value of its first fields.
    DistinctScan(Arc<Document>),
    /// The index with this key pattern.
    IndexScan(Arc<Document>),
    /// The indexes with these key patterns, one after the other.
    IndexScans(Vec<Arc<Document>>),
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanSummary::IdHack => f.write_str("IDHACK"),
            PlanSummary::CollectionScan => f.write_str("COLLSCAN"),
            PlanSummary::Nothing => f.write_str("EOF"),
            PlanSummary::RecordStoreCount => f.write_str("RECORD_STORE_FAST_COUNT"),
            PlanSummary::CountScan(pattern) => write_scan("COUNT_SCAN", pattern, f),
            PlanSummary::DistinctScan(pattern) => write_scan("DISTINCT_SCAN", pattern, f),
            PlanSummary::IndexScan(pattern) => write_scan("IXSCAN", pattern, f),
            PlanSummary::IndexScans(patterns) => {
                for (place, pattern) in patterns.iter().enumerate() {
                    if place > 0 {
                        f.write_str(", ")?;
                    }
                    write_scan("IXSCAN", pattern, f)?;
                }
                Ok(())
            }
        }
    }
}

fn write_scan(name: &str, pattern: &Document, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{name} {{")?;
    for (place, field) in pattern.iter().enumerate() {
        let separator = if place == 0 { "" } else { "," };
        write!(f, "{separator} {}: {}", field.name(), field.value())?;
    }
    f.write_str(" }")
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn it_reads_as_mongodb_writes_it() {
        let scan = PlanSummary::IndexScan(Arc::new(doc! { "a": 1, "b.c": -1, "h": "hashed" }));
        assert_eq!(scan.to_string(), "IXSCAN { a: 1, b.c: -1, h: 'hashed' }");
        assert_eq!(PlanSummary::IdHack.to_string(), "IDHACK");
    }
}
