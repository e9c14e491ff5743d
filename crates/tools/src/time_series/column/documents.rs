//! Documents of a column: a reference says the fields of all of them, each field has a stream of values, and the streams take turns.

use quarry_bson::{DocumentBuilder, RawDocument, RawElement, RawValue, Value};

use super::stream::Stream;
use super::{Interleaved, Piece, Pieces};

/// Unpacks documents up to their end: each of the reference's fields has a stream, and the streams take turns.
pub fn unpack_documents(
    kind: Interleaved,
    pieces: &mut Pieces<'_>,
    values: &mut Vec<Option<Value>>,
) -> Result<(), String> {
    let split = RawDocument::split_first(pieces.rest);
    let (reference, rest) = split.ok_or("it is cut off within a reference")?;
    let reference = RawDocument::validated_any_text(reference.as_bytes());
    let reference = reference.map_err(|error| format!("a reference: {error}"))?;
    pieces.rest = rest;
    let mut streams = Vec::new();
    leaves(kind, reference, &mut |leaf| {
        streams.push(Stream::behind(Value::from(leaf)));
    });
    if streams.is_empty() {
        return Err("a reference without fields".to_owned());
    }
    let mut fields: Vec<Option<Value>> = Vec::with_capacity(streams.len());
    loop {
        fields.clear();
        for stream in &mut streams {
            let Some(field) = next_field(stream, pieces)? else {
                return match fields.is_empty() {
                    true => Ok(()),
                    false => Err("documents that end within one".to_owned()),
                };
            };
            pieces.budget.spend_on(field.as_ref())?;
            fields.push(field);
        }
        let mut bytes = Vec::new();
        let mut document = DocumentBuilder::new(&mut bytes);
        let has_fields = rebuild(kind, reference, &mut fields.drain(..), &mut document);
        document.finish();
        let value = match has_fields {
            false => None,
            true => Some(Value::from_bytes(kind.root, &bytes).map_err(|it| it.to_string())?),
        };
        pieces.budget.spend_on(value.as_ref())?;
        values.push(value);
    }
}

/// The next value of a field, or that it is missing; none at the end of the documents.
fn next_field(
    stream: &mut Stream,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Option<Value>>, String> {
    loop {
        if let Some(field) = stream.next()? {
            return Ok(Some(field));
        }
        match pieces.next(stream)? {
            Piece::End => return Ok(None),
            Piece::Values => {}
            Piece::Documents(_) => return Err("documents within documents".to_owned()),
        }
    }
}

/// The document of a field that the reference splits; none where it is whole.
fn split<'d>(kind: Interleaved, field: RawElement<'d>) -> Option<RawDocument<'d>> {
    match field.value() {
        RawValue::Document(document) => Some(document),
        RawValue::Array(array) if kind.splits_arrays => Some(array.as_document()),
        _ => None,
    }
}

/// Hands out the fields that have a stream each, in order.
fn leaves<'d>(kind: Interleaved, reference: RawDocument<'d>, each: &mut dyn FnMut(RawElement<'d>)) {
    for field in &reference {
        match split(kind, field) {
            Some(within) => leaves(kind, within, each),
            None => each(field),
        }
    }
}

/// Appends the reference's fields with other values. A document of which all are missing is missing, unless it has none in the reference; false where
/// nothing was appended.
fn rebuild(
    kind: Interleaved,
    reference: RawDocument<'_>,
    fields: &mut dyn Iterator<Item = Option<Value>>,
    out: &mut DocumentBuilder<'_>,
) -> bool {
    let mut has_fields = false;
    for field in &reference {
        let name = field.name();
        let Some(within) = split(kind, field) else {
            if let Some(value) = fields.next().flatten() {
                out.append(name, &value);
                has_fields = true;
            }
            continue;
        };
        let mut bytes = Vec::new();
        let mut document = DocumentBuilder::new(&mut bytes);
        let is_there = rebuild(kind, within, fields, &mut document) || within.is_empty();
        document.finish();
        if is_there {
            out.append_bytes(name, field.element_type(), &bytes);
            has_fields = true;
        }
    }
    has_fields
}
