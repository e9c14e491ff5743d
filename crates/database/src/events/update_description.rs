//! Which fields an update has changed: as it stands in a record, and as an event shows it.
//!
//! ```text
//! paths, to the end; each: count of steps varint | each: 0, length varint, name | 1, index varint
//! ```
//! The record holds paths alone: the values are in the document that it puts. A path that the document still has was
//! changed, one that it does not have any more was removed. An array that was cut has the path of an element that it had
//! before and does not have any more. So descriptions of several changes of one document can follow each other, and mean the
//! sum: of paths that lead through each other the shortest one says it all, and the others are not shown.

use hashbrown::{HashMap, HashSet};
use quarry_bson::{Document, RawDocument, RawValue, Value, doc};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::keyspace::varint::{read_len, write_len};

const FIELD: u8 = 0;
const ELEMENT: u8 = 1;

/// A step of a path: into a field of a document, or an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    let (mut removed, mut truncated): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    // Several elements of one array may be gone.
    let mut cut = HashSet::new();
    let paths = read_paths(description).ok_or_else(|| {
        Error::Corrupt("a journal record has a broken update description".to_owned())
    })?;
    for (path, found) in paths.iter().zip(find_all(document, &paths)) {
        let path = match found {
            Found::Cut { depth, .. } => &path[..depth],
            _ => path,
        };
        let text = shown_path(path);
        match found {
            Found::Covered => continue,
            Found::Value(value) => {
                updated.append(text.as_str(), value);
            }
            Found::Gone => removed.push(text.as_str().into()),
            Found::Cut { .. } if cut.contains(&text) => continue,
            Found::Cut { len, .. } => {
                let new_size = i32::try_from(len).unwrap_or(i32::MAX);
                truncated.push(doc! { "field": (text.as_str()), "newSize": new_size }.into());
                cut.insert(text.clone());
            }
        }
        if disambiguates && is_ambiguous(path) {
            let step = |step: &DescribedStep<'_>| match step {
                DescribedStep::Field(name) => Value::from(*name),
                DescribedStep::Element(index) => {
                    Value::from(i32::try_from(*index).unwrap_or(i32::MAX))
                }
            };
            let steps: Vec<Value> = path.iter().map(step).collect();
            ambiguous.append(text.as_str(), steps);
        }
    }
    let mut shown = Document::new();
    shown.append("updatedFields", updated);
    shown.append("removedFields", removed);
    shown.append("truncatedArrays", truncated);
    if disambiguates {
        shown.append("disambiguatedPaths", ambiguous);
    }
    Ok(shown)
}

fn read_paths(description: &[u8]) -> Option<Vec<Path<'_>>> {
    let mut paths = Vec::new();
    let mut rest = description;
    while !rest.is_empty() {
        let path;
        (path, rest) = read_path(rest)?;
        paths.push(path);
    }
    Some(paths)
}

/// The outcome of looking for a path.
#[derive(Clone, Copy)]
enum Found<'d> {
    /// The document has it.
    Value(RawValue<'d>),
    /// The document does not have it.
    Gone,
    /// The document has the array that the path leads through, so many steps behind its beginning, and the array ends before the
    /// element.
    Cut {
        /// The steps to the array.
        depth: usize,
        /// The elements that are left.
        len: usize,
    },
    /// Another path that is shown leads there or to a value around it.
    Covered,
}

/// Finds each path. The paths are put in order, so that those into one document or array stand together, and each
/// document and array on the way is walked once at most.
fn find_all<'d>(document: RawDocument<'d>, paths: &[Path<'_>]) -> Vec<Found<'d>> {
    let mut found = vec![Found::Gone; paths.len()];
    let mut sorted: Vec<usize> = (0..paths.len()).collect();
    // Equal ones stay in order: the first one counts. A path comes right before those that lead further.
    sorted.sort_by(|&a, &b| paths[a].cmp(&paths[b]));
    sorted.dedup_by(|later, earlier| {
        let is_covered = paths[*later].starts_with(&paths[*earlier]);
        if is_covered {
            found[*later] = Found::Covered;
        }
        is_covered
    });
    find_in(RawValue::Document(document), paths, &sorted, 0, &mut found);
    found
}

/// Finds the paths of the places `sorted` whose first `depth` steps lead to the value, none of which leads through another. The recursion is as deep as the document.
fn find_in<'d>(
    value: RawValue<'d>,
    paths: &[Path<'_>],
    sorted: &[usize],
    depth: usize,
    found: &mut [Found<'d>],
) {
    if let [place] = *sorted
        && paths[place].len() == depth
    {
        found[place] = Found::Value(value);
        return;
    }
    let groups = sorted.chunk_by(|&a, &b| paths[a][depth] == paths[b][depth]);
    match value {
        RawValue::Document(document) => {
            let named = groups.filter_map(|group| match paths[group[0]][depth] {
                DescribedStep::Field(name) => Some((name, group)),
                DescribedStep::Element(_) => None,
            });
            // Of several fields with one name the first one counts.
            let mut named: HashMap<&str, &[usize]> = named.collect();
            for element in document {
                if named.is_empty() {
                    return;
                }
                let group = element.name().as_str().ok();
                if let Some(group) = group.and_then(|name| named.remove(name)) {
                    find_in(element.value(), paths, group, depth + 1, found);
                }
            }
        }
        RawValue::Array(array) => {
            let numbered = groups.filter_map(|group| match paths[group[0]][depth] {
                DescribedStep::Element(index) => Some((index, group)),
                DescribedStep::Field(_) => None,
            });
            let mut numbered = numbered.peekable();
            let mut len = 0;
            for (index, element) in array.elements().enumerate() {
                if numbered.peek().is_none() {
                    return;
                }
                len = index + 1;
                if let Some((_, group)) = numbered.next_if(|&(wanted, _)| wanted == index) {
                    find_in(element.value(), paths, group, depth + 1, found);
                }
            }
            for &place in numbered.flat_map(|(_, group)| group) {
                found[place] = Found::Cut { depth, len };
            }
        }
        _ => {}
    }
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

#[cfg(test)]
mod tests {
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
    /// It would take minutes if each path were looked for by itself.
    #[test]
    fn a_description_of_very_many_paths_is_shown_in_one_walk() {
        const FIELDS: usize = 30_000;
        let mut bytes = Vec::new();
        let list: Value = (0..FIELDS).map(|n| Value::from(n as i32)).collect();
        let mut document = doc! { "list": list };
        for n in 0..FIELDS {
            let name = format!("f{n}");
            let paths: [&[DescribedStep<'_>]; 4] = [
                &[DescribedStep::Field(&name)],
                &[DescribedStep::Field("list"), DescribedStep::Element(n)],
                &[DescribedStep::Field("gone"), DescribedStep::Field(&name)],
                &[DescribedStep::Field(&name)],
            ];
            for path in paths {
                describe_path(&mut bytes, path.iter().copied());
            }
            document.append(name.as_str(), n as i32);
        }
        let shown = shown_description(&bytes, document.as_raw(), false).unwrap();
        let updated = shown.get("updatedFields").unwrap().as_document().unwrap();
        let (mut len, mut in_order) = (0, true);
        for (place, element) in updated.iter().enumerate() {
            len += 1;
            in_order &= element.value() == RawValue::Int32((place / 2) as i32);
        }
        assert_eq!((len, in_order), (2 * FIELDS, true));
        let removed = shown.get("removedFields").unwrap().as_array().unwrap();
        assert_eq!(removed.len(), FIELDS);
    }

    #[test]
    fn an_array_that_was_cut_is_shown_by_its_new_size() {
        use DescribedStep::{Element, Field};
        let shown = |paths: &[&[DescribedStep<'_>]], document: Document| {
            let mut bytes = Vec::new();
            for path in paths {
                describe_path(&mut bytes, path.iter().copied());
            }
            shown_description(&bytes, document.as_raw(), false).unwrap()
        };
        // An element was changed and is gone, with others; of another array the end was cut and grew again.
        let paths: [&[DescribedStep<'_>]; 5] = [
            &[Field("a"), Element(3), Field("x")],
            &[Field("a"), Element(6)],
            &[Field("a"), Element(0)],
            &[Field("b"), Element(1), Element(2)],
            &[Field("b"), Element(1), Element(1)],
        ];
        let document = doc! { "a": [7], "b": [0, [1, 2]] };
        let expected = doc! {
            "updatedFields": { "a.0": 7, "b.1.1": 2 },
            "removedFields": [],
            "truncatedArrays": [{ "field": "a", "newSize": 1 }, { "field": "b.1", "newSize": 2 }],
        };
        assert_eq!(shown(&paths, document), expected);
        // An array without elements, and one that is none any more.
        let paths: [&[DescribedStep<'_>]; 2] =
            [&[Field("a"), Element(2)], &[Field("b"), Element(2)]];
        let expected = doc! {
            "updatedFields": {},
            "removedFields": ["b.2"],
            "truncatedArrays": [{ "field": "a", "newSize": 0 }],
        };
        assert_eq!(shown(&paths, doc! { "a": [], "b": 1 }), expected);
    }

    #[test]
    fn of_paths_through_each_other_the_shortest_is_shown() {
        use DescribedStep::{Element, Field};
        let mut bytes = Vec::new();
        let paths: [&[DescribedStep<'_>]; 8] = [
            &[Field("a"), Field("b")],
            &[Field("a")],
            &[Field("a"), Element(0)],
            &[Field("a"), Field("b"), Field("c")],
            &[Field("gone"), Field("x")],
            &[Field("ab")],
            &[Field("gone")],
            &[Field("gone"), Field("x"), Element(1)],
        ];
        for path in paths {
            describe_path(&mut bytes, path.iter().copied());
        }
        let document = doc! { "a": { "b": { "c": 1 } }, "ab": 2 };
        let shown = shown_description(&bytes, document.as_raw(), false).unwrap();
        let expected = doc! {
            "updatedFields": { "a": { "b": { "c": 1 } }, "ab": 2 },
            "removedFields": ["gone"],
            "truncatedArrays": [],
        };
        assert_eq!(shown, expected);
    }
}
