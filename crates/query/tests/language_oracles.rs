//! Matching, updating and sorting against models that are slow, obvious and built on trees.
//!
//! Documents have few names and few values, so that paths meet arrays, scalars and nothing about equally often.

use std::cmp::Ordering;

use proptest::prelude::*;
use quarry_bson::compare::compare_values;
use quarry_bson::{Document, RawDocument, RawValue, Value};
use quarry_query::matcher::{MatchDetails, Matcher};
use quarry_query::sort::SortPattern;
use quarry_query::update::Update;

/// A value as a tree.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Null,
    Int(i32),
    Double(f64),
    Text(&'static str),
    Array(Vec<Tree>),
    Document(Vec<(&'static str, Tree)>),
}

const NAMES: [&str; 4] = ["a", "b", "0", "1"];

fn scalar() -> impl Strategy<Value = Tree> {
    prop_oneof![
        Just(Tree::Null),
        (0..3).prop_map(Tree::Int),
        Just(Tree::Double(1.0)),
        Just(Tree::Double(1.5)),
        Just(Tree::Double(f64::NAN)),
        Just(Tree::Text("x")),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    scalar().prop_recursive(3, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::Array),
            fields(inner).prop_map(Tree::Document),
        ]
    })
}

fn document() -> impl Strategy<Value = Tree> {
    fields(tree()).prop_map(Tree::Document)
}

/// Up to three fields, each name once.
fn fields(value: impl Strategy<Value = Tree>) -> impl Strategy<Value = Vec<(&'static str, Tree)>> {
    prop::collection::vec((prop::sample::select(&NAMES[..]), value), 0..4).prop_map(|fields| {
        let mut kept: Vec<(&str, Tree)> = Vec::new();
        for (name, value) in fields {
            if kept.iter().all(|(known, _)| *known != name) {
                kept.push((name, value));
            }
        }
        kept
    })
}

fn path() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4)
}

impl Tree {
    fn to_value(&self) -> Value {
        match self {
            Tree::Null => Value::null(),
            Tree::Int(number) => Value::from(*number),
            Tree::Double(number) => Value::from(*number),
            Tree::Text(text) => Value::from(*text),
            Tree::Array(members) => members.iter().map(Tree::to_value).collect(),
            Tree::Document(_) => Value::from(self.to_document()),
        }
    }

    fn to_document(&self) -> Document {
        let mut document = Document::new();
        if let Tree::Document(fields) = self {
            for (name, value) in fields {
                document.append(name, value.to_value());
            }
        }
        document
    }

    fn is_nan(&self) -> bool {
        matches!(self, Tree::Double(number) if number.is_nan())
    }

    /// The type bracket.
    fn bracket(&self) -> u8 {
        match self {
            Tree::Null => 0,
            Tree::Int(_) | Tree::Double(_) => 1,
            Tree::Text(_) => 2,
            Tree::Array(_) => 3,
            Tree::Document(_) => 4,
        }
    }
}

/// All values that a filter's path reaches; None is "missing".
fn reached(value: Option<&Tree>, rest: &[&str]) -> Vec<Option<Tree>> {
    let Some((name, after)) = rest.split_first() else {
        return match value {
            Some(Tree::Array(members)) => members
                .iter()
                .cloned()
                .map(Some)
                .chain([value.cloned()])
                .collect(),
            other => vec![other.cloned()],
        };
    };
    match value {
        Some(Tree::Document(fields)) => reached(field(fields, name), after),
        Some(Tree::Array(members)) => reached_in_array(members, rest),
        _ => vec![None],
    }
}

fn reached_in_array(members: &[Tree], rest: &[&str]) -> Vec<Option<Tree>> {
    let (name, after) = (rest[0], &rest[1..]);
    let mut all = Vec::new();
    for (index, member) in members.iter().enumerate() {
        if let Tree::Document(fields) = member {
            all.extend(reached(field(fields, name), after));
        }
        if name == index.to_string() {
            match (member, after) {
                (member, []) => all.push(Some(member.clone())),
                (Tree::Document(fields), [next, last @ ..]) => {
                    all.extend(reached(field(fields, next), last));
                }
                (Tree::Array(inner), after) => all.extend(reached_in_array(inner, after)),
                _ => {}
            }
        }
    }
    all
}

fn field<'t>(fields: &'t [(&'static str, Tree)], name: &str) -> Option<&'t Tree> {
    fields
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

#[derive(Debug, Clone)]
enum Filter {
    Compare(&'static str, Tree),
    Ne(Tree),
    In(Vec<Tree>),
    Exists(bool),
    Not(Box<Filter>),
}

fn filter() -> impl Strategy<Value = Filter> {
    let leaf = prop_oneof![
        4 => (prop::sample::select(&["$eq", "$gt", "$gte", "$lt", "$lte"][..]), tree())
            .prop_map(|(op, operand)| Filter::Compare(op, operand)),
        1 => tree().prop_map(Filter::Ne),
        1 => prop::collection::vec(tree(), 0..4).prop_map(Filter::In),
        1 => any::<bool>().prop_map(Filter::Exists),
    ];
    leaf.prop_recursive(2, 4, 1, |inner| {
        inner.prop_map(|inner| Filter::Not(Box::new(inner)))
    })
}

impl Filter {
    fn to_value(&self) -> Value {
        let mut document = Document::new();
        match self {
            Filter::Compare(op, operand) => document.append(op, operand.to_value()),
            Filter::Ne(operand) => document.append("$ne", operand.to_value()),
            Filter::In(list) => {
                document.append("$in", list.iter().map(Tree::to_value).collect::<Value>())
            }
            Filter::Exists(wanted) => document.append("$exists", *wanted),
            Filter::Not(inner) => document.append("$not", inner.to_value()),
        };
        Value::from(document)
    }

    fn holds(&self, values: &[Option<Tree>]) -> bool {
        match self {
            Filter::Compare(op, operand) => values
                .iter()
                .any(|value| compares(op, value.as_ref().unwrap_or(&Tree::Null), operand)),
            Filter::Ne(operand) => !Filter::Compare("$eq", operand.clone()).holds(values),
            Filter::In(list) => list
                .iter()
                .any(|operand| Filter::Compare("$eq", operand.clone()).holds(values)),
            Filter::Exists(wanted) => values.iter().any(Option::is_some) == *wanted,
            Filter::Not(inner) => !inner.holds(values),
        }
    }
}

fn compares(op: &str, value: &Tree, operand: &Tree) -> bool {
    if value.bracket() != operand.bracket() {
        return false;
    }
    let order = if value.is_nan() || operand.is_nan() {
        if !(value.is_nan() && operand.is_nan()) {
            return false;
        }
        Ordering::Equal
    } else {
        compare_values(value.to_value().as_raw(), operand.to_value().as_raw())
    };
    match op {
        "$eq" => order.is_eq(),
        "$gt" => order.is_gt(),
        "$gte" => order.is_ge(),
        "$lt" => order.is_lt(),
        _ => order.is_le(),
    }
}

/// `$set` and `$unset` on a tree; Err where the path is blocked.
fn set(target: &mut Tree, path: &[&'static str], value: Option<&Tree>) -> Result<(), ()> {
    let (name, rest) = (path[0], &path[1..]);
    match target {
        Tree::Document(fields) => {
            let place = fields.iter().position(|(known, _)| *known == name);
            match (place, rest, value) {
                (Some(place), [], Some(value)) => fields[place].1 = value.clone(),
                (Some(place), [], None) => {
                    fields.remove(place);
                }
                (Some(place), rest, value) => return set(&mut fields[place].1, rest, value),
                (None, rest, Some(value)) => fields.push((name, nested(rest, value))),
                (None, _, None) => {}
            }
            Ok(())
        }
        Tree::Array(members) => {
            let Ok(index) = name.parse::<usize>() else {
                return if value.is_some() { Err(()) } else { Ok(()) };
            };
            match (index < members.len(), rest, value) {
                (true, [], value) => members[index] = value.cloned().unwrap_or(Tree::Null),
                (true, rest, value) => return set(&mut members[index], rest, value),
                (false, rest, Some(value)) => {
                    members.resize(index, Tree::Null);
                    members.push(nested(rest, value));
                }
                (false, _, None) => {}
            }
            Ok(())
        }
        _ => {
            if value.is_some() {
                Err(())
            } else {
                Ok(())
            }
        }
    }
}

fn nested(path: &[&'static str], value: &Tree) -> Tree {
    match path {
        [] => value.clone(),
        [name, rest @ ..] => Tree::Document(vec![(*name, nested(rest, value))]),
    }
}

/// The extreme of the values that one sort field reaches: no array is opened twice at one place.
fn sort_value(document: &Tree, path: &[&str], descending: bool) -> Value {
    let mut values = sort_values(Some(document), path);
    values.sort_by(|a, b| compare_values(a.as_raw(), b.as_raw()));
    let extreme = if descending {
        values.last()
    } else {
        values.first()
    };
    extreme.cloned().expect("a path always yields a value")
}

fn sort_values(value: Option<&Tree>, path: &[&str]) -> Vec<Value> {
    match (value, path) {
        (Some(Tree::Array(members)), [name, rest @ ..])
            if name
                .parse::<usize>()
                .is_ok_and(|index| index < members.len()) =>
        {
            let member = &members[name.parse::<usize>().unwrap()];
            if rest.is_empty() {
                vec![member.to_value()]
            } else {
                sort_values(Some(member), rest)
            }
        }
        (Some(Tree::Array(members)), []) if members.is_empty() => vec![Value::undefined()],
        (Some(Tree::Array(members)), []) => members.iter().map(Tree::to_value).collect(),
        (Some(Tree::Array(members)), _) if members.is_empty() => vec![Value::null()],
        (Some(Tree::Array(members)), path) => members
            .iter()
            .flat_map(|member| match member {
                Tree::Document(_) => sort_values(Some(member), path),
                _ => vec![Value::null()],
            })
            .collect(),
        (Some(value), []) => vec![value.to_value()],
        (Some(Tree::Document(fields)), [name, rest @ ..]) => sort_values(field(fields, name), rest),
        _ => vec![Value::null()],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_of_one_path_matches_what_the_model_matches(
        document in document(), path in path(), filter in filter(),
    ) {
        let mut written = Document::new();
        written.append(path.join("."), filter.to_value());
        let matcher = Matcher::parse(written.as_raw()).unwrap();
        let wanted = filter.holds(&reached(Some(&document), &path));
        let bytes = document.to_document();
        prop_assert_eq!(matcher.matches(bytes.as_raw()), wanted, "{} on {}", written, bytes);
    }

    #[test]
    fn several_paths_match_as_each_alone(
        document in document(), parts in prop::collection::vec((path(), filter()), 2..7), verb in 0..3usize,
    ) {
        let clauses: Vec<Document> = parts.iter().map(|(path, filter)| {
            let mut clause = Document::new();
            clause.append(path.join("."), filter.to_value());
            clause
        }).collect();
        let bytes = document.to_document();
        let each: Vec<bool> = clauses
            .iter()
            .map(|clause| Matcher::parse(clause.as_raw()).unwrap().matches(bytes.as_raw()))
            .collect();
        let (name, wanted) = [
            ("$and", each.iter().all(|one| *one)),
            ("$or", each.iter().any(|one| *one)),
            ("$nor", !each.iter().any(|one| *one)),
        ][verb];
        let mut written = Document::new();
        written.append(name, clauses.into_iter().map(Value::from).collect::<Value>());
        let matcher = Matcher::parse(written.as_raw()).unwrap();
        prop_assert_eq!(matcher.matches(bytes.as_raw()), wanted, "{} on {}", written, bytes);
    }

    #[test]
    fn setting_and_unsetting_a_path_is_what_the_model_does(
        document in document(), path in path(), value in prop::option::of(tree()),
    ) {
        let mut fields = Document::new();
        fields.append(path.join("."), value.as_ref().map_or(Value::null(), Tree::to_value));
        let mut written = Document::new();
        written.append(if value.is_some() { "$set" } else { "$unset" }, fields);
        let update = Update::parse(RawValue::Document(written.as_raw())).unwrap();
        let (before, mut out) = (document.to_document(), Vec::new());
        let outcome = update.apply(before.as_raw(), &MatchDetails::default(), false, 0, &mut out);
        let mut model = document.clone();
        if set(&mut model, &path, value.as_ref()).is_err() {
            prop_assert_eq!(outcome.unwrap_err().code(), 28);
        } else {
            let outcome = outcome.unwrap();
            let wanted = model.to_document();
            prop_assert!(RawDocument::validated(&out).is_ok());
            prop_assert_eq!(&out[..], wanted.as_bytes(), "{} on {}", written, before);
            prop_assert_eq!(outcome.modified, wanted.as_bytes() != before.as_bytes());
        }
    }

    #[test]
    fn sort_keys_order_documents_as_the_model_does(
        one in document(), two in document(), path in path(), descending: bool,
    ) {
        let mut written = Document::new();
        written.append(path.join("."), if descending { -1 } else { 1 });
        let pattern = SortPattern::parse(written.as_raw()).unwrap();
        let (a, b) = (one.to_document(), two.to_document());
        let (model_a, model_b) = (sort_value(&one, &path, descending), sort_value(&two, &path, descending));
        let order = compare_values(model_a.as_raw(), model_b.as_raw());
        let wanted = if descending { order.reverse() } else { order };
        prop_assert_eq!(pattern.compare(a.as_raw(), b.as_raw()).unwrap(), wanted, "{} and {} by {}", a, b, written);
    }
}
