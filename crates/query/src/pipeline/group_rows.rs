//! Rows: what a `$group` takes of documents, made by one thread and taken by another.
//!
//! A row has its group's key, once for all rows of that group, and the values that accumulators will take, each once: a constant
//! is in no row, nor is a field twice that several accumulators take. To take a row is then a few nanoseconds a value, where to read the
//! document, to find its fields and to look for its group are hundreds.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue, Value};
use smallvec::SmallVec;

use super::plain_values::PlainValues;
use crate::error::Result;
use crate::expression::Expression;
use crate::value_set::ValueSet;
use crate::{Collation, Error};

/// The name of a value in a row, and of the place of one that is Missing.
const PRESENT: &str = "";
const MISSING: &str = "m";

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
        let places = operands.enumerate().map(|(number, operand)| match operand {
            Expression::Literal(value) => Operand::Constant(Some(value.clone())),
            Expression::Absent => Operand::Constant(None),
            _ => {
                let is_same =
                    |known: &usize| plain.is_some_and(|it| it.are_same(1 + *known, 1 + number));
                let place = values.iter().position(is_same).unwrap_or_else(|| {
                    values.push(number);
                    values.len() - 1
                });
                Operand::Value(place)
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

    /// Adds a row. `put_values` appends the values of the shape, by `put`.
    pub(super) fn add(
        &mut self,
        key: RawValue<'_>,
        put_values: impl FnOnce(&mut DocumentBuilder<'_>) -> Result<()>,
    ) -> Result<()> {
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
pub(super) fn put(row: &mut DocumentBuilder<'_>, value: Option<RawValue<'_>>) {
    match value {
        Some(value) => row.append(PRESENT, value),
        None => row.append(MISSING, RawValue::Null),
    };
}
