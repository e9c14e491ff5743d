//! From BSON to an expression: `"$path"`, `{$operator: operand}`, a document of expressions, an array of them,
//! or a literal. Documents and arrays of literals become literals.

use std::collections::HashSet;

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawDocument, RawValue, Value};

use super::path::Parsed;
use super::tree::{Arguments, Operator};
use super::{Evaluated, Expression, ExpressionContext, Path, Variables, bounds, operators};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::check_name;
use crate::interrupts::{self, units_of};
use crate::memory::{self, Counted};

/// Levels of operators, documents and arrays in one expression.
pub const EXPRESSION_DEPTH_MAX: usize = 100;

/// The work of parsing one node of an expression.
const UNITS_OF_A_NODE: usize = 15;

impl Expression {
    /// Parses an expression of the command that the context is of.
    pub fn parse(value: RawValue<'_>, context: &ExpressionContext) -> Result<Expression> {
        Expression::read(value, &mut Variables::new(context))
    }

    /// Like `parse`, within an expression that has bound variables.
    pub(super) fn read(value: RawValue<'_>, variables: &mut Variables<'_>) -> Result<Expression> {
        if variables.descend() > EXPRESSION_DEPTH_MAX {
            let text = format!("an expression nests deeper than {EXPRESSION_DEPTH_MAX} levels");
            return Err(Error::new(ErrorCode::OVERFLOW, text));
        }
        interrupts::work(UNITS_OF_A_NODE + units_of(value) / 8)?;
        let parsed = parse_value(value, variables);
        variables.ascend();
        parsed
    }

    /// Parses the operand of a known operator, `name` with its `$`; None if there is no such operator.
    pub fn parse_call(
        name: &str,
        operand: RawValue<'_>,
        variables: &mut Variables<'_>,
    ) -> Option<Result<Expression>> {
        operators::find(name).map(|operator| read(operator, operand, variables))
    }

    /// The arguments of an operator: an array lists them, anything else is the only one.
    pub(super) fn parse_arguments(
        operand: RawValue<'_>,
        variables: &mut Variables<'_>,
    ) -> Result<Vec<Expression>> {
        match operand {
            RawValue::Array(array) => array
                .iter()
                .map(|item| Expression::read(item, variables))
                .collect(),
            single => Ok(vec![Expression::read(single, variables)?]),
        }
    }
}

/// Reads an operand by an operator's rule. The call compares strings as the command does.
fn read(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let mut parsed = read_plain(operator, operand, variables)?;
    if let Expression::Call(call) = &mut parsed {
        call.collation.clone_from(variables.context.collation());
    }
    Ok(parsed)
}

fn read_plain(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let arguments = match operator.arguments {
        Arguments::Parsed(parse) => return parse(operator, operand, variables),
        _ => Expression::parse_arguments(operand, variables)?,
    };
    check_count(operator, arguments.len())?;
    Ok(Expression::call(operator, arguments, Vec::new()))
}

fn check_count(operator: &Operator, count: usize) -> Result<()> {
    let name = operator.name;
    match operator.arguments {
        Arguments::Exactly(wanted) if count != wanted => {
            let text = format!(
                "Expression {name} takes exactly {wanted} arguments. {count} were passed in."
            );
            Err(Error::location(16020, text))
        }
        Arguments::Between(low, high) if !(low..=high).contains(&count) => {
            let text = format!(
                "Expression {name} takes at least {low} arguments, and at most {high}, but {count} were passed in."
            );
            Err(Error::location(28667, text))
        }
        _ => Ok(()),
    }
}

fn parse_value(value: RawValue<'_>, variables: &mut Variables<'_>) -> Result<Expression> {
    match value {
        RawValue::String(text) if text.as_bytes().first() == Some(&b'$') => {
            parse_path(text.as_str()?, variables)
        }
        RawValue::Document(document) => parse_document(document, variables),
        RawValue::Array(array) => {
            let items: Vec<Expression> = array
                .iter()
                .map(|item| Expression::read(item, variables))
                .collect::<Result<_>>()?;
            fold_array(items)
        }
        literal => Ok(Expression::Literal(literal.to_value())),
    }
}

/// A path, or the constant that it leads to.
fn parse_path(text: &str, variables: &Variables<'_>) -> Result<Expression> {
    Ok(match Path::parse(text, variables)? {
        Parsed::Path(path) => Expression::Path(path),
        Parsed::Constant(value) => Expression::Literal(value),
    })
}

fn parse_document(document: RawDocument<'_>, variables: &mut Variables<'_>) -> Result<Expression> {
    let Some(first) = document.first() else {
        return Ok(Expression::Literal(Value::from(RawDocument::EMPTY)));
    };
    if first.name().as_bytes().first() != Some(&b'$') {
        return parse_members(document, variables);
    }
    let count = document.len();
    if count != 1 {
        let text = format!(
            "an expression specification must contain exactly one field, the name of the expression. Found {count} fields in \
             {document}, while parsing object {document}"
        );
        return Err(Error::location(15983, text));
    }
    let name = first.name().as_str()?;
    Expression::parse_call(name, first.value(), variables).unwrap_or_else(|| {
        if let Some(text) = operators::refusal(name) {
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
        }
        Err(Error::new(
            ErrorCode::INVALID_PIPELINE_OPERATOR,
            format!("Unrecognized expression '{name}'"),
        ))
    })
}

fn parse_members(document: RawDocument<'_>, variables: &mut Variables<'_>) -> Result<Expression> {
    let mut fields: Vec<(Box<str>, Expression)> = Vec::new();
    let mut names = HashSet::new();
    for element in document {
        let name = element.name().as_str()?;
        check_name(name)?;
        if !names.insert(name) {
            return Err(Error::location(
                16406,
                format!("duplicate field name specified in object literal: {document}"),
            ));
        }
        fields.push((name.into(), Expression::read(element.value(), variables)?));
    }
    fold_object(fields)
}

fn fold_object(fields: Vec<(Box<str>, Expression)>) -> Result<Expression> {
    if fields.iter().any(|(_, field)| field.constant().is_none()) {
        return Ok(Expression::Object(fields));
    }
    let mut built = Counted::default();
    let mut builder = DocumentBuilder::new(&mut built.bytes);
    for (name, value) in fields
        .iter()
        .filter_map(|(name, field)| Some((name, field.constant()?)))
    {
        bounds::check_depth(value.as_raw(), 1)?;
        let bytes = builder.len_bytes() + memory::bytes_of(value.as_raw());
        built.charge.cover(bytes)?;
        builder.append(&**name, value);
    }
    builder.finish();
    Ok(literal(Evaluated::document(built)))
}

fn fold_array(items: Vec<Expression>) -> Result<Expression> {
    if items.iter().any(|item| item.constant().is_none()) {
        return Ok(Expression::Array(items));
    }
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for value in items.iter().filter_map(Expression::constant) {
        bounds::check_depth(value.as_raw(), 1)?;
        let bytes = builder.len_bytes() + memory::bytes_of(value.as_raw());
        built.charge.cover(bytes)?;
        builder.push(value);
    }
    builder.finish();
    Ok(literal(Evaluated::array(built)))
}

fn literal(value: Evaluated<'_>) -> Expression {
    value
        .into_value()
        .map_or(Expression::Absent, Expression::Literal)
}
