//! Reads and writes of one dotted field by stages that know no arrays on the way: `$unwind` and `$lookup`.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawValue};

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

/// Like `set`, but an array on the way has the rest of the path set in each of its elements, as `$addFields` does.
pub(super) fn set_through_arrays(
    document: RawDocument<'_>,
    path: &[PathPart],
    value: Option<RawValue<'_>>,
    out: &mut Vec<u8>,
) {
    let way = Way {
        value,
        through_arrays: true,
    };
    way.write(document, path, DocumentBuilder::new(out));
}

/// Appends a copy of the document with the field at the path set, in place where it is there, last where it is
/// not; or without the field for None. What stands in the way and is no document gives way to one.
pub(crate) fn set(
    document: RawDocument<'_>,
    path: &[PathPart],
    value: Option<RawValue<'_>>,
    out: &mut Vec<u8>,
) {
    let way = Way {
        value,
        through_arrays: false,
    };
    way.write(document, path, DocumentBuilder::new(out));
}

/// The value that goes to the end of a path, and what it does with arrays before that.
#[derive(Clone, Copy)]
struct Way<'v> {
    value: Option<RawValue<'v>>,
    through_arrays: bool,
}

impl Way<'_> {
    fn write(self, document: RawDocument<'_>, path: &[PathPart], mut out: DocumentBuilder<'_>) {
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
            match (rest.is_empty(), element.value(), self.value) {
                (true, _, value) => append(&mut out, name.name(), value),
                (false, RawValue::Document(inner), _) => {
                    self.write(inner, rest, out.document(name.name()));
                }
                (false, RawValue::Array(array), _) if self.through_arrays => {
                    self.write_each(array, rest, out.array(name.name()));
                }
                (false, _, None) => {
                    out.append_element(element);
                }
                (false, _, Some(_)) => {
                    self.write(RawDocument::EMPTY, rest, out.document(name.name()));
                }
            }
        }
        match (found, rest.is_empty(), self.value) {
            (true, ..) | (_, _, None) => {}
            (false, true, value) => append(&mut out, name.name(), value),
            (false, false, _) => self.write(RawDocument::EMPTY, rest, out.document(name.name())),
        }
    }

    fn write_each(self, array: RawArray<'_>, path: &[PathPart], mut out: ArrayBuilder<'_>) {
        for element in array {
            match (element, self.value) {
                (RawValue::Document(inner), _) => self.write(inner, path, out.document()),
                (RawValue::Array(inner), _) => self.write_each(inner, path, out.array()),
                (other, None) => {
                    out.push(other);
                }
                (_, Some(_)) => self.write(RawDocument::EMPTY, path, out.document()),
            }
        }
    }
}

fn append(out: &mut DocumentBuilder<'_>, name: &str, value: Option<RawValue<'_>>) {
    if let Some(value) = value {
        out.append(name, value);
    }
}
