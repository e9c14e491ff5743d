//! The plans that trials have chosen for a collection, as `$planCacheStats` lists them and `planCacheClear` ends them, the hashes by
//! which they are known, and the index filters of a collection (`planCacheSetFilter`).

use quarry_bson::Value;
use quarry_database::{CollectionSnapshot, IndexFilter, Operation, Scope};

use super::collation::context_over;
use super::find::index_filter;
use super::request::FindRequest;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::plan::Parsed;
use crate::planner::{Wanted, cache_keys};
use crate::query_settings::QuerySettings;
use crate::query_shape::{QueryParts, QueryShape, short_hash};

/// A change of what is kept for queries of one shape.
pub enum PlanCacheChange {
    /// Forgets the plans that were chosen for them.
    ForgetPlans,
    /// Has plans for them use these indexes alone, by name or key pattern.
    SetFilter(Vec<Value>),
    /// Takes away their index filter.
    ClearFilter,
}

/// Changes what is kept for queries of the shape that the request has.
pub fn change_plan_cache(
    scope: Scope<'_>,
    operation: &Operation,
    request: &FindRequest<'_>,
    change: PlanCacheChange,
) -> Result<()> {
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let snapshot = scope.snapshot(request.namespace, operation)?;
    let collection = snapshot.as_ref().map(|snapshot| &*snapshot.collection);
    let mut held = None;
    let context = context_over(context, collection, &mut held);
    let parsed = Parsed::parse(request.filter, request.sort, request.projection, context)?;
    let parts = QueryParts {
        filter: request.filter,
        sort: request.sort,
        projection: request.projection,
        collation: context.collation(),
    };
    let shape = parts.shape()?;
    let Some(snapshot) = &snapshot else {
        return match change {
            PlanCacheChange::SetFilter(_) => Err(Error::bad_value("no such collection")),
            _ => Ok(()),
        };
    };
    snapshot.collection.refuse_view()?;
    if let Some(memory) = &snapshot.collection.plan_memory {
        let query = parts.to_document();
        match change {
            PlanCacheChange::ForgetPlans => {}
            PlanCacheChange::SetFilter(indexes) => {
                memory
                    .filters
                    .set(shape.0, IndexFilter { query, indexes })?;
            }
            PlanCacheChange::ClearFilter => memory.filters.remove(shape.0),
        }
    }
    forget_plans(snapshot, &parsed, shape)
}

/// The keys under which choices for a query are found: without a limit, and with one.
fn keys_of(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    filter: Option<&IndexFilter>,
) -> Result<[u64; 2]> {
    let wanted = Wanted {
        sort: parsed.sort.as_ref(),
        projection: parsed.projection.as_ref(),
        read: (parsed.projection.as_ref()).and_then(|projection| projection.required_fields()),
        allowed: filter,
        ..Wanted::default()
    };
    let index_catalog = snapshot.index_catalog()?;
    cache_keys(&snapshot.collection, index_catalog, &parsed.matcher, wanted)
}

/// The hashes by which explain, the log and `$planCacheStats` know a query, and whether an operator has set an index filter for it.
#[derive(Debug)]
pub struct PlanCacheInfo {
    /// Whether an index filter is set for queries of the shape.
    pub has_index_filter: bool,
    /// The hash of the shape in eight digits.
    pub shape: String,
    /// The hash, in eight digits, of the shape and of the indexes that may serve it: the key of a choice without a limit.
    pub key: String,
}

impl PlanCacheInfo {
    pub(super) fn of(
        snapshot: Option<&CollectionSnapshot>,
        (parsed, asked): (&Parsed, &QueryParts<'_>),
        settings: Option<&QuerySettings>,
    ) -> Result<PlanCacheInfo> {
        let shape = asked.shape()?;
        let filter = snapshot.map_or(Ok(None), |it| index_filter(it, Some(asked)))?;
        let collection = snapshot.map(|snapshot| &snapshot.collection.namespace);
        let hints = settings.zip(collection);
        let hints = hints.and_then(|(settings, namespace)| settings.hints_for(namespace));
        let allowed = hints.map(|hints| &hints.allowed).or(filter.as_deref());
        let key = match snapshot {
            Some(snapshot) => keys_of(snapshot, parsed, allowed)?[0],
            None => shape.0,
        };
        Ok(PlanCacheInfo {
            has_index_filter: filter.is_some() && hints.is_none(),
            shape: shape.text(),
            key: short_hash(key),
        })
    }
}

/// The hashes of a find as explain prints them; none over a view, which has no plan of its own.
pub fn plan_cache_info(
    scope: Scope<'_>,
    operation: &Operation,
    request: &FindRequest<'_>,
) -> Result<Option<PlanCacheInfo>> {
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let snapshot = scope.snapshot(request.namespace, operation)?;
    let collection = snapshot.as_ref().map(|snapshot| &*snapshot.collection);
    if collection.is_some_and(|collection| collection.view.is_some()) {
        return Ok(None);
    }
    let mut held = None;
    let context = context_over(context, collection, &mut held);
    let parsed = super::find::parse(request, context)?;
    let parts = QueryParts {
        filter: request.filter,
        sort: request.sort,
        projection: request.projection,
        collation: context.collation(),
    };
    let settings = context.query_settings();
    PlanCacheInfo::of(snapshot.as_ref(), (&parsed, &parts), settings).map(Some)
}

/// Forgets the plans that were chosen for queries of a shape.
fn forget_plans(snapshot: &CollectionSnapshot, parsed: &Parsed, shape: QueryShape) -> Result<()> {
    let index_catalog = snapshot.index_catalog()?;
    let keys = keys_of(snapshot, parsed, None)?;
    // A plan may have been chosen for a query with other conditions, which no index serves.
    let is_meant = |key: u64, query: Option<u64>| keys.contains(&key) || query == Some(shape.0);
    index_catalog.plan_choices.forget(&is_meant);
    Ok(())
}
