//! An operator with its argument for one field: parsed and checked once, applied to every document.
//!
//! Each operator implements [`Modifier`] in a file of its own below `operators`. The walk over a document, the tree of paths
//! and the description of what has changed ask an operator through the trait alone, so that none of them knows its name.

use std::fmt::Debug;

use quarry_bson::{RawDocument, RawElement, RawValue, Value};

use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;

/// An operator with its argument for one field.
pub(super) trait Modifier: Debug + Send + Sync {
    /// Writes what becomes of the element that stands at the path; nothing where it goes.
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()>;

    /// Whether a field that is missing comes into being.
    fn creates(&self, _: &Target<'_>) -> bool {
        false
    }

    /// Writes the field that is missing: an element where the operator [creates](Modifier::creates) one, nothing else.
    fn create(&self, _name: &[u8], _: &Target<'_>, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    /// Whether it is no error that the path cannot exist (`a.b` where `a` is a number).
    fn tolerates_blocked_path(&self, _: &Target<'_>) -> bool {
        false
    }

    /// Levels of nesting that the field's new value may have.
    fn depth(&self) -> usize {
        0
    }

    /// Whether it may put elements behind those of an array and change nothing else, which is then described element by element.
    fn may_append(&self) -> bool {
        false
    }
}

/// How the argument of an operator is read, which is refused here if it is wrong whatever the document.
pub(super) trait FromArgument: Modifier + Sized + 'static {
    /// The operator with its argument for the field at `path`, in a command with that context.
    fn from_argument(
        path: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Self>;
}

/// The document that an operator is applied to, as far as the operator may know it.
pub(super) struct Target<'d> {
    /// The document as it was.
    pub root: RawDocument<'d>,
    /// An upsert makes the document.
    pub insert: bool,
    /// The time of the update, in milliseconds since 1970.
    pub now_ms: i64,
}

/// An element that an operator meets at the end of its path.
pub(super) struct Found<'a> {
    pub element: RawElement<'a>,
    pub path: &'a FieldPath,
    pub within: Within,
}

/// An element stands in a document or in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    Document,
    Array,
}

impl Target<'_> {
    /// The document's `_id`, as errors show it.
    pub fn id_shown(&self) -> String {
        self.root
            .get("_id")
            .map_or_else(|| "no id".to_owned(), |id| format!("_id: {id}"))
    }
}

impl<'a> Found<'a> {
    /// The element's name.
    pub fn name(&self) -> &'a [u8] {
        self.element.name().as_bytes()
    }

    /// Writes the element as it is.
    pub fn keep(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.element.as_bytes());
    }
}

/// Levels of documents and arrays in a value: 0 for a scalar.
pub(super) fn depth(value: RawValue<'_>) -> usize {
    match value {
        RawValue::Document(document) => {
            1 + document
                .iter()
                .map(|element| depth(element.value()))
                .max()
                .unwrap_or(0)
        }
        RawValue::Array(array) => 1 + array.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Levels of the deepest of the values.
pub(super) fn deepest(values: &[Value]) -> usize {
    values
        .iter()
        .map(|value| depth(value.as_raw()))
        .max()
        .unwrap_or(0)
}
