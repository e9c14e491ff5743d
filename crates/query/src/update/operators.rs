//! The update operators by name. A new one is a row here, what it does to a field in `modifier.rs` and `leaf.rs`, and a
//! section of `tests/scripts/updating.txt`.

use quarry_bson::RawValue;

use super::modifier::{
    Modifier, number, parse_add_to_set, parse_bit, parse_clock, parse_pop, parse_pull_all,
};
use super::pull::PullCondition;
use super::push::Push;
use crate::error::{Error, Result};
use crate::field_path::FieldPath;

/// A row of the table of operators.
pub(super) struct Operator {
    pub name: &'static str,
    pub parse: Parse,
}

/// How the argument that an operator has for one field is read.
pub(super) enum Parse {
    /// The field may come into being, so that its name has to be one that can be stored.
    Field(fn(&FieldPath, RawValue<'_>) -> Result<Modifier>),
    /// The field is only taken away: any name is one.
    Removed(fn(&FieldPath, RawValue<'_>) -> Result<Modifier>),
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

const fn row(
    name: &'static str,
    parse: fn(&FieldPath, RawValue<'_>) -> Result<Modifier>,
) -> Operator {
    Operator {
        name,
        parse: Parse::Field(parse),
    }
}

/// Those that are used most come first.
static OPERATORS: &[Operator] = &[
    row("$set", |_, value| Ok(Modifier::Set(value.to_value()))),
    row("$inc", |path, value| {
        let text = "Cannot increment with non-numeric argument";
        Ok(Modifier::Inc(number(value, path, text)?))
    }),
    row("$push", |_, value| Ok(Modifier::Push(Push::parse(value)?))),
    Operator {
        name: "$unset",
        parse: Parse::Removed(|_, _| Ok(Modifier::Unset)),
    },
    row("$setOnInsert", |_, value| {
        Ok(Modifier::SetOnInsert(value.to_value()))
    }),
    row("$addToSet", |_, value| {
        Ok(Modifier::AddToSet(parse_add_to_set(value)?))
    }),
    row("$pull", |_, value| {
        Ok(Modifier::Pull(PullCondition::parse(value)?))
    }),
    row("$pullAll", |_, value| {
        Ok(Modifier::PullAll(parse_pull_all(value)?))
    }),
    row("$pop", |_, value| parse_pop(value)),
    row("$min", |_, value| Ok(Modifier::Min(value.to_value()))),
    row("$max", |_, value| Ok(Modifier::Max(value.to_value()))),
    row("$mul", |path, value| {
        let text = "Cannot multiply with non-numeric argument";
        Ok(Modifier::Mul(number(value, path, text)?))
    }),
    row("$currentDate", |_, value| {
        Ok(Modifier::CurrentDate(parse_clock(value)?))
    }),
    row("$bit", |_, value| Ok(Modifier::Bit(parse_bit(value)?))),
    Operator {
        name: "$rename",
        parse: Parse::Renamed,
    },
];
