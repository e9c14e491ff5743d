//! `explain`: the plan of a command and, if asked, what running it examined and where its time went. Writes are run
//! without their effect: the documents they would change are found, updated in memory, and counted.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use quarry_bson::{ArrayBuilder, DocumentBuilder};
use quarry_database::{CollectionSnapshot, Operation, Scope};
use quarry_timing::Phase;

use super::aggregate::{aggregate_watched, collection_over, head, input, want_metadata};
use super::collation::{context_beneath, context_over, statement_context};
use super::find::{
    index_filter, key_bounds, metadata_wanted, plan_between, plan_of_groups, plan_of_values,
    plan_to_show,
};
use super::plan_cache::cache_key_of;
use super::request::{
    AggregateRequest, CountRequest, DeleteRequest, DistinctRequest, FindAndModifyRequest,
    FindRequest, Over, UpdateRequest,
};
use super::update::check_multi;
use super::view_stages as view;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::pipeline::{Pipeline, StageFigures};
use crate::plan::{
    Count, Flow, NoRows, Node, Parsed, PlanContext, Shown, Write, explain_node, number, run,
};
use crate::planner::{Choice, Missing, Tried, Wanted};
use crate::query_settings::QuerySettings;
use crate::query_shape::{QueryParts, short_hash};
use crate::update::{Beside, Update};

/// The form of what explain prints.
const EXPLAIN_VERSION: &str = "1";

/// The command to be explained.
pub enum Explained<'a> {
    /// A find.
    Find(FindRequest<'a>),
    /// An aggregate.
    Aggregate(AggregateRequest<'a>),
    /// A count.
    Count(CountRequest<'a>),
    /// A distinct.
    Distinct(DistinctRequest<'a>),
    /// An update statement.
    Update(UpdateRequest<'a>),
    /// A delete statement.
    Delete(DeleteRequest<'a>),
    /// A findAndModify.
    FindAndModify(FindAndModifyRequest<'a>),
}

/// How much explain shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The plan alone; nothing is run.
    QueryPlanner,
    /// The plan, run, with what it examined.
    ExecutionStats,
    /// Like `ExecutionStats`, with what each plan did that was tried.
    AllPlansExecution,
}

/// The read of a command, and the node that stands above it.
struct Read<'a> {
    find: FindRequest<'a>,
    above: Above<'a>,
    counts_all: bool,
}

/// The use of the documents that a read finds.
enum Above<'a> {
    Nothing,
    Count,
    Distinct(&'a FieldPath),
    Update {
        update: Update,
        is_multi: bool,
        is_upsert: bool,
        gives_document: bool,
    },
    Delete {
        is_multi: bool,
        gives_document: bool,
    },
}

/// The outcome of a run.
#[derive(Default)]
struct Ran {
    returned: u64,
    keys_examined: u64,
    docs_examined: u64,
    millis: u64,
    micros: u64,
    /// By phase, unless timing is off.
    phases: Vec<(Phase, u64)>,
}

/// Explains a command: its plan and, if that is asked for, what running it examined. It changes nothing.
pub fn explain(
    scope: Scope<'_>,
    operation: &Operation,
    explained: Explained<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    if let Some((shown, context)) = over_view(scope, operation, &explained)? {
        let mut request = shown.request()?;
        request.context = Some(&context);
        return explain_aggregate(scope, operation, request, verbosity, reply);
    }
    let own = explained.statement_context()?;
    let read = match explained.in_context(own.as_ref()) {
        Explained::Aggregate(request) => {
            return explain_aggregate(scope, operation, request, verbosity, reply);
        }
        Explained::Find(request) => Read::of(request, Above::Nothing),
        Explained::Count(request) => Read::of_count(request),
        Explained::Distinct(request) => {
            let path = FieldPath::parse(request.key)?;
            let read = Read::of_distinct(request, &path);
            return read.explain(scope, operation, verbosity, reply);
        }
        Explained::Update(request) => Read::of_update(request)?,
        Explained::Delete(request) => Read::of_delete(request),
        Explained::FindAndModify(request) => Read::of_find_and_modify(request)?,
    };
    read.explain(scope, operation, verbosity, reply)
}

impl<'a> Explained<'a> {
    /// The context of the statement's own collation, where it has one.
    fn statement_context(&self) -> Result<Option<ExpressionContext>> {
        match self {
            Explained::Update(update) => statement_context(update.context, update.collation),
            Explained::Delete(delete) => statement_context(delete.context, delete.collation),
            _ => Ok(None),
        }
    }

    /// Has the statement that context, if it is given one.
    fn in_context<'c>(self, context: Option<&'c ExpressionContext>) -> Explained<'c>
    where
        'a: 'c,
    {
        match (self, context) {
            (Explained::Update(update), Some(_)) => {
                Explained::Update(UpdateRequest { context, ..update })
            }
            (Explained::Delete(delete), Some(_)) => {
                Explained::Delete(DeleteRequest { context, ..delete })
            }
            (other, _) => other,
        }
    }
}

/// The read of a view as the aggregate that it is; none if the command reads no view.
fn over_view(
    scope: Scope<'_>,
    operation: &Operation,
    explained: &Explained<'_>,
) -> Result<Option<(view::Shown, ExpressionContext)>> {
    let (namespace, context) = match explained {
        Explained::Find(find) => (find.namespace, find.context),
        Explained::Count(count) => (count.namespace, count.context),
        Explained::Distinct(distinct) => (distinct.namespace, distinct.context),
        Explained::Aggregate(AggregateRequest {
            over: Over::Collection(namespace),
            context,
            ..
        }) => (*namespace, *context),
        _ => return Ok(None),
    };
    let Some(collection) = view::view(scope, operation, namespace)? else {
        return Ok(None);
    };
    let context = context_beneath(context, &collection)?;
    let shown = match explained {
        Explained::Count(count) => view::Shown::of_count(scope, operation, &collection, count)?,
        Explained::Aggregate(request) => {
            view::Shown::of_aggregate(scope, operation, &collection, request.pipeline)?
        }
        Explained::Find(find) => view::Shown::of_find(scope, operation, &collection, find)?,
        Explained::Distinct(distinct) => {
            let mut find = FindRequest::new(distinct.namespace);
            find.filter = distinct.filter;
            view::Shown::of_find(scope, operation, &collection, &find)?
        }
        _ => return Ok(None),
    };
    Ok(Some((shown, context)))
}

/// The find that the head of a pipeline is, and the stages above it.
fn explain_aggregate(
    scope: Scope<'_>,
    operation: &Operation,
    request: AggregateRequest<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let collection = collection_over(scope, operation, request.over, context)?;
    let mut held = None;
    let context = context_over(context, collection.as_deref(), &mut held);
    let pipeline = Pipeline::parse_with(request.pipeline, context, request.sources)?;
    if let Some(last) = pipeline.stages.last()
        && last.written().is_some()
        && verbosity != Verbosity::QueryPlanner
    {
        let text = format!(
            "explain of a pipeline with {} is only possible with verbosity 'queryPlanner': it would have to write",
            last.name()
        );
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, text));
    }
    let Some(namespace) = input(request.over, &pipeline)? else {
        let mut stages = reply.array("stages");
        pipeline.explain(0, &mut stages);
        stages.finish();
        return Ok(());
    };
    let leading = pipeline.leading();
    let paths = pipeline.paths_read(leading.stages);
    let mut find = head(namespace, request, context, &leading, paths.as_deref());
    find.grouped = pipeline.values_grouped(&leading);
    want_metadata(&mut find, &pipeline, &leading)?;
    let read = Read::of(find, Above::Nothing);
    if leading.stages == pipeline.stages.len() {
        return read.explain(scope, operation, verbosity, reply);
    }
    reply.append("explainVersion", EXPLAIN_VERSION);
    let mut stages = reply.array("stages");
    let mut first = stages.document();
    let mut cursor = first.document("$cursor");
    read.explain_parts(scope, operation, verbosity, &mut cursor)?;
    cursor.finish();
    let figures = match verbosity {
        Verbosity::QueryPlanner => Vec::new(),
        _ => run_watched(scope, operation, request, context)?,
    };
    first.finish();
    pipeline.explain_with(leading.stages, &figures, &mut stages);
    stages.finish();
    Ok(())
}

/// Runs a pipeline to its end for the figures of the stages that its read does not do.
fn run_watched(
    scope: Scope<'_>,
    operation: &Operation,
    request: AggregateRequest<'_>,
    context: &ExpressionContext,
) -> Result<Vec<Arc<StageFigures>>> {
    let request = AggregateRequest {
        context: Some(context),
        ..request
    };
    let (mut executor, figures) = aggregate_watched(scope, operation, request)?;
    let mut document = Vec::new();
    while executor.next(operation, &mut document)? {
        document.clear();
    }
    Ok(figures)
}

impl<'a> Read<'a> {
    fn of(find: FindRequest<'a>, above: Above<'a>) -> Read<'a> {
        Read {
            find,
            above,
            counts_all: false,
        }
    }

    fn of_count(request: CountRequest<'a>) -> Read<'a> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        (find.skip, find.limit) = (request.skip, request.limit);
        find.context = request.context;
        find.read = Some(&[]);
        Read {
            counts_all: request.filter.is_empty() && request.hint.is_none(),
            ..Read::of(find, Above::Count)
        }
    }

    fn of_distinct(request: DistinctRequest<'a>, path: &'a FieldPath) -> Read<'a> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        find.context = request.context;
        find.read = Some(std::slice::from_ref(path));
        Read::of(find, Above::Distinct(path))
    }

    fn of_update(request: UpdateRequest<'a>) -> Result<Read<'a>> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        find.context = request.context;
        find.sort = request.sort;
        let own = ExpressionContext::default();
        let beside = Beside {
            array_filters: request.array_filters,
            constants: request.constants,
        };
        let update = Update::parse_in(request.update, beside, request.context.unwrap_or(&own))?;
        check_multi(&request, &update)?;
        let above = Above::Update {
            update,
            is_multi: request.is_multi,
            is_upsert: request.is_upsert,
            gives_document: false,
        };
        Ok(Read::of(find, above))
    }

    fn of_delete(request: DeleteRequest<'a>) -> Read<'a> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        find.context = request.context;
        let above = Above::Delete {
            is_multi: request.is_multi,
            gives_document: false,
        };
        Read::of(find, above)
    }

    fn of_find_and_modify(request: FindAndModifyRequest<'a>) -> Result<Read<'a>> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        (find.sort, find.limit) = (request.sort, Some(1));
        find.context = request.context;
        let own = ExpressionContext::default();
        let context = request.context.unwrap_or(&own);
        let beside = Beside {
            array_filters: request.array_filters,
            constants: None,
        };
        let update = request
            .update
            .map(|update| Update::parse_in(update, beside, context))
            .transpose()?;
        let (is_multi, gives_document) = (false, true);
        let above = match update {
            Some(update) => Above::Update {
                update,
                is_multi,
                is_upsert: request.is_upsert,
                gives_document,
            },
            None => Above::Delete {
                is_multi,
                gives_document,
            },
        };
        Ok(Read::of(find, above))
    }

    fn explain(
        self,
        scope: Scope<'_>,
        operation: &Operation,
        verbosity: Verbosity,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        reply.append("explainVersion", EXPLAIN_VERSION);
        self.explain_parts(scope, operation, verbosity, reply)
    }

    /// Appends `queryPlanner` and, if asked, `executionStats`.
    fn explain_parts(
        self,
        scope: Scope<'_>,
        operation: &Operation,
        verbosity: Verbosity,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let find = self.find;
        let own = ExpressionContext::default();
        let context = find.context.unwrap_or(&own);
        let snapshot = scope.snapshot(find.namespace, operation)?;
        let collection = snapshot.as_ref().map(|snapshot| &*snapshot.collection);
        let mut held = None;
        let context = context_over(context, collection, &mut held);
        let parsed = super::find::parse(&find, context)?;
        let asked = QueryParts {
            filter: find.filter,
            sort: find.sort,
            projection: find.projection,
            collation: context.collation(),
        };
        let settings = context.query_settings();
        let cache = PlanCacheInfo::of(snapshot.as_ref(), (&parsed, &asked), settings)?;
        let Choice {
            mut winning,
            rejected,
            tried,
        } = self.choose(snapshot.as_ref(), (&parsed, &asked), operation)?;
        let shown = |counts| Shown {
            filter: find.filter,
            sort: find.sort,
            projection: find.projection,
            counts,
        };
        let mut planner = reply.document("queryPlanner");
        planner.append("namespace", find.namespace.as_str());
        planner.append("parsedQuery", find.filter);
        if let Some(collation) = parsed.matcher.collation().specification() {
            planner.append("collation", collation.as_raw());
        }
        cache.append(&mut planner);
        if let Some(settings) = settings {
            planner.append("querySettings", settings.to_document().as_raw());
        }
        let mut shown_plan = planner.document("winningPlan");
        explain_node(&*winning, &shown(false), &mut shown_plan);
        shown_plan.finish();
        let mut others = planner.array("rejectedPlans");
        for plan in &rejected {
            let mut shown_plan = others.document();
            explain_node(&**plan, &shown(false), &mut shown_plan);
            shown_plan.finish();
        }
        others.finish();
        planner.finish();
        if verbosity == Verbosity::QueryPlanner {
            return Ok(());
        }
        let ran = match &snapshot {
            Some(snapshot) => measure(&mut winning, snapshot, &parsed, operation)?,
            None => Ran::default(),
        };
        let mut statistics = reply.document("executionStats");
        statistics.append("executionSuccess", true);
        ran.append(&mut statistics);
        let mut stages = statistics.document("executionStages");
        explain_node(&*winning, &shown(snapshot.is_some()), &mut stages);
        stages.finish();
        if verbosity == Verbosity::AllPlansExecution {
            let mut plans = statistics.array("allPlansExecution");
            for plan in &tried {
                append_tried(plan, &shown(true), &mut plans);
            }
            plans.finish();
        }
        let mut phases = statistics.document("phases");
        for (phase, ns) in &ran.phases {
            phases.append(phase.name(), *ns as f64 / 1e3);
        }
        phases.finish();
        statistics.finish();
        Ok(())
    }

    /// The plan of the command, and those that were not chosen.
    fn choose(
        self,
        snapshot: Option<&CollectionSnapshot>,
        (parsed, asked): (&Parsed, &QueryParts<'_>),
        operation: &Operation,
    ) -> Result<Choice> {
        let find = self.find;
        let Some(snapshot) = snapshot else {
            return Ok(Choice::of(Box::new(NoRows::EOF)));
        };
        if self.counts_all {
            return Ok(Choice::of(Box::new(NoRows::RECORD_STORE_FAST_COUNT)));
        }
        let settings = find.context.and_then(ExpressionContext::query_settings);
        let of_values = Wanted {
            asked: Some(asked),
            settings,
            hint: find.hint,
            shows_bounds: true,
            ..Wanted::default()
        };
        if let Above::Distinct(path) = &self.above
            && let values = (*path, Missing::IsNone)
            && let Some(plan) = plan_of_values(snapshot, parsed, values, of_values)?
        {
            return Ok(Choice::of(plan));
        }
        if let Some(plan) = plan_of_groups(snapshot, parsed, find, of_values)? {
            return Ok(Choice::of(plan));
        }
        let is_read = matches!(self.above, Above::Nothing | Above::Distinct(_));
        let wanted = Wanted {
            asked: Some(asked),
            settings,
            hint: find.hint,
            // What stands above the documents of a count leaves out rows itself.
            skip: if is_read { find.skip } else { 0 },
            limit: find.limit,
            stops_itself: !is_read,
            read: find.read,
            metadata: metadata_wanted(&find),
            ..Wanted::default()
        };
        let choice = match &key_bounds(&find)? {
            Some(bounds) => {
                let wanted = Wanted {
                    shows_bounds: true,
                    ..wanted
                };
                Choice::of(plan_between(snapshot, parsed, wanted, bounds)?)
            }
            None => plan_to_show(snapshot, parsed, operation, wanted)?,
        };
        Ok(Choice {
            winning: match self.above {
                Above::Nothing | Above::Distinct(_) => choice.winning,
                Above::Count => Box::new(Count::new(choice.winning, find.skip, find.limit)),
                Above::Update {
                    update,
                    is_multi,
                    is_upsert,
                    gives_document,
                } => {
                    let write = Write::update(choice.winning, update, is_multi, is_upsert);
                    Box::new(write.giving_documents(gives_document))
                }
                Above::Delete {
                    is_multi,
                    gives_document,
                } => {
                    let write = Write::delete(choice.winning, is_multi);
                    Box::new(write.giving_documents(gives_document))
                }
            },
            ..choice
        })
    }
}

/// The fields that explain prints of the plan cache.
struct PlanCacheInfo {
    has_index_filter: bool,
    shape: String,
    key: String,
}

impl PlanCacheInfo {
    fn of(
        snapshot: Option<&CollectionSnapshot>,
        (parsed, asked): (&Parsed, &QueryParts<'_>),
        settings: Option<&QuerySettings>,
    ) -> Result<PlanCacheInfo> {
        let shape = asked.shape()?;
        let filter = snapshot.map_or(Ok(None), |it| index_filter(it, Some(asked)))?;
        let collection = snapshot.map(|snapshot| &snapshot.collection.namespace);
        let hints = settings.zip(collection);
        let hints = hints.and_then(|(settings, namespace)| settings.hints_for(namespace));
        let key = match snapshot {
            Some(snapshot) => {
                let by_hints = hints.map(|hints| &hints.allowed);
                cache_key_of(snapshot, parsed, by_hints.or(filter.as_deref()))?
            }
            None => shape.0,
        };
        Ok(PlanCacheInfo {
            has_index_filter: filter.is_some() && hints.is_none(),
            shape: shape.text(),
            key: short_hash(key),
        })
    }

    fn append(&self, out: &mut DocumentBuilder<'_>) {
        out.append("indexFilterSet", self.has_index_filter);
        out.append("queryHash", self.shape.as_str());
        out.append("planCacheShapeHash", self.shape.as_str());
        out.append("planCacheKey", self.key.as_str());
    }
}

/// Reads what the command would read, and makes the documents that it would write.
fn measure(
    root: &mut Node,
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    operation: &Operation,
) -> Result<Ran> {
    let examined = || {
        (
            operation.keys_examined.load(Relaxed),
            operation.docs_examined.load(Relaxed),
        )
    };
    let (keys, docs) = examined();
    let before = quarry_timing::breakdown();
    let started = Instant::now();
    let context = PlanContext {
        snapshot,
        operation,
        parsed,
        is_replay: false,
    };
    let mut returned = 0;
    run(&mut **root, &context, &mut |_| {
        returned += 1;
        Ok(Flow::Continue)
    })?;
    let elapsed = started.elapsed();
    let after = quarry_timing::breakdown();
    let (keys_after, docs_after) = examined();
    let spent = |(phase, ns): (Phase, u64)| (phase, ns.saturating_sub(before.phase_ns(phase)));
    Ok(Ran {
        returned,
        keys_examined: keys_after - keys,
        docs_examined: docs_after - docs,
        millis: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        micros: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        phases: (after.entered().map(spent))
            .filter(|(_, ns)| *ns > 0)
            .collect(),
    })
}

/// Appends what a plan did in its trial.
fn append_tried(tried: &Tried, shown: &Shown<'_>, plans: &mut ArrayBuilder<'_>) {
    let mut plan = plans.document();
    let millis = u64::try_from(tried.duration.as_millis()).unwrap_or(u64::MAX);
    plan.append("nReturned", number(tried.results));
    plan.append("executionTimeMillisEstimate", number(millis));
    plan.append("totalKeysExamined", number(tried.keys_examined));
    plan.append("totalDocsExamined", number(tried.docs_examined));
    let mut stages = plan.document("executionStages");
    explain_node(&*tried.root, shown, &mut stages);
    stages.finish();
    plan.finish();
}

impl Ran {
    fn append(&self, out: &mut DocumentBuilder<'_>) {
        out.append("nReturned", number(self.returned));
        out.append("executionTimeMillis", number(self.millis));
        out.append("executionTimeMicros", number(self.micros));
        out.append("totalKeysExamined", number(self.keys_examined));
        out.append("totalDocsExamined", number(self.docs_examined));
    }
}
