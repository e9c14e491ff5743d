//! The parsed filter as a tree, open for the planner to read: which paths are asked, with which operators and
//! operands. The tree keeps the order of the filter; nothing is rewritten beyond flattening nested `$and`s.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use quarry_bson::{RawValue, Value};

use super::in_list::InList;
use super::json_schema::JsonSchema;
use super::near::Near;
use super::regex::RegexPredicate;
use super::slots::{self, Slots};
use super::text::TextQuery;
use super::value_test::ValueTest;
use crate::Collation;
use crate::expression::Expression;
use crate::field_path::FieldPath;

/// A filter that can be asked of documents.
#[derive(Debug)]
pub struct Matcher {
    pub(super) root: MatchExpression,
    /// How it compares strings.
    pub(super) collation: Collation,
    /// How many `$text` it has.
    texts: usize,
    /// Made with the first walk.
    slots: OnceLock<Slots>,
}

/// A node of the filter.
#[derive(Debug)]
pub enum MatchExpression {
    /// Every document matches.
    AlwaysTrue,
    /// No document matches.
    AlwaysFalse,
    /// Every child matches. An empty filter is an `And` of nothing.
    And(Vec<MatchExpression>),
    /// One child matches at least.
    Or(Vec<MatchExpression>),
    /// No child matches.
    Nor(Vec<MatchExpression>),
    /// The child does not match.
    Not(Box<MatchExpression>),
    /// A predicate over one path.
    Field(FieldPredicate),
    /// `$expr`.
    Expr(Box<ExprPredicate>),
    /// `$jsonSchema`.
    Schema(Box<JsonSchema>),
    /// A wish for an order by distance, which only a plan over an index meets: every document matches.
    Near(Box<Near>),
    /// `$text`.
    Text(Box<TextQuery>),
}

/// An aggregation expression over the whole document, asked for its truth.
#[derive(Debug)]
pub struct ExprPredicate {
    /// The expression.
    pub expression: Expression,
}

/// One predicate over the values that a path reaches.
#[derive(Debug)]
pub struct FieldPredicate {
    /// Empty inside `$elemMatch` over values: the element itself.
    pub path: FieldPath,
    /// The question that is asked of the path's values.
    pub predicate: Predicate,
    /// Its place among the predicates of the filter: `Slots` knows where its first field is found.
    pub(super) number: usize,
}

/// A question to the values that a path reaches.
#[derive(Debug)]
pub enum Predicate {
    /// A comparison with a value.
    Compare {
        /// The operator.
        op: CompareOp,
        /// The operand.
        value: Value,
    },
    /// `$in`.
    In(InList),
    /// The path reaches something, null included.
    Exists,
    /// `$regex`, or a regular expression as an operand.
    Regex(RegexPredicate),
    /// A question about each value by itself.
    Test(Box<dyn ValueTest>),
    /// One element of the array, itself a document or array, matches the filter.
    ElemMatchObject(Box<Matcher>),
    /// One element of the array matches all of these, whose paths are empty.
    ElemMatchValue(Vec<MatchExpression>),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    /// `$eq`.
    Eq,
    /// `$gt`.
    Gt,
    /// `$gte`.
    Gte,
    /// `$lt`.
    Lt,
    /// `$lte`.
    Lte,
}

impl MatchExpression {
    /// Whether the filter alone says that no document matches, whatever is stored. Recursion is bounded by the depth of filters.
    pub(crate) fn matches_nothing(&self) -> bool {
        match self {
            MatchExpression::AlwaysFalse => true,
            MatchExpression::And(children) => children.iter().any(Self::matches_nothing),
            MatchExpression::Or(children) => {
                !children.is_empty() && children.iter().all(Self::matches_nothing)
            }
            MatchExpression::Nor(children) => children.iter().any(Self::matches_everything),
            MatchExpression::Field(field) => match &field.predicate {
                Predicate::In(list) => list.is_empty(),
                _ => false,
            },
            MatchExpression::Expr(predicate) => {
                let constant = predicate.expression.constant();
                constant.is_some_and(|constant| !constant.as_raw().is_truthy())
            }
            _ => false,
        }
    }

    /// Whether the filter alone says that every document matches.
    pub(crate) fn matches_everything(&self) -> bool {
        match self {
            MatchExpression::AlwaysTrue => true,
            MatchExpression::And(children) => children.iter().all(Self::matches_everything),
            _ => false,
        }
    }
}

impl Matcher {
    pub(crate) fn new(mut root: MatchExpression, collation: &Collation) -> Matcher {
        let texts = slots::number_predicates(&mut root);
        Matcher {
            root,
            texts,
            collation: collation.clone(),
            slots: OnceLock::new(),
        }
    }

    /// How many `$text` there are in the filter.
    pub(crate) fn texts(&self) -> usize {
        self.texts
    }

    /// Adds the top-level fields that the filter reads; false if it may read the whole document.
    pub(crate) fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        self.root.add_fields_read(fields)
    }

    pub(super) fn slots(&self) -> &Slots {
        self.slots.get_or_init(|| Slots::new(&self.root))
    }
}

impl FieldPredicate {
    pub(super) fn new(path: FieldPath, predicate: Predicate) -> FieldPredicate {
        FieldPredicate {
            path,
            predicate,
            number: 0,
        }
    }

    /// Whether it asks for equality with one value.
    pub fn is_equality(&self) -> bool {
        let op = CompareOp::Eq;
        matches!(&self.predicate, Predicate::Compare { op: asked, .. } if *asked == op)
    }
}

impl MatchExpression {
    pub(super) fn field(path: &FieldPath, predicate: Predicate) -> MatchExpression {
        MatchExpression::Field(FieldPredicate::new(path.clone(), predicate))
    }

    /// Recursion is as deep as the filter, whose parser bounds it.
    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            MatchExpression::AlwaysTrue | MatchExpression::AlwaysFalse => true,
            MatchExpression::And(children)
            | MatchExpression::Or(children)
            | MatchExpression::Nor(children) => {
                children.iter().all(|child| child.add_fields_read(fields))
            }
            MatchExpression::Not(child) => child.add_fields_read(fields),
            MatchExpression::Field(predicate) => {
                fields.insert(predicate.path.first().to_owned());
                true
            }
            MatchExpression::Expr(predicate) => predicate.expression.add_fields_read(fields),
            MatchExpression::Schema(_) => false,
            MatchExpression::Near(_) | MatchExpression::Text(_) => false,
        }
    }

    /// The wish for an order by distance, if there is one: it stands at the top, or in a conjunction there.
    pub fn near(&self) -> Option<&Near> {
        match self {
            MatchExpression::Near(near) => Some(near),
            MatchExpression::And(children) => children.iter().find_map(MatchExpression::near),
            _ => None,
        }
    }

    /// The search for words, if there is one: it stands at the top, in a conjunction there, or in a branch of an `$or`.
    pub fn text(&self) -> Option<&TextQuery> {
        match self {
            MatchExpression::Text(text) => Some(text),
            MatchExpression::And(children) | MatchExpression::Or(children) => {
                children.iter().find_map(MatchExpression::text)
            }
            _ => None,
        }
    }

    /// How many wishes for an order by distance there are where `near` looks for one.
    pub(super) fn nears(&self) -> usize {
        match self {
            MatchExpression::Near(_) => 1,
            MatchExpression::And(children) => children.iter().map(MatchExpression::nears).sum(),
            _ => 0,
        }
    }

    /// The operand, if this is an equality of one path.
    pub fn as_equality(&self) -> Option<(&FieldPath, RawValue<'_>)> {
        let MatchExpression::Field(field) = self else {
            return None;
        };
        match &field.predicate {
            Predicate::Compare {
                op: CompareOp::Eq,
                value,
            } => Some((&field.path, value.as_raw())),
            _ => None,
        }
    }
}

impl CompareOp {
    /// The operator's name, `$` included.
    pub fn name(self) -> &'static str {
        match self {
            CompareOp::Eq => "$eq",
            CompareOp::Gt => "$gt",
            CompareOp::Gte => "$gte",
            CompareOp::Lt => "$lt",
            CompareOp::Lte => "$lte",
        }
    }

    pub(super) fn accepts(self, ordering: Ordering) -> bool {
        match self {
            CompareOp::Eq => ordering == Ordering::Equal,
            CompareOp::Gt => ordering == Ordering::Greater,
            CompareOp::Gte => ordering != Ordering::Less,
            CompareOp::Lt => ordering == Ordering::Less,
            CompareOp::Lte => ordering != Ordering::Greater,
        }
    }

    pub(super) fn accepts_equal(self) -> bool {
        self.accepts(Ordering::Equal)
    }
}
