//! The differences between two documents, for an update that does not say itself which fields it changes: a pipeline.
//!
//! Fields are compared side by side. Where the names part, the old field is told, and the new one is compared with the next old
//! one; what is left of the new fields is told at the end. So a field that has only moved is told, too, and nothing is looked up.
//! Of an array that got shorter the last element that is gone is told beside the differences of those that are left. Where the
//! paths and values would be as large as the document, the document itself tells it shorter. MongoDB's change events
//! come about so as well: small documents that a pipeline changes are told as replaced.

use quarry_bson::{RawArray, RawDocument, RawElement, RawValue};

use super::path_step::{Described, PathStep, Steps, is_same};
use crate::error::Result;
use crate::interrupts;

/// The bytes that a description takes before it names a path, in MongoDB's log.
const DESCRIPTION_BYTES: usize = 32;
/// The bytes that a path takes beside its names and the value: a type and an end.
const PATH_BYTES: usize = 2;
/// The bytes that a step into an array takes, as text.
const ELEMENT_BYTES: usize = 4;
/// The bytes of an array's new length.
const LENGTH_BYTES: usize = 4;

/// Calls `changed` with the path of each difference. Of a document that is to be told as a whole the paths mean nothing.
pub(super) fn describe(
    old: RawDocument<'_>,
    new: RawDocument<'_>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) -> Result<Described> {
    let mut difference = Difference {
        changed,
        steps: Steps::new(),
        path_bytes: PATH_BYTES,
        bytes: DESCRIPTION_BYTES,
        bytes_max: new.len_bytes(),
    };
    difference.documents(old, new)?;
    Ok(match difference.bytes {
        // Something else than a field has changed, such as a name that is no text.
        DESCRIPTION_BYTES => Described::AsAWhole,
        _ if difference.is_large() => Described::AsAWhole,
        _ => Described::ByFields,
    })
}

struct Difference<'c, 'd> {
    changed: &'c mut dyn FnMut(&[PathStep<'_>]),
    /// Where the walk is, and the bytes of its path.
    steps: Steps<'d>,
    path_bytes: usize,
    /// The bytes that the paths and values take together that were told.
    bytes: usize,
    bytes_max: usize,
}

impl<'d> Difference<'_, 'd> {
    fn is_large(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    fn documents(&mut self, old: RawDocument<'d>, new: RawDocument<'d>) -> Result<()> {
        let mut after = new.iter().peekable();
        for before in old {
            interrupts::work(1)?;
            let step = self.field(before);
            match after.next_if(|after| after.name() == before.name()) {
                Some(after) => self.values(step, before, after)?,
                None => self.tell(step, 0),
            }
            if self.is_large() {
                return Ok(());
            }
        }
        for added in after {
            interrupts::work(1)?;
            let step = self.field(added);
            self.tell(step, added.value_bytes().len());
        }
        Ok(())
    }

    /// The step into a field. One whose name is no text has no path: the document is told as a whole.
    fn field(&mut self, element: RawElement<'d>) -> PathStep<'d> {
        PathStep::Field(element.name().as_str().unwrap_or_else(|_| {
            self.bytes = self.bytes_max;
            ""
        }))
    }

    fn arrays(&mut self, old: RawArray<'d>, new: RawArray<'d>) -> Result<()> {
        let mut before = old.elements();
        let mut len = 0;
        for (index, after) in new.elements().enumerate() {
            len = index + 1;
            interrupts::work(1)?;
            let step = PathStep::Element(index);
            match before.next() {
                Some(before) => self.values(step, before, after)?,
                None => self.tell(step, after.value_bytes().len()),
            }
            if self.is_large() {
                return Ok(());
            }
        }
        match before.count() {
            0 => {}
            gone => self.tell(PathStep::Element(len + gone - 1), LENGTH_BYTES),
        }
        Ok(())
    }

    fn values(
        &mut self,
        step: PathStep<'d>,
        old: RawElement<'d>,
        new: RawElement<'d>,
    ) -> Result<()> {
        interrupts::work_on_bytes(new.value_bytes().len())?;
        if is_same(&old, &new) {
            return Ok(());
        }
        match (old.value(), new.value()) {
            (RawValue::Document(old), RawValue::Document(new)) => {
                self.within(step, |difference| difference.documents(old, new))
            }
            (RawValue::Array(old), RawValue::Array(new)) => {
                self.within(step, |difference| difference.arrays(old, new))
            }
            _ => {
                self.tell(step, new.value_bytes().len());
                Ok(())
            }
        }
    }

    fn within(
        &mut self,
        step: PathStep<'d>,
        walk: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.steps.push(step);
        self.path_bytes += bytes_of(step);
        walk(self)?;
        self.path_bytes -= bytes_of(step);
        self.steps.pop();
        Ok(())
    }

    fn tell(&mut self, step: PathStep<'d>, value_bytes: usize) {
        self.bytes += self.path_bytes + bytes_of(step) + value_bytes;
        self.steps.push(step);
        (self.changed)(&self.steps);
        self.steps.pop();
    }
}

fn bytes_of(step: PathStep<'_>) -> usize {
    match step {
        PathStep::Field(name) => name.len() + 1,
        PathStep::Element(_) => ELEMENT_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    fn told(old: &Document, new: &Document) -> (Described, Vec<String>) {
        let mut paths = Vec::new();
        let described = describe(old.as_raw(), new.as_raw(), &mut |steps| {
            let step = |step: &PathStep<'_>| match step {
                PathStep::Field(name) => (*name).to_owned(),
                PathStep::Element(index) => format!("[{index}]"),
            };
            paths.push(steps.iter().map(step).collect::<Vec<_>>().join("."));
        });
        (described.unwrap(), paths)
    }

    #[test]
    fn paths_lead_to_what_differs() {
        let old = doc! {
            "_id": 1, "text": "as long as the rest of it, or so", "a": 1, "d": { "x": 1, "y": { "z": 1 } },
            "l": [1, { "k": 1 }, 3],
        };
        let with = |change: &dyn Fn(&mut Document)| {
            let mut new = Document::new();
            change(&mut new);
            let mut whole = doc! { "_id": 1, "text": "as long as the rest of it, or so" };
            for element in new.as_raw() {
                whole.append(element.name().as_bytes(), element.value());
            }
            whole
        };
        let d = || doc! { "x": 1, "y": { "z": 1 } };
        let cases: [(Document, &[&str]); 7] = [
            (doc! { "a": 2, "d": (d()), "l": [1, { "k": 1 }, 3] }, &["a"]),
            (
                doc! { "a": 1, "d": { "x": 1, "y": { "z": 2 } }, "l": [1, { "k": 2 }, 3, 4] },
                &["d.y.z", "l.[1].k", "l.[3]"],
            ),
            (doc! { "d": (d()), "l": [1, { "k": 1 }, 3] }, &["a"]),
            (
                doc! { "a": 1, "d": (d()), "l": [1, { "k": 1 }] },
                &["l.[2]"],
            ),
            (doc! { "a": 1, "d": (d()), "l": [2] }, &["l.[0]", "l.[2]"]),
            (
                doc! { "a": 1, "d": (d()), "l": [1, { "k": 1 }, 3], "n": 1 },
                &["n"],
            ),
            (
                doc! { "a": 1.0, "d": 1, "l": [1, { "k": 1 }, 3] },
                &["a", "d"],
            ),
        ];
        for (change, expected) in cases {
            let new = with(&|out| *out = change.clone());
            let (described, paths) = told(&old, &new);
            assert_eq!(paths, expected, "{}", new.as_raw());
            assert_eq!(described, Described::ByFields, "{}", new.as_raw());
        }
    }

    #[test]
    fn a_document_that_differs_in_most_of_it_is_told_as_a_whole() {
        let old = doc! { "_id": 1, "a": 1, "b": "a text that makes it longer", "c": 1 };
        for new in [
            doc! { "_id": 1, "a": 2 },
            doc! { "_id": 1, "z": 1, "a": 1, "b": "a text that makes it longer", "c": 1 },
            doc! { "_id": 1, "a": 1, "b": "another text that makes it longer", "c": 1 },
        ] {
            let (described, _) = told(&old, &new);
            assert_eq!(described, Described::AsAWhole, "{}", new.as_raw());
        }
    }
}
