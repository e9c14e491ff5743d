//! `$unset`: an excluding `$project` by another name.

use quarry_bson::{Document, RawValue};

use super::stage::{Specification, Stages, one};
use super::transform::{Leaf, Transform};
use crate::error::{Error, Result};
use crate::field_path::FieldPath;
use crate::metadata::MetadataKinds;
use crate::projection::Mode;

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let names: Vec<&str> = match specification.value {
        RawValue::String(name) => vec![name.as_str()?],
        RawValue::Array(array) => {
            let names: Option<Vec<&str>> = array.iter().map(|name| name.as_str()).collect();
            let text =
                "$unset specification must be a string or an array containing only string values";
            names.ok_or_else(|| Error::location(31120, text))?
        }
        _ => {
            return Err(Error::location(
                31002,
                "$unset specification must be a string or an array",
            ));
        }
    };
    if names.is_empty() {
        let text = "$unset specification must be a string or an array with at least one field";
        return Err(Error::location(31119, text));
    }
    let mut leaves = Vec::new();
    for name in &names {
        leaves.push(Leaf {
            path: FieldPath::parse_strictly(name)?,
            computed: None,
        });
    }
    let specification = Document::build(|out| {
        for name in &names {
            out.append(name, false);
        }
    });
    let in_unset = |error: Error| {
        Error::new(
            error.code,
            format!("Invalid $unset :: caused by :: {}", error.message),
        )
    };
    // Explain prints the stage as the exclusion that it is.
    let none = MetadataKinds::NONE;
    Transform::new("$project", specification, Mode::Keep, leaves, none)
        .map(one)
        .map_err(in_unset)
}
