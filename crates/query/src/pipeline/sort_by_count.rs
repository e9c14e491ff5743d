//! `$sortByCount`: the `$group` and the `$sort` it stands for.

use std::sync::Arc;

use quarry_bson::{Document, RawValue};

use super::Stage;
use super::group::Group;
use super::sort_stage::Sort;
use crate::error::{Error, Result};

pub(super) fn parse(value: RawValue<'_>, stages: &mut Vec<Stage>) -> Result<()> {
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
    stages.push(Stage::Group(Arc::new(Group::parse(RawValue::Document(
        group.as_raw(),
    ))?)));
    stages.push(Stage::Sort(Arc::new(Sort::parse(RawValue::Document(
        sort.as_raw(),
    ))?)));
    Ok(())
}
