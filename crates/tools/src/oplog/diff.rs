//! Differences of documents, as entries of updates have them since MongoDB 5.0 (`{$v: 2, diff}`).
//!
//! ```text
//! of a document  {d: {FIELD: false, ..}, u: {FIELD: value, ..}, i: {FIELD: value, ..}, sFIELD: difference, ..}
//!                deleted, updated in their place, inserted at the end, and changed within
//! of an array    {a: true, l: elements, uINDEX: value, sINDEX: difference, ..}
//! ```
//!
//! A difference sets what it names, so that applying it to a document that is newer already, and what came behind it again, leads to the same end. What
//! does not suit such a document, as a difference within a field that has become a number, is passed over: what comes behind says what it is.

use std::collections::HashMap;

use quarry_bson::{
    ArrayBuilder, Document, DocumentBuilder, ElementType, RawArray, RawDocument, RawValue, Value,
};

/// A larger document has not so many elements in an array.
pub const ARRAY_LEN_MAX: usize = 8 << 20;

const DELETED: &str = "d";
const UPDATED: &str = "u";
const INSERTED: &str = "i";
const WITHIN: &str = "s";
const IS_OF_ARRAY: &str = "a";
const LEN: &str = "l";

/// A change of one field or element.
#[derive(Clone, Copy)]
enum Step<'d> {
    Deleted,
    Updated(RawValue<'d>),
    /// Put at the end, wherever it was.
    Inserted,
    Within(RawDocument<'d>),
}

/// The document with the difference applied.
///
/// # Errors
/// The text says what of the difference is unknown.
pub fn apply(diff: RawDocument<'_>, before: RawDocument<'_>) -> Result<Document, String> {
    let mut steps = steps(diff)?;
    let mut after = Vec::new();
    let mut out = DocumentBuilder::new(&mut after);
    for field in before {
        let name = field.name();
        match steps.remove(name.as_bytes()) {
            None => {
                out.append_element(field);
            }
            Some(Step::Deleted | Step::Inserted) => {}
            Some(Step::Updated(value)) => {
                out.append(name, value);
            }
            Some(Step::Within(diff)) => {
                out.append(name, &changed(diff, field.value())?);
            }
        }
    }
    let section = |name| diff.get_document(name).unwrap_or(RawDocument::EMPTY);
    for field in section(UPDATED) {
        // An older document had it.
        if steps.contains_key(field.name().as_bytes()) {
            out.append_element(field);
        }
    }
    for field in section(INSERTED) {
        out.append_element(field);
    }
    out.finish();
    Document::from_bytes_any_text(after).map_err(|error| error.to_string())
}

/// The changes of a document's fields by their names.
fn steps(diff: RawDocument<'_>) -> Result<HashMap<&[u8], Step<'_>>, String> {
    let mut steps = HashMap::new();
    for section in diff {
        let unknown = || format!("a difference with `{}` is not supported", section.name());
        let fields = section.value().as_document().ok_or_else(unknown)?;
        let name = section.name().as_bytes();
        for field in fields {
            let step = match section.name().as_str() {
                Ok(DELETED) => Step::Deleted,
                Ok(UPDATED) => Step::Updated(field.value()),
                Ok(INSERTED) => Step::Inserted,
                _ => break,
            };
            steps.insert(field.name().as_bytes(), step);
        }
        let is_section = [DELETED, UPDATED, INSERTED]
            .iter()
            .any(|one| section.name() == *one);
        match name.strip_prefix(WITHIN.as_bytes()) {
            Some(within) => {
                steps.insert(within, Step::Within(fields));
            }
            None if is_section => {}
            None => return Err(unknown()),
        }
    }
    Ok(steps)
}

/// A value with a difference within; as it is where that does not suit it.
fn changed(diff: RawDocument<'_>, before: RawValue<'_>) -> Result<Value, String> {
    let is_of_array = diff.get_bool(IS_OF_ARRAY) == Some(true);
    match before {
        RawValue::Document(document) if !is_of_array => apply(diff, document).map(Value::from),
        RawValue::Array(array) if is_of_array => apply_to_array(diff, array),
        other => Ok(other.to_value()),
    }
}

fn apply_to_array(diff: RawDocument<'_>, before: RawArray<'_>) -> Result<Value, String> {
    let mut len = before.len();
    let mut steps = HashMap::new();
    for section in diff {
        let name = section.name().as_str().unwrap_or_default();
        let index = name.get(1..).and_then(|index| index.parse::<usize>().ok());
        let step = match (index, section.value()) {
            (None, RawValue::Boolean(_)) if name == IS_OF_ARRAY => continue,
            (None, wanted) if name == LEN => {
                let wanted = wanted
                    .as_i64_exact()
                    .and_then(|it| usize::try_from(it).ok());
                len = wanted.ok_or("a difference of an array has a length that is none")?;
                continue;
            }
            (Some(_), value) if name.starts_with(UPDATED) => Step::Updated(value),
            (Some(_), RawValue::Document(diff)) if name.starts_with(WITHIN) => Step::Within(diff),
            _ => {
                return Err(format!(
                    "a difference of an array with `{name}` is not supported"
                ));
            }
        };
        steps.extend(index.map(|index| (index, step)));
    }
    if diff.get(LEN).is_none() {
        let updated = steps
            .iter()
            .filter(|(_, step)| matches!(step, Step::Updated(_)));
        let last = updated.map(|(index, _)| index.saturating_add(1)).max();
        len = len.max(last.unwrap_or(0));
    }
    if len > ARRAY_LEN_MAX {
        return Err(format!("a difference makes {len} elements of an array"));
    }
    let mut after = Vec::new();
    let mut out = ArrayBuilder::new(&mut after);
    let mut elements = before.iter();
    for index in 0..len {
        let element = elements.next().unwrap_or(RawValue::Null);
        match steps.get(&index) {
            Some(Step::Updated(value)) => out.push(*value),
            Some(Step::Within(diff)) => out.push(&changed(*diff, element)?),
            _ => out.push(element),
        };
    }
    out.finish();
    Value::from_bytes(ElementType::Array, &after).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn applied(diff: Document, before: Document) -> Document {
        apply(diff.as_raw(), before.as_raw()).unwrap()
    }

    #[test]
    fn fields_are_deleted_updated_and_inserted() {
        let diff = doc! { "d": { "gone": false }, "u": { "a": 2 }, "i": { "new": 3, "moved": 4 } };
        let before = doc! { "_id": 1, "moved": 0, "gone": 1, "a": 1, "b": 1 };
        let after = doc! { "_id": 1, "a": 2, "b": 1, "new": 3, "moved": 4 };
        let once = applied(diff.clone(), before);
        assert_eq!(once.as_bytes(), after.as_bytes());
        assert_eq!(applied(diff, once).as_bytes(), after.as_bytes());
    }

    #[test]
    fn documents_and_arrays_are_changed_within() {
        let diff = doc! {
            "sa": { "u": { "b": 2 }, "sc": { "d": { "x": false } } },
            "slist": { "a": true, "l": 4, "u1": "one", "s2": { "i": { "n": 1 } } },
        };
        let before = doc! { "a": { "b": 1, "c": { "x": 1, "y": 2 } }, "list": [0, 1, {}, 3, 4, 5] };
        let after = doc! { "a": { "b": 2, "c": { "y": 2 } }, "list": [0, "one", { "n": 1 }, 3] };
        assert_eq!(applied(diff, before), after);
        let longer = doc! { "slist": { "a": true, "u3": 3 } };
        let after = doc! { "list": [0, (Value::null()), (Value::null()), 3] };
        assert_eq!(applied(longer, doc! { "list": [0] }), after);
        // A name that begins as a section does.
        let diff = doc! { "ssum": { "u": { "d": 1 } }, "u": { "s": 2 } };
        let before = doc! { "sum": { "d": 0 }, "s": 0 };
        assert_eq!(applied(diff, before), doc! { "sum": { "d": 1 }, "s": 2 });
    }

    #[test]
    fn what_does_not_suit_a_newer_document_is_passed_over() {
        let diff = doc! { "sa": { "u": { "b": 2 } }, "slist": { "a": true, "u0": 1 } };
        for newer in [
            doc! { "a": 5, "list": { "x": 1 } },
            doc! {},
            doc! { "a": [1], "list": 1 },
        ] {
            assert_eq!(applied(diff.clone(), newer.clone()), newer);
        }
        let updated = applied(doc! { "u": { "a": 1 } }, doc! { "b": 2 });
        assert_eq!(updated, doc! { "b": 2, "a": 1 });
    }

    #[test]
    fn unknown_differences_are_refused() {
        let refused = |diff: Document, said: &str| {
            let before = doc! { "a": { "b": 1 }, "list": [1] };
            let error = apply(diff.as_raw(), before.as_raw()).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        refused(
            doc! { "bdata": { "o": 1 } },
            "with `bdata` is not supported",
        );
        refused(doc! { "u": 1 }, "with `u` is not supported");
        refused(doc! { "sa": { "x": 1 } }, "with `x` is not supported");
        refused(
            doc! { "slist": { "a": true, "x0": 1 } },
            "with `x0` is not supported",
        );
        refused(
            doc! { "slist": { "a": true, "l": -1 } },
            "a length that is none",
        );
        let huge = format!("u{}", usize::MAX);
        refused(
            doc! { "slist": { "a": true, (huge): 1 } },
            "elements of an array",
        );
    }
}
