//! `$pop`: the first or the last element of an array goes.

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, RawValue};

use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target};
use crate::update::write::header;

#[derive(Debug)]
pub(super) enum Pop {
    First,
    Last,
}

impl FromArgument for Pop {
    fn from_argument(_: &FieldPath, argument: RawValue<'_>, _: &ExpressionContext) -> Result<Pop> {
        match argument.as_i64_exact() {
            Some(1) => Ok(Pop::Last),
            Some(-1) => Ok(Pop::First),
            _ => Err(Error::failed_to_parse(format!(
                "$pop expects 1 or -1, found: {argument}"
            ))),
        }
    }
}

impl Modifier for Pop {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let Some(array) = found.element.value().as_array() else {
            return Err(Error::type_mismatch(format!(
                "Path '{}' contains an element of non-array type '{}'",
                found.path.as_str(),
                found.element.element_type().alias()
            )));
        };
        pop(found.element, array, self, out);
        Ok(())
    }
}

fn pop(element: RawElement<'_>, array: RawArray<'_>, end: &Pop, out: &mut Vec<u8>) {
    let gone = match end {
        Pop::First => 0,
        Pop::Last => array.len().saturating_sub(1),
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
