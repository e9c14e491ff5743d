//! The array operators' work on bytes: an array is written anew only where it changes.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, RawValue, Value, hash_value};

use super::apply::header;
use super::push::Push;
use crate::error::Result;
use crate::interrupts::{self, units_of};

pub(super) fn push(name: &[u8], array: RawArray<'_>, push: &Push, out: &mut Vec<u8>) -> Result<()> {
    header(ElementType::Array, name, out);
    let mut builder = ArrayBuilder::new(out);
    if push.only_appends() {
        for element in array.elements() {
            interrupts::work_on_bytes(element.as_bytes().len())?;
            builder.push_element(element);
        }
        for value in push.elements() {
            interrupts::work_on_bytes(value.as_bytes().len())?;
            builder.push(value);
        }
    } else {
        for value in push.arrange(array.iter().collect())? {
            interrupts::work(units_of(value))?;
            builder.push(value);
        }
    }
    builder.finish();
    Ok(())
}

/// Appends the values that are not there yet, each once.
pub(super) fn add_to_set(
    name: &[u8],
    array: RawArray<'_>,
    values: &[Value],
    out: &mut Vec<u8>,
) -> Result<()> {
    header(ElementType::Array, name, out);
    let mut builder = ArrayBuilder::new(out);
    for element in array.elements() {
        interrupts::work_on_bytes(element.as_bytes().len())?;
        builder.push_element(element);
    }
    if let [only] = values {
        interrupts::work(array.as_bytes().len() / BYTES_A_UNIT_COMPARED)?;
        if array.iter().all(|member| member != only.as_raw()) {
            builder.push(only);
        }
    } else {
        let mut known = HashSet::new();
        for member in array {
            interrupts::work(UNITS_OF_AN_ENTRY + units_of(member))?;
            known.insert(Hashed(member));
        }
        for value in values {
            interrupts::work(UNITS_OF_AN_ENTRY + units_of(value.as_raw()))?;
            if known.insert(Hashed(value.as_raw())) {
                builder.push(value);
            }
        }
    }
    builder.finish();
    Ok(())
}

/// The bytes of an array's elements that are compared with one value in a unit of work.
const BYTES_A_UNIT_COMPARED: usize = 8;

/// The work of hashing a value and of finding its place.
const UNITS_OF_AN_ENTRY: usize = 10;

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
        interrupts::work_on_bytes(member.as_bytes().len())?;
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
