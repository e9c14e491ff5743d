//! The operand of `$type`: a set of BSON types by number, alias, or `"number"`.

use quarry_bson::{ElementType, RawValue};

use super::value_test::ValueTest;
use crate::error::{Error, Result};

/// A set of BSON types, as `$type` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeSet(u32);

impl TypeSet {
    /// Parses what follows `$type`: a number, a name, or an array of them.
    pub fn parse(operand: RawValue<'_>) -> Result<TypeSet> {
        let mut set = TypeSet(0);
        match operand {
            RawValue::Array(members) => members.iter().try_for_each(|member| set.add(member))?,
            single => set.add(single)?,
        }
        if set.0 == 0 {
            return Err(no_type());
        }
        Ok(set)
    }

    /// The types that these aliases name.
    pub fn of_aliases(aliases: &[&str]) -> Result<TypeSet> {
        let mut set = TypeSet(0);
        aliases.iter().try_for_each(|alias| set.add_alias(alias))?;
        if set.0 == 0 {
            return Err(no_type());
        }
        Ok(set)
    }

    fn add(&mut self, member: RawValue<'_>) -> Result<()> {
        if let Some(alias) = member.as_str() {
            return self.add_alias(alias);
        }
        if !member.is_number() {
            return Err(Error::type_mismatch(
                "type must be represented as a number or a string",
            ));
        }
        let code = member
            .as_i64_exact()
            .and_then(|code| i32::try_from(code).ok());
        let Some(element_type) = code.and_then(ElementType::from_number) else {
            return Err(Error::bad_value(format!(
                "Invalid numerical type code: {member}"
            )));
        };
        self.0 |= type_bit(element_type);
        Ok(())
    }

    fn add_alias(&mut self, alias: &str) -> Result<()> {
        if alias == "number" {
            self.0 |= NUMBERS;
            return Ok(());
        }
        let Some(element_type) = ElementType::from_alias(alias) else {
            return Err(Error::bad_value(format!(
                "Unknown type name alias: {alias}"
            )));
        };
        self.0 |= type_bit(element_type);
        Ok(())
    }
}

impl ValueTest for TypeSet {
    fn passes(&self, value: RawValue<'_>) -> Result<bool> {
        Ok(self.0 & type_bit(value.element_type()) != 0)
    }

    fn types(&self) -> Option<u32> {
        Some(self.0)
    }
}

fn no_type() -> Error {
    Error::failed_to_parse("$type must match at least one type")
}

/// The types of numbers.
pub(super) const NUMBERS: u32 = type_bit(ElementType::Int32)
    | type_bit(ElementType::Int64)
    | type_bit(ElementType::Double)
    | type_bit(ElementType::Decimal128);

/// The bit of a type in a set of them.
pub(crate) const fn type_bit(element_type: ElementType) -> u32 {
    match element_type {
        ElementType::MinKey => 1 << 30,
        ElementType::MaxKey => 1 << 31,
        other => 1 << (other as u8),
    }
}
