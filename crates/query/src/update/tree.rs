//! The fields that an update touches, as a tree: one walk over a document meets each of them once. Two
//! operators on one path, or on a path and something inside it, are a conflict, found when the tree is built.

use std::cmp::Ordering;

use super::modifier::Modifier;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::{FieldPath, PathPart};
use crate::name_table::NameTable;

#[derive(Debug)]
pub(super) enum Node {
    Branch(Branch),
    Leaf(Box<Leaf>),
}

/// An operator at the end of its path. The operator stands in the leaf itself, whatever its type, so that an update takes no
/// allocation more for it.
#[derive(Debug)]
pub(super) struct Leaf<M: ?Sized = dyn Modifier> {
    pub path: FieldPath,
    pub modifier: M,
}

/// The fields or elements that are touched inside one document or array.
#[derive(Debug, Default)]
pub(super) struct Branch {
    /// Once finished, in the order in which new fields are created: numbers by value, then names by their bytes.
    pub named: NameTable<Named>,
    /// `$`, `$[]` and `$[identifier]`.
    pub dynamic: Vec<(Dynamic, Node)>,
}

#[derive(Debug)]
pub(super) struct Named {
    /// The array position that the name may stand for.
    pub index: Option<u32>,
    pub node: Node,
}

/// A path component that stands for array elements known only with the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dynamic {
    /// `$`: the element that the filter matched.
    Matched,
    /// `$[]`: every element.
    All,
    /// `$[identifier]`: the elements that the array filter of this number matches.
    Filtered(usize),
}

/// One step of a path that is being put into the tree: what the component at its place in the path is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// A name, which stands in the path.
    Name,
    Dynamic(Dynamic),
}

impl Branch {
    /// Puts a leaf in place. `steps` has one step for each component of its path.
    pub fn insert(&mut self, steps: &[Step], leaf: Box<Leaf>) -> Result<()> {
        debug_assert_eq!(steps.len(), leaf.path.parts().len());
        self.insert_at(steps, 0, leaf)
    }

    fn insert_at(&mut self, steps: &[Step], at: usize, leaf: Box<Leaf>) -> Result<()> {
        let last = at + 1 == steps.len();
        let part = &leaf.path.parts()[at];
        let Some(node) = self.child(steps[at], part.name()) else {
            match steps[at] {
                Step::Dynamic(dynamic) => {
                    let node = Node::holding(steps, at + 1, leaf)?;
                    self.dynamic.push((dynamic, node));
                }
                Step::Name => {
                    let (name, index) = (Box::<str>::from(part.name()), part.index());
                    let node = Node::holding(steps, at + 1, leaf)?;
                    self.named.push(name, Named { index, node });
                }
            }
            return Ok(());
        };
        match node {
            Node::Branch(branch) if !last => branch.insert_at(steps, at + 1, leaf),
            _ => Err(conflict(&leaf.path, at + 1)),
        }
    }

    fn child(&mut self, step: Step, name: &str) -> Option<&mut Node> {
        match step {
            Step::Name => {
                let place = self.named.find(name.as_bytes())?;
                Some(&mut self.named.get_mut(place).node)
            }
            Step::Dynamic(dynamic) => self
                .dynamic
                .iter_mut()
                .find(|(known, _)| *known == dynamic)
                .map(|(_, node)| node),
        }
    }

    /// Puts all levels into the order of creation, after the last insertion.
    pub fn finish(&mut self) {
        self.named.sort_by(creation_order);
        let named = self.named.values_mut().map(|named| &mut named.node);
        for node in named.chain(self.dynamic.iter_mut().map(|(_, node)| node)) {
            if let Node::Branch(branch) = node {
                branch.finish();
            }
        }
    }
}

fn creation_order(a: (&str, &Named), b: (&str, &Named)) -> Ordering {
    match (a.1.index, b.1.index) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.0.cmp(b.0),
    }
}

/// The first `parts` components of the path are taken already.
fn conflict(path: &FieldPath, parts: usize) -> Error {
    let taken: Vec<&str> = path.parts()[..parts].iter().map(PathPart::name).collect();
    let text = format!(
        "Updating the path '{}' would create a conflict at '{}'",
        path.as_str(),
        taken.join(".")
    );
    Error::new(ErrorCode::CONFLICTING_UPDATE_OPERATORS, text)
}

impl Node {
    /// A node with the leaf at the end of the steps from `at` on.
    fn holding(steps: &[Step], at: usize, leaf: Box<Leaf>) -> Result<Node> {
        if at == steps.len() {
            return Ok(Node::Leaf(leaf));
        }
        let mut branch = Branch::default();
        branch.insert_at(steps, at, leaf)?;
        Ok(Node::Branch(branch))
    }

    /// The first path at which two nodes that meet on one array element get in each other's way.
    pub fn clash<'n>(&'n self, other: &'n Node) -> Option<&'n FieldPath> {
        match (self, other) {
            (Node::Branch(a), Node::Branch(b)) => a.named.iter().find_map(|(name, named)| {
                let twin = b.named.get(b.named.find(name.as_bytes())?);
                named.node.clash(&twin.node)
            }),
            (Node::Leaf(leaf), _) | (_, Node::Leaf(leaf)) => Some(&leaf.path),
        }
    }

    /// Whether any leaf below answers yes.
    pub fn any_leaf(&self, test: &impl Fn(&Leaf) -> bool) -> bool {
        match self {
            Node::Leaf(leaf) => test(leaf),
            Node::Branch(branch) => {
                branch
                    .named
                    .iter()
                    .any(|(_, named)| named.node.any_leaf(test))
                    || branch.dynamic.iter().any(|(_, node)| node.any_leaf(test))
            }
        }
    }
}
