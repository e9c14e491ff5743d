//! `$getField $setField $unsetField`: a field by its very name, which may hold dots and begin with `$`.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use super::parameters::{need, parameters};
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, bounds, type_name};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{Counted, bytes_of};

/// The operand is `{field: .., input: ..}`, or the field of the document itself.
pub(super) fn parse_get(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let is_named = operand.as_document().is_some_and(|document| {
        let first = document.first();
        first.is_none_or(|first| first.name().as_bytes().first() != Some(&b'$'))
    });
    let (field, input) = if is_named {
        let not_document = |_| Error::location(3_041_701, "not a document");
        let unknown = |name: &str| {
            let text = format!("$getField found an unknown argument: {name}");
            Error::location(3_041_701, text)
        };
        let [field, input] = parameters(operand, ["field", "input"], not_document, unknown)?;
        let text = "$getField requires 'field' to be specified";
        let field = need(field, 3_041_702, text)?;
        let text = "$getField requires 'input' to be specified";
        (field, need(input, 3_041_703, text)?)
    } else {
        (
            operand,
            RawValue::String(quarry_bson::RawStr::from_bytes(b"$$CURRENT")),
        )
    };
    let field = Expression::read(field, variables)?;
    if let Some(value) = field.constant()
        && value.as_str().is_none()
    {
        let kind = type_name(value.as_raw());
        let text = format!("$getField requires 'field' to evaluate to type String, but got {kind}");
        return Err(Error::location(5_654_602, text));
    }
    let input = Expression::read(input, variables)?;
    Ok(Expression::call(operator, vec![field, input], Vec::new()))
}

pub(super) fn get<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (field, input) = (call.argument(0, context)?, call.argument(1, context)?);
    let Some(name) = field.as_str() else {
        let kind = field.type_name();
        let text = format!("$getField requires 'field' to evaluate to type String, but got {kind}");
        return Err(Error::location(3_041_704, text));
    };
    match input.as_raw() {
        Some(RawValue::Document(document)) => {
            interrupts::work_on_bytes(document.len_bytes())?;
            Ok(input.select(|value| value.as_document()?.get(name)))
        }
        Some(RawValue::Null | RawValue::Undefined) => Ok(Evaluated::NULL),
        _ => Ok(Evaluated::Missing),
    }
}

/// `$unsetField` is `$setField` with a value that is missing.
pub(super) fn parse_set(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    let [field, input, value] = parameters(
        operand,
        ["field", "input", "value"],
        |found| {
            let kind = type_name(found);
            let text = format!("{name} only supports an object as its argument, found {kind}");
            Error::location(4_161_100, text)
        },
        |found| {
            let text = format!("{name} found an unknown argument: {found}");
            Error::location(4_161_101, text)
        },
    )?;
    let is_unset = name == "$unsetField";
    if is_unset && value.is_some() {
        let text = "$unsetField found an unknown argument: value";
        return Err(Error::location(4_161_101, text));
    }
    let missing = |parameter| format!("{name} requires '{parameter}' to be specified");
    let field = need(field, 4_161_102, &missing("field"))?;
    let value = match value {
        None if is_unset => Expression::Absent,
        value => Expression::read(need(value, 4_161_103, &missing("value"))?, variables)?,
    };
    let input = need(input, 4_161_109, &missing("input"))?;
    let input = Expression::read(input, variables)?;
    let is_path = field.as_str().is_some_and(|field| field.starts_with('$'));
    let is_object = field.as_document().is_some();
    let field = Expression::read(field, variables)?;
    match field.constant() {
        _ if is_path => {
            let text = format!(
                "{name} requires 'field' to evaluate to a constant, and a field path is none: a name with a dollar stands in a $literal"
            );
            return Err(Error::location(4_161_108, text));
        }
        Some(field) if field.as_str().is_some_and(|name| !name.contains('\0')) => {}
        Some(field) if field.as_str().is_some() => {
            let text = format!("{name} requires 'field' without an embedded null byte");
            return Err(Error::bad_value(text));
        }
        Some(other) => {
            let kind = type_name(other.as_raw());
            let text =
                format!("{name} requires 'field' to evaluate to type String, but got {kind}");
            let code = if is_object { 4_161_106 } else { 4_161_107 };
            return Err(Error::location(code, text));
        }
        None => {
            let text = format!(
                "{name} requires 'field' to evaluate to a constant, but got a non-constant argument"
            );
            return Err(Error::location(4_161_106, text));
        }
    }
    Ok(Expression::call(
        operator,
        vec![field, input, value],
        Vec::new(),
    ))
}

pub(super) fn set<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (field, input) = (call.argument(0, context)?, call.argument(1, context)?);
    let value = call.argument(2, context)?;
    match input.as_raw() {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(Evaluated::NULL),
        Some(RawValue::Document(document)) => {
            let name = field.as_str().unwrap_or_default();
            with_field(document, name, value.as_raw())
        }
        Some(_) => {
            let (name, kind) = (call.name(), input.type_name());
            let text =
                format!("{name} requires 'input' to evaluate to type Object, but got {kind}");
            Err(Error::location(4_161_105, text))
        }
    }
}

/// The document with another value of a field, in its place or at the end, or without the field.
fn with_field<'a>(
    document: RawDocument<'_>,
    name: &str,
    value: Option<RawValue<'_>>,
) -> Result<Evaluated<'a>> {
    value.map_or(Ok(()), |value| bounds::check_depth(value, 1))?;
    let mut built = Counted::default();
    let bytes = document.len_bytes() + name.len() + value.map_or(0, bytes_of);
    built.charge.cover(bytes)?;
    let mut out = DocumentBuilder::new(&mut built.bytes);
    let mut left = value;
    for element in document {
        interrupts::work(1)?;
        if element.name() != name {
            out.append_element(element);
        } else if let Some(value) = left.take() {
            out.append(name, value);
        }
    }
    if let Some(value) = left {
        out.append(name, value);
    }
    out.finish();
    Ok(Evaluated::document(built))
}
