//! Arrays as sets: `$setEquals $setUnion $setIntersection $setDifference $setIsSubset $anyElementTrue $allElementsTrue`.
//! Members are equal as BSON values are. A result has the order in which its members were met first; MongoDB promises none.

use quarry_bson::{ArrayBuilder, RawArray, RawValue, Value};

use super::{Call, Context, Evaluated};
use crate::Collation;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{Charge, Counted};
use crate::value_set::ValueSet;

/// A set of what arrays hold, with the charge for it.
struct Members {
    set: ValueSet,
    held: Charge,
}

impl Members {
    fn new(collation: &Collation) -> Members {
        Members {
            set: ValueSet::new(collation),
            held: Charge::default(),
        }
    }

    fn of(call: &Call, array: RawArray<'_>) -> Result<Members> {
        let mut members = Members::new(&call.collation);
        for item in array {
            members.insert(item)?;
        }
        Ok(members)
    }

    /// The place of a member, and whether it is new.
    fn insert(&mut self, value: RawValue<'_>) -> Result<(usize, bool)> {
        let (place, grown) = self.set.insert(value)?;
        self.held.grow(grown)?;
        Ok((place, grown > 0))
    }

    fn len(&self) -> usize {
        self.set.values().len()
    }
}

fn built<'a, 'v>(values: impl Iterator<Item = &'v Value>) -> Result<Evaluated<'a>> {
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for value in values {
        interrupts::work(1)?;
        builder.push(value);
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

fn not_an_array(call: &Call, value: &Evaluated<'_>, code: i32) -> Error {
    let text = format!(
        "All operands of {} must be arrays. One argument is of type: {}",
        call.name(),
        value.type_name()
    );
    Error::location(code, text)
}

pub(super) fn union<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let mut all = Members::new(&call.collation);
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        if value.is_nullish() {
            return Ok(Evaluated::NULL);
        }
        let array = value.as_array();
        let array = array.ok_or_else(|| not_an_array(call, &value, 17043))?;
        for item in array {
            all.insert(item)?;
        }
    }
    built(all.set.values().iter())
}

pub(super) fn intersection<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (mut left, mut seen) = (Members::new(&call.collation), Vec::new());
    for (number, argument) in call.arguments.iter().enumerate() {
        let value = argument.evaluate(context)?;
        if value.is_nullish() {
            return Ok(Evaluated::NULL);
        }
        let array = value.as_array();
        let array = array.ok_or_else(|| not_an_array(call, &value, 17047))?;
        if number == 0 {
            left = Members::of(call, array)?;
            seen = vec![0; left.len()];
            continue;
        }
        // A member is in all arrays so far if the latest of them that had it is the one before this.
        let others = Members::of(call, array)?;
        for (member, seen) in left.set.values().iter().zip(&mut seen) {
            if *seen == number - 1 && others.set.contains(member.as_raw())? {
                *seen = number;
            }
        }
    }
    let last = call.arguments.len().saturating_sub(1);
    let common = left.set.values().iter().zip(&seen);
    built(
        common
            .filter(|(_, seen)| **seen == last)
            .map(|(member, _)| member),
    )
}

pub(super) fn difference<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (left, right) = (call.argument(0, context)?, call.argument(1, context)?);
    if left.is_nullish() || right.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let (left, right) = both(call, &left, &right, 17048, 17049)?;
    let (left, right) = (Members::of(call, left)?, Members::of(call, right)?);
    let mut rest = Vec::new();
    for member in left.set.values() {
        if !right.set.contains(member.as_raw())? {
            rest.push(member);
        }
    }
    built(rest.into_iter())
}

fn both<'v>(
    call: &Call,
    left: &'v Evaluated<'_>,
    right: &'v Evaluated<'_>,
    first_code: i32,
    second_code: i32,
) -> Result<(RawArray<'v>, RawArray<'v>)> {
    let refused = |value: &Evaluated<'_>, which, code| {
        let (name, kind) = (call.name(), value.type_name());
        let text =
            format!("both operands of {name} must be arrays. {which} argument is of type: {kind}");
        Error::location(code, text)
    };
    let first = left.as_array();
    let first = first.ok_or_else(|| refused(left, "First", first_code))?;
    let second = right.as_array();
    let second = second.ok_or_else(|| refused(right, "Second", second_code))?;
    Ok((first, second))
}

pub(super) fn is_subset<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (left, right) = (call.argument(0, context)?, call.argument(1, context)?);
    let (left, right) = both(call, &left, &right, 17046, 17042)?;
    let right = Members::of(call, right)?;
    for item in left {
        if !right.set.contains(item)? {
            return Ok(Evaluated::FALSE);
        }
    }
    Ok(Evaluated::TRUE)
}

pub(super) fn equals<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let count = call.arguments.len();
    if count < 2 {
        let text = format!("$setEquals needs at least two arguments had: {count}");
        return Err(Error::location(17045, text));
    }
    let mut first: Option<Members> = None;
    let mut are_equal = true;
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        let array = value.as_array();
        let array = array.ok_or_else(|| not_an_array(call, &value, 17044))?;
        let members = Members::of(call, array)?;
        let Some(first) = &first else {
            first = Some(members);
            continue;
        };
        are_equal &= first.len() == members.len();
        for member in members.set.values() {
            are_equal = are_equal && first.set.contains(member.as_raw())?;
        }
    }
    Ok(are_equal.into())
}

pub(super) fn any_true<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(truths(call, context, 17041, true)?.into())
}

pub(super) fn all_true<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok((!truths(call, context, 17040, false)?).into())
}

/// Whether an element is as true as is asked for.
fn truths<'a>(call: &'a Call, context: &mut Context<'a>, code: i32, wanted: bool) -> Result<bool> {
    let value = call.argument(0, context)?;
    let Some(array) = value.as_array() else {
        let (name, kind) = (call.name(), value.type_name());
        let text = format!("{name}'s argument must be an array, but is {kind}");
        return Err(Error::location(code, text));
    };
    for item in array {
        interrupts::work(1)?;
        if item.is_truthy() == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}
