//! `find`: parses, plans and starts a read. A whole `_id` needs neither a plan nor a snapshot.

use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{CollectionSnapshot, Operation, PlanSummary, Scope};
use quarry_timing::{Phase, phase};

use super::error::stored;
use super::executor::{Executor, Reading};
use super::request::FindRequest;
use super::scan::Scan;
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::matcher::Matcher;
use crate::planner::{Plan, Wanted, choose, choose_for_equalities};
use crate::projection::Projection;
use crate::sort::SortPattern;

/// The parsed parts of a find.
pub(super) struct Parsed {
    pub matcher: Matcher,
    pub sort: Option<SortPattern>,
    pub projection: Option<Projection>,
}

impl Parsed {
    pub fn parse(
        filter: RawDocument<'_>,
        sort: Option<RawDocument<'_>>,
        projection: Option<RawDocument<'_>>,
        context: &ExpressionContext,
    ) -> Result<Parsed> {
        let _scope = phase(Phase::Plan);
        let matcher = Matcher::parse_in(filter, context)?;
        let sort = sort.map(SortPattern::parse).transpose()?;
        let projection = projection
            .map(|projection| Projection::parse_in(projection, Some(&matcher), context))
            .transpose()?;
        Ok(Parsed {
            sort: sort.filter(|sort| !sort.is_empty()),
            projection: projection.filter(|projection| !projection.is_identity()),
            matcher,
        })
    }

    /// A filter that asks nothing more, for a plan that answers its own alone.
    fn of_everything() -> Parsed {
        Parsed {
            matcher: Matcher::of_everything(),
            sort: None,
            projection: None,
        }
    }

    /// Whether the projection asks which element of an array the filter went through.
    pub fn uses_matched_element(&self) -> bool {
        let projection = self.projection.as_ref();
        projection.is_some_and(Projection::uses_matched_element)
    }

    pub fn plan(&self, snapshot: &CollectionSnapshot, hint: Option<RawValue<'_>>) -> Result<Plan> {
        self.choose(snapshot, hint, false)
    }

    /// Like `plan`, but with the texts that explain prints.
    pub fn plan_to_show(
        &self,
        snapshot: &CollectionSnapshot,
        hint: Option<RawValue<'_>>,
    ) -> Result<Plan> {
        self.choose(snapshot, hint, true)
    }

    fn choose(
        &self,
        snapshot: &CollectionSnapshot,
        hint: Option<RawValue<'_>>,
        shows_bounds: bool,
    ) -> Result<Plan> {
        let _scope = phase(Phase::Plan);
        let wanted = Wanted {
            sort: self.sort.as_ref(),
            hint,
            shows_bounds,
        };
        choose(
            &snapshot.collection,
            snapshot.index_catalog()?,
            &self.matcher,
            wanted,
        )
    }
}

/// Plans and begins a find. The executor that is returned gives its documents.
pub fn find(scope: Scope<'_>, operation: &Operation, request: FindRequest<'_>) -> Result<Executor> {
    let is_plain = request.hint.is_none() && !request.is_tailable && request.skip == 0;
    let is_bare = is_plain && request.sort.is_none() && request.projection.is_none();
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let parse = || Parsed::parse(request.filter, request.sort, request.projection, context);
    if is_plain && let Some(id) = only_id(request.filter) {
        let parsed = if is_bare { None } else { Some(parse()?) };
        return by_id(scope, operation, request, parsed.as_ref(), id);
    }
    let snapshot = scope.snapshot(request.namespace, operation)?;
    let answering = match &snapshot {
        Some(snapshot) if is_bare => plan_for_equalities(snapshot, request.filter)?,
        _ => None,
    };
    // What an index answers alone is not parsed.
    let parsed = match answering {
        Some(_) => Parsed::of_everything(),
        None => parse()?,
    };
    operation.check()?;
    let Some(snapshot) = snapshot else {
        return Ok(Executor::empty());
    };
    let mut plan = match answering {
        Some(plan) => plan,
        None => parsed.plan(&snapshot, request.hint)?,
    };
    if request.is_tailable {
        plan = tailable(&snapshot, &parsed, plan, request)?;
    }
    let reading = Reading::new(Scan::new(plan), parsed, request.skip, request.limit);
    Ok(Executor::reading(snapshot, reading, request.is_tailable))
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

fn by_id(
    scope: Scope<'_>,
    operation: &Operation,
    request: FindRequest<'_>,
    parsed: Option<&Parsed>,
    id: RawValue<'_>,
) -> Result<Executor> {
    let Some(collection) = scope.collection(request.namespace, operation)? else {
        return Ok(Executor::empty());
    };
    operation.plan.get_or_init(|| PlanSummary::IdHack);
    let mut found = Vec::new();
    if collection.is_clustered() {
        let key = collection.record_key(id);
        scope.get_record(&key, &mut |bytes| found.extend_from_slice(bytes))?;
    } else if let Some(snapshot) = scope.snapshot(request.namespace, operation)?
        && let Some(key) = snapshot.find_id(id)?
    {
        snapshot.get(&key, &mut |bytes| found.extend_from_slice(bytes))?;
    }
    if found.is_empty() {
        return Ok(Executor::empty());
    }
    operation.keys_examined.fetch_add(1, Relaxed);
    operation.docs_examined.fetch_add(1, Relaxed);
    if let Some(parsed) = parsed
        && let Some(projection) = &parsed.projection
    {
        let document = stored(RawDocument::new(&found))?;
        let details = parsed.matcher.try_match_details(document)?;
        let mut projected = Vec::new();
        projection.project(document, &details.unwrap_or_default(), &mut projected)?;
        found = projected;
    }
    Ok(Executor::documents(found))
}

fn plan_for_equalities(
    snapshot: &CollectionSnapshot,
    filter: RawDocument<'_>,
) -> Result<Option<Plan>> {
    let _scope = phase(Phase::Plan);
    Ok(choose_for_equalities(
        &snapshot.collection,
        snapshot.index_catalog()?,
        filter,
    ))
}

/// A tailable read goes through a capped collection in the order of insertion.
fn tailable(
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    plan: Plan,
    request: FindRequest<'_>,
) -> Result<Plan> {
    if snapshot.collection.capped.is_none() {
        let text = format!(
            "error processing query: tailable cursor requested on non capped collection {}",
            snapshot.collection.namespace
        );
        return Err(crate::Error::bad_value(text));
    }
    let is_natural = parsed
        .sort
        .as_ref()
        .is_none_or(|sort| sort.natural().is_some());
    if !is_natural {
        return Err(crate::Error::bad_value(
            "error processing query: tailable cursors cannot be used with a sort other than {$natural: 1}",
        ));
    }
    let natural = quarry_bson::doc! { "$natural": 1 };
    let mut plan = match plan.access {
        crate::planner::Access::Collection => plan,
        _ => parsed.plan(snapshot, Some(RawValue::Document(natural.as_raw())))?,
    };
    if plan.is_reversed {
        return Err(crate::Error::bad_value(format!(
            "error processing query: tailable cursor on {} cannot read backwards",
            request.namespace
        )));
    }
    plan.is_sorted = true;
    Ok(plan)
}
