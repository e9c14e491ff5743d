//! The difference of an entry, made of what the event of an update describes: paths as texts, of which the event says in which steps they go where that is
//! not clear.

use std::collections::BTreeMap;

use quarry_bson::{DEPTH_MAX, Document, RawArray, RawDocument, Value};

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Element(usize),
}

/// The changes within a document or an array.
#[derive(Default)]
struct Changes {
    /// In the order in which the event has them.
    updated: Vec<(Step, Value)>,
    removed: Vec<String>,
    len: Option<Value>,
    within: BTreeMap<Step, Changes>,
    is_array: bool,
}

/// The difference that the description of an update says.
///
/// # Errors
/// The text says what of the description is unknown.
pub fn diff(description: RawDocument<'_>) -> Result<Document, String> {
    let paths = description.get_document("disambiguatedPaths");
    let paths = paths.unwrap_or(RawDocument::EMPTY);
    let mut changes = Changes::default();
    for field in description
        .get_document("updatedFields")
        .unwrap_or(RawDocument::EMPTY)
    {
        let (at, last) = parent(&mut changes, paths, &field.name().to_string_lossy())?;
        at.updated.push((last, field.value().to_value()));
    }
    for path in values(description.get_array("removedFields")) {
        let path = path.as_str().ok_or("a removed field without a name")?;
        match parent(&mut changes, paths, path)? {
            (at, Step::Field(name)) => at.removed.push(name),
            (_, Step::Element(_)) => return Err(format!("an element `{path}` that is removed")),
        }
    }
    for cut in values(description.get_array("truncatedArrays")) {
        let cut = cut.as_document().unwrap_or(RawDocument::EMPTY);
        let (Some(path), Some(len)) = (cut.get_str("field"), cut.get("newSize")) else {
            return Err("an array that is cut without saying where".to_owned());
        };
        let (at, last) = parent(&mut changes, paths, path)?;
        let array = at.within.entry(last).or_default();
        array.is_array = true;
        array.len = Some(len.to_value());
    }
    Ok(changes.into_diff())
}

fn values(array: Option<RawArray<'_>>) -> impl Iterator<Item = quarry_bson::RawValue<'_>> {
    array.into_iter().flat_map(|array| array.iter())
}

/// The changes within what a path leads to, and its last step.
fn parent<'c>(
    changes: &'c mut Changes,
    paths: RawDocument<'_>,
    path: &str,
) -> Result<(&'c mut Changes, Step), String> {
    let mut steps = steps(paths, path)?;
    let last = steps.pop().ok_or("a path without a step")?;
    if steps.len() >= DEPTH_MAX {
        return Err(format!("a path of {} steps", steps.len()));
    }
    let mut at = changes;
    for step in steps {
        at.is_array |= matches!(step, Step::Element(_));
        at = at.within.entry(step).or_default();
    }
    at.is_array |= matches!(last, Step::Element(_));
    Ok((at, last))
}

/// The steps of a path: a number behind the first step is an element, unless the event says that it is a field.
fn steps(paths: RawDocument<'_>, path: &str) -> Result<Vec<Step>, String> {
    if let Some(steps) = paths.get_array(path) {
        let steps = steps
            .iter()
            .map(|step| match (step.as_str(), step.as_i64_exact()) {
                (Some(name), _) => Ok(Step::Field(name.to_owned())),
                (None, Some(index)) if index >= 0 => Ok(Step::Element(index as usize)),
                _ => Err(format!("a step of `{path}` that is none")),
            });
        return steps.collect();
    }
    let parts = path.split('.').enumerate();
    let steps = parts.map(|(place, part)| match part.parse() {
        Ok(index) if place > 0 => Step::Element(index),
        _ => Step::Field(part.to_owned()),
    });
    Ok(steps.collect())
}

impl Changes {
    fn into_diff(self) -> Document {
        match self.is_array {
            true => self.into_diff_of_array(),
            false => self.into_diff_of_document(),
        }
    }

    fn into_diff_of_document(self) -> Document {
        let mut diff = Document::new();
        let (mut removed, mut updated) = (Document::new(), Document::new());
        for name in self.removed {
            removed.append(name, false);
        }
        for (step, value) in self.updated {
            if let Step::Field(name) = step {
                updated.append(name, value);
            }
        }
        for (name, section) in [("d", removed), ("u", updated)] {
            if !section.is_empty() {
                diff.append(name, section);
            }
        }
        for (step, within) in self.within {
            if let Step::Field(name) = step {
                diff.append(format!("s{name}"), within.into_diff());
            }
        }
        diff
    }

    /// The elements are in order.
    fn into_diff_of_array(self) -> Document {
        let mut diff = Document::new();
        diff.append("a", true);
        if let Some(len) = self.len {
            diff.append("l", len);
        }
        let mut elements = BTreeMap::new();
        for (step, value) in self.updated {
            elements.insert(step, ("u", value));
        }
        for (step, within) in self.within {
            elements.insert(step, ("s", within.into_diff().into()));
        }
        for (step, (section, value)) in elements {
            if let Step::Element(index) = step {
                diff.append(format!("{section}{index}"), value);
            }
        }
        diff
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn a_description_becomes_a_difference() {
        let description = doc! {
            "updatedFields": {
                "a.b": 1, "z": 2, "y": 3, "list.10": 4, "list.2.x": 5, "n.7": 6, "with.dot": 7, "deep.0.1": 8,
            },
            "removedFields": ["gone", "a.c", "list.2.w"],
            "truncatedArrays": [{ "field": "list", "newSize": 11 }, { "field": "deep.0", "newSize": 2 }],
            "disambiguatedPaths": { "n.7": ["n", "7"], "with.dot": ["with.dot"] },
        };
        let expected = doc! {
            "d": { "gone": false },
            "u": { "z": 2, "y": 3, "with.dot": 7 },
            "sa": { "d": { "c": false }, "u": { "b": 1 } },
            "sdeep": { "a": true, "s0": { "a": true, "l": 2, "u1": 8 } },
            "slist": { "a": true, "l": 11, "s2": { "d": { "w": false }, "u": { "x": 5 } }, "u10": 4 },
            "sn": { "u": { "7": 6 } },
        };
        assert_eq!(diff(description.as_raw()).unwrap(), expected);
        assert_eq!(diff(RawDocument::EMPTY).unwrap(), doc! {});
    }

    #[test]
    fn a_description_that_says_too_little_is_refused() {
        for bad in [
            doc! { "removedFields": [1] },
            doc! { "removedFields": ["a.0"] },
            doc! { "truncatedArrays": [{ "field": "a" }] },
            doc! { "updatedFields": { "a": 1 }, "disambiguatedPaths": { "a": [-1] } },
        ] {
            assert!(diff(bad.as_raw()).is_err(), "{bad}");
        }
    }
}
