//! `$project`, `$addFields`, `$set` and `$unset` at work: a tree of field names over which a document is copied.
//!
//! A tree includes (copies what it names), excludes (copies the rest) or adds (copies everything and computes).
//! Arrays on a path are entered element by element, and arrays within arrays too. Fields that are computed read
//! the document as it came in.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use quarry_bson::{
    ArrayBuilder, Document, DocumentBuilder, RawArray, RawDocument, RawElement, RawValue,
};

use super::execution::{Buffer, Running, Upstream};
use super::stage::{Reads, Stage};
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, bounds};
use crate::interrupts;
use crate::memory::{Charge, bytes_of};
use crate::name_table::NameTable;

#[derive(Debug)]
pub(super) struct Transform {
    name: &'static str,
    specification: Document,
    tree: Tree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Include,
    Exclude,
    Add,
}

/// One level of names, in the order of the specification.
#[derive(Debug)]
pub(super) struct Tree {
    kind: Kind,
    nodes: NameTable<Node>,
    computes: bool,
}

#[derive(Debug)]
pub(super) enum Node {
    /// The field that an including tree keeps and an excluding one drops.
    Named,
    Computed(Expression),
    Nested(Tree),
}

/// The rule that a specification gives for one path.
#[derive(Debug)]
pub(super) struct Leaf {
    pub path: Vec<Box<str>>,
    /// None for a field that is included or excluded.
    pub computed: Option<Expression>,
}

impl Transform {
    pub(super) fn new(
        name: &'static str,
        specification: Document,
        kind: Kind,
        leaves: Vec<Leaf>,
    ) -> Result<Transform> {
        let mut tree = Tree::new(kind);
        for leaf in leaves {
            let dotted = leaf.path.join(".");
            interrupts::work(UNITS_OF_A_LEAF)?;
            tree.insert(&leaf.path, leaf.computed, &dotted)?;
        }
        Ok(Transform {
            name,
            specification,
            tree,
        })
    }

    /// Appends the transformed document to `out`.
    pub(super) fn apply<'a>(
        &'a self,
        document: RawDocument<'a>,
        context: &mut Context<'a>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.tree
            .apply(document, context, &mut DocumentBuilder::new(out))
    }
}

impl Stage for Transform {
    fn name(&self) -> &'static str {
        self.name
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name, self.specification.as_raw());
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn Running> {
        Box::new(Transforming {
            stage: self,
            buffer: Buffer::default(),
        })
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        let known = self
            .tree
            .nodes
            .iter()
            .all(|(_, node)| node.add_fields_read(fields));
        match self.tree.kind {
            _ if !known => Reads::Everything,
            Kind::Include => {
                let kept = self
                    .tree
                    .nodes
                    .iter()
                    .filter(|(_, node)| !matches!(node, Node::Computed(_)));
                fields.extend(kept.map(|(name, _)| name.to_owned()));
                Reads::Only
            }
            Kind::Exclude | Kind::Add => Reads::Passes,
        }
    }
}

struct Transforming {
    stage: Arc<Transform>,
    buffer: Buffer,
}

impl Running for Transforming {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.buffer)? else {
            return Ok(false);
        };
        self.stage
            .apply(document, &mut Context::new(document), out)?;
        self.buffer.empty();
        Ok(true)
    }
}

impl Node {
    fn computes(&self) -> bool {
        match self {
            Node::Named => false,
            Node::Computed(_) => true,
            Node::Nested(tree) => tree.computes,
        }
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            Node::Named => true,
            Node::Computed(expression) => expression.add_fields_read(fields),
            Node::Nested(tree) => tree
                .nodes
                .iter()
                .all(|(_, node)| node.add_fields_read(fields)),
        }
    }
}

impl Tree {
    fn new(kind: Kind) -> Tree {
        Tree {
            kind,
            nodes: NameTable::default(),
            computes: false,
        }
    }

    /// Recursion is as deep as the path is long, which its parser bounds.
    fn insert(
        &mut self,
        path: &[Box<str>],
        computed: Option<Expression>,
        dotted: &str,
    ) -> Result<()> {
        let Some((name, rest)) = path.split_first() else {
            return Ok(());
        };
        self.computes |= computed.is_some();
        let Some(place) = self.nodes.find(name.as_bytes()) else {
            let node = if rest.is_empty() {
                computed.map_or(Node::Named, Node::Computed)
            } else {
                let mut tree = Tree::new(self.kind);
                tree.insert(rest, computed, dotted)?;
                Node::Nested(tree)
            };
            self.nodes.push(name, node);
            return Ok(());
        };
        match (self.nodes.get_mut(place), rest.is_empty()) {
            (Node::Nested(tree), false) => tree.insert(rest, computed, dotted)?,
            (_, true) => {
                return Err(Error::location(
                    31250,
                    format!("Path collision at {dotted}"),
                ));
            }
            (_, false) => {
                let text = format!(
                    "Path collision at {dotted} remaining portion {}",
                    rest.join(".")
                );
                return Err(Error::location(31249, text));
            }
        }
        Ok(())
    }

    fn find(&self, name: &[u8]) -> Option<&Node> {
        self.nodes.find(name).map(|place| self.nodes.get(place))
    }

    fn apply<'a>(
        &'a self,
        document: RawDocument<'_>,
        context: &mut Context<'a>,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        for element in document {
            interrupts::work_on_bytes(element.as_bytes().len())?;
            match (self.find(element.name().as_bytes()), self.kind) {
                (None, Kind::Include) | (Some(Node::Named), Kind::Exclude) => {}
                (None | Some(Node::Named), _) => {
                    out.append_element(element);
                }
                // A computed field stands where the old one stood only if the old document is kept as a whole.
                (Some(Node::Computed(expression)), Kind::Add) => {
                    append_computed(out, element.name().as_bytes(), expression, context)?;
                }
                (Some(Node::Computed(_)), _) => {}
                (Some(Node::Nested(tree)), _) => tree.apply_element(element, context, out)?,
            }
        }
        if self.computes {
            self.append_new(document, context, out)?;
        }
        Ok(())
    }

    /// Computes the fields that the copy of the document has no place for.
    fn append_new<'a>(
        &'a self,
        document: RawDocument<'_>,
        context: &mut Context<'a>,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let names = self.names_in(document)?;
        for (name, node) in self.nodes.iter().filter(|(_, node)| node.computes()) {
            interrupts::work(1)?;
            match node {
                Node::Computed(expression) => {
                    if self.kind != Kind::Add || !names.contain(name) {
                        append_computed(out, name.as_bytes(), expression, context)?;
                    }
                }
                Node::Nested(tree) if !names.contain(name) => {
                    tree.append_new(RawDocument::EMPTY, context, &mut out.document(name))?;
                }
                Node::Nested(_) | Node::Named => {}
            }
        }
        Ok(())
    }

    /// The names of a document, looked up one by one unless the tree asks for many.
    fn names_in<'d>(&self, document: RawDocument<'d>) -> Result<Names<'d>> {
        if self.nodes.len() <= NAMES_SOUGHT_MAX {
            interrupts::work_on_bytes(document.len_bytes() * self.nodes.len())?;
            return Ok(Names::Sought(document));
        }
        let mut names = HashSet::new();
        let mut held = Charge::default();
        for element in document {
            interrupts::work(UNITS_OF_A_NAME)?;
            held.grow(NAME_BYTES)?;
            names.insert(element.name().as_bytes());
        }
        Ok(Names::Listed { names, _held: held })
    }

    fn apply_element<'a>(
        &'a self,
        element: RawElement<'_>,
        context: &mut Context<'a>,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let name = element.name();
        match element.value() {
            RawValue::Document(inner) => self.apply(inner, context, &mut out.document(name)),
            RawValue::Array(inner) => self.apply_array(inner, context, &mut out.array(name)),
            _ if self.computes => {
                self.append_new(RawDocument::EMPTY, context, &mut out.document(name))
            }
            _ => {
                if self.kind != Kind::Include {
                    out.append_element(element);
                }
                Ok(())
            }
        }
    }

    /// Recursion is bounded by the depth of the stored document.
    fn apply_array<'a>(
        &'a self,
        array: RawArray<'_>,
        context: &mut Context<'a>,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<()> {
        for element in array.elements() {
            interrupts::work_on_bytes(element.as_bytes().len())?;
            match element.value() {
                RawValue::Document(inner) => self.apply(inner, context, &mut out.document())?,
                RawValue::Array(inner) => self.apply_array(inner, context, &mut out.array())?,
                _ if self.computes => {
                    self.append_new(RawDocument::EMPTY, context, &mut out.document())?;
                }
                _ if self.kind != Kind::Include => {
                    out.push_element(element);
                }
                _ => {}
            }
            bounds::check_bytes(out.len_bytes())?;
        }
        Ok(())
    }
}

/// The work of putting one path into the tree.
const UNITS_OF_A_LEAF: usize = 30;

/// Names that are looked for in a document by walking through it.
const NAMES_SOUGHT_MAX: usize = 8;

/// The work of hashing a name.
const UNITS_OF_A_NAME: usize = 10;

/// The bytes that a name takes in a table.
const NAME_BYTES: usize = 2 * size_of::<&[u8]>();

enum Names<'d> {
    Sought(RawDocument<'d>),
    Listed {
        names: HashSet<&'d [u8]>,
        _held: Charge,
    },
}

impl Names<'_> {
    fn contain(&self, name: &str) -> bool {
        match self {
            Names::Sought(document) => document.contains(name),
            Names::Listed { names, .. } => names.contains(name.as_bytes()),
        }
    }
}

fn append_computed<'a>(
    out: &mut DocumentBuilder<'_>,
    name: &[u8],
    expression: &'a Expression,
    context: &mut Context<'a>,
) -> Result<()> {
    if let Some(value) = expression.evaluate(context)?.as_raw() {
        bounds::check_depth(value, 1)?;
        bounds::check_bytes(out.len_bytes() + bytes_of(value))?;
        out.append(name, value);
    }
    Ok(())
}
