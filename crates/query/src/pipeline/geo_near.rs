//! `$geoNear`: the documents of the collection in the order of their distances, which it adds to each. It is the first stage and is wholly a find, whose
//! filter carries the wish (`matcher/near.rs`); the plan node that searches by distance adds the fields.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::execution::{RunningStage, Upstream};
use super::stage::{PartOfFind, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::matcher::{Matcher, Near};

/// The options of the stage.
const KNOWN: [&str; 11] = [
    "near",
    "distanceField",
    "spherical",
    "maxDistance",
    "minDistance",
    "query",
    "distanceMultiplier",
    "includeLocs",
    "key",
    "uniqueDocs",
    "$comment",
];

#[derive(Debug)]
struct GeoNear {
    specification: Document,
    filter: Document,
    matcher: Matcher,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(asked) = specification.value else {
        let text = "the $geoNear stage specification must be an object";
        return Err(Error::location(10_065, text));
    };
    for element in asked {
        let name = element.name().to_string_lossy();
        if ["limit", "num"].contains(&name.as_ref()) {
            let text = format!(
                "$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead."
            );
            return Err(Error::location(50_858, text));
        }
        if !KNOWN.contains(&name.as_ref()) {
            return Err(Error::bad_value(format!(
                "Unknown argument to $geoNear: {name}"
            )));
        }
    }
    if !matches!(asked.get("distanceField"), Some(RawValue::String(_))) {
        let text = "$geoNear requires a 'distanceField' option as a String";
        return Err(Error::location(16_605, text));
    }
    let query = match asked.get("query") {
        None => RawDocument::EMPTY,
        Some(RawValue::Document(query)) => query,
        Some(value) => {
            return Err(Error::type_mismatch(format!(
                "query must be an object, got {value}"
            )));
        }
    };
    Matcher::parse_in(query, specification.context)?.refuse_near()?;
    let filter = Near::filter_of_stage(asked, query);
    Ok(one(GeoNear {
        matcher: Matcher::parse_in(filter.as_raw(), specification.context)?,
        specification: asked.to_owned_document(),
        filter,
    }))
}

impl Stage for GeoNear {
    fn name(&self) -> &'static str {
        "$geoNear"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.specification.as_raw());
    }

    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::Near(self.filter.as_raw(), &self.matcher)
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Everything
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Misplaced)
    }
}

/// The stage where no find has done it: over documents that another pipeline makes.
struct Misplaced;

impl RunningStage for Misplaced {
    fn next(&mut self, _: &mut Upstream<'_, '_>, _: &mut Vec<u8>) -> Result<bool> {
        let text = "$geoNear is only valid as the first stage in an optimized pipeline.";
        Err(Error::location(40_603, text))
    }
}
