//! The accumulators of `$group` over windows.
//!
//! A window that begins with the partition grows, and each row is added once. Any other window is accumulated anew for each
//! row, but for these: sums and means of integers are differences of sums that begin with the partition, exactly; other numbers are
//! read once and kept, so that a window adds what is kept; `$first` and `$last` look at one row.

use std::sync::Arc;

use quarry_bson::{Document, RawValue, Value};

use super::super::accumulation::Accumulation;
use super::super::accumulators::Column;
use super::bounds::Bounds;
use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::Result;
use crate::expression::number::Number;
use crate::expression::sum::Sum;
use crate::interrupts;
use crate::stage_memory::BoundedMemory;

struct Accumulated {
    accumulation: Accumulation,
    bounds: Bounds,
}

/// The accumulator of the function's name; None for a name that no accumulator has.
pub fn parse(given: Given<'_>) -> Result<Option<Start>> {
    let Some(function) = accumulated(&given)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move || {
        Box::new(Accumulating::of(&function))
    })))
}

fn accumulated(given: &Given<'_>) -> Result<Option<Arc<Accumulated>>> {
    let parsed = Accumulation::parse(given.name, given.value, given.specification)?;
    Ok(parsed.map(|accumulation| {
        Arc::new(Accumulated {
            accumulation,
            bounds: given.window.clone().unwrap_or(Bounds::WHOLE),
        })
    }))
}

/// Like `parse`, for a name that an accumulator has.
fn parse_known(
    given: Given<'_>,
    start: impl Fn(&Arc<Accumulated>) -> Box<dyn RunningFunction> + Send + Sync + 'static,
) -> Result<Start> {
    let function = accumulated(&given)?;
    let function = function.ok_or_else(|| {
        crate::error::Error::failed_to_parse(format!(
            "Unrecognized window function, {}",
            given.name
        ))
    })?;
    Ok(Box::new(move || start(&function)))
}

pub fn parse_first(given: Given<'_>) -> Result<Start> {
    parse_known(given, |function| {
        Box::new(AtEdge {
            function: Arc::clone(function),
            is_last: false,
        })
    })
}

pub fn parse_last(given: Given<'_>) -> Result<Start> {
    parse_known(given, |function| {
        Box::new(AtEdge {
            function: Arc::clone(function),
            is_last: true,
        })
    })
}

pub fn parse_sum(given: Given<'_>) -> Result<Start> {
    parse_known(given, |function| Box::new(Summing::of(function, false)))
}

pub fn parse_avg(given: Given<'_>) -> Result<Start> {
    parse_known(given, |function| Box::new(Summing::of(function, true)))
}

/// The accumulator over a window.
struct Accumulating {
    function: Arc<Accumulated>,
    /// The accumulator of the rows below `added`, as one group.
    column: Option<Box<dyn Column>>,
    added: usize,
    memory: BoundedMemory,
    /// The result of a window that is the same for all rows.
    whole: Option<Value>,
}

impl Accumulating {
    fn of(function: &Arc<Accumulated>) -> Accumulating {
        Accumulating {
            function: Arc::clone(function),
            column: None,
            added: 0,
            memory: BoundedMemory::default(),
            whole: None,
        }
    }

    /// Begins anew at a row.
    fn restart(&mut self, row: usize) -> Result<()> {
        let mut column = self.function.accumulation.start();
        column.begin_group(RawValue::Null)?;
        self.column = Some(column);
        self.added = row;
        self.memory = BoundedMemory::default();
        Ok(())
    }

    fn add_until(&mut self, partition: &Partition<'_>, end: usize) -> Result<()> {
        let Some(column) = &mut self.column else {
            return Ok(());
        };
        while self.added < end {
            let operand = &self.function.accumulation.operand;
            let grown = partition.with_value(operand, self.added, |value| column.add(0, value))?;
            self.memory.grow(grown, "$setWindowFields")?;
            self.added += 1;
        }
        Ok(())
    }
}

impl RunningFunction for Accumulating {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        if let Some(whole) = &self.whole {
            interrupts::work_on_bytes(whole.as_bytes().len())?;
            return Ok(Some(whole.clone()));
        }
        let rows = self.function.bounds.rows(partition, row)?;
        let goes_on = self.function.bounds.is_from_start() && self.added <= rows.end;
        if self.column.is_none() || !goes_on {
            self.restart(rows.start)?;
        }
        self.add_until(partition, rows.end)?;
        let mut result = Ok(());
        let shown = Document::build(|out| {
            if let Some(column) = &self.column {
                result = column.show(0, "v", out);
            }
        });
        result?;
        let value = shown.get("v").map(|value| value.to_value());
        if self.function.bounds.is_whole() {
            self.whole.clone_from(&value);
            self.column = None;
        }
        Ok(value)
    }
}

/// The value of the first or the last row of a window; Null where it has none.
struct AtEdge {
    function: Arc<Accumulated>,
    is_last: bool,
}

impl RunningFunction for AtEdge {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let rows = self.function.bounds.rows(partition, row)?;
        let edge = match self.is_last {
            true => rows.end.checked_sub(1),
            false => Some(rows.start),
        };
        let edge = edge.filter(|edge| rows.contains(edge));
        let value = match edge {
            None => None,
            Some(edge) => partition.evaluate(&self.function.accumulation.operand, edge)?,
        };
        Ok(Some(value.unwrap_or_else(|| RawValue::Null.to_value())))
    }
}

/// `$sum` and `$avg`.
struct Summing {
    any: Accumulating,
    is_mean: bool,
    /// Read when the first row is asked for.
    numbers: Option<Numbers>,
    memory: BoundedMemory,
}

/// The numbers of a partition.
enum Numbers {
    /// The sums of the integers that stand before each row and at the end.
    Integers(Vec<Before>),
    /// Not all of them are integers: the number of each row, None where it has none.
    Any(Vec<Option<Number>>),
}

/// The integers before a row.
#[derive(Clone, Copy, Default)]
struct Before {
    sum: i128,
    count: u64,
    /// How many of them are Int64.
    long: u64,
}

impl Summing {
    fn of(function: &Arc<Accumulated>, is_mean: bool) -> Summing {
        Summing {
            any: Accumulating::of(function),
            is_mean,
            numbers: None,
            memory: BoundedMemory::default(),
        }
    }

    fn read(&mut self, partition: &Partition<'_>) -> Result<Numbers> {
        let operand = &self.any.function.accumulation.operand;
        let mut before = Before::default();
        let mut sums = vec![before];
        for row in 0..partition.len() {
            match partition.number(operand, row)? {
                None => {}
                Some(Number::Int32(number)) => {
                    before.sum += i128::from(number);
                    before.count += 1;
                }
                Some(Number::Int64(number)) => {
                    before.sum += i128::from(number);
                    before.count += 1;
                    before.long += 1;
                }
                Some(_) => return self.read_any(partition),
            }
            self.memory.grow(size_of::<Before>(), "$setWindowFields")?;
            sums.push(before);
        }
        Ok(Numbers::Integers(sums))
    }

    fn read_any(&mut self, partition: &Partition<'_>) -> Result<Numbers> {
        self.memory = BoundedMemory::default();
        let bytes = partition.len() * size_of::<Option<Number>>();
        self.memory.grow(bytes, "$setWindowFields")?;
        let operand = &self.any.function.accumulation.operand;
        let numbers = (0..partition.len()).map(|row| partition.number(operand, row));
        Ok(Numbers::Any(numbers.collect::<Result<_>>()?))
    }
}

impl RunningFunction for Summing {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let bounds = &self.any.function.bounds;
        if bounds.is_from_start() {
            return self.any.value(partition, row);
        }
        let numbers = match &mut self.numbers {
            Some(numbers) => numbers,
            None => {
                let numbers = self.read(partition)?;
                self.numbers.insert(numbers)
            }
        };
        let rows = self.any.function.bounds.rows(partition, row)?;
        let sums = match numbers {
            Numbers::Integers(sums) => sums,
            Numbers::Any(numbers) => {
                interrupts::work(rows.len())?;
                let mut sum = Sum::default();
                numbers[rows]
                    .iter()
                    .flatten()
                    .for_each(|number| sum.add(*number));
                let result = match self.is_mean {
                    true => sum.mean(),
                    false => Some(sum.total()),
                };
                return Ok(Some(result.map_or(RawValue::Null, Number::raw).to_value()));
            }
        };
        let (from, to) = (sums[rows.start], sums[rows.end]);
        let (sum, count) = (to.sum - from.sum, to.count - from.count);
        let number = match (self.is_mean, count) {
            (true, 0) => return Ok(Some(RawValue::Null.to_value())),
            (true, count) => Number::Double(sum as f64 / count as f64),
            (false, _) if to.long > from.long => Number::long(sum),
            (false, _) => i64::try_from(sum).map_or(Number::Double(sum as f64), Number::int),
        };
        Ok(Some(number.raw().to_value()))
    }
}
