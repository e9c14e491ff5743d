//! `$addFields` and `$set`: fields computed into the document, at dotted paths or in nested documents.

use quarry_bson::{RawDocument, RawValue};

use super::stage::{Specification, Stages, one};
use super::transform::{Leaf, Transform};
use crate::error::{Error, Result};
use crate::expression::type_name;
use crate::field_path::FieldPath;
use crate::projection::Mode;

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let Specification { name, value, .. } = specification;
    let RawValue::Document(fields) = value else {
        let text = format!(
            "{name} specification stage must be an object, got {}",
            type_name(value)
        );
        return Err(Error::location(40272, text));
    };
    let in_stage = |error: Error| {
        Error::new(
            error.code,
            format!("Invalid {name} :: caused by :: {}", error.message),
        )
    };
    if fields.is_empty() {
        return Err(in_stage(Error::location(
            40177,
            "specification must have at least one field",
        )));
    }
    let mut leaves = Vec::new();
    collect(specification, fields, None, &mut leaves).map_err(in_stage)?;
    let metadata = specification.context.metadata_named();
    let fields = fields.to_owned_document();
    Transform::new(name, fields, Mode::Add, leaves, metadata)
        .map(one)
        .map_err(|error| in_stage(conflict(error)))
}

/// Whether a document is an expression and no sub-object. Fails for one that is both.
fn is_expression(document: RawDocument<'_>) -> Result<bool> {
    let mut operators = document
        .iter()
        .map(|field| field.name().as_bytes().starts_with(b"$"));
    let is_expression = operators.next() == Some(true);
    if document.len() > 1 && (is_expression || operators.any(|is_operator| is_operator)) {
        let text = format!(
            "an expression is the only field of its object, and nothing stands beside it: {document}"
        );
        return Err(Error::location(40181, text));
    }
    Ok(is_expression)
}

/// A collision of paths, by the code that it has for computed fields; any other error as it is.
fn conflict(error: Error) -> Error {
    match error.code.0 {
        31249 | 31250 => {
            let text = format!(
                "specification contains two conflicting paths: {}",
                error.message
            );
            Error::location(40176, text)
        }
        _ => error,
    }
}

/// Recursion is bounded by the depth of the specification, a validated document.
fn collect(
    specification: Specification<'_>,
    fields: RawDocument<'_>,
    prefix: Option<&FieldPath>,
    leaves: &mut Vec<Leaf>,
) -> Result<()> {
    for element in fields {
        let name = element.name().as_str()?;
        if prefix.is_some() && name.contains('.') {
            let text = format!("cannot use dotted field name '{name}' in a sub object");
            return Err(Error::location(40183, text));
        }
        let path = FieldPath::parse_strictly(name)?.within(prefix)?;
        let value = element.value();
        let nested = match value.as_document() {
            Some(nested) if !is_expression(nested)? => Some(nested).filter(|it| !it.is_empty()),
            _ => None,
        };
        match nested {
            Some(nested) => collect(specification, nested, Some(&path), leaves)?,
            None => leaves.push(Leaf {
                path,
                computed: Some(specification.expression(value)?),
            }),
        }
    }
    Ok(())
}
