//! `$pull`: which elements of an array go. A plain document is a filter over the elements that are documents;
//! operators and regular expressions are asked of the element itself; any other value is compared.

use quarry_bson::compare::values_equal;
use quarry_bson::{RawElement, RawValue, Value};

use crate::error::Result;
use crate::interrupts;
use crate::matcher::Matcher;

#[derive(Debug)]
pub(super) enum PullCondition {
    /// Asked of elements that are documents.
    Filter(Matcher),
    /// Asked of the element as the value of a field.
    Condition(Matcher),
    Equal(Value),
}

impl PullCondition {
    pub fn parse(argument: RawValue<'_>) -> Result<PullCondition> {
        Ok(match argument {
            RawValue::Document(document) => {
                let operators = document
                    .first()
                    .is_some_and(|first| first.name().as_bytes().starts_with(b"$"));
                if operators && !is_logical(document.first()) {
                    PullCondition::Condition(Matcher::parse_condition(argument)?)
                } else {
                    PullCondition::Filter(Matcher::parse_of_fields(document)?)
                }
            }
            RawValue::Regex(_) => PullCondition::Condition(Matcher::parse_condition(argument)?),
            value => PullCondition::Equal(value.to_value()),
        })
    }

    pub fn takes(&self, element: RawElement<'_>) -> Result<bool> {
        interrupts::check()?;
        match self {
            PullCondition::Filter(filter) => match element.value() {
                RawValue::Document(document) => filter.try_matches(document),
                _ => Ok(false),
            },
            PullCondition::Condition(condition) => condition.matches_value(element),
            PullCondition::Equal(value) => Ok(values_equal(value.as_raw(), element.value())),
        }
    }
}

/// `{$or: [..]}` is a filter over documents, unlike `{$gt: 1}`.
fn is_logical(first: Option<RawElement<'_>>) -> bool {
    first.is_some_and(|first| matches!(first.name().as_bytes(), b"$and" | b"$or" | b"$nor"))
}
