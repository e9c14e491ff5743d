//! The bounds of a window: `{documents: [-1, "current"]}` or `{range: [-7, 0], unit: "day"}`.

use std::ops::Range;
use std::sync::Arc;

use quarry_bson::compare::compare_values;
use quarry_bson::{RawValue, Value};
use quarry_keystring::Direction;

use super::super::stage::Specification;
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::number::Number;
use crate::expression::sum::Addition;
use crate::expression::{Unit, type_name};
use crate::interrupts;
use crate::sort::SortPattern;

/// The bounds of a window.
#[derive(Debug, Clone)]
pub enum Bounds {
    /// By places before and behind the row; None is unbounded.
    Documents(Option<i64>, Option<i64>),
    /// By distances from the value that the row is sorted by.
    Range(Box<Distances>),
}

#[derive(Debug, Clone)]
pub struct Distances {
    low: Option<Value>,
    high: Option<Value>,
    unit: Option<Unit>,
}

/// One end as it was given.
enum End {
    Unbounded,
    Current,
    Number(Value),
}

impl Bounds {
    /// The window that is the whole partition.
    pub const WHOLE: Bounds = Bounds::Documents(None, None);

    /// Reads the option `window` of a field.
    pub fn parse(
        value: RawValue<'_>,
        sort: Option<&Arc<SortPattern>>,
        specification: Specification<'_>,
    ) -> Result<Bounds> {
        let RawValue::Document(options) = value else {
            return Err(Error::failed_to_parse("'window' field must be an object"));
        };
        let (mut documents, mut range, mut unit) = (None, None, None);
        for option in options {
            match option.name().as_bytes() {
                b"documents" => documents = Some(option.value()),
                b"range" => range = Some(option.value()),
                b"unit" => unit = Some(option.value()),
                _ => {
                    let text = format!("'window' field that is not recognized: {}", option.name());
                    return Err(Error::failed_to_parse(text));
                }
            }
        }
        match (documents, range, unit) {
            (None, None, None) => Ok(Bounds::WHOLE),
            (Some(documents), None, None) => by_documents(ends(documents, specification)?, sort),
            (None, Some(range), unit) => by_range(ends(range, specification)?, unit, sort),
            (Some(_), Some(_), _) => Err(Error::failed_to_parse(
                "'window' field can specify either 'documents' or 'range', not both",
            )),
            (_, None, Some(_)) => Err(Error::failed_to_parse(
                "Window bounds can only specify 'unit' with range-based bounds.",
            )),
        }
    }

    /// Whether it is the whole partition, whatever the row.
    pub fn is_whole(&self) -> bool {
        match self {
            Bounds::Documents(low, high) => low.is_none() && high.is_none(),
            Bounds::Range(distances) => distances.low.is_none() && distances.high.is_none(),
        }
    }

    /// Whether it begins with the partition.
    pub fn is_from_start(&self) -> bool {
        match self {
            Bounds::Documents(low, _) => low.is_none(),
            Bounds::Range(distances) => distances.low.is_none(),
        }
    }

    /// The rows of the window of a row.
    pub fn rows(&self, partition: &Partition<'_>, row: usize) -> Result<Range<usize>> {
        let len = partition.len();
        match self {
            Bounds::Documents(low, high) => {
                let start = low.map_or(0, |low| place(row, low, len));
                let end = high.map_or(len, |high| place(row, high.saturating_add(1), len));
                Ok(start..end.max(start))
            }
            Bounds::Range(distances) => distances.rows(partition, row),
        }
    }
}

/// The place `by` behind a row, within the partition.
fn place(row: usize, by: i64, len: usize) -> usize {
    let by_places = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
    match by < 0 {
        true => row.saturating_sub(by_places),
        false => row.saturating_add(by_places).min(len),
    }
}

impl Distances {
    /// The rows are sorted: both ends are found by halves.
    fn rows(&self, partition: &Partition<'_>, row: usize) -> Result<Range<usize>> {
        let len = partition.len();
        if self.low.is_none() && self.high.is_none() {
            return Ok(0..len);
        }
        let code = if self.unit.is_some() {
            5_429_513
        } else {
            5_429_414
        };
        let here = partition.position(row, self.unit.is_some(), code)?;
        let start = match &self.low {
            None => 0,
            Some(low) => {
                let low = self.moved(here, low)?;
                first_row(partition, |value| {
                    compare_values(value, low.as_raw()).is_ge()
                })?
            }
        };
        let end = match &self.high {
            None => len,
            Some(high) => {
                let high = self.moved(here, high)?;
                first_row(partition, |value| {
                    compare_values(value, high.as_raw()).is_gt()
                })?
            }
        };
        Ok(start..end.max(start))
    }

    fn moved(&self, here: Number, by: &Value) -> Result<Value> {
        let by = Number::from_raw(by.as_raw()).unwrap_or(Number::Int32(0));
        let (Some(unit), Number::Int64(date)) = (self.unit, here) else {
            let mut sum = Addition::default();
            sum.add(here);
            sum.add(by);
            return Ok(sum.total().raw().to_value());
        };
        let amount = by.rounded().unwrap_or(0);
        let moved = unit.added_in_utc(date, amount).ok_or_else(|| {
            Error::location(5_166_406, "a bound of a window is no date that there is")
        })?;
        Ok(RawValue::DateTime(moved).to_value())
    }
}

/// The first row for whose sort value `is_behind` holds: it holds for all rows behind it.
fn first_row(partition: &Partition<'_>, is_behind: impl Fn(RawValue<'_>) -> bool) -> Result<usize> {
    let (mut low, mut high) = (0, partition.len());
    while low < high {
        interrupts::work(1)?;
        let middle = low + (high - low) / 2;
        let value = partition.sort_value(middle)?.unwrap_or(RawValue::Null);
        match is_behind(value) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low)
}

fn ends(value: RawValue<'_>, specification: Specification<'_>) -> Result<(End, End)> {
    let pair = value.as_array().filter(|pair| pair.len() == 2);
    let Some(pair) = pair else {
        let text = format!("Window bounds must be a 2-element array: {value}");
        return Err(Error::failed_to_parse(text));
    };
    let (low, high) = (pair.get(0), pair.get(1));
    Ok((end(low, specification)?, end(high, specification)?))
}

/// Reads an end, whose number may be an expression of constants.
fn end(value: Option<RawValue<'_>>, specification: Specification<'_>) -> Result<End> {
    let value = match value {
        Some(RawValue::String(name)) if name == "unbounded" => return Ok(End::Unbounded),
        Some(RawValue::String(name)) if name == "current" => return Ok(End::Current),
        Some(RawValue::String(_)) | None => None,
        Some(number) => specification
            .expression(number)?
            .folded()?
            .constant()
            .cloned(),
    };
    let number = value.filter(|value| value.as_raw().is_number());
    number.map(End::Number).ok_or_else(|| {
        Error::failed_to_parse("Window bounds must be 'unbounded', 'current', or a number.")
    })
}

fn by_documents((low, high): (End, End), sort: Option<&Arc<SortPattern>>) -> Result<Bounds> {
    let number = |end| match end {
        End::Unbounded => Ok(None),
        End::Current => Ok(Some(0)),
        End::Number(value) => value.as_raw().as_i64_exact().map(Some).ok_or_else(|| {
            Error::failed_to_parse("Numeric document-based bounds must be an integer")
        }),
    };
    let (low, high) = (number(low)?, number(high)?);
    if let (Some(low), Some(high)) = (low, high)
        && low > high
    {
        let text = format!("Lower bound must not exceed upper bound: [{low}, {high}]");
        return Err(Error::location(5_339_900, text));
    }
    if sort.is_none() && (low.is_some() || high.is_some()) {
        let text = "Document-based bounds require a sortBy";
        return Err(Error::location(5_339_901, text));
    }
    Ok(Bounds::Documents(low, high))
}

fn by_range(
    (low, high): (End, End),
    unit: Option<RawValue<'_>>,
    sort: Option<&Arc<SortPattern>>,
) -> Result<Bounds> {
    let unit = unit.map(read_unit).transpose()?;
    let number = |end| match end {
        End::Unbounded => Ok(None),
        End::Current => Ok(Some(RawValue::Int32(0).to_value())),
        End::Number(value) if unit.is_some() && value.as_raw().as_i64_exact().is_none() => Err(
            Error::failed_to_parse("With 'unit', range-based bounds must be an integer"),
        ),
        End::Number(value) => Ok(Some(value)),
    };
    let (low, high) = (number(low)?, number(high)?);
    if let (Some(low), Some(high)) = (&low, &high)
        && compare_values(low.as_raw(), high.as_raw()).is_gt()
    {
        let text = format!(
            "Lower bound must not exceed upper bound: [{}, {}]",
            low.as_raw(),
            high.as_raw()
        );
        return Err(Error::location(5_339_900, text));
    }
    let fields = sort.map_or(&[][..], |sort| sort.fields());
    let [only] = fields else {
        let text = "Range-based bounds require a sortBy a single field";
        return Err(Error::location(5_339_902, text));
    };
    if only.direction != Direction::Ascending {
        let text = "Range-based bounds require an ascending sortBy";
        return Err(Error::location(8_947_401, text));
    }
    Ok(Bounds::Range(Box::new(Distances { low, high, unit })))
}

/// A unit of time by its name.
pub fn read_unit(value: RawValue<'_>) -> Result<Unit> {
    let Some(name) = value.as_str() else {
        let text = format!("'unit' must be a string, but found {}", type_name(value));
        return Err(Error::failed_to_parse(text));
    };
    Unit::of(name).ok_or_else(|| Error::failed_to_parse(format!("unknown time unit value: {name}")))
}
