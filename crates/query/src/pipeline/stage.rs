//! The stages by name. Each stage's file parses its specification, says how explain prints it and runs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue};

use super::execution::Running;
use super::{
    add_fields, count::Count, group::Group, limit, lookup::Lookup, match_stage::Match, project,
    replace_root::ReplaceRoot, sample::Sample, skip, sort_by_count, sort_stage::Sort,
    transform::Transform, unset, unwind::Unwind,
};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{Expression, Variables};

#[derive(Debug, Clone)]
pub enum Stage {
    Match(Arc<Match>),
    /// `$project`, `$addFields`, `$set` and `$unset`.
    Transform(Arc<Transform>),
    Sort(Arc<Sort>),
    Skip(u64),
    Limit(u64),
    Count(Arc<Count>),
    Group(Arc<Group>),
    Unwind(Arc<Unwind>),
    Sample(Arc<Sample>),
    ReplaceRoot(Arc<ReplaceRoot>),
    Lookup(Arc<Lookup>),
}

impl Stage {
    /// Parses one element of the pipeline, which may stand for several stages.
    pub(super) fn parse(specification: RawDocument<'_>, stages: &mut Vec<Stage>) -> Result<()> {
        let mut elements = specification.iter();
        let (Some(element), None) = (elements.next(), elements.next()) else {
            let text = "A pipeline stage specification object must contain exactly one field.";
            return Err(Error::location(40323, text));
        };
        let (name, value) = (element.name().to_string_lossy(), element.value());
        stages.push(match &*name {
            "$match" => Stage::Match(Arc::new(Match::parse(value)?)),
            "$project" => Stage::Transform(Arc::new(project::parse(value)?)),
            "$addFields" | "$set" => Stage::Transform(Arc::new(add_fields::parse(&name, value)?)),
            "$unset" => Stage::Transform(Arc::new(unset::parse(value)?)),
            "$sort" => Stage::Sort(Arc::new(Sort::parse(value)?)),
            "$skip" => Stage::Skip(skip::parse(value)?),
            "$limit" => Stage::Limit(limit::parse(value)?),
            "$count" => Stage::Count(Arc::new(Count::parse(value)?)),
            "$group" => Stage::Group(Arc::new(Group::parse(value)?)),
            "$unwind" => Stage::Unwind(Arc::new(Unwind::parse(value)?)),
            "$sample" => Stage::Sample(Arc::new(Sample::parse(value)?)),
            "$replaceRoot" => Stage::ReplaceRoot(Arc::new(ReplaceRoot::parse(value)?)),
            "$replaceWith" => Stage::ReplaceRoot(Arc::new(ReplaceRoot::parse_with(value)?)),
            "$sortByCount" => return sort_by_count::parse(value, stages),
            "$lookup" => Stage::Lookup(Arc::new(Lookup::parse(value)?)),
            _ => return Err(unknown(&name)),
        });
        Ok(())
    }

    pub fn name(&self) -> &'static str {
        match self {
            Stage::Match(_) => "$match",
            Stage::Transform(transform) => transform.name(),
            Stage::Sort(_) => "$sort",
            Stage::Skip(_) => "$skip",
            Stage::Limit(_) => "$limit",
            Stage::Count(_) => "$count",
            Stage::Group(_) => "$group",
            Stage::Unwind(_) => "$unwind",
            Stage::Sample(_) => "$sample",
            Stage::ReplaceRoot(_) => "$replaceRoot",
            Stage::Lookup(_) => "$lookup",
        }
    }

    /// `{<name>: <specification>}`.
    pub fn explain(&self) -> Document {
        let name = self.name();
        Document::build(|out| {
            match self {
                Stage::Match(stage) => out.append(name, stage.filter()),
                Stage::Transform(stage) => out.append(name, stage.specification()),
                Stage::Sort(stage) => out.append(name, stage.explain().as_raw()),
                Stage::Skip(count) | Stage::Limit(count) => {
                    out.append(name, i64::try_from(*count).unwrap_or(i64::MAX))
                }
                Stage::Count(stage) => out.append(name, stage.name()),
                Stage::Group(stage) => out.append(name, stage.specification()),
                Stage::Unwind(stage) => out.append(name, stage.explain().as_raw()),
                Stage::Sample(stage) => out.append(name, stage.explain().as_raw()),
                Stage::ReplaceRoot(stage) => out.append(name, stage.explain().as_raw()),
                Stage::Lookup(stage) => out.append(name, stage.explain().as_raw()),
            };
        })
    }

    /// The running form; `following` are the stages after this one.
    pub(super) fn start(&self, following: &[Stage]) -> Box<dyn Running> {
        match self {
            Stage::Match(stage) => stage.start(),
            Stage::Transform(stage) => stage.start(),
            Stage::Sort(stage) => stage.start(limit::results_wanted(following)),
            Stage::Skip(count) => skip::start(*count),
            Stage::Limit(count) => limit::start(*count),
            Stage::Count(stage) => stage.start(),
            Stage::Group(stage) => stage.start(),
            Stage::Unwind(stage) => stage.start(),
            Stage::Sample(stage) => stage.start(),
            Stage::ReplaceRoot(stage) => stage.start(),
            Stage::Lookup(stage) => stage.start(),
        }
    }

    pub(super) fn foreign_collection(&self) -> Option<&str> {
        match self {
            Stage::Lookup(stage) => Some(stage.collection()),
            _ => None,
        }
    }

    /// Adds the top-level fields of its input that the stage reads or lets through.
    pub(super) fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        match self {
            Stage::Match(stage) => stage.add_fields_read(fields),
            Stage::Transform(stage) => stage.add_fields_read(fields),
            Stage::Sort(stage) => stage.add_fields_read(fields),
            Stage::Skip(_) | Stage::Limit(_) | Stage::Sample(_) => Reads::Passes,
            Stage::Count(_) => Reads::Only,
            Stage::Group(stage) => stage.add_fields_read(fields),
            Stage::Unwind(stage) => stage.add_fields_read(fields),
            Stage::ReplaceRoot(stage) => stage.add_fields_read(fields),
            Stage::Lookup(stage) => stage.add_fields_read(fields),
        }
    }
}

/// What a stage needs of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// The fields added, and nothing else of the input reaches later stages.
    Only,
    /// The fields added, and later stages may see the rest.
    Passes,
    /// The whole document.
    Everything,
}

fn unknown(name: &str) -> Error {
    /// MongoDB's stages that this server does not run yet.
    const KNOWN: [&str; 24] = [
        "$bucket",
        "$bucketAuto",
        "$changeStream",
        "$collStats",
        "$currentOp",
        "$densify",
        "$documents",
        "$facet",
        "$fill",
        "$geoNear",
        "$graphLookup",
        "$indexStats",
        "$listLocalSessions",
        "$listSessions",
        "$merge",
        "$out",
        "$planCacheStats",
        "$redact",
        "$search",
        "$searchMeta",
        "$setWindowFields",
        "$unionWith",
        "$vectorSearch",
        "$changeStreamSplitLargeEvent",
    ];
    if KNOWN.contains(&name) {
        return Error::new(
            ErrorCode::NOT_IMPLEMENTED,
            format!("pipeline stage {name} is not supported yet"),
        );
    }
    Error::location(40324, format!("Unrecognized pipeline stage name: '{name}'"))
}

/// An option that must be a string.
pub(super) fn text<'v>(value: RawValue<'v>, error: impl FnOnce() -> Error) -> Result<&'v str> {
    value.as_str().ok_or_else(error)
}

/// An expression in a stage's specification.
pub(super) fn expression(value: RawValue<'_>) -> Result<Expression> {
    Expression::parse(value, &mut Variables::new())
}
