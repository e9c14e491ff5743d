//! `$mergeObjects $objectToArray $arrayToObject $type $isNumber`.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawStr, RawValue};

use super::operator::{Arguments, Operator};
use super::{Call, Context, Evaluated, bounds};
use crate::error::{Error, Result};
use crate::interrupts;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$mergeObjects",
        arguments: Arguments::Any,
        evaluate: merge_objects,
    },
    Operator {
        name: "$objectToArray",
        arguments: Arguments::Exactly(1),
        evaluate: object_to_array,
    },
    Operator {
        name: "$arrayToObject",
        arguments: Arguments::Exactly(1),
        evaluate: array_to_object,
    },
    Operator {
        name: "$type",
        arguments: Arguments::Exactly(1),
        evaluate: type_of,
    },
    Operator {
        name: "$isNumber",
        arguments: Arguments::Exactly(1),
        evaluate: is_number,
    },
];

/// An only argument that is an array is the list of the documents.
fn merge_objects<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let mut merged = RawDocument::EMPTY.as_bytes().to_vec();
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        match value.as_raw() {
            Some(RawValue::Array(list)) if call.arguments.len() == 1 => {
                for item in list {
                    merge_into(&mut merged, item)?;
                }
            }
            Some(single) => merge_into(&mut merged, single)?,
            None => {}
        }
    }
    Ok(Evaluated::Document(merged))
}

/// Merges one more operand, a document or nullish.
pub(crate) fn merge_into(merged: &mut Vec<u8>, value: RawValue<'_>) -> Result<()> {
    match value {
        RawValue::Null | RawValue::Undefined => Ok(()),
        RawValue::Document(over) => {
            interrupts::check()?;
            *merged = merge(RawDocument::new(merged)?, over);
            bounds::check_bytes(merged.len())
        }
        other => {
            let kind = super::type_name(other);
            let text = format!(
                "$mergeObjects requires object inputs, but input {other} is of type {kind}"
            );
            Err(Error::location(40400, text))
        }
    }
}

/// `base` with the fields of `over`: those that both have stay where `base` has them.
fn merge(base: RawDocument<'_>, over: RawDocument<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(base.as_bytes().len() + over.as_bytes().len());
    let mut out = DocumentBuilder::new(&mut bytes);
    for element in base {
        out.append_element(over.get_element(element.name()).unwrap_or(element));
    }
    for element in over.iter().filter(|element| !base.contains(element.name())) {
        out.append_element(element);
    }
    out.finish();
    bytes
}

fn object_to_array<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(RawValue::Document(document)) = value.as_raw() else {
        let text = format!(
            "$objectToArray requires a document input, found: {}",
            value.type_name()
        );
        return Err(Error::location(40390, text));
    };
    bounds::check_depth(RawValue::Document(document), 1)?;
    let mut bytes = Vec::new();
    let mut array = ArrayBuilder::new(&mut bytes);
    for element in document {
        let mut pair = array.document();
        pair.append("k", element.name())
            .append_renamed("v", element);
    }
    array.finish();
    Ok(Evaluated::Array(bytes))
}

/// Of `[[k, v], ..]` or `[{k: .., v: ..}, ..]`; of two pairs with one key the later one counts.
fn array_to_object<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = value.as_array() else {
        let text = format!(
            "$arrayToObject requires an array input, found: {}",
            value.type_name()
        );
        return Err(Error::location(40386, text));
    };
    let mut fields: Vec<(RawStr<'_>, RawValue<'_>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for item in array {
        let (key, value) = match item {
            RawValue::Array(pair) => pair_of_array(pair)?,
            RawValue::Document(pair) => pair_of_document(pair)?,
            other => {
                let kind = super::type_name(other);
                let text = format!("Unrecognised input type format for $arrayToObject: {kind}");
                return Err(Error::location(40398, text));
            }
        };
        if key.as_bytes().contains(&0) {
            return Err(Error::location(
                4_940_400,
                "Key field cannot contain an embedded null byte",
            ));
        }
        let place = *places.entry(key.as_bytes()).or_insert(fields.len());
        match fields.get_mut(place) {
            Some(known) => known.1 = value,
            None => fields.push((key, value)),
        }
    }
    let mut bytes = Vec::new();
    let mut out = DocumentBuilder::new(&mut bytes);
    for (key, value) in fields {
        out.append(key, value);
    }
    out.finish();
    Ok(Evaluated::Document(bytes))
}

fn pair_of_array(pair: RawArray<'_>) -> Result<(RawStr<'_>, RawValue<'_>)> {
    let mut members = pair.iter();
    let (Some(key), Some(value), None) = (members.next(), members.next(), members.next()) else {
        let text = format!(
            "$arrayToObject requires an array of size 2 arrays,found array of size: {}",
            pair.len()
        );
        return Err(Error::location(40397, text));
    };
    match key {
        RawValue::String(key) => Ok((key, value)),
        other => {
            let kind = super::type_name(other);
            let text = format!(
                "$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key type: {kind}"
            );
            Err(Error::location(40395, text))
        }
    }
}

fn pair_of_document(pair: RawDocument<'_>) -> Result<(RawStr<'_>, RawValue<'_>)> {
    let (Some(key), Some(value), 2) = (pair.get("k"), pair.get("v"), pair.len()) else {
        let text = "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: ";
        return Err(Error::location(40393, format!("{text}{pair}")));
    };
    match key {
        RawValue::String(key) => Ok((key, value)),
        other => {
            let kind = super::type_name(other);
            let text = format!(
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. Found type: {kind}"
            );
            Err(Error::location(40394, text))
        }
    }
}

fn type_of<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(call.argument(0, context)?.type_name().into())
}

fn is_number<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(call
        .argument(0, context)?
        .as_raw()
        .is_some_and(|value| value.is_number())
        .into())
}
