//! Plans as explain prints them, with what running them was measured to examine.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use super::plan::{Access, IndexAccess, Plan};

/// The counts of a run of a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// Documents returned.
    pub returned: u64,
    /// Index keys looked at.
    pub keys_examined: u64,
    /// Documents looked at.
    pub docs_examined: u64,
    /// The time of the run, in milliseconds.
    pub millis: u64,
}

impl Plan {
    /// Appends the access and, above an index, the fetch that asks the filter.
    pub fn describe(
        &self,
        filter: RawDocument<'_>,
        measured: Option<Measured>,
        out: &mut DocumentBuilder<'_>,
    ) {
        let has_filter = !filter.is_empty();
        match &self.access {
            Access::Collection => {
                out.append("stage", self.stage());
                if has_filter {
                    out.append("filter", filter);
                }
                append_returned(measured, out);
                out.append("direction", self.direction());
                if let Some(measured) = measured {
                    out.append("docsExamined", number(measured.docs_examined));
                }
            }
            Access::Records(access) if access.is_point => {
                out.append("stage", self.stage());
                append_returned(measured, out);
                if let Some(measured) = measured {
                    out.append("keysExamined", number(measured.keys_examined));
                    out.append("docsExamined", number(measured.docs_examined));
                }
            }
            Access::Records(access) | Access::Index(access) => {
                out.append("stage", "FETCH");
                if has_filter {
                    out.append("filter", filter);
                }
                append_returned(measured, out);
                if let Some(measured) = measured {
                    out.append("docsExamined", number(measured.docs_examined));
                }
                let mut input = out.document("inputStage");
                input.append("stage", self.stage());
                self.describe_index(access, measured, &mut input);
                input.finish();
            }
            Access::Or(union) => {
                out.append("stage", "FETCH");
                out.append("filter", filter);
                append_returned(measured, out);
                if let Some(measured) = measured {
                    out.append("docsExamined", number(measured.docs_examined));
                }
                let mut input = out.document("inputStage");
                describe_union(self.stage(), &union.branches, measured, &mut input);
                input.finish();
            }
        }
    }

    /// Whether the filter was an `$or` whose branches were planned one by one: explain shows SUBPLAN above all that the read
    /// does with the documents.
    pub fn is_of_branches(&self) -> bool {
        matches!(&self.access, Access::Or(union) if union.is_whole_filter)
    }

    fn describe_index(
        &self,
        access: &IndexAccess,
        measured: Option<Measured>,
        out: &mut DocumentBuilder<'_>,
    ) {
        if let Some(measured) = measured {
            out.append("nReturned", number(measured.docs_examined));
        }
        out.append("keyPattern", access.pattern.as_raw());
        out.append("indexName", access.name.as_str());
        out.append("isMultiKey", access.is_multikey);
        out.append("isUnique", access.is_unique);
        out.append("isSparse", access.is_sparse);
        out.append("isPartial", false);
        out.append("indexVersion", 2);
        out.append("direction", self.direction());
        let mut bounds = out.document("indexBounds");
        for (path, intervals) in &access.bounds {
            let mut shown = bounds.array(path.as_str());
            for interval in intervals {
                shown.push(interval.as_str());
            }
            shown.finish();
        }
        bounds.finish();
        if let Some(measured) = measured {
            out.append("keysExamined", number(measured.keys_examined));
        }
    }

    fn direction(&self) -> &'static str {
        if self.is_reversed {
            "backward"
        } else {
            "forward"
        }
    }
}

/// The branches one by one; what was examined is counted for all of them together.
fn describe_union(
    stage: &str,
    branches: &[Plan],
    measured: Option<Measured>,
    out: &mut DocumentBuilder<'_>,
) {
    out.append("stage", stage);
    if let Some(measured) = measured {
        out.append("nReturned", number(measured.docs_examined));
        out.append("keysExamined", number(measured.keys_examined));
    }
    let mut inputs = out.array("inputStages");
    for branch in branches {
        if let Some(access) = branch.index() {
            let mut input = inputs.document();
            input.append("stage", "IXSCAN");
            branch.describe_index(access, None, &mut input);
            input.finish();
        }
    }
    inputs.finish();
}

fn append_returned(measured: Option<Measured>, out: &mut DocumentBuilder<'_>) {
    if let Some(measured) = measured {
        out.append("nReturned", number(measured.returned));
    }
}

/// A count as explain prints it: Int32 where it fits, so that a shell shows a plain number.
pub fn number(count: u64) -> RawValue<'static> {
    match i32::try_from(count) {
        Ok(count) => RawValue::Int32(count),
        Err(_) => RawValue::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}
