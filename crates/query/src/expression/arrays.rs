//! `$size $arrayElemAt $first $last $slice $concatArrays $in $indexOfArray $isArray $range $reverseArray`.

use quarry_bson::{ArrayBuilder, RawArray, RawElement};

use super::strings::length;
use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};
use crate::interrupts::{self, units_collated, units_of};
use crate::memory::Counted;

pub(super) fn size<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(array) = value.as_array() else {
        let text = format!(
            "The argument to $size must be an array, but was of type: {}",
            value.type_name()
        );
        return Err(Error::location(17124, text));
    };
    count_walk(&value)?;
    Ok(length(array.len()))
}

pub(super) fn element_at<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (value, position) = (call.argument(0, context)?, call.argument(1, context)?);
    if value.is_nullish() || position.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    if value.as_array().is_none() {
        let text = format!(
            "$arrayElemAt's first argument must be an array, but is {}",
            value.type_name()
        );
        return Err(Error::location(28689, text));
    }
    if !position
        .as_raw()
        .is_some_and(|position| position.is_number())
    {
        let text = format!(
            "$arrayElemAt's second argument must be a numeric value, but is {}",
            position.type_name()
        );
        return Err(Error::location(28690, text));
    }
    let Some(index) = whole(&position) else {
        let text = format!(
            "$arrayElemAt's second argument must be representable as a 32-bit integer: {}",
            position.display()
        );
        return Err(Error::location(28691, text));
    };
    count_walk(&value)?;
    Ok(pick(&value, index))
}

/// Counts the work of walking over an array, which knows neither how many elements it has nor where one of them is.
fn count_walk(value: &Evaluated<'_>) -> Result<()> {
    interrupts::work_on_bytes(value.as_array().map_or(0, |array| array.as_bytes().len()))
}

/// The element at an index, counted from the end where negative.
fn pick<'a>(value: &Evaluated<'a>, index: i32) -> Evaluated<'a> {
    value.select(|value| {
        let array = value.as_array()?;
        let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index >= 0 {
            array.get(from_end)
        } else {
            array.get(array.len().checked_sub(from_end)?)
        }
    })
}

pub(super) fn first<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    end(call, context, 0)
}

pub(super) fn last<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    end(call, context, -1)
}

fn end<'a>(call: &'a Call, context: &mut Context<'a>, index: i32) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    if value.as_array().is_none() {
        let text = format!(
            "{}'s argument must be an array, but is {}",
            call.name(),
            value.type_name()
        );
        return Err(Error::location(28689, text));
    }
    count_walk(&value)?;
    Ok(pick(&value, index))
}

/// The value as an Int32, whatever numeric type it has.
pub(super) fn whole(value: &Evaluated<'_>) -> Option<i32> {
    value
        .as_raw()?
        .as_i64_exact()
        .and_then(|whole| i32::try_from(whole).ok())
}

/// Checks a numeric argument that must be a 32-bit integer; the two texts end in the type and in the value.
pub(super) fn whole_argument(
    value: &Evaluated<'_>,
    number: (i32, &str),
    integral: (i32, &str),
) -> Result<i32> {
    if !value.as_raw().is_some_and(|value| value.is_number()) {
        return Err(Error::location(
            number.0,
            format!("{}{}", number.1, value.type_name()),
        ));
    }
    whole(value)
        .ok_or_else(|| Error::location(integral.0, format!("{}{}", integral.1, value.display())))
}

pub(super) fn slice<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (value, second) = (call.argument(0, context)?, call.argument(1, context)?);
    if value.is_nullish() || second.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = value.as_array() else {
        let text = format!(
            "First argument to $slice must be an array, but is of type: {}",
            value.type_name()
        );
        return Err(Error::location(28724, text));
    };
    let second = whole_argument(
        &second,
        (
            28725,
            "Second argument to $slice must be a numeric value, but is of type: ",
        ),
        (
            28726,
            "Second argument to $slice can't be represented as a 32-bit integer: ",
        ),
    )?;
    let len = array.len();
    let magnitude = second.unsigned_abs() as usize;
    if !call.has(2) {
        let (skip, take) = if second < 0 {
            (len.saturating_sub(magnitude), magnitude)
        } else {
            (0, magnitude)
        };
        return copy_range(array, skip, take);
    }
    let third = call.argument(2, context)?;
    if third.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let third = whole_argument(
        &third,
        (
            28727,
            "Third argument to $slice must be numeric, but is of type: ",
        ),
        (
            28728,
            "Third argument to $slice can't be represented as a 32-bit integer: ",
        ),
    )?;
    if third <= 0 {
        return Err(Error::location(
            28729,
            format!("Third argument to $slice must be positive: {third}"),
        ));
    }
    let skip = if second < 0 {
        len.saturating_sub(magnitude)
    } else {
        magnitude
    };
    copy_range(array, skip, third as usize)
}

fn copy_range<'a>(array: RawArray<'_>, skip: usize, take: usize) -> Result<Evaluated<'a>> {
    interrupts::work_on_bytes(array.as_bytes().len())?;
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for element in array.elements().skip(skip).take(take) {
        interrupts::work(1)?;
        builder.push_element(element);
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

pub(super) fn concat<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        if value.is_nullish() {
            return Ok(Evaluated::NULL);
        }
        let Some(array) = value.as_array() else {
            return Err(Error::location(
                28664,
                format!(
                    "$concatArrays only supports arrays, not {}",
                    value.type_name()
                ),
            ));
        };
        for element in array.elements() {
            interrupts::work(1)?;
            builder.push_element(element);
            built.charge.cover(builder.len_bytes())?;
        }
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

pub(super) fn contains<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (wanted, list) = (call.argument(0, context)?, call.argument(1, context)?);
    let Some(array) = list.as_array() else {
        let text = format!(
            "$in requires an array as a second argument, found: {}",
            list.type_name()
        );
        return Err(Error::location(40081, text));
    };
    let Some(wanted) = wanted.as_raw() else {
        return Ok(Evaluated::FALSE);
    };
    let most = units_of(wanted);
    for item in array {
        interrupts::work(units_collated(&call.collation, units_of(item).min(most)))?;
        if call.collation.are_equal(item, wanted) {
            return Ok(Evaluated::TRUE);
        }
    }
    Ok(Evaluated::FALSE)
}

pub(super) fn index_of<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let list = call.argument(0, context)?;
    if list.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = list.as_array() else {
        let text = format!(
            "$indexOfArray requires an array as a first argument, found: {}",
            list.type_name()
        );
        return Err(Error::location(40090, text));
    };
    let wanted = call.argument(1, context)?;
    let start = position(call, context, 2, "starting")?.unwrap_or(0);
    let end = position(call, context, 3, "ending")?.unwrap_or(usize::MAX);
    let Some(wanted) = wanted.as_raw() else {
        return Ok(Evaluated::from(-1));
    };
    let most = units_of(wanted);
    for (index, item) in array.iter().enumerate().take(end) {
        interrupts::work(units_collated(&call.collation, units_of(item).min(most)))?;
        if index >= start && call.collation.are_equal(item, wanted) {
            return Ok(length(index));
        }
    }
    Ok(Evaluated::from(-1))
}

/// An index argument of the `$indexOf...` operators, None if not given.
pub(super) fn position<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    at: usize,
    which: &str,
) -> Result<Option<usize>> {
    if !call.has(at) {
        return Ok(None);
    }
    let (value, name) = (call.argument(at, context)?, call.name());
    let Some(index) = whole(&value) else {
        let text = format!(
            "{name} requires an integral {which} index, found a value of type: {}, with value: {}",
            value.type_name(),
            value.display()
        );
        return Err(Error::location(40096, text));
    };
    let index = usize::try_from(index).map_err(|_| {
        Error::location(
            40097,
            format!("{name} requires a nonnegative {which} index, found: {index}"),
        )
    })?;
    Ok(Some(index))
}

pub(super) fn is_array<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(call.argument(0, context)?.as_array().is_some().into())
}

pub(super) fn range<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (start, end) = (call.argument(0, context)?, call.argument(1, context)?);
    let start = whole_argument(
        &start,
        (
            34443,
            "$range requires a numeric starting value, found value of type: ",
        ),
        (
            34444,
            "$range requires a starting value that can be represented as a 32-bit integer, found value: ",
        ),
    )?;
    let end = whole_argument(
        &end,
        (
            34445,
            "$range requires a numeric ending value, found value of type: ",
        ),
        (
            34446,
            "$range requires an ending value that can be represented as a 32-bit integer, found value: ",
        ),
    )?;
    let step = if call.has(2) {
        whole_argument(
            &call.argument(2, context)?,
            (
                34447,
                "$range requires a numeric step value, found value of type: ",
            ),
            (
                34448,
                "$range requires a step value that can be represented as a 32-bit integer, found value: ",
            ),
        )?
    } else {
        1
    };
    if step == 0 {
        return Err(Error::location(
            34449,
            "$range requires a non-zero step value",
        ));
    }
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    let mut next = i64::from(start);
    while (step > 0 && next < i64::from(end)) || (step < 0 && next > i64::from(end)) {
        interrupts::work(1)?;
        builder.push(next as i32);
        built.charge.cover(builder.len_bytes())?;
        next += i64::from(step);
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

pub(super) fn reverse<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = value.as_array() else {
        let text = format!(
            "The argument to $reverseArray must be an array, but was of type: {}",
            value.type_name()
        );
        return Err(Error::location(34435, text));
    };
    // Elements are found from the front only: a mark is kept every so often, and the run behind each is turned over.
    let (mut marks, mut left) = (Vec::new(), array.elements());
    while !left.remaining_bytes().is_empty() {
        interrupts::work(RUN_ELEMENTS)?;
        marks.push(left.clone());
        if left.nth(RUN_ELEMENTS - 1).is_none() {
            break;
        }
    }
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for mark in marks.into_iter().rev() {
        interrupts::work(RUN_ELEMENTS)?;
        let run: Vec<RawElement<'_>> = mark.take(RUN_ELEMENTS).collect();
        for element in run.into_iter().rev() {
            builder.push_element(element);
            built.charge.cover(builder.len_bytes())?;
        }
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

/// Elements between two marks when an array is turned over.
const RUN_ELEMENTS: usize = 256;
