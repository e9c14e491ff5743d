//! `$inc` and `$mul`. A result is as wide as its widest operand (Int32, Int64, Double, Decimal128); an Int32 that overflows
//! becomes an Int64, an Int64 that overflows is an error.

use quarry_bson::{Decimal128, ElementType, RawElement, RawValue, Value};

use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target};
use crate::update::write::put;

#[derive(Debug)]
pub(super) struct Inc(Value);

#[derive(Debug)]
pub(super) struct Mul(Value);

impl FromArgument for Inc {
    fn from_argument(
        path: &FieldPath,
        argument: RawValue<'_>,
        _: &ExpressionContext,
    ) -> Result<Inc> {
        let text = "Cannot increment with non-numeric argument";
        Ok(Inc(number(argument, path, text)?))
    }
}

impl Modifier for Inc {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let element = found.element;
        let sum = add(element.value(), self.0.as_raw());
        put(found.name(), calculated(target, element, "$inc", sum)?, out);
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(name, self.0.as_raw(), out);
        Ok(())
    }
}

impl FromArgument for Mul {
    fn from_argument(
        path: &FieldPath,
        argument: RawValue<'_>,
        _: &ExpressionContext,
    ) -> Result<Mul> {
        let text = "Cannot multiply with non-numeric argument";
        Ok(Mul(number(argument, path, text)?))
    }
}

impl Modifier for Mul {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let element = found.element;
        let product = multiply(element.value(), self.0.as_raw());
        put(
            found.name(),
            calculated(target, element, "$mul", product)?,
            out,
        );
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(name, zero_like(self.0.as_raw()), out);
        Ok(())
    }
}

fn number(argument: RawValue<'_>, path: &FieldPath, complaint: &str) -> Result<Value> {
    if !argument.is_number() {
        return Err(Error::type_mismatch(format!(
            "{complaint}: {{{}: {argument}}}",
            path.as_str()
        )));
    }
    Ok(argument.to_value())
}

/// The result of an operator, or the error of a value that it cannot be applied to.
fn calculated<'v>(
    target: &Target<'_>,
    element: RawElement<'_>,
    op: &str,
    result: Option<RawValue<'v>>,
) -> Result<RawValue<'v>> {
    if !element.value().is_number() {
        return Err(Error::type_mismatch(format!(
            "Cannot apply {op} to a value of non-numeric type. {{{}}} has the field '{}' of non-numeric type {}",
            target.id_shown(),
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
            target.id_shown()
        ))
    })
}

/// None if the result does not fit an Int64, or an operand is no number.
fn add<'a>(a: RawValue<'_>, b: RawValue<'_>) -> Option<RawValue<'a>> {
    combine(a, b, i64::checked_add, |a, b| a + b, |a, b| a.add(&b))
}

/// As [`add`].
fn multiply<'a>(a: RawValue<'_>, b: RawValue<'_>) -> Option<RawValue<'a>> {
    combine(a, b, i64::checked_mul, |a, b| a * b, |a, b| a.mul(&b))
}

fn combine<'a>(
    a: RawValue<'_>,
    b: RawValue<'_>,
    whole: fn(i64, i64) -> Option<i64>,
    double: fn(f64, f64) -> f64,
    decimal: fn(Decimal128, Decimal128) -> Decimal128,
) -> Option<RawValue<'a>> {
    match (a, b) {
        (RawValue::Int32(a), RawValue::Int32(b)) => {
            // Two Int32s never overflow an Int64.
            let result = whole(i64::from(a), i64::from(b))?;
            Some(i32::try_from(result).map_or(RawValue::Int64(result), RawValue::Int32))
        }
        (RawValue::Decimal128(_), _) | (_, RawValue::Decimal128(_)) => Some(RawValue::Decimal128(
            decimal(as_decimal(a)?, as_decimal(b)?),
        )),
        (RawValue::Double(_), _) | (_, RawValue::Double(_)) => Some(RawValue::Double(double(
            a.as_f64_lossy()?,
            b.as_f64_lossy()?,
        ))),
        _ => whole(a.as_i64_exact()?, b.as_i64_exact()?).map(RawValue::Int64),
    }
}

/// Zero of a number's own type: what `$mul` starts a missing field with.
fn zero_like<'a>(number: RawValue<'_>) -> RawValue<'a> {
    match number {
        RawValue::Int64(_) => RawValue::Int64(0),
        RawValue::Double(_) => RawValue::Double(0.0),
        RawValue::Decimal128(_) => RawValue::Decimal128(Decimal128::from_i64(0)),
        _ => RawValue::Int32(0),
    }
}

fn as_decimal(number: RawValue<'_>) -> Option<Decimal128> {
    match number {
        RawValue::Int32(number) => Some(Decimal128::from_i64(i64::from(number))),
        RawValue::Int64(number) => Some(Decimal128::from_i64(number)),
        RawValue::Double(number) => Some(Decimal128::from_f64(number)),
        RawValue::Decimal128(number) => Some(number),
        _ => None,
    }
}
