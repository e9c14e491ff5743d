//! `$push`: values that go into an array at a position, after which the array may be sorted and cut.

use std::cmp::Ordering;

use quarry_bson::{ArrayBuilder, ElementType, RawArray, RawElement, RawValue, Value};

use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::interrupts::{self, units_of};
use crate::sorter::sort_in_steps;
use crate::update::modifier::{Found, FromArgument, Modifier, Target, deepest};
use crate::update::write::header;

#[derive(Debug)]
pub(super) struct Push {
    elements: Vec<Value>,
    position: Option<i64>,
    slice: Option<i64>,
    sort: Option<PushSort>,
    /// How the sort compares strings.
    collation: Collation,
}

#[derive(Debug)]
enum PushSort {
    Whole { descending: bool },
    Fields(Vec<(FieldPath, bool)>),
}

impl FromArgument for Push {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Push> {
        let plain = |value: RawValue<'_>| Push {
            elements: vec![value.to_value()],
            position: None,
            slice: None,
            sort: None,
            collation: context.collation().clone(),
        };
        let RawValue::Document(clauses) = argument else {
            return Ok(plain(argument));
        };
        let Some(each) = clauses.get("$each") else {
            return Ok(plain(argument));
        };
        let RawValue::Array(values) = each else {
            return Err(Error::bad_value(format!(
                "The argument to $each in $push must be an array but it was of type: {}",
                each.element_type().alias()
            )));
        };
        let elements = values.iter().map(|value| value.to_value()).collect();
        let mut push = Push {
            elements,
            position: None,
            slice: None,
            sort: None,
            collation: context.collation().clone(),
        };
        for (place, clause) in clauses.iter().enumerate() {
            let mut before = clauses.iter().take(place);
            if before.any(|other| other.name().as_bytes() == clause.name().as_bytes()) {
                let text = format!("Only one {} is supported.", clause.name());
                return Err(Error::bad_value(text));
            }
            match clause.name().as_bytes() {
                b"$each" => {}
                b"$slice" => push.slice = Some(parse_slice(clause.value())?),
                b"$position" => push.position = Some(parse_position(clause.value())?),
                b"$sort" => push.sort = Some(parse_sort(clause.value())?),
                _ => {
                    return Err(Error::bad_value(format!(
                        "Unrecognized clause in $push: {}",
                        clause.name()
                    )));
                }
            }
        }
        Ok(push)
    }
}

impl Modifier for Push {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let array = found.element.value().as_array();
        let array = array.ok_or_else(|| not_an_array(found.element, target))?;
        self.write(found.name(), array, out)
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.write(name, RawArray::EMPTY, out)
    }

    fn depth(&self) -> usize {
        1 + deepest(&self.elements)
    }

    fn may_append(&self) -> bool {
        true
    }
}

impl Push {
    /// Writes the array as the values have changed it.
    fn write(&self, name: &[u8], array: RawArray<'_>, out: &mut Vec<u8>) -> Result<()> {
        header(ElementType::Array, name, out);
        let mut builder = ArrayBuilder::new(out);
        if self.only_appends() {
            for element in array.elements() {
                interrupts::work_on_bytes(element.as_bytes().len())?;
                builder.push_element(element);
            }
            for value in &self.elements {
                interrupts::work_on_bytes(value.as_bytes().len())?;
                builder.push(value);
            }
        } else {
            for value in self.arrange(array.iter().collect())? {
                interrupts::work(units_of(value))?;
                builder.push(value);
            }
        }
        builder.finish();
        Ok(())
    }
    /// True if the values go behind what is there, which then stays as it is.
    fn only_appends(&self) -> bool {
        self.position.is_none() && self.slice.is_none() && self.sort.is_none()
    }

    fn compare_fields(
        &self,
        fields: &[(FieldPath, bool)],
        a: RawValue<'_>,
        b: RawValue<'_>,
    ) -> Ordering {
        let mut orders = fields.iter().map(|(path, descending)| {
            let (a, b) = (sort_value(a, path), sort_value(b, path));
            directed(self.collation.compare(a, b), *descending)
        });
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The array afterwards.
    fn arrange<'v>(&'v self, mut array: Vec<RawValue<'v>>) -> Result<Vec<RawValue<'v>>> {
        let place = match self.position {
            None => array.len(),
            Some(position) if position < 0 => {
                array.len().saturating_sub(position.unsigned_abs() as usize)
            }
            Some(position) => array.len().min(position as usize),
        };
        array.splice(place..place, self.elements.iter().map(Value::as_raw));
        match &self.sort {
            None => {}
            Some(PushSort::Whole { descending }) => {
                sort_in_steps(&mut array, |a, b| {
                    directed(self.collation.compare(*a, *b), *descending)
                })?;
            }
            Some(PushSort::Fields(fields)) => {
                sort_in_steps(&mut array, |a, b| self.compare_fields(fields, *a, *b))?;
            }
        }
        match self.slice {
            None => {}
            Some(slice) if slice >= 0 => array.truncate(slice as usize),
            Some(slice) => {
                let gone = array.len().saturating_sub(slice.unsigned_abs() as usize);
                array.drain(..gone);
            }
        }
        Ok(array)
    }
}

fn not_an_array(element: RawElement<'_>, target: &Target<'_>) -> Error {
    Error::bad_value(format!(
        "The field '{}' must be an array but is of type {} in document {{{}}}",
        element.name(),
        element.element_type().alias(),
        target.id_shown()
    ))
}

/// The value that an element is sorted by; Null where it has no such field.
fn sort_value<'a>(element: RawValue<'a>, path: &FieldPath) -> RawValue<'a> {
    element
        .as_document()
        .and_then(|document| document.get_path(path.as_str()))
        .unwrap_or(RawValue::Null)
}

fn directed(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

fn parse_slice(value: RawValue<'_>) -> Result<i64> {
    value.as_i64_exact().ok_or_else(|| {
        let found = value.element_type().alias();
        Error::bad_value(format!(
            "The value for $slice must be an integer value but was given type: {found}"
        ))
    })
}

fn parse_position(value: RawValue<'_>) -> Result<i64> {
    value.as_i64_exact().ok_or_else(|| {
        let found = value.element_type().alias();
        Error::bad_value(format!(
            "The value for $position must be an integer value, not of type: {found}"
        ))
    })
}

fn parse_sort(value: RawValue<'_>) -> Result<PushSort> {
    match value {
        RawValue::Document(pattern) if pattern.is_empty() => Err(Error::bad_value(
            "The $sort pattern is empty when it should be a set of fields.",
        )),
        RawValue::Document(pattern) => {
            let mut fields = Vec::new();
            for element in pattern {
                let name = element.name().as_str()?;
                if name.is_empty() || name.split('.').any(str::is_empty) {
                    return Err(Error::bad_value(format!(
                        "The $sort field '{name}' is a dotted field but has an empty part"
                    )));
                }
                fields.push((FieldPath::parse(name)?, is_descending(element.value())?));
            }
            Ok(PushSort::Fields(fields))
        }
        number if number.is_number() => Ok(PushSort::Whole {
            descending: is_descending(number)?,
        }),
        _ => Err(Error::bad_value(
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
        )),
    }
}

fn is_descending(value: RawValue<'_>) -> Result<bool> {
    match value.as_i64_exact() {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(Error::bad_value(
            "The $sort element value must be either 1 or -1",
        )),
    }
}
