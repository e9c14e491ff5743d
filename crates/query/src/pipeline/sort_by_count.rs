//! `$sortByCount`: the `$group` and the `$sort` it stands for.

use quarry_bson::{Document, RawValue};

use super::stage::{Specification, Stages};
use super::{group, sort_stage};
use crate::error::{Error, Result};

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let value = specification.value;
    match value {
        RawValue::Document(document) => {
            let is_operator = document
                .first()
                .is_some_and(|first| first.name().as_bytes().first() == Some(&b'$'));
            if !is_operator {
                let text = "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
                return Err(Error::location(40147, text));
            }
        }
        RawValue::String(path) if path.as_bytes().first() == Some(&b'$') => {}
        RawValue::String(_) => {
            let text = "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
            return Err(Error::location(40148, text));
        }
        _ => {
            let text = "the sortByCount field must be specified as a string or as an object";
            return Err(Error::location(40149, text));
        }
    }
    let group = Document::build(|out| {
        out.append("_id", value);
        out.document("count").append("$sum", 1);
    });
    let sort = Document::build(|out| {
        out.append("count", -1);
    });
    let means = |value| Specification {
        value,
        ..specification
    };
    let mut stages = group::parse(means(RawValue::Document(group.as_raw())))?;
    stages.extend(sort_stage::parse(means(RawValue::Document(sort.as_raw())))?);
    Ok(stages)
}
