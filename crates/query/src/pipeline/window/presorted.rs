//! `$setWindowFields` behind a `$sort` by partition and order: its documents come in order, so that it holds one partition and no more.
//!
//! Where it begins a pipeline the `$sort` is a part of the find, and an index may give its order. A partition is told by the value of
//! a path then: an order by several paths does not tell a missing field from null, and so would mix two partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument};

use super::super::execution::RunningStage;
use super::super::sort_stage;
use super::super::stage::{Reads, Stage, Stages};
use super::SetWindowFields;
use crate::error::Result;
use crate::sort::{SORT_FIELDS_MAX, SortPattern};

#[derive(Debug)]
struct Presorted(Arc<SetWindowFields>);

/// The `$sort` and the stage behind it; None where no `$sort` gives the order, or none is needed.
pub(super) fn of(stage: Arc<SetWindowFields>) -> Result<Option<Stages>> {
    let Some(order) = order(&stage) else {
        return Ok(None);
    };
    let sort = sort_stage::of(order, &stage.collation, stage.disk_use)?;
    Ok(Some(vec![sort, Arc::new(Presorted(stage))]))
}

/// The partition's path, and behind it the fields that the rows of one are sorted by.
fn order(stage: &SetWindowFields) -> Option<Document> {
    let partition = match &stage.partition {
        None => None,
        Some(partition) => Some(partition.as_path()?.root_path()?),
    };
    if stage.sort.as_deref().is_some_and(SortPattern::is_by_score) {
        return None;
    }
    let sort_by = stage.specification.get_document("sortBy");
    let sorted = stage.sort.as_ref().and(sort_by);
    // All rows of a partition have one value there.
    let is_partition = |name: &str| partition.is_some_and(|path| path.as_str() == name);
    let order = Document::build(|out| {
        if let Some(path) = partition {
            out.append(path.as_str(), 1);
        }
        for field in sorted.iter().flat_map(RawDocument::iter) {
            if !field.name().as_str().is_ok_and(is_partition) {
                out.append_element(field);
            }
        }
    });
    (1..=SORT_FIELDS_MAX)
        .contains(&order.len())
        .then_some(order)
}

impl Stage for Presorted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        self.0.explain(out);
    }

    fn add_fields_made(&self, fields: &mut BTreeSet<String>) {
        self.0.add_fields_made(fields);
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        self.0.add_fields_read(fields)
    }

    fn start(self: Arc<Self>, following: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Arc::clone(&self.0).run(following, true)
    }
}
