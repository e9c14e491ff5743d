//! `$setWindowFields`: fields computed over windows of neighbouring documents, within partitions and in an order.
//!
//! The input is sorted by partition and order, on disk where memory is short. One partition at a time is held, with the stage's
//! bound on memory, because windows reach anywhere in it; results are
//! computed as its documents are handed on, so that no column of them is held. Each function is a row in `functions.rs` and a
//! file with its like; accumulators of `$group` work over any window (`accumulated.rs`).

mod accumulated;
mod bounds;
mod covariance;
mod function;
mod functions;
mod gaps;
mod moving_average;
mod partition;
mod ranks;
mod shift;
mod slopes;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawElement, RawValue, Value};
use quarry_keystring::{Direction, TypeBits};
use quarry_timing::{Phase, phase};

use self::bounds::Bounds;
use self::function::{Given, RunningFunction, Start};
use self::partition::{Partition, partition_bytes};
use super::execution::{Buffer, RunningStage, Upstream};
use super::fields_read::fields_kept_for;
use super::gathered::Gathered;
use super::nested_field;
use super::stage::{InFront, Reads, Specification, Stage, Stages, one, own_field};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{Context, Expression, ExpressionContext, type_name};
use crate::field_path::FieldPath;
use crate::fields_kept::FieldsKept;
use crate::interrupts::{self, units_of_search};
use crate::sort::SortPattern;
use crate::sorter::{Row, Sorted, Sorter};
use crate::spilling::{DiskUse, SORTS};
use crate::stage_memory::BoundedMemory;
use crate::{Collation, encode_collated};

/// The work of beginning a function on a row.
const UNITS_OF_A_FUNCTION: usize = 20;

#[derive(Debug)]
struct SetWindowFields {
    specification: Document,
    partition: Option<Expression>,
    sort: Option<Arc<SortPattern>>,
    outputs: Vec<Output>,
    /// The top-level fields that all of this reads; None where that may be any.
    read: Option<BTreeSet<String>>,
    disk_use: DiskUse,
    collation: Collation,
}

/// A field that is computed.
struct Output {
    path: FieldPath,
    start: Start,
    /// The top-level fields that the function's argument reads; None where that may be any.
    read: Option<BTreeSet<String>>,
}

impl fmt::Debug for Output {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Output({})", self.path.as_str())
    }
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(options) = specification.value else {
        let text = format!(
            "the $setWindowFields stage specification must be an object, found {}",
            type_name(specification.value)
        );
        return Err(Error::failed_to_parse(text));
    };
    let collation = specification.context.collation();
    let (mut partition, mut sort, mut output) = (None, None, None);
    for option in options {
        let object = || {
            option.value().as_document().ok_or_else(|| {
                let text = format!(
                    "BSON field '$setWindowFields.{}' is the wrong type '{}', expected type 'object'",
                    option.name(),
                    type_name(option.value())
                );
                Error::type_mismatch(text)
            })
        };
        match option.name().as_bytes() {
            // Null stands for an option that is not there.
            b"sortBy" | b"output" if option.value().is_nullish() => {}
            b"partitionBy" => partition = Some(specification.expression(option.value())?),
            b"sortBy" => sort = Some(Arc::new(SortPattern::parse_in(object()?, collation)?)),
            b"output" => output = Some(object()?),
            _ => {
                let name = option.name();
                let text = format!("BSON field '$setWindowFields.{name}' is an unknown field.");
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text));
            }
        }
    }
    let output = output.ok_or_else(|| {
        let text = "BSON field '$setWindowFields.output' is missing but a required field";
        Error::location(40414, text)
    })?;
    let sort = sort.filter(|pattern| !pattern.is_empty());
    let mut outputs: Vec<Output> = Vec::new();
    for field in output {
        let parsed = parse_output(field, sort.as_ref(), specification)?;
        let path = &parsed.path;
        let collides =
            |known: &Output| known.path.is_prefix_of(path) || path.is_prefix_of(&known.path);
        interrupts::work(outputs.len())?;
        if outputs.iter().any(collides) {
            let text = format!(
                "$setWindowFields 'output' specification contains conflicting paths: '{}'",
                path.as_str()
            );
            return Err(Error::location(6_307_900, text));
        }
        outputs.push(parsed);
    }
    Ok(one(SetWindowFields {
        specification: options.to_owned_document(),
        read: fields_read(partition.as_ref(), sort.as_deref(), &outputs),
        partition,
        sort,
        outputs,
        disk_use: specification.context.disk_use(),
        collation: collation.clone(),
    }))
}

/// The top-level fields that a stage of these parts reads; None where that may be any.
fn fields_read(
    partition: Option<&Expression>,
    sort: Option<&SortPattern>,
    outputs: &[Output],
) -> Option<BTreeSet<String>> {
    let mut fields = BTreeSet::new();
    if !partition.is_none_or(|partition| partition.add_fields_read(&mut fields)) {
        return None;
    }
    let sorted_by = sort.into_iter().flat_map(SortPattern::fields);
    fields.extend(sorted_by.map(|field| field.path.first().to_owned()));
    for output in outputs {
        fields.extend(output.read.as_ref()?.iter().cloned());
        // What is set within a document stands beside what is there.
        if !output.path.is_top_level() {
            fields.insert(output.path.first().to_owned());
        }
    }
    Some(fields)
}

/// Reads `{<function>: <argument>, window: {..}}`.
fn parse_output(
    field: RawElement<'_>,
    sort: Option<&Arc<SortPattern>>,
    specification: Specification<'_>,
) -> Result<Output> {
    let path = FieldPath::parse_strictly(field.name().as_str()?)?;
    let RawValue::Document(members) = field.value() else {
        let text = format!("The field '{}' must be an object", path.as_str());
        return Err(Error::failed_to_parse(text));
    };
    let (mut function, mut window) = (None, None);
    for member in members {
        if member.name() == "window" {
            window = Some(member.value());
        } else if function.is_none() && member.name().as_bytes().starts_with(b"$") {
            function = Some(member);
        } else {
            let text = format!(
                "Window function found an unknown argument: {}",
                member.name()
            );
            return Err(Error::failed_to_parse(text));
        }
    }
    let Some(function) = function else {
        let text = format!(
            "Expected a $-prefixed window function, found none in the field '{}'",
            path.as_str()
        );
        return Err(Error::failed_to_parse(text));
    };
    let given = Given {
        name: function.name().as_str()?,
        value: function.value(),
        window: window
            .map(|window| Bounds::parse(window, sort, specification))
            .transpose()?,
        sort,
        specification,
    };
    Ok(Output {
        path,
        read: functions::fields_read(&given)?,
        start: functions::parse(given)?,
    })
}

impl Stage for SetWindowFields {
    fn name(&self) -> &'static str {
        "$setWindowFields"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.specification.as_raw());
    }

    fn add_fields_made(&self, fields: &mut BTreeSet<String>) {
        fields.extend(self.outputs.iter().filter_map(|one| own_field(&one.path)));
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        match &self.read {
            None => Reads::Everything,
            Some(read) => {
                fields.extend(read.iter().cloned());
                Reads::Passes
            }
        }
    }

    /// A partition as a whole stays or is left out.
    fn in_front(&self, filter: RawDocument<'_>, context: &ExpressionContext) -> Result<InFront> {
        let Some(partition) = &self.partition else {
            return Ok(InFront::Nothing);
        };
        let is_output = |field: &str| self.outputs.iter().any(|one| one.path.first() == field);
        let gathered = Gathered::in_place(partition, is_output);
        let same = gathered.in_front(filter, context)?;
        Ok(same.map_or(InFront::Nothing, InFront::Moved))
    }

    fn start(self: Arc<Self>, following: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        let later = fields_kept_for(following);
        let own = self.read.as_ref();
        Box::new(Windowing {
            kept: later.zip(own).map(|(later, own)| {
                let add = |kept: FieldsKept, name: &String| kept.with(name);
                own.iter().fold(later, add)
            }),
            stage: self,
            made: [Buffer::default(), Buffer::default()],
            sorted: None,
            ahead: None,
            rows: Vec::new(),
            next: 0,
            functions: Vec::new(),
            memory: BoundedMemory::default(),
        })
    }
}

impl SetWindowFields {
    /// Reads all input; the rows come back by partition and order. A row's key is that of its partition and behind it that of
    /// its place.
    fn sort(&self, kept: Option<&FieldsKept>, upstream: &mut Upstream<'_, '_>) -> Result<Sorted> {
        let mut sorter = Sorter::new(&SORTS, None, self.disk_use);
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        let _scope = phase(Phase::Sort);
        upstream.each(&mut |document| {
            key.clear();
            if let Some(partition) = &self.partition {
                let value = partition.evaluate(&mut Context::new(document))?;
                let value = value.as_raw().unwrap_or(RawValue::Null);
                if let RawValue::Array(_) = value {
                    let text =
                        "An expression used to partition cannot evaluate to value of type array";
                    return Err(Error::type_mismatch(text));
                }
                encode_collated(
                    &self.collation,
                    &mut key,
                    &mut TypeBits::default(),
                    value,
                    Direction::Ascending,
                );
            }
            let partition_bytes = u32::try_from(key.len()).map_err(|_| {
                Error::bad_value("a value that $setWindowFields partitions by is too long")
            })?;
            if let Some(sort) = &self.sort {
                sort.key(document, &mut key)?;
            }
            payload.clear();
            payload.extend_from_slice(&partition_bytes.to_be_bytes());
            match kept {
                None => payload.extend_from_slice(document.as_bytes()),
                Some(fields) => {
                    interrupts::work(units_of_search(document))?;
                    fields.keep(document, &mut payload);
                }
            }
            sorter.push(&key, &payload)
        })?;
        sorter.finish()
    }
}

struct Windowing {
    stage: Arc<SetWindowFields>,
    sorted: Option<Sorted>,
    /// The first row of the next partition.
    ahead: Option<Row>,
    /// The rows of this one; it is given up as a whole, because windows reach back.
    rows: Vec<Row>,
    /// The row that is handed on next.
    next: usize,
    functions: Vec<Box<dyn RunningFunction>>,
    memory: BoundedMemory,
    /// The fields of its input that it or a later stage reads, if that is not all.
    kept: Option<FieldsKept>,
    /// A row's document with some of its fields set: each is made of the other.
    made: [Buffer; 2],
}

impl Windowing {
    /// Takes the next partition; false if there is none.
    fn advance(&mut self, upstream: &mut Upstream<'_, '_>) -> Result<bool> {
        let sorted = match &mut self.sorted {
            Some(sorted) => sorted,
            none => {
                let sorted = none.insert(self.stage.sort(self.kept.as_ref(), upstream)?);
                self.ahead = sorted.next()?;
                sorted
            }
        };
        self.rows = Vec::new();
        self.memory = BoundedMemory::default();
        self.next = 0;
        let Some(first) = self.ahead.take() else {
            return Ok(false);
        };
        let key = first.key()[..partition_bytes(&first)].to_vec();
        self.memory.grow(first.held_bytes(), "$setWindowFields")?;
        self.rows.push(first);
        while let Some(row) = sorted.next()? {
            if row.key()[..partition_bytes(&row)] != *key {
                self.ahead = Some(row);
                break;
            }
            self.memory.grow(row.held_bytes(), "$setWindowFields")?;
            self.rows.push(row);
        }
        let outputs = self.stage.outputs.iter();
        self.functions = outputs.map(|output| (output.start)()).collect();
        Ok(true)
    }
}

impl RunningStage for Windowing {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if self.next == self.rows.len() && !self.advance(upstream)? {
            return Ok(false);
        }
        let row = self.next;
        self.next += 1;
        let partition = Partition::new(&self.rows, self.stage.sort.as_deref());
        let [before, after] = &mut self.made;
        let outputs = self.stage.outputs.iter().zip(&mut self.functions);
        for (place, (output, function)) in outputs.enumerate() {
            interrupts::work(UNITS_OF_A_FUNCTION)?;
            let value: Option<Value> = function.value(&partition, row)?;
            let value = value.as_ref().map(Value::as_raw);
            let document = match place {
                0 => partition.document(row)?,
                _ => RawDocument::new(before.bytes())?,
            };
            let path = output.path.parts();
            if place + 1 == self.stage.outputs.len() {
                nested_field::set_through_arrays(document, path, value, out);
                before.empty();
                return Ok(true);
            }
            let made = after.fill(|bytes| {
                nested_field::set_through_arrays(document, path, value, bytes);
            })?;
            interrupts::work_on_bytes(made.len_bytes())?;
            std::mem::swap(before, after);
        }
        out.extend_from_slice(partition.document(row)?.as_bytes());
        Ok(true)
    }
}
