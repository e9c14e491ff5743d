//! `$limit`: ends after so many documents, and how many of a `$sort`'s results the stages after it want.

use quarry_bson::RawValue;

use super::Stage;
use super::execution::{Running, Upstream};
use crate::error::{Error, Result};

pub(super) fn parse(value: RawValue<'_>) -> Result<u64> {
    let count = if value.is_number() {
        value
            .as_i64_exact()
            .and_then(|count| u64::try_from(count).ok())
    } else {
        None
    };
    match count {
        Some(0) => Err(Error::location(15958, "the limit must be positive")),
        Some(count) => Ok(count),
        None => {
            let kind = if value.is_number() {
                "a non-negative number"
            } else {
                "a number"
            };
            Err(Error::location(
                5_107_201,
                format!("invalid argument to $limit stage: Expected {kind} in: $limit: {value}"),
            ))
        }
    }
}

pub(super) fn start(count: u64) -> Box<dyn Running> {
    Box::new(Limiting { left: count })
}

/// How many documents the `$skip` and `$limit` that follow directly take; None for all.
pub(super) fn results_wanted(following: &[Stage]) -> Option<u64> {
    let mut skipped = 0_u64;
    for stage in following {
        match stage {
            Stage::Skip(count) => skipped = skipped.saturating_add(*count),
            Stage::Limit(count) => return Some(skipped.saturating_add(*count)),
            _ => return None,
        }
    }
    None
}

struct Limiting {
    left: u64,
}

impl Running for Limiting {
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
