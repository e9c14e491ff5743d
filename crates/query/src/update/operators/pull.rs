//! `$pull` and `$pullAll`: elements of an array that go. For `$pull`, a plain document is a filter over the elements that are
//! documents; operators and regular expressions are asked of the element itself; any other value is compared.

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, RawValue, Value};

use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::matcher::Matcher;
use crate::sorter::sort_in_steps;
use crate::update::modifier::{Found, FromArgument, Modifier, Target};
use crate::update::write::header;

/// The values of `$pullAll`, sorted by the collation.
#[derive(Debug)]
pub(super) struct PullAll(Vec<Value>, Collation);

/// The condition of `$pull`, for elements that go.
#[derive(Debug)]
pub(super) enum Pull {
    /// Asked of elements that are documents.
    Filter(Matcher),
    /// Asked of the element as the value of a field.
    Condition(Matcher),
    Equal(Value, Collation),
}

impl FromArgument for Pull {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Pull> {
        Ok(match argument {
            RawValue::Document(document) => {
                let operators = document
                    .first()
                    .is_some_and(|first| first.name().as_bytes().starts_with(b"$"));
                if operators && !is_logical(document.first()) {
                    Pull::Condition(Matcher::parse_condition(argument, context)?)
                } else {
                    Pull::Filter(Matcher::parse_of_fields(document, context)?)
                }
            }
            RawValue::Regex(_) => Pull::Condition(Matcher::parse_condition(argument, context)?),
            value => Pull::Equal(value.to_value(), context.collation().clone()),
        })
    }
}

impl Modifier for Pull {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let array = array_of(found.element)?;
        keep(found.element, array, out, |member| Ok(!self.takes(member)?))
    }
}

impl FromArgument for PullAll {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<PullAll> {
        let RawValue::Array(values) = argument else {
            return Err(Error::bad_value(format!(
                "$pullAll requires an array argument but was given a {}",
                argument.element_type().alias()
            )));
        };
        let mut values: Vec<Value> = values.iter().map(|value| value.to_value()).collect();
        let collation = context.collation().clone();
        sort_in_steps(&mut values, |a, b| {
            collation.compare(a.as_raw(), b.as_raw())
        })?;
        Ok(PullAll(values, collation))
    }
}

impl Modifier for PullAll {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let array = array_of(found.element)?;
        keep(found.element, array, out, |member| {
            let PullAll(values, collation) = self;
            let compared = |value: &Value| collation.compare(value.as_raw(), member.value());
            let place = values.binary_search_by(compared);
            Ok(place.is_err())
        })
    }
}

impl Pull {
    fn takes(&self, element: RawElement<'_>) -> Result<bool> {
        interrupts::check()?;
        match self {
            Pull::Filter(filter) => match element.value() {
                RawValue::Document(document) => filter.try_matches(document),
                _ => Ok(false),
            },
            Pull::Condition(condition) => condition.matches_value(element),
            Pull::Equal(value, collation) => {
                Ok(collation.are_equal(value.as_raw(), element.value()))
            }
        }
    }
}

fn array_of(element: RawElement<'_>) -> Result<RawArray<'_>> {
    let array = element.value().as_array();
    array.ok_or_else(|| Error::bad_value("Cannot apply $pull to a non-array value"))
}

/// The array with only the elements that `wanted` accepts; as it was if it accepts all.
fn keep(
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

/// `{$or: [..]}` is a filter over documents, unlike `{$gt: 1}`.
fn is_logical(first: Option<RawElement<'_>>) -> bool {
    first.is_some_and(|first| matches!(first.name().as_bytes(), b"$and" | b"$or" | b"$nor"))
}
