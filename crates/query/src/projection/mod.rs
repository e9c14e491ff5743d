//! Projections: which fields of a document are given on, and in what form. `find`'s are parsed here; the stages `$project`,
//! `$addFields` and `$unset` parse theirs by themselves. All of them become `Fields`, a tree of what happens to each field,
//! and share the walk over a document with it.
//!
//! Keeps true: included and untouched fields are copied as bytes in the document's order; `$elemMatch` results
//! and computed fields come after them, in the projection's order; arrays in the middle of a path are projected
//! element by element. `$meta` reads what the plan has attached to a document (`crate::metadata`).

mod apply;
mod node;
mod parse;
mod slice;

use std::collections::BTreeSet;

use quarry_bson::{DocumentBuilder, RawDocument, RawValue, doc};

use crate::error::Result;
use crate::expression::{Expression, ExpressionContext};
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::matcher::{MatchDetails, Matcher};
use crate::memory::Counted;
use crate::metadata::{self, MetadataKinds};
use node::Branch;
pub(crate) use node::Node;

/// A projection as it was parsed.
#[derive(Debug)]
pub struct Projection {
    fields: Fields,
    /// The paths that have to be read to project: None unless every leaf is a plain inclusion.
    required: Option<Vec<FieldPath>>,
    uses_matched_element: bool,
    /// The metadata that its expressions read.
    metadata: MetadataKinds,
    /// The fields that are `{$meta: "sortKey"}`.
    sort_keys: Vec<FieldPath>,
}

/// A tree that says what happens to each field of a document.
#[derive(Debug)]
pub(crate) struct Fields {
    mode: Mode,
    root: Branch,
}

/// The treatment of fields that a projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are left out.
    Drop,
    /// They stay; computed fields come last.
    Keep,
    /// They stay, and a computed field stands where a field of its name stood.
    Add,
}

impl Fields {
    pub(crate) fn new(mode: Mode) -> Fields {
        Fields {
            mode,
            root: Branch::default(),
        }
    }

    /// The treatment of fields that are not named.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Says what happens to the field at a path. Fails where something was said of it, or of what is around it or within.
    pub(crate) fn insert(&mut self, path: &FieldPath, node: Node) -> Result<()> {
        self.root.insert(path, node)
    }

    /// Adds the top-level fields that computed fields read; false if they may read the whole document.
    pub(crate) fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        self.root.add_fields_read(fields)
    }

    /// The top-level fields of which something is taken from the document.
    pub(crate) fn fields_taken(&self) -> impl Iterator<Item = &str> {
        let named = self.root.fields();
        named.filter_map(|(name, node)| (!node.is_made()).then_some(name))
    }

    /// The top-level fields that are named.
    pub(crate) fn fields_named(&self) -> impl Iterator<Item = &str> {
        self.root.fields().map(|(name, _)| name)
    }

    /// The top-level fields that are named to stay as they are.
    pub(crate) fn fields_kept(&self) -> impl Iterator<Item = &str> {
        let named = self.root.fields();
        named.filter_map(|(name, node)| matches!(node, Node::Include).then_some(name))
    }

    /// The top-level fields that are left out or computed, of a projection that keeps those it does not name.
    pub(crate) fn fields_made(&self) -> impl Iterator<Item = &str> {
        let named = self.root.fields().filter(|_| self.mode != Mode::Drop);
        named.filter_map(|(name, node)| {
            matches!(node, Node::Computed(_) | Node::Exclude).then_some(name)
        })
    }

    /// The top-level fields that are computed as nothing but another top-level field, with the name of that.
    pub(crate) fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.root.fields().filter_map(|(name, node)| match node {
            Node::Computed(expression) => {
                let path = expression.as_path()?.root_path()?;
                path.is_top_level().then(|| (name, path.as_str()))
            }
            _ => None,
        })
    }

    /// Appends the document with its fields treated.
    pub(crate) fn apply(
        &self,
        document: RawDocument<'_>,
        details: &MatchDetails,
        cuts_matched: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.apply_with(document, None, (details, cuts_matched), out)
    }

    /// Like `apply`, for a document that comes with metadata: none of it is given on.
    pub(crate) fn apply_attached(
        &self,
        attached: RawDocument<'_>,
        matched: (&MatchDetails, bool),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut bytes = Counted::default();
        bytes.charge.cover(attached.len_bytes())?;
        interrupts::work_on_bytes(attached.len_bytes())?;
        let metadata = metadata::split(attached, &mut bytes.bytes);
        let document = RawDocument::new(&bytes.bytes)?;
        self.apply_with(document, Some(metadata), matched, out)
    }

    fn apply_with(
        &self,
        document: RawDocument<'_>,
        metadata: Option<RawDocument<'_>>,
        (details, cuts_matched): (&MatchDetails, bool),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let run = apply::Run {
            mode: self.mode,
            root: document,
            metadata,
            details,
        };
        let start = out.len();
        let mut builder = DocumentBuilder::new(out);
        run.document(document, &self.root, cuts_matched, &mut builder)?;
        builder.finish();
        debug_assert!(
            RawDocument::new(&out[start..]).is_ok_and(|made| made.len_bytes() == out.len() - start),
            "a projection wrote something else than one document"
        );
        Ok(())
    }
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
        self.fields.mode == Mode::Keep && self.fields.root.is_empty()
    }

    /// The paths that decide the result, if the result is made of their values alone: a plan that has them
    /// from an index need not read the document.
    pub fn required_fields(&self) -> Option<&[FieldPath]> {
        self.required.as_deref()
    }

    /// Whether it only keeps or leaves out top-level fields.
    pub fn is_simple(&self) -> bool {
        let mut fields = self.fields.root.fields();
        fields.all(|(_, node)| matches!(node, Node::Include | Node::Exclude))
    }

    /// The metadata that it reads: the documents that are projected come with it, unless it is none.
    pub fn metadata(&self) -> MetadataKinds {
        self.metadata
    }

    /// The fields that are the key by which a document was sorted, and nothing else.
    pub(crate) fn sort_keys(&self) -> &[FieldPath] {
        &self.sort_keys
    }

    /// Has every document have its RecordId in the field `$recordId`.
    pub(crate) fn with_record_ids(projection: Option<Projection>) -> Result<Projection> {
        let mut projection = projection.unwrap_or_else(Projection::of_everything);
        let meta = doc! { "$meta": (metadata::RECORD_ID) };
        let context = ExpressionContext::default();
        let record_id = Expression::parse(RawValue::Document(meta.as_raw()), &context)?;
        let path = FieldPath::parse("$recordId")?;
        projection.fields.insert(&path, Node::Computed(record_id))?;
        projection.required = None;
        projection.metadata = projection.metadata.with(MetadataKinds::RECORD_ID);
        Ok(projection)
    }

    fn of_everything() -> Projection {
        Projection {
            fields: Fields::new(Mode::Keep),
            required: None,
            uses_matched_element: false,
            metadata: MetadataKinds::NONE,
            sort_keys: Vec::new(),
        }
    }

    /// Has every document come with the score of a search for words, which is taken off it.
    pub(crate) fn without_score(projection: Option<Projection>) -> Projection {
        let mut projection = projection.unwrap_or_else(Projection::of_everything);
        projection.required = None;
        projection.metadata = projection.metadata.with(MetadataKinds::TEXT_SCORE);
        projection
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
        let cuts_matched = self.uses_matched_element;
        self.fields.apply(document, details, cuts_matched, out)
    }

    /// Like `project`, for a document that comes with the metadata that the projection reads.
    pub(crate) fn project_attached(
        &self,
        attached: RawDocument<'_>,
        details: &MatchDetails,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let matched = (details, self.uses_matched_element);
        self.fields.apply_attached(attached, matched, out)
    }
}
