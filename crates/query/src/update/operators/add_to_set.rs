//! `$addToSet`: values that an array is to have, each once.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, RawValue, Value};

use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::interrupts::{self, units_collated, units_of};
use crate::update::modifier::{Found, FromArgument, Modifier, Target, deepest};
use crate::update::write::header;

#[derive(Debug)]
pub(super) struct AddToSet(Vec<Value>, Collation);

impl FromArgument for AddToSet {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<AddToSet> {
        let values = parse_values(argument)?;
        Ok(AddToSet(values, context.collation().clone()))
    }
}

impl Modifier for AddToSet {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let array = found.element.value().as_array();
        let array = array.ok_or_else(|| not_an_array(found.element))?;
        self.write(found.name(), array, out)
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.write(name, RawArray::EMPTY, out)
    }

    fn depth(&self) -> usize {
        1 + deepest(&self.0)
    }
}

/// The values that the argument names: its own, or those of `$each`.
fn parse_values(argument: RawValue<'_>) -> Result<Vec<Value>> {
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

impl AddToSet {
    /// Writes the array with the values that are not there yet, each once.
    fn write(&self, name: &[u8], array: RawArray<'_>, out: &mut Vec<u8>) -> Result<()> {
        let AddToSet(values, collation) = self;
        header(ElementType::Array, name, out);
        let mut builder = ArrayBuilder::new(out);
        for element in array.elements() {
            interrupts::work_on_bytes(element.as_bytes().len())?;
            builder.push_element(element);
        }
        if let [only] = values.as_slice() {
            let units = array.as_bytes().len() / BYTES_A_UNIT_COMPARED;
            interrupts::work(units_collated(collation, units))?;
            if array
                .iter()
                .all(|member| !collation.are_equal(member, only.as_raw()))
            {
                builder.push(only);
            }
        } else {
            let mut known = HashSet::new();
            for member in array {
                interrupts::work(UNITS_OF_AN_ENTRY + units_collated(collation, units_of(member)))?;
                known.insert(Hashed(member, collation));
            }
            for value in values {
                let value = value.as_raw();
                interrupts::work(UNITS_OF_AN_ENTRY + units_collated(collation, units_of(value)))?;
                if known.insert(Hashed(value, collation)) {
                    builder.push(value);
                }
            }
        }
        builder.finish();
        Ok(())
    }
}

/// The bytes of an array's elements that are compared with one value in a unit of work.
const BYTES_A_UNIT_COMPARED: usize = 8;

/// The work of hashing a value and of finding its place.
const UNITS_OF_AN_ENTRY: usize = 10;

/// A value as a member of a set: equal as MongoDB compares by the collation, 1 and 1.0 being one.
struct Hashed<'v>(RawValue<'v>, &'v Collation);

impl PartialEq for Hashed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.1.are_equal(self.0, other.0)
    }
}

impl Eq for Hashed<'_> {}

impl Hash for Hashed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.hash(self.0, state);
    }
}

fn not_an_array(element: RawElement<'_>) -> Error {
    Error::bad_value(format!(
        "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
        element.name(),
        element.element_type().alias()
    ))
}
