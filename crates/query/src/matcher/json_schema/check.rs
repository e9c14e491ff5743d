//! Asking a schema of a value. Recursion is as deep as the schema, whose parser bounds it.

use quarry_bson::{Decimal128, RawArray, RawDocument, RawElement, RawValue};
use smallvec::SmallVec;

use super::unordered::with_sorted_fields;
use super::{Asked, Dependency, JsonSchema, PatternProperty, Property, Rest, Rule, Schema, Test};
use crate::Collation;
use crate::error::Result;
use crate::interrupts::{self, units_of, units_of_bytes};
use crate::matcher::comparison::compares;
use crate::matcher::value_test::ValueTest;
use crate::memory::Charge;
use crate::value_set::ValueSet;

/// The work of asking one rule, beside that of what it looks at.
const UNITS_OF_A_RULE: usize = 5;
/// The work of looking for a field by its name, and of counting an item.
const UNITS_OF_A_FIELD: usize = 2;

impl JsonSchema {
    /// Whether the document suits the schema.
    pub fn accepts(&self, document: RawDocument<'_>) -> Result<bool> {
        self.root.accepts(RawValue::Document(document))
    }
}

impl Schema {
    pub fn accepts(&self, value: RawValue<'_>) -> Result<bool> {
        for rule in &self.rules {
            if !rule.accepts(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Rule {
    pub fn accepts(&self, value: RawValue<'_>) -> Result<bool> {
        interrupts::work(UNITS_OF_A_RULE)?;
        match value {
            RawValue::Document(document) => self.test.accepts_document(value, document),
            RawValue::Array(array) => self.test.accepts_array(value, array),
            flat => self.test.accepts_flat(flat),
        }
    }
}

impl Test {
    /// Rules about values of any type.
    fn accepts_any(&self, value: RawValue<'_>) -> Result<bool> {
        match self {
            Test::Type(types) => types.passes(value),
            Test::Enum(values) => {
                interrupts::work(units_of(value))?;
                values.contains(with_sorted_fields(value).as_raw())
            }
            Test::AllOf(schemas) => {
                for schema in schemas {
                    if !schema.accepts(value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::AnyOf(schemas) => {
                for schema in schemas {
                    if schema.accepts(value)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::OneOf(schemas) => suits_one(schemas, value),
            Test::Not(schema) => Ok(!schema.accepts(value)?),
            _ => Ok(true),
        }
    }

    fn accepts_flat(&self, value: RawValue<'_>) -> Result<bool> {
        match (self, value) {
            (Test::Bound { op, bound }, _) if value.is_number() => Ok(compares(
                &Collation::SIMPLE,
                *op,
                bound.as_raw(),
                Some(value),
            )),
            (Test::MultipleOf(divisor), _) if value.is_number() => {
                Ok(is_multiple(value, divisor.as_raw()))
            }
            (Test::Length(count), RawValue::String(text)) => {
                interrupts::work(units_of_bytes(text.as_bytes().len()))?;
                Ok(count.allows(code_points(text.as_bytes())))
            }
            (Test::Pattern(pattern), RawValue::String(text)) => pattern.is_match(text.as_bytes()),
            _ => self.accepts_any(value),
        }
    }

    fn accepts_array(&self, value: RawValue<'_>, array: RawArray<'_>) -> Result<bool> {
        match self {
            Test::ItemCount(count) => {
                interrupts::work(units_of(value))?;
                Ok(count.allows(array.iter().count() as u64))
            }
            Test::UniqueItems => Ok(duplicate_item(array)?.is_none()),
            Test::Items(schema) => Ok(first_unfit_item(schema, array, 0)?.is_none()),
            Test::ItemsInOrder(schemas) => {
                for (schema, item) in schemas.iter().zip(array) {
                    if !schema.accepts(item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::AdditionalItems { from, rest } => match rest {
                Rest::Refused => Ok(interrupts::element_at(array, *from)?.is_none()),
                Rest::Schema(schema) => Ok(first_unfit_item(schema, array, *from)?.is_none()),
            },
            _ => self.accepts_any(value),
        }
    }

    fn accepts_document(&self, value: RawValue<'_>, document: RawDocument<'_>) -> Result<bool> {
        match self {
            Test::Properties(properties) => {
                for field in document {
                    if let Some(property) = property(properties, field)?
                        && !property.schema.accepts(field.value())?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::PatternProperties(patterns) => {
                for field in document {
                    for property in patterns.iter() {
                        if property.names(field)? && !property.schema.accepts(field.value())? {
                            return Ok(false);
                        }
                    }
                }
                Ok(true)
            }
            Test::AdditionalProperties {
                named,
                patterns,
                rest,
            } => {
                for field in document {
                    if is_additional(field, named, patterns)? && !rest.accepts(field.value())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::Required(names) => Ok(missing(names, document)?.is_empty()),
            Test::PropertyCount(count) => {
                interrupts::work(units_of_bytes(document.len_bytes()))?;
                Ok(count.allows(document.iter().count() as u64))
            }
            Test::Dependencies(dependencies) => {
                for dependency in dependencies {
                    if !dependency.is_met(document)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => self.accepts_any(value),
        }
    }
}

impl Rest {
    pub fn accepts(&self, value: RawValue<'_>) -> Result<bool> {
        match self {
            Rest::Refused => Ok(false),
            Rest::Schema(schema) => schema.accepts(value),
        }
    }
}

impl PatternProperty {
    /// Whether it speaks of the field.
    pub fn names(&self, field: RawElement<'_>) -> Result<bool> {
        self.pattern.is_match(field.name().as_bytes())
    }
}

impl Dependency {
    pub fn is_met(&self, document: RawDocument<'_>) -> Result<bool> {
        interrupts::work(units_of_bytes(document.len_bytes()))?;
        if !document.contains(&self.name) {
            return Ok(true);
        }
        match &self.asked {
            Asked::Fields(names) => Ok(missing(names, document)?.is_empty()),
            Asked::Schema(schema) => schema.accepts(RawValue::Document(document)),
        }
    }
}

/// Whether the value suits one of the schemas and no second one.
fn suits_one(schemas: &[Schema], value: RawValue<'_>) -> Result<bool> {
    let mut is_met = false;
    for schema in schemas {
        if schema.accepts(value)? {
            if is_met {
                return Ok(false);
            }
            is_met = true;
        }
    }
    Ok(is_met)
}

/// The property of that name.
pub(super) fn property<'p>(
    properties: &'p [Property],
    field: RawElement<'_>,
) -> Result<Option<&'p Property>> {
    interrupts::work(UNITS_OF_A_FIELD)?;
    let name = field.name().as_bytes();
    let place = properties.binary_search_by(|property| property.name.as_bytes().cmp(name));
    Ok(place.ok().map(|place| &properties[place]))
}

/// Whether neither a name nor a pattern speaks of the field.
pub(super) fn is_additional(
    field: RawElement<'_>,
    named: &[String],
    patterns: &[PatternProperty],
) -> Result<bool> {
    interrupts::work(UNITS_OF_A_FIELD)?;
    let name = field.name().as_bytes();
    if named
        .binary_search_by(|known| known.as_bytes().cmp(name))
        .is_ok()
    {
        return Ok(false);
    }
    for pattern in patterns {
        if pattern.names(field)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Those of the sorted names that the document does not have.
pub(super) fn missing<'n>(names: &'n [String], document: RawDocument<'_>) -> Result<Vec<&'n str>> {
    let mut is_there: SmallVec<[bool; 32]> = SmallVec::from_elem(false, names.len());
    for field in document {
        interrupts::work(UNITS_OF_A_FIELD)?;
        let name = field.name().as_bytes();
        if let Ok(place) = names.binary_search_by(|known| known.as_bytes().cmp(name)) {
            is_there[place] = true;
        }
    }
    let missing = names.iter().zip(is_there).filter(|(_, there)| !there);
    Ok(missing.map(|(name, _)| name.as_str()).collect())
}

/// The position of the first item from `from` on that does not suit the schema.
pub(super) fn first_unfit_item(
    schema: &Schema,
    array: RawArray<'_>,
    from: usize,
) -> Result<Option<usize>> {
    for (position, item) in array.iter().enumerate() {
        interrupts::work(UNITS_OF_A_FIELD)?;
        if position >= from && !schema.accepts(item)? {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// The first item that equals one before it, whatever the order of their fields.
pub(super) fn duplicate_item(array: RawArray<'_>) -> Result<Option<RawValue<'_>>> {
    let (mut items, mut held) = (ValueSet::default(), Charge::default());
    for item in array {
        interrupts::work(units_of(item))?;
        let (_, grew) = items.insert(with_sorted_fields(item).as_raw())?;
        if grew == 0 {
            return Ok(Some(item));
        }
        held.grow(grew)?;
    }
    Ok(None)
}

/// Whether nothing remains of a division. Whole numbers are divided exactly, others in Decimal128 as MongoDB does.
fn is_multiple(value: RawValue<'_>, divisor: RawValue<'_>) -> bool {
    if let (Some(value), Some(divisor)) = (value.as_i64_exact(), divisor.as_i64_exact()) {
        return i128::from(value) % i128::from(divisor) == 0;
    }
    decimal(value).rem(&decimal(divisor)).is_zero()
}

fn decimal(number: RawValue<'_>) -> Decimal128 {
    match number {
        RawValue::Decimal128(number) => number,
        RawValue::Double(number) => Decimal128::from_f64(number),
        whole => Decimal128::from(whole.as_i64_exact().unwrap_or_default()),
    }
}

fn code_points(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64
}
