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
        .map_err(in_stage)
}

/// Recursion is bounded by the depth of the specification, a validated document.
fn collect(
    specification: Specification<'_>,
    fields: RawDocument<'_>,
    prefix: Option<&FieldPath>,
    leaves: &mut Vec<Leaf>,
) -> Result<()> {
    for element in fields {
        let path = FieldPath::parse_strictly(element.name().as_str()?)?;
        let path = path.within(prefix)?;
        let value = element.value();
        let nested = value.as_document().filter(|nested| {
            nested
                .first()
                .is_some_and(|first| first.name().as_bytes().first() != Some(&b'$'))
        });
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
