//! Accumulators as expressions: `$sum $avg $min $max $stdDevPop $stdDevSamp` over the members of an only
//! argument that is an array, or over all arguments as they are.

use std::cmp::Ordering;

use quarry_bson::{RawValue, Value};

use super::number::Number;
use super::sum::Sum;
use super::{Call, Context, Evaluated};
use crate::error::Result;
use crate::interrupts::{self, units_of};

/// Hands every operand to `each`.
fn for_each<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    mut each: impl FnMut(RawValue<'_>),
) -> Result<()> {
    if let [only] = &*call.arguments {
        let value = only.evaluate(context)?;
        match value.as_raw() {
            Some(RawValue::Array(array)) => {
                for item in array {
                    interrupts::work(units_of(item))?;
                    each(item);
                }
            }
            Some(single) => each(single),
            None => {}
        }
        return Ok(());
    }
    for argument in &call.arguments {
        if let Some(value) = argument.evaluate(context)?.as_raw() {
            each(value);
        }
    }
    Ok(())
}

fn total<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Sum> {
    let mut total = Sum::default();
    for_each(call, context, |value| {
        if let Some(number) = Number::from_raw(value) {
            total.add(number);
        }
    })?;
    Ok(total)
}

pub(super) fn sum<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(total(call, context)?.total().into())
}

pub(super) fn avg<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(total(call, context)?
        .mean()
        .map_or(Evaluated::NULL, Evaluated::from))
}

pub(super) fn min<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    extreme(call, context, Ordering::Less)
}

pub(super) fn max<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    extreme(call, context, Ordering::Greater)
}

fn extreme<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    wanted: Ordering,
) -> Result<Evaluated<'a>> {
    let mut best: Option<Value> = None;
    for_each(call, context, |value| {
        let better = best
            .as_ref()
            .is_none_or(|best| call.collation.compare(value, best.as_raw()) == wanted);
        if better && !value.is_nullish() {
            best = Some(value.to_value());
        }
    })?;
    Ok(best.map_or(Evaluated::NULL, Evaluated::from))
}

pub(super) fn deviation_of_population<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    Ok(spread(call, context)?
        .population()
        .map_or(Evaluated::NULL, Evaluated::from))
}

pub(super) fn deviation_of_sample<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    Ok(spread(call, context)?
        .sample()
        .map_or(Evaluated::NULL, Evaluated::from))
}

fn spread<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Spread> {
    let mut spread = Spread::default();
    for_each(call, context, |value| spread.add(value))?;
    Ok(spread)
}

/// Mean and squared distance from it, kept in one pass (Welford's method).
#[derive(Debug, Clone, Default)]
pub(crate) struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Spread {
    /// Numbers count, all else is passed over.
    pub(crate) fn add(&mut self, value: RawValue<'_>) {
        let Some(number) = value.as_f64_lossy() else {
            return;
        };
        self.count += 1;
        let from_old_mean = number - self.mean;
        self.mean += from_old_mean / self.count as f64;
        self.squares += from_old_mean * (number - self.mean);
    }

    pub(crate) fn population(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    pub(crate) fn sample(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}
