//! The operators on one field, parsed and checked once. The array operators have files of their own.

use quarry_bson::{RawValue, Value};

use super::arithmetic::BitOp;
use super::pull::PullCondition;
use super::push::Push;
use crate::error::{Error, Result};
use crate::field_path::FieldPath;
use crate::sorter::sort_in_steps;

#[derive(Debug)]
pub(super) enum Modifier {
    Set(Value),
    SetOnInsert(Value),
    Unset,
    Inc(Value),
    Mul(Value),
    Min(Value),
    Max(Value),
    /// The field takes the value of another.
    RenameFrom(FieldPath),
    /// The field whose value `$rename` takes away.
    RenamedAway,
    CurrentDate(Clock),
    Bit(Vec<(BitOp, Value)>),
    Push(Push),
    AddToSet(Vec<Value>),
    PopFirst,
    PopLast,
    Pull(PullCondition),
    /// Sorted.
    PullAll(Vec<Value>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Date,
    Timestamp,
}

impl Modifier {
    /// Whether a missing field comes into being. `insert`: the update makes a new document.
    pub fn creates(&self, insert: bool) -> bool {
        match self {
            Modifier::SetOnInsert(_) => insert,
            Modifier::Unset
            | Modifier::RenamedAway
            | Modifier::PopFirst
            | Modifier::PopLast
            | Modifier::Pull(_)
            | Modifier::PullAll(_) => false,
            _ => true,
        }
    }

    /// Whether it is no error that the path cannot exist (`a.b` where `a` is a number).
    pub fn tolerates_blocked_path(&self, insert: bool) -> bool {
        match self {
            Modifier::Unset | Modifier::RenamedAway => true,
            Modifier::SetOnInsert(_) => !insert,
            _ => false,
        }
    }

    /// Levels of nesting that the field's new value may have.
    pub fn depth(&self) -> usize {
        match self {
            Modifier::Set(value)
            | Modifier::SetOnInsert(value)
            | Modifier::Min(value)
            | Modifier::Max(value) => depth(value.as_raw()),
            Modifier::Push(push) => 1 + deepest(push.elements()),
            Modifier::AddToSet(values) => 1 + deepest(values),
            _ => 0,
        }
    }
}

/// Levels of documents and arrays in a value: 0 for a scalar.
pub(super) fn depth(value: RawValue<'_>) -> usize {
    match value {
        RawValue::Document(document) => {
            1 + document
                .iter()
                .map(|element| depth(element.value()))
                .max()
                .unwrap_or(0)
        }
        RawValue::Array(array) => 1 + array.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn deepest(values: &[Value]) -> usize {
    values
        .iter()
        .map(|value| depth(value.as_raw()))
        .max()
        .unwrap_or(0)
}

pub(super) fn number(argument: RawValue<'_>, path: &FieldPath, complaint: &str) -> Result<Value> {
    if !argument.is_number() {
        return Err(Error::type_mismatch(format!(
            "{complaint}: {{{}: {argument}}}",
            path.as_str()
        )));
    }
    Ok(argument.to_value())
}

pub(super) fn parse_clock(argument: RawValue<'_>) -> Result<Clock> {
    match argument {
        RawValue::Boolean(_) => Ok(Clock::Date),
        RawValue::Document(options) => {
            let mut clock = None;
            for element in options {
                if element.name() != "$type" {
                    return Err(Error::bad_value(format!(
                        "Unrecognized $currentDate option: {}",
                        element.name()
                    )));
                }
                clock = match element.value().as_str() {
                    Some("date") => Some(Clock::Date),
                    Some("timestamp") => Some(Clock::Timestamp),
                    _ => None,
                };
            }
            let text = "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}";
            clock.ok_or_else(|| Error::bad_value(text))
        }
        other => Err(Error::bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: 'timestamp/date'}}).",
            other.element_type().alias()
        ))),
    }
}

pub(super) fn parse_bit(argument: RawValue<'_>) -> Result<Vec<(BitOp, Value)>> {
    let RawValue::Document(operations) = argument else {
        return Err(Error::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
            argument.element_type().alias()
        )));
    };
    let mut steps = Vec::new();
    for element in operations {
        let op = match element.name().as_bytes() {
            b"and" => BitOp::And,
            b"or" => BitOp::Or,
            b"xor" => BitOp::Xor,
            _ => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{}' which is an unknown operator: {{{}: {}}}",
                    element.name(),
                    element.name(),
                    element.value()
                )));
            }
        };
        if !matches!(element.value(), RawValue::Int32(_) | RawValue::Int64(_)) {
            return Err(Error::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}: {}}}",
                element.element_type().alias(),
                element.name(),
                element.value()
            )));
        }
        steps.push((op, element.value().to_value()));
    }
    if steps.is_empty() {
        return Err(Error::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ));
    }
    Ok(steps)
}

pub(super) fn parse_add_to_set(argument: RawValue<'_>) -> Result<Vec<Value>> {
    let RawValue::Document(clauses) = argument else {
        return Ok(vec![argument.to_value()]);
    };
    let Some(first) = clauses.first().filter(|first| first.name() == "$each") else {
        return Ok(vec![argument.to_value()]);
    };
    let RawValue::Array(values) = first.value() else {
        return Err(Error::type_mismatch(format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            first.element_type().alias()
        )));
    };
    if let Some(extra) = clauses.iter().nth(1) {
        return Err(Error::bad_value(format!(
            "Found unexpected fields after $each in $addToSet: {}",
            extra.name()
        )));
    }
    Ok(values.iter().map(|value| value.to_value()).collect())
}

pub(super) fn parse_pop(argument: RawValue<'_>) -> Result<Modifier> {
    match argument.as_i64_exact() {
        Some(1) => Ok(Modifier::PopLast),
        Some(-1) => Ok(Modifier::PopFirst),
        _ => Err(Error::failed_to_parse(format!(
            "$pop expects 1 or -1, found: {argument}"
        ))),
    }
}

pub(super) fn parse_pull_all(argument: RawValue<'_>) -> Result<Vec<Value>> {
    let RawValue::Array(values) = argument else {
        return Err(Error::bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            argument.element_type().alias()
        )));
    };
    let mut values: Vec<Value> = values.iter().map(|value| value.to_value()).collect();
    sort_in_steps(&mut values, Value::cmp)?;
    Ok(values)
}
