//! Evaluation: the tree over raw bytes, without building anything.
//!
//! A path reaches values as MongoDB's does. A field of a document is followed; of an array in the middle of a
//! path, the rest of the path is followed into each element that is a document, and a numeric component also
//! names the element at that position. At the end of a path an array yields its elements and then itself,
//! unless the position was named. A path that ends at nothing yields "missing"; one that meets a scalar, or
//! only scalars inside an array, yields missing and nothing respectively.

use quarry_bson::{RawArray, RawDocument, RawElement, RawValue};

use super::comparison::compares;
use super::expression::{
    CompareOp, ExprPredicate, FieldPredicate, MatchExpression, Matcher, Predicate,
};
use super::in_list::keep_failure;
use super::slots::Slots;
use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::Context;
use crate::field_path::{FieldPath, PathPart};
use crate::interrupts::{self, units_collated, units_of, units_of_search};

/// The details of a match beyond its yes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MatchDetails {
    /// The position in the outermost array that the match went through: what `$` in an update or projection
    /// stands for. With several array predicates the last one tells.
    pub array_index: Option<u32>,
}

/// Work that a walk does before it counts it where all work of the operation is counted.
const UNITS_AT_ONCE: usize = 256;

/// Work that is counted before it is done: what was done before it is not looked at together with it.
const UNITS_MANY: usize = 4096;

/// The state that one evaluation carries along.
pub(super) struct Walk<'c> {
    /// How strings are compared.
    collation: &'c Collation,
    pub details: MatchDetails,
    /// The first test that could not be carried out.
    pub failure: Option<Error>,
    /// Work that is not counted yet.
    units: usize,
    /// Each `$text` was answered by whoever asks.
    pub trusts_texts: bool,
}

/// The document, and what stands in the top-level fields that the filter names.
pub(super) struct Fields<'s, 'a> {
    pub document: RawDocument<'a>,
    pub slots: &'s Slots,
    pub found: &'s [Option<RawElement<'a>>],
}

impl<'a> Fields<'_, 'a> {
    #[inline]
    fn first_value(&self, field: &FieldPredicate) -> Option<RawValue<'a>> {
        self.found[self.slots.of(field)].map(|element| element.value())
    }
}

/// Whether the alternatives of an `$or` are one, or could be written as one `$in`.
fn is_like_in(alternatives: &[MatchExpression]) -> bool {
    let mut paths = alternatives.iter().map(path_of_value);
    let first = paths.next().flatten();
    alternatives.len() == 1 || (first.is_some() && paths.all(|path| path == first))
}

/// The path that has a value or matches a regular expression, if the filter asks for just that.
fn path_of_value(filter: &MatchExpression) -> Option<&FieldPath> {
    let MatchExpression::Field(field) = filter else {
        return None;
    };
    let is_value = matches!(
        field.predicate,
        Predicate::Regex(_)
            | Predicate::Compare {
                op: CompareOp::Eq,
                ..
            }
    );
    is_value.then_some(&field.path)
}

impl<'c> Walk<'c> {
    pub fn new(collation: &'c Collation) -> Walk<'c> {
        Walk {
            collation,
            details: MatchDetails::default(),
            failure: None,
            units: 0,
            trusts_texts: false,
        }
    }

    pub fn matches(&mut self, expression: &MatchExpression, fields: &Fields<'_, '_>) -> bool {
        match expression {
            MatchExpression::AlwaysTrue | MatchExpression::Near(_) => true,
            MatchExpression::AlwaysFalse => false,
            MatchExpression::And(children) => children
                .iter()
                .all(|child| !self.is_over() && self.matches(child, fields)),
            MatchExpression::Or(children) => {
                let before = self.details;
                let matched = children.iter().any(|child| {
                    self.is_over() || self.attempt(|walk| walk.matches(child, fields))
                });
                // As in MongoDB, alternatives tell no position, unless all of them ask for values of one path.
                if self.details.array_index != before.array_index && !is_like_in(children) {
                    self.details = before;
                }
                matched
            }
            MatchExpression::Nor(children) => self.without_position(|walk| {
                !children
                    .iter()
                    .any(|child| walk.is_over() || walk.matches(child, fields))
            }),
            MatchExpression::Not(child) => {
                self.without_position(|walk| !walk.matches(child, fields))
            }
            MatchExpression::Field(field) => self.matches_field(field, fields.first_value(field)),
            MatchExpression::Expr(predicate) => {
                keep_failure(predicate.holds(fields.document), &mut self.failure)
            }
            MatchExpression::Schema(schema) => {
                keep_failure(schema.accepts(fields.document), &mut self.failure)
            }
            MatchExpression::Text(_) if self.trusts_texts => true,
            MatchExpression::Text(text) => {
                keep_failure(text.accepts(fields.document), &mut self.failure)
            }
        }
    }

    /// One predicate over what stands in the first field of its path.
    #[inline]
    pub fn matches_field(&mut self, field: &FieldPredicate, first: Option<RawValue<'_>>) -> bool {
        self.follow(first, &field.path.parts()[1..], &field.predicate)
    }

    /// Whether an array need not be looked through any more: a test has failed, or the operation is to end.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        self.units += 1;
        if self.units >= UNITS_AT_ONCE {
            self.count();
        }
        self.failure.is_some()
    }

    /// Notes work that the walk is about to do.
    #[inline]
    pub fn work(&mut self, units: usize) {
        self.units += units;
        if self.units >= UNITS_MANY {
            self.count();
        }
    }

    /// The field of a document that a part of a path names. A large document is not looked through any more once the operation is to end.
    #[inline]
    fn search<'a>(&mut self, document: RawDocument<'a>, part: &PathPart) -> Option<RawValue<'a>> {
        let units = units_of_search(document);
        self.work(units);
        match units >= UNITS_MANY && self.failure.is_some() {
            true => None,
            false => document.get(part.name()),
        }
    }

    /// Counts the work noted. At the end of a walk, too: most are short, and there are many.
    #[inline]
    pub fn count(&mut self) {
        if let Err(error) = interrupts::work(std::mem::take(&mut self.units)) {
            self.failure.get_or_insert(error);
        }
    }

    /// A branch that fails takes back the position it found on the way.
    fn attempt(&mut self, test: impl FnOnce(&mut Walk<'c>) -> bool) -> bool {
        let details = self.details;
        let matched = test(self);
        if !matched {
            self.details = details;
        }
        matched
    }

    /// A negation matches no particular array element.
    fn without_position(&mut self, test: impl FnOnce(&mut Walk<'c>) -> bool) -> bool {
        let details = self.details;
        let matched = test(self);
        self.details = details;
        matched
    }

    /// Tests what the rest of a path reaches from a value.
    fn follow(
        &mut self,
        value: Option<RawValue<'_>>,
        rest: &[PathPart],
        predicate: &Predicate,
    ) -> bool {
        let Some((part, after)) = rest.split_first() else {
            return self.test_leaf(value, predicate);
        };
        match value {
            Some(RawValue::Document(document)) => {
                let found = self.search(document, part);
                self.follow(found, after, predicate)
            }
            Some(RawValue::Array(array)) => self.follow_array(array, rest, predicate),
            _ => self.test(None, predicate),
        }
    }

    fn follow_array(
        &mut self,
        array: RawArray<'_>,
        rest: &[PathPart],
        predicate: &Predicate,
    ) -> bool {
        let Some((part, after)) = rest.split_first() else {
            return false;
        };
        for (index, element) in (0u32..).zip(array.iter()) {
            if self.is_over() {
                return false;
            }
            if let RawValue::Document(document) = element {
                let found = self.search(document, part);
                if self.follow(found, after, predicate) {
                    self.details.array_index = Some(index);
                    return true;
                }
            }
            if part.index() == Some(index) && self.follow_named_element(element, after, predicate) {
                return true;
            }
        }
        false
    }

    /// The element whose position the path names: it is taken as it is, an array not opened at the path's end.
    fn follow_named_element(
        &mut self,
        element: RawValue<'_>,
        rest: &[PathPart],
        predicate: &Predicate,
    ) -> bool {
        let Some((part, after)) = rest.split_first() else {
            return self.test(Some(element), predicate);
        };
        match element {
            RawValue::Document(document) => {
                let found = self.search(document, part);
                self.follow(found, after, predicate)
            }
            RawValue::Array(inner) => self.follow_array(inner, rest, predicate),
            _ => false,
        }
    }

    /// The value at the end of a path; an array stands for its elements too, where the operator wants that.
    #[inline]
    fn test_leaf(&mut self, value: Option<RawValue<'_>>, predicate: &Predicate) -> bool {
        if let Some(RawValue::Array(array)) = value
            && predicate.opens_arrays()
        {
            for (index, element) in (0u32..).zip(array.iter()) {
                if self.is_over() {
                    return false;
                }
                if self.test(Some(element), predicate) {
                    self.details.array_index = Some(index);
                    return true;
                }
            }
        }
        self.test(value, predicate)
    }

    /// One value against one predicate, an array not opened.
    #[inline]
    fn test(&mut self, value: Option<RawValue<'_>>, predicate: &Predicate) -> bool {
        match (predicate, value) {
            (Predicate::Compare { op, value: operand }, value) => {
                let units = units_of_both(operand.as_raw(), value);
                self.work(units_collated(self.collation, units));
                compares(self.collation, *op, operand.as_raw(), value)
            }
            (Predicate::In(list), value) => {
                self.work(list.units_of_search(value));
                list.matches(value, &mut self.failure)
            }
            (_, None) => false,
            (Predicate::Exists, Some(_)) => true,
            (Predicate::Test(test), Some(value)) => {
                self.work(test.units(value));
                keep_failure(test.passes(value), &mut self.failure)
            }
            (Predicate::Regex(regex), Some(value)) => {
                keep_failure(regex.matches(value), &mut self.failure)
            }
            (Predicate::ElemMatchObject(filter), Some(RawValue::Array(array))) => self
                .any_element(array, |walk, element| {
                    walk.matches_embedded(filter, element)
                }),
            (Predicate::ElemMatchValue(all), Some(RawValue::Array(array))) => {
                self.any_element(array, |walk, element| {
                    all.iter()
                        .all(|one| !walk.is_over() && walk.matches_value(one, element))
                })
            }
            _ => false,
        }
    }

    fn any_element(
        &mut self,
        array: RawArray<'_>,
        mut test: impl FnMut(&mut Walk<'c>, RawValue<'_>) -> bool,
    ) -> bool {
        for (index, element) in (0u32..).zip(array.iter()) {
            if self.is_over() {
                return false;
            }
            if test(self, element) {
                self.details.array_index = Some(index);
                return true;
            }
        }
        false
    }

    /// `$elemMatch` over documents; an inner array is a document whose fields are its positions.
    fn matches_embedded(&mut self, filter: &Matcher, element: RawValue<'_>) -> bool {
        let document = match element {
            RawValue::Document(document) => document,
            RawValue::Array(array) => array.as_document(),
            _ => return false,
        };
        let units = units_of_search(document);
        self.work(units);
        match units >= UNITS_MANY && self.failure.is_some() {
            true => false,
            false => filter.walk(document, self),
        }
    }

    /// `$elemMatch` over values: the paths of the predicates are empty.
    pub fn matches_value(&mut self, expression: &MatchExpression, value: RawValue<'_>) -> bool {
        match expression {
            MatchExpression::AlwaysTrue | MatchExpression::Near(_) => true,
            MatchExpression::AlwaysFalse => false,
            MatchExpression::And(children) => children
                .iter()
                .all(|child| !self.is_over() && self.matches_value(child, value)),
            MatchExpression::Or(children) => children.iter().any(|child| {
                self.is_over() || self.attempt(|walk| walk.matches_value(child, value))
            }),
            MatchExpression::Nor(children) => self.without_position(|walk| {
                !children
                    .iter()
                    .any(|child| walk.is_over() || walk.matches_value(child, value))
            }),
            MatchExpression::Not(child) => {
                self.without_position(|walk| !walk.matches_value(child, value))
            }
            MatchExpression::Field(field) => self.test(Some(value), &field.predicate),
            // The parser lets these stand for whole documents only.
            MatchExpression::Expr(_) | MatchExpression::Schema(_) | MatchExpression::Text(_) => {
                false
            }
        }
    }
}

/// The work of a comparison: it ends with the shorter one at the latest.
#[inline]
fn units_of_both(operand: RawValue<'_>, value: Option<RawValue<'_>>) -> usize {
    value.map_or(1, |value| units_of(operand).min(units_of(value)))
}

impl ExprPredicate {
    fn holds(&self, document: RawDocument<'_>) -> Result<bool> {
        let mut context = Context::new(document);
        Ok(self.expression.evaluate(&mut context)?.is_truthy())
    }
}

impl Predicate {
    /// Whether an array at the path's end stands for its elements as well.
    fn opens_arrays(&self) -> bool {
        match self {
            Predicate::Test(test) => test.opens_arrays(),
            Predicate::ElemMatchObject(_) | Predicate::ElemMatchValue(_) => false,
            _ => true,
        }
    }
}
