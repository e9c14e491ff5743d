//! Extended JSON: v2 in its canonical and relaxed forms, written and read, and the older forms, read only.
//!
//! Canonical keeps every type and bit that BSON keeps; relaxed writes numbers and dates of common range as
//! plain JSON. `parse` reads both and refuses what the v2 specification refuses. `parse_legacy` also reads what
//! mongoimport's legacy mode reads: version 1 forms and the shell's constructors.

mod parse;
mod shell;
mod special;
mod write;

use crate::{Document, ElementType, RawDocument, RawValue, Result, Value};
use parse::{Dialect, Parser};

/// Reads one JSON object, in canonical, relaxed or mixed form.
pub fn parse(text: &str) -> Result<Document> {
    document(text, Dialect::V2)
}

/// Appends one JSON object to a buffer as `parse` reads it, for many of them one after the other. After an error the buffer is as
/// before.
pub fn parse_into(text: &str, out: &mut Vec<u8>) -> Result<()> {
    append(text, Dialect::V2, out)
}

/// Like `parse_into`, reading what `parse_legacy` reads.
pub fn parse_legacy_into(text: &str, out: &mut Vec<u8>) -> Result<()> {
    append(text, Dialect::Legacy, out)
}

/// Reads one JSON value.
pub fn parse_value(text: &str) -> Result<Value> {
    value(text, Dialect::V2)
}

/// Reads one object that may also use version 1 forms (`{"$date": 5}`, `{"$regex": "a", "$options": "i"}`),
/// the shell's constructors (`ObjectId("..")`, `ISODate("..")`, `NumberLong(5)`, `/a/i` ..), single quotes and
/// names without quotes.
pub fn parse_legacy(text: &str) -> Result<Document> {
    document(text, Dialect::Legacy)
}

fn document(text: &str, dialect: Dialect) -> Result<Document> {
    let mut bytes = Vec::with_capacity(text.len());
    append(text, dialect, &mut bytes)?;
    Ok(Document::from_built(bytes))
}

fn append(text: &str, dialect: Dialect, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let found = Parser::new(text, dialect).only_value(out);
    if matches!(found, Ok(ElementType::Document)) {
        return Ok(());
    }
    out.truncate(start);
    found.and(Err(crate::Error::text(0, "a JSON object")))
}

fn value(text: &str, dialect: Dialect) -> Result<Value> {
    let mut bytes = Vec::with_capacity(text.len());
    let found = Parser::new(text, dialect).only_value(&mut bytes)?;
    Value::from_bytes(found, &bytes)
}

/// The document with every type spelled out.
pub fn canonical(document: RawDocument<'_>) -> String {
    write::document(document, write::Form::Canonical)
}

/// The document with numbers, and dates of the years 1970 to 9999, as people write them.
pub fn relaxed(document: RawDocument<'_>) -> String {
    write::document(document, write::Form::Relaxed)
}

/// One value with its type spelled out.
pub fn canonical_value(value: RawValue<'_>) -> String {
    write::value(value, write::Form::Canonical)
}

/// One value as `relaxed` writes it.
pub fn relaxed_value(value: RawValue<'_>) -> String {
    write::value(value, write::Form::Relaxed)
}

/// The object that stands for a value of a type without a JSON form, as a document of plain values.
pub(crate) fn spelled_out(value: RawValue<'_>) -> Result<Document> {
    let text = relaxed_value(value);
    let mut parser = Parser::new(&text, Dialect::V2);
    match special::plain(&parser.tree(1)?)?.as_document() {
        Some(document) => Ok(document.to_owned_document()),
        None => Err(crate::Error::text(0, "an object")),
    }
}
