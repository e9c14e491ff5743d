//! Rows: what a `$group` takes of documents, made by one thread and taken by another.
//!
//! A row has its group's key, once for all rows of that group, and the values that accumulators will take, each once: a constant
//! is in no row, nor is a field twice that several accumulators take. To take a row is then a few nanoseconds a value, where to read the
//! document, to find its fields and to look for its group are hundreds.
//!
//! Rows wait beside what the operation is charged for, so that they are bounded: a document whose row or key would take more than
//! `ROW_BYTES_MAX`, or that would become very many rows, gets none, and is shown to the stage's own thread instead.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue, Value};
use smallvec::SmallVec;

use super::plain_values::PlainValues;
use crate::error::Result;
use crate::expression::Expression;
use crate::memory::bytes_of;
use crate::value_set::ValueSet;
use crate::{Collation, Error};

/// The name of a value in a row, and of the place of one that is Missing.
const PRESENT: &str = "";
const MISSING: &str = "m";

/// The bytes that a row, or its key, may take.
const ROW_BYTES_MAX: usize = 256 << 10;
/// The bytes of rows behind which another one is refused: they are taken out between two documents, and one may become many rows.
const ROWS_BYTES_FULL: usize = 512 << 10;
/// The bytes that rows take at most.
pub const ROWS_BYTES_MAX: usize = ROWS_BYTES_FULL + 2 * ROW_BYTES_MAX;

/// The values that the accumulators take of a document, None for Missing.
pub(super) type Operands<'v> = SmallVec<[Option<RawValue<'v>>; 8]>;

/// Which operands of a `$group` stand in its rows, and where.
#[derive(Debug)]
pub(super) struct RowShape {
    /// For each accumulator, where its operand comes from.
    operands: Vec<Operand>,
    /// For each value of a row, the accumulator whose operand it is; others may take it, too.
    values: Vec<usize>,
}

#[derive(Debug)]
enum Operand {
    Constant(Option<Value>),
    /// The place of the value in a row.
    Value(usize),
}

/// Rows in the order of their documents.
#[derive(Debug, Default)]
pub struct GroupRows {
    /// The different keys.
    keys: ValueSet,
    key_bytes: usize,
    /// For each row, the place of its key.
    groups: Vec<u32>,
    /// For each row, a document of its values.
    values: Vec<u8>,
}

impl RowShape {
    /// The shape for accumulators with these operands. `plain` knows which of them are one field: the operands stand in it behind the
    /// key.
    pub fn new<'e>(
        operands: impl Iterator<Item = &'e Expression>,
        plain: Option<&PlainValues>,
    ) -> RowShape {
        let mut values = Vec::<usize>::new();
        let mut places_of_fields = vec![None; plain.map_or(0, PlainValues::field_count)];
        let places = operands.enumerate().map(|(number, operand)| match operand {
            Expression::Literal(value) => Operand::Constant(Some(value.clone())),
            Expression::Absent => Operand::Constant(None),
            _ => {
                let mut next = || {
                    values.push(number);
                    values.len() - 1
                };
                let field = plain.and_then(|plain| plain.field_of(1 + number));
                let known = field.and_then(|field| places_of_fields.get_mut(field));
                Operand::Value(match known {
                    Some(place) => *place.get_or_insert_with(next),
                    None => next(),
                })
            }
        });
        let operands = places.collect();
        RowShape { operands, values }
    }

    /// The accumulators whose operands a row has.
    pub fn values(&self) -> &[usize] {
        &self.values
    }

    fn operands<'v>(&'v self, row: RawDocument<'v>, operands: &mut Operands<'v>) {
        let mut values: Operands<'v> = SmallVec::new();
        for element in row {
            let is_present = element.name().as_bytes().is_empty();
            values.push(is_present.then(|| element.value()));
        }
        operands.clear();
        operands.extend(self.operands.iter().map(|operand| match operand {
            Operand::Constant(value) => value.as_ref().map(Value::as_raw),
            Operand::Value(place) => values.get(*place).copied().flatten(),
        }));
    }
}

impl GroupRows {
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// One row that takes about so many bytes.
    #[cfg(test)]
    pub fn of_bytes(bytes: usize) -> GroupRows {
        GroupRows {
            groups: vec![0],
            values: vec![0; bytes],
            ..GroupRows::default()
        }
    }

    /// The bytes that they take.
    pub fn held_bytes(&self) -> usize {
        self.key_bytes + self.groups.len() * size_of::<u32>() + self.values.len()
    }

    /// Takes them out; what is left is empty.
    pub fn take(&mut self) -> GroupRows {
        let left = GroupRows {
            keys: ValueSet::new(self.keys.collation()),
            groups: Vec::with_capacity(self.groups.len()),
            values: Vec::with_capacity(self.values.len()),
            key_bytes: 0,
        };
        std::mem::replace(self, left)
    }

    /// Has the keys told apart by the collation; there are no rows yet.
    pub(super) fn collate(&mut self, collation: &Collation) {
        self.keys.collate(collation);
    }

    /// Adds a row, unless it is too large for one. `put_values` appends the values of the shape, by `put`.
    pub(super) fn add(
        &mut self,
        key: RawValue<'_>,
        put_values: impl FnOnce(&mut DocumentBuilder<'_>) -> Result<()>,
    ) -> Result<()> {
        if bytes_of(key) > ROW_BYTES_MAX || self.held_bytes() > ROWS_BYTES_FULL {
            return Err(too_large());
        }
        let start = self.values.len();
        let mut row = DocumentBuilder::new(&mut self.values);
        let put = put_values(&mut row);
        row.finish();
        if put.is_err() {
            self.values.truncate(start);
            return put;
        }
        let (group, grown) = self.keys.insert(key)?;
        self.key_bytes += grown;
        let group = u32::try_from(group).map_err(|_| Error::bad_value("rows without end"))?;
        self.groups.push(group);
        Ok(())
    }

    /// The different keys, in the order in which they came.
    pub(super) fn keys(&self) -> &[Value] {
        self.keys.values()
    }

    /// Shows each row: the place of its key, and the operands of all accumulators.
    pub(super) fn each<'v>(
        &'v self,
        shape: &'v RowShape,
        mut show: impl FnMut(usize, &[Option<RawValue<'v>>]) -> Result<()>,
    ) -> Result<()> {
        let (mut left, mut operands) = (self.values.as_slice(), Operands::new());
        for group in &self.groups {
            let (row, behind) =
                RawDocument::split_first(left).expect("a document was written for each row");
            left = behind;
            shape.operands(row, &mut operands);
            show(*group as usize, &operands)?;
        }
        Ok(())
    }
}

/// Appends a value of a row, None for Missing.
pub(super) fn put(row: &mut DocumentBuilder<'_>, value: Option<RawValue<'_>>) -> Result<()> {
    match value {
        Some(value) if row.len_bytes() + bytes_of(value) > ROW_BYTES_MAX => return Err(too_large()),
        Some(value) => row.append(PRESENT, value),
        None => row.append(MISSING, RawValue::Null),
    };
    Ok(())
}

#[cold]
fn too_large() -> Error {
    Error::bad_value("a helper thread makes no rows of this size")
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    fn row_of(rows: &mut GroupRows, key: &Document, values: &[RawValue<'_>]) -> Result<()> {
        rows.add(RawValue::Document(key.as_raw()), |row| {
            values.iter().try_for_each(|value| put(row, Some(*value)))
        })
    }

    #[test]
    fn a_row_or_a_key_that_is_too_large_leaves_nothing_behind() {
        let (small, large) = (doc! { "a": 1 }, "x".repeat(ROW_BYTES_MAX / 2));
        let large = doc! { "a": large };
        let value = RawValue::Document(large.as_raw());
        let mut rows = GroupRows::default();
        row_of(&mut rows, &small, &[value]).unwrap();
        let held = rows.held_bytes();
        row_of(&mut rows, &small, &[value, value]).unwrap_err();
        let key = doc! { "a": (large.clone()), "b": large };
        row_of(&mut rows, &key, &[]).unwrap_err();
        assert_eq!((rows.held_bytes(), rows.keys().len()), (held, 1));
    }

    #[test]
    fn a_document_that_becomes_very_many_rows_is_refused_before_they_take_much() {
        let value = "x".repeat(ROW_BYTES_MAX / 3);
        let mut rows = GroupRows::default();
        let key = |number: i32| doc! { "a": number };
        let refused = (0..1000).find(|number| {
            row_of(&mut rows, &key(*number), &[RawValue::from(value.as_str())]).is_err()
        });
        assert!(refused.is_some_and(|rows| rows > 3));
        assert!(rows.held_bytes() <= ROWS_BYTES_MAX);
        rows.take();
        row_of(&mut rows, &key(0), &[RawValue::from(value.as_str())]).unwrap();
    }

    /// As many accumulators as a command may have.
    #[test]
    fn the_shape_of_very_many_accumulators_is_made_at_once() {
        let names: Vec<String> = (0..300_000).map(|number| format!("$f{number}")).collect();
        let operands: Vec<Expression> = names.iter().map(|name| field(name)).collect();
        let plain = PlainValues::of(std::iter::once(&field("$k")).chain(&operands)).unwrap();
        let begun = std::time::Instant::now();
        let shape = RowShape::new(operands.iter(), Some(&plain));
        assert_eq!(shape.values().len(), operands.len());
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }

    fn field(path: &str) -> Expression {
        let context = crate::expression::ExpressionContext::default();
        Expression::parse(RawValue::from(path), &context).unwrap()
    }
}
