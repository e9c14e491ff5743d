//! Queries without their values, as `$queryStats` shows them: `{a: 1}` is `{a: {$eq: "?number"}}`.
//!
//! What a query names stays as it is: paths, operators, orders, the fields of a projection, collections. What it is asked for becomes the
//! name of its type. The form is MongoDB's; it is made of the query as it was sent. What is written is no longer than a few times the
//! query, and recursion is as deep as that.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawElement, RawValue};

use crate::error::Result;
use crate::interrupts;
use crate::sent_filter::{append_branches, append_conditions, documents_of, holds_operators};

/// A condition of a conjunction.
enum Term<'f> {
    /// An operator of a path; a plain value is one of `$eq`.
    OfPath(&'f str, &'f str, RawValue<'f>),
    /// An operator in a field's place, such as `$or`.
    TopLevel(RawElement<'f>),
}

/// Appends a filter without its values.
pub fn append_filter(
    name: &str,
    filter: RawDocument<'_>,
    out: &mut DocumentBuilder<'_>,
) -> Result<()> {
    interrupts::work_on_bytes(filter.len_bytes())?;
    let mut within = out.document(name);
    write_filter(filter, &mut within);
    within.finish();
    Ok(())
}

/// Appends the stages of a pipeline without the values in them.
pub fn append_pipeline(
    name: &str,
    pipeline: RawArray<'_>,
    out: &mut DocumentBuilder<'_>,
) -> Result<()> {
    for stage in pipeline.iter().filter_map(|stage| stage.as_document()) {
        interrupts::work_on_bytes(stage.len_bytes())?;
    }
    let mut stages = out.array(name);
    write_pipeline(pipeline, &mut stages);
    stages.finish();
    Ok(())
}

/// Appends a projection: which fields it names stays, and what it computes has no values.
pub fn append_projection(name: &str, projection: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    let mut within = out.document(name);
    write_projection(projection, &mut within);
    within.finish();
}

/// Appends each field of a document without its value, such as those of `let`.
pub fn append_values(name: &str, values: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    let mut within = out.document(name);
    for element in values {
        append_expression(
            &element.name().to_string_lossy(),
            element.value(),
            &mut within,
        );
    }
    within.finish();
}

/// The name of a value's type in place of the value.
pub fn placeholder(value: RawValue<'_>) -> String {
    let RawValue::Array(array) = value else {
        return format!("?{}", type_of(value));
    };
    let mut types = array.iter().map(type_of);
    match types.next() {
        None => "[]".to_owned(),
        Some(first) if types.all(|other| other == first) => format!("?array<?{first}>"),
        Some(_) => "?array<>".to_owned(),
    }
}

fn type_of(value: RawValue<'_>) -> &'static str {
    match value {
        _ if value.is_number() => "number",
        RawValue::Boolean(_) => "bool",
        RawValue::DateTime(_) => "date",
        other => other.element_type().alias(),
    }
}

fn write_filter(filter: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    let mut terms = Vec::new();
    collect(filter, &mut terms);
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
            (operator, _) if operator.starts_with('$') => terms.push(Term::TopLevel(element)),
            (path, RawValue::Document(operators)) if holds_operators(operators) => {
                for operator in operators {
                    if let Ok(name) = operator.name().as_str() {
                        terms.push(Term::OfPath(path, name, operator.value()));
                    }
                }
            }
            (path, value @ RawValue::Regex(_)) => terms.push(Term::OfPath(path, "$regex", value)),
            (path, value) => terms.push(Term::OfPath(path, "$eq", value)),
        }
    }
}

impl Term<'_> {
    fn append(&self, out: &mut DocumentBuilder<'_>) {
        match self {
            Term::OfPath(path, operator, value) => {
                let mut of_path = out.document(path);
                append_operator(operator, *value, &mut of_path);
                of_path.finish();
            }
            Term::TopLevel(element) => {
                let name = element.name().to_string_lossy();
                match element.value() {
                    RawValue::Array(branches) if matches!(&*name, "$or" | "$nor") => {
                        append_branches(&name, branches, write_filter, out);
                    }
                    value if name == "$expr" => append_expression(&name, value, out),
                    value => {
                        out.append(&*name, placeholder(value).as_str());
                    }
                }
            }
        }
    }
}

fn append_operator(operator: &str, value: RawValue<'_>, out: &mut DocumentBuilder<'_>) {
    match value {
        RawValue::Document(within) if matches!(operator, "$not" | "$elemMatch") => {
            let mut inner = out.document(operator);
            match holds_operators(within) {
                true => {
                    for operator in within {
                        let name = operator.name().to_string_lossy();
                        append_operator(&name, operator.value(), &mut inner);
                    }
                }
                false => write_filter(within, &mut inner),
            }
            inner.finish();
        }
        value => {
            out.append(operator, placeholder(value).as_str());
        }
    }
}

/// Whether a value says the same in every expression, and names nothing.
fn is_constant(value: RawValue<'_>) -> bool {
    match value {
        RawValue::String(text) => !text.as_bytes().starts_with(b"$"),
        RawValue::Document(_) => false,
        RawValue::Array(items) => items.iter().all(is_constant),
        _ => true,
    }
}

fn append_expression(name: &str, value: RawValue<'_>, out: &mut DocumentBuilder<'_>) {
    match value {
        RawValue::String(text) if text.as_bytes().starts_with(b"$") => {
            out.append(name, value);
        }
        RawValue::Document(fields) => {
            let mut within = out.document(name);
            for field in fields {
                write_field(field, &mut within);
            }
            within.finish();
        }
        RawValue::Array(items) if !is_constant(value) => {
            let mut list = out.array(name);
            items
                .iter()
                .for_each(|item| push_expression(item, &mut list));
            list.finish();
        }
        constant => {
            out.append(name, placeholder(constant).as_str());
        }
    }
}

fn write_field(field: RawElement<'_>, out: &mut DocumentBuilder<'_>) {
    let name = field.name().to_string_lossy();
    match (&*name, field.value()) {
        ("$literal", value) => {
            out.append("$literal", placeholder(value).as_str());
        }
        (name, value) => append_expression(name, value, out),
    }
}

fn push_expression(value: RawValue<'_>, out: &mut ArrayBuilder<'_>) {
    match value {
        RawValue::String(text) if text.as_bytes().starts_with(b"$") => {
            out.push(value);
        }
        RawValue::Document(fields) => {
            let mut within = out.document();
            for field in fields {
                write_field(field, &mut within);
            }
            within.finish();
        }
        RawValue::Array(items) if !is_constant(value) => {
            let mut list = out.array();
            items
                .iter()
                .for_each(|item| push_expression(item, &mut list));
            list.finish();
        }
        constant => {
            out.push(placeholder(constant).as_str());
        }
    }
}

fn write_projection(projection: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    for field in projection {
        let name = field.name().to_string_lossy();
        match field.value() {
            value if value.is_number() || value.as_bool().is_some() => {
                out.append(&*name, value.is_truthy());
            }
            value => append_expression(&name, value, out),
        }
    }
}

fn write_pipeline(pipeline: RawArray<'_>, out: &mut ArrayBuilder<'_>) {
    for stage in pipeline.iter().filter_map(|stage| stage.as_document()) {
        let mut shown = out.document();
        for element in stage {
            write_stage(element, &mut shown);
        }
        shown.finish();
    }
}

fn write_stage(stage: RawElement<'_>, out: &mut DocumentBuilder<'_>) {
    let name = stage.name().to_string_lossy();
    match (&*name, stage.value()) {
        ("$match", RawValue::Document(filter)) => {
            let mut within = out.document("$match");
            write_filter(filter, &mut within);
            within.finish();
        }
        // Nothing but names and orders.
        ("$sort" | "$unset" | "$count" | "$unwind" | "$out", value) => {
            out.append(&*name, value);
        }
        ("$project", RawValue::Document(projection)) => {
            append_projection("$project", projection, out);
        }
        ("$facet", RawValue::Document(facets)) => {
            let mut within = out.document("$facet");
            for facet in facets {
                append_named(facet, &mut within);
            }
            within.finish();
        }
        ("$lookup" | "$unionWith" | "$graphLookup" | "$merge", RawValue::Document(options)) => {
            let mut within = out.document(&*name);
            for option in options {
                append_named(option, &mut within);
            }
            within.finish();
        }
        ("$unionWith" | "$merge", value @ RawValue::String(_)) => {
            out.append(&*name, value);
        }
        (name, value) => append_expression(name, value, out),
    }
}

/// An option whose text is a name, and whose array is a pipeline.
fn append_named(option: RawElement<'_>, out: &mut DocumentBuilder<'_>) {
    let name = option.name().to_string_lossy();
    match option.value() {
        value @ RawValue::String(_) => {
            out.append(&*name, value);
        }
        RawValue::Array(stages) if stages.iter().all(|stage| stage.as_document().is_some()) => {
            let mut list = out.array(&*name);
            write_pipeline(stages, &mut list);
            list.finish();
        }
        RawValue::Document(filter) if name == "restrictSearchWithMatch" => {
            let mut within = out.document(&*name);
            write_filter(filter, &mut within);
            within.finish();
        }
        value => append_expression(&name, value, out),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, extjson};

    use super::*;

    #[track_caller]
    fn check(given: &str, wanted: &str) {
        let given = extjson::parse(&format!(r#"{{"p": {given}}}"#)).unwrap();
        let shown = Document::build(|out| match given.as_raw().get("p").unwrap() {
            RawValue::Document(filter) => append_filter("p", filter, out).unwrap(),
            RawValue::Array(pipeline) => append_pipeline("p", pipeline, out).unwrap(),
            _ => unreachable!(),
        });
        assert_eq!(
            extjson::relaxed(shown.as_raw()),
            format!(r#"{{"p": {wanted}}}"#)
                .replace(": ", ":")
                .replace(", ", ",")
        );
    }

    #[test]
    fn filters_keep_paths_and_operators() {
        check(r#"{}"#, r#"{}"#);
        check(r#"{"a": "x"}"#, r#"{"a": {"$eq": "?string"}}"#);
        check(
            r#"{"a": {"$gt": 1, "$lt": 9}, "b": null}"#,
            r#"{"$and": [{"a": {"$gt": "?number"}}, {"a": {"$lt": "?number"}}, {"b": {"$eq": "?null"}}]}"#,
        );
        check(
            r#"{"a": {"$in": [1, 2]}}"#,
            r#"{"a": {"$in": "?array<?number>"}}"#,
        );
        check(
            r#"{"a": {"$in": [1, "x"]}}"#,
            r#"{"a": {"$in": "?array<>"}}"#,
        );
        check(
            r#"{"$or": [{"a": true}, {"b": {"$elemMatch": {"c": 1}}}]}"#,
            r#"{"$or": [{"a": {"$eq": "?bool"}}, {"b": {"$elemMatch": {"c": {"$eq": "?number"}}}}]}"#,
        );
        check(
            r#"{"$expr": {"$gt": ["$a", {"$literal": "$x"}]}, "$comment": "hidden"}"#,
            r#"{"$expr": {"$gt": ["$a", {"$literal": "?string"}]}}"#,
        );
    }

    #[test]
    fn pipelines_keep_names_and_orders() {
        check(
            r#"[{"$match": {"a": 1}}, {"$sort": {"b": -1}}, {"$limit": 5}, {"$project": {"a": 1, "b": {"$add": ["$b", 2]}}}]"#,
            r#"[{"$match": {"a": {"$eq": "?number"}}}, {"$sort": {"b": -1}}, {"$limit": "?number"}, {"$project": {"a": true, "b": {"$add": ["$b", "?number"]}}}]"#,
        );
        check(
            r#"[{"$lookup": {"from": "o", "let": {"x": "$a"}, "pipeline": [{"$match": {"b": 2}}], "as": "c"}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}]"#,
            r#"[{"$lookup": {"from": "o", "let": {"x": "$a"}, "pipeline": [{"$match": {"b": {"$eq": "?number"}}}], "as": "c"}}, {"$group": {"_id": "$a", "n": {"$sum": "?number"}}}]"#,
        );
        check(
            r#"[{"$facet": {"one": [{"$skip": 3}]}}, {"$unionWith": "o"}]"#,
            r#"[{"$facet": {"one": [{"$skip": "?number"}]}}, {"$unionWith": "o"}]"#,
        );
    }
}
