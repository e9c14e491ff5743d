//! The columns of a file as fields: which BSON each has, and the Arrow types by which they are read.
//!
//! Texts and bytes are read as views of the pages that they stand in: a page's dictionary may repeat a long value without end, and views do not copy it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use quarry_bson::DOCUMENT_BYTES_MAX;

use crate::column_marks::{self as marks, Mark};

/// Documents and arrays within each other, as servers store them.
const DEPTH_MAX: usize = 100;

type Result<T> = std::result::Result<T, String>;

/// A column, or several that make up one field.
#[derive(Debug, PartialEq)]
pub struct Column {
    pub name: String,
    /// The dotted path, for messages.
    pub path: String,
    /// Whether a null is a field that is left out.
    pub null_is_missing: bool,
    pub content: Content,
}

/// The BSON that the values of a column become.
#[derive(Debug, PartialEq)]
pub enum Content {
    Null,
    Boolean,
    Whole(Whole),
    Double,
    Decimal {
        scale: i8,
    },
    Bytes(Bytes),
    Fixed(Fixed),
    Document(Vec<Child>),
    Array(Arc<Column>),
    /// A document whose field names are the keys.
    Map(Arc<Column>),
}

/// A column of a document.
#[derive(Debug, PartialEq)]
pub struct Child {
    /// Its place among the columns of the document.
    pub place: usize,
    pub column: Arc<Column>,
    /// The place of the column that tells its nulls from missing fields.
    pub null_flag: Option<usize>,
}

/// The BSON that whole numbers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Int32,
    Int64,
    /// Int64 where it has room, and Decimal128 beyond.
    Unsigned,
    Timestamp,
    DateTime(TimeUnit),
}

/// The BSON that bytes of any length become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    String,
    Binary,
    /// The document that they are.
    Document,
    /// The number that is written out.
    Decimal,
    ExtendedJson,
    Overflow,
}

/// The BSON that bytes of one length become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    Binary,
    Uuid,
    ObjectId,
}

/// The fields as they are to be read, beside what they become.
pub struct Layout {
    pub hint: Fields,
    pub children: Vec<Child>,
    /// Some columns lose what is below a millisecond, whatever they hold.
    pub coarse: Vec<String>,
}

impl Layout {
    /// The layout of a file's fields. `ignores_blanks` leaves nulls out.
    pub fn new(fields: &Fields, schema: &SchemaDescriptor, ignores_blanks: bool) -> Result<Layout> {
        let mut leaves = Leaves {
            schema,
            next: 0,
            coarse: Vec::new(),
        };
        let hint = leaves.hint_fields(fields, "")?;
        leaves.next = 0;
        let children = leaves.children(&hint, "", 1, ignores_blanks)?;
        if leaves.next != schema.num_columns() {
            return Err("the schema does not suit its columns".to_owned());
        }
        Ok(Layout {
            hint,
            children,
            coarse: leaves.coarse,
        })
    }
}

/// A walk over the columns, in the order of a file's schema.
struct Leaves<'s> {
    schema: &'s SchemaDescriptor,
    next: usize,
    coarse: Vec<String>,
}

impl<'s> Leaves<'s> {
    fn next(&mut self) -> Result<&'s ColumnDescriptor> {
        if self.next >= self.schema.num_columns() {
            return Err("the schema has fewer columns than fields".to_owned());
        }
        let leaf = self.schema.columns()[self.next].as_ref();
        self.next += 1;
        Ok(leaf)
    }

    fn hint_fields(&mut self, fields: &Fields, above: &str) -> Result<Fields> {
        let fields = fields.iter().map(|field| self.hint_field(field, above));
        Ok(fields.collect::<Result<Vec<FieldRef>>>()?.into())
    }

    fn hint_field(&mut self, field: &Field, above: &str) -> Result<FieldRef> {
        let path = join(above, field.name());
        let read_as = self.hint(field.data_type(), &path)?;
        Ok(Arc::new(field.clone().with_data_type(read_as)))
    }

    fn hint(&mut self, data_type: &DataType, path: &str) -> Result<DataType> {
        Ok(match data_type {
            DataType::Struct(fields) => DataType::Struct(self.hint_fields(fields, path)?),
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::ListView(element)
            | DataType::LargeListView(element)
            | DataType::FixedSizeList(element, _) => {
                DataType::List(self.hint_field(element, path)?)
            }
            DataType::Map(entries, is_sorted) => {
                DataType::Map(self.hint_field(entries, path)?, *is_sorted)
            }
            leaf => {
                let is_int96 = self.next()?.physical_type() == Type::INT96;
                if is_int96 {
                    // Nanoseconds of 64 bits would turn dates that are far away into others.
                    self.coarse.push(path.to_owned());
                    return Ok(DataType::Timestamp(TimeUnit::Millisecond, None));
                }
                leaf_hint(leaf)
            }
        })
    }

    /// The columns of a document.
    fn children(
        &mut self,
        fields: &Fields,
        above: &str,
        depth: usize,
        ignores_blanks: bool,
    ) -> Result<Vec<Child>> {
        let mut children: Vec<Child> = Vec::new();
        let mut flags = Vec::new();
        let mut names = HashSet::new();
        for (place, field) in fields.iter().enumerate() {
            if !names.insert(field.name()) {
                let path = join(above, field.name());
                return Err(format!("two columns have the name `{path}`"));
            }
            let column = self.column(field, above, depth, ignores_blanks)?;
            match (marks::null_of(field), &column.content) {
                (Some(of), Content::Boolean) => flags.push((of, place)),
                (Some(_), _) => {
                    return Err(format!("column `{}` is marked and no Boolean", column.path));
                }
                (None, _) => children.push(Child {
                    place,
                    column: Arc::new(column),
                    null_flag: None,
                }),
            }
        }
        for (of, place) in flags {
            // Without its field, of which a reader may have made no use, it tells nothing.
            if let Some(child) = children.iter_mut().find(|child| child.column.name == of) {
                child.null_flag = Some(place);
            }
        }
        Ok(children)
    }

    fn column(
        &mut self,
        field: &Field,
        above: &str,
        depth: usize,
        ignores_blanks: bool,
    ) -> Result<Column> {
        let path = join(above, field.name());
        if field.name().contains('\0') {
            return Err(format!("column `{path}` has a NUL in its name"));
        }
        let mark = Mark::of(field).map_err(|what| format!("column `{path}`: {what}"))?;
        if mark == Some(Mark::Overflow) && depth > 1 {
            return Err(format!(
                "column `{path}` is marked as one of whole documents"
            ));
        }
        Ok(Column {
            name: field.name().clone(),
            null_is_missing: ignores_blanks || marks::null_is_missing(field),
            content: self.content(field.data_type(), mark, &path, depth, ignores_blanks)?,
            path,
        })
    }

    fn content(
        &mut self,
        data_type: &DataType,
        mark: Option<Mark>,
        path: &str,
        depth: usize,
        ignores_blanks: bool,
    ) -> Result<Content> {
        let is_nested = matches!(
            data_type,
            DataType::Struct(_) | DataType::List(_) | DataType::Map(..)
        );
        if is_nested && depth >= DEPTH_MAX {
            return Err(format!(
                "column `{path}` is nested deeper than {DEPTH_MAX} levels"
            ));
        }
        Ok(match data_type {
            DataType::Struct(fields) => {
                Content::Document(self.children(fields, path, depth + 1, ignores_blanks)?)
            }
            DataType::List(element) => Content::Array(Arc::new(self.column(
                element,
                path,
                depth + 1,
                ignores_blanks,
            )?)),
            DataType::Map(entries, _) => self.map(entries, path, depth, ignores_blanks)?,
            leaf => {
                let column = self.next()?;
                leaf_content(leaf, mark, column).ok_or_else(|| unsupported(leaf, mark, path))?
            }
        })
    }

    fn map(
        &mut self,
        entries: &Field,
        path: &str,
        depth: usize,
        ignores_blanks: bool,
    ) -> Result<Content> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(format!("column `{path}` is no map"));
        };
        let [key, value] = &fields[..] else {
            return Err(format!("column `{path}` is no map of keys and values"));
        };
        let key = self.column(key, path, depth + 1, false)?;
        if key.content != Content::Bytes(Bytes::String) {
            return Err(format!(
                "column `{path}` is a map whose keys are no texts, which names of fields are"
            ));
        }
        let value = self.column(value, path, depth + 1, ignores_blanks)?;
        Ok(Content::Map(Arc::new(value)))
    }
}

fn join(above: &str, name: &str) -> String {
    match above {
        "" => name.to_owned(),
        above => format!("{above}.{name}"),
    }
}

fn leaf_hint(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => leaf_hint(value),
        other => other.clone(),
    }
}

fn leaf_content(
    data_type: &DataType,
    mark: Option<Mark>,
    column: &ColumnDescriptor,
) -> Option<Content> {
    let logical = column.logical_type_ref();
    let converted = column.converted_type();
    Some(match (data_type, mark) {
        (DataType::Utf8View, Some(Mark::Decimal128)) => Content::Bytes(Bytes::Decimal),
        (DataType::Utf8View, Some(Mark::ExtendedJson)) => Content::Bytes(Bytes::ExtendedJson),
        (DataType::Utf8View, Some(Mark::Overflow)) => Content::Bytes(Bytes::Overflow),
        (DataType::UInt64, Some(Mark::Timestamp)) => Content::Whole(Whole::Timestamp),
        (DataType::FixedSizeBinary(12), Some(Mark::ObjectId)) => Content::Fixed(Fixed::ObjectId),
        (_, Some(_)) => return None,
        (DataType::Null, None) => Content::Null,
        (DataType::Boolean, None) => Content::Boolean,
        (
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16
            | DataType::Time32(_),
            None,
        ) => Content::Whole(Whole::Int32),
        (
            DataType::UInt32 | DataType::Int64 | DataType::Time64(_) | DataType::Duration(_),
            None,
        ) => Content::Whole(Whole::Int64),
        (DataType::UInt64, None) => Content::Whole(Whole::Unsigned),
        (DataType::Float16 | DataType::Float32 | DataType::Float64, None) => Content::Double,
        (
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale),
            None,
        ) => Content::Decimal { scale: *scale },
        (DataType::Date32 | DataType::Date64, None) => {
            Content::Whole(Whole::DateTime(TimeUnit::Millisecond))
        }
        (DataType::Timestamp(unit, _), None) => Content::Whole(Whole::DateTime(*unit)),
        (DataType::Utf8View, None) => Content::Bytes(Bytes::String),
        (DataType::BinaryView, None) => Content::Bytes(match (logical, converted) {
            (Some(LogicalType::Bson), _) | (None, ConvertedType::BSON) => Bytes::Document,
            (Some(LogicalType::Enum), _) | (None, ConvertedType::ENUM) => Bytes::String,
            _ => Bytes::Binary,
        }),
        (DataType::FixedSizeBinary(length), None) => {
            let length = usize::try_from(*length).ok()?;
            if length > DOCUMENT_BYTES_MAX {
                return None;
            }
            Content::Fixed(match logical {
                Some(LogicalType::Uuid) if length == 16 => Fixed::Uuid,
                _ => Fixed::Binary,
            })
        }
        _ => return None,
    })
}

fn unsupported(data_type: &DataType, mark: Option<Mark>, path: &str) -> String {
    match mark {
        Some(mark) => format!(
            "column `{path}` is marked as `{}`, which a column of {data_type} cannot be",
            mark.name()
        ),
        None => {
            format!("column `{path}` is of the type {data_type}, which has no counterpart in BSON")
        }
    }
}
