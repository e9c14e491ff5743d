//! The array operators' work on bytes: an array is written anew only where it changes.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, RawValue, Value, hash_value};

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
    if let [only] = values {
        if array.iter().all(|member| member != only.as_raw()) {
            builder.push(only);
        }
    } else {
        let mut known: HashSet<Hashed<'_>> = array.iter().map(Hashed).collect();
        for value in values {
            if known.insert(Hashed(value.as_raw())) {
                builder.push(value);
            }
        }
    }
    builder.finish();
}

/// A value as a member of a set: equal as MongoDB compares, 1 and 1.0 being one.
struct Hashed<'v>(RawValue<'v>);

impl PartialEq for Hashed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Hashed<'_> {}

impl Hash for Hashed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_value(self.0, state);
    }
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
