//! `$percentile` and `$median`: what both are given, as accumulators and as expressions, and the digest that accumulators keep.
//!
//! An expression sorts the numbers of its array and answers with one of them, as MongoDB does for `approximate`. An accumulator keeps
//! a t-digest (Dunning and Ertl, "Computing extremely accurate quantiles using t-digests"): while there are few values each
//! stands for itself and the answer is exact; of many, neighbours become one mean, the more of them the farther they are
//! from both ends.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawValue, Value};

use super::parameters::parameters;
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, type_name};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::memory::{Charge, Counted};

/// The operator whose result is an array, one value for each percentile.
const PERCENTILE: &str = "$percentile";
/// The digest's measure of exactness: it keeps about as many means.
const COMPRESSION: f64 = 1000.0;
/// Values that wait for being merged into the digest.
const WAITING_MAX: usize = 5000;
/// The work of merging one value or mean into the digest.
const UNITS_OF_A_MEAN: usize = 10;

/// The code of the error for a specification that is no object, of the accumulator of that name; None for any other name.
pub(crate) fn code_of_accumulator(name: &str) -> Option<i32> {
    match name {
        PERCENTILE => Some(7_429_703),
        "$median" => Some(7_436_100),
        _ => None,
    }
}

/// The parameters of both operators.
pub(crate) struct Options<'v> {
    pub input: RawValue<'v>,
    /// The percentiles as they were given; None for `$median`.
    pub p: Option<RawValue<'v>>,
}

/// Reads the parameters; `not_object` is the code of the error for anything but a document.
pub(crate) fn options<'v>(
    name: &str,
    operand: RawValue<'v>,
    not_object: i32,
) -> Result<Options<'v>> {
    let has_p = name == PERCENTILE;
    let unknown = |found: &str| {
        let text = format!("BSON field '{name}.{found}' is an unknown field.");
        Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text)
    };
    let [input, p, method] = parameters(
        operand,
        ["input", "p", "method"],
        |found| {
            let text = format!("specification must be an object; found {name}: {found}");
            Error::location(not_object, text)
        },
        unknown,
    )?;
    if p.is_some() && !has_p {
        return Err(unknown("p"));
    }
    let need = |value: Option<RawValue<'v>>, field: &str| {
        value.ok_or_else(|| {
            let text = format!("BSON field '{name}.{field}' is missing but a required field");
            Error::location(40414, text)
        })
    };
    let input = need(input, "input")?;
    let p = has_p.then(|| need(p, "p")).transpose()?;
    match need(method, "method")? {
        RawValue::String(method) if method == "approximate" => Ok(Options { input, p }),
        RawValue::String(_) => Err(Error::bad_value(
            "Currently only 'approximate' can be used as percentile 'method'.",
        )),
        other => Err(Error::type_mismatch(format!(
            "BSON field '{name}.method' is the wrong type '{}', expected type 'string'",
            type_name(other)
        ))),
    }
}

/// The percentiles of a constant: an array of numbers from 0 to 1. `value` is None for what is no constant.
pub(crate) fn percentiles(given: RawValue<'_>, value: Option<&Value>) -> Result<Box<[f64]>> {
    let Some(value) = value else {
        let text = format!(
            "The $percentile 'p' field must be an array of constant values, but found value: {given}."
        );
        return Err(Error::location(7_750_300, text));
    };
    let refused = |code, found: RawValue<'_>| {
        let text = format!(
            "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: {found}"
        );
        Error::location(code, text)
    };
    let found = value.as_raw();
    let array = found.as_array().filter(|array| !array.is_empty());
    let array = array.ok_or_else(|| refused(7_750_301, found))?;
    let each = array.iter().map(|p| {
        interrupts::work(1)?;
        let number = p.as_f64_lossy().ok_or_else(|| refused(7_750_302, p))?;
        match (0.0..=1.0).contains(&number) {
            true => Ok(number),
            false => Err(refused(7_750_303, p)),
        }
    });
    each.collect()
}

/// The percentiles that an operator was given, and the form of its result.
#[derive(Debug)]
pub(crate) struct Wanted {
    percentiles: Box<[f64]>,
    /// The result is one number and no array.
    is_single: bool,
}

impl Wanted {
    /// Those of `$percentile`, or the one of `$median`.
    pub(crate) fn new(percentiles: Option<Box<[f64]>>) -> Wanted {
        Wanted {
            is_single: percentiles.is_none(),
            percentiles: percentiles.unwrap_or_else(|| Box::new([0.5])),
        }
    }

    /// Appends the result under a name.
    pub(crate) fn write(
        &self,
        digest: &Digest,
        name: &str,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        interrupts::work((digest.means.len() + digest.waiting.len()) * UNITS_OF_A_MEAN)?;
        let digest = digest.merged();
        let value = |p: f64| {
            digest
                .percentile(p)
                .map_or(RawValue::Null, RawValue::Double)
        };
        if self.is_single {
            out.append(name, value(self.percentiles[0]));
            return Ok(());
        }
        let mut array = out.array(name);
        for p in &self.percentiles {
            interrupts::work(1 + digest.means.len())?;
            array.push(value(*p));
        }
        array.finish();
        Ok(())
    }
}

pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let not_object = match operator.name {
        PERCENTILE => 7_436_200,
        _ => 7_436_201,
    };
    let options = options(operator.name, operand, not_object)?;
    let input = Expression::read(options.input, variables)?;
    let p = match options.p {
        None => Value::from(0.5),
        Some(given) => {
            let read = Expression::read(given, variables)?.folded()?;
            let wanted = percentiles(given, read.constant())?;
            wanted.iter().map(|p| Value::from(*p)).collect()
        }
    };
    let arguments = vec![input, Expression::Literal(p)];
    Ok(Expression::call(operator, arguments, Vec::new()))
}

/// The percentiles of a number, or of the numbers of an array.
pub(super) fn evaluate<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (input, p) = (call.argument(0, context)?, call.argument(1, context)?);
    let (mut numbers, mut charge) = (Vec::new(), Charge::default());
    match input.as_raw() {
        Some(RawValue::Array(array)) => {
            for number in array.iter().filter_map(|item| item.as_f64_lossy()) {
                interrupts::work(1)?;
                numbers.push(number);
            }
            charge.grow(numbers.capacity() * size_of::<f64>())?;
        }
        Some(other) => numbers.extend(other.as_f64_lossy()),
        None => {}
    }
    numbers.retain(|number| !number.is_nan());
    crate::sorter::sort_in_steps(&mut numbers, f64::total_cmp)?;
    let value = |p: f64| match numbers.is_empty() {
        true => RawValue::Null,
        false => RawValue::Double(numbers[rank(numbers.len(), p)]),
    };
    let Some(wanted) = p.as_array() else {
        return Ok(Evaluated::Raw(value(0.5)));
    };
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for p in wanted.iter().filter_map(|p| p.as_f64_lossy()) {
        interrupts::work(1)?;
        builder.push(value(p));
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

/// The place of a percentile among so many sorted values: the first that so large a share of them does not exceed.
fn rank(count: usize, p: f64) -> usize {
    let rank = (count as f64 * p).ceil() as usize;
    rank.clamp(1, count) - 1
}

/// A t-digest. Infinities are counted beside it, and NaN is passed over.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    /// Sorted by mean.
    means: Vec<Mean>,
    /// Values that are not merged yet.
    waiting: Vec<f64>,
    /// The least and the greatest of all.
    extremes: Option<(f64, f64)>,
    below: u64,
    above: u64,
}

/// The mean of some neighbours.
#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    weight: f64,
}

impl Digest {
    pub(crate) fn add(&mut self, number: f64) -> Result<()> {
        match number {
            f64::NEG_INFINITY => self.below += 1,
            f64::INFINITY => self.above += 1,
            number if number.is_nan() => {}
            number => {
                self.waiting.push(number);
                let (least, greatest) = self.extremes.unwrap_or((number, number));
                self.extremes = Some((least.min(number), greatest.max(number)));
                if self.waiting.len() == WAITING_MAX {
                    interrupts::work((self.means.len() + WAITING_MAX) * UNITS_OF_A_MEAN)?;
                    self.means = self.merged().means;
                    self.waiting.clear();
                }
            }
        }
        Ok(())
    }

    /// The bytes of its lists.
    pub(crate) fn held_bytes(&self) -> usize {
        self.means.capacity() * size_of::<Mean>() + self.waiting.capacity() * size_of::<f64>()
    }

    /// The digest with no value waiting.
    fn merged(&self) -> Digest {
        let mut all = self.means.clone();
        all.extend(self.waiting.iter().map(|value| Mean {
            value: *value,
            weight: 1.0,
        }));
        all.sort_by(|a, b| a.value.total_cmp(&b.value));
        let total: f64 = all.iter().map(|mean| mean.weight).sum();
        let mut means: Vec<Mean> = Vec::new();
        let (mut before, mut limit) = (0.0, 0.0);
        for next in all {
            if let Some(last) = means.last_mut()
                && before + last.weight + next.weight <= limit
            {
                last.weight += next.weight;
                last.value += (next.value - last.value) * (next.weight / last.weight);
                continue;
            }
            before += means.last().map_or(0.0, |last| last.weight);
            limit = total * widest(before / total);
            means.push(next);
        }
        Digest {
            means,
            waiting: Vec::new(),
            extremes: self.extremes,
            below: self.below,
            above: self.above,
        }
    }

    /// The percentile of a digest in which no value waits; None where it has seen none.
    fn percentile(&self, p: f64) -> Option<f64> {
        debug_assert!(self.waiting.is_empty());
        let finite: f64 = self.means.iter().map(|mean| mean.weight).sum();
        let count = finite as u64 + self.below + self.above;
        if count == 0 {
            return None;
        }
        let rank = rank(usize::try_from(count).unwrap_or(usize::MAX), p) as u64;
        if rank < self.below {
            return Some(f64::NEG_INFINITY);
        }
        let rank = (rank - self.below) as f64;
        if rank >= finite {
            return Some(f64::INFINITY);
        }
        match self.extremes {
            Some((least, _)) if rank == 0.0 => return Some(least),
            Some((_, greatest)) if rank == finite - 1.0 => return Some(greatest),
            _ => {}
        }
        // The values of a mean lie about its middle; one that stands for itself is the answer.
        let (mut before, mut last): (f64, Option<(f64, f64)>) = (0.0, None);
        for mean in &self.means {
            let middle = before + (mean.weight - 1.0) / 2.0;
            if rank <= middle {
                return Some(match last {
                    Some((place, value)) if rank < middle && middle > place => {
                        value + (mean.value - value) * ((rank - place) / (middle - place))
                    }
                    _ => mean.value,
                });
            }
            before += mean.weight;
            last = Some((middle, mean.value));
        }
        last.map(|(_, value)| value)
    }
}

/// The share of the values at which a mean ends that begins at a share: the scale is that of the arcsine.
fn widest(begins: f64) -> f64 {
    use std::f64::consts::{FRAC_PI_2, TAU};
    let place = (2.0 * begins - 1.0).clamp(-1.0, 1.0).asin() + TAU / COMPRESSION;
    match place >= FRAC_PI_2 {
        true => 1.0,
        false => (place.sin() + 1.0) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(values: impl IntoIterator<Item = f64>) -> Digest {
        let mut digest = Digest::default();
        for value in values {
            digest.add(value).unwrap();
        }
        digest.merged()
    }

    #[test]
    fn few_values_are_exact_and_many_are_near() {
        let few = digest([5.0, 1.0, 4.0, 2.0, 3.0]);
        let found = [0.0, 0.2, 0.21, 0.5, 1.0].map(|p| few.percentile(p).unwrap());
        assert_eq!(found, [1.0, 1.0, 2.0, 3.0, 5.0]);
        // A permutation of 0 .. 100,003, which is prime.
        let count = 100_003_u64;
        let many = digest((0..count).map(|n| (n * 7_919 % count) as f64));
        assert!(
            many.means.len() < 2 * COMPRESSION as usize,
            "{}",
            many.means.len()
        );
        for p in [0.0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0] {
            let (found, exact) = (many.percentile(p).unwrap(), p * count as f64);
            assert!(
                (found - exact).abs() <= count as f64 / 1000.0,
                "{p}: {found}"
            );
        }
        assert_eq!(many.percentile(0.0), Some(0.0));
        assert_eq!(many.percentile(1.0), Some((count - 1) as f64));
    }

    #[test]
    fn infinities_stand_at_the_ends_and_nan_nowhere() {
        let ends = digest([f64::INFINITY, 1.0, f64::NAN, f64::NEG_INFINITY]);
        let found = [0.0, 0.5, 1.0].map(|p| ends.percentile(p).unwrap());
        assert_eq!(found, [f64::NEG_INFINITY, 1.0, f64::INFINITY]);
        assert_eq!(digest([f64::NAN]).percentile(0.5), None);
    }
}
