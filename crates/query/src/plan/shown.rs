//! The parts of a request that explain prints with the nodes, and how it prints counts.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

/// The parts of a request, which explain prints with the nodes that serve them.
#[derive(Clone, Copy)]
pub struct Shown<'s> {
    /// The whole filter, in the form of `parsed_filter`.
    pub filter: RawDocument<'s>,
    /// The order, if one is asked for.
    pub sort: Option<RawDocument<'s>>,
    /// The projection, if there is one.
    pub projection: Option<RawDocument<'s>>,
    /// The tree was run, and its counts are shown.
    pub counts: bool,
    /// Whether the node has come to its end, where that is known.
    pub is_at_end: Option<bool>,
    /// The steps of the node that gave no row, where it counts them.
    pub idle_steps: Option<u64>,
}

impl<'s> Shown<'s> {
    /// A tree that was not run.
    pub fn planned(
        filter: RawDocument<'s>,
        sort: Option<RawDocument<'s>>,
        projection: Option<RawDocument<'s>>,
    ) -> Shown<'s> {
        Shown {
            filter,
            sort,
            projection,
            counts: false,
            is_at_end: None,
            idle_steps: None,
        }
    }

    /// Appends the filter, unless it is empty.
    pub fn filter(&self, out: &mut DocumentBuilder<'_>) {
        if !self.filter.is_empty() {
            out.append("filter", self.filter);
        }
    }

    /// Appends how many rows a node has given and the steps that it took for that, if it was run.
    pub fn returned(&self, rows: u64, out: &mut DocumentBuilder<'_>) {
        if !self.counts {
            return;
        }
        out.append("nReturned", number(rows));
        // To find that there is nothing more is a step, too.
        if let (Some(idle), Some(is_at_end)) = (self.idle_steps, self.is_at_end) {
            out.append("works", number(rows + idle + u64::from(is_at_end)));
        }
        out.append("advanced", number(rows));
        if let Some(idle) = self.idle_steps {
            out.append("needTime", number(idle));
        }
        // Explain runs a plan in one go and in one snapshot.
        for never in ["needYield", "saveState", "restoreState"] {
            out.append(never, 0);
        }
        if let Some(is_at_end) = self.is_at_end {
            out.append("isEOF", i32::from(is_at_end));
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
