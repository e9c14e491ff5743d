//! One walk over a document with the tree: runs of untouched elements are copied as bytes, touched ones are
//! rewritten where they stand, new ones are appended.

use std::fmt::Display;

use quarry_bson::{ElementType, RawArray, RawDocument, RawElement, RawValue, STORED_DEPTH_MAX};
use smallvec::SmallVec;

use super::modifier::{Found, Target, Within, depth};
use super::parsed::{ARRAY_PADDING_MAX, Operators, check_bytes};
use super::tree::{Branch, Dynamic, Leaf, Named, Node};
use super::write::{LENGTH_BYTES, begin, end, header};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::{FieldPath, PathPart};
use crate::interrupts;
use crate::matcher::MatchDetails;

/// One application of an update to one document.
pub(super) struct Apply<'u, 'd> {
    pub operators: &'u Operators,
    pub target: Target<'d>,
    pub details: &'u MatchDetails,
    /// Where the new document begins in the output.
    pub start: usize,
}

/// The nodes that touch one array element: more than one if, say, `$[]` and `0` both do.
type Touching<'u> = SmallVec<[&'u Node; 2]>;

impl<'u> Apply<'u, '_> {
    pub fn run(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.operators.uses_matched_element && self.details.array_index.is_none() {
            let text = "The positional operator did not find the match needed from the query.";
            return Err(Error::bad_value(text));
        }
        for (from, to) in &self.operators.renames {
            self.check_rename(from, to)?;
        }
        self.document(self.target.root, &self.operators.root, out)?;
        if self.operators.root.named.find(b"_id").is_some() {
            self.keep_id(out)?;
        }
        Ok(())
    }

    /// `$[]` and padding multiply what the update brings: what grows beyond a document ends at once.
    fn check_size(&self, out: &[u8]) -> Result<()> {
        check_bytes(out.len() - self.start, self.target.insert)
    }

    /// An `_id` may be given an equal value, and keeps its bytes: the document's index entries hold them too.
    fn keep_id(&self, out: &mut Vec<u8>) -> Result<()> {
        let Some(old) = self.target.root.get_element("_id") else {
            return Ok(());
        };
        let updated = RawDocument::new(&out[self.start..])?;
        let new = updated.get_element("_id");
        let Some(new) = new.filter(|new| new.value() == old.value()) else {
            let text =
                "Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(Error::new(ErrorCode::IMMUTABLE_FIELD, text));
        };
        if new.as_bytes() != old.as_bytes() {
            // The element is a part of the document's bytes.
            let at = new.as_bytes().as_ptr() as usize - updated.as_bytes().as_ptr() as usize;
            let new_bytes = new.as_bytes().len();
            let element = self.start + at..self.start + at + new_bytes;
            out.splice(element, old.as_bytes().iter().copied());
            let length = (out.len() - self.start) as u32;
            out[self.start..self.start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }

    fn document(
        &self,
        document: RawDocument<'_>,
        branch: &'u Branch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some((dynamic, node)) = branch.dynamic.first() {
            return Err(not_an_array(*dynamic, node, RawValue::Document(document)));
        }
        if branch.named.len() == 1 {
            return self.document_one(
                document,
                branch.named.name(0),
                &branch.named.get(0).node,
                out,
            );
        }
        let bytes = document.as_bytes();
        let start = begin(out);
        let mut missing: SmallVec<[bool; 16]> = SmallVec::from_elem(true, branch.named.len());
        let mut left = branch.named.len();
        // Bytes before `copied` are in `out` or gone; `at` is where the next element begins.
        let (mut copied, mut at) = (LENGTH_BYTES, LENGTH_BYTES);
        for element in document {
            interrupts::work(1)?;
            let element_start = at;
            at += element.as_bytes().len();
            let Some(place) = branch.named.find(element.name().as_bytes()) else {
                continue;
            };
            out.extend_from_slice(&bytes[copied..element_start]);
            copied = at;
            self.existing(
                element,
                &branch.named.get(place).node,
                Within::Document,
                out,
            )?;
            if std::mem::replace(&mut missing[place], false) {
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        out.extend_from_slice(&bytes[copied..bytes.len() - 1]);
        for ((name, named), missing) in branch.named.iter().zip(&missing) {
            interrupts::work(1)?;
            if *missing {
                self.create(name.as_bytes(), &named.node, out)?;
                self.check_size(out)?;
            }
        }
        end(start, out);
        Ok(())
    }

    /// Like `document`, where one field is touched: its place is looked up, the rest is copied in two pieces.
    fn document_one(
        &self,
        document: RawDocument<'_>,
        field: &str,
        node: &'u Node,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        interrupts::work_on_bytes(document.len_bytes())?;
        let bytes = document.as_bytes();
        let start = begin(out);
        let Some(element) = document.get_element(field) else {
            out.extend_from_slice(&bytes[LENGTH_BYTES..bytes.len() - 1]);
            self.create(field.as_bytes(), node, out)?;
            end(start, out);
            return Ok(());
        };
        // The element is a part of the document's bytes.
        let element_start = element.as_bytes().as_ptr() as usize - bytes.as_ptr() as usize;
        let element_end = element_start + element.as_bytes().len();
        out.extend_from_slice(&bytes[LENGTH_BYTES..element_start]);
        self.existing(element, node, Within::Document, out)?;
        out.extend_from_slice(&bytes[element_end..bytes.len() - 1]);
        end(start, out);
        Ok(())
    }

    fn array(
        &self,
        name: &dyn Display,
        array: RawArray<'_>,
        branch: &'u Branch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some((field, _)) = branch
            .named
            .iter()
            .find(|(_, named)| named.index.is_none() && !self.tolerates(&named.node))
        {
            return Err(blocked(field, name, RawValue::Array(array)));
        }
        let bytes = array.as_bytes();
        let start = begin(out);
        let (mut copied, mut at) = (LENGTH_BYTES, LENGTH_BYTES);
        let mut len = 0;
        // Numbers come first and in order, so they are met as the walk meets the positions.
        let mut numbered = branch.named.iter().map(|(_, named)| named).peekable();
        for (index, element) in (0u32..).zip(array.elements()) {
            interrupts::work(1)?;
            let element_start = at;
            at += element.as_bytes().len();
            len = index as usize + 1;
            let at_position = numbered.next_if(|named| named.index == Some(index));
            let nodes = self.touching(branch, at_position, index, element)?;
            if nodes.is_empty() {
                continue;
            }
            out.extend_from_slice(&bytes[copied..element_start]);
            copied = at;
            self.existing_by_all(element, &nodes, out)?;
            self.check_size(out)?;
        }
        out.extend_from_slice(&bytes[copied..bytes.len() - 1]);
        for (name, named) in branch.named.iter() {
            interrupts::work(1)?;
            len = self.create_element(name, named, len, out)?;
            self.check_size(out)?;
        }
        end(start, out);
        Ok(())
    }

    /// The nodes of a branch that mean the element at a position.
    fn touching(
        &self,
        branch: &'u Branch,
        at_position: Option<&'u Named>,
        index: u32,
        element: RawElement<'_>,
    ) -> Result<Touching<'u>> {
        let mut nodes: Touching<'u> = at_position.map(|named| &named.node).into_iter().collect();
        for (dynamic, node) in &branch.dynamic {
            let touches = match dynamic {
                Dynamic::All => true,
                Dynamic::Matched => self.details.array_index == Some(index),
                Dynamic::Filtered(number) => self.operators.array_filters[*number]
                    .matcher
                    .matches_value(element)?,
            };
            if touches {
                nodes.push(node);
            }
        }
        Ok(nodes)
    }

    fn existing_by_all(
        &self,
        element: RawElement<'_>,
        nodes: &[&'u Node],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let [first, others @ ..] = nodes else {
            return Ok(());
        };
        let start = out.len();
        self.existing(element, first, Within::Array, out)?;
        for (done, node) in others.iter().enumerate() {
            if let Some(path) = nodes[..=done].iter().find_map(|before| before.clash(node)) {
                let text = format!("Update created a conflict at '{}'", path.as_str());
                return Err(Error::new(ErrorCode::CONFLICTING_UPDATE_OPERATORS, text));
            }
            // The element as it is by now, in a document of its own to be walked.
            let mut so_far = vec![0; LENGTH_BYTES];
            so_far.extend_from_slice(&out[start..]);
            end(0, &mut so_far);
            out.truncate(start);
            let Some(element) = RawDocument::new(&so_far)?.first() else {
                return Ok(());
            };
            self.existing(element, node, Within::Array, out)?;
        }
        Ok(())
    }

    /// A node meets an element that is there.
    fn existing(
        &self,
        element: RawElement<'_>,
        node: &'u Node,
        within: Within,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let branch = match node {
            Node::Leaf(leaf) => return self.modify(element, leaf, within, out),
            Node::Branch(branch) => branch,
        };
        let name = element.name();
        match element.value() {
            RawValue::Document(document) => {
                header(ElementType::Document, name.as_bytes(), out);
                self.document(document, branch, out)
            }
            RawValue::Array(array) => {
                header(ElementType::Array, name.as_bytes(), out);
                self.array(&name, array, branch, out)
            }
            scalar => {
                if let Some((dynamic, node)) = branch.dynamic.first() {
                    return Err(not_an_array(*dynamic, node, scalar));
                }
                if let Some((field, _)) = branch
                    .named
                    .iter()
                    .find(|(_, named)| !self.tolerates(&named.node))
                {
                    return Err(blocked(field, &name, scalar));
                }
                out.extend_from_slice(element.as_bytes());
                Ok(())
            }
        }
    }

    /// A node meets nothing: its fields come into being, if its operators create any.
    fn create(&self, name: &[u8], node: &'u Node, out: &mut Vec<u8>) -> Result<()> {
        match node {
            Node::Leaf(leaf) => self.create_leaf(name, leaf, out),
            Node::Branch(branch) => {
                if let Some((dynamic, node)) = branch.dynamic.first() {
                    return Err(no_array(*dynamic, node));
                }
                if !self.creates(node) {
                    return Ok(());
                }
                header(ElementType::Document, name, out);
                let start = begin(out);
                for (field, named) in branch.named.iter() {
                    interrupts::work(1)?;
                    self.create(field.as_bytes(), &named.node, out)?;
                    self.check_size(out)?;
                }
                end(start, out);
                Ok(())
            }
        }
    }

    /// An element past the array's end, with nulls up to it. Returns the array's length.
    fn create_element(
        &self,
        name: &str,
        named: &'u Named,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize> {
        let Some(index) = named.index.map(|index| index as usize) else {
            return Ok(len);
        };
        if index < len || !self.creates(&named.node) {
            return Ok(len);
        }
        if index - len > ARRAY_PADDING_MAX {
            let text = format!("can't backfill more than {ARRAY_PADDING_MAX} nulls into an array");
            return Err(Error::location(165, text));
        }
        interrupts::work(index - len)?;
        for position in len..index {
            header(ElementType::Null, position.to_string().as_bytes(), out);
        }
        self.create(name.as_bytes(), &named.node, out)?;
        Ok(index + 1)
    }

    fn check_rename(&self, from: &FieldPath, to: &FieldPath) -> Result<()> {
        if let Some(array) = array_on_path(self.target.root, from) {
            return Err(self.through_array("source", from, &array));
        }
        let Some(value) = self.target.root.get_path(from.as_str()) else {
            return Ok(());
        };
        if let Some(array) = array_on_path(self.target.root, to) {
            return Err(self.through_array("destination", to, &array));
        }
        if to.parts().len() + depth(value) > STORED_DEPTH_MAX {
            let text = format!(
                "the rename to '{}' would nest deeper than {STORED_DEPTH_MAX} levels",
                to.as_str()
            );
            return Err(Error::new(ErrorCode::OVERFLOW, text));
        }
        Ok(())
    }

    fn through_array(&self, which: &str, path: &FieldPath, array: &str) -> Error {
        Error::bad_value(format!(
            "The {which} field cannot be an array element, '{}' in doc with {} has an array field called '{array}'",
            path.as_str(),
            self.target.id_shown()
        ))
    }

    /// An operator meets the element at the end of its path.
    fn modify(
        &self,
        element: RawElement<'_>,
        leaf: &Leaf,
        within: Within,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let found = Found {
            element,
            path: &leaf.path,
            within,
        };
        leaf.modifier.modify(&found, &self.target, out)
    }

    /// An operator meets nothing at the end of its path.
    fn create_leaf(&self, name: &[u8], leaf: &Leaf, out: &mut Vec<u8>) -> Result<()> {
        let before = out.len();
        leaf.modifier.create(name, &self.target, out)?;
        debug_assert_eq!(
            out.len() > before,
            leaf.modifier.creates(&self.target),
            "an operator makes the fields that it says it makes"
        );
        Ok(())
    }

    fn creates(&self, node: &Node) -> bool {
        node.any_leaf(&|leaf| leaf.modifier.creates(&self.target))
    }

    fn tolerates(&self, node: &Node) -> bool {
        !node.any_leaf(&|leaf| !leaf.modifier.tolerates_blocked_path(&self.target))
    }
}

/// The name of the first array that a path meets before its end.
fn array_on_path(root: RawDocument<'_>, path: &FieldPath) -> Option<String> {
    let mut document = root;
    for part in &path.parts()[..path.parts().len() - 1] {
        match document.get(part.name())? {
            RawValue::Document(inner) => document = inner,
            RawValue::Array(_) => return Some(part.name().to_owned()),
            _ => return None,
        }
    }
    None
}

fn blocked(field: &str, holder: &dyn Display, value: RawValue<'_>) -> Error {
    let text = format!("Cannot create field '{field}' in element {{{holder}: {value}}}");
    Error::new(ErrorCode::PATH_NOT_VIABLE, text)
}

fn not_an_array(dynamic: Dynamic, node: &Node, value: RawValue<'_>) -> Error {
    match dynamic {
        Dynamic::Matched => {
            let text = format!("Cannot apply the positional operator to non-array element {value}");
            Error::new(ErrorCode::PATH_NOT_VIABLE, text)
        }
        Dynamic::All | Dynamic::Filtered(_) => Error::bad_value(format!(
            "Cannot apply array updates to non-array element {}: {value}",
            path_before_dynamic(node)
        )),
    }
}

fn no_array(dynamic: Dynamic, node: &Node) -> Error {
    let path = path_before_dynamic(node);
    match dynamic {
        Dynamic::Matched => Error::bad_value(
            "The positional operator did not find the match needed from the query.",
        ),
        Dynamic::All | Dynamic::Filtered(_) => Error::bad_value(format!(
            "The path '{path}' must exist in the document in order to apply array updates."
        )),
    }
}

/// The path of the first leaf below, up to its first `$` component.
fn path_before_dynamic(node: &Node) -> String {
    match node {
        Node::Leaf(leaf) => {
            let names = leaf.path.parts().iter().map(PathPart::name);
            names
                .take_while(|name| !name.starts_with('$'))
                .collect::<Vec<_>>()
                .join(".")
        }
        Node::Branch(branch) => {
            let named = branch.named.iter().next().map(|(_, named)| &named.node);
            named
                .or(branch.dynamic.first().map(|(_, node)| node))
                .map(path_before_dynamic)
                .unwrap_or_default()
        }
    }
}
