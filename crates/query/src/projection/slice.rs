//! `$slice`: the first, the last, or a middle part of an array.

use quarry_bson::{RawArray, RawValue};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// From the end if negative.
    skip: i64,
    limit: u64,
}

impl Slice {
    /// The forms of `find`: a number, or `[skip, limit]` with a positive limit. None for anything else.
    pub fn parse(operand: RawValue<'_>) -> Option<Slice> {
        match operand {
            RawValue::Array(parts) => {
                let mut parts = parts.iter();
                let (skip, limit) = (whole(parts.next()?)?, whole(parts.next()?)?);
                (parts.next().is_none() && limit > 0).then_some(Slice {
                    skip,
                    limit: limit as u64,
                })
            }
            count => {
                let count = whole(count)?;
                Some(Slice {
                    skip: count.min(0),
                    limit: count.unsigned_abs(),
                })
            }
        }
    }

    /// The positions kept, first and one past the last.
    pub fn range(self, array: RawArray<'_>) -> (usize, usize) {
        let start = if self.skip >= 0 {
            self.skip as usize
        } else {
            array
                .len()
                .saturating_sub(self.skip.unsigned_abs() as usize)
        };
        (start, start.saturating_add(self.limit as usize))
    }
}

/// Fractions are cut off, as MongoDB does.
fn whole(value: RawValue<'_>) -> Option<i64> {
    value.as_i64_truncated().or_else(|| {
        value
            .as_f64_lossy()
            .filter(|number| number.is_finite())
            .map(|number| number as i64)
    })
}
