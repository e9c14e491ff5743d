//! `$rank $denseRank $documentNumber`: the place of a row in its partition.

use quarry_bson::{RawValue, Value};

use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::number::Number;

/// The things that are counted in front of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Rows,
    /// The rows in front of the first one with an equal place.
    RowsInFront,
    /// The different places.
    Places,
}

pub fn parse_document_number(given: Given<'_>) -> Result<Start> {
    given.sorted()?;
    parse(given, Counted::Rows)
}

pub fn parse_rank(given: Given<'_>) -> Result<Start> {
    given.sorted_by_one()?;
    parse(given, Counted::RowsInFront)
}

pub fn parse_dense_rank(given: Given<'_>) -> Result<Start> {
    given.sorted_by_one()?;
    parse(given, Counted::Places)
}

fn parse(given: Given<'_>, counted: Counted) -> Result<Start> {
    given.without_window()?;
    if !matches!(given.value, RawValue::Document(empty) if empty.is_empty()) {
        let text = format!("{} must be specified with '{{}}' as the value", given.name);
        return Err(Error::location(5_371_603, text));
    }
    Ok(Box::new(move || Box::new(Ranking { counted, rank: 0 })))
}

struct Ranking {
    counted: Counted,
    /// The rank of the row before.
    rank: usize,
}

impl RunningFunction for Ranking {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let ties = row > 0 && partition.place(row) == partition.place(row - 1);
        self.rank = match self.counted {
            Counted::Rows => row + 1,
            _ if ties => self.rank,
            Counted::RowsInFront => row + 1,
            Counted::Places => self.rank + 1,
        };
        let rank = i64::try_from(self.rank).unwrap_or(i64::MAX);
        Ok(Some(Number::int(rank).raw().to_value()))
    }
}
