//! The first stages of a `$lookup`'s pipeline into which nothing of the document goes: they run once, their results are held, and
//! the stages behind run over those for each document.
//!
//! They end with a stage that gathers (`$group`, `$limit` ...): a filter behind such a stage cannot be asked of the collection
//! instead. Behind other stages it can, so that an index serves it, which is worth more than results that are held. What would take
//! too much memory is not held: then all stages run for each document, as MongoDB does beyond its cache of 100 MB.

use std::sync::Arc;

use quarry_bson::{RawArray, RawDocument, RawValue, Value};

use super::chance::draws_lots;
use super::execution::{Show, Source};
use super::parsed::Pipeline;
use super::stage::{ParseWithin, Within};
use crate::error::Result;
use crate::expression::{ExpressionContext, LetVariables};
use crate::memory::{self, Counted};
use crate::stage_memory::MEMORY_BYTES_MAX;

/// The stages that take many documents and give few, or a bounded number.
const GATHERING: [&str; 7] = [
    "$bucket",
    "$bucketAuto",
    "$count",
    "$facet",
    "$group",
    "$limit",
    "$sortByCount",
];

/// A pipeline in two parts: what is the same for all documents, and what is not.
#[derive(Debug)]
pub(super) struct HeldPrefix {
    pub pipeline: Pipeline,
    /// The stages behind, as they were given.
    pub rest: Value,
}

impl HeldPrefix {
    /// The parts of a pipeline that reads these variables; None if there is nothing to gain.
    pub fn of(
        stages: RawArray<'_>,
        variables: &LetVariables,
        context: &ExpressionContext,
        (parse, owner): (ParseWithin, &'static str),
    ) -> Result<Option<HeldPrefix>> {
        let is_same = |stage: &RawValue<'_>| !names_one(*stage, variables) && !draws_lots(*stage);
        let same: Vec<RawValue<'_>> = stages.iter().take_while(is_same).collect();
        let Some(last) = same.iter().rposition(|stage| gathers(*stage)) else {
            return Ok(None);
        };
        let prefix: Value = same.into_iter().take(last + 1).map(Value::from).collect();
        let RawValue::Array(prefix) = prefix.as_raw() else {
            return Ok(None);
        };
        Ok(Some(HeldPrefix {
            pipeline: parse(prefix, context, Within::Collection(owner))?,
            rest: stages.iter().skip(last + 1).map(Value::from).collect(),
        }))
    }
}

fn gathers(stage: RawValue<'_>) -> bool {
    let name = stage.as_document().and_then(|stage| stage.first());
    let name = name.and_then(|first| first.name().as_str().ok());
    name.is_some_and(|name| GATHERING.contains(&name))
}

/// Whether a text anywhere in a value begins as one that names a variable. It may be a literal: then less is held. Recursion is
/// bounded by the depth of the value, which was validated.
fn names_one(value: RawValue<'_>, variables: &LetVariables) -> bool {
    let elements = match value {
        RawValue::String(text) => {
            let name = text.as_bytes().strip_prefix(b"$$");
            return name.is_some_and(|name| {
                let name = name.split(|&byte| byte == b'.').next().unwrap_or_default();
                variables.names().any(|one| one.as_bytes() == name)
            });
        }
        RawValue::Document(document) => document,
        RawValue::Array(array) => array.as_document(),
        _ => return false,
    };
    elements
        .iter()
        .any(|element| names_one(element.value(), variables))
}

/// The results, as one run of a `$lookup` has them.
#[derive(Default)]
pub(super) enum HeldResults {
    #[default]
    NotYet,
    Held(Arc<Counted>),
    /// They take too much memory.
    TooMany,
}

impl HeldResults {
    /// Holds the results that `next` appends, one behind the other.
    pub fn fill(&mut self, mut next: impl FnMut(&mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let mut held = Counted::default();
        while next(&mut held.bytes)? {
            let bytes = held.bytes.len();
            if bytes > MEMORY_BYTES_MAX || !memory::has_room(bytes) {
                *self = HeldResults::TooMany;
                return Ok(());
            }
            held.charge.grow(bytes - held.charge.bytes())?;
        }
        *self = HeldResults::Held(Arc::new(held));
        Ok(())
    }
}

/// The results that are held, from a place on.
#[derive(Debug)]
pub(super) struct HeldDocuments {
    held: Arc<Counted>,
    at: usize,
}

impl HeldDocuments {
    pub fn new(held: &Arc<Counted>) -> HeldDocuments {
        HeldDocuments {
            held: Arc::clone(held),
            at: 0,
        }
    }
}

impl Source for HeldDocuments {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some((document, _)) = RawDocument::split_first(&self.held.bytes[self.at..]) else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        self.at += document.len_bytes();
        Ok(true)
    }

    fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        while let Some((document, _)) = RawDocument::split_first(&self.held.bytes[self.at..]) {
            self.at += document.len_bytes();
            show(document)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn what_takes_too_much_memory_is_not_held() {
        for (documents, is_held) in [(100, true), (300, false)] {
            let document = doc! { "filler": "x".repeat(8 * 1024) };
            let (mut results, mut left) = (HeldResults::default(), documents);
            let filled = results.fill(|bytes| {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                bytes.extend_from_slice(document.as_bytes());
                Ok(true)
            });
            filled.unwrap();
            assert_eq!(matches!(results, HeldResults::Held(_)), is_held);
            assert_eq!(matches!(results, HeldResults::TooMany), !is_held);
            assert_eq!(left == 0, is_held, "no more is made than is looked at");
        }
    }
}
