//! Which fields operators have changed in one document: the paths of an event's update description.
//!
//! The update's tree is walked beside the document before and after, so that only what operators may touch is compared, and a
//! path is as deep as the operator that changed it. Where a field came into being or went, or is a document or array on one
//! side alone, its own path says it all. `$push` at the end of an array names the new elements.
//!
//! It runs in the midst of a write. An update that sets one top-level field is described without a look at the documents; the
//! fields of others are met in one walk through both.

use quarry_bson::{RawArray, RawDocument, RawElement, RawValue};
use smallvec::SmallVec;

use super::Update;
use super::difference;
use super::parsed::Kind;
use super::path_step::{Described, PathStep, Steps, is_same};
use super::tree::{Branch, Named, Node};
use crate::error::Result;
use crate::interrupts;

/// A field or element before and after the update, where it is there.
type Sides<'d> = (Option<RawElement<'d>>, Option<RawElement<'d>>);

impl Update {
    /// Calls `changed` with the path of each field that operators or a pipeline have changed between `old` and `new`, which
    /// differ: the update has made the one of the other. A replacement names none, and the paths that a pipeline names mean
    /// nothing where the document tells its change as a whole. Fails where the operation is to end.
    pub fn describe(
        &self,
        old: RawDocument<'_>,
        new: RawDocument<'_>,
        changed: &mut dyn FnMut(&[PathStep<'_>]),
    ) -> Result<Described> {
        match &self.kind {
            Kind::Replacement(_) => Ok(Described::AsAWhole),
            Kind::Operators(operators) => {
                document(&operators.root, old, new, &mut Steps::new(), changed)?;
                Ok(Described::ByFields)
            }
            Kind::Pipeline(_) => difference::describe(old, new, changed),
        }
    }
}

/// Describes what the branch has changed in a document that is not as it was.
fn document<'u>(
    branch: &'u Branch,
    old: RawDocument<'_>,
    new: RawDocument<'_>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) -> Result<()> {
    // The documents differ, and nothing else can be why.
    if branch.named.len() == 1
        && let Some((name, named)) = branch.named.iter().next()
        && named.node.is_changed_as_a_whole()
    {
        steps.push(PathStep::Field(name));
        changed(steps);
        steps.pop();
        return Ok(());
    }
    let sides = sides_of_all(branch, old, new)?;
    for ((name, named), sides) in branch.named.iter().zip(sides) {
        field(name, named, sides, steps, changed)?;
    }
    Ok(())
}

/// The fields that the branch names, before and after, in the branch's order; none of those that are as they were need be
/// there. Of several with one name the first one counts.
fn sides_of_all<'d>(
    branch: &Branch,
    old: RawDocument<'d>,
    new: RawDocument<'d>,
) -> Result<SmallVec<[Sides<'d>; 4]>> {
    let mut sides: SmallVec<[Sides<'d>; 4]> = SmallVec::from_elem((None, None), branch.named.len());
    let place_of = |element: &RawElement<'_>| branch.named.find(element.name().as_bytes());
    let (mut before, mut after) = (old.iter(), new.iter());
    let (mut was, mut is) = (before.next(), after.next());
    // Most updates leave the fields where they are: as long as both documents have the same ones, only what differs is
    // looked up.
    while let (Some(one), Some(other)) = (was, is)
        && one.name() == other.name()
    {
        interrupts::work_on_bytes(other.value_bytes().len())?;
        if !is_same(&one, &other)
            && let Some(place) = place_of(&one)
        {
            sides[place].0.get_or_insert(one);
            sides[place].1.get_or_insert(other);
        }
        (was, is) = (before.next(), after.next());
    }
    for element in was.into_iter().chain(before) {
        interrupts::work(1)?;
        if let Some(place) = place_of(&element) {
            sides[place].0.get_or_insert(element);
        }
    }
    for element in is.into_iter().chain(after) {
        interrupts::work(1)?;
        if let Some(place) = place_of(&element) {
            sides[place].1.get_or_insert(element);
        }
    }
    Ok(sides)
}

fn field<'u>(
    name: &'u str,
    named: &'u Named,
    sides: Sides<'_>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) -> Result<()> {
    steps.push(PathStep::Field(name));
    compare(Some(&named.node), sides, steps, changed)?;
    steps.pop();
    Ok(())
}

fn array<'u>(
    branch: &'u Branch,
    old: RawArray<'_>,
    new: RawArray<'_>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) -> Result<()> {
    let mut before = old.elements();
    // Numbers come first and in order, so they are met as the walk meets the positions.
    let mut numbered = branch.named.iter().map(|(_, named)| named).peekable();
    for (index, element) in new.elements().enumerate() {
        let is_here = |named: &&Named| {
            named
                .index
                .is_some_and(|position| position as usize == index)
        };
        let node = touching(branch, numbered.next_if(is_here));
        steps.push(PathStep::Element(index));
        compare(node, (before.next(), Some(element)), steps, changed)?;
        steps.pop();
    }
    Ok(())
}

/// The one node that touches the element that `at_position` names, if any does; none where there are several, which change it
/// as a whole.
fn touching<'u>(branch: &'u Branch, at_position: Option<&'u Named>) -> Option<&'u Node> {
    match (at_position, branch.dynamic.as_slice()) {
        (Some(named), []) => Some(&named.node),
        (None, [(_, node)]) => Some(node),
        _ => None,
    }
}

fn compare<'u>(
    node: Option<&'u Node>,
    (old, new): Sides<'_>,
    steps: &mut Steps<'u>,
    changed: &mut dyn FnMut(&[PathStep<'_>]),
) -> Result<()> {
    let (Some(old), Some(new)) = (old, new) else {
        interrupts::work(1)?;
        if old.is_some() || new.is_some() {
            changed(steps);
        }
        return Ok(());
    };
    interrupts::work_on_bytes(new.value_bytes().len())?;
    if is_same(&old, &new) {
        return Ok(());
    }
    match (node, old.value(), new.value()) {
        (Some(Node::Branch(branch)), RawValue::Document(old), RawValue::Document(new)) => {
            document(branch, old, new, steps, changed)?;
        }
        (Some(Node::Branch(branch)), RawValue::Array(old), RawValue::Array(new)) => {
            array(branch, old, new, steps, changed)?;
        }
        (Some(Node::Leaf(leaf)), RawValue::Array(old), RawValue::Array(new))
            if leaf.modifier.may_append() =>
        {
            match appended_behind(old, new)? {
                Some(kept) => {
                    for index in kept..new.len() {
                        interrupts::work(1)?;
                        steps.push(PathStep::Element(index));
                        changed(steps);
                        steps.pop();
                    }
                }
                None => changed(steps),
            }
        }
        _ => changed(steps),
    }
    Ok(())
}

impl Node {
    /// Whether the path of what it changes is its own, whatever stood there before.
    fn is_changed_as_a_whole(&self) -> bool {
        match self {
            Node::Branch(_) => false,
            Node::Leaf(leaf) => !leaf.modifier.may_append(),
        }
    }
}

/// How many elements the array had, if all of them are still where they were.
fn appended_behind(old: RawArray<'_>, new: RawArray<'_>) -> Result<Option<usize>> {
    let mut after = new.elements();
    let mut kept = 0;
    for element in old.elements() {
        interrupts::work_on_bytes(element.value_bytes().len())?;
        if !after.next().is_some_and(|new| is_same(&element, &new)) {
            return Ok(None);
        }
        kept += 1;
    }
    Ok((kept > 0).then_some(kept))
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
        let described = update.describe(old.as_raw(), new, &mut |steps| {
            let step = |step: &PathStep<'_>| match step {
                PathStep::Field(name) => (*name).to_owned(),
                PathStep::Element(index) => format!("[{index}]"),
            };
            paths.push(steps.iter().map(step).collect::<Vec<_>>().join("."));
        });
        described.unwrap();
        paths.sort();
        paths
    }

    #[test]
    fn a_path_is_as_deep_as_what_changed() {
        let old = doc! {
            "_id": 1, "n": 1, "s": "same", "d": { "a": 1, "b": 2 },
            "list": [1, 2, 3], "deep": [{ "x": 1, "y": 1 }, { "x": 2, "y": 1 }],
        };
        let cases: [(Document, &[&str]); 17] = [
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
            (doc! { "$unset": { "n": "" } }, &["n"]),
            (doc! { "$set": { "m": 1 } }, &["m"]),
            (doc! { "$push": { "list": 4 } }, &["list.[3]"]),
            (doc! { "$push": { "m": 4 } }, &["m"]),
            (
                // Fields behind one that has gone, and behind those that came.
                doc! {
                    "$set": { "s": "same", "d.a": 5, "list.0": 1, "list.2": 9, "e": 1, "f.g": 1, "h": 1, "i": 1 },
                    "$unset": { "n": "", "gone": "" },
                },
                &["d.a", "e", "f", "h", "i", "list.[2]", "n"],
            ),
        ];
        for (update, expected) in cases {
            assert_eq!(paths(&update, &old), expected, "{}", update.as_raw());
        }
    }
}
