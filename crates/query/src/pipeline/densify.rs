//! `$densify`: the `$sort` and the stage that it stands for, which puts documents into the gaps between those that come, a step from
//! each other on the axis of one field.
//!
//! A partition has a grid, which begins at its first value (`partition`), at the least value of all (`full`) or at the lower
//! bound; the stage knows of each partition the next place on it. A document of the input that is behind that place waits until
//! the places before it are filled, and takes its own place where it stands on the grid. A value that is null or missing passes.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::compare::compare_values;
use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::execution::{RunningStage, Upstream};
use super::nested_field;
use super::sort_stage;
use super::stage::{Reads, Specification, Stage, Stages};
use crate::Collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::number::Number;
use crate::expression::{Unit, type_name};
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::memory::Charge;
use crate::parameters::DENSIFY_DOCUMENTS;
use crate::stage_memory::BoundedMemory;
use crate::value_set::ValueSet;

/// The work of making a document.
const UNITS_OF_A_DOCUMENT: usize = 30;

#[derive(Debug)]
struct Densify {
    specification: Document,
    field: FieldPath,
    partitions: Vec<FieldPath>,
    step: Step,
    extent: Extent,
    collation: Collation,
}

/// The distance of neighbours.
#[derive(Debug, Clone, Copy)]
enum Step {
    Number(Number),
    Time(Unit, i64),
}

/// The part of the axis that is filled.
#[derive(Debug, Clone, Copy)]
enum Extent {
    /// From the least value to the greatest.
    Full,
    /// From the least value of each partition to its greatest.
    Partition,
    /// From a place to another, which is not filled itself.
    Between(Place, Place),
}

/// A value of the field.
#[derive(Debug, Clone, Copy)]
enum Place {
    Number(Number),
    Date(i64),
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(options) = specification.value else {
        let text = format!(
            "The $densify stage specification must be an object, found {}",
            type_name(specification.value)
        );
        return Err(Error::failed_to_parse(text));
    };
    let densify = Densify::parse(options, specification.context.collation())?;
    let order = Document::build(|order| {
        if !matches!(densify.extent, Extent::Full) {
            for partition in &densify.partitions {
                order.append(partition.as_str(), 1);
            }
        }
        order.append(densify.field.as_str(), 1);
    });
    let mut stages = sort_stage::parse(Specification {
        name: "$sort",
        value: RawValue::Document(order.as_raw()),
        ..specification
    })?;
    stages.push(Arc::new(densify));
    Ok(stages)
}

impl Densify {
    fn parse(options: RawDocument<'_>, collation: &Collation) -> Result<Densify> {
        let (mut field, mut partitions, mut range) = (None, Vec::new(), None);
        for option in options {
            match (option.name().as_bytes(), option.value()) {
                // Null stands for an option that is not there, also where there has to be one.
                (b"field" | b"partitionByFields" | b"range", value) if value.is_nullish() => {}
                (b"field", RawValue::String(path)) => field = Some(path.as_str()?),
                (b"field", other) => return Err(wrong_type("field", other, "string")),
                (b"partitionByFields", paths) => partitions = parse_partitions(paths)?,
                (b"range", RawValue::Document(given)) => range = Some(given),
                (b"range", other) => return Err(wrong_type("range", other, "object")),
                _ => return Err(unknown("", option.name().to_string_lossy().as_ref())),
            }
        }
        let range = range.ok_or_else(|| missing("range"))?;
        let (step, extent) = parse_range(range)?;
        let field = FieldPath::parse_strictly(field.ok_or_else(|| missing("field"))?)?;
        refuse_overlap(&partitions, &field)?;
        if matches!(extent, Extent::Partition) && partitions.is_empty() {
            let text = "One cannot specify the bounds as 'partition' without specifying a non-empty array of partitionByFields. You may have meant to specify 'full' bounds.";
            return Err(Error::location(5_733_408, text));
        }
        Ok(Densify {
            specification: options.to_owned_document(),
            field,
            partitions,
            step,
            extent,
            collation: collation.clone(),
        })
    }
}

/// Refuses to partition by the field, or by what it is in or what is in it.
fn refuse_overlap(partitions: &[FieldPath], field: &FieldPath) -> Result<()> {
    for partition in partitions {
        let code = match (field.is_prefix_of(partition), partition.is_prefix_of(field)) {
            (true, _) => 8_993_000,
            (false, true) => 9_554_500,
            (false, false) => continue,
        };
        let text = format!(
            "partitionByFields '{}' cannot include field '{}' that is being densified.",
            partition.as_str(),
            field.as_str()
        );
        return Err(Error::location(code, text));
    }
    Ok(())
}

fn parse_partitions(paths: RawValue<'_>) -> Result<Vec<FieldPath>> {
    let RawValue::Array(paths) = paths else {
        return Err(wrong_type("partitionByFields", paths, "array"));
    };
    let path = |path: RawValue<'_>| match path.as_str() {
        Some(path) => FieldPath::parse_strictly(path),
        None => Err(wrong_type("partitionByFields", path, "string")),
    };
    paths.iter().map(path).collect()
}

fn parse_range(range: RawDocument<'_>) -> Result<(Step, Extent)> {
    let (mut step, mut bounds, mut unit) = (None, None, None);
    for option in range {
        match (option.name().as_bytes(), option.value()) {
            (b"step" | b"unit", value) if value.is_nullish() => {}
            (b"step", value) => step = Some(value),
            (b"bounds", value) => bounds = Some(value),
            (b"unit", RawValue::String(name)) => unit = Some(name.as_str()?),
            (b"unit", other) => return Err(wrong_type("range.unit", other, "string")),
            _ => return Err(unknown("range.", option.name().to_string_lossy().as_ref())),
        }
    }
    let step = step.ok_or_else(|| missing("range.step"))?;
    let bounds = bounds.ok_or_else(|| missing("range.bounds"))?;
    Ok((parse_step(step, unit)?, parse_extent(bounds, step, unit)?))
}

fn parse_step(step: RawValue<'_>, unit: Option<&str>) -> Result<Step> {
    let number = Number::from_raw(step).ok_or_else(|| {
        let kind = type_name(step);
        let text = format!(
            "BSON field '$densify.range.step' is the wrong type '{kind}', expected types '[int, decimal, double, long]'"
        );
        Error::type_mismatch(text)
    })?;
    let number = Some(number).filter(|number| number.is_positive());
    let number = number.ok_or_else(|| {
        let text =
            "The step parameter in a range statement must be a strictly positive numeric value";
        Error::location(5_733_401, text)
    })?;
    match unit {
        None => Ok(Step::Number(number)),
        Some(name) => {
            let amount = step.as_i64_exact().ok_or_else(|| {
                let text = "The step parameter in a range statement must be a whole number when densifying a date range";
                Error::location(6_586_400, text)
            })?;
            let unit = Unit::of(name).ok_or_else(|| {
                Error::failed_to_parse(format!("unknown time unit value: {name}"))
            })?;
            Ok(Step::Time(unit, amount))
        }
    }
}

fn parse_extent(bounds: RawValue<'_>, step: RawValue<'_>, unit: Option<&str>) -> Result<Extent> {
    match bounds {
        RawValue::String(name) if name == "full" => Ok(Extent::Full),
        RawValue::String(name) if name == "partition" => Ok(Extent::Partition),
        RawValue::String(_) => {
            let text = "Bounds string must either be 'full' or 'partition'";
            Err(Error::location(5_946_802, text))
        }
        RawValue::Array(pair) => parse_bounds(&pair.iter().collect::<Vec<_>>(), step, unit),
        _ => {
            let text = "The bounds in a range statement must be the string 'full', 'partition', or an ascending array of two numbers or two dates";
            Err(Error::location(5_733_404, text))
        }
    }
}

fn parse_bounds(pair: &[RawValue<'_>], step: RawValue<'_>, unit: Option<&str>) -> Result<Extent> {
    let [low, high] = *pair else {
        let text = "A bounding array in a range statement must have exactly two elements";
        return Err(Error::location(5_733_403, text));
    };
    if compare_values(low, high).is_gt() {
        let text = "A bounding array must be an ascending array of either two dates or two numbers";
        return Err(Error::location(5_733_402, text));
    }
    let both = "A bounding array must contain either both dates or both numeric types";
    match (Place::of(low), Place::of(high)) {
        (Some(Place::Number(_)), _) if unit.is_some() => Err(Error::location(
            5_733_409,
            "Numeric bounds may not have unit parameter",
        )),
        (Some(from @ Place::Number(_)), Some(to @ Place::Number(_))) => {
            let kind = low.element_type();
            if high.element_type() != kind || step.element_type() != kind {
                let text = "Upper bound, lower bound, and step must all have the same type";
                return Err(Error::location(5_876_900, text));
            }
            Ok(Extent::Between(from, to))
        }
        (Some(Place::Number(_)), _) => Err(Error::location(5_733_406, both)),
        (Some(from @ Place::Date(_)), Some(to @ Place::Date(_))) => match unit {
            Some(_) => Ok(Extent::Between(from, to)),
            None => Err(Error::location(
                5_733_410,
                "A bounding array of dates must specify a unit",
            )),
        },
        (Some(Place::Date(_)), _) => Err(Error::location(5_733_405, both)),
        (None, _) => Err(Error::location(
            5_946_800,
            "Explicit bounds must be numeric or dates",
        )),
    }
}

fn wrong_type(field: &str, found: RawValue<'_>, expected: &str) -> Error {
    let kind = type_name(found);
    Error::type_mismatch(format!(
        "BSON field '$densify.{field}' is the wrong type '{kind}', expected type '{expected}'"
    ))
}

fn missing(field: &str) -> Error {
    let text = format!("BSON field '$densify.{field}' is missing but a required field");
    Error::location(40414, text)
}

fn unknown(within: &str, field: &str) -> Error {
    let text = format!("BSON field '$densify.{within}{field}' is an unknown field.");
    Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text)
}

impl Place {
    fn of(value: RawValue<'_>) -> Option<Place> {
        match value {
            RawValue::DateTime(ms) => Some(Place::Date(ms)),
            number => Number::from_raw(number).map(Place::Number),
        }
    }

    fn raw(self) -> RawValue<'static> {
        match self {
            Place::Number(number) => number.raw(),
            Place::Date(ms) => RawValue::DateTime(ms),
        }
    }

    fn cmp(self, other: Place) -> Ordering {
        compare_values(self.raw(), other.raw())
    }
}

impl Step {
    /// The place a step behind another of its kind.
    fn behind(self, place: Place) -> Result<Place> {
        match (self, place) {
            (Step::Number(step), Place::Number(number)) => Ok(Place::Number(number.add(step))),
            (Step::Time(unit, amount), Place::Date(ms)) => {
                let next = unit.added_in_utc(ms, amount);
                next.map(Place::Date)
                    .ok_or_else(|| Error::location(5_166_406, "$dateAdd overflowed"))
            }
            (Step::Number(_), Place::Date(_)) => Err(Error::location(
                6_053_600,
                "Encountered date densify value in collection when step does not have a date unit.",
            )),
            (Step::Time(..), Place::Number(_)) => Err(Error::location(
                6_053_600,
                "Encountered numeric densify value in collection when step has a date unit.",
            )),
        }
    }
}

impl Stage for Densify {
    fn name(&self) -> &'static str {
        "$_internalDensify"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.specification.as_raw());
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        fields.insert(self.field.first().to_owned());
        fields.extend(self.partitions.iter().map(|path| path.first().to_owned()));
        Reads::Passes
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Densifying {
            partitions: ValueSet::new(&self.collation),
            stage: self,
            next: Vec::new(),
            gap: None,
            waiting: None,
            extremes: None,
            finishing: None,
            made: 0,
            memory: BoundedMemory::default(),
        })
    }
}

impl Densify {
    /// The document of the fields that a partition is told by.
    fn partition_of(&self, document: RawDocument<'_>) -> Result<Document> {
        let mut partition = Document::new();
        for path in &self.partitions {
            if let Some(value) = nested_field::get(document, path.parts()) {
                let mut bytes = Vec::new();
                nested_field::set(partition.as_raw(), path.parts(), Some(value), &mut bytes);
                partition = Document::from_bytes_any_text(bytes)?;
            }
        }
        Ok(partition)
    }

    /// Fails where a document of the partition cannot have the field.
    fn check_room(&self, partition: RawDocument<'_>) -> Result<()> {
        let mut document = partition;
        for (depth, part) in self.field.parts().iter().enumerate() {
            match document.get(part.name()) {
                None => return Ok(()),
                Some(RawValue::Document(inner)) => document = inner,
                Some(RawValue::Array(_)) => {
                    let text = "$densify cannot generate fields nested inside arrays";
                    return Err(Error::location(5_733_307, text));
                }
                Some(_) if depth + 1 < self.field.parts().len() => {
                    let text = "$densify cannot overwrite non-object values with objects";
                    return Err(Error::location(5_733_308, text));
                }
                Some(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

struct Densifying {
    stage: Arc<Densify>,
    /// The documents that tell the partitions.
    partitions: ValueSet,
    /// The next place on the grid of each.
    next: Vec<Place>,
    gap: Option<Gap>,
    /// The document behind the gap.
    waiting: Option<(Document, Charge)>,
    /// The least and the greatest value.
    extremes: Option<(Place, Place)>,
    /// Once the input has ended: the partition that is filled to the end now.
    finishing: Option<usize>,
    made: i64,
    memory: BoundedMemory,
}

/// Places of a partition that are filled.
struct Gap {
    partition: usize,
    until: Place,
    includes_until: bool,
}

impl Densifying {
    /// Fills the next place of the gap; false if it is filled.
    fn fill(&mut self, gap: &Gap, out: &mut Vec<u8>) -> Result<bool> {
        let place = self.next[gap.partition];
        let order = place.cmp(gap.until);
        if order.is_gt() || order.is_eq() && !gap.includes_until {
            return Ok(false);
        }
        let made_max = DENSIFY_DOCUMENTS.get();
        self.made += 1;
        if self.made > made_max {
            let text = format!(
                "Generated {} documents in $densify, which is over the limit of {made_max}. Increase the 'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated documents",
                self.made
            );
            return Err(Error::location(5_897_900, text));
        }
        interrupts::work(UNITS_OF_A_DOCUMENT)?;
        let RawValue::Document(partition) = self.partitions.values()[gap.partition].as_raw() else {
            return Ok(false);
        };
        self.stage.check_room(partition)?;
        let field = self.stage.field.parts();
        nested_field::set(partition, field, Some(place.raw()), out);
        self.next[gap.partition] = self.stage.step.behind(place)?;
        Ok(true)
    }

    /// Looks at a document of the input: the gap before it, if there is one.
    fn gap_before(&mut self, document: RawDocument<'_>) -> Result<Option<Gap>> {
        let value = nested_field::get(document, self.stage.field.parts());
        let Some(value) = value.filter(|value| !value.is_nullish()) else {
            return Ok(None);
        };
        let place = Place::of(value).ok_or_else(|| {
            let text = "Densify field type must be numeric or a date";
            Error::location(5_733_201, text)
        })?;
        // Refuses the kind that the step does not fit.
        self.stage.step.behind(place)?;
        let (least, _) = *self.extremes.get_or_insert((place, place));
        self.extremes = Some((least, place));
        let start = match self.stage.extent {
            Extent::Full => least,
            Extent::Partition => place,
            Extent::Between(low, _) => low,
        };
        let partition = self.stage.partition_of(document)?;
        let partition = self.partition(partition.as_raw(), start)?;
        let until = match self.stage.extent {
            Extent::Between(_, high) if place.cmp(high).is_gt() => high,
            _ => place,
        };
        let gap = Gap {
            partition,
            until,
            includes_until: false,
        };
        match self.next[partition].cmp(until) {
            Ordering::Less => Ok(Some(gap)),
            _ => {
                self.pass(partition, place)?;
                Ok(None)
            }
        }
    }

    /// The number of a partition, which begins at a place if it is new.
    fn partition(&mut self, key: RawDocument<'_>, start: Place) -> Result<usize> {
        let (partition, grown) = self.partitions.insert(RawValue::Document(key))?;
        if grown > 0 {
            self.memory.grow(grown + size_of::<Place>(), "$densify")?;
            self.next.push(start);
        }
        Ok(partition)
    }

    /// A document stands at a place: if that is the next on the grid, it is taken.
    fn pass(&mut self, partition: usize, place: Place) -> Result<()> {
        if self.next[partition].cmp(place).is_eq() {
            self.next[partition] = self.stage.step.behind(place)?;
        }
        Ok(())
    }

    /// The rest of the next partition, once the input has ended.
    fn next_rest(&mut self) -> Result<Option<Gap>> {
        let (until, includes_until) = match (self.stage.extent, self.extremes) {
            (Extent::Between(low, high), _) => {
                if self.stage.partitions.is_empty() {
                    // Without a single document the range is filled all the same.
                    self.partition(RawDocument::EMPTY, low)?;
                }
                (high, false)
            }
            (Extent::Full, Some((_, greatest))) => (greatest, true),
            (Extent::Full, None) | (Extent::Partition, _) => return Ok(None),
        };
        let partition = self.finishing.map_or(0, |finished| finished + 1);
        self.finishing = Some(partition);
        Ok((partition < self.next.len()).then_some(Gap {
            partition,
            until,
            includes_until,
        }))
    }
}

impl RunningStage for Densifying {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        loop {
            if let Some(gap) = self.gap.take() {
                if self.fill(&gap, out)? {
                    self.gap = Some(gap);
                    return Ok(true);
                }
                if let Some((document, _held)) = self.waiting.take() {
                    let value = nested_field::get(document.as_raw(), self.stage.field.parts());
                    if let Some(place) = value.and_then(Place::of) {
                        self.pass(gap.partition, place)?;
                    }
                    out.extend_from_slice(document.as_bytes());
                    return Ok(true);
                }
            }
            let start = out.len();
            if self.finishing.is_some() || !upstream.next(out)? {
                self.gap = self.next_rest()?;
                if self.gap.is_none() {
                    return Ok(false);
                }
                continue;
            }
            let document = RawDocument::new(&out[start..])?;
            self.gap = self.gap_before(document)?;
            if self.gap.is_none() {
                return Ok(true);
            }
            let held = Charge::of(document.len_bytes());
            self.waiting = Some((document.to_owned_document(), held));
            out.truncate(start);
        }
    }
}
