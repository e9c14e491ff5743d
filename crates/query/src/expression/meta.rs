//! `$meta`: what a read knows of a document beside its fields (`crate::metadata`).
//!
//! Whoever parses an expression learns from its context which kinds it asks for, and either has the plan attach them or refuses:
//! an expression that is evaluated without them would read them as missing. Leaves out: scores of searches, which no query has here, and the distances that a query by distance knows.

use quarry_bson::{RawValue, Value};

use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::metadata::{INDEX_KEY, MetadataKinds, RECORD_ID, SORT_KEY, TEXT_SCORE};

/// Metadata of searches, which no document ever has here.
const OF_SEARCHES: [&str; 5] = [
    "searchScore",
    "searchHighlights",
    "searchScoreDetails",
    "searchSequenceToken",
    "vectorSearchScore",
];

pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let RawValue::String(name) = operand else {
        let text = "$meta only supports string arguments";
        return Err(Error::location(17_307, text));
    };
    let name = name.as_str()?;
    let kinds = match name {
        RECORD_ID => MetadataKinds::RECORD_ID,
        INDEX_KEY => MetadataKinds::INDEX_KEY,
        SORT_KEY => MetadataKinds::SORT_KEY,
        "geoNearDistance" | "geoNearPoint" => MetadataKinds::GEO_NEAR,
        TEXT_SCORE => MetadataKinds::TEXT_SCORE,
        "randVal" => {
            let text = "{$meta: \"randVal\"} is not supported yet";
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
        }
        _ if OF_SEARCHES.contains(&name) => MetadataKinds::NONE,
        _ => {
            let text = format!("Unsupported argument to $meta: {name}");
            return Err(Error::location(17_308, text));
        }
    };
    variables.context.name_metadata(kinds);
    let name = Expression::Literal(Value::from(name));
    Ok(Expression::call(operator, vec![name], Vec::new()))
}

pub(super) fn meta<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let name = call.argument(0, context)?;
    let name = name.as_str().unwrap_or_default();
    let found = context.metadata.and_then(|metadata| metadata.get(name));
    Ok(found.map_or(Evaluated::Missing, Evaluated::Raw))
}
