//! `$skip`: drops the first documents.

use quarry_bson::RawValue;

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
    count.ok_or_else(|| {
        let kind = if value.is_number() {
            "a non-negative number"
        } else {
            "a number"
        };
        Error::location(
            5_107_200,
            format!("invalid argument to $skip stage: Expected {kind} in: $skip: {value}"),
        )
    })
}

pub(super) fn start(count: u64) -> Box<dyn Running> {
    Box::new(Skipping { left: count })
}

struct Skipping {
    left: u64,
}

impl Running for Skipping {
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
