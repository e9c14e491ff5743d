//! `$geoNear`: the documents of the collection in the order of their distances, which it adds to each. It is the first stage and is wholly a find, whose
//! filter carries the wish (`matcher/near.rs`); the plan node that searches by distance adds the fields. A `$match` behind it that does not
//! ask for the added fields becomes a part of its query.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::equality::both;
use super::execution::{RunningStage, Upstream};
use super::reorder::{CONDITIONS_MAX, Condition, Filter, add_conditions, all_of};
use super::stage::{PartOfFind, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
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
    /// The filter that the documents have to match beside.
    query: Document,
    filter: Document,
    matcher: Matcher,
}

/// The options that are no more, and the codes that say so.
const REMOVED: [(&str, i32); 3] = [("limit", 50_858), ("num", 50_857), ("start", 50_856)];

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(asked) = specification.value else {
        let text = "the $geoNear stage specification must be an object";
        return Err(Error::location(10_065, text));
    };
    for element in asked {
        let name = element.name().to_string_lossy();
        if let Some((_, code)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
            let text = match name.as_ref() {
                "start" => "$geoNear no longer supports the 'start' argument.".to_owned(),
                _ => format!(
                    "$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead."
                ),
            };
            return Err(Error::location(*code, text));
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
    GeoNear::new(asked, query, specification.context).map(one)
}

impl GeoNear {
    fn new(
        specification: RawDocument<'_>,
        query: RawDocument<'_>,
        context: &ExpressionContext,
    ) -> Result<GeoNear> {
        let filter = Near::filter_of_stage(specification, query);
        Ok(GeoNear {
            matcher: Matcher::parse_in(filter.as_raw(), context)?,
            specification: specification.to_owned_document(),
            query: query.to_owned_document(),
            filter,
        })
    }

    /// Whether the stage adds a field that is read.
    fn adds_one_of(&self, read: &BTreeSet<String>) -> bool {
        let paths = ["distanceField", "includeLocs"].map(|name| self.specification.get_str(name));
        let mut fields = paths
            .into_iter()
            .flatten()
            .map(|path| path.split('.').next());
        fields.any(|field| field.is_some_and(|field| read.contains(field)))
    }
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

    /// A filter behind it becomes a part of its query, as far as it does not ask for a field that the stage adds.
    fn fused(
        self: Arc<Self>,
        next: &dyn Stage,
        context: &ExpressionContext,
    ) -> Result<Option<Stages>> {
        let PartOfFind::Filter(filter, _) = next.part_of_find() else {
            return Ok(None);
        };
        let (mut conditions, mut query, mut left) = (Vec::new(), self.query.clone(), Vec::new());
        add_conditions(filter, context, &mut conditions)?;
        if conditions.len() > CONDITIONS_MAX {
            return Ok(None);
        }
        for Condition { filter, read } in conditions {
            match read.is_some_and(|read| !self.adds_one_of(&read)) {
                true => query = both(Some(query.as_raw()), Some(filter.as_raw())),
                false => left.push(Filter::Condition(filter)),
            }
        }
        if query == self.query {
            return Ok(None);
        }
        let searched = GeoNear::new(self.specification.as_raw(), query.as_raw(), context)?;
        let mut stages: Stages = vec![Arc::new(searched)];
        stages.extend(all_of(left, context)?);
        Ok(Some(stages))
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
