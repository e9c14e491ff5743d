//! The shape of a query: what is asked about which fields, without the values.
//!
//! Two operations of one kind on one collection have one shape when their filters name the same fields in the same
//! order with the same operators, and they sort alike. The hash is made for every operation, so it walks a bounded
//! number of elements and allocates nothing; the text is made once a shape.

use std::hash::Hasher;

use quarry_bson::{ElementType, RawArray, RawDocument, RawValue};
use quarry_database::PlanSummary;
use quarry_timing::OperationKind;
use rustc_hash::FxHasher;

use crate::dispatch::call::{Asked, Call, Outcome};

/// Elements of a query that its shape looks at.
const ELEMENTS_MAX: usize = 64;
/// Documents within documents that its shape looks into.
const DEPTH_MAX: usize = 6;
/// A longer text is cut.
const TEXT_BYTES_MAX: usize = 300;

/// The shape's hash, never 0; none for commands that ask nothing.
#[inline]
pub fn hash(call: &Call<'_>, outcome: &Outcome<'_>) -> Option<u64> {
    if is_find_by_id(outcome) {
        return Some(hash_of_by_id(outcome));
    }
    hash_of_asked(call, outcome)
}

/// A find whose plan says what its filter is.
#[inline]
fn is_find_by_id(outcome: &Outcome<'_>) -> bool {
    let plan = outcome.operation.as_ref().map(|operation| &operation.plan);
    outcome.kind == OperationKind::Find
        && outcome.asked.sort.is_none()
        && plan.is_some_and(|plan| matches!(plan.get(), Some(PlanSummary::IdHack)))
}

#[inline]
fn hash_of_by_id(outcome: &Outcome<'_>) -> u64 {
    outcome.namespace_hash.rotate_left(outcome.kind as u32 + 1) | 1
}

#[inline(never)]
fn hash_of_asked(call: &Call<'_>, outcome: &Outcome<'_>) -> Option<u64> {
    let asked = asked(call, outcome)?;
    if asked.is_by_id() {
        return Some(hash_of_by_id(outcome));
    }
    let mut shape = Hash(FxHasher::default());
    shape
        .0
        .write_u64(outcome.namespace_hash ^ outcome.kind as u64);
    asked.walk(&mut shape);
    Some(shape.0.finish() | 1)
}

/// The shape for people, such as `find db.things {"a":{"$gt":?}} sort {"b":1}`.
pub fn text(namespace: &str, call: &Call<'_>, outcome: &Outcome<'_>) -> String {
    let mut shape = Text(format!("{} {namespace} ", outcome.kind.name()));
    if let Some(asked) = asked(call, outcome) {
        asked.walk(&mut shape);
    }
    let mut text = shape.0;
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text.truncate(text.trim_end().len());
    text
}

/// The parts that make the shape.
#[inline]
fn asked<'a>(call: &Call<'a>, outcome: &Outcome<'a>) -> Option<Asked<'a>> {
    let statement = |statements| {
        Some(Asked {
            filter: first_statement(call, statements)?.get_document("q"),
            ..Asked::default()
        })
    };
    match outcome.kind {
        OperationKind::Find
        | OperationKind::FindAndModify
        | OperationKind::Count
        | OperationKind::Distinct
        | OperationKind::Aggregate => Some(outcome.asked),
        OperationKind::Update => statement("updates"),
        OperationKind::Delete => statement("deletes"),
        OperationKind::GetMore
        | OperationKind::Insert
        | OperationKind::Catalog
        | OperationKind::Command => None,
    }
}

pub(super) fn first_statement<'a>(call: &Call<'a>, field: &str) -> Option<RawDocument<'a>> {
    let sequence = call
        .sequences
        .iter()
        .find(|sequence| sequence.identifier == field);
    match sequence {
        Some(sequence) => sequence.documents().next(),
        None => call.body.get_array(field)?.get(0)?.as_document(),
    }
}

/// Takes what makes a shape, piece by piece.
trait Shape {
    fn open(&mut self, bracket: char);
    fn close(&mut self, bracket: char);
    fn field(&mut self, name: &[u8]);
    fn value(&mut self);
    fn literal(&mut self, value: RawValue<'_>);
    fn word(&mut self, word: &str);
}

impl Asked<'_> {
    /// `{_id: <a value>}` and nothing else: the shape of most operations, found without a walk.
    fn is_by_id(&self) -> bool {
        let (Some(filter), None, None) = (self.filter, self.sort, self.pipeline) else {
            return false;
        };
        filter
            .sole_element("_id")
            .is_some_and(|id| match id.value() {
                RawValue::Document(value) => !is_operators(value),
                _ => true,
            })
    }

    fn walk(&self, shape: &mut impl Shape) {
        let mut left = ELEMENTS_MAX;
        if let Some(stages) = self.pipeline {
            walk_pipeline(stages, shape, &mut left);
            return;
        }
        walk_filter(
            self.filter.unwrap_or(RawDocument::EMPTY),
            shape,
            &mut left,
            DEPTH_MAX,
        );
        if let Some(sort) = self.sort {
            shape.word(" sort ");
            shape.open('{');
            for element in sort.iter().take(left) {
                shape.field(element.name().as_bytes());
                shape.literal(element.value());
            }
            shape.close('}');
        }
    }
}

/// Walks a pipeline: the filter of a `$match`, and the name of any other stage.
fn walk_pipeline(stages: RawArray<'_>, shape: &mut impl Shape, left: &mut usize) {
    shape.open('[');
    for stage in stages.iter().take(ELEMENTS_MAX) {
        let Some(stage) = stage.as_document().and_then(|stage| stage.first()) else {
            continue;
        };
        let Some(rest) = left.checked_sub(1) else {
            break;
        };
        *left = rest;
        shape.open('{');
        shape.field(stage.name().as_bytes());
        match (stage.name().as_bytes(), stage.value()) {
            (b"$match", RawValue::Document(filter)) => {
                walk_filter(filter, shape, left, DEPTH_MAX);
            }
            _ => shape.value(),
        }
        shape.close('}');
    }
    shape.close(']');
}

fn walk_filter(filter: RawDocument<'_>, shape: &mut impl Shape, left: &mut usize, depth: usize) {
    shape.open('{');
    for element in filter {
        let Some(rest) = left.checked_sub(1) else {
            break;
        };
        *left = rest;
        shape.field(element.name().as_bytes());
        if !matches!(
            element.element_type(),
            ElementType::Document | ElementType::Array
        ) {
            shape.value();
            continue;
        }
        match element.value() {
            RawValue::Document(inner) if depth > 0 && is_operators(inner) => {
                walk_filter(inner, shape, left, depth - 1);
            }
            RawValue::Array(branches)
                if depth > 0 && matches!(element.name().as_bytes(), b"$and" | b"$or" | b"$nor") =>
            {
                shape.open('[');
                for branch in branches.iter().take(*left) {
                    if let RawValue::Document(branch) = branch {
                        walk_filter(branch, shape, left, depth - 1);
                    }
                }
                shape.close(']');
            }
            _ => shape.value(),
        }
    }
    shape.close('}');
}

/// `{$gt: 1}` is asked, `{a: 1}` is a value.
fn is_operators(document: RawDocument<'_>) -> bool {
    document
        .first()
        .is_some_and(|first| first.name().as_bytes().first() == Some(&b'$'))
}

struct Hash(FxHasher);

impl Shape for Hash {
    fn open(&mut self, bracket: char) {
        self.0.write_u8(bracket as u8);
    }

    fn close(&mut self, bracket: char) {
        self.0.write_u8(bracket as u8);
    }

    fn field(&mut self, name: &[u8]) {
        self.0.write(name);
    }

    fn value(&mut self) {}

    fn literal(&mut self, value: RawValue<'_>) {
        self.0.write_i64(value.as_i64_exact().unwrap_or(0));
    }

    fn word(&mut self, word: &str) {
        self.0.write(word.as_bytes());
    }
}

struct Text(String);

impl Text {
    fn separate(&mut self) {
        if !self.0.ends_with(['{', '[', ':', ' ']) {
            self.0.push(',');
        }
    }
}

impl Shape for Text {
    fn open(&mut self, bracket: char) {
        self.separate();
        self.0.push(bracket);
    }

    fn close(&mut self, bracket: char) {
        self.0.push(bracket);
    }

    fn field(&mut self, name: &[u8]) {
        self.separate();
        self.0
            .push_str(&crate::observe::log::json_text(&String::from_utf8_lossy(
                name,
            )));
        self.0.push(':');
    }

    fn value(&mut self) {
        self.0.push('?');
    }

    fn literal(&mut self, value: RawValue<'_>) {
        self.0.push_str(&value.to_string());
    }

    fn word(&mut self, word: &str) {
        self.0.push_str(word);
    }
}

#[cfg(test)]
mod tests {

    use quarry_bson::{Document, doc};

    use super::*;

    fn of(kind: OperationKind, body: &Document) -> (u64, String) {
        let call = Call::of(body.as_raw());
        let mut outcome = Outcome {
            kind,
            namespace_hash: 5,
            ..Outcome::default()
        };
        for element in call.body {
            outcome.asked.note(element);
        }
        let hash = hash(&call, &outcome).unwrap();
        (hash, text("db.things", &call, &outcome))
    }

    fn find(filter: Document) -> (u64, String) {
        of(
            OperationKind::Find,
            &doc! { "find": "things", "filter": filter },
        )
    }

    #[test]
    fn values_do_not_matter_and_fields_and_operators_do() {
        let (one, text) = find(doc! { "a": 1, "b": { "$gt": 2 } });
        assert_eq!(text, r#"find db.things {"a":?,"b":{"$gt":?}}"#);
        assert_eq!(one, find(doc! { "a": "x", "b": { "$gt": [1, 2] } }).0);
        for other in [
            doc! { "a": 1, "b": { "$lt": 2 } },
            doc! { "a": 1, "c": { "$gt": 2 } },
            doc! { "a": 1 },
            doc! { "a": 1, "b": 2 },
            doc! {},
        ] {
            assert_ne!(one, find(other).0);
        }
    }

    #[test]
    fn branches_sorts_and_statements_show() {
        let (_, text) = find(doc! { "$or": [doc! { "a": 1 }, doc! { "b": { "$in": [1, 2] } }] });
        assert_eq!(text, r#"find db.things {"$or":[{"a":?},{"b":{"$in":?}}]}"#);
        let sorted = doc! { "find": "things", "filter": { "a": 1 }, "sort": { "b": -1 } };
        assert_eq!(
            of(OperationKind::Find, &sorted).1,
            r#"find db.things {"a":?} sort {"b":-1}"#
        );
        let update = doc! { "update": "things", "updates": [doc! { "q": { "a": 1 }, "u": {} }] };
        assert_eq!(
            of(OperationKind::Update, &update).1,
            r#"update db.things {"a":?}"#
        );
        let pipeline = doc! { "pipeline": [doc! { "$match": { "a": 1 } }, doc! { "$count": "n" }] };
        assert_eq!(
            of(OperationKind::Aggregate, &pipeline).1,
            r#"aggregate db.things [{"$match":{"a":?}},{"$count":?}]"#
        );
    }

    #[test]
    fn a_deep_or_long_filter_is_bounded() {
        let mut deep = doc! { "$gt": 1 };
        for _ in 0..100 {
            deep = doc! { "$not": deep };
        }
        let mut long = doc! { "a": deep };
        for field in 0..1000 {
            long.append(format!("field{field}"), 1);
        }
        let (_, text) = find(long);
        assert!(text.len() <= TEXT_BYTES_MAX);
    }
}
