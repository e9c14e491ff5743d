//! The documents of one partition, in order, as window functions see them.

use quarry_bson::{RawDocument, RawValue, Value};

use super::super::nested_field;
use crate::error::{Error, Result};
use crate::expression::number::Number;
use crate::expression::{Context, Expression, type_name};
use crate::interrupts;
use crate::sort::SortPattern;
use crate::sorter::Row;

/// The length of a row's partition key, in front of its document.
const KEY_LENGTH_BYTES: usize = 4;

/// The bytes of a row's key that are its partition's.
pub fn partition_bytes(row: &Row) -> usize {
    let bytes = row.payload().first_chunk::<KEY_LENGTH_BYTES>();
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes) as usize)
}

/// The rows of a partition.
pub struct Partition<'p> {
    rows: &'p [Row],
    sort: Option<&'p SortPattern>,
}

impl<'p> Partition<'p> {
    pub(super) fn new(rows: &'p [Row], sort: Option<&'p SortPattern>) -> Partition<'p> {
        Partition { rows, sort }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The document of a row.
    pub fn document(&self, row: usize) -> Result<RawDocument<'p>> {
        let payload = self.rows[row].payload();
        Ok(RawDocument::new(&payload[KEY_LENGTH_BYTES..])?)
    }

    /// The key of a row's place: equal for rows that the order does not tell apart.
    pub fn place(&self, row: usize) -> &'p [u8] {
        let row = &self.rows[row];
        &row.key()[partition_bytes(row)..]
    }

    /// The value of an expression over a row; None for Missing.
    pub fn evaluate(&self, expression: &Expression, row: usize) -> Result<Option<Value>> {
        let document = self.document(row)?;
        let value = expression.evaluate(&mut Context::new(document))?;
        interrupts::work(1)?;
        Ok(value.into_value())
    }

    /// Hands the value of an expression over a row to `take`, which keeps nothing of it.
    pub fn with_value<R>(
        &self,
        expression: &Expression,
        row: usize,
        take: impl FnOnce(Option<RawValue<'_>>) -> Result<R>,
    ) -> Result<R> {
        interrupts::work(1)?;
        let mut context = Context::new(self.document(row)?);
        let value = expression.evaluate(&mut context)?;
        take(value.as_raw())
    }

    /// Like `evaluate`, for a number; None for what is none.
    pub fn number(&self, expression: &Expression, row: usize) -> Result<Option<Number>> {
        self.with_value(
            expression,
            row,
            |value| Ok(value.and_then(Number::from_raw)),
        )
    }

    /// The value of the first field that the rows are sorted by.
    pub fn sort_value(&self, row: usize) -> Result<Option<RawValue<'p>>> {
        let Some(field) = self.sort.and_then(|sort| sort.fields().first()) else {
            return Ok(None);
        };
        interrupts::work(1)?;
        Ok(nested_field::get(self.document(row)?, field.path.parts()))
    }

    /// The number, or with `is_date` the milliseconds of the date, that the row is sorted by.
    pub fn position(&self, row: usize, is_date: bool, code: i32) -> Result<Number> {
        let value = self.sort_value(row)?;
        match (value, is_date) {
            (Some(RawValue::DateTime(date)), true) => Ok(Number::Int64(date)),
            (Some(value), false) if value.is_number() => {
                Ok(Number::from_raw(value).unwrap_or(Number::Int32(0)))
            }
            (value, _) => {
                let wanted = if is_date { "Date" } else { "number" };
                let found = value.map_or("missing", type_name);
                let text = format!(
                    "Invalid range: Expected the sortBy field to be a {wanted}, but it was {found}"
                );
                Err(Error::location(code, text))
            }
        }
    }
}
