//! `$limit`: ends after so many documents, and how many of a `$sort`'s results the stages after it want.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawValue};

use super::execution::{RunningStage, Upstream};
use super::stage::{PartOfFind, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};

#[derive(Debug)]
struct Limit {
    count: u64,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    match parse_count("$limit", 5_107_201, specification.value)? {
        0 => Err(Error::location(15958, "the limit must be positive")),
        count => Ok(one(Limit { count })),
    }
}

/// The stage of so many documents at most.
pub(super) fn of(count: u64) -> Arc<dyn Stage> {
    Arc::new(Limit { count })
}

/// The number of documents that `$limit` or `$skip` is given; an error has the stage's own code.
pub(super) fn parse_count(stage: &str, code: i32, value: RawValue<'_>) -> Result<u64> {
    let is_number = value.is_number();
    let count = is_number.then(|| value.as_i64_exact()).flatten();
    let count = count.and_then(|count| u64::try_from(count).ok());
    count.ok_or_else(|| {
        let kind = match is_number {
            true => "a non-negative number",
            false => "a number",
        };
        let text =
            format!("invalid argument to {stage} stage: Expected {kind} in: {stage}: {value}");
        Error::location(code, text)
    })
}

impl Stage for Limit {
    fn name(&self) -> &'static str {
        "$limit"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), i64::try_from(self.count).unwrap_or(i64::MAX));
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Passes
    }

    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::Limit(self.count)
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Limiting { left: self.count })
    }
}

/// How many documents the `$skip` and `$limit` that follow directly take; None for all.
pub(super) fn results_wanted(following: &[Arc<dyn Stage>]) -> Option<u64> {
    let mut skipped = 0_u64;
    for stage in following {
        match stage.part_of_find() {
            PartOfFind::Skip(count) => skipped = skipped.saturating_add(count),
            PartOfFind::Limit(count) => return Some(skipped.saturating_add(count)),
            _ => return None,
        }
    }
    None
}

struct Limiting {
    left: u64,
}

impl RunningStage for Limiting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let found = upstream.next(out)?;
        if !found {
            self.left = 0;
        }
        Ok(found)
    }
}
