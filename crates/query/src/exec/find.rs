//! `find`: parses, plans and starts a read. A whole `_id` needs neither a plan nor a snapshot.

use std::cell::RefCell;
use std::sync::Arc;

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{Collection, CollectionSnapshot, IndexFilter, Operation, PlanSummary, Scope};
use quarry_timing::{Phase, phase};

use super::accesses::count_plan;
use super::collation::{collation_over, context_over};
use super::error::stored;
use super::executor::Executor;
use super::reading::Reading;
use super::request::FindRequest;
use super::settings::by_settings;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::metadata::MetadataKinds;
use crate::plan::{Kept, Leaf, Node, Parsed, PlanNode};
use crate::planner::{
    Choice, Ground, KeyBounds, Missing, Wanted, choose, choose_between, choose_distinct,
    choose_for_equalities, choose_to_show, refuse_without_index,
};
use crate::projection::Projection;
use crate::query_shape::QueryParts;

/// Chooses the plan of a read that is to be run, and counts what it reads. Without an operation no plans are tried.
pub(super) fn plan(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    operation: Option<&Operation>,
    wanted: Wanted<'_>,
) -> Result<Node> {
    let _scope = phase(Phase::Plan);
    let ground = operation.map(|operation| Ground {
        snapshot,
        operation,
        parsed,
        tried: None,
    });
    let wanted = Wanted {
        ground,
        ..with_parsed(parsed, wanted)
    };
    let (collection, catalog) = (&snapshot.collection, snapshot.index_catalog()?);
    let by_hints = |wanted: Wanted<'_>| choose(collection, catalog, &parsed.matcher, wanted);
    let root = match by_settings(snapshot, wanted, by_hints, |root| &**root)? {
        Some(root) => root,
        None => {
            let filter = index_filter(snapshot, wanted.asked)?;
            let filtered = filtered(wanted, filter.as_deref());
            choose(collection, catalog, &parsed.matcher, filtered)?
        }
    };
    refuse_sort_keys(&*root, wanted.metadata)?;
    count_plan(snapshot, &*root, wanted.follows);
    Ok(root)
}

/// The index filter that an operator has set for queries of this shape.
#[inline]
pub(super) fn index_filter(
    snapshot: &CollectionSnapshot,
    asked: Option<&QueryParts<'_>>,
) -> Result<Option<Arc<IndexFilter>>> {
    let memory = snapshot.collection.plan_memory.as_ref();
    match (memory.map(|memory| &memory.filters), asked) {
        (Some(filters), Some(asked)) if !filters.are_none() => Ok(filters.get(asked.shape()?.0)),
        _ => Ok(None),
    }
}

/// A plan without settings may use the indexes that a filter allows, and no hint counts beside it.
fn filtered<'w>(wanted: Wanted<'w>, filter: Option<&'w IndexFilter>) -> Wanted<'w> {
    let settings = None;
    match filter {
        None => Wanted { settings, ..wanted },
        Some(_) => Wanted {
            settings,
            allowed: filter,
            hint: None,
            ..wanted
        },
    }
}

/// Refuses to return keys of an index with a collation: their strings are not to be had from sort keys.
#[inline]
fn refuse_sort_keys(root: &dyn PlanNode, metadata: MetadataKinds) -> Result<()> {
    match metadata.has(MetadataKinds::INDEX_KEY) && has_sort_keys(root) {
        true => Err(Error::new(
            ErrorCode::NOT_IMPLEMENTED,
            "the keys of an index with a collation cannot be returned yet: returnKey and {$meta: \"indexKey\"} need another index, by a hint",
        )),
        false => Ok(()),
    }
}

#[cold]
fn has_sort_keys(root: &dyn PlanNode) -> bool {
    let mut has_some = false;
    root.leaves(&mut |leaf| {
        if let Leaf::Index(access) = leaf {
            has_some |= access.collation.is_some();
        }
    });
    has_some
}

/// Like `plan`, with the texts that explain prints, and the plans that were not chosen.
pub(super) fn plan_to_show(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    operation: &Operation,
    wanted: Wanted<'_>,
) -> Result<Choice> {
    let _scope = phase(Phase::Plan);
    let tried = RefCell::default();
    let ground = Some(Ground {
        snapshot,
        operation,
        parsed,
        tried: Some(&tried),
    });
    let wanted = Wanted {
        ground,
        ..with_parsed(parsed, wanted)
    };
    let (collection, catalog) = (&snapshot.collection, snapshot.index_catalog()?);
    let by_hints =
        |wanted: Wanted<'_>| choose_to_show(collection, catalog, &parsed.matcher, wanted);
    let choice = match by_settings(snapshot, wanted, by_hints, |choice| &*choice.winning)? {
        Some(choice) => choice,
        None => {
            let filter = index_filter(snapshot, wanted.asked)?;
            let filtered = filtered(wanted, filter.as_deref());
            choose_to_show(collection, catalog, &parsed.matcher, filtered)?
        }
    };
    refuse_sort_keys(&*choice.winning, wanted.metadata)?;
    Ok(Choice {
        tried: tried.into_inner(),
        ..choice
    })
}

/// Like `plan`, for a find that names bounds of keys: they leave no choice.
pub(super) fn plan_between(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    wanted: Wanted<'_>,
    bounds: &KeyBounds<'_>,
) -> Result<Node> {
    let _scope = phase(Phase::Plan);
    if parsed.matcher.texts() > 0 {
        let text = "text and hint not allowed in same query";
        return Err(Error::bad_value(text));
    }
    if parsed.matcher.root().near().is_some() {
        let text = "error processing query: planner returned error :: caused by :: unable to find index for $geoNear query";
        return Err(Error::new(ErrorCode::NO_QUERY_EXECUTION_PLANS, text));
    }
    let wanted = Wanted {
        filter: Some(parsed.matcher.root()),
        ..with_parsed(parsed, wanted)
    };
    let catalog = snapshot.index_catalog()?;
    let bounds = (bounds, parsed.matcher.collation());
    let root = choose_between(bounds, &snapshot.collection, catalog, &wanted)?;
    refuse_sort_keys(&*root, wanted.metadata)?;
    if !wanted.shows_bounds {
        count_plan(snapshot, &*root, false);
    }
    Ok(root)
}

fn with_parsed<'w>(parsed: &'w Parsed, wanted: Wanted<'w>) -> Wanted<'w> {
    let wanted = Wanted {
        sort: parsed.sort.as_ref(),
        ..wanted
    };
    // Who changes a record wants its key, and projects what he has changed.
    let projection = parsed.projection.as_ref();
    let projection = projection.filter(|_| wanted.kept == Kept::Document);
    let metadata = wanted.metadata.with(parsed.metadata());
    if !metadata.is_empty() {
        return with_metadata(parsed, (metadata, projection), wanted);
    }
    match projection {
        Some(projection) => Wanted {
            projection: Some(projection),
            read: projection.required_fields(),
            ..wanted
        },
        None => wanted,
    }
}

/// Keys alone do not make documents that come with metadata.
#[cold]
fn with_metadata<'w>(
    parsed: &'w Parsed,
    (metadata, projection): (MetadataKinds, Option<&'w Projection>),
    wanted: Wanted<'w>,
) -> Wanted<'w> {
    Wanted {
        metadata,
        projection,
        read: None,
        returned_key: parsed.returned_key.as_ref(),
        ..wanted
    }
}

/// The outcome of beginning a find.
pub(super) enum Found {
    /// The executor that gives the documents.
    Documents(Executor),
    /// The name means a view, whose documents are made.
    View(Arc<Collection>),
}

/// Plans and begins a find over a collection.
pub(super) fn find_stored(
    scope: Scope<'_>,
    operation: &Operation,
    request: FindRequest<'_>,
) -> Result<Found> {
    let is_plain = request.hint.is_none() && !request.is_tailable && request.skip == 0;
    let is_plain = is_plain && request.key_options.is_none();
    let is_whole = request.projection.is_none() && request.grouped.is_none();
    let is_bare = is_plain && request.sort.is_none() && is_whole;
    if is_plain
        && let Some(id) = whole_id(request.filter, request.context)
        && let Some(found) = by_id(scope, operation, request, is_bare, id)?
    {
        return Ok(found);
    }
    let own;
    let context = match request.context {
        Some(context) => context,
        None => {
            own = ExpressionContext::default();
            &own
        }
    };
    let snapshot = scope.snapshot(request.namespace, operation)?;
    if let Some(view) = &snapshot
        && view.collection.view.is_some()
    {
        return Ok(Found::View(Arc::clone(&view.collection)));
    }
    let collection = snapshot.as_ref().map(|snapshot| &*snapshot.collection);
    let mut held = None;
    let context = context_over(context, collection, &mut held);
    let parse = || parse(&request, context);
    let parts = QueryParts {
        filter: request.filter,
        sort: request.sort,
        projection: request.projection,
        collation: context.collation(),
    };
    let settings = context.query_settings();
    let wanted = Wanted {
        asked: Some(&parts),
        settings,
        hint: request.hint,
        skip: request.skip,
        limit: request.limit,
        read: request.read,
        follows: request.is_tailable,
        metadata: metadata_wanted(&request),
        ..Wanted::default()
    };
    let bounds = key_bounds(&request)?;
    let answering = match &snapshot {
        Some(snapshot)
            if is_bare
                && settings.is_none()
                && !has_index_filters(snapshot)
                && context.collation().is_simple() =>
        {
            plan_for_equalities(snapshot, request.filter, wanted)?
        }
        _ => None,
    };
    // What an index answers alone is not parsed.
    let parsed = match answering {
        Some(_) => None,
        None => Some(Arc::new(parse()?)),
    };
    operation.check()?;
    let Some(snapshot) = snapshot else {
        if let Some(parsed) = &parsed {
            refuse_without_index(&parsed.matcher, request.namespace)?;
        }
        return Ok(Found::Documents(Executor::empty()));
    };
    let asked = (parsed.as_deref()).unwrap_or_else(|| Parsed::of_everything());
    if request.is_tailable {
        check_tailable(&snapshot, asked)?;
    }
    let root = match answering {
        Some(root) => root,
        None => match (plan_of_groups(&snapshot, asked, request, wanted)?, &bounds) {
            (Some(root), _) => root,
            (None, Some(bounds)) => plan_between(&snapshot, asked, wanted, bounds)?,
            (None, None) => plan(&snapshot, asked, Some(operation), wanted)?,
        },
    };
    let reading = Reading::new(root, parsed);
    let executor = Executor::reading(snapshot, reading, request.is_tailable);
    Ok(Found::Documents(executor))
}

/// Parses what a find asks for.
pub(super) fn parse(request: &FindRequest<'_>, context: &ExpressionContext) -> Result<Parsed> {
    let parsed = Parsed::parse(request.filter, request.sort, request.projection, context)?;
    let is_left_by_stages = !metadata_wanted(request).is_empty();
    let parsed = match parsed.sorts_by_score() && !is_left_by_stages {
        true => parsed.without_score(),
        false => parsed,
    };
    match &request.key_options {
        Some(options) if options.returns_key => Ok(parsed.returning_keys()),
        Some(options) if options.shows_record_id => parsed.with_record_ids(),
        _ => Ok(parsed),
    }
}

/// Parses what a find asks for as running it would, for who keeps the find to compare others with it.
pub fn check_find(request: &FindRequest<'_>) -> Result<()> {
    key_bounds(request)?;
    let own = ExpressionContext::default();
    parse(request, request.context.unwrap_or(&own)).map(drop)
}

/// Like `parse`, for a find over a collection that may say how strings are compared.
fn parse_over(request: &FindRequest<'_>, collection: Option<&Collection>) -> Result<Parsed> {
    let own = ExpressionContext::default();
    let mut held = None;
    let context = request.context.unwrap_or(&own);
    parse(request, context_over(context, collection, &mut held))
}

/// The bounds of keys that a find names by `min` and `max`.
pub(super) fn key_bounds<'r>(request: &FindRequest<'r>) -> Result<Option<KeyBounds<'r>>> {
    match request.key_options {
        None => Ok(None),
        Some(options) => KeyBounds::of(options.min, options.max),
    }
}

/// The metadata that whoever reads the documents wants, beside what the projection reads.
pub(super) fn metadata_wanted(request: &FindRequest<'_>) -> MetadataKinds {
    let options = request.key_options;
    options.map_or(MetadataKinds::NONE, |options| options.metadata)
}

/// The plan that reads one key for each value of the path that is grouped by, if one is and there is an index for it. Of a find with an
/// order it is the first document of each value.
pub(super) fn plan_of_groups(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    request: FindRequest<'_>,
    wanted: Wanted<'_>,
) -> Result<Option<Node>> {
    let Some(path) = request.grouped else {
        return Ok(None);
    };
    // The first document of each value is wanted in that order, which a collation has a say in.
    if parsed.sort.is_some() && !parsed.matcher.collation().is_simple() {
        return Ok(None);
    }
    plan_of_values(snapshot, parsed, (path, Missing::Counts), wanted)
}

/// Like `plan`, for the different values at a path: the plan that reads one key for each of them, if there is one.
/// Of what is wanted the query, its settings, its hint and whether bounds are shown count.
pub(super) fn plan_of_values(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    values: (&FieldPath, Missing),
    wanted: Wanted<'_>,
) -> Result<Option<Node>> {
    let _scope = phase(Phase::Plan);
    let wanted = Wanted {
        sort: parsed.sort.as_ref(),
        asked: wanted.asked,
        settings: wanted.settings,
        hint: wanted.hint,
        shows_bounds: wanted.shows_bounds,
        ..Wanted::default()
    };
    let root = choose_values(snapshot, parsed, values, wanted)?;
    if let Some(root) = root.as_deref().filter(|_| !wanted.shows_bounds) {
        count_plan(snapshot, root, false);
    }
    Ok(root)
}

fn choose_values(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    (path, missing): (&FieldPath, Missing),
    wanted: Wanted<'_>,
) -> Result<Option<Node>> {
    let (collection, catalog) = (&snapshot.collection, snapshot.index_catalog()?);
    let choose_distinct = |wanted: Wanted<'_>| {
        let values = (path, missing);
        choose_distinct(collection, catalog, &parsed.matcher, values, wanted)
    };
    let settings = wanted.settings;
    if let Some(hints) = settings.and_then(|it| it.hints_for(&collection.namespace)) {
        let allowed = Some(&hints.allowed);
        let by_hints = Wanted {
            allowed,
            hint: None,
            ..wanted
        };
        if let Some(root) = choose_distinct(by_hints)? {
            return Ok(Some(root));
        }
        // An allowed index that finds the documents comes before another one that finds the values.
        let by_hints = |wanted: Wanted<'_>| choose(collection, catalog, &parsed.matcher, wanted);
        if by_settings(snapshot, wanted, by_hints, |root| &**root)?.is_some() {
            return Ok(None);
        }
    }
    let filter = index_filter(snapshot, wanted.asked)?;
    choose_distinct(filtered(wanted, filter.as_deref()))
}

/// The value of a filter that is `{_id: <value>}` and means equality.
pub(super) fn only_id(filter: RawDocument<'_>) -> Option<RawValue<'_>> {
    let id = filter.sole_element("_id")?;
    match id.value() {
        RawValue::Document(document) => {
            let is_operator = document
                .first()
                .is_some_and(|first| first.name().as_bytes().starts_with(b"$"));
            (!is_operator).then_some(RawValue::Document(document))
        }
        RawValue::Array(_) | RawValue::Regex(_) | RawValue::Null | RawValue::Undefined => None,
        value => Some(value),
    }
}

/// Like `only_id`, where the record is found under the key of that value: one that the collation has a say in may be equal to
/// others.
pub(super) fn whole_id<'f>(
    filter: RawDocument<'f>,
    context: Option<&ExpressionContext>,
) -> Option<RawValue<'f>> {
    let id = only_id(filter)?;
    let is_concerned = context.is_some_and(|context| context.collation().concerns(id));
    (!is_concerned).then_some(id)
}

/// Finds the record of an `_id`; none where the collection has a collation that has a say in what is equal to it, or a plan is needed.
fn by_id(
    scope: Scope<'_>,
    operation: &Operation,
    request: FindRequest<'_>,
    is_bare: bool,
    id: RawValue<'_>,
) -> Result<Option<Found>> {
    let collection = scope.collection(request.namespace, operation)?;
    let is_concerned = |collection| collation_over(request.context, collection).concerns(id);
    if collection.as_deref().is_some_and(is_concerned) {
        return Ok(None);
    }
    let parsed = match is_bare {
        true => None,
        false => {
            let parsed = parse_over(&request, collection.as_deref())?;
            // Metadata comes with a plan.
            if !parsed.metadata().is_empty() {
                return Ok(None);
            }
            Some(parsed)
        }
    };
    let Some(collection) = collection else {
        return Ok(Some(Found::Documents(Executor::empty())));
    };
    if collection.view.is_some() {
        return Ok(Some(Found::View(collection)));
    }
    // Several measurements may have the `_id`, and no key tells them.
    if collection.series.is_some() {
        return Ok(None);
    }
    operation.plan.get_or_init(|| PlanSummary::IdHack);
    let mut found = Vec::new();
    if collection.is_clustered() {
        collection.count_by_id();
        let key = collection.record_key(id);
        scope.get_record(&key, &mut |bytes| found.extend_from_slice(bytes))?;
    } else if let Some(snapshot) = scope.snapshot(request.namespace, operation)?
        && let Some(key) = found_by_id(&snapshot, id)?
    {
        snapshot.get(&key, &mut |bytes| found.extend_from_slice(bytes))?;
    }
    if found.is_empty() {
        return Ok(Some(Found::Documents(Executor::empty())));
    }
    operation.count_examined(1, 1);
    if let Some(parsed) = &parsed
        && let Some(projection) = &parsed.projection
    {
        let document = stored(RawDocument::new(&found))?;
        let details = parsed.matcher.try_match_details(document)?;
        let mut projected = Vec::new();
        projection.project(document, &details.unwrap_or_default(), &mut projected)?;
        found = projected;
    }
    Ok(Some(Found::Documents(Executor::documents(found))))
}

/// Whether queries of some shape have an index filter, so that the filter has to be asked for.
#[inline]
fn has_index_filters(snapshot: &CollectionSnapshot) -> bool {
    let memory = snapshot.collection.plan_memory.as_ref();
    memory.is_some_and(|memory| !memory.filters.are_none())
}

/// The record key of an `_id` in a capped collection, whose index on `_id` is one like others.
fn found_by_id(snapshot: &CollectionSnapshot, id: RawValue<'_>) -> Result<Option<Vec<u8>>> {
    let index_catalog = snapshot.index_catalog()?;
    let index = index_catalog
        .id_index
        .map(|place| &index_catalog.indexes[place]);
    if let Some(counter) = index.and_then(|index| index.accesses.as_ref()) {
        counter.count();
    }
    Ok(snapshot.find_id(id)?)
}

fn plan_for_equalities(
    snapshot: &CollectionSnapshot,
    filter: RawDocument<'_>,
    wanted: Wanted<'_>,
) -> Result<Option<Node>> {
    let _scope = phase(Phase::Plan);
    let catalog = snapshot.index_catalog()?;
    let root = choose_for_equalities(&snapshot.collection, catalog, filter, wanted);
    if let Some(root) = root.as_deref() {
        count_plan(snapshot, root, false);
    }
    Ok(root)
}

/// A tailable read goes through a capped collection in the order of insertion.
fn check_tailable(snapshot: &CollectionSnapshot, parsed: &Parsed) -> Result<()> {
    if snapshot.collection.capped.is_none() {
        let text = format!(
            "error processing query: tailable cursor requested on non capped collection {}",
            snapshot.collection.namespace
        );
        return Err(Error::bad_value(text));
    }
    let is_natural = parsed
        .sort
        .as_ref()
        .is_none_or(|sort| sort.natural().is_some());
    if !is_natural {
        return Err(Error::bad_value(
            "error processing query: tailable cursors cannot be used with a sort other than {$natural: 1}",
        ));
    }
    Ok(())
}
