//! Filters: parsed once into a [`MatchExpression`], then asked of raw documents.
//!
//! Keeps true: MongoDB's answers for every operator it accepts; no allocation a document (unless
//! the filter names more than 16 fields); one walk over the
//! document for all top-level fields that the filter names; recursion bounded by [`FILTER_DEPTH_MAX`]. Leaves
//! out collation, `$where`, `$text`, geometry and `$jsonSchema`, which are refused by name.

mod bits;
mod comparison;
mod expression;
mod in_list;
mod modulo;
mod parse;
mod regex;
mod type_set;
mod walk;

use quarry_bson::{FieldSet, RawArray, RawDocument, RawElement, RawValue};

pub use bits::{BitsPredicate, BitsTest};
pub use comparison::compares;
pub use expression::{CompareOp, ExprPredicate, FieldPredicate, MatchExpression, Predicate};
pub use in_list::InList;
pub use modulo::ModPredicate;
pub use regex::{RegexPredicate, RegexPrefix};
pub use type_set::TypeSet;

use crate::error::Result;
use crate::field_path::FieldPath;
use crate::name_table::NameTable;
use walk::{Fields, Walk};

/// Filters nest no deeper, as in MongoDB.
pub const FILTER_DEPTH_MAX: usize = 100;

/// Fields that one walk finds into slots on the stack; a filter that names more has them on the heap.
const SLOTS_MANY: usize = 16;
const SLOTS_FEW: usize = 4;

#[derive(Debug)]
pub struct Matcher {
    root: MatchExpression,
    /// The top-level fields of the root's paths, in slot order, without duplicates.
    names: NameTable<()>,
    /// Finds them in one walk, if they are several.
    fields: Option<FieldSet>,
}

/// What a match says beyond yes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MatchDetails {
    /// The position in the outermost array that the match went through: what `$` in an update or projection
    /// stands for. With several array predicates the last one tells.
    pub array_index: Option<u32>,
}

impl Matcher {
    pub fn parse(filter: RawDocument<'_>) -> Result<Matcher> {
        Ok(Matcher::new(parse::parse_filter(filter)?))
    }

    /// A filter over one value, written as it follows a field's name: `{$gt: 1}`, a literal, a regular
    /// expression. Asked with [`Matcher::matches_value`].
    pub fn parse_condition(condition: RawValue<'_>) -> Result<Matcher> {
        Ok(Matcher::new(parse::parse_condition(condition)?))
    }

    /// The operand of `$elemMatch`, in a filter or a projection. Asked with [`Matcher::matched_element`].
    pub fn parse_elem_match(operand: RawValue<'_>) -> Result<Matcher> {
        Ok(Matcher::new(parse::parse_elem_match(
            &FieldPath::parse("")?,
            operand,
            0,
        )?))
    }

    pub(crate) fn new(mut root: MatchExpression) -> Matcher {
        let mut names = NameTable::default();
        give_slots(&mut root, &mut names);
        let fields = (names.len() > 1).then(|| FieldSet::new(names.iter().map(|(name, ())| name)));
        Matcher {
            root,
            names,
            fields,
        }
    }

    pub fn root(&self) -> &MatchExpression {
        &self.root
    }

    /// True for `{}`.
    pub fn is_match_all(&self) -> bool {
        match &self.root {
            MatchExpression::AlwaysTrue => true,
            MatchExpression::And(children) => children.is_empty(),
            _ => false,
        }
    }

    /// The top-level fields that decide.
    pub fn top_level_fields(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, ())| name)
    }

    /// Whether the document matches. A test that cannot be carried out (a regular expression over its limits)
    /// counts as no; [`Matcher::try_matches`] tells it apart.
    pub fn matches(&self, document: RawDocument<'_>) -> bool {
        self.try_matches(document).unwrap_or(false)
    }

    pub fn try_matches(&self, document: RawDocument<'_>) -> Result<bool> {
        Ok(self.try_match_details(document)?.is_some())
    }

    pub fn matches_with_position(&self, document: RawDocument<'_>) -> Option<MatchDetails> {
        self.try_match_details(document).unwrap_or(None)
    }

    pub fn try_match_details(&self, document: RawDocument<'_>) -> Result<Option<MatchDetails>> {
        let mut walk = Walk::default();
        let matched = self.walk(document, &mut walk);
        match walk.failure {
            Some(failure) => Err(failure),
            None => Ok(matched.then_some(walk.details)),
        }
    }

    /// Asks the filter of one element under the only top-level field that it names (or none): array filters
    /// and the conditions of `$pull`.
    pub fn matches_value(&self, element: RawElement<'_>) -> Result<bool> {
        debug_assert!(self.names.len() <= 1, "a condition names one field");
        let mut walk = Walk::default();
        let matched = walk.matches(
            &self.root,
            &Fields {
                document: RawDocument::EMPTY,
                slots: &[Some(element)],
            },
        );
        walk.failure.map_or(Ok(matched), Err)
    }

    /// The position of the first element of an array that an `$elemMatch` accepts.
    pub fn matched_element(&self, array: RawArray<'_>) -> Result<Option<u32>> {
        let mut walk = Walk::default();
        let matched = walk.matches_value(&self.root, RawValue::Array(array));
        walk.failure
            .map_or(Ok(walk.details.array_index.filter(|_| matched)), Err)
    }

    #[inline]
    fn walk(&self, document: RawDocument<'_>, walk: &mut Walk) -> bool {
        match &self.fields {
            None => {
                let only = self
                    .names
                    .iter()
                    .next()
                    .and_then(|(name, ())| document.get_element(name));
                walk.matches(
                    &self.root,
                    &Fields {
                        document,
                        slots: &[only],
                    },
                )
            }
            Some(fields) => match self.names.len() {
                count if count <= SLOTS_FEW => {
                    self.walk_slots(fields, document, walk, &mut [None; SLOTS_FEW][..count])
                }
                count if count <= SLOTS_MANY => {
                    self.walk_slots(fields, document, walk, &mut [None; SLOTS_MANY][..count])
                }
                count => self.walk_slots(fields, document, walk, &mut vec![None; count]),
            },
        }
    }

    fn walk_slots<'a>(
        &self,
        fields: &FieldSet,
        document: RawDocument<'a>,
        walk: &mut Walk,
        slots: &mut [Option<RawElement<'a>>],
    ) -> bool {
        fields.extract(document, slots);
        walk.matches(&self.root, &Fields { document, slots })
    }
}

/// Numbers the top-level fields of all paths; filters inside `$elemMatch` have numbers of their own.
fn give_slots(expression: &mut MatchExpression, names: &mut NameTable<()>) {
    match expression {
        MatchExpression::AlwaysTrue | MatchExpression::AlwaysFalse | MatchExpression::Expr(_) => {}
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => {
            for child in children {
                give_slots(child, names);
            }
        }
        MatchExpression::Not(child) => give_slots(child, names),
        MatchExpression::Field(field) => {
            let name = field.path.first();
            let known = names.find(name.as_bytes());
            field.slot = known.unwrap_or_else(|| names.push(name, ()));
        }
    }
}
