//! Which fields an update has changed: as it stands in a record, and as an event shows it.
//!
//! ```text
//! paths, to the end; each: count of steps varint | each: 0, length varint, name | 1, index varint
//! ```
//! The record holds paths alone: the values are in the document that it puts. A path that the document still has was
//! changed, one that it does not have any more was removed. So descriptions of several changes of one document can follow
//! each other, and mean the sum.

use quarry_bson::{Document, RawDocument, RawValue, Value};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::keyspace::varint::{read_len, write_len};

const FIELD: u8 = 0;
const ELEMENT: u8 = 1;

/// A step of a path: into a field of a document, or an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribedStep<'p> {
    /// The field of that name.
    Field(&'p str),
    /// The element at that place.
    Element(usize),
}

/// Appends a path to a description.
pub fn describe_path<'p>(
    description: &mut Vec<u8>,
    steps: impl ExactSizeIterator<Item = DescribedStep<'p>>,
) {
    write_len(description, steps.len());
    for step in steps {
        match step {
            DescribedStep::Field(name) => {
                description.push(FIELD);
                write_len(description, name.len());
                description.extend_from_slice(name.as_bytes());
            }
            DescribedStep::Element(index) => {
                description.push(ELEMENT);
                write_len(description, index);
            }
        }
    }
}

type Path<'p> = SmallVec<[DescribedStep<'p>; 4]>;

/// The description as an event shows it, for the document as the change left it: `updatedFields`, `removedFields`,
/// `truncatedArrays`, and with `disambiguates` the paths whose text can be read in two ways (`disambiguatedPaths`).
pub fn shown_description(
    description: &[u8],
    document: RawDocument<'_>,
    disambiguates: bool,
) -> Result<Document> {
    let (mut updated, mut ambiguous) = (Document::new(), Document::new());
    let mut removed: Vec<Value> = Vec::new();
    let mut rest = description;
    let mut seen: Vec<Path<'_>> = Vec::new();
    while !rest.is_empty() {
        let broken =
            || Error::Corrupt("a journal record has a broken update description".to_owned());
        let (path, behind) = read_path(rest).ok_or_else(broken)?;
        rest = behind;
        if seen.contains(&path) {
            continue;
        }
        let text = shown_path(&path);
        match value_at(document, &path) {
            Some(value) => {
                updated.append(text.as_str(), value);
            }
            None => removed.push(text.as_str().into()),
        }
        if disambiguates && is_ambiguous(&path) {
            let step = |step: &DescribedStep<'_>| match step {
                DescribedStep::Field(name) => Value::from(*name),
                DescribedStep::Element(index) => {
                    Value::from(i32::try_from(*index).unwrap_or(i32::MAX))
                }
            };
            let steps: Vec<Value> = path.iter().map(step).collect();
            ambiguous.append(text.as_str(), steps);
        }
        seen.push(path);
    }
    let mut shown = Document::new();
    shown.append("updatedFields", updated);
    shown.append("removedFields", removed);
    shown.append("truncatedArrays", Vec::<Value>::new());
    if disambiguates {
        shown.append("disambiguatedPaths", ambiguous);
    }
    Ok(shown)
}

fn read_path(bytes: &[u8]) -> Option<(Path<'_>, &[u8])> {
    let (count, mut rest) = read_len(bytes)?;
    let mut path = Path::new();
    for _ in 0..count {
        let (&kind, behind) = rest.split_first()?;
        let (number, behind) = read_len(behind)?;
        rest = behind;
        path.push(match kind {
            FIELD => {
                let (name, behind) = rest.split_at_checked(number)?;
                rest = behind;
                DescribedStep::Field(std::str::from_utf8(name).ok()?)
            }
            ELEMENT => DescribedStep::Element(number),
            _ => return None,
        });
    }
    (!path.is_empty()).then_some((path, rest))
}

fn shown_path(path: &[DescribedStep<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        if !text.is_empty() {
            text.push('.');
        }
        match step {
            DescribedStep::Field(name) => text.push_str(name),
            DescribedStep::Element(index) => text.push_str(&index.to_string()),
        }
    }
    text
}

/// Whether the text does not tell the steps: a field's name has a dot or is a number.
fn is_ambiguous(path: &[DescribedStep<'_>]) -> bool {
    path.iter().any(|step| match step {
        DescribedStep::Field(name) => {
            let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
            name.contains('.') || (is_number && path.len() > 1)
        }
        DescribedStep::Element(_) => false,
    })
}

fn value_at<'d>(document: RawDocument<'d>, path: &[DescribedStep<'_>]) -> Option<RawValue<'d>> {
    let mut value = RawValue::Document(document);
    for step in path {
        value = match (value, step) {
            (RawValue::Document(document), DescribedStep::Field(name)) => document.get(*name)?,
            (RawValue::Array(array), DescribedStep::Element(index)) => array.get(*index)?,
            _ => return None,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn a_description_shows_values_from_the_document_and_what_is_gone() {
        use DescribedStep::{Element, Field};
        let mut bytes = Vec::new();
        let paths: [&[DescribedStep<'_>]; 5] = [
            &[Field("a"), Field("b")],
            &[Field("list"), Element(1)],
            &[Field("gone")],
            &[Field("a"), Field("7")],
            &[Field("a"), Field("b")],
        ];
        for path in paths {
            describe_path(&mut bytes, path.iter().copied());
        }
        let document = doc! { "a": { "b": 1, "7": "x" }, "list": [1, { "c": 2 }] };
        let shown = shown_description(&bytes, document.as_raw(), true).unwrap();
        let expected = doc! {
            "updatedFields": { "a.b": 1, "list.1": { "c": 2 }, "a.7": "x" },
            "removedFields": ["gone"],
            "truncatedArrays": [],
            "disambiguatedPaths": { "a.7": ["a", "7"] },
        };
        assert_eq!(shown, expected);
        for cut in 1..bytes.len() {
            // A cut description is broken, or ends with a whole path.
            let _ = shown_description(&bytes[..cut], document.as_raw(), false);
        }
        assert!(shown_description(&[0], document.as_raw(), false).is_err());
        assert!(shown_description(&[1, 2, 0], document.as_raw(), false).is_err());
    }
}
