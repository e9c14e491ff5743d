//! The shape of a query: its filter without the values, its order, its projection and its collation. Queries that differ in
//! values alone have one shape, and so have those that name the same conditions in another order.
//!
//! A filter is written as a text in which each condition is a path with the name of its operator, conditions of a conjunction
//! sorted; `{a: 1, b: {$gt: 2}}` is `a$eq,b$gt`. It works on the filter as it was sent: one that does not parse has a shape,
//! too, which nobody asks for.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

use quarry_bson::{Document, RawDocument, RawElement, RawValue};

use crate::Collation;
use crate::error::Result;
use crate::interrupts;
use crate::sent_filter::{documents_of, holds_operators};

/// The parts of a query that its shape is of, as they were sent.
#[derive(Clone, Copy)]
pub struct QueryParts<'q> {
    /// The filter.
    pub filter: RawDocument<'q>,
    /// The order, if one is asked for.
    pub sort: Option<RawDocument<'q>>,
    /// The projection, if there is one.
    pub projection: Option<RawDocument<'q>>,
    /// How strings are compared.
    pub collation: &'q Collation,
}

/// The shape of a query, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryShape(pub u64);

impl<'q> QueryParts<'q> {
    /// The parts of a query that is a filter alone.
    pub fn of(filter: RawDocument<'q>, collation: &'q Collation) -> QueryParts<'q> {
        QueryParts {
            filter,
            sort: None,
            projection: None,
            collation,
        }
    }

    /// The shape of the query.
    pub fn shape(&self) -> Result<QueryShape> {
        let mut text = String::new();
        write_filter(self.filter, &mut text)?;
        let parts = [("|sort", self.sort), ("|projection", self.projection)];
        for (name, part) in parts {
            if let Some(part) = part.filter(|part| !part.is_empty()) {
                interrupts::work_on_bytes(part.len_bytes())?;
                let _ = write!(text, "{name}{part}");
            }
        }
        if let Some(collation) = self.collation.specification() {
            let _ = write!(text, "|collation{collation}");
        }
        let mut hash = DefaultHasher::new();
        hash.write(text.as_bytes());
        Ok(QueryShape(hash.finish()))
    }

    /// The query as documents show it: `query`, `sort`, `projection`, and `collation` if it has one.
    pub fn to_document(self) -> Document {
        Document::build(|out| {
            out.append("query", self.filter);
            out.append("sort", self.sort.unwrap_or(RawDocument::EMPTY));
            out.append("projection", self.projection.unwrap_or(RawDocument::EMPTY));
            if let Some(collation) = self.collation.specification() {
                out.append("collation", collation.as_raw());
            }
        })
    }
}

impl QueryShape {
    /// The shape in the eight digits that explain prints.
    pub fn text(self) -> String {
        short_hash(self.0)
    }
}

/// A hash in the eight digits that MongoDB prints of one.
pub fn short_hash(hash: u64) -> String {
    format!("{:08X}", (hash ^ (hash >> 32)) as u32)
}

/// Writes the conditions of a filter, sorted. As deep as the filter.
fn write_filter(filter: RawDocument<'_>, out: &mut String) -> Result<()> {
    let mut terms = Vec::new();
    collect(filter, &mut terms)?;
    terms.sort_unstable();
    terms.dedup();
    out.push_str(&terms.join(","));
    Ok(())
}

fn collect(filter: RawDocument<'_>, terms: &mut Vec<String>) -> Result<()> {
    interrupts::work_on_bytes(filter.len_bytes())?;
    for element in filter {
        let name = element.name().to_string_lossy();
        match (&*name, element.value()) {
            ("$comment", _) => {}
            ("$and", RawValue::Array(children)) => {
                for child in documents_of(children) {
                    collect(child, terms)?;
                }
            }
            ("$or" | "$nor", RawValue::Array(children)) => {
                let mut branches = Vec::new();
                for child in documents_of(children) {
                    let mut branch = String::new();
                    write_filter(child, &mut branch)?;
                    branches.push(branch);
                }
                branches.sort_unstable();
                terms.push(format!("{name}[{}]", branches.join("][")));
            }
            ("$expr", value) => {
                let mut term = "$expr".to_owned();
                write_expression(value, &mut term)?;
                terms.push(term);
            }
            (operator, _) if operator.starts_with('$') => terms.push(operator.to_owned()),
            (path, RawValue::Document(operators)) if holds_operators(operators) => {
                for operator in operators {
                    terms.push(format!("{path}{}", condition(operator)?));
                }
            }
            (path, RawValue::Regex(_)) => terms.push(format!("{path}$regex")),
            (path, _) => terms.push(format!("{path}$eq")),
        }
    }
    Ok(())
}

/// One operator of a path, with the conditions within it.
fn condition(operator: RawElement<'_>) -> Result<String> {
    let mut term = operator.name().to_string_lossy().into_owned();
    // The options of a regular expression are a value of it.
    if term == "$options" {
        term.clear();
    }
    if let RawValue::Document(within) = operator.value()
        && matches!(&*term, "$not" | "$elemMatch")
    {
        term.push('(');
        match holds_operators(within) {
            true => {
                let mut inner = Vec::new();
                for operator in within {
                    inner.push(condition(operator)?);
                }
                inner.sort_unstable();
                term.push_str(&inner.join(","));
            }
            false => write_filter(within, &mut term)?,
        }
        term.push(')');
    }
    Ok(term)
}

/// Writes an expression: its operators and the paths that it names, without its constants. As deep as the expression.
fn write_expression(value: RawValue<'_>, out: &mut String) -> Result<()> {
    match value {
        RawValue::Document(document) => {
            interrupts::work_on_bytes(document.len_bytes())?;
            out.push('{');
            for element in document {
                let _ = write!(out, "{}:", element.name().to_string_lossy());
                write_expression(element.value(), out)?;
            }
            out.push('}');
        }
        RawValue::Array(array) => {
            out.push('[');
            for item in array {
                write_expression(item, out)?;
                out.push(',');
            }
            out.push(']');
        }
        RawValue::String(text) if text.as_bytes().starts_with(b"$") => {
            out.push_str(&text.to_string_lossy());
        }
        _ => out.push('?'),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quarry_bson::extjson;

    use super::*;

    fn text(filter: &str) -> String {
        let mut text = String::new();
        write_filter(extjson::parse(filter).unwrap().as_raw(), &mut text).unwrap();
        text
    }

    #[test]
    fn a_shape_is_of_conditions_and_not_of_values() {
        assert_eq!(
            text(r#"{"b": {"$gt": 2, "$lt": 9}, "a": 1}"#),
            "a$eq,b$gt,b$lt"
        );
        assert_eq!(
            text(r#"{"$and": [{"a": "x"}, {"b": {"$lt": 1, "$gt": 0}}]}"#),
            "a$eq,b$gt,b$lt"
        );
        assert_eq!(
            text(r#"{"$or": [{"b": 1, "a": 2}, {"a": {"$in": [1, 2]}}]}"#),
            "$or[a$eq,b$eq][a$in]"
        );
        assert_eq!(
            text(r#"{"a": {"$elemMatch": {"y": 1, "x": 2}}}"#),
            "a$elemMatch(x$eq,y$eq)"
        );
        assert_eq!(text(r#"{"a": {"$not": {"$gt": 1}}}"#), "a$not($gt)");
        assert_eq!(
            text(r#"{"$expr": {"$gt": ["$a", 5]}, "$comment": "x"}"#),
            "$expr{$gt:[$a,?,]}"
        );
        assert_ne!(text(r#"{"a": {"b": 1}}"#), text(r#"{"a.b": 1}"#));
    }

    #[test]
    fn sort_projection_and_collation_are_part_of_it() {
        let filter = extjson::parse(r#"{"a": 1}"#).unwrap();
        let sort = extjson::parse(r#"{"b": 1}"#).unwrap();
        let plain = QueryParts::of(filter.as_raw(), &Collation::SIMPLE);
        let sorted = QueryParts {
            sort: Some(sort.as_raw()),
            ..plain
        };
        let projected = QueryParts {
            projection: Some(sort.as_raw()),
            ..plain
        };
        let shapes = [plain, sorted, projected].map(|parts| parts.shape().unwrap());
        assert!(shapes[0] != shapes[1] && shapes[1] != shapes[2] && shapes[0] != shapes[2]);
        assert_eq!(shapes[0].text().len(), 8);
    }
}
