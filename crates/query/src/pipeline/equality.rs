//! Filters by which a field of another collection equals one of some values: how `$lookup` and `$graphLookup` ask for the
//! documents that belong to what they hold. They are filters like any other, so that an index serves them.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use crate::error::Result;
use crate::field_path::PathPart;
use crate::interrupts::{self, units_of};
use crate::memory::{self, Counted};

/// The filter by which `field` equals one of the values as an equality filter compares: Null matches a missing field too,
/// and an array matches by its elements. Without values nothing matches.
pub(super) fn any_of<'v>(
    field: &str,
    values: impl Iterator<Item = RawValue<'v>> + Clone,
) -> Result<Counted> {
    let mut filter = Counted::default();
    let mut out = DocumentBuilder::new(&mut filter.bytes);
    let charge = &mut filter.charge;
    let mut few = values.clone();
    if let (Some(only), None) = (few.next(), few.next()) {
        interrupts::work(units_of(only))?;
        charge.cover(out.len_bytes() + field.len() + memory::bytes_of(only))?;
        out.document(field).append("$eq", comparable(only));
    } else if values.clone().all(may_stand_in_list) {
        let mut condition = out.document(field);
        let mut list = condition.array("$in");
        for value in values {
            interrupts::work(units_of(value))?;
            charge.cover(list.len_bytes() + memory::bytes_of(value))?;
            list.push(comparable(value));
        }
        list.finish();
        condition.finish();
    } else {
        // Only `$eq` keeps a value that looks like an operator or a regular expression from being one.
        let mut branches = out.array("$or");
        for value in values {
            interrupts::work(units_of(value))?;
            charge.cover(branches.len_bytes() + field.len() + memory::bytes_of(value))?;
            let mut branch = branches.document();
            branch.document(field).append("$eq", comparable(value));
            branch.finish();
        }
        branches.finish();
    }
    out.finish();
    Ok(filter)
}

/// Hands over each value that a path leads to. Arrays on the way are entered, and numbers name positions in them too; an
/// array at the end is handed over whole.
pub(super) fn each_at<'a>(
    value: RawValue<'a>,
    path: &[PathPart],
    each: &mut dyn FnMut(RawValue<'a>) -> Result<()>,
) -> Result<()> {
    let Some((name, rest)) = path.split_first() else {
        return each(value);
    };
    match value {
        RawValue::Document(document) => {
            interrupts::work_on_bytes(document.len_bytes())?;
            if let Some(inner) = document.get(name.name()) {
                each_at(inner, rest, each)?;
            }
        }
        RawValue::Array(array) => {
            if let Some(index) = name.index()
                && let Some(item) = interrupts::element_at(array, index as usize)?
            {
                each_at(item, rest, each)?;
            }
            for item in array {
                interrupts::work(1)?;
                if item.as_document().is_some() {
                    each_at(item, path, each)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Both filters; either may be missing. Their conditions stand side by side, so that the filter is no deeper than they are.
pub(super) fn both(first: Option<RawDocument<'_>>, second: Option<RawDocument<'_>>) -> Document {
    match (first, second) {
        (None, None) => Document::new(),
        (Some(only), None) | (None, Some(only)) => only.to_owned_document(),
        (Some(first), Some(second)) => Document::build(|out| {
            for condition in first.iter().chain(second.iter()) {
                out.append_element(condition);
            }
        }),
    }
}

fn may_stand_in_list(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Regex(_) => false,
        RawValue::Document(document) => {
            let first = document.first();
            !first.is_some_and(|first| first.name().as_bytes().starts_with(b"$"))
        }
        _ => true,
    }
}

/// Filters cannot compare with Undefined, which is as good as Null to them.
fn comparable(value: RawValue<'_>) -> RawValue<'_> {
    match value {
        RawValue::Undefined => RawValue::Null,
        other => other,
    }
}
