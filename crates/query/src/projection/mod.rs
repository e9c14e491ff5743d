//! `find`'s projections: which fields of a matching document are returned, and in what form.
//!
//! Keeps true: included and untouched fields are copied as bytes in the document's order; `$elemMatch` results
//! and computed fields come after them, in the projection's order; arrays in the middle of a path are projected
//! element by element. Leaves out `$meta`, which is refused by name.

mod apply;
mod node;
mod parse;
mod slice;

use quarry_bson::{DocumentBuilder, RawDocument};

use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::matcher::{MatchDetails, Matcher};
use node::Branch;

/// A projection as it was parsed.
#[derive(Debug)]
pub struct Projection {
    mode: Mode,
    root: Branch,
    /// The paths that have to be read to project: None unless every leaf is a plain inclusion.
    required: Option<Vec<FieldPath>>,
    uses_matched_element: bool,
}

/// The treatment of fields that the projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Drop,
    Keep,
}

impl Projection {
    /// `filter` is the query's: a positional projection must name an array that it asks about.
    pub fn parse(projection: RawDocument<'_>, filter: Option<&Matcher>) -> Result<Projection> {
        Projection::parse_in(projection, filter, &ExpressionContext::default())
    }

    /// Like `parse`, for a command whose expressions have the context in common.
    pub fn parse_in(
        projection: RawDocument<'_>,
        filter: Option<&Matcher>,
        context: &ExpressionContext,
    ) -> Result<Projection> {
        parse::parse(projection, filter, context)
    }

    /// True for `{}`: documents are returned as they are.
    pub fn is_identity(&self) -> bool {
        self.mode == Mode::Keep && self.root.is_empty()
    }

    /// The paths that decide the result, if the result is made of their values alone: a plan that has them
    /// from an index need not read the document.
    pub fn required_fields(&self) -> Option<&[FieldPath]> {
        self.required.as_deref()
    }

    /// Whether a field is `array.$`, so that the match must tell which element it went through.
    pub fn uses_matched_element(&self) -> bool {
        self.uses_matched_element
    }

    /// Appends the projected document to `out`.
    pub fn project(
        &self,
        document: RawDocument<'_>,
        details: &MatchDetails,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.is_identity() {
            out.extend_from_slice(document.as_bytes());
            return Ok(());
        }
        let run = apply::Run {
            mode: self.mode,
            root: document,
            details,
        };
        let mut builder = DocumentBuilder::new(out);
        run.document(
            document,
            &self.root,
            self.uses_matched_element,
            &mut builder,
        )?;
        builder.finish();
        Ok(())
    }
}
