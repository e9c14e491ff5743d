//! Operands that are documents of named parameters, such as that of `$filter`.

use quarry_bson::RawValue;

use super::tree::Operator;
use super::{Expression, Variables};
use crate::error::{Error, Result};

/// The operand's parameters by name, in the order of `names`.
pub(super) fn parameters<'v, const N: usize>(
    operand: RawValue<'v>,
    names: [&str; N],
    not_document: impl FnOnce(RawValue<'v>) -> Error,
    unknown: impl Fn(&str) -> Error,
) -> Result<[Option<RawValue<'v>>; N]> {
    let RawValue::Document(document) = operand else {
        return Err(not_document(operand));
    };
    let mut found = [None; N];
    for element in document {
        let index = names.iter().position(|name| element.name() == *name);
        let index = index.ok_or_else(|| unknown(&element.name().to_string_lossy()))?;
        found[index] = Some(element.value());
    }
    Ok(found)
}

/// The value of a parameter that must be given.
pub(super) fn need<'v>(value: Option<RawValue<'v>>, code: i32, text: &str) -> Result<RawValue<'v>> {
    value.ok_or_else(|| Error::location(code, text))
}

/// The call of an operator whose parameters are expressions: its arguments stand in the order of `names`, and one that was
/// not given is Absent.
pub(super) fn call_of<const N: usize>(
    operator: &'static Operator,
    given: [Option<RawValue<'_>>; N],
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let mut arguments = Vec::with_capacity(N);
    for value in given {
        arguments.push(match value {
            Some(value) => Expression::read(value, variables)?,
            None => Expression::Absent,
        });
    }
    Ok(Expression::call(operator, arguments, Vec::new()))
}
