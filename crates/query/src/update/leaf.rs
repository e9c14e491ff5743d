//! An operator at the end of its path: the element that stands there is rewritten, or a new one made.

use quarry_bson::compare::compare_values;
use quarry_bson::{ElementType, RawArray, RawElement, RawValue, Timestamp};

use super::apply::{Apply, Within, header};
use super::modifier::{Clock, Modifier};
use super::tree::Leaf;
use super::{arithmetic, array_values};
use crate::error::{Error, Result};

impl Apply<'_, '_> {
    pub(super) fn modify(
        &self,
        element: RawElement<'_>,
        leaf: &Leaf,
        within: Within,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let name = element.name().as_bytes();
        let value = element.value();
        match &leaf.modifier {
            Modifier::Set(new) => put(name, new.as_raw(), out),
            Modifier::SetOnInsert(new) if self.insert => put(name, new.as_raw(), out),
            Modifier::SetOnInsert(_) => out.extend_from_slice(element.as_bytes()),
            // Positions after it keep their numbers.
            Modifier::Unset if within == Within::Array => header(ElementType::Null, name, out),
            Modifier::Unset | Modifier::RenamedAway => {}
            Modifier::Inc(by) => put(name, self.sum(element, by.as_raw())?, out),
            Modifier::Mul(by) => put(name, self.product(element, by.as_raw())?, out),
            Modifier::Min(bound) if compare_values(bound.as_raw(), value).is_lt() => {
                put(name, bound.as_raw(), out);
            }
            Modifier::Max(bound) if compare_values(bound.as_raw(), value).is_gt() => {
                put(name, bound.as_raw(), out);
            }
            Modifier::Min(_) | Modifier::Max(_) => out.extend_from_slice(element.as_bytes()),
            Modifier::RenameFrom(from) => match self.root.get_path(from.as_str()) {
                Some(source) => put(name, source, out),
                None => out.extend_from_slice(element.as_bytes()),
            },
            Modifier::CurrentDate(clock) => put(name, self.now(*clock), out),
            Modifier::Bit(steps) => {
                let mut bits = value;
                for (op, operand) in steps {
                    let result = arithmetic::bitwise(*op, bits, operand.as_raw());
                    bits = result.ok_or_else(|| self.not_integral(element))?;
                }
                put(name, bits, out);
            }
            Modifier::Push(push) => {
                let array = value
                    .as_array()
                    .ok_or_else(|| self.not_an_array_to_push(element))?;
                array_values::push(name, array, push, out)?;
            }
            Modifier::AddToSet(values) => {
                let array = value
                    .as_array()
                    .ok_or_else(|| not_an_array_to_add(element))?;
                array_values::add_to_set(name, array, values, out)?;
            }
            Modifier::PopFirst | Modifier::PopLast => {
                let Some(array) = value.as_array() else {
                    return Err(Error::type_mismatch(format!(
                        "Path '{}' contains an element of non-array type '{}'",
                        leaf.path.as_str(),
                        element.element_type().alias()
                    )));
                };
                array_values::pop(
                    element,
                    array,
                    matches!(leaf.modifier, Modifier::PopFirst),
                    out,
                );
            }
            Modifier::Pull(condition) => {
                let array = value
                    .as_array()
                    .ok_or_else(|| Error::bad_value("Cannot apply $pull to a non-array value"))?;
                array_values::keep(element, array, out, |member| Ok(!condition.takes(member)?))?;
            }
            Modifier::PullAll(values) => {
                let array = value
                    .as_array()
                    .ok_or_else(|| Error::bad_value("Cannot apply $pull to a non-array value"))?;
                array_values::keep(element, array, out, |member| {
                    let found = values
                        .binary_search_by(|value| compare_values(value.as_raw(), member.value()));
                    Ok(found.is_err())
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn create_leaf(&self, name: &[u8], leaf: &Leaf, out: &mut Vec<u8>) -> Result<()> {
        match &leaf.modifier {
            Modifier::Set(value)
            | Modifier::Inc(value)
            | Modifier::Min(value)
            | Modifier::Max(value) => {
                put(name, value.as_raw(), out);
            }
            Modifier::SetOnInsert(value) if self.insert => put(name, value.as_raw(), out),
            Modifier::Mul(by) => put(name, arithmetic::zero_like(by.as_raw()), out),
            Modifier::RenameFrom(from) => {
                if let Some(source) = self.root.get_path(from.as_str()) {
                    put(name, source, out);
                }
            }
            Modifier::CurrentDate(clock) => put(name, self.now(*clock), out),
            Modifier::Bit(steps) => {
                let mut bits = RawValue::Int32(0);
                for (op, operand) in steps {
                    bits = arithmetic::bitwise(*op, bits, operand.as_raw())
                        .expect("operands of $bit were checked to be integers");
                }
                put(name, bits, out);
            }
            Modifier::Push(push) => array_values::push(name, RawArray::EMPTY, push, out)?,
            Modifier::AddToSet(values) => {
                array_values::add_to_set(name, RawArray::EMPTY, values, out)?;
            }
            Modifier::SetOnInsert(_)
            | Modifier::Unset
            | Modifier::RenamedAway
            | Modifier::PopFirst
            | Modifier::PopLast
            | Modifier::Pull(_)
            | Modifier::PullAll(_) => {}
        }
        Ok(())
    }

    fn now(&self, clock: Clock) -> RawValue<'static> {
        match clock {
            Clock::Date => RawValue::DateTime(self.now_ms),
            Clock::Timestamp => RawValue::Timestamp(Timestamp {
                time: (self.now_ms / 1000) as u32,
                increment: 1,
            }),
        }
    }

    fn sum<'v>(&self, element: RawElement<'_>, by: RawValue<'_>) -> Result<RawValue<'v>> {
        self.calculated(element, "$inc", arithmetic::add(element.value(), by))
    }

    fn product<'v>(&self, element: RawElement<'_>, by: RawValue<'_>) -> Result<RawValue<'v>> {
        self.calculated(element, "$mul", arithmetic::multiply(element.value(), by))
    }

    fn calculated<'v>(
        &self,
        element: RawElement<'_>,
        op: &str,
        result: Option<RawValue<'v>>,
    ) -> Result<RawValue<'v>> {
        if !element.value().is_number() {
            return Err(Error::type_mismatch(format!(
                "Cannot apply {op} to a value of non-numeric type. {{{}}} has the field '{}' of non-numeric type {}",
                self.id_shown(),
                element.name(),
                element.element_type().alias()
            )));
        }
        result.ok_or_else(|| {
            Error::bad_value(format!(
                "Failed to apply {op} operations to current value (({}){}) for document {{{}}}",
                if element.element_type() == ElementType::Int64 {
                    "NumberLong"
                } else {
                    "NumberInt"
                },
                element.value().as_i64_exact().unwrap_or_default(),
                self.id_shown()
            ))
        })
    }

    fn not_integral(&self, element: RawElement<'_>) -> Error {
        Error::bad_value(format!(
            "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
            self.id_shown(),
            element.name(),
            element.element_type().alias()
        ))
    }

    fn not_an_array_to_push(&self, element: RawElement<'_>) -> Error {
        Error::bad_value(format!(
            "The field '{}' must be an array but is of type {} in document {{{}}}",
            element.name(),
            element.element_type().alias(),
            self.id_shown()
        ))
    }
}

fn not_an_array_to_add(element: RawElement<'_>) -> Error {
    Error::bad_value(format!(
        "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
        element.name(),
        element.element_type().alias()
    ))
}

fn put(name: &[u8], value: RawValue<'_>, out: &mut Vec<u8>) {
    header(value.element_type(), name, out);
    value.write_to(out);
}
