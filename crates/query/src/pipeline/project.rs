//! `$project`: the fields that are kept, or the fields that are not, and fields computed beside those kept.

use quarry_bson::{RawDocument, RawValue};

use super::stage::{Specification, Stages, one};
use super::transform::{Leaf, Transform};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::FieldPath;
use crate::projection::Mode;

/// The rule that `$project` gives for one path.
enum Rule {
    Include,
    Exclude,
    Compute(crate::expression::Expression),
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(fields) = specification.value else {
        return Err(Error::location(
            15969,
            "$project specification must be an object",
        ));
    };
    if fields.is_empty() {
        return Err(Error::location(
            51272,
            "Invalid $project :: caused by :: projection specification must have at least one field",
        ));
    }
    let mut rules = Vec::new();
    collect(specification, fields, None, &mut rules).map_err(in_project)?;
    let mode = mode_of(&rules);
    let leaves = leaves_of(rules, mode).map_err(in_project)?;
    let metadata = specification.context.metadata_named();
    let fields = fields.to_owned_document();
    Transform::new("$project", fields, mode, leaves, metadata)
        .map(one)
        .map_err(in_project)
}

/// A projection names an unknown expression by a code of its own, as MongoDB does.
fn in_project(error: Error) -> Error {
    let code = match error.code {
        ErrorCode::INVALID_PIPELINE_OPERATOR => ErrorCode(31325),
        code => code,
    };
    Error::new(
        code,
        format!("Invalid $project :: caused by :: {}", error.message),
    )
}

/// Recursion is bounded by the depth of the specification, a validated document.
fn collect(
    specification: Specification<'_>,
    fields: RawDocument<'_>,
    prefix: Option<&FieldPath>,
    rules: &mut Vec<(FieldPath, Rule)>,
) -> Result<()> {
    for element in fields {
        let path = FieldPath::parse_strictly(element.name().as_str()?)?;
        let path = path.within(prefix)?;
        let value = element.value();
        let rule = match value {
            RawValue::Document(nested) => match nested.first() {
                None => {
                    let text =
                        "An empty sub-projection is not a valid value. Found empty object at path";
                    return Err(Error::location(51270, text));
                }
                Some(first) if first.name().as_bytes().first() == Some(&b'$') => {
                    Rule::Compute(specification.expression(value)?)
                }
                Some(_) => {
                    collect(specification, nested, Some(&path), rules)?;
                    continue;
                }
            },
            RawValue::Boolean(_)
            | RawValue::Int32(_)
            | RawValue::Int64(_)
            | RawValue::Double(_)
            | RawValue::Decimal128(_) => {
                if value.is_truthy() {
                    Rule::Include
                } else {
                    Rule::Exclude
                }
            }
            other => Rule::Compute(specification.expression(other)?),
        };
        rules.push((path, rule));
    }
    Ok(())
}

fn is_id(path: &FieldPath) -> bool {
    path.as_str() == "_id"
}

/// The first field other than `_id` decides; `_id` alone decides for itself.
fn mode_of(rules: &[(FieldPath, Rule)]) -> Mode {
    let deciding = rules
        .iter()
        .find(|(path, _)| !is_id(path))
        .or(rules.first());
    if matches!(deciding, Some((_, Rule::Exclude))) {
        Mode::Keep
    } else {
        Mode::Drop
    }
}

fn leaves_of(rules: Vec<(FieldPath, Rule)>, mode: Mode) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    let names_id = rules.iter().any(|(path, _)| path.first() == "_id");
    if mode == Mode::Drop && !names_id {
        leaves.push(Leaf {
            path: FieldPath::parse("_id")?,
            computed: None,
        });
    }
    for (path, rule) in rules {
        let dotted = path.as_str();
        let computed = match (rule, mode) {
            (Rule::Compute(_), Mode::Keep) => {
                let text =
                    format!("Cannot use an expression for field {dotted} in exclusion projection");
                return Err(Error::location(31252, text));
            }
            (Rule::Compute(computed), _) => Some(computed),
            (Rule::Include, Mode::Keep) | (Rule::Exclude, Mode::Drop) if is_id(&path) => {
                continue;
            }
            (Rule::Include, Mode::Keep) => {
                let text = format!("Cannot do inclusion on field {dotted} in exclusion projection");
                return Err(Error::location(31253, text));
            }
            (Rule::Exclude, Mode::Drop) => {
                let text = format!("Cannot do exclusion on field {dotted} in inclusion projection");
                return Err(Error::location(31254, text));
            }
            (Rule::Include | Rule::Exclude, _) => None,
        };
        leaves.push(Leaf { path, computed });
    }
    Ok(leaves)
}
