//! The array operators' work on bytes: an array is written anew only where it changes.

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, Value};

use super::apply::header;
use super::push::Push;
use crate::error::Result;

pub(super) fn push(name: &[u8], array: RawArray<'_>, push: &Push, out: &mut Vec<u8>) {
    header(ElementType::Array, name, out);
    let mut builder = ArrayBuilder::new(out);
    if push.only_appends() {
        for element in array.elements() {
            builder.push_element(element);
        }
        for value in push.elements() {
            builder.push(value);
        }
    } else {
        for value in push.arrange(array.iter().collect()) {
            builder.push(value);
        }
    }
    builder.finish();
}

/// Appends the values that are not there yet, each once.
pub(super) fn add_to_set(name: &[u8], array: RawArray<'_>, values: &[Value], out: &mut Vec<u8>) {
    header(ElementType::Array, name, out);
    let mut builder = ArrayBuilder::new(out);
    for element in array.elements() {
        builder.push_element(element);
    }
    for (place, value) in values.iter().enumerate() {
        let value = value.as_raw();
        let known = array.iter().any(|member| member == value)
            || values[..place]
                .iter()
                .any(|earlier| earlier.as_raw() == value);
        if !known {
            builder.push(value);
        }
    }
    builder.finish();
}

pub(super) fn pop(element: RawElement<'_>, array: RawArray<'_>, first: bool, out: &mut Vec<u8>) {
    let gone = if first {
        0
    } else {
        array.len().saturating_sub(1)
    };
    header(ElementType::Array, element.name().as_bytes(), out);
    let mut builder = ArrayBuilder::new(out);
    for (place, member) in array.elements().enumerate() {
        if place != gone {
            builder.push_element(member);
        }
    }
    builder.finish();
}

/// The array with only the elements that `wanted` accepts; as it was if it accepts all.
pub(super) fn keep(
    element: RawElement<'_>,
    array: RawArray<'_>,
    out: &mut Vec<u8>,
    wanted: impl Fn(RawElement<'_>) -> Result<bool>,
) -> Result<()> {
    let start = out.len();
    let mut all = true;
    header(ElementType::Array, element.name().as_bytes(), out);
    let mut builder = ArrayBuilder::new(out);
    for member in array.elements() {
        if wanted(member)? {
            builder.push_element(member);
        } else {
            all = false;
        }
    }
    builder.finish();
    if all {
        out.truncate(start);
        out.extend_from_slice(element.as_bytes());
    }
    Ok(())
}
