//! The part of a filter that may be asked in front of a `$redact` as well: what the stage leaves of a document cannot match it where the
//! whole document does not.
//!
//! It holds conditions that something is there and nothing is missing: `$redact` takes fields and elements away. A path through an
//! array's position has none, because elements move up; nor has a comparison with a document or an array, which may have been
//! larger. These are MongoDB's own conditions.

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawElement, RawValue};

use crate::error::Result;
use crate::interrupts;

/// The conditions of the filter, and of its `$and`s, that may be copied; an empty filter if there are none.
pub(super) fn part_of(filter: RawDocument<'_>) -> Result<Document> {
    interrupts::work_on_bytes(filter.len_bytes())?;
    Ok(Document::build(|out| append_safe(filter, out)))
}

/// Recursion is as deep as the filter, which was parsed.
fn append_safe(filter: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    for condition in filter {
        let name = condition.name().to_string_lossy();
        match (&*name, condition.value()) {
            ("$and", RawValue::Array(branches)) => append_branches(&name, branches, out),
            ("$or", RawValue::Array(branches)) if branches.iter().all(is_safe_branch) => {
                out.append_element(condition);
            }
            (path, _) if path.starts_with('$') || has_position(path) => {}
            (_, RawValue::Document(operators)) if asks_operators(operators) => {
                append_operators(condition, operators, out);
            }
            (_, value) if may_be_compared(value) => {
                out.append_element(condition);
            }
            _ => {}
        }
    }
}

/// Appends the safe parts of the branches of an `$and`.
fn append_branches(name: &str, branches: RawArray<'_>, out: &mut DocumentBuilder<'_>) {
    let parts = branches.iter().filter_map(|branch| branch.as_document());
    let parts = parts.map(|branch| Document::build(|part| append_safe(branch, part)));
    let parts: Vec<Document> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return;
    }
    let mut array = out.array(name);
    for part in &parts {
        array.push(part.as_raw());
    }
    array.finish();
}

/// Whether a branch of an `$or` is safe as a whole.
fn is_safe_branch(branch: RawValue<'_>) -> bool {
    let Some(branch) = branch.as_document() else {
        return false;
    };
    let part = Document::build(|out| append_safe(branch, out));
    !branch.is_empty() && part.as_raw() == branch
}

fn asks_operators(value: RawDocument<'_>) -> bool {
    let first = value.first();
    first.is_some_and(|first| first.name().as_bytes().starts_with(b"$"))
}

/// Appends a field's condition with those of its operators that are safe.
fn append_operators(
    condition: RawElement<'_>,
    operators: RawDocument<'_>,
    out: &mut DocumentBuilder<'_>,
) {
    let safe = Document::build(|safe| {
        for operator in operators.iter().filter(|operator| is_safe(*operator)) {
            safe.append_element(operator);
        }
    });
    if !safe.is_empty() {
        out.append(&*condition.name().to_string_lossy(), safe.as_raw());
    }
}

fn is_safe(operator: RawElement<'_>) -> bool {
    let value = operator.value();
    match operator.name().as_bytes() {
        b"$type" | b"$mod" | b"$regex" | b"$options" => true,
        b"$eq" | b"$gt" | b"$gte" | b"$lt" | b"$lte" => may_be_compared(value),
        b"$in" => value
            .as_array()
            .is_some_and(|list| list.iter().all(may_be_compared)),
        _ => false,
    }
}

/// Whether what is equal to the operand, or above or below it, is neither missing nor something of which `$redact` leaves a part.
fn may_be_compared(operand: RawValue<'_>) -> bool {
    !matches!(
        operand,
        RawValue::Array(_)
            | RawValue::Document(_)
            | RawValue::Null
            | RawValue::Undefined
            | RawValue::MinKey
            | RawValue::MaxKey
    )
}

fn has_position(path: &str) -> bool {
    let mut parts = path.split('.');
    parts.any(|part| part.is_empty() || part.bytes().all(|byte| byte.is_ascii_digit()))
}
