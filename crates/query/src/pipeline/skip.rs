//! `$skip`: drops the first documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, doc};

use super::execution::{RunningStage, Upstream};
use super::limit::parse_count;
use super::stage::{PartOfFind, Reads, Specification, Stage, Stages, one};
use crate::error::Result;

#[derive(Debug)]
struct Skip {
    count: u64,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let count = parse_count("$skip", 5_107_200, specification.value)?;
    Ok(one(Skip { count }))
}

/// The stage that leaves out so many documents.
pub(super) fn of(count: u64) -> Arc<dyn Stage> {
    Arc::new(Skip { count })
}

/// The specification of a stage that leaves out so many documents.
pub fn specification(count: u64) -> Document {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    doc! { "$skip": count }
}

impl Stage for Skip {
    fn name(&self) -> &'static str {
        "$skip"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), i64::try_from(self.count).unwrap_or(i64::MAX));
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Passes
    }

    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::Skip(self.count)
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Skipping { left: self.count })
    }
}

struct Skipping {
    left: u64,
}

impl RunningStage for Skipping {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        while self.left > 0 {
            if !upstream.next(out)? {
                return Ok(false);
            }
            out.truncate(start);
            self.left -= 1;
        }
        upstream.next(out)
    }
}
