//! The parts of a request that explain prints with the nodes, and how it prints counts.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

/// The parts of a request as they were sent, which explain prints with the nodes that serve them.
pub struct Shown<'s> {
    /// The whole filter.
    pub filter: RawDocument<'s>,
    /// The order, if one is asked for.
    pub sort: Option<RawDocument<'s>>,
    /// The projection, if there is one.
    pub projection: Option<RawDocument<'s>>,
    /// The tree was run, and its counts are shown.
    pub counts: bool,
}

impl Shown<'_> {
    /// Appends the filter, unless it is empty.
    pub fn filter(&self, out: &mut DocumentBuilder<'_>) {
        if !self.filter.is_empty() {
            out.append("filter", self.filter);
        }
    }

    /// Appends how many rows a node has given, if it was run.
    pub fn returned(&self, rows: u64, out: &mut DocumentBuilder<'_>) {
        if self.counts {
            out.append("nReturned", number(rows));
        }
    }
}

/// A count as explain prints it: Int32 where it fits, so that a shell shows a plain number.
pub fn number(count: u64) -> RawValue<'static> {
    match i32::try_from(count) {
        Ok(count) => RawValue::Int32(count),
        Err(_) => RawValue::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}
