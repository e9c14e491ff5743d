//! `$eq $ne $gt $gte $lt $lte $cmp`: BSON's order over all types, Missing below Null, arrays as a whole.

use std::cmp::Ordering;

use super::{Call, Context, Evaluated};
use crate::error::Result;
use crate::interrupts::{self, units_collated, units_of};

fn ordering<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Ordering> {
    let (left, right) = (call.argument(0, context)?, call.argument(1, context)?);
    let units = units_of(left.as_comparable()).min(units_of(right.as_comparable()));
    interrupts::work(units_collated(&call.collation, units))?;
    let collation = &call.collation;
    Ok(collation.compare(left.as_comparable(), right.as_comparable()))
}

pub(super) fn eq<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(ordering(call, context)?.is_eq().into())
}

pub(super) fn ne<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(ordering(call, context)?.is_ne().into())
}

pub(super) fn gt<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(ordering(call, context)?.is_gt().into())
}

pub(super) fn gte<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(ordering(call, context)?.is_ge().into())
}

pub(super) fn lt<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(ordering(call, context)?.is_lt().into())
}

pub(super) fn lte<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(ordering(call, context)?.is_le().into())
}

pub(super) fn cmp<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(Evaluated::from(ordering(call, context)? as i32))
}
