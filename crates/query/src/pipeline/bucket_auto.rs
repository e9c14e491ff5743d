//! `$bucketAuto`: the documents in order of a value, cut into as many groups of about one size as are asked for. Equal values
//! stay together. With a granularity the boundaries are preferred numbers (`preferred_numbers.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::compare::compare_values;
use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value};
use quarry_keystring::{Direction, TypeBits};

use super::accumulation::Accumulation;
use super::accumulators::Column;
use super::execution::{Buffer, RunningStage, Upstream};
use super::preferred_numbers::Series;
use super::stage::{FieldOrder, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::number::Number;
use crate::expression::{Context, Expression, type_name};
use crate::sorter::{Row, Sorted, Sorter};
use crate::spilling::{DiskUse, SORTS};
use crate::stage_memory::BoundedMemory;
use crate::{Collation, encode_collated};

#[derive(Debug)]
struct BucketAuto {
    specification: Document,
    group_by: Expression,
    buckets: u64,
    output: Vec<(Box<str>, Accumulation)>,
    granularity: Option<Series>,
    disk_use: DiskUse,
    collation: Collation,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(options) = specification.value else {
        let text = format!(
            "The argument to $bucketAuto must be an object, but found type: {}.",
            type_name(specification.value)
        );
        return Err(Error::location(40240, text));
    };
    let (mut group_by, mut buckets, mut output, mut granularity) = (None, None, None, None);
    for option in options {
        let value = option.value();
        match option.name().as_bytes() {
            b"groupBy" => group_by = Some(read_group_by(value, specification)?),
            b"buckets" => buckets = Some(read_buckets(value)?),
            b"output" => output = Some(read_output(value, specification)?),
            b"granularity" => granularity = Some(read_granularity(value)?),
            _ => {
                let text = format!("Unrecognized option to $bucketAuto: {}.", option.name());
                return Err(Error::location(40245, text));
            }
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        let text = "$bucketAuto requires 'groupBy' and 'buckets' to be specified.";
        return Err(Error::location(40246, text));
    };
    let output = match output {
        Some(output) => output,
        None => {
            let count = accumulation("$sum", RawValue::Int32(1), specification)?;
            vec![("count".into(), count)]
        }
    };
    Ok(one(BucketAuto {
        specification: options.to_owned_document(),
        group_by,
        buckets,
        output,
        granularity,
        disk_use: specification.context.disk_use(),
        collation: specification.context.collation().clone(),
    }))
}

fn read_group_by(value: RawValue<'_>, specification: Specification<'_>) -> Result<Expression> {
    let is_expression = match value {
        RawValue::String(path) => path.as_bytes().first() == Some(&b'$'),
        RawValue::Document(call) => {
            let first = call.first();
            first.is_some_and(|first| first.name().as_bytes().first() == Some(&b'$'))
        }
        _ => false,
    };
    if is_expression {
        return specification.expression(value);
    }
    let text = format!(
        "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but found: {value}."
    );
    Err(Error::location(40239, text))
}

fn read_buckets(value: RawValue<'_>) -> Result<u64> {
    if !value.is_number() {
        let text = format!(
            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
            type_name(value)
        );
        return Err(Error::location(40241, text));
    }
    let number = value
        .as_i64_exact()
        .and_then(|number| i32::try_from(number).ok());
    let number = number.ok_or_else(|| {
        let text = format!(
            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {value}."
        );
        Error::location(40242, text)
    })?;
    match u64::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => {
            let text = format!(
                "The $bucketAuto 'buckets' field must be greater than 0, but found: {number}."
            );
            Err(Error::location(40243, text))
        }
    }
}

fn read_granularity(value: RawValue<'_>) -> Result<Series> {
    let Some(name) = value.as_str() else {
        let text = format!(
            "The $bucketAuto 'granularity' field must be a string, but found type: {}.",
            type_name(value)
        );
        return Err(Error::location(40261, text));
    };
    Series::of(name)
        .ok_or_else(|| Error::location(40257, format!("Unknown rounding granularity '{name}'")))
}

fn read_output(
    value: RawValue<'_>,
    specification: Specification<'_>,
) -> Result<Vec<(Box<str>, Accumulation)>> {
    let RawValue::Document(fields) = value else {
        let text = format!(
            "The $bucketAuto 'output' field must be an object, but found type: {}.",
            type_name(value)
        );
        return Err(Error::location(40244, text));
    };
    let mut output = Vec::new();
    for field in fields {
        let name = field.name().as_str()?;
        if name.contains('.') {
            let text = format!("The field name '{name}' cannot contain '.'");
            return Err(Error::location(40235, text));
        }
        let call = field.value().as_document();
        let only = call
            .filter(|call| call.len() == 1)
            .and_then(|call| call.first());
        let Some(only) = only else {
            let text = format!("The field '{name}' must specify one accumulator");
            return Err(Error::location(40238, text));
        };
        let operator = only.name().to_string_lossy();
        output.push((
            name.into(),
            accumulation(&operator, only.value(), specification)?,
        ));
    }
    Ok(output)
}

fn accumulation(
    operator: &str,
    value: RawValue<'_>,
    specification: Specification<'_>,
) -> Result<Accumulation> {
    let parsed = Accumulation::parse(operator, value, specification)?;
    parsed.ok_or_else(|| Error::location(15952, format!("unknown group operator '{operator}'")))
}

impl Stage for BucketAuto {
    fn name(&self) -> &'static str {
        "$bucketAuto"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.specification.as_raw());
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        let mut output = self.output.iter();
        let known = self.group_by.add_fields_read(fields)
            && output.all(|(_, accumulation)| accumulation.operand.add_fields_read(fields));
        if known {
            Reads::Only
        } else {
            Reads::Everything
        }
    }

    fn order_of_fields(&self) -> FieldOrder {
        FieldOrder::Hidden
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Filling {
            stage: self,
            input: None,
        })
    }
}

impl BucketAuto {
    /// Reads all input. A row's payload is a document of the value and the document: `{v: .., d: ..}`.
    fn sort(&self, upstream: &mut Upstream<'_, '_>) -> Result<Input> {
        let mut sorter = Sorter::new(&SORTS, None, self.disk_use);
        let (mut buffer, mut key, mut payload) = (Buffer::default(), Vec::new(), Vec::new());
        let mut rows = 0_u64;
        while let Some(document) = upstream.read(&mut buffer)? {
            let value = self.group_by.evaluate(&mut Context::new(document))?;
            let value = value.as_raw().unwrap_or(RawValue::Null);
            if self.granularity.is_some() {
                check_granular(value)?;
            }
            key.clear();
            encode_collated(
                &self.collation,
                &mut key,
                &mut TypeBits::default(),
                value,
                Direction::Ascending,
            );
            payload.clear();
            let mut both = DocumentBuilder::new(&mut payload);
            both.append("v", value);
            both.append("d", document);
            both.finish();
            sorter.push(&key, &payload)?;
            rows += 1;
        }
        let mut sorted = sorter.finish()?;
        Ok(Input {
            ahead: sorted.next()?,
            sorted,
            // To the nearest, halves up.
            rows_a_bucket: ((rows + self.buckets / 2) / self.buckets).max(1),
            buckets: 0,
            boundary: None,
        })
    }
}

/// Refuses a value that no preferred numbers lie about.
fn check_granular(value: RawValue<'_>) -> Result<()> {
    let Some(number) = Number::from_raw(value) else {
        let text = format!(
            "A granularity can only be used with numeric boundaries, but found a value with type: {}",
            type_name(value)
        );
        return Err(Error::location(40258, text));
    };
    if let Number::Decimal(_) = number {
        let text = "a granularity of $bucketAuto with Decimal128 is not supported yet";
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
    }
    if number.is_nan() {
        let text = "A granularity can only be used with numeric boundaries, but found NaN";
        return Err(Error::location(40259, text));
    }
    if number.is_negative() {
        let text = format!(
            "A granularity can only be used with non-negative numbers, but found a negative number: {value}"
        );
        return Err(Error::location(40260, text));
    }
    Ok(())
}

/// The rows in order, and how far the buckets are.
struct Input {
    sorted: Sorted,
    /// The next row.
    ahead: Option<Row>,
    rows_a_bucket: u64,
    buckets: u64,
    /// The upper boundary of the last bucket, with a granularity.
    boundary: Option<Value>,
}

impl Input {
    fn take(&mut self) -> Result<Option<Row>> {
        let row = self.ahead.take();
        if row.is_some() {
            self.ahead = self.sorted.next()?;
        }
        Ok(row)
    }

    fn next_value(&self) -> Result<Option<Value>> {
        self.ahead.as_ref().map(value_of).transpose()
    }
}

fn is_zero(value: &Value) -> bool {
    value.as_raw().as_f64_lossy() == Some(0.0)
}

fn value_of(row: &Row) -> Result<Value> {
    let both = RawDocument::new(row.payload())?;
    Ok(both.get("v").unwrap_or(RawValue::Null).to_value())
}

struct Filling {
    stage: Arc<BucketAuto>,
    input: Option<Input>,
}

/// One bucket while it is filled.
struct Bucket {
    columns: Vec<Box<dyn Column>>,
    memory: BoundedMemory,
}

impl Bucket {
    fn add(&mut self, stage: &BucketAuto, row: &Row) -> Result<()> {
        let both = RawDocument::new(row.payload())?;
        let document = both.get_document("d").unwrap_or(RawDocument::EMPTY);
        for ((_, accumulation), column) in stage.output.iter().zip(&mut self.columns) {
            let value = accumulation.operand.evaluate(&mut Context::new(document))?;
            let grown = column.add(0, value.as_raw())?;
            self.memory.grow(grown, "$bucketAuto")?;
        }
        Ok(())
    }
}

impl RunningStage for Filling {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let stage = &*self.stage;
        let input = match &mut self.input {
            Some(input) => input,
            none => none.insert(stage.sort(upstream)?),
        };
        let Some(first) = input.take()? else {
            return Ok(false);
        };
        let output = stage.output.iter();
        let mut bucket = Bucket {
            columns: output
                .map(|(_, accumulation)| accumulation.start())
                .collect(),
            memory: BoundedMemory::default(),
        };
        for column in &mut bucket.columns {
            column.begin_group(RawValue::Null)?;
        }
        bucket.add(stage, &first)?;
        let mut low = value_of(&first)?;
        let mut high = low.clone();
        input.buckets += 1;
        let is_last = input.buckets == stage.buckets;
        let mut rows = 1;
        // The last bucket takes all that is left.
        while is_last || rows < input.rows_a_bucket {
            let Some(row) = input.take()? else {
                break;
            };
            high = value_of(&row)?;
            bucket.add(stage, &row)?;
            rows += 1;
        }
        match &stage.granularity {
            None => {
                while let Some(next) = input.next_value()? {
                    if !stage.collation.are_equal(next.as_raw(), high.as_raw()) {
                        // The boundary above is where the next bucket begins.
                        high = next;
                        break;
                    }
                    if let Some(row) = input.take()? {
                        bucket.add(stage, &row)?;
                    }
                }
            }
            Some(series) => {
                low = match input.boundary.take() {
                    None => series.below(low.as_raw()),
                    // Behind a bucket of nothing but zeros the value itself is the boundary.
                    Some(boundary) if is_zero(&boundary) => low,
                    Some(boundary) => boundary,
                };
                high = series.above(high.as_raw());
                while let Some(next) = input.next_value()? {
                    if compare_values(next.as_raw(), high.as_raw()).is_ge() {
                        break;
                    }
                    if let Some(row) = input.take()? {
                        bucket.add(stage, &row)?;
                    }
                }
                // No preferred number is above zero: the bucket reaches to where the next one begins.
                if is_zero(&high)
                    && let Some(next) = input.next_value()?
                {
                    high = series.below(next.as_raw());
                }
                input.boundary = Some(high.clone());
            }
        }
        let mut document = DocumentBuilder::new(out);
        let mut id = document.document("_id");
        id.append("min", &low);
        id.append("max", &high);
        id.finish();
        for ((name, _), column) in stage.output.iter().zip(&mut bucket.columns) {
            column.hand_out(0, name, &mut document)?;
        }
        Ok(true)
    }
}
