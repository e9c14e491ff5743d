//! The values that one predicate leaves possible, as intervals.
//!
//! Operands that an index keeps in another form than a filter compares them in (undefined, arrays but for equality, the
//! ends of the order) bound nothing.

use quarry_bson::{ElementType, RawValue};

use super::interval::{Cut, Interval, UNITS_OF_AN_INTERVAL};
use super::texts::Texts;
use crate::interrupts;
use crate::matcher::{CompareOp, Predicate, RegexPredicate, type_bit};
use crate::sorter::sort_in_steps;

const UNITS_OF_A_JOIN: usize = 3;

/// The keys that a question for null means.
#[derive(Clone, Copy)]
enum Null {
    /// All that may stand for null, and what stands for an empty array.
    Wide,
    /// Those alone that stand for nothing else.
    Alone,
}

/// The intervals in which some key of every document lies that meets the predicate; none where it bounds nothing.
pub fn of_predicate<'m>(predicate: &'m Predicate, texts: Texts<'_>) -> Option<Vec<Interval<'m>>> {
    match predicate {
        Predicate::Compare { op, value } => of_comparison(*op, value.as_raw(), texts, Null::Wide),
        Predicate::In(list) => {
            let mut intervals = Vec::new();
            for value in list.values() {
                if interrupts::is_over(UNITS_OF_AN_INTERVAL) {
                    return None;
                }
                intervals.extend(equality(value.as_raw(), texts, Null::Wide)?);
            }
            for regex in list.regexes() {
                intervals.extend(of_regex(regex, texts)?);
            }
            Some(merged(intervals))
        }
        Predicate::Regex(regex) => of_regex(regex, texts),
        Predicate::Test(test) => of_types(test.kept_types()?),
        _ => None,
    }
}

/// The keys that every document has that does not meet a predicate.
pub enum Negation<'m> {
    /// Those outside of these intervals alone.
    Outside(Vec<Interval<'m>>),
    /// That of what is missing.
    Missing,
}

/// The keys of documents that do not meet the predicate; none where nobody knows.
pub fn of_negation<'m>(predicate: &'m Predicate, texts: Texts<'_>) -> Option<Negation<'m>> {
    match predicate {
        Predicate::Compare { op, value } if is_negatable(value.as_raw()) => {
            of_comparison(*op, value.as_raw(), texts, Null::Alone).map(Negation::Outside)
        }
        Predicate::In(list) if list.regexes().is_empty() => {
            let mut intervals = Vec::new();
            for value in list.values() {
                if interrupts::is_over(UNITS_OF_AN_INTERVAL) || !is_negatable(value.as_raw()) {
                    return None;
                }
                intervals.extend(equality(value.as_raw(), texts, Null::Alone)?);
            }
            Some(Negation::Outside(intervals))
        }
        // Missing and null are keyed alike.
        Predicate::Exists => Some(Negation::Missing),
        _ => None,
    }
}

/// Whether each value with a key in the intervals of an equality is equal.
fn is_negatable(value: RawValue<'_>) -> bool {
    !matches!(value, RawValue::Array(_) | RawValue::Undefined)
}

/// The intervals of values that stand so to a constant in the order of all types. A missing value is below null, and keyed as
/// null. `$eq` is implied by a predicate of its own.
pub fn of_total_order<'m>(
    op: CompareOp,
    value: RawValue<'m>,
    texts: Texts<'_>,
) -> Option<Vec<Interval<'m>>> {
    if !is_negatable(value) || matches!(value, RawValue::MinKey | RawValue::MaxKey) {
        return None;
    }
    match op {
        CompareOp::Eq => None,
        _ => texts.intervals(value, |kept| vec![of_all_types(op, kept)]),
    }
}

fn of_all_types(op: CompareOp, value: RawValue<'_>) -> Interval<'_> {
    let mut interval = Interval::all();
    match op {
        CompareOp::Gt => interval.low = Cut::behind(value).exclusive(),
        CompareOp::Gte | CompareOp::Eq => interval.low = Cut::before(value),
        // What is missing is below null, and has its key.
        CompareOp::Lt if matches!(value, RawValue::Null) => interval.high = Cut::behind(value),
        CompareOp::Lt => interval.high = Cut::before(value).exclusive(),
        CompareOp::Lte => interval.high = Cut::behind(value),
    }
    interval
}

/// Whether the values in the intervals of a predicate are just those that match it. A key of null says too little: it
/// stands for a missing field as well; and a regular expression asks more than its prefix.
pub fn is_exact(predicate: &Predicate) -> bool {
    let is_kept_whole = |value: RawValue<'_>| !matches!(value, RawValue::Null | RawValue::Array(_));
    match predicate {
        Predicate::Compare { value, .. } => is_kept_whole(value.as_raw()),
        Predicate::In(list) => {
            let mut values = list.values().iter();
            values.all(|value| is_kept_whole(value.as_raw())) && list.regexes().is_empty()
        }
        _ => false,
    }
}

/// The keys of one value. An array that is equal to an array is keyed by its elements, and one that has it as an element by
/// that.
fn equality<'m>(value: RawValue<'m>, texts: Texts<'_>, null: Null) -> Option<Vec<Interval<'m>>> {
    match value {
        RawValue::Undefined => None,
        RawValue::Null => Some(vec![of_null(null)]),
        RawValue::Array(array) => {
            let first = array.iter().next().unwrap_or(RawValue::Undefined);
            let mut intervals = texts.intervals(value, point)?;
            intervals.extend(texts.intervals(first, point)?);
            Some(merged(intervals))
        }
        value => texts.intervals(value, point),
    }
}

fn point(kept: RawValue<'_>) -> Vec<Interval<'_>> {
    vec![Interval::point(kept)]
}

fn of_null<'m>(null: Null) -> Interval<'m> {
    match null {
        Null::Wide => Interval::null(),
        Null::Alone => Interval::point(RawValue::Null),
    }
}

fn of_comparison<'m>(
    op: CompareOp,
    value: RawValue<'m>,
    texts: Texts<'_>,
    null: Null,
) -> Option<Vec<Interval<'m>>> {
    let is_nan = value.is_number() && value.as_f64_lossy().is_some_and(f64::is_nan);
    match value {
        _ if op == CompareOp::Eq => return equality(value, texts, null),
        RawValue::Null => {
            let takes_null = !matches!(op, CompareOp::Gt | CompareOp::Lt);
            return takes_null.then(|| vec![of_null(null)]);
        }
        RawValue::Array(_) | RawValue::Undefined => return None,
        RawValue::MinKey | RawValue::MaxKey => return None,
        _ if is_nan => return None,
        _ => {}
    }
    texts.intervals(value, |kept| of_order(op, kept))
}

/// The values of the type of `value` that are above or below it.
fn of_order(op: CompareOp, value: RawValue<'_>) -> Vec<Interval<'_>> {
    let mut interval = Interval::type_of(value);
    match op {
        CompareOp::Gt => interval.low = Cut::behind(value).exclusive(),
        CompareOp::Gte | CompareOp::Eq => interval.low = Cut::before(value),
        CompareOp::Lt => interval.high = Cut::before(value).exclusive(),
        CompareOp::Lte => interval.high = Cut::behind(value),
    }
    match interval.is_empty() {
        true => Vec::new(),
        false => vec![interval],
    }
}

/// Texts with the prefix, and stored regular expressions. The sort key of a text does not tell what it begins with.
fn of_regex<'m>(regex: &'m RegexPredicate, texts: Texts<'_>) -> Option<Vec<Interval<'m>>> {
    let prefix = regex.prefix()?;
    let stored = quarry_bson::RawRegex {
        pattern: regex.pattern().into(),
        options: regex.options().into(),
    };
    Some(vec![
        match texts.are_sort_keys() {
            true => Interval::texts(),
            false => Interval::text_prefix(&prefix.text),
        },
        Interval::type_of(RawValue::Regex(stored)),
    ])
}

/// The keys of the types whose bits are set. Arrays are keyed by their elements.
fn of_types<'m>(types: u32) -> Option<Vec<Interval<'m>>> {
    let is_set = |element_type: &ElementType| types & type_bit(*element_type) != 0;
    if is_set(&ElementType::Array) {
        return None;
    }
    let set = ElementType::ALL.into_iter().filter(is_set);
    Some(merged(set.map(Interval::of_type).collect()))
}

/// The intervals outside of these, which are in order and apart.
pub fn complement(of: Vec<Interval<'_>>) -> Vec<Interval<'_>> {
    let all = Interval::all();
    let mut low = all.low;
    let mut outside = Vec::with_capacity(of.len() + 1);
    for interval in of {
        outside.push(Interval {
            low,
            high: interval.low.turned_over(),
            is_point: false,
        });
        low = interval.high.turned_over();
    }
    outside.push(Interval {
        low,
        high: all.high,
        is_point: false,
    });
    outside.retain(|interval| !interval.is_empty());
    outside
}

/// Sorts, and joins what overlaps.
pub fn merged(mut intervals: Vec<Interval<'_>>) -> Vec<Interval<'_>> {
    if sort_in_steps(&mut intervals, |a, b| a.low.bytes.cmp(&b.low.bytes)).is_err() {
        return Vec::new();
    }
    let mut apart: Vec<Interval<'_>> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        if interrupts::is_over(UNITS_OF_A_JOIN) {
            break;
        }
        match apart.last_mut() {
            Some(last) if interval.low.bytes < last.high.bytes => {
                last.is_point = false;
                if interval.high.bytes > last.high.bytes {
                    last.high = interval.high;
                }
            }
            _ => apart.push(interval),
        }
    }
    debug_assert!(
        apart.is_sorted_by(|a, b| a.high.bytes <= b.low.bytes),
        "intervals of a field stand apart, in order"
    );
    apart
}
