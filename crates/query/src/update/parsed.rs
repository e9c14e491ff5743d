//! An update as it is once it is parsed: a replacement, operators by the fields that they change, or a pipeline. And the bounds of what
//! it may be and make.

use quarry_bson::{
    DOCUMENT_BYTES_MAX, Document, RawArray, RawDocument, RawValue, STORED_DEPTH_MAX,
};

use super::modifier::depth;
use super::tree::Branch;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::FieldPath;
use crate::matcher::Matcher;
use crate::pipeline::Pipeline;

/// Array filters of one update, and fields that one update renames: each is looked at for every document.
pub const ARRAY_FILTERS_MAX: usize = 100;
/// The fields that one update renames at most.
pub const RENAMES_MAX: usize = 1000;

/// Nulls that `$set: {"a.1000": 1}` may add to reach its position.
pub const ARRAY_PADDING_MAX: usize = 1_500_000;

/// The options of a statement that say more of its update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// The filters that operators name with `$[<identifier>]`.
    pub array_filters: Option<RawArray<'a>>,
    /// Values that the expressions of a pipeline read as variables (`c`).
    pub constants: Option<RawDocument<'a>>,
}

/// An update as it was parsed.
#[derive(Debug)]
pub struct Update {
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Replacement(Document),
    Operators(Operators),
    /// A pipeline, whose stages each make one document of one.
    Pipeline(Pipeline),
}

#[derive(Debug, Default)]
pub(super) struct Operators {
    pub(super) root: Branch,
    /// By the numbers that the tree holds.
    pub(super) array_filters: Vec<ArrayFilter>,
    /// From, to.
    pub(super) renames: Vec<(FieldPath, FieldPath)>,
    pub(super) uses_matched_element: bool,
}

#[derive(Debug)]
pub(super) struct ArrayFilter {
    pub(super) identifier: Box<str>,
    /// A path names it.
    pub(super) is_used: bool,
    pub(super) matcher: Matcher,
}

/// Refuses what has become larger than a client's document may be.
pub(super) fn check_bytes(bytes: usize, is_upsert: bool) -> Result<()> {
    if bytes <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let (code, what) = match is_upsert {
        true => (17420, "Document to upsert"),
        false => (17419, "Resulting document after update"),
    };
    let text = format!("{what} is larger than {DOCUMENT_BYTES_MAX}");
    Err(Error::location(code, text))
}

/// Refuses a whole document that nests deeper than what may be stored.
pub(super) fn check_levels(document: RawDocument<'_>) -> Result<()> {
    /// The shortest document in another one: its type, an empty name, its length and its end.
    const LEVEL_BYTES: usize = 7;
    if document.as_bytes().len() <= STORED_DEPTH_MAX * LEVEL_BYTES
        || depth(RawValue::Document(document)) <= STORED_DEPTH_MAX
    {
        return Ok(());
    }
    let text = format!("Document exceeds maximum nesting depth of {STORED_DEPTH_MAX}");
    Err(Error::new(ErrorCode::OVERFLOW, text))
}
