//! `$currentDate`: the time of the update, as a DateTime or as a Timestamp.

use quarry_bson::{RawValue, Timestamp};

use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target};
use crate::update::write::put;

#[derive(Debug)]
pub(super) struct CurrentDate(Clock);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Date,
    Timestamp,
}

impl FromArgument for CurrentDate {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        _: &ExpressionContext,
    ) -> Result<CurrentDate> {
        Ok(CurrentDate(parse_clock(argument)?))
    }
}

impl Modifier for CurrentDate {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(found.name(), self.0.now(target), out);
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(name, self.0.now(target), out);
        Ok(())
    }
}

impl Clock {
    fn now(self, target: &Target<'_>) -> RawValue<'static> {
        match self {
            Clock::Date => RawValue::DateTime(target.now_ms),
            Clock::Timestamp => RawValue::Timestamp(Timestamp {
                time: (target.now_ms / 1000) as u32,
                increment: 1,
            }),
        }
    }
}

fn parse_clock(argument: RawValue<'_>) -> Result<Clock> {
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
