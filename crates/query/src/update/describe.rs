//! Which fields operators have changed in one document: the paths of an event's update description.
//!
//! The update's tree is walked beside the document before and after, so that only what operators may touch is compared, and a
//! path is as deep as the operator that changed it. Where a field came into being or went, or is a document or array on one
//! side alone, its own path says it all. `$push` at the end of an array names the new elements.

use quarry_bson::{RawArray, RawDocument, RawElement, RawValue};
use smallvec::SmallVec;

use super::Update;
use super::modifier::Modifier;
use super::parsed::Kind;
use super::tree::{Branch, Node};

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStep<'p> {
    /// Into a field of a document.
    Field(&'p str),
    /// Into an element of an array.
    Element(usize),
}

type Steps<'p> = SmallVec<[PathStep<'p>; 4]>;

impl Update {
    /// Calls `changed` with the path of each field that the operators have changed between `old` and `new`. A replacement
    /// names none.
    pub fn describe(
        &self,
        old: RawDocument<'_>,
        new: RawDocument<'_>,
        changed: &mut dyn FnMut(&[PathStep<'_>]),
    ) {
        if let Kind::Operators(operators) = &self.kind {
            document(&operators.root, old, new, &mut Steps::new(), changed);
        }
    }
}

fn document<'u>(
    branch: &'u Branch,
    old: RawDocument<'_>,
    new: RawDocument<'_>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) {
    for (name, named) in branch.named.iter() {
        steps.push(PathStep::Field(name));
        let (old, new) = (old.get_element(name), new.get_element(name));
        compare(Some(&named.node), old, new, steps, changed);
        steps.pop();
    }
}

fn array<'u>(
    branch: &'u Branch,
    old: RawArray<'_>,
    new: RawArray<'_>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) {
    let mut before = old.elements();
    for (index, element) in new.elements().enumerate() {
        let old = before.next();
        steps.push(PathStep::Element(index));
        compare(touching(branch, index), old, Some(element), steps, changed);
        steps.pop();
    }
}

/// The one node that touches the element; none where there are several, which change it as a whole.
fn touching(branch: &Branch, index: usize) -> Option<&Node> {
    let is_it = |at: &Option<u32>| at.is_some_and(|at| at as usize == index);
    let mut named = (branch.named.iter()).filter(|(_, named)| is_it(&named.index));
    match (named.next(), branch.dynamic.as_slice()) {
        (Some((_, named)), []) => Some(&named.node),
        (None, [(_, node)]) => Some(node),
        _ => None,
    }
}

fn compare<'u>(
    node: Option<&'u Node>,
    old: Option<RawElement<'_>>,
    new: Option<RawElement<'_>>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) {
    let (Some(old), Some(new)) = (old, new) else {
        if old.is_some() || new.is_some() {
            changed(steps);
        }
        return;
    };
    if is_same(&old, &new) {
        return;
    }
    match (node, old.value(), new.value()) {
        (Some(Node::Branch(branch)), RawValue::Document(old), RawValue::Document(new)) => {
            document(branch, old, new, steps, changed);
        }
        (Some(Node::Branch(branch)), RawValue::Array(old), RawValue::Array(new)) => {
            array(branch, old, new, steps, changed);
        }
        (Some(Node::Leaf(leaf)), RawValue::Array(old), RawValue::Array(new))
            if matches!(leaf.modifier, Modifier::Push(_)) =>
        {
            match appended_behind(old, new) {
                Some(kept) => (kept..new.len()).for_each(|index| {
                    steps.push(PathStep::Element(index));
                    changed(steps);
                    steps.pop();
                }),
                None => changed(steps),
            }
        }
        _ => changed(steps),
    }
}

/// How many elements the array had, if all of them are still where they were.
fn appended_behind(old: RawArray<'_>, new: RawArray<'_>) -> Option<usize> {
    let mut after = new.elements();
    let mut kept = 0;
    for element in old.elements() {
        if !after.next().is_some_and(|new| is_same(&element, &new)) {
            return None;
        }
        kept += 1;
    }
    (kept > 0).then_some(kept)
}

fn is_same(old: &RawElement<'_>, new: &RawElement<'_>) -> bool {
    old.element_type() == new.element_type() && old.value_bytes() == new.value_bytes()
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;
    use crate::matcher::MatchDetails;

    fn paths(update: &Document, old: &Document) -> Vec<String> {
        let update = Update::parse(update.as_raw().into()).unwrap();
        let mut new = Vec::new();
        let details = MatchDetails::default();
        update
            .apply(old.as_raw(), &details, false, 7, &mut new)
            .unwrap();
        let mut paths = Vec::new();
        let new = RawDocument::new(&new).unwrap();
        update.describe(old.as_raw(), new, &mut |steps| {
            let step = |step: &PathStep<'_>| match step {
                PathStep::Field(name) => (*name).to_owned(),
                PathStep::Element(index) => format!("[{index}]"),
            };
            paths.push(steps.iter().map(step).collect::<Vec<_>>().join("."));
        });
        paths.sort();
        paths
    }

    #[test]
    fn a_path_is_as_deep_as_what_changed() {
        let old = doc! {
            "_id": 1, "n": 1, "s": "same", "d": { "a": 1, "b": 2 },
            "list": [1, 2, 3], "deep": [{ "x": 1, "y": 1 }, { "x": 2, "y": 1 }],
        };
        let cases: [(Document, &[&str]); 12] = [
            (doc! { "$inc": { "n": 1 } }, &["n"]),
            (doc! { "$set": { "s": "same", "n": 1.0 } }, &["n"]),
            (doc! { "$set": { "d.a": 5, "d.b": 2 } }, &["d.a"]),
            (doc! { "$set": { "d": { "a": 5, "b": 2 } } }, &["d"]),
            (doc! { "$set": { "new.a.b": 1, "new.c": 2 } }, &["new"]),
            (doc! { "$unset": { "d.a": "", "gone": "" } }, &["d.a"]),
            (doc! { "$rename": { "n": "m" } }, &["m", "n"]),
            (
                doc! { "$push": { "list": { "$each": [4, 5] } } },
                &["list.[3]", "list.[4]"],
            ),
            (
                doc! { "$push": { "list": { "$each": [0], "$position": 0 } } },
                &["list"],
            ),
            (doc! { "$pop": { "list": 1 } }, &["list"]),
            (
                doc! { "$set": { "deep.1.x": 9, "list.4": 1 } },
                &["deep.[1].x", "list.[3]", "list.[4]"],
            ),
            (
                doc! { "$inc": { "deep.$[].x": 1 } },
                &["deep.[0].x", "deep.[1].x"],
            ),
        ];
        for (update, expected) in cases {
            assert_eq!(paths(&update, &old), expected, "{}", update.as_raw());
        }
    }
}
