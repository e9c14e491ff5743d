//! From BSON to an expression: `"$path"`, `{$operator: operand}`, a document of expressions, an array of them,
//! or a literal. Documents and arrays of literals become literals.

use std::collections::HashSet;

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawDocument, RawValue, Value};

use super::operator::{Arguments, Operator};
use super::path::check_name;
use super::{EXPRESSION_DEPTH_MAX, Expression, Path, Variables, operator};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts::{self, units_of};
use crate::memory::Counted;

/// The work of parsing one node of an expression.
const UNITS_OF_A_NODE: usize = 15;

impl Expression {
    pub fn parse(value: RawValue<'_>, variables: &mut Variables) -> Result<Expression> {
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
        variables: &mut Variables,
    ) -> Option<Result<Expression>> {
        operator::find(name).map(|operator| operator::read(operator, operand, variables))
    }
}

fn parse_value(value: RawValue<'_>, variables: &mut Variables) -> Result<Expression> {
    match value {
        RawValue::String(text) if text.as_bytes().first() == Some(&b'$') => {
            Ok(Expression::Path(Path::parse(text.as_str()?, variables)?))
        }
        RawValue::Document(document) => parse_document(document, variables),
        RawValue::Array(array) => {
            let items: Vec<Expression> = array
                .iter()
                .map(|item| Expression::parse(item, variables))
                .collect::<Result<_>>()?;
            Ok(fold_array(items))
        }
        literal => Ok(Expression::Literal(literal.to_value())),
    }
}

fn parse_document(document: RawDocument<'_>, variables: &mut Variables) -> Result<Expression> {
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
        Err(Error::new(
            ErrorCode::INVALID_PIPELINE_OPERATOR,
            format!("Unrecognized expression '{name}'"),
        ))
    })
}

fn parse_members(document: RawDocument<'_>, variables: &mut Variables) -> Result<Expression> {
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
        fields.push((name.into(), Expression::parse(element.value(), variables)?));
    }
    Ok(fold_object(fields))
}

fn fold_object(fields: Vec<(Box<str>, Expression)>) -> Expression {
    if fields.iter().any(|(_, field)| field.constant().is_none()) {
        return Expression::Object(fields);
    }
    let mut built = Counted::default();
    let mut builder = DocumentBuilder::new(&mut built.bytes);
    for (name, value) in fields
        .iter()
        .filter_map(|(name, field)| Some((name, field.constant()?)))
    {
        builder.append(&**name, value);
    }
    builder.finish();
    literal(super::Evaluated::document(built))
}

fn fold_array(items: Vec<Expression>) -> Expression {
    if items.iter().any(|item| item.constant().is_none()) {
        return Expression::Array(items);
    }
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for value in items.iter().filter_map(Expression::constant) {
        builder.push(value);
    }
    builder.finish();
    literal(super::Evaluated::array(built))
}

fn literal(value: super::Evaluated<'_>) -> Expression {
    value
        .into_value()
        .map_or(Expression::Absent, Expression::Literal)
}

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$literal",
        arguments: Arguments::Parsed(parse_literal),
        evaluate: evaluated_at_parse,
    },
    Operator {
        name: "$const",
        arguments: Arguments::Parsed(parse_literal),
        evaluate: evaluated_at_parse,
    },
];

fn parse_literal(
    _: &'static Operator,
    operand: RawValue<'_>,
    _: &mut Variables,
) -> Result<Expression> {
    Ok(Expression::Literal(operand.to_value()))
}

/// No call of these operators is ever built.
fn evaluated_at_parse<'a>(
    _: &'a super::Call,
    _: &mut super::Context<'a>,
) -> Result<super::Evaluated<'a>> {
    Ok(super::Evaluated::Missing)
}
