//! The tree of a projection's fields.

use std::collections::BTreeSet;

use super::slice::Slice;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::field_path::{FieldPath, PathPart};
use crate::matcher::Matcher;
use crate::name_table::NameTable;

/// The fate of one field.
#[derive(Debug)]
pub(crate) enum Node {
    /// It stays.
    Include,
    /// It is left out.
    Exclude,
    /// `array.$`: the element that the filter matched, of the first array on the path.
    Matched,
    /// A part of the array.
    Slice(Slice),
    /// The first element that matches; at the top level only.
    ElemMatch(Matcher),
    /// The value of an expression over the whole document.
    Computed(Expression),
    /// Something happens to fields within it.
    Branch(Branch),
}

/// The fields named inside one document.
#[derive(Debug, Default)]
pub(crate) struct Branch {
    /// In the projection's order.
    fields: NameTable<Node>,
    /// A field here or further down is made, not taken from the document.
    pub(super) makes_fields: bool,
    /// The path of `array.$` leads through here.
    pub(super) leads_to_matched: bool,
}

impl Branch {
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn fields(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.fields.iter()
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.fields.find(name)
    }

    pub fn node(&self, place: usize) -> &Node {
        self.fields.get(place)
    }

    /// Adds the top-level fields that computed fields read; false if they may read the whole document.
    pub fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        self.fields.iter().all(|(_, node)| match node {
            Node::Computed(expression) => expression.add_fields_read(fields),
            Node::Branch(branch) => branch.add_fields_read(fields),
            _ => true,
        })
    }

    /// Evaluates the constant parts of computed fields, and fails where one cannot be.
    pub fn fold(&mut self) -> Result<()> {
        for node in self.fields.values_mut() {
            match node {
                Node::Computed(expression) => {
                    let parsed = std::mem::replace(expression, Expression::Absent);
                    *expression = parsed.folded()?;
                }
                Node::Branch(branch) => branch.fold()?,
                _ => {}
            }
        }
        Ok(())
    }

    pub fn insert(&mut self, path: &FieldPath, node: Node) -> Result<()> {
        self.insert_at(path, 0, node)
    }

    fn insert_at(&mut self, path: &FieldPath, at: usize, node: Node) -> Result<()> {
        let name = path.parts()[at].name();
        let last = at + 1 == path.parts().len();
        self.makes_fields |= node.is_made();
        self.leads_to_matched |= matches!(node, Node::Matched);
        let Some(place) = self.find(name.as_bytes()) else {
            let node = if last {
                node
            } else {
                let mut branch = Branch::default();
                branch.insert_at(path, at + 1, node)?;
                Node::Branch(branch)
            };
            self.fields.push(name, node);
            return Ok(());
        };
        match self.fields.get_mut(place) {
            Node::Branch(branch) if !last => branch.insert_at(path, at + 1, node),
            Node::Branch(_) => Err(Error::location(
                31250,
                format!("Path collision at {}", path.as_str()),
            )),
            _ if last => Err(Error::location(
                31250,
                format!("Path collision at {}", path.as_str()),
            )),
            _ => {
                let rest: Vec<&str> = path.parts()[at + 1..].iter().map(PathPart::name).collect();
                let text = format!(
                    "Path collision at {} remaining portion {}",
                    path.as_str(),
                    rest.join(".")
                );
                Err(Error::location(31249, text))
            }
        }
    }
}

impl Node {
    /// Made after the fields that are taken from the document.
    pub fn is_made(&self) -> bool {
        matches!(self, Node::Computed(_) | Node::ElemMatch(_))
    }
}
