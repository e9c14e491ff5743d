//! The update operators by name. A new one is a row here, a file below that implements `Modifier` and `FromArgument`, and a
//! section of `tests/scripts/updating.txt`.

pub(super) mod rename;
pub(super) mod set;

mod add_to_set;
mod bit;
mod bounds;
mod current_date;
mod pop;
mod pull;
mod push;
mod sums;

use quarry_bson::RawValue;

use super::modifier::FromArgument;
use super::tree::Leaf;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;

/// A row of the table of operators.
pub(super) struct Operator {
    pub name: &'static str,
    pub parse: Parse,
}

/// Reads the argument that an operator has for the field at a path.
type ParseField = fn(FieldPath, RawValue<'_>, &ExpressionContext) -> Result<Box<Leaf>>;

/// How the argument that an operator has for one field is read.
pub(super) enum Parse {
    /// The field may come into being, so that its name has to be one that can be stored.
    Field(ParseField),
    /// The field is only taken away: any name is one.
    Removed(ParseField),
    /// The argument names another field.
    Renamed,
}

/// The operator of that name, `$` included.
pub(super) fn find(name: &str) -> Result<&'static Operator> {
    let found = OPERATORS.iter().find(|operator| operator.name == name);
    found.ok_or_else(|| {
        Error::failed_to_parse(format!(
            "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
        ))
    })
}

const fn row<M: FromArgument>(name: &'static str) -> Operator {
    Operator {
        name,
        parse: Parse::Field(leaf::<M>),
    }
}

fn leaf<M: FromArgument>(
    path: FieldPath,
    argument: RawValue<'_>,
    context: &ExpressionContext,
) -> Result<Box<Leaf>> {
    let modifier = M::from_argument(&path, argument, context)?;
    Ok(Box::new(Leaf { path, modifier }))
}

/// Those that are used most come first.
static OPERATORS: &[Operator] = &[
    row::<set::Set>("$set"),
    row::<sums::Inc>("$inc"),
    row::<push::Push>("$push"),
    Operator {
        name: "$unset",
        parse: Parse::Removed(leaf::<set::Unset>),
    },
    row::<set::SetOnInsert>("$setOnInsert"),
    row::<add_to_set::AddToSet>("$addToSet"),
    row::<pull::Pull>("$pull"),
    row::<pull::PullAll>("$pullAll"),
    row::<pop::Pop>("$pop"),
    row::<bounds::Min>("$min"),
    row::<bounds::Max>("$max"),
    row::<sums::Mul>("$mul"),
    row::<current_date::CurrentDate>("$currentDate"),
    row::<bit::Bit>("$bit"),
    Operator {
        name: "$rename",
        parse: Parse::Renamed,
    },
];
