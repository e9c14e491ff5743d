//! Updates: a replacement document, operators compiled into a tree of the fields that they touch, or a pipeline.
//!
//! Keeps true: fields that no operator names are copied byte for byte, in one walk over the document; `_id`
//! never changes; the result is within the limits of size and nesting; new fields are created in MongoDB's
//! order (numbers by value, then by name). Setting or incrementing a top-level field allocates nothing beyond
//! `out`.

mod apply;
mod describe;
mod difference;
mod modifier;
mod operators;
mod parse;
mod parsed;
mod path_step;
mod tree;
mod upsert;
mod write;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue};

pub use parsed::{ARRAY_FILTERS_MAX, ARRAY_PADDING_MAX, Beside, RENAMES_MAX, Update};
pub use path_step::{Described, PathStep};

use crate::empty_timestamps;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::matcher::{MatchDetails, Matcher};
use modifier::Target;
use parsed::{Kind, check_bytes, check_levels};

/// The outcome of applying an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The bytes differ.
    pub modified: bool,
}

impl Update {
    /// Parses `u` of an update statement.
    pub fn parse(update: RawValue<'_>) -> Result<Update> {
        Update::parse_with(update, None)
    }

    /// As [`Update::parse`], with the statement's `arrayFilters`.
    pub fn parse_with(update: RawValue<'_>, array_filters: Option<RawArray<'_>>) -> Result<Update> {
        let beside = Beside {
            array_filters,
            constants: None,
        };
        Update::parse_in(update, beside, &ExpressionContext::default())
    }

    /// As [`Update::parse`], with what the statement has beside it, and the context that the command's expressions share.
    pub fn parse_in(
        update: RawValue<'_>,
        beside: Beside<'_>,
        context: &ExpressionContext,
    ) -> Result<Update> {
        Ok(Update {
            kind: parse::parse(update, beside, context)?,
        })
    }

    /// Puts the time where a replacement asks for it with an empty timestamp.
    pub fn fill_empty_timestamps(&mut self) {
        if let Kind::Replacement(replacement) = &mut self.kind
            && let Some(filled) = empty_timestamps::filled(replacement.as_raw())
        {
            *replacement = filled;
        }
    }

    /// Whether it is a replacement document.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// Whether it is a pipeline.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    /// Whether it is of operators that change nothing beyond that top-level field.
    pub fn changes_only(&self, field: &str) -> bool {
        match &self.kind {
            Kind::Replacement(_) | Kind::Pipeline(_) => false,
            Kind::Operators(operators) => {
                let named = &operators.root.named;
                (0..named.len()).all(|place| named.name(place) == field)
            }
        }
    }

    /// Whether it may change something of the top-level field that a dotted path begins with.
    pub fn may_change(&self, path: &str) -> bool {
        let field = path.split_once('.').map_or(path, |(field, _)| field);
        match &self.kind {
            Kind::Replacement(_) | Kind::Pipeline(_) => true,
            Kind::Operators(operators) => operators.root.named.find(field.as_bytes()).is_some(),
        }
    }

    /// Whether a path has the component `$`, so that the match must tell which element it went through.
    pub fn uses_matched_element(&self) -> bool {
        matches!(&self.kind, Kind::Operators(operators) if operators.uses_matched_element)
    }

    /// Appends the updated document to `out`. With an error `out` holds nothing of use past its old end.
    /// `upsert_insert`: the document is being made by an upsert, so `$setOnInsert` counts.
    pub fn apply(
        &self,
        document: RawDocument<'_>,
        details: &MatchDetails,
        upsert_insert: bool,
        now_ms: i64,
        out: &mut Vec<u8>,
    ) -> Result<Outcome> {
        let start = out.len();
        match &self.kind {
            Kind::Replacement(replacement) => {
                replace(document, replacement.as_raw(), upsert_insert, out)?;
            }
            Kind::Operators(operators) => {
                apply::Apply {
                    operators,
                    target: Target {
                        root: document,
                        insert: upsert_insert,
                        now_ms,
                    },
                    details,
                    start,
                }
                .run(out)?;
            }
            Kind::Pipeline(pipeline) => {
                let mut made = Vec::new();
                pipeline.map(document, &mut made)?;
                let made = RawDocument::new(&made)?;
                check_levels(made)?;
                replace(document, made, upsert_insert, out)?;
            }
        }
        debug_assert!(
            RawDocument::new(&out[start..]).is_ok_and(|made| made.len_bytes() == out.len() - start),
            "an update wrote something else than one document"
        );
        check_bytes(out.len() - start, upsert_insert)?;
        Ok(Outcome {
            modified: out[start..] != *document.as_bytes(),
        })
    }

    /// The document that an upsert inserts when the filter matches nothing: the filter's equalities with the
    /// update applied, `_id` first and generated if neither gives one.
    pub fn upsert_document(&self, filter: &Matcher, now_ms: i64) -> Result<Document> {
        upsert::document(self, filter, now_ms)
    }
}

/// The replacement with the document's `_id`, which it may repeat but not change: an equal one of another type leaves
/// the bytes as they are, because the document's index entries hold them too. The document that an upsert makes has no
/// entries yet, and takes the `_id` that the replacement gives.
fn replace(
    document: RawDocument<'_>,
    replacement: RawDocument<'_>,
    upsert_insert: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Some(old_id) = document.get_element("_id") else {
        out.extend_from_slice(replacement.as_bytes());
        return Ok(());
    };
    let mut given = 0;
    for id in replacement.iter().filter(|element| element.name() == "_id") {
        given += 1;
        if id.value() != old_id.value() {
            let text = format!(
                "After applying the update, the (immutable) field '_id' was found to have been altered to _id: {}",
                id.value()
            );
            return Err(Error::new(ErrorCode::IMMUTABLE_FIELD, text));
        }
    }
    let is_as_stored = replacement
        .first()
        .is_some_and(|first| first.as_bytes() == old_id.as_bytes());
    if given == 1 && (is_as_stored || upsert_insert) {
        out.extend_from_slice(replacement.as_bytes());
        return Ok(());
    }
    let mut builder = DocumentBuilder::new(out);
    builder.append_element(old_id);
    for element in replacement.iter().filter(|element| element.name() != "_id") {
        builder.append_element(element);
    }
    builder.finish();
    Ok(())
}
