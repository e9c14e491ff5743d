//! Marks by which a column of a Parquet file says which BSON it holds, where the column's own type does not say it.
//!
//! A mark is metadata of a field in the Arrow schema that such a file carries (`ARROW:schema`). `quarry export` writes them and `quarry import` reads
//! them, so that the values come back as they were; other readers show them and go by the column's type.

use arrow_schema::Field;

const BSON: &str = "quarry:bson";
const NULL: &str = "quarry:null";
const NULL_OF: &str = "quarry:nullOf";
const MISSING: &str = "missing";

/// The BSON in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Twelve bytes.
    ObjectId,
    /// A text of the number, with its trailing zeros and its exponent.
    Decimal128,
    /// 64 bits: seconds, then the increment.
    Timestamp,
    /// A text in canonical Extended JSON, of a value of any type.
    ExtendedJson,
    /// A document in canonical Extended JSON, whose fields stand in for those of the columns.
    Overflow,
}

const MARKS: [(Mark, &str); 5] = [
    (Mark::ObjectId, "objectId"),
    (Mark::Decimal128, "decimal"),
    (Mark::Timestamp, "timestamp"),
    (Mark::ExtendedJson, "extendedJson"),
    (Mark::Overflow, "overflow"),
];

impl Mark {
    /// The mark of a field; the error says what the field says instead.
    pub fn of(field: &Field) -> Result<Option<Mark>, String> {
        let Some(said) = field.metadata().get(BSON) else {
            return Ok(None);
        };
        let found = MARKS.iter().find(|(_, name)| name == said);
        match found {
            Some((mark, _)) => Ok(Some(*mark)),
            None => Err(format!("the mark `{said}` is not known")),
        }
    }

    /// The name that stands in a file.
    pub fn name(self) -> &'static str {
        let found = MARKS.iter().find(|(mark, _)| *mark == self);
        found.map_or("", |(_, name)| name)
    }
}

/// Whether a null of the column is a field that is not there.
pub fn null_is_missing(field: &Field) -> bool {
    field.metadata().get(NULL).is_some_and(|of| of == MISSING)
}

/// The field whose nulls the column tells from missing ones.
pub fn null_of(field: &Field) -> Option<&str> {
    field.metadata().get(NULL_OF).map(String::as_str)
}

/// Adds a mark to a field's metadata.
pub fn mark(field: Field, mark: Mark) -> Field {
    with(field, BSON, mark.name())
}

/// Says that a null of the column is a field that is not there.
pub fn mark_null_as_missing(field: Field) -> Field {
    with(field, NULL, MISSING)
}

/// Says that the column tells which nulls of the field of that name are there.
pub fn mark_null_of(field: Field, name: &str) -> Field {
    with(field, NULL_OF, name)
}

fn with(field: Field, key: &str, value: &str) -> Field {
    let metadata = field.metadata().clone().with(key, value);
    field.with_metadata(metadata)
}
