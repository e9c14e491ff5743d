//! The accumulators of `$group`: what each keeps of the values of a group and what it makes of them.

use std::cmp::Ordering;

use quarry_bson::{
    ArrayBuilder, DocumentBuilder, ElementType, RawDocument, RawValue, Value,
    compare::compare_values,
};

use super::value_set::ValueSet;
use crate::error::Result;
use crate::expression::bounds;
use crate::expression::fold::Spread;
use crate::expression::number::Number;
use crate::expression::objects::merge_into;
use crate::expression::sum::Sum;
use crate::interrupts;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Sum,
    Avg,
    Min,
    Max,
    First,
    Last,
    Push,
    AddToSet,
    Count,
    MergeObjects,
    StdDevPop,
    StdDevSamp,
}

impl Function {
    pub(super) fn from_name(name: &str) -> Option<Function> {
        Some(match name {
            "$sum" => Function::Sum,
            "$avg" => Function::Avg,
            "$min" => Function::Min,
            "$max" => Function::Max,
            "$first" => Function::First,
            "$last" => Function::Last,
            "$push" => Function::Push,
            "$addToSet" => Function::AddToSet,
            "$count" => Function::Count,
            "$mergeObjects" => Function::MergeObjects,
            "$stdDevPop" => Function::StdDevPop,
            "$stdDevSamp" => Function::StdDevSamp,
            _ => return None,
        })
    }

    pub(super) fn start(self) -> Accumulator {
        match self {
            Function::Sum => Accumulator::Sum(Sum::default()),
            Function::Avg => Accumulator::Avg(Sum::default()),
            Function::Min => Accumulator::Extreme(Ordering::Less, None),
            Function::Max => Accumulator::Extreme(Ordering::Greater, None),
            Function::First => Accumulator::First(None),
            Function::Last => Accumulator::Last(None),
            Function::Push => Accumulator::Push(Elements::default()),
            Function::AddToSet => Accumulator::AddToSet(ValueSet::default()),
            Function::Count => Accumulator::Count(0),
            Function::MergeObjects => {
                Accumulator::MergeObjects(RawDocument::EMPTY.as_bytes().to_vec())
            }
            Function::StdDevPop => Accumulator::StdDevPop(Spread::default()),
            Function::StdDevSamp => Accumulator::StdDevSamp(Spread::default()),
        }
    }
}

#[derive(Debug)]
pub(super) enum Accumulator {
    Sum(Sum),
    Avg(Sum),
    Extreme(Ordering, Option<Value>),
    First(Option<Value>),
    Last(Option<Value>),
    Push(Elements),
    AddToSet(ValueSet),
    Count(i64),
    MergeObjects(Vec<u8>),
    StdDevPop(Spread),
    StdDevSamp(Spread),
}

impl Accumulator {
    /// Takes the value of one document, None for Missing; answers by how many bytes it grew.
    pub(super) fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        match self {
            Accumulator::Sum(sum) | Accumulator::Avg(sum) => {
                if let Some(number) = value.and_then(Number::from_raw) {
                    sum.add(number);
                }
            }
            Accumulator::Extreme(wanted, best) => {
                let Some(value) = value.filter(|value| !value.is_nullish()) else {
                    return Ok(0);
                };
                if best
                    .as_ref()
                    .is_none_or(|best| compare_values(value, best.as_raw()) == *wanted)
                {
                    return Ok(replace(best, value));
                }
            }
            Accumulator::First(first) => {
                if first.is_none() {
                    return Ok(replace(first, value.unwrap_or(RawValue::Null)));
                }
            }
            Accumulator::Last(last) => return Ok(replace(last, value.unwrap_or(RawValue::Null))),
            Accumulator::Push(elements) => {
                if let Some(value) = value {
                    return elements.push(value);
                }
            }
            Accumulator::AddToSet(set) => {
                if let Some(value) = value {
                    bounds::check_depth(value, 2)?;
                    return Ok(set.insert(value)?.1);
                }
            }
            Accumulator::Count(count) => *count += 1,
            Accumulator::MergeObjects(merged) => return merge(merged, value),
            Accumulator::StdDevPop(spread) | Accumulator::StdDevSamp(spread) => {
                if let Some(value) = value {
                    spread.add(value);
                }
            }
        }
        Ok(0)
    }

    /// The bytes that it takes beside its own size: as much as `add` has answered.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Accumulator::Extreme(_, value)
            | Accumulator::First(value)
            | Accumulator::Last(value) => value.as_ref().map_or(0, |value| value.as_bytes().len()),
            Accumulator::Push(elements) => {
                elements.bytes + elements.values.len() * size_of::<Value>()
            }
            Accumulator::AddToSet(set) => set.held_bytes(),
            Accumulator::MergeObjects(merged) => merged.len(),
            Accumulator::Sum(_)
            | Accumulator::Avg(_)
            | Accumulator::Count(_)
            | Accumulator::StdDevPop(_)
            | Accumulator::StdDevSamp(_) => 0,
        }
    }

    /// Appends the result under a name.
    pub(super) fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        match self {
            Accumulator::Sum(sum) => out.append(name, sum.total().raw()),
            Accumulator::Avg(sum) => {
                out.append(name, sum.mean().map_or(RawValue::Null, Number::raw))
            }
            Accumulator::Extreme(_, value)
            | Accumulator::First(value)
            | Accumulator::Last(value) => {
                out.append(name, value.as_ref().map_or(RawValue::Null, Value::as_raw))
            }
            Accumulator::Push(elements) => {
                elements.write(&mut out.array(name))?;
                out
            }
            Accumulator::AddToSet(set) => {
                let mut array = out.array(name);
                for value in set.values() {
                    interrupts::work_on_bytes(value.as_bytes().len())?;
                    array.push(value);
                    bounds::check_bytes(array.len_bytes())?;
                }
                array.finish();
                out
            }
            Accumulator::Count(count) => out.append(name, Number::int(*count).raw()),
            Accumulator::MergeObjects(merged) => out.append(name, RawDocument::new(merged)?),
            Accumulator::StdDevPop(spread) => out.append(
                name,
                spread.population().map_or(RawValue::Null, RawValue::Double),
            ),
            Accumulator::StdDevSamp(spread) => out.append(
                name,
                spread.sample().map_or(RawValue::Null, RawValue::Double),
            ),
        };
        Ok(())
    }
}

/// Sets the value; the growth counts what an owned value takes beside its inline bytes.
fn replace(slot: &mut Option<Value>, value: RawValue<'_>) -> usize {
    let old = slot.as_ref().map_or(0, |old| old.as_bytes().len());
    let new = slot.insert(Value::from(value)).as_bytes().len();
    new.saturating_sub(old)
}

/// Documents merge field by field, the later one wins and the earlier one gives the place.
fn merge(merged: &mut Vec<u8>, value: Option<RawValue<'_>>) -> Result<usize> {
    let Some(value) = value else { return Ok(0) };
    bounds::check_depth(value, 1)?;
    let before = merged.len();
    merge_into(merged, value)?;
    Ok(merged.len().saturating_sub(before))
}

/// The values of a `$push`.
#[derive(Debug, Default)]
pub(super) struct Elements {
    values: Vec<Value>,
    bytes: usize,
}

impl Elements {
    fn push(&mut self, value: RawValue<'_>) -> Result<usize> {
        if matches!(
            value.element_type(),
            ElementType::Document | ElementType::Array
        ) {
            bounds::check_depth(value, 2)?;
        }
        let value = Value::from(value);
        let grown = size_of::<Value>() + value.as_bytes().len();
        self.bytes += value.as_bytes().len();
        bounds::check_bytes(self.bytes)?;
        self.values.push(value);
        Ok(grown)
    }

    fn write(&self, out: &mut ArrayBuilder<'_>) -> Result<()> {
        for value in &self.values {
            interrupts::work_on_bytes(value.as_bytes().len())?;
            out.push(value);
        }
        Ok(())
    }
}
