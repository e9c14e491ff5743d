//! Filters: parsed once into a [`MatchExpression`], then asked of raw documents.
//!
//! Keeps true: MongoDB's answers for every operator it accepts; no allocation a document (unless
//! the filter names more than 16 fields); one walk over the
//! document for all top-level fields that the filter names; recursion bounded by [`FILTER_DEPTH_MAX`]. Leaves
//! out `$where`, which is refused by name, and JavaScript with it.

mod bits;
mod comparison;
mod expression;
mod failure;
mod geo;
mod geo_question;
mod in_list;
mod json_schema;
mod modulo;
mod near;
mod operators;
mod parse;
mod regex;
mod size;
mod slots;
mod text;
mod type_set;
mod value_test;
mod walk;

use quarry_bson::{FieldSet, RawArray, RawDocument, RawElement, RawValue};

pub use comparison::compares;
pub use expression::{
    CompareOp, ExprPredicate, FieldPredicate, MatchExpression, Matcher, Predicate,
};
pub use geo_question::GeoQuestion;
pub use in_list::InList;
pub use json_schema::JsonSchema;
pub use near::{From, Near, NearFields};
pub use parse::FILTER_DEPTH_MAX;
pub use regex::{Places, RegexPredicate, RegexPrefix};
pub(crate) use text::no_text_index;
pub use text::{BoundText, TextQuery};
pub(crate) use type_set::type_bit;
pub use value_test::ValueTest;
pub use walk::MatchDetails;

use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::interrupts::units_of_search;
use parse::Level;
use slots::{Finder, Slots};
use walk::{Fields, Walk};

/// The names of a filter's operators, `$` included: those that follow a field, and those that stand in a field's place.
pub fn operator_names() -> [Vec<&'static str>; 2] {
    operators::names()
}

/// Fields that one walk finds into slots on the stack; a filter that names more has them on the heap.
const SLOTS_MANY: usize = 16;
const SLOTS_FEW: usize = 4;

impl Matcher {
    /// Parses a filter without variables.
    pub fn parse(filter: RawDocument<'_>) -> Result<Matcher> {
        Matcher::parse_in(filter, &ExpressionContext::default())
    }

    /// Like `parse`, for a command whose expressions have the context in common.
    pub fn parse_in(filter: RawDocument<'_>, context: &ExpressionContext) -> Result<Matcher> {
        let root = parse::parse_filter(filter, context)?;
        Ok(Matcher::new(root, context.collation()))
    }

    /// Like `parse_in`, for a filter that a plan answers: `$text` may stand in it.
    pub fn parse_query(filter: RawDocument<'_>, context: &ExpressionContext) -> Result<Matcher> {
        let root = parse::parse_query(filter, context)?;
        let matcher = Matcher::new(root, context.collation());
        match matcher.texts() {
            0 => Ok(matcher),
            1 if matcher.root.near().is_none() => Ok(matcher),
            1 => Err(Error::bad_value(
                "text and geoNear not allowed in same query",
            )),
            _ => Err(Error::bad_value("Too many text expressions")),
        }
    }

    /// Parses a filter whose subject is no document of a collection but a part of one: operators that ask an expression, which
    /// would read the whole document, are refused.
    pub fn parse_of_fields(
        filter: RawDocument<'_>,
        context: &ExpressionContext,
    ) -> Result<Matcher> {
        let root = parse::parse_filter_of_fields(filter, context)?;
        Ok(Matcher::new(root, context.collation()))
    }

    /// Matches every document.
    pub fn of_everything() -> Matcher {
        Matcher::new(MatchExpression::AlwaysTrue, &Collation::SIMPLE)
    }

    /// A filter over one value, written as it follows a field's name: `{$gt: 1}`, a literal, a regular
    /// expression. Asked with [`Matcher::matches_value`].
    pub fn parse_condition(
        condition: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Matcher> {
        let root = parse::parse_condition(condition, context)?;
        Ok(Matcher::new(root, context.collation()))
    }

    /// The operand of `$elemMatch`, in a filter or a projection. Asked with [`Matcher::matched_element`].
    pub fn parse_elem_match(operand: RawValue<'_>, context: &ExpressionContext) -> Result<Matcher> {
        let level = Level::outermost(context);
        let root = parse::parse_elem_match(&FieldPath::parse("")?, operand, level)?;
        Ok(Matcher::new(root, context.collation()))
    }

    /// How the filter compares strings.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The root of the filter's tree.
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

    /// The branches of the filter's `$or`: the first one of those that it asks for, alone or among other things.
    pub fn branches(&self) -> Option<&[MatchExpression]> {
        let all = match &self.root {
            MatchExpression::And(children) => children.as_slice(),
            other => std::slice::from_ref(other),
        };
        all.iter().find_map(|child| match child {
            MatchExpression::Or(branches) => Some(branches.as_slice()),
            _ => None,
        })
    }

    /// The number of the first of the `branches` that the document matches.
    pub fn first_branch(&self, document: RawDocument<'_>) -> Result<Option<usize>> {
        let slots = self.slots();
        let mut found = vec![None; slots.len];
        match &slots.finder {
            Finder::None => {}
            Finder::One(name) => found[0] = document.get_element(&**name),
            Finder::Several(fields) => fields.extract(document, &mut found),
            Finder::Many(places) => {
                for element in document {
                    if let Some(place) = places.get(element.name().as_bytes()) {
                        found[*place as usize].get_or_insert(element);
                    }
                }
            }
        }
        let fields = Fields {
            document,
            slots,
            found: &found,
        };
        let mut walk = Walk::new(&self.collation);
        walk.work(units_of_search(document));
        let branches = self.branches().unwrap_or_default().iter();
        let matched = branches.map(|branch| walk.matches(branch, &fields));
        let first = matched.into_iter().position(|is_match| is_match);
        walk.count();
        walk.failure.map_or(Ok(first), Err)
    }

    /// Whether the filter asks an expression, with `$expr`.
    pub fn holds_expr(&self) -> bool {
        parse::holds_expr(&self.root)
    }

    /// Fails for a filter that wishes an order by distance, where only the filter is asked.
    pub fn refuse_near(&self) -> Result<()> {
        match self.root.near() {
            None => Ok(()),
            Some(_) => Err(near::not_allowed()),
        }
    }

    /// Whether the filter draws at random, with `$rand` or `$sampleRate`.
    pub fn varies(&self) -> bool {
        parse::varies(&self.root)
    }

    /// The top-level fields that decide.
    pub fn top_level_fields(&self) -> impl Iterator<Item = &str> {
        slots::names(&self.root).into_iter()
    }

    /// Whether the document matches. A test that cannot be carried out (a regular expression over its limits)
    /// counts as no; [`Matcher::try_matches`] tells it apart.
    pub fn matches(&self, document: RawDocument<'_>) -> bool {
        self.try_matches(document).unwrap_or(false)
    }

    /// Whether the document matches. Fails where an expression fails or the operation is to end.
    pub fn try_matches(&self, document: RawDocument<'_>) -> Result<bool> {
        Ok(self.try_match_details(document)?.is_some())
    }

    /// Like `try_matches`, where a plan has answered each `$text` already.
    pub(crate) fn try_matches_beside_texts(&self, document: RawDocument<'_>) -> Result<bool> {
        let mut walk = Walk::new(&self.collation);
        walk.trusts_texts = true;
        walk.work(units_of_search(document));
        let matched = self.walk(document, &mut walk);
        walk.count();
        walk.failure.map_or(Ok(matched), Err)
    }

    /// The details of the match, if the document matches.
    pub fn try_match_details(&self, document: RawDocument<'_>) -> Result<Option<MatchDetails>> {
        let mut walk = Walk::new(&self.collation);
        walk.work(units_of_search(document));
        let matched = self.walk(document, &mut walk);
        walk.count();
        match walk.failure {
            Some(failure) => Err(failure),
            None => Ok(matched.then_some(walk.details)),
        }
    }

    /// Asks the filter of one element under the only top-level field that it names (or none): array filters
    /// and the conditions of `$pull`.
    pub fn matches_value(&self, element: RawElement<'_>) -> Result<bool> {
        let slots = self.slots();
        debug_assert!(slots.len <= 1, "a condition names one field");
        let mut walk = Walk::new(&self.collation);
        let matched = walk.matches(
            &self.root,
            &Fields {
                document: RawDocument::EMPTY,
                slots,
                found: &[Some(element)],
            },
        );
        walk.count();
        walk.failure.map_or(Ok(matched), Err)
    }

    /// The position of the first element of an array that an `$elemMatch` accepts.
    pub fn matched_element(&self, array: RawArray<'_>) -> Result<Option<u32>> {
        let mut walk = Walk::new(&self.collation);
        let matched = walk.matches_value(&self.root, RawValue::Array(array));
        walk.count();
        walk.failure
            .map_or(Ok(walk.details.array_index.filter(|_| matched)), Err)
    }

    #[inline]
    fn walk(&self, document: RawDocument<'_>, walk: &mut Walk<'_>) -> bool {
        // A single predicate needs no slots.
        if let MatchExpression::Field(field) = &self.root {
            return walk.matches_field(field, document.get(field.path.first()));
        }
        let slots = self.slots();
        match (&slots.finder, slots.len) {
            (Finder::None, _) => self.walk_found(slots, document, walk, &[]),
            (Finder::One(name), _) => {
                let found = document.get_element(&**name);
                self.walk_found(slots, document, walk, &[found])
            }
            (Finder::Several(fields), count) if count <= SLOTS_FEW => {
                let mut found = [None; SLOTS_FEW];
                self.walk_fields((slots, fields), document, walk, &mut found[..count])
            }
            (Finder::Several(fields), count) if count <= SLOTS_MANY => {
                let mut found = [None; SLOTS_MANY];
                self.walk_fields((slots, fields), document, walk, &mut found[..count])
            }
            (Finder::Several(fields), count) => {
                let mut found = vec![None; count];
                self.walk_fields((slots, fields), document, walk, &mut found)
            }
            (Finder::Many(places), count) => {
                let mut found = vec![None; count];
                for element in document {
                    if walk.is_over() {
                        return false;
                    }
                    if let Some(place) = places.get(element.name().as_bytes()) {
                        found[*place as usize].get_or_insert(element);
                    }
                }
                self.walk_found(slots, document, walk, &found)
            }
        }
    }

    fn walk_fields<'a>(
        &self,
        (slots, fields): (&Slots, &FieldSet),
        document: RawDocument<'a>,
        walk: &mut Walk<'_>,
        found: &mut [Option<RawElement<'a>>],
    ) -> bool {
        fields.extract(document, found);
        self.walk_found(slots, document, walk, found)
    }

    fn walk_found(
        &self,
        slots: &Slots,
        document: RawDocument<'_>,
        walk: &mut Walk<'_>,
        found: &[Option<RawElement<'_>>],
    ) -> bool {
        let fields = Fields {
            document,
            slots,
            found,
        };
        walk.matches(&self.root, &fields)
    }
}
