//! `$mergeObjects $objectToArray $arrayToObject $type $isNumber`.

use std::collections::HashMap;

use quarry_bson::{
    ArrayBuilder, DocumentBuilder, ElementType, RawArray, RawDocument, RawElement, RawStr, RawValue,
};
use smallvec::SmallVec;

use super::{Call, Context, Evaluated, bounds};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{Charge, Counted};

/// An only argument that is an array is the list of the documents.
pub(super) fn merge_objects<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let mut merged = Counted::default();
    merged
        .bytes
        .extend_from_slice(RawDocument::EMPTY.as_bytes());
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        match value.as_raw() {
            Some(RawValue::Array(list)) if call.arguments.len() == 1 => {
                for item in list {
                    merge_into(&mut merged.bytes, item)?;
                    merged.charge.cover(merged.bytes.len())?;
                }
            }
            Some(single) => {
                merge_into(&mut merged.bytes, single)?;
                merged.charge.cover(merged.bytes.len())?;
            }
            None => {}
        }
    }
    Ok(Evaluated::document(merged))
}

/// Merges one more operand, a document or nullish.
pub(crate) fn merge_into(merged: &mut Vec<u8>, value: RawValue<'_>) -> Result<()> {
    match value {
        RawValue::Null | RawValue::Undefined => Ok(()),
        RawValue::Document(over) => {
            *merged = merge(RawDocument::new(merged)?, over)?;
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
fn merge(base: RawDocument<'_>, over: RawDocument<'_>) -> Result<Vec<u8>> {
    let bytes_max = base.len_bytes() + over.len_bytes();
    interrupts::work_on_bytes(bytes_max)?;
    let mut bytes = Vec::with_capacity(bytes_max);
    let mut out = DocumentBuilder::new(&mut bytes);
    let mut news = News::of(over)?;
    for element in base {
        interrupts::work(1)?;
        out.append_element(news.take(element.name()).unwrap_or(element));
    }
    for (element, _) in news.elements.iter().filter(|(_, is_taken)| !is_taken) {
        interrupts::work(1)?;
        out.append_element(*element);
    }
    out.finish();
    Ok(bytes)
}

/// The elements of a document that is laid over another, and whether each has found its place.
struct News<'a> {
    elements: SmallVec<[(RawElement<'a>, bool); NEWS_COMPARED_MAX]>,
    /// Places of names, filled where there are too many to be compared one by one.
    places: HashMap<&'a [u8], usize>,
    /// For both, where there are many.
    _held: Charge,
}

const NEWS_COMPARED_MAX: usize = 8;

/// The bytes that one element takes in the list and the table.
const NEWS_BYTES: usize = size_of::<(RawElement<'_>, bool)>() + 2 * size_of::<(&[u8], usize)>();

impl<'a> News<'a> {
    fn of(over: RawDocument<'a>) -> Result<News<'a>> {
        let mut elements: SmallVec<[(RawElement<'_>, bool); NEWS_COMPARED_MAX]> = SmallVec::new();
        let mut places = HashMap::new();
        let mut held = Charge::default();
        for element in over {
            interrupts::work(1)?;
            if elements.len() >= NEWS_COMPARED_MAX {
                held.grow(NEWS_BYTES)?;
            }
            elements.push((element, false));
        }
        if elements.len() > NEWS_COMPARED_MAX {
            // The first of several elements of one name counts.
            for (place, (element, _)) in elements.iter().enumerate().rev() {
                interrupts::work(UNITS_OF_AN_ENTRY)?;
                places.insert(element.name().as_bytes(), place);
            }
        }
        Ok(News {
            elements,
            places,
            _held: held,
        })
    }

    fn take(&mut self, name: RawStr<'_>) -> Option<RawElement<'a>> {
        let place = if self.elements.len() > NEWS_COMPARED_MAX {
            self.places.get(name.as_bytes()).copied()
        } else {
            self.elements
                .iter()
                .position(|(element, _)| element.name() == name)
        };
        let (element, is_taken) = self.elements.get_mut(place?)?;
        *is_taken = true;
        Some(*element)
    }
}

/// The work of an entry of a hash table.
const UNITS_OF_AN_ENTRY: usize = 10;

pub(super) fn object_to_array<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
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
    let mut built = Counted::default();
    let mut array = ArrayBuilder::new(&mut built.bytes);
    for element in document {
        interrupts::work(2)?;
        let mut pair = array.document();
        pair.append("k", element.name())
            .append_renamed("v", element);
        drop(pair);
        built.charge.cover(array.len_bytes())?;
    }
    array.finish();
    Ok(Evaluated::array(built))
}

/// Makes a document of `[[k, v], ..]` or `[{k: .., v: ..}, ..]`; of two pairs with one key the later one counts.
pub(super) fn array_to_object<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
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
    let mut places = HashMap::new();
    let mut held = Charge::default();
    let first = array.iter().next().map(|first| first.element_type());
    for item in array {
        interrupts::work(UNITS_OF_AN_ENTRY)?;
        // The first element says which of the two forms all have.
        let (key, value) = match (item, first) {
            (RawValue::Array(pair), Some(ElementType::Array)) => pair_of_array(pair)?,
            (RawValue::Document(pair), Some(ElementType::Document)) => pair_of_document(pair)?,
            (other, first) => return Err(mixed_pairs(first, other)),
        };
        if key.as_bytes().contains(&0) {
            let is_pair = matches!(item, RawValue::Array(_));
            return Err(Error::location(
                if is_pair { 4_940_400 } else { 4_940_401 },
                "Key field cannot contain an embedded null byte",
            ));
        }
        let place = *places.entry(key.as_bytes()).or_insert(fields.len());
        match fields.get_mut(place) {
            Some(known) => known.1 = value,
            None => {
                fields.push((key, value));
                held.cover(fields.len() * FIELD_BYTES)?;
            }
        }
    }
    let mut built = Counted::default();
    let mut out = DocumentBuilder::new(&mut built.bytes);
    for (key, value) in fields {
        interrupts::work(1)?;
        out.append(key, value);
        built.charge.cover(out.len_bytes())?;
    }
    out.finish();
    Ok(Evaluated::document(built))
}

/// The bytes that one field takes in the list and the table of `$arrayToObject`.
const FIELD_BYTES: usize =
    size_of::<(RawStr<'_>, RawValue<'_>)>() + 2 * size_of::<(&[u8], usize)>();

/// The error of an element of another form than the first one has.
fn mixed_pairs(first: Option<ElementType>, found: RawValue<'_>) -> Error {
    let kind = super::type_name(found);
    let (code, detected) = match first {
        Some(ElementType::Array) => (40396, "Array"),
        Some(ElementType::Document) => (40391, "Object"),
        _ => {
            let text = format!("Unrecognised input type format for $arrayToObject: {kind}");
            return Error::location(40398, text);
        }
    };
    let text = format!(
        "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. {detected} was detected, now found: {kind}"
    );
    Error::location(code, text)
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
    if pair.len() != 2 {
        let text = format!(
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{}",
            pair.len()
        );
        return Err(Error::location(40392, text));
    }
    let (Some(key), Some(value)) = (pair.get("k"), pair.get("v")) else {
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

pub(super) fn type_of<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(call.argument(0, context)?.type_name().into())
}

pub(super) fn is_number<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(call
        .argument(0, context)?
        .as_raw()
        .is_some_and(|value| value.is_number())
        .into())
}
