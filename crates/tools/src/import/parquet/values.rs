//! Values of a batch of rows as BSON.
//!
//! The arrays of a batch are told apart once, and their values are then taken by the number of the row.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array as _, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};
use quarry_bson::{
    ArrayBuilder, DateTime, Decimal128, DocumentBuilder, ObjectId, RawBinary, RawDocument,
    RawValue, Timestamp, extjson,
};

use super::layout::{Bytes, Child, Column, Content, Fixed, Whole};

const DAY_MS: i64 = 86_400_000;
/// The subtype of a UUID in BSON.
const UUID: u8 = 4;

type Result<T> = std::result::Result<T, String>;

/// The columns of a document, for a batch of rows.
pub struct Columns {
    children: Vec<BoundChild>,
    /// The column whose documents stand in for fields of the others.
    overflow: Option<usize>,
}

struct BoundChild {
    bound: Bound,
    null_flag: Option<BooleanArray>,
}

/// A column with its values.
struct Bound {
    column: Arc<Column>,
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Null,
    Boolean(BooleanArray),
    Whole(Vec<i64>, Whole),
    Double(Vec<f64>),
    /// Digits, where 128 bits have room for them, and how many of them are behind the point.
    Decimal(Vec<Option<i128>>, i8),
    Bytes(BinaryViewArray, Bytes),
    Fixed(FixedSizeBinaryArray, Fixed),
    Document(Columns),
    Array(OffsetBuffer<i32>, Box<Bound>),
    Map(OffsetBuffer<i32>, BinaryViewArray, Box<Bound>),
}

/// The columns that lost something on the way, by their paths.
#[derive(Default)]
pub struct Lost(Cell<Vec<String>>);

impl Lost {
    fn note(&self, path: &str) {
        let mut paths = self.0.take();
        if !paths.iter().any(|noted| noted == path) {
            paths.push(path.to_owned());
        }
        self.0.set(paths);
    }

    /// The columns of which some dates were cut to milliseconds.
    pub fn paths(&self) -> Vec<String> {
        let paths = self.0.take();
        self.0.set(paths.clone());
        paths
    }
}

impl Columns {
    /// Tells the arrays of a document's columns apart.
    pub fn bind(children: &[Child], arrays: &[ArrayRef]) -> Result<Columns> {
        let array = |place: usize| arrays.get(place).ok_or("a column is missing");
        let mut bound = Vec::new();
        for child in children {
            let null_flag = match child.null_flag {
                Some(place) => array(place)?.as_boolean_opt().cloned(),
                None => None,
            };
            bound.push(BoundChild {
                bound: Bound::new(&child.column, array(child.place)?)?,
                null_flag,
            });
        }
        let overflow = bound
            .iter()
            .position(|child| child.bound.column.content == Content::Bytes(Bytes::Overflow));
        Ok(Columns {
            children: bound,
            overflow,
        })
    }

    /// Appends the document of a row. After an error `out` has to be cut back.
    pub fn append_row(&self, row: usize, out: &mut Vec<u8>, lost: &Lost) -> Result<()> {
        let overflow = match self.overflow {
            Some(place) => self.children[place].bound.overflow(row)?,
            None => None,
        };
        let mut document = DocumentBuilder::new(out);
        let overflow = overflow.as_ref().map(quarry_bson::Document::as_raw);
        self.append_fields(row, &mut document, lost, overflow)?;
        for element in overflow.iter().flat_map(RawDocument::iter) {
            document.append_element(element);
        }
        Ok(())
    }

    fn append_fields(
        &self,
        row: usize,
        document: &mut DocumentBuilder<'_>,
        lost: &Lost,
        overflow: Option<RawDocument<'_>>,
    ) -> Result<()> {
        for (place, child) in self.children.iter().enumerate() {
            let column = &child.bound.column;
            let stands_in = overflow.is_some_and(|overflow| overflow.contains(&column.name));
            if self.overflow == Some(place) || stands_in {
                continue;
            }
            let mut field = Named(document, &column.name);
            if !child.bound.is_null(row) {
                child.bound.append(row, &mut field, lost)?;
                continue;
            }
            let flag = child.null_flag.as_ref();
            let is_null = flag.is_some_and(|flag| flag.is_valid(row) && flag.value(row));
            if is_null || !column.null_is_missing {
                field.value(RawValue::Null);
            }
        }
        Ok(())
    }
}

/// Where a value goes: to a field, or to the end of an array.
trait Out {
    fn value(&mut self, value: RawValue<'_>);
    fn document(&mut self) -> DocumentBuilder<'_>;
    fn array(&mut self) -> ArrayBuilder<'_>;
}

struct Named<'o, 'b, 'n>(&'o mut DocumentBuilder<'b>, &'n str);

impl Out for Named<'_, '_, '_> {
    fn value(&mut self, value: RawValue<'_>) {
        self.0.append(self.1, value);
    }

    fn document(&mut self) -> DocumentBuilder<'_> {
        self.0.document(self.1)
    }

    fn array(&mut self) -> ArrayBuilder<'_> {
        self.0.array(self.1)
    }
}

impl Out for ArrayBuilder<'_> {
    fn value(&mut self, value: RawValue<'_>) {
        self.push(value);
    }

    fn document(&mut self) -> DocumentBuilder<'_> {
        ArrayBuilder::document(self)
    }

    fn array(&mut self) -> ArrayBuilder<'_> {
        ArrayBuilder::array(self)
    }
}

impl Bound {
    fn new(column: &Arc<Column>, array: &ArrayRef) -> Result<Bound> {
        let values = values(column, array).ok_or_else(|| {
            let found = array.data_type();
            format!(
                "column `{}` is read as {found}, which was not expected",
                column.path
            )
        })?;
        Ok(Bound {
            column: Arc::clone(column),
            nulls: array.logical_nulls(),
            values: values?,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null)
            || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn failed(&self, what: impl std::fmt::Display) -> String {
        format!("column `{}`: {what}", self.column.path)
    }

    /// Appends the value of a row, which is no null.
    fn append(&self, row: usize, out: &mut impl Out, lost: &Lost) -> Result<()> {
        match &self.values {
            Values::Null => out.value(RawValue::Null),
            Values::Boolean(values) => out.value(RawValue::Boolean(values.value(row))),
            Values::Whole(values, whole) => out.value(self.whole(values[row], *whole, lost)?),
            Values::Double(values) => out.value(RawValue::Double(values[row])),
            Values::Decimal(values, scale) => {
                let decimal = values[row].and_then(|digits| {
                    Decimal128::try_from_parts(
                        digits < 0,
                        digits.unsigned_abs(),
                        -i32::from(*scale),
                    )
                });
                let too_long = || self.failed("a decimal of more than 34 digits");
                out.value(RawValue::Decimal128(decimal.ok_or_else(too_long)?));
            }
            Values::Bytes(values, bytes) => self.append_bytes(values.value(row), *bytes, out)?,
            Values::Fixed(values, fixed) => append_fixed(values.value(row), *fixed, out),
            Values::Document(columns) => {
                columns.append_fields(row, &mut out.document(), lost, None)?;
            }
            Values::Array(offsets, elements) => {
                let mut array = out.array();
                for element in range(offsets, row) {
                    elements.append_or_null(element, &mut array, lost)?;
                }
            }
            Values::Map(offsets, keys, values) => {
                let mut document = out.document();
                for entry in range(offsets, row) {
                    let key = self.key(keys, entry)?;
                    values.append_or_null(entry, &mut Named(&mut document, key), lost)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the value of an element or of an entry, where a null stays in its place.
    fn append_or_null(&self, row: usize, out: &mut impl Out, lost: &Lost) -> Result<()> {
        if self.is_null(row) {
            out.value(RawValue::Null);
            return Ok(());
        }
        self.append(row, out, lost)
    }

    fn key<'k>(&self, keys: &'k BinaryViewArray, entry: usize) -> Result<&'k str> {
        if keys.is_null(entry) {
            return Err(self.failed("a key is null"));
        }
        let key = self.text(keys.value(entry))?;
        match key.contains('\0') {
            true => Err(self.failed("a key has a NUL")),
            false => Ok(key),
        }
    }

    fn whole(&self, value: i64, whole: Whole, lost: &Lost) -> Result<RawValue<'static>> {
        Ok(match whole {
            // The column's type has no larger ones.
            Whole::Int32 => RawValue::Int32(value as i32),
            Whole::Int64 => RawValue::Int64(value),
            Whole::Unsigned if value >= 0 => RawValue::Int64(value),
            Whole::Unsigned => {
                let decimal = Decimal128::try_from_parts(false, u128::from(value as u64), 0);
                RawValue::Decimal128(decimal.expect("64 bits have at most 20 digits"))
            }
            Whole::Timestamp => RawValue::Timestamp(Timestamp {
                time: (value as u64 >> 32) as u32,
                increment: value as u32,
            }),
            Whole::DateTime(unit) => {
                let (ms, rest) = match unit {
                    TimeUnit::Second => {
                        let ms = value.checked_mul(1000);
                        (
                            ms.ok_or_else(|| self.failed("a date beyond what BSON has room for"))?,
                            0,
                        )
                    }
                    TimeUnit::Millisecond => (value, 0),
                    TimeUnit::Microsecond => (value.div_euclid(1000), value.rem_euclid(1000)),
                    TimeUnit::Nanosecond => {
                        (value.div_euclid(1_000_000), value.rem_euclid(1_000_000))
                    }
                };
                if rest != 0 {
                    lost.note(&self.column.path);
                }
                RawValue::from(DateTime(ms))
            }
        })
    }

    fn text<'t>(&self, bytes: &'t [u8]) -> Result<&'t str> {
        str::from_utf8(bytes).map_err(|_| self.failed("the text is no UTF-8"))
    }

    fn append_bytes(&self, bytes: &[u8], read: Bytes, out: &mut impl Out) -> Result<()> {
        match read {
            Bytes::String => out.value(RawValue::from(self.text(bytes)?)),
            Bytes::Binary => out.value(RawValue::Binary(RawBinary { subtype: 0, bytes })),
            Bytes::Document => {
                let document = RawDocument::validated(bytes).map_err(|error| self.failed(error))?;
                out.value(RawValue::Document(document));
            }
            Bytes::Decimal => {
                let decimal = Decimal128::parse(self.text(bytes)?);
                out.value(RawValue::Decimal128(
                    decimal.map_err(|error| self.failed(error))?,
                ));
            }
            Bytes::ExtendedJson | Bytes::Overflow => {
                let value = extjson::parse_value(self.text(bytes)?);
                out.value(value.map_err(|error| self.failed(error))?.as_raw());
            }
        }
        Ok(())
    }

    /// The document that stands in for fields of the row.
    fn overflow(&self, row: usize) -> Result<Option<quarry_bson::Document>> {
        let Values::Bytes(values, _) = &self.values else {
            return Ok(None);
        };
        if self.is_null(row) {
            return Ok(None);
        }
        let document = extjson::parse(self.text(values.value(row))?);
        document.map(Some).map_err(|error| self.failed(error))
    }
}

fn append_fixed(bytes: &[u8], fixed: Fixed, out: &mut impl Out) {
    let subtype = match fixed {
        Fixed::Binary => 0,
        Fixed::Uuid => UUID,
        Fixed::ObjectId => {
            let id = bytes
                .try_into()
                .expect("the column's values have twelve bytes");
            return out.value(RawValue::ObjectId(ObjectId::from_bytes(id)));
        }
    };
    out.value(RawValue::Binary(RawBinary { subtype, bytes }));
}

fn range(offsets: &OffsetBuffer<i32>, row: usize) -> Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The values of an array; none where it is not of the type that was asked for.
fn values(column: &Arc<Column>, array: &ArrayRef) -> Option<Result<Values>> {
    Some(Ok(match &column.content {
        Content::Null => Values::Null,
        Content::Boolean => Values::Boolean(array.as_boolean_opt()?.clone()),
        Content::Whole(whole) => Values::Whole(whole_numbers(array)?, *whole),
        Content::Double => Values::Double(doubles(array)?),
        Content::Decimal { scale } => Values::Decimal(decimals(array)?, *scale),
        Content::Bytes(bytes) => Values::Bytes(views(array)?, *bytes),
        Content::Fixed(fixed) => Values::Fixed(array.as_fixed_size_binary_opt()?.clone(), *fixed),
        Content::Document(children) => {
            match Columns::bind(children, array.as_struct_opt()?.columns()) {
                Ok(columns) => Values::Document(columns),
                Err(what) => return Some(Err(what)),
            }
        }
        Content::Array(element) => {
            let list = array.as_list_opt::<i32>()?;
            match Bound::new(element, list.values()) {
                Ok(bound) => Values::Array(list.offsets().clone(), Box::new(bound)),
                Err(what) => return Some(Err(what)),
            }
        }
        Content::Map(value) => {
            let map = array.as_map_opt()?;
            match Bound::new(value, map.values()) {
                Ok(bound) => {
                    Values::Map(map.offsets().clone(), views(map.keys())?, Box::new(bound))
                }
                Err(what) => return Some(Err(what)),
            }
        }
    }))
}

/// Texts as the bytes that they are: the library does not look at all of them whether they are UTF-8.
fn views(array: &ArrayRef) -> Option<BinaryViewArray> {
    match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view_opt()?.clone().to_binary_view()),
        _ => array.as_binary_view_opt().cloned(),
    }
}

fn numbers<P: ArrowPrimitiveType, N>(
    array: &ArrayRef,
    number: impl Fn(P::Native) -> N,
) -> Option<Vec<N>> {
    let values = array.as_primitive_opt::<P>()?.values();
    Some(values.iter().map(|value| number(*value)).collect())
}

fn whole_numbers(array: &ArrayRef) -> Option<Vec<i64>> {
    match array.data_type() {
        DataType::Int8 => numbers::<Int8Type, _>(array, i64::from),
        DataType::Int16 => numbers::<Int16Type, _>(array, i64::from),
        DataType::Int32 => numbers::<Int32Type, _>(array, i64::from),
        DataType::Int64 => numbers::<Int64Type, _>(array, |value| value),
        DataType::UInt8 => numbers::<UInt8Type, _>(array, i64::from),
        DataType::UInt16 => numbers::<UInt16Type, _>(array, i64::from),
        DataType::UInt32 => numbers::<UInt32Type, _>(array, i64::from),
        // All 64 bits, which are told apart when they are appended.
        DataType::UInt64 => numbers::<UInt64Type, _>(array, |value| value as i64),
        DataType::Date32 => numbers::<Date32Type, _>(array, |days| i64::from(days) * DAY_MS),
        DataType::Date64 => numbers::<Date64Type, _>(array, |ms| ms),
        DataType::Time32(TimeUnit::Second) => numbers::<Time32SecondType, _>(array, i64::from),
        DataType::Time32(_) => numbers::<Time32MillisecondType, _>(array, i64::from),
        DataType::Time64(TimeUnit::Microsecond) => {
            numbers::<Time64MicrosecondType, _>(array, |value| value)
        }
        DataType::Time64(_) => numbers::<Time64NanosecondType, _>(array, |value| value),
        DataType::Timestamp(TimeUnit::Second, _) => {
            numbers::<TimestampSecondType, _>(array, |value| value)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            numbers::<TimestampMillisecondType, _>(array, |value| value)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            numbers::<TimestampMicrosecondType, _>(array, |value| value)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            numbers::<TimestampNanosecondType, _>(array, |value| value)
        }
        DataType::Duration(TimeUnit::Second) => {
            numbers::<DurationSecondType, _>(array, |value| value)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            numbers::<DurationMillisecondType, _>(array, |value| value)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            numbers::<DurationMicrosecondType, _>(array, |value| value)
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            numbers::<DurationNanosecondType, _>(array, |value| value)
        }
        _ => None,
    }
}

fn doubles(array: &ArrayRef) -> Option<Vec<f64>> {
    match array.data_type() {
        DataType::Float16 => numbers::<Float16Type, _>(array, f64::from),
        DataType::Float32 => numbers::<Float32Type, _>(array, f64::from),
        DataType::Float64 => numbers::<Float64Type, _>(array, |value| value),
        _ => None,
    }
}

fn decimals(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    match array.data_type() {
        DataType::Decimal32(..) => {
            numbers::<Decimal32Type, _>(array, |value| Some(i128::from(value)))
        }
        DataType::Decimal64(..) => {
            numbers::<Decimal64Type, _>(array, |value| Some(i128::from(value)))
        }
        DataType::Decimal128(..) => numbers::<Decimal128Type, _>(array, Some),
        DataType::Decimal256(..) => {
            numbers::<Decimal256Type, _>(array, arrow_buffer::i256::to_i128)
        }
        _ => None,
    }
}
