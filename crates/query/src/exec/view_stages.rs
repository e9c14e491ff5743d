//! Views as stages: a view is its pipeline over the collection that it is on, or over the view that that is, and so on; what a
//! read asks for stands behind it.
//!
//! Keeps true: a chain of views is followed for `VIEWS_MAX` links and no further, whatever the catalog says by now; views that
//! stages read within each other are bounded by their number and by the depth of their pipelines (`collections.rs`). So
//! no definition, and no race of two of them, makes a read endless. Leaves out: running them (`view.rs`).

use std::sync::Arc;

use quarry_bson::{
    ArrayBuilder, DOCUMENT_BYTES_MAX, Document, RawArray, RawDocument, RawValue, Value, doc,
};
use quarry_database::{Collation, Collection, Namespace, Operation, Scope};

use super::request::{AggregateRequest, CountRequest, FindRequest, KeyOptions, Over};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::pipeline::{Input, Pipeline, SubFind, collections_named, specification_of_skip};

/// Views that stand on each other at most.
pub(super) const VIEWS_MAX: usize = 20;

/// Stages that change a collection, which no view has.
const WRITING_STAGES: [&str; 2] = ["$out", "$merge"];

/// The stage that opens a stream of changes, which no view is.
const CHANGE_STREAM: &str = "$changeStream";

/// A view as a pipeline over a collection.
pub(super) struct Resolved {
    /// The collection, which may not exist.
    pub on: Namespace,
    /// The views' pipelines, that of the one that was asked for first.
    pipelines: Vec<Value>,
}

/// The collection of that name, if the name means a view.
pub(super) fn view(
    scope: Scope<'_>,
    operation: &Operation,
    namespace: &Namespace,
) -> Result<Option<Arc<Collection>>> {
    let collection = scope.collection(namespace, operation)?;
    Ok(collection.filter(|collection| collection.view.is_some()))
}

/// Follows a view to the collection that it is on.
pub(super) fn resolve(
    scope: Scope<'_>,
    operation: &Operation,
    collection: &Collection,
) -> Result<Resolved> {
    let mut resolved = Resolved {
        on: collection.namespace.clone(),
        pipelines: Vec::new(),
    };
    let mut next = collection.view.clone();
    while let Some(view) = next {
        if resolved.pipelines.len() == VIEWS_MAX {
            return Err(too_deep(&collection.namespace));
        }
        resolved.on = Namespace::new(collection.namespace.database(), &view.on)?;
        resolved.pipelines.push(Value::from(view.pipeline()));
        let on = scope.collection(&resolved.on, operation)?;
        next = on.and_then(|on| on.view.clone());
    }
    Ok(resolved)
}

impl Resolved {
    /// The stages of the views, and `more` behind them.
    pub fn stages<'v>(&'v self, more: impl IntoIterator<Item = RawValue<'v>>) -> Result<Vec<u8>> {
        let views = self
            .pipelines
            .iter()
            .rev()
            .filter_map(|stages| match stages.as_raw() {
                RawValue::Array(stages) => Some(stages.iter()),
                _ => None,
            });
        array(views.flatten().chain(more))
    }
}

/// An array of these stages, as bytes.
fn array<'v>(stages: impl Iterator<Item = RawValue<'v>>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut out = ArrayBuilder::new(&mut bytes);
    let mut left = DOCUMENT_BYTES_MAX;
    for stage in stages {
        let bytes = stage.as_document().map_or(0, |stage| stage.len_bytes());
        let Some(rest) = left.checked_sub(bytes) else {
            let text = "the pipelines of the views exceed the maximum size of a document";
            let code = ErrorCode::VIEW_PIPELINE_MAX_SIZE_EXCEEDED;
            return Err(Error::new(code, text));
        };
        left = rest;
        out.push(stage);
    }
    out.finish();
    Ok(bytes)
}

/// The stages that a find is.
pub(super) fn stages_of_find(find: &FindRequest<'_>) -> Result<Vec<Document>> {
    if let Some(options) = &find.key_options {
        return Err(not_on_a_view(options));
    }
    let mut stages = Vec::new();
    if !find.filter.is_empty() {
        stages.push(doc! { "$match": (find.filter) });
    }
    if let Some(sort) = find.sort.filter(|sort| !sort.is_empty()) {
        stages.push(doc! { "$sort": sort });
    }
    stages.extend(bounds(find.skip, find.limit));
    if let Some(projection) = find.projection.filter(|fields| !fields.is_empty()) {
        stages.push(doc! { "$project": projection });
    }
    Ok(stages)
}

/// The error of a find of a view with options about keys, which a view has none of.
fn not_on_a_view(options: &KeyOptions<'_>) -> Error {
    match options.not_for_views() {
        Some(name) => {
            let text = format!("Option {name} not supported in aggregation.");
            Error::new(ErrorCode::INVALID_PIPELINE_OPERATOR, text)
        }
        None => {
            let text = "$meta is not supported yet in a pipeline over a view";
            Error::new(ErrorCode::NOT_IMPLEMENTED, text)
        }
    }
}

/// The stages that leave out documents at the beginning and behind so many.
fn bounds(skip: u64, limit: Option<u64>) -> impl Iterator<Item = Document> {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let skip = (skip > 0).then(|| specification_of_skip(skip));
    let limit = limit.filter(|limit| *limit > 0);
    let limit = limit.map(|limit| doc! { "$limit": (number(limit)) });
    skip.into_iter().chain(limit)
}

/// The stages of a view's own and those of a read of it within a pipeline, as bytes of an array.
pub(super) fn stages_of_sub_find(pipeline: RawArray<'_>, find: SubFind<'_>) -> Result<Vec<u8>> {
    let mut more = Vec::new();
    if !find.filter.is_empty() {
        more.push(doc! { "$match": (find.filter) });
    }
    more.extend(find.sort.map(|sort| doc! { "$sort": sort }));
    more.extend(bounds(find.skip, find.limit));
    let more = more.iter().map(|stage| RawValue::Document(stage.as_raw()));
    array(pipeline.iter().chain(more))
}

/// The stages that a count is, the last of which counts into `n`.
pub(super) fn stages_of_count(request: &CountRequest<'_>) -> Result<Vec<Document>> {
    let mut find = FindRequest::new(request.namespace);
    (find.filter, find.skip, find.limit) = (request.filter, request.skip, request.limit);
    let mut stages = stages_of_find(&find)?;
    stages.push(doc! { "$count": "n" });
    Ok(stages)
}

/// A read of a view as explain shows it: the collection that the view is on, and all stages.
pub(super) struct Shown {
    pub on: Namespace,
    stages: Vec<u8>,
}

impl Shown {
    /// The find over a view.
    pub fn of_find(
        scope: Scope<'_>,
        operation: &Operation,
        collection: &Collection,
        find: &FindRequest<'_>,
    ) -> Result<Shown> {
        Shown::of(scope, operation, collection, &stages_of_find(find)?)
    }

    /// The count over a view.
    pub fn of_count(
        scope: Scope<'_>,
        operation: &Operation,
        collection: &Collection,
        count: &CountRequest<'_>,
    ) -> Result<Shown> {
        Shown::of(scope, operation, collection, &stages_of_count(count)?)
    }

    /// The aggregate over a view.
    pub fn of_aggregate(
        scope: Scope<'_>,
        operation: &Operation,
        collection: &Collection,
        pipeline: RawArray<'_>,
    ) -> Result<Shown> {
        let resolved = resolve(scope, operation, collection)?;
        Ok(Shown {
            stages: resolved.stages(pipeline.iter())?,
            on: resolved.on,
        })
    }

    fn of(
        scope: Scope<'_>,
        operation: &Operation,
        collection: &Collection,
        more: &[Document],
    ) -> Result<Shown> {
        let resolved = resolve(scope, operation, collection)?;
        let more = more.iter().map(|stage| RawValue::Document(stage.as_raw()));
        Ok(Shown {
            stages: resolved.stages(more)?,
            on: resolved.on,
        })
    }

    /// The request that it is.
    pub fn request(&self) -> Result<AggregateRequest<'_>> {
        let stages = RawArray::from_document(RawDocument::new(&self.stages)?);
        Ok(AggregateRequest::new(Over::Collection(&self.on), stages))
    }
}

/// Refuses a definition that cannot be read: a pipeline that is none, that writes, or that makes its documents of nothing; a
/// view that reads itself; and too many views on each other.
pub fn check_view(
    scope: Scope<'_>,
    operation: &Operation,
    namespace: &Namespace,
    on: &str,
    pipeline: RawArray<'_>,
    collation: &Collation,
) -> Result<()> {
    let names = pipeline
        .iter()
        .filter_map(|stage| stage.as_document()?.first());
    for name in names.filter_map(|first| first.name().as_str().ok()) {
        if WRITING_STAGES.contains(&name) {
            let text = format!(
                "The aggregation stage {name} cannot be used in the view definition of {namespace}"
            );
            return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, text));
        }
    }
    let first = pipeline.get(0).and_then(|first| first.as_document());
    if first.is_some_and(|first| first.sole_element(CHANGE_STREAM).is_some()) {
        let text = format!("{CHANGE_STREAM} cannot be used in a view definition");
        return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, text));
    }
    let context = ExpressionContext::default().with_collation(collation.clone());
    let parsed = Pipeline::parse(pipeline, &context)?;
    if parsed.input() != Input::Documents {
        let first = parsed.stages.first().map_or("", |first| first.name());
        let text = format!("'{first}' cannot be used in a view definition");
        return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, text));
    }
    let read = parsed.collections().into_iter().chain([on]);
    check_reads(scope, operation, (namespace, collation), read)
}

/// Refuses a view of that name which would read itself through these, stand on too many views, or stand on one that compares
/// strings otherwise.
fn check_reads<'n>(
    scope: Scope<'_>,
    operation: &Operation,
    (namespace, collation): (&Namespace, &Collation),
    read: impl Iterator<Item = &'n str>,
) -> Result<()> {
    // Each name that is still to be looked at, and how many views stand above it, the new one among them.
    let mut to_see: Vec<(String, usize)> = read.map(|name| (name.to_owned(), 1)).collect();
    let mut seen: Vec<(String, usize)> = Vec::new();
    while let Some((name, depth)) = to_see.pop() {
        operation.check()?;
        if name == namespace.collection() {
            let text = format!("View cycle detected: {namespace} reads itself");
            return Err(Error::new(ErrorCode::GRAPH_CONTAINS_CYCLE, text));
        }
        if seen
            .iter()
            .any(|(known, deepest)| *known == name && *deepest >= depth)
        {
            continue;
        }
        let below = Namespace::new(namespace.database(), &name)?;
        seen.push((name, depth));
        let Some(collection) = view(scope, operation, &below)? else {
            continue;
        };
        if depth == VIEWS_MAX {
            return Err(too_deep(namespace));
        }
        if collection.collation != *collation {
            let text = format!("View {namespace} has conflicting collation with view {below}");
            return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, text));
        }
        if let Some(view) = &collection.view {
            to_see.push((view.on.to_string(), depth + 1));
            let named = collections_named(view.pipeline()).into_iter();
            to_see.extend(named.map(|name| (name.to_owned(), depth + 1)));
        }
    }
    Ok(())
}

fn too_deep(namespace: &Namespace) -> Error {
    let text = format!("View depth too deep: {namespace} stands on more than {VIEWS_MAX} views");
    Error::new(ErrorCode::VIEW_DEPTH_LIMIT_EXCEEDED, text)
}
