//! The stages by name. A new stage is a row here, a file, and a section of `tests/pipeline_scripts/stages.txt`.

use std::sync::Arc;

use super::stage::{AddedSource, Position, Specification, Stage, StageKind, Stages};
use super::{
    add_fields, count, documents, group, limit, lookup, match_stage, project, replace_root, sample,
    skip, sort_by_count, sort_stage, unset, unwind,
};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use quarry_bson::{RawArray, RawDocument, RawValue};

type Parse = fn(Specification<'_>) -> Result<Stages>;
type Collections = for<'v> fn(RawValue<'v>) -> Vec<&'v str>;

const fn row(name: &'static str, parse: Parse) -> StageKind {
    StageKind {
        name,
        position: Position::Anywhere,
        parse,
        collections: no_collections,
    }
}

/// A stage that reads collections beside its input, which `collections` names.
const fn joining(name: &'static str, parse: Parse, collections: Collections) -> StageKind {
    StageKind {
        collections,
        ..row(name, parse)
    }
}

const fn source(name: &'static str, parse: Parse) -> StageKind {
    StageKind {
        name,
        position: Position::First,
        parse,
        collections: no_collections,
    }
}

/// A stage of MongoDB's that this server does not run yet.
const fn unsupported(name: &'static str) -> StageKind {
    row(name, refuse)
}

/// Sorted by name, for a search by halves.
static STAGES: &[StageKind] = &[
    row("$addFields", add_fields::parse),
    unsupported("$bucket"),
    unsupported("$bucketAuto"),
    unsupported("$changeStream"),
    unsupported("$changeStreamSplitLargeEvent"),
    unsupported("$collStats"),
    row("$count", count::parse),
    unsupported("$currentOp"),
    unsupported("$densify"),
    source("$documents", documents::parse),
    unsupported("$facet"),
    unsupported("$fill"),
    unsupported("$geoNear"),
    unsupported("$graphLookup"),
    row("$group", group::parse),
    unsupported("$indexStats"),
    row("$limit", limit::parse),
    unsupported("$listLocalSessions"),
    unsupported("$listSessions"),
    joining("$lookup", lookup::parse, lookup::collections),
    row("$match", match_stage::parse),
    unsupported("$merge"),
    unsupported("$out"),
    unsupported("$planCacheStats"),
    row("$project", project::parse),
    unsupported("$redact"),
    row("$replaceRoot", replace_root::parse),
    row("$replaceWith", replace_root::parse_with),
    row("$sample", sample::parse),
    unsupported("$search"),
    unsupported("$searchMeta"),
    row("$set", add_fields::parse),
    unsupported("$setWindowFields"),
    row("$skip", skip::parse),
    row("$sort", sort_stage::parse),
    row("$sortByCount", sort_by_count::parse),
    unsupported("$unionWith"),
    row("$unset", unset::parse),
    row("$unwind", unwind::parse),
    unsupported("$vectorSearch"),
];

/// Parses one element of a pipeline and appends the stages that it stands for.
pub(super) fn parse(
    element: RawDocument<'_>,
    context: &ExpressionContext,
    added: &[AddedSource<'_>],
    stages: &mut Vec<Arc<dyn Stage>>,
) -> Result<()> {
    let mut elements = element.iter();
    let (Some(only), None) = (elements.next(), elements.next()) else {
        let text = "A pipeline stage specification object must contain exactly one field.";
        return Err(Error::location(40323, text));
    };
    let (name, value) = (only.name().to_string_lossy(), only.value());
    let specification = |name| Specification {
        name,
        value,
        context,
    };
    if let Some(source) = added.iter().find(|source| source.name == name) {
        check_position(source.name, Position::First, stages)?;
        stages.push((source.parse)(specification(source.name))?);
        return Ok(());
    }
    let Some(kind) = find(&name) else {
        let text = format!("Unrecognized pipeline stage name: '{name}'");
        return Err(Error::location(40324, text));
    };
    let parsed = (kind.parse)(specification(kind.name))?;
    check_position(kind.name, kind.position, stages)?;
    debug_assert!(
        names_what_it_reads(kind, value, &parsed),
        "{name} reads a collection that its row does not name"
    );
    stages.extend(parsed);
    Ok(())
}

/// The collections of the same database that the stages read beside their input. It does not parse: what it returns of
/// stages that cannot be parsed means nothing, and of the others it is at least what they read.
pub fn collections_named(pipeline: RawArray<'_>) -> Vec<&str> {
    let stages = pipeline.iter().filter_map(|stage| stage.as_document());
    stages
        .flat_map(|stage| stage.iter())
        .filter_map(|element| {
            let kind = find(element.name().as_str().ok()?)?;
            Some((kind.collections)(element.value()))
        })
        .flatten()
        .collect()
}

fn find(name: &str) -> Option<&'static StageKind> {
    let place = STAGES.binary_search_by_key(&name, |kind| kind.name).ok()?;
    STAGES.get(place)
}

fn no_collections(_: RawValue<'_>) -> Vec<&str> {
    Vec::new()
}

fn names_what_it_reads(kind: &StageKind, value: RawValue<'_>, parsed: &Stages) -> bool {
    let named = (kind.collections)(value);
    let mut read = parsed.iter().filter_map(|stage| stage.foreign_collection());
    read.all(|collection| named.contains(&collection))
}

fn check_position(name: &str, position: Position, before: &[Arc<dyn Stage>]) -> Result<()> {
    if position == Position::First && !before.is_empty() {
        let text = format!("{name} is only valid as the first stage in a pipeline");
        return Err(Error::location(40602, text));
    }
    Ok(())
}

fn refuse(specification: Specification<'_>) -> Result<Stages> {
    let text = format!("pipeline stage {} is not supported yet", specification.name);
    Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text))
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn the_rows_are_sorted_and_none_stands_twice() {
        for pair in STAGES.windows(2) {
            assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
        }
    }

    #[test]
    fn the_collections_are_named_of_a_pipeline_that_may_not_parse() {
        let pipeline = doc! { "p": [
            { "$match": { "from": "no" } }, 1, { "$none": { "from": "no" } },
            { "$lookup": { "from": "a", "from": "b" } }, { "$lookup": { "from": 1 } },
            { "$limit": 1, "$lookup": { "from": "c" } },
        ] };
        let stages = pipeline.get_array("p").unwrap();
        assert_eq!(collections_named(stages), ["a", "b", "c"]);
    }
}
