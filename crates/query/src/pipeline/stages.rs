//! The stages by name. A new stage is a row here, a file, and a section of `tests/pipeline_scripts/stages.txt`.

use std::sync::Arc;

use super::stage::{
    Named, PartOfFind, Position, Specification, Stage, StageKind, Stages, Surroundings, Within,
};
use super::written::CollectionWritten;
use super::{
    add_fields, bucket, bucket_auto, count, densify, documents, facet, fill, geo_near,
    graph_lookup, group, limit, lookup, match_stage, merge, out, project, redact, replace_root,
    sample, skip, sort_by_count, sort_stage, union_with, unset, unwind, window,
};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::metadata::MetadataKinds;
use quarry_bson::{RawArray, RawDocument, RawValue};

type Parse = fn(Specification<'_>) -> Result<Stages>;
type NameWritten = for<'v> fn(RawValue<'v>) -> Vec<CollectionWritten<'v>>;
type NameCollections = for<'v> fn(RawValue<'v>, &mut Named<'v>);

const fn row(name: &'static str, parse: Parse) -> StageKind {
    StageKind {
        name,
        position: Position::Anywhere,
        in_facets: true,
        in_updates: false,
        parse,
        name_collections: |_, _| {},
        name_written: |_| Vec::new(),
    }
}

/// A stage that is a function of one document.
const fn mapping(name: &'static str, parse: Parse) -> StageKind {
    StageKind {
        in_updates: true,
        ..row(name, parse)
    }
}

/// A stage that reads collections beside its input, which `name_collections` names.
const fn joining(name: &'static str, parse: Parse, name_collections: NameCollections) -> StageKind {
    StageKind {
        name_collections,
        ..row(name, parse)
    }
}

const fn source(name: &'static str, parse: Parse) -> StageKind {
    StageKind {
        position: Position::First,
        in_facets: false,
        ..row(name, parse)
    }
}

/// A stage that writes what comes to it into the collections that `name_written` names.
const fn writing(name: &'static str, parse: Parse, name_written: NameWritten) -> StageKind {
    StageKind {
        position: Position::Last,
        in_facets: false,
        name_written,
        ..row(name, parse)
    }
}

const fn outside_facets(kind: StageKind) -> StageKind {
    StageKind {
        in_facets: false,
        ..kind
    }
}

/// A stage of MongoDB's that no pipeline runs by itself: one that is not served yet, or one whose documents the server
/// makes, which takes it off the front of a pipeline before this table is asked.
const fn unsupported(name: &'static str) -> StageKind {
    row(name, refuse)
}

/// A stage of change streams: where a stream is opened, whoever opens it takes the stage out of the pipeline first.
const fn of_streams(name: &'static str) -> StageKind {
    outside_facets(row(name, refuse_outside_streams))
}

/// The first stage of a change stream, and its last one.
const CHANGE_STREAM: &str = "$changeStream";
const SPLIT_LARGE_EVENT: &str = "$changeStreamSplitLargeEvent";

/// Sorted by name, for a search by halves.
static STAGES: &[StageKind] = &[
    mapping("$addFields", add_fields::parse),
    row("$bucket", bucket::parse),
    row("$bucketAuto", bucket_auto::parse),
    of_streams(CHANGE_STREAM),
    of_streams(SPLIT_LARGE_EVENT),
    unsupported("$collStats"),
    row("$count", count::parse),
    unsupported("$currentOp"),
    row("$densify", densify::parse),
    source("$documents", documents::parse),
    outside_facets(joining("$facet", facet::parse, facet::name_collections)),
    row("$fill", fill::parse),
    source("$geoNear", geo_near::parse),
    joining(
        "$graphLookup",
        graph_lookup::parse,
        graph_lookup::name_collections,
    ),
    row("$group", group::parse),
    unsupported("$indexStats"),
    row("$limit", limit::parse),
    unsupported("$listCatalog"),
    unsupported("$listClusterCatalog"),
    unsupported("$listLocalSessions"),
    unsupported("$listMqlEntities"),
    unsupported("$listSampledQueries"),
    unsupported("$listSearchIndexes"),
    unsupported("$listSessions"),
    joining("$lookup", lookup::parse, lookup::name_collections),
    row("$match", match_stage::parse),
    writing("$merge", merge::parse, merge::name_written),
    unsupported("$operationMetrics"),
    writing("$out", out::parse, out::name_written),
    unsupported("$planCacheStats"),
    mapping("$project", project::parse),
    unsupported("$querySettings"),
    unsupported("$queryStats"),
    row("$redact", redact::parse),
    mapping("$replaceRoot", replace_root::parse),
    mapping("$replaceWith", replace_root::parse_with),
    row("$sample", sample::parse),
    unsupported("$search"),
    unsupported("$searchMeta"),
    mapping("$set", add_fields::parse),
    row("$setWindowFields", window::parse),
    unsupported("$shardedDataDistribution"),
    row("$skip", skip::parse),
    row("$sort", sort_stage::parse),
    row("$sortByCount", sort_by_count::parse),
    joining(
        "$unionWith",
        union_with::parse,
        union_with::name_collections,
    ),
    mapping("$unset", unset::parse),
    row("$unwind", unwind::parse),
    unsupported("$vectorSearch"),
];

/// Parses one element of a pipeline and appends the stages that it stands for.
pub(super) fn parse(
    element: RawDocument<'_>,
    surroundings: Surroundings<'_>,
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
        context: surroundings.context,
        parse_within: surroundings.parse_within,
    };
    let mut added = surroundings.added.iter();
    if let Some(source) = added.find(|source| source.name == name) {
        check_position(source.name, Position::First, stages)?;
        stages.push((source.parse)(specification(source.name))?);
        return Ok(());
    }
    let kind = known(&name)?;
    if surroundings.within == Within::Facet && !kind.in_facets {
        let text = format!("{name} is not allowed to be used within a $facet stage");
        return Err(Error::location(40600, text));
    }
    if surroundings.within == Within::Update && !kind.in_updates {
        let text = format!("{name} is not allowed to be used within an update");
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, text));
    }
    let is_of_streams = matches!(kind.name, CHANGE_STREAM | SPLIT_LARGE_EVENT);
    if let Within::Collection(owner) = surroundings.within
        && (kind.position == Position::Last || is_of_streams)
    {
        let code = if owner == "$unionWith" { 31441 } else { 51047 };
        let text = format!("{name} is not allowed within a {owner}'s sub-pipeline");
        return Err(Error::location(code, text));
    }
    // Those of what stands before are not the stage's.
    surroundings.context.take_metadata_named();
    let parsed = (kind.parse)(specification(kind.name))?;
    check_metadata(surroundings, &parsed)?;
    check_text(surroundings, &parsed, stages)?;
    check_position(kind.name, kind.position, stages)?;
    debug_assert!(
        !kind.in_updates || parsed.iter().all(|stage| stage.as_map().is_some()),
        "{name} is no function of one document"
    );
    debug_assert!(
        names_what_it_reads(element, &parsed),
        "{name} reads a collection that its row does not name"
    );
    stages.extend(parsed);
    Ok(())
}

/// The collections of the same database that the stages, and those of the pipelines within them, read beside their input. It
/// does not parse: what it returns of stages that cannot be parsed means nothing, and of the others it is at least what
/// they read.
pub fn collections_named(pipeline: RawArray<'_>) -> Vec<&str> {
    let mut named = Named::default();
    named.pipelines.push(pipeline);
    while let Some(pipeline) = named.pipelines.pop() {
        for stage in pipeline.iter().filter_map(|stage| stage.as_document()) {
            name_collections(stage, &mut named);
        }
    }
    named.collections
}

/// The collections that the stages of the pipeline of a command write into. Like `collections_named`, it does not parse.
pub fn collections_written(pipeline: RawArray<'_>) -> Vec<CollectionWritten<'_>> {
    let stages = pipeline.iter().filter_map(|stage| stage.as_document());
    let elements = stages.flat_map(|stage| stage.iter());
    let written = elements.filter_map(|element| {
        let kind = element.name().as_str().ok().and_then(find)?;
        Some((kind.name_written)(element.value()))
    });
    written.flatten().collect()
}

fn name_collections<'v>(stage: RawDocument<'v>, named: &mut Named<'v>) {
    for element in stage {
        if let Some(kind) = element.name().as_str().ok().and_then(find) {
            (kind.name_collections)(element.value(), named);
        }
    }
}

/// Fails for the name of no stage.
pub fn check_stage_name(name: &str) -> Result<()> {
    known(name).map(drop)
}

fn known(name: &str) -> Result<&'static StageKind> {
    find(name).ok_or_else(|| {
        let text = format!("Unrecognized pipeline stage name: '{name}'");
        Error::location(40324, text)
    })
}

fn find(name: &str) -> Option<&'static StageKind> {
    let place = STAGES.binary_search_by_key(&name, |kind| kind.name).ok()?;
    STAGES.get(place)
}

fn names_what_it_reads(element: RawDocument<'_>, parsed: &Stages) -> bool {
    let (mut named, mut read) = (Named::default(), Vec::new());
    name_collections(element, &mut named);
    for stage in parsed {
        stage.add_collections(&mut read);
    }
    let within = named.pipelines.iter().copied().flat_map(collections_named);
    let named: Vec<&str> = named.collections.into_iter().chain(within).collect();
    read.iter().all(|collection| named.contains(collection))
}

fn check_position(name: &str, position: Position, before: &[Arc<dyn Stage>]) -> Result<()> {
    if position == Position::First && !before.is_empty() {
        let text = format!("{name} is only valid as the first stage in a pipeline");
        return Err(Error::location(40602, text));
    }
    // What stands before was parsed: it shows itself whether it was to be the last.
    let written = before.last().filter(|last| last.written().is_some());
    if let Some(last) = written {
        let text = format!(
            "{} can only be the final stage in the pipeline",
            last.name()
        );
        return Err(Error::location(40601, text));
    }
    Ok(())
}

/// Refuses a search for words behind other stages, and where there is no collection whose index would answer it.
fn check_text(
    surroundings: Surroundings<'_>,
    parsed: &Stages,
    before: &[Arc<dyn Stage>],
) -> Result<()> {
    let is_search = |stage: &Arc<dyn Stage>| match stage.part_of_find() {
        PartOfFind::Filter(_, matcher) => matcher.texts() > 0,
        _ => false,
    };
    let is_misplaced = !before.is_empty() || surroundings.within == Within::Facet;
    match is_misplaced && parsed.iter().any(is_search) {
        true => {
            let text = "$match with $text is only allowed as the first pipeline stage";
            Err(Error::location(17_313, text))
        }
        false => Ok(()),
    }
}

/// Refuses expressions with metadata in stages whose input comes without.
fn check_metadata(surroundings: Surroundings<'_>, parsed: &Stages) -> Result<()> {
    let named = surroundings.context.take_metadata_named();
    if named.is_empty() {
        return Ok(());
    }
    let attached = parsed.iter().map(|stage| stage.metadata());
    let attached = attached.fold(MetadataKinds::NONE, MetadataKinds::with);
    let comes_with_it = surroundings.within == Within::Command && attached == named;
    match comes_with_it && !named.has(MetadataKinds::GEO_NEAR) {
        true => Ok(()),
        false => Err(metadata_not_here()),
    }
}

/// The error of `$meta` in a stage to which documents come without metadata.
pub fn metadata_not_here() -> Error {
    let text = "$meta is only supported yet in the first $project, $addFields, $set or $redact of a pipeline, with nothing but $match, \
                $sort, $skip and $limit before it";
    Error::new(ErrorCode::NOT_IMPLEMENTED, text)
}

/// Refuses a stage of change streams anywhere else.
fn refuse_outside_streams(specification: Specification<'_>) -> Result<Stages> {
    let name = specification.name;
    Err(match name {
        CHANGE_STREAM => Error::location(
            40602,
            format!("{name} is only valid as the first stage in a pipeline"),
        ),
        _ => Error::new(
            ErrorCode::ILLEGAL_OPERATION,
            format!("{name} can only be used in a $changeStream pipeline"),
        ),
    })
}

/// Refuses a stage of MongoDB's, and says what the server lacks for it.
fn refuse(specification: Specification<'_>) -> Result<Stages> {
    let name = specification.name;
    let why = match name {
        "$listSearchIndexes" | "$search" | "$searchMeta" | "$vectorSearch" => {
            "there are no search indexes, which are those of Atlas Search"
        }
        "$listSampledQueries" | "$shardedDataDistribution" => {
            "the server is no part of a sharded cluster"
        }
        "$listCatalog" | "$listClusterCatalog" => {
            "listCollections and listIndexes tell what there is"
        }
        "$listMqlEntities" | "$operationMetrics" => "MongoDB has it for its own use",
        // What the server makes the documents of stands before all others, and in no pipeline within another.
        _ => "it makes documents of what the server knows, which this pipeline cannot have",
    };
    let text = format!("pipeline stage {name} is not supported here: {why}");
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
            { "$lookup": { "from": "d", "pipeline": [{ "$unionWith": "e" }], "pipeline": [{ "$unionWith": 1 }] } },
            { "$unionWith": { "coll": "f", "pipeline": [{ "$graphLookup": { "from": "g" } }] } },
            { "$facet": { "x": [{ "$unionWith": "h" }], "y": 1, "z": [{ "$lookup": { "from": "i" } }] } },
        ] };
        let stages = pipeline.get_array("p").unwrap();
        let mut named = collections_named(stages);
        named.sort_unstable();
        assert_eq!(named.concat(), "abcdefghi");
    }
}
