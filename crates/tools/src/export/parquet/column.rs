//! Columns that are being filled, a document after the other.
//!
//! A document is held against the columns before any of its values is appended, so that columns are always equally long.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBufferBuilder, BooleanBuilder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float64Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::extension::{Json, Uuid};
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields, TimeUnit};
use quarry_bson::{RawArray, RawDocument, RawValue, Value, extjson};

use super::kind::{self, Field, Kind, Nulls};
use crate::column_marks::{self as marks, Mark};

const OBJECT_ID_BYTES: i32 = 12;
const UUID_BYTES: i32 = 16;
/// Digits of a column of decimals, the most that 128 bits have room for.
const DECIMAL_DIGITS: u8 = 38;
/// The name by which readers know the elements of a list.
const ELEMENT: &str = "element";
/// Added to the name of a field for the column that tells its nulls from missing ones.
const NULL_ENDING: &str = ":null";

/// Said of what `comes_back` refuses.
const NOT_COMING_BACK: &str =
    "would be another value when it is read back from Extended JSON, which its column has";

/// Why a document does not fit in the columns.
#[derive(Debug, PartialEq)]
pub struct Misfit {
    /// Names from the inside out.
    path: Vec<String>,
    what: String,
}

impl Misfit {
    fn new(what: impl Into<String>) -> Misfit {
        Misfit {
            path: Vec::new(),
            what: what.into(),
        }
    }

    fn within(mut self, name: impl Into<String>) -> Misfit {
        self.path.push(name.into());
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
        write!(f, "field `{}` {}", path.join("."), self.what)
    }
}

/// Differences between the columns and the documents that were appended to them.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// Paths of columns that have numbers of another type than documents.
    pub widened: Vec<String>,
    /// Paths of columns in which null and missing fields are one.
    pub nulls: Vec<String>,
    /// Documents, also such within others, whose fields stood in another order than the columns.
    pub reordered: u64,
}

/// The columns of documents in one place.
pub struct Documents {
    fields: Vec<FieldColumn>,
    places: HashMap<Vec<u8>, usize>,
    /// Fields that each document has.
    needed: usize,
    is_there: BooleanBufferBuilder,
    reordered: u64,
    /// Which fields the document has that is appended; all false between documents.
    has: Vec<bool>,
}

struct FieldColumn {
    name: String,
    nulls: Nulls,
    column: Column,
    /// True where the field is null, null elsewhere.
    null_flag: Option<BooleanBuilder>,
    /// Whether an explicit null was written like a missing field.
    has_lost_null: bool,
}

/// A column, with what its values are.
struct Column {
    kind: Kind,
    builder: Builder,
    is_widened: bool,
}

enum Builder {
    Boolean(BooleanBuilder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Double(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Fixed(FixedSizeBinaryBuilder),
    DateTime(TimestampMillisecondBuilder),
    Timestamp(UInt64Builder),
    Document(Documents),
    Array(Box<Elements>),
}

/// The elements of arrays in one place.
struct Elements {
    column: Column,
    ends: Vec<i32>,
    is_there: BooleanBufferBuilder,
    len: i32,
}

impl Documents {
    pub fn new(fields: Vec<Field>) -> Documents {
        let places = fields.iter().enumerate();
        let places = places.map(|(place, field)| (field.name.clone().into_bytes(), place));
        Documents {
            places: places.collect(),
            needed: fields
                .iter()
                .filter(|field| field.nulls == Nulls::Null)
                .count(),
            has: vec![false; fields.len()],
            fields: fields.into_iter().map(FieldColumn::new).collect(),
            is_there: BooleanBufferBuilder::new(0),
            reordered: 0,
        }
    }

    /// The number of columns that a file has for them.
    pub fn leaves(&self) -> usize {
        let of =
            |field: &FieldColumn| field.column.leaves() + usize::from(field.null_flag.is_some());
        self.fields.iter().map(of).sum()
    }

    pub fn has_field(&self, name: &str) -> bool {
        self.places.contains_key(name.as_bytes())
    }

    /// Looks whether a document fits in the columns.
    pub fn check(&self, document: RawDocument<'_>) -> Result<(), Misfit> {
        let (mut next, mut is_in_order, mut needed) = (0, true, 0);
        for element in document {
            let name = element.name();
            let Some(place) = self.place(name.as_bytes(), next) else {
                return Err(Misfit::new("has no column").within(name.to_string_lossy()));
            };
            is_in_order &= place >= next;
            next = place + 1;
            needed += usize::from(self.fields[place].nulls == Nulls::Null);
            self.check_value(place, element.value())?;
        }
        // One that is in order has no field twice.
        if !is_in_order {
            check_names(document)?;
        }
        match needed == self.needed {
            true => Ok(()),
            false => Err(self.missing(document)),
        }
    }

    /// The place of a field, which most often is the one that comes next.
    fn place(&self, name: &[u8], next: usize) -> Option<usize> {
        match self.fields.get(next) {
            Some(field) if field.name.as_bytes() == name => Some(next),
            _ => self.places.get(name).copied(),
        }
    }

    /// The field that the document should have.
    fn missing(&self, document: RawDocument<'_>) -> Misfit {
        let is_missing =
            |field: &&FieldColumn| field.nulls == Nulls::Null && !document.contains(&field.name);
        let name = self
            .fields
            .iter()
            .find(is_missing)
            .map_or("", |field| field.name.as_str());
        Misfit::new("is missing, and a null of its column is one that is there").within(name)
    }

    /// Looks whether the value of a field fits in its column.
    pub fn check_field(&self, name: &[u8], value: RawValue<'_>) -> Result<(), Misfit> {
        match self.places.get(name) {
            Some(place) => self.check_value(*place, value),
            None => Err(Misfit::new("has no column").within(String::from_utf8_lossy(name))),
        }
    }

    fn check_value(&self, place: usize, value: RawValue<'_>) -> Result<(), Misfit> {
        let field = &self.fields[place];
        let checked = match (value, field.nulls) {
            (RawValue::Null, Nulls::Missing) => Err(Misfit::new(
                "is null, and a null of its column is a field that is not there",
            )),
            (RawValue::Null, _) => Ok(()),
            (value, _) => field.column.check(value),
        };
        checked.map_err(|misfit| misfit.within(field.name.as_str()))
    }

    /// Appends a document, which fits.
    pub fn append(&mut self, document: RawDocument<'_>) {
        let mut next = 0;
        let mut is_reordered = false;
        for element in document {
            let Some(place) = self.place(element.name().as_bytes(), next) else {
                continue;
            };
            is_reordered |= place < next;
            next = place + 1;
            self.has[place] = true;
            self.fields[place].append(element.value());
        }
        for (field, has) in self.fields.iter_mut().zip(&mut self.has) {
            if !std::mem::take(has) {
                field.append_missing();
            }
        }
        self.is_there.append(true);
        self.reordered += u64::from(is_reordered);
    }

    fn append_null(&mut self) {
        for field in &mut self.fields {
            field.append_missing();
        }
        self.is_there.append(false);
    }

    /// The fields of the schema.
    pub fn arrow_fields(&self) -> Fields {
        let mut fields: Vec<FieldRef> = Vec::new();
        for field in &self.fields {
            fields.push(Arc::new(field.arrow_field()));
            if field.null_flag.is_some() {
                let mut name = format!("{}{NULL_ENDING}", field.name);
                while self.has_field(&name) {
                    name.push_str(NULL_ENDING);
                }
                let flag = ArrowField::new(name, DataType::Boolean, true);
                fields.push(Arc::new(marks::mark_null_of(flag, &field.name)));
            }
        }
        fields.into()
    }

    /// Takes the values that have been appended, an array a column.
    pub fn take(&mut self) -> (Vec<ArrayRef>, NullBuffer) {
        let mut arrays = Vec::new();
        for field in &mut self.fields {
            arrays.push(field.column.take());
            if let Some(flag) = &mut field.null_flag {
                arrays.push(Arc::new(flag.finish()));
            }
        }
        (arrays, NullBuffer::new(self.is_there.finish()))
    }

    /// Adds what the columns have otherwise than the documents.
    pub fn add_changes(&self, above: &str, changes: &mut Changes) {
        changes.reordered += self.reordered;
        for field in &self.fields {
            let path = match above {
                "" => field.name.clone(),
                above => format!("{above}.{}", field.name),
            };
            if field.has_lost_null {
                changes.nulls.push(path.clone());
            }
            field.column.add_changes(&path, changes);
        }
    }
}

impl FieldColumn {
    fn new(field: Field) -> FieldColumn {
        FieldColumn {
            column: Column::new(field.kind),
            null_flag: (field.nulls == Nulls::Told).then(BooleanBuilder::new),
            name: field.name,
            nulls: field.nulls,
            has_lost_null: false,
        }
    }

    fn append(&mut self, value: RawValue<'_>) {
        let is_null = matches!(value, RawValue::Null);
        match is_null {
            true => self.column.append_null(),
            false => self.column.append(value),
        }
        self.has_lost_null |= is_null && self.nulls == Nulls::Either;
        if let Some(flag) = &mut self.null_flag {
            flag.append_option(is_null.then_some(true));
        }
    }

    fn append_missing(&mut self) {
        self.column.append_null();
        if let Some(flag) = &mut self.null_flag {
            flag.append_null();
        }
    }

    fn arrow_field(&self) -> ArrowField {
        let field = self.column.arrow_field(&self.name);
        match self.nulls {
            Nulls::Null => field,
            Nulls::Missing | Nulls::Told | Nulls::Either => marks::mark_null_as_missing(field),
        }
    }
}

impl Column {
    fn new(kind: Kind) -> Column {
        let builder = match &kind {
            Kind::Boolean => Builder::Boolean(BooleanBuilder::new()),
            Kind::Int32 => Builder::Int32(Int32Builder::new()),
            Kind::Int64 => Builder::Int64(Int64Builder::new()),
            Kind::Double => Builder::Double(Float64Builder::new()),
            Kind::Decimal { .. } => {
                Builder::Decimal(Decimal128Builder::new().with_data_type(data_type(&kind)))
            }
            Kind::DecimalText | Kind::String | Kind::Json => Builder::Text(StringBuilder::new()),
            Kind::Binary => Builder::Binary(BinaryBuilder::new()),
            Kind::Uuid => Builder::Fixed(FixedSizeBinaryBuilder::new(UUID_BYTES)),
            Kind::ObjectId => Builder::Fixed(FixedSizeBinaryBuilder::new(OBJECT_ID_BYTES)),
            Kind::DateTime => Builder::DateTime(
                TimestampMillisecondBuilder::new().with_data_type(data_type(&kind)),
            ),
            Kind::Timestamp => Builder::Timestamp(UInt64Builder::new()),
            Kind::Document(fields) => Builder::Document(Documents::new(fields.clone())),
            Kind::Array(element) => Builder::Array(Box::new(Elements {
                column: Column::new((**element).clone()),
                ends: vec![0],
                is_there: BooleanBufferBuilder::new(0),
                len: 0,
            })),
        };
        Column {
            kind,
            builder,
            is_widened: false,
        }
    }

    fn leaves(&self) -> usize {
        match &self.builder {
            Builder::Document(documents) => documents.leaves(),
            Builder::Array(elements) => elements.column.leaves(),
            _ => 1,
        }
    }

    fn check(&self, value: RawValue<'_>) -> Result<(), Misfit> {
        if !self.kind.has(value) {
            let (is, holds) = (value.element_type(), self.kind.shown());
            return Err(Misfit::new(format!(
                "is {is:?}, and its column has {holds}"
            )));
        }
        match (&self.builder, value) {
            (Builder::Text(_), value) if self.kind == Kind::Json && !comes_back(value) => {
                Err(Misfit::new(NOT_COMING_BACK))
            }
            (Builder::Document(documents), RawValue::Document(document)) => {
                documents.check(document)
            }
            (Builder::Array(elements), RawValue::Array(array)) => elements.check(array),
            _ => Ok(()),
        }
    }

    /// Appends a value, which fits.
    fn append(&mut self, value: RawValue<'_>) {
        match (&mut self.builder, value) {
            (Builder::Text(text), value) => append_text(&self.kind, text, value),
            (Builder::Boolean(values), RawValue::Boolean(value)) => values.append_value(value),
            (Builder::Int32(values), RawValue::Int32(value)) => values.append_value(value),
            (Builder::Int64(values), RawValue::Int64(value)) => values.append_value(value),
            (Builder::Double(values), RawValue::Double(value)) => values.append_value(value),
            (Builder::Int64(values), RawValue::Int32(value)) => {
                values.append_value(i64::from(value));
                self.is_widened = true;
            }
            (Builder::Double(values), value) => {
                values.append_option(value.as_f64_lossy());
                self.is_widened = true;
            }
            (Builder::Decimal(values), RawValue::Decimal128(value)) => {
                values.append_option(match self.kind {
                    Kind::Decimal { scale, pads } => kind::digits(value, scale, pads),
                    _ => None,
                });
            }
            (Builder::Binary(values), RawValue::Binary(value)) => values.append_value(value.bytes),
            (Builder::Fixed(values), RawValue::Binary(value)) => append_fixed(values, value.bytes),
            (Builder::Fixed(values), RawValue::ObjectId(id)) => append_fixed(values, &id.bytes()),
            (Builder::DateTime(values), RawValue::DateTime(ms)) => values.append_value(ms),
            (Builder::Timestamp(values), RawValue::Timestamp(at)) => {
                values.append_value(u64::from(at.time) << 32 | u64::from(at.increment));
            }
            (Builder::Document(documents), RawValue::Document(document)) => {
                documents.append(document);
            }
            (Builder::Array(elements), RawValue::Array(array)) => elements.append(array),
            (_, value) => unreachable!("{value} was held against the column before"),
        }
    }

    fn append_null(&mut self) {
        match &mut self.builder {
            Builder::Boolean(values) => values.append_null(),
            Builder::Int32(values) => values.append_null(),
            Builder::Int64(values) => values.append_null(),
            Builder::Double(values) => values.append_null(),
            Builder::Decimal(values) => values.append_null(),
            Builder::Text(values) => values.append_null(),
            Builder::Binary(values) => values.append_null(),
            Builder::Fixed(values) => values.append_null(),
            Builder::DateTime(values) => values.append_null(),
            Builder::Timestamp(values) => values.append_null(),
            Builder::Document(documents) => documents.append_null(),
            Builder::Array(elements) => elements.append_null(),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match &mut self.builder {
            Builder::Boolean(values) => Arc::new(values.finish()),
            Builder::Int32(values) => Arc::new(values.finish()),
            Builder::Int64(values) => Arc::new(values.finish()),
            Builder::Double(values) => Arc::new(values.finish()),
            Builder::Decimal(values) => Arc::new(values.finish()),
            Builder::Text(values) => Arc::new(values.finish()),
            Builder::Binary(values) => Arc::new(values.finish()),
            Builder::Fixed(values) => Arc::new(values.finish()),
            Builder::DateTime(values) => Arc::new(values.finish()),
            Builder::Timestamp(values) => Arc::new(values.finish()),
            Builder::Document(documents) => {
                let fields = documents.arrow_fields();
                let (arrays, is_there) = documents.take();
                Arc::new(StructArray::new(fields, arrays, Some(is_there)))
            }
            Builder::Array(elements) => Arc::new(elements.take()),
        }
    }

    fn arrow_field(&self, name: &str) -> ArrowField {
        let of_type = match &self.builder {
            Builder::Document(documents) => DataType::Struct(documents.arrow_fields()),
            Builder::Array(elements) => DataType::List(elements.arrow_field()),
            _ => data_type(&self.kind),
        };
        let field = ArrowField::new(name, of_type, true);
        match &self.kind {
            Kind::ObjectId => marks::mark(field, Mark::ObjectId),
            Kind::DecimalText => marks::mark(field, Mark::Decimal128),
            Kind::Timestamp => marks::mark(field, Mark::Timestamp),
            Kind::Json => marks::mark(
                field.with_extension_type(Json::default()),
                Mark::ExtendedJson,
            ),
            Kind::Uuid => field.with_extension_type(Uuid),
            _ => field,
        }
    }

    fn add_changes(&self, path: &str, changes: &mut Changes) {
        if self.is_widened {
            changes.widened.push(path.to_owned());
        }
        match &self.builder {
            Builder::Document(documents) => documents.add_changes(path, changes),
            Builder::Array(elements) => elements.column.add_changes(path, changes),
            _ => {}
        }
    }
}

impl Elements {
    fn check(&self, array: RawArray<'_>) -> Result<(), Misfit> {
        for (place, element) in array.iter().enumerate() {
            if !matches!(element, RawValue::Null) {
                let checked = self.column.check(element);
                checked.map_err(|misfit| misfit.within(place.to_string()))?;
            }
        }
        Ok(())
    }

    fn append(&mut self, array: RawArray<'_>) {
        for element in array {
            match element {
                RawValue::Null => self.column.append_null(),
                element => self.column.append(element),
            }
            self.len += 1;
        }
        self.end(true);
    }

    fn append_null(&mut self) {
        self.end(false);
    }

    fn end(&mut self, is_there: bool) {
        self.ends.push(self.len);
        self.is_there.append(is_there);
    }

    fn arrow_field(&self) -> FieldRef {
        Arc::new(self.column.arrow_field(ELEMENT))
    }

    fn take(&mut self) -> ListArray {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        self.len = 0;
        let is_there = NullBuffer::new(self.is_there.finish());
        ListArray::new(
            self.arrow_field(),
            OffsetBuffer::new(ends.into()),
            self.column.take(),
            Some(is_there),
        )
    }
}

/// Looks whether the fields of a document are the same when they are read back from the Extended JSON of all of them.
pub fn check_extended_json(document: RawDocument<'_>) -> Result<(), Misfit> {
    for element in document {
        if !comes_back(element.value()) {
            let misfit = Misfit::new(NOT_COMING_BACK);
            return Err(misfit.within(element.name().to_string_lossy()));
        }
    }
    let back = extjson::parse(&extjson::canonical(document));
    match back.is_ok_and(|back| back.as_bytes() == document.as_bytes()) {
        true => Ok(()),
        false => Err(Misfit::new(NOT_COMING_BACK)),
    }
}

/// Whether a value is the same when it is read back from Extended JSON. A document is not that looks like the Extended JSON of another value, nor is a
/// text that is no UTF-8, nor are options of a regular expression in another order than that of the alphabet.
fn comes_back(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Int32(_) | RawValue::Int64(_) | RawValue::Boolean(_) | RawValue::ObjectId(_) => {
            true
        }
        RawValue::String(text) => text.as_str().is_ok(),
        value => {
            let back = extjson::parse_value(&extjson::canonical_value(value));
            let value = Value::from(value);
            back.is_ok_and(|back| {
                back.element_type() == value.element_type() && back.as_bytes() == value.as_bytes()
            })
        }
    }
}

/// Looks whether a field stands twice.
fn check_names(document: RawDocument<'_>) -> Result<(), Misfit> {
    let mut names = HashSet::new();
    for element in document {
        if !names.insert(element.name()) {
            return Err(Misfit::new("stands twice").within(element.name().to_string_lossy()));
        }
    }
    Ok(())
}

fn append_text(kind: &Kind, text: &mut StringBuilder, value: RawValue<'_>) {
    match (kind, value) {
        (Kind::String, value) => text.append_option(value.as_str()),
        (Kind::DecimalText, RawValue::Decimal128(decimal)) => {
            text.append_value(decimal.to_string());
        }
        (_, value) => text.append_value(extjson::canonical_value(value)),
    }
}

fn append_fixed(values: &mut FixedSizeBinaryBuilder, bytes: &[u8]) {
    values
        .append_value(bytes)
        .expect("values of another length are of another type");
}

/// The type of a column that has no others within.
fn data_type(kind: &Kind) -> DataType {
    match kind {
        Kind::Boolean => DataType::Boolean,
        Kind::Int32 => DataType::Int32,
        Kind::Int64 => DataType::Int64,
        Kind::Double => DataType::Float64,
        Kind::Decimal { scale, .. } => DataType::Decimal128(DECIMAL_DIGITS, *scale),
        Kind::Binary => DataType::Binary,
        Kind::Uuid => DataType::FixedSizeBinary(UUID_BYTES),
        Kind::ObjectId => DataType::FixedSizeBinary(OBJECT_ID_BYTES),
        Kind::DateTime => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Kind::Timestamp => DataType::UInt64,
        Kind::DecimalText | Kind::String | Kind::Json | Kind::Document(_) | Kind::Array(_) => {
            DataType::Utf8
        }
    }
}
