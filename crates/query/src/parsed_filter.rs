//! A filter as explain prints it: in the form in which MongoDB shows what its parser made of it. `{a: 1}` is `{a: {$eq: 1}}`, and
//! `{b: {$gt: 2}, a: 1}` is `{$and: [{a: {$eq: 1}}, {b: {$gt: 2}}]}`: one operator a condition, conditions in an order of their own.
//!
//! It is made of the filter as it was sent, and nothing reads it but people. What MongoDB rewrites beyond that stays as it was
//! sent: an `$or` of equalities, the constants of an `$expr`. Recursion is as deep as the filter.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawElement, RawValue};

use crate::error::Result;
use crate::interrupts;
use crate::sent_filter::{append_branches, append_conditions, documents_of, holds_operators};

/// The operators in the order in which MongoDB sorts the conditions of a conjunction; others come last.
const ORDER: [&str; 22] = [
    "$or",
    "$elemMatch",
    "$size",
    "$eq",
    "$lte",
    "$lt",
    "$gt",
    "$gte",
    "$regex",
    "$mod",
    "$exists",
    "$in",
    "$bitsAllSet",
    "$bitsAllClear",
    "$bitsAnySet",
    "$bitsAnyClear",
    "$not",
    "$nor",
    "$type",
    "$geoIntersects",
    "$geoWithin",
    "$expr",
];

/// The operators whose options stand beside them, as operators of the same path.
const WITH_OPTIONS_BESIDE: [&str; 3] = ["$near", "$nearSphere", "$geoNear"];

/// A condition of a conjunction.
#[derive(Clone, Copy)]
enum Term<'f> {
    /// An operator of a path; a plain value is one of `$eq`.
    OfPath(&'f str, Condition<'f>),
    /// A path whose operators belong together.
    Together(&'f str, RawDocument<'f>),
    /// An operator in a field's place, such as `$or`.
    TopLevel(&'f str, RawElement<'f>),
}

/// An operator and its argument.
#[derive(Clone, Copy)]
enum Condition<'f> {
    Plain(&'f str, RawValue<'f>),
    /// `$not` above an operator that was written without it, such as `$ne`.
    Negated(&'f str, RawValue<'f>),
    /// A pattern, and the options that stand beside it.
    Regex(RawValue<'f>, Option<RawValue<'f>>),
}

/// The filter in that form.
pub fn parsed_filter(filter: RawDocument<'_>) -> Result<Document> {
    interrupts::work_on_bytes(filter.len_bytes())?;
    Ok(Document::build(|out| write_filter(filter, out)))
}

fn write_filter(filter: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    let mut terms = Vec::new();
    collect(filter, &mut terms);
    terms.sort_by_key(|term| (term.rank(), term.path()));
    append_conditions(&terms, Term::append, out);
}

fn collect<'f>(filter: RawDocument<'f>, terms: &mut Vec<Term<'f>>) {
    for element in filter {
        // A name that is no text stands in no filter that parses.
        let Ok(name) = element.name().as_str() else {
            continue;
        };
        match (name, element.value()) {
            ("$comment", _) => {}
            ("$and", RawValue::Array(children)) => {
                documents_of(children).for_each(|child| collect(child, terms));
            }
            // A disjunction of one is no disjunction.
            ("$or", RawValue::Array(children)) if children.len() == 1 => {
                documents_of(children).for_each(|child| collect(child, terms));
            }
            (operator, _) if operator.starts_with('$') => {
                terms.push(Term::TopLevel(operator, element));
            }
            (path, RawValue::Document(operators)) if holds_operators(operators) => {
                collect_operators(path, operators, terms);
            }
            (path, value) => terms.push(Term::OfPath(path, Condition::of_value(value))),
        }
    }
}

fn collect_operators<'f>(path: &'f str, operators: RawDocument<'f>, terms: &mut Vec<Term<'f>>) {
    let mut names = operators.iter().filter_map(|it| it.name().as_str().ok());
    if names.any(|name| WITH_OPTIONS_BESIDE.contains(&name)) {
        terms.push(Term::Together(path, operators));
        return;
    }
    for element in operators {
        let Ok(operator) = element.name().as_str() else {
            continue;
        };
        match (operator, element.value()) {
            ("$options", _) => {}
            ("$all", RawValue::Array(values)) => {
                let conditions = values.iter().map(Condition::of_item);
                terms.extend(conditions.map(|condition| Term::OfPath(path, condition)));
            }
            (_, value) => {
                let condition = Condition::new(operator, value, operators.get("$options"));
                terms.push(Term::OfPath(path, condition));
            }
        }
    }
}

impl<'f> Term<'f> {
    fn rank(&self) -> usize {
        let operator = match self {
            Term::OfPath(_, condition) => condition.operator(),
            Term::Together(..) => "",
            Term::TopLevel(operator, _) => operator,
        };
        let found = ORDER.iter().position(|&known| known == operator);
        found.unwrap_or(ORDER.len())
    }

    fn path(&self) -> &'f str {
        match self {
            Term::OfPath(path, _) | Term::Together(path, _) => path,
            Term::TopLevel(..) => "",
        }
    }

    fn append(&self, out: &mut DocumentBuilder<'_>) {
        match *self {
            Term::OfPath(path, condition) => {
                let mut of_path = out.document(path);
                condition.append(&mut of_path);
                of_path.finish();
            }
            Term::Together(path, operators) => {
                out.append(path, operators);
            }
            Term::TopLevel(operator, element) => match element.value() {
                RawValue::Array(branches) if matches!(operator, "$or" | "$nor") => {
                    append_branches(operator, branches, write_filter, out);
                }
                value => {
                    out.append(operator, value);
                }
            },
        }
    }
}

impl<'f> Condition<'f> {
    fn new(operator: &'f str, value: RawValue<'f>, options: Option<RawValue<'f>>) -> Condition<'f> {
        match (operator, value) {
            ("$ne", _) => Condition::Negated("$eq", value),
            ("$nin", _) => Condition::Negated("$in", value),
            ("$exists", _) if !value.is_truthy() => {
                Condition::Negated("$exists", RawValue::Boolean(true))
            }
            ("$exists", _) => Condition::Plain("$exists", RawValue::Boolean(true)),
            ("$regex", _) => Condition::Regex(value, options),
            ("$in", RawValue::Array(values)) if values.len() == 1 => match values.get(0) {
                Some(only) => Condition::of_value(only),
                None => Condition::Plain("$in", value),
            },
            _ => Condition::Plain(operator, value),
        }
    }

    /// The condition that a field is, or has, a value.
    fn of_value(value: RawValue<'f>) -> Condition<'f> {
        match value {
            RawValue::Regex(_) => Condition::Regex(value, None),
            _ => Condition::Plain("$eq", value),
        }
    }

    /// The condition that one item of an `$all` is.
    fn of_item(item: RawValue<'f>) -> Condition<'f> {
        let within = item.as_document();
        match within.and_then(|within| within.sole_element("$elemMatch")) {
            Some(element) => Condition::Plain("$elemMatch", element.value()),
            None => Condition::of_value(item),
        }
    }

    fn operator(&self) -> &'f str {
        match self {
            Condition::Plain(operator, _) => operator,
            Condition::Negated(..) => "$not",
            Condition::Regex(..) => "$regex",
        }
    }

    fn append(&self, out: &mut DocumentBuilder<'_>) {
        match *self {
            Condition::Negated(operator, value) => {
                let mut within = out.document("$not");
                within.append(operator, value);
                within.finish();
            }
            Condition::Regex(RawValue::Regex(regex), options) => {
                out.append("$regex", RawValue::String(regex.pattern));
                let own = Some(regex.options).filter(|own| !own.as_bytes().is_empty());
                let options = options.or(own.map(RawValue::String));
                append_options(options, out);
            }
            Condition::Regex(pattern, options) => {
                out.append("$regex", pattern);
                append_options(options, out);
            }
            Condition::Plain("$not", regex @ RawValue::Regex(_)) => {
                let mut within = out.document("$not");
                Condition::Regex(regex, None).append(&mut within);
                within.finish();
            }
            Condition::Plain(operator, RawValue::Document(inner))
                if matches!(operator, "$not" | "$elemMatch") =>
            {
                let mut within = out.document(operator);
                append_within(inner, &mut within);
                within.finish();
            }
            Condition::Plain(operator, value) => {
                out.append(operator, value);
            }
        }
    }
}

fn append_options(options: Option<RawValue<'_>>, out: &mut DocumentBuilder<'_>) {
    if let Some(options) = options {
        out.append("$options", options);
    }
}

/// Appends the argument of `$not` or `$elemMatch`: operators, or a filter of the elements.
fn append_within(inner: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    let is_filter = inner.first().is_some_and(|first| {
        let name = first.name();
        matches!(name.as_bytes(), b"$and" | b"$or" | b"$nor")
    });
    if is_filter || !holds_operators(inner) {
        return write_filter(inner, out);
    }
    for element in inner {
        let Ok(operator) = element.name().as_str() else {
            continue;
        };
        if operator != "$options" {
            Condition::new(operator, element.value(), inner.get("$options")).append(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::extjson;

    use super::*;

    #[track_caller]
    fn check(given: &str, wanted: &str) {
        let given = extjson::parse(given).unwrap();
        let shown = parsed_filter(given.as_raw()).unwrap();
        let wanted = extjson::parse(wanted).unwrap();
        assert_eq!(shown.to_string(), wanted.to_string());
    }

    #[test]
    fn a_value_is_a_condition_of_equality() {
        check("{}", "{}");
        check(r#"{"a": 1}"#, r#"{"a": {"$eq": 1}}"#);
        check(r#"{"a": {"b": 1}}"#, r#"{"a": {"$eq": {"b": 1}}}"#);
        check(r#"{"a": {"$in": [5]}}"#, r#"{"a": {"$eq": 5}}"#);
        check(
            r#"{"a": {"$in": [5, 6]}, "$comment": "x"}"#,
            r#"{"a": {"$in": [5, 6]}}"#,
        );
    }

    #[test]
    fn a_conjunction_has_one_operator_a_condition_in_mongodbs_order() {
        check(
            r#"{"q": {"$gte": 100, "$lte": 200}}"#,
            r#"{"$and": [{"q": {"$lte": 200}}, {"q": {"$gte": 100}}]}"#,
        );
        check(
            r#"{"b": {"$gt": 2}, "c": 3, "$and": [{"a": 1}]}"#,
            r#"{"$and": [{"a": {"$eq": 1}}, {"c": {"$eq": 3}}, {"b": {"$gt": 2}}]}"#,
        );
        check(
            r#"{"$or": [{"a": 1, "b": 2}, {"c": {"$lt": 3}}], "d": 4}"#,
            r#"{"$and": [{"$or": [{"$and": [{"a": {"$eq": 1}}, {"b": {"$eq": 2}}]}, {"c": {"$lt": 3}}]}, {"d": {"$eq": 4}}]}"#,
        );
        check(
            r#"{"a": {"$all": [1, {"$elemMatch": {"x": 2}}]}}"#,
            r#"{"$and": [{"a": {"$elemMatch": {"x": {"$eq": 2}}}}, {"a": {"$eq": 1}}]}"#,
        );
    }

    #[test]
    fn negations_and_patterns_are_written_out() {
        check(r#"{"a": {"$ne": 1}}"#, r#"{"a": {"$not": {"$eq": 1}}}"#);
        check(
            r#"{"a": {"$nin": [1]}}"#,
            r#"{"a": {"$not": {"$in": [1]}}}"#,
        );
        check(
            r#"{"a": {"$exists": false}}"#,
            r#"{"a": {"$not": {"$exists": true}}}"#,
        );
        check(
            r#"{"a": {"$regularExpression": {"pattern": "x", "options": "i"}}}"#,
            r#"{"a": {"$regex": "x", "$options": "i"}}"#,
        );
        check(
            r#"{"a": {"$regex": "x", "$options": "s", "$gt": "w"}}"#,
            r#"{"$and": [{"a": {"$gt": "w"}}, {"a": {"$regex": "x", "$options": "s"}}]}"#,
        );
        check(
            r#"{"a": {"$not": {"$gt": 1}}}"#,
            r#"{"a": {"$not": {"$gt": 1}}}"#,
        );
        check(
            r#"{"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 2}]}}}"#,
            r#"{"a": {"$elemMatch": {"$or": [{"x": {"$eq": 1}}, {"y": {"$eq": 2}}]}}}"#,
        );
    }

    #[test]
    fn what_has_its_options_beside_it_stays_together() {
        let near = r#"{"p": {"$near": [1, 2], "$maxDistance": 3}}"#;
        check(near, near);
    }
}
