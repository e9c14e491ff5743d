//! Reads and writes of one dotted field by stages that know no arrays on the way: `$unwind` and `$lookup`.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use crate::field_path::PathPart;

/// The value at a path through documents only.
pub(super) fn get<'a>(document: RawDocument<'a>, path: &[PathPart]) -> Option<RawValue<'a>> {
    let (name, rest) = path.split_first()?;
    let value = document.get(name.name())?;
    if rest.is_empty() {
        Some(value)
    } else {
        get(value.as_document()?, rest)
    }
}

/// Appends a copy of the document with the field at the path set, in place where it is there, last where it is
/// not; or without the field for None. What stands in the way and is no document gives way to one.
pub(crate) fn set(
    document: RawDocument<'_>,
    path: &[PathPart],
    value: Option<RawValue<'_>>,
    out: &mut Vec<u8>,
) {
    write(document, path, value, DocumentBuilder::new(out));
}

fn write(
    document: RawDocument<'_>,
    path: &[PathPart],
    value: Option<RawValue<'_>>,
    mut out: DocumentBuilder<'_>,
) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let mut found = false;
    for element in document {
        if element.name().as_bytes() != name.name().as_bytes() {
            out.append_element(element);
            continue;
        }
        found = true;
        let inner = element.value().as_document();
        match (rest.is_empty(), inner, value) {
            (true, _, value) => append(&mut out, name.name(), value),
            (false, Some(inner), value) => write(inner, rest, value, out.document(name.name())),
            (false, None, None) => {
                out.append_element(element);
            }
            (false, None, value) => {
                write(RawDocument::EMPTY, rest, value, out.document(name.name()));
            }
        }
    }
    match (found, rest.is_empty(), value) {
        (true, ..) | (_, _, None) => {}
        (false, true, value) => append(&mut out, name.name(), value),
        (false, false, value) => write(RawDocument::EMPTY, rest, value, out.document(name.name())),
    }
}

fn append(out: &mut DocumentBuilder<'_>, name: &str, value: Option<RawValue<'_>>) {
    if let Some(value) = value {
        out.append(name, value);
    }
}
