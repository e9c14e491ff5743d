//! `explain`: the plan of a command and, if asked, what running it examined and where its time went. Writes are run
//! without their effect: the documents they would change are found, updated in memory, and counted.

use std::sync::Arc;

use quarry_bson::{ArrayBuilder, DocumentBuilder};
use quarry_database::{Collection, CollectionSnapshot, Operation, Scope};

use super::aggregate::{collection_over, head, input, want_metadata};
use super::collation::{context_beneath, context_over, statement_context};
use super::find::{
    key_bounds, metadata_wanted, plan_between, plan_of_groups, plan_of_values, plan_to_show,
};
use super::measured_run::{Behind, Ran, run_pipeline, run_plan};
use super::plan_cache::PlanCacheInfo;
use super::request::{
    AggregateRequest, CountRequest, DeleteRequest, DistinctRequest, FindAndModifyRequest,
    FindRequest, Over, UpdateRequest,
};
use super::series;
use super::update::check_multi;
use super::view_stages as view;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::parsed_filter::parsed_filter;
use crate::pipeline::{Pipeline, StageFigures};
use crate::plan::{Count, NoRows, Parsed, Shown, Write, explain_node, number};
use crate::planner::{Choice, Missing, Tried, Wanted};
use crate::query_shape::QueryParts;
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

impl Above<'_> {
    /// Refuses a change that running it would refuse, because the collection is a time series.
    fn refuse_on_series(&self, collection: &Collection, parsed: &Parsed) -> Result<()> {
        let Some(series) = &collection.series else {
            return Ok(());
        };
        match self {
            Above::Nothing | Above::Count | Above::Distinct(_) => Ok(()),
            Above::Update {
                gives_document: true,
                ..
            }
            | Above::Delete {
                gives_document: true,
                ..
            } => Err(series::no_find_and_modify(&collection.namespace)),
            Above::Delete { .. } => Ok(()),
            Above::Update {
                update,
                is_multi,
                is_upsert,
                ..
            } => {
                series::check_kind(series, *is_multi, *is_upsert)?;
                series::check_update(series, &parsed.matcher, update)
            }
        }
    }
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
    refuse_write(&pipeline, verbosity)?;
    let Some(namespace) = input(request.over, &pipeline)? else {
        reply.append("explainVersion", EXPLAIN_VERSION);
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
    let behind = Behind {
        pipeline: &pipeline,
        first: leading.stages,
        own_database: request.over.database(),
        collation: context.collation(),
    };
    let figures = read.explain_parts(scope, operation, verbosity, Some(&behind), &mut cursor)?;
    cursor.finish();
    first.finish();
    pipeline.explain_with(leading.stages, &figures, &mut stages);
    stages.finish();
    Ok(())
}

/// Refuses to run a pipeline that writes its result.
fn refuse_write(pipeline: &Pipeline, verbosity: Verbosity) -> Result<()> {
    match pipeline.stages.last() {
        Some(last) if last.written().is_some() && verbosity != Verbosity::QueryPlanner => {
            let text = format!(
                "explain of a pipeline with {} is only possible with verbosity 'queryPlanner': it would have to write",
                last.name()
            );
            Err(Error::new(ErrorCode::INVALID_OPTIONS, text))
        }
        _ => Ok(()),
    }
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
        self.explain_parts(scope, operation, verbosity, None, reply)?;
        Ok(())
    }

    /// Appends `queryPlanner` and, if asked, `executionStats`. The read is run with the stages behind it, if there are some, whose
    /// figures are returned.
    fn explain_parts(
        self,
        scope: Scope<'_>,
        operation: &Operation,
        verbosity: Verbosity,
        behind: Option<&Behind<'_>>,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<Vec<Arc<StageFigures>>> {
        let find = self.find;
        let own = ExpressionContext::default();
        let context = find.context.unwrap_or(&own);
        let snapshot = scope.snapshot(find.namespace, operation)?;
        let collection = snapshot.as_ref().map(|snapshot| &*snapshot.collection);
        let mut held = None;
        let context = context_over(context, collection, &mut held);
        let parsed = super::find::parse(&find, context)?;
        if let Some(collection) = collection {
            self.above.refuse_on_series(collection, &parsed)?;
        }
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
        let filter = parsed_filter(find.filter)?;
        let planned = Shown::planned(filter.as_raw(), find.sort, find.projection);
        let mut planner = reply.document("queryPlanner");
        planner.append("namespace", find.namespace.as_str());
        planner.append("parsedQuery", filter.as_raw());
        if let Some(collation) = parsed.matcher.collation().specification() {
            planner.append("collation", collation.as_raw());
        }
        append_plan_cache(&cache, &mut planner);
        if let Some(settings) = settings {
            planner.append("querySettings", settings.to_document().as_raw());
        }
        let mut shown_plan = planner.document("winningPlan");
        explain_node(&*winning, &planned, &mut shown_plan);
        shown_plan.finish();
        let mut others = planner.array("rejectedPlans");
        for plan in &rejected {
            let mut shown_plan = others.document();
            explain_node(&**plan, &planned, &mut shown_plan);
            shown_plan.finish();
        }
        others.finish();
        planner.finish();
        if verbosity == Verbosity::QueryPlanner {
            return Ok(Vec::new());
        }
        let (mut ran, mut figures) = (Ran::default(), Vec::new());
        if let Some(behind) = behind {
            let plan = (winning, parsed);
            (winning, ran, figures) =
                run_pipeline(behind, plan, snapshot.as_ref(), scope, operation)?;
        } else if let Some(snapshot) = &snapshot {
            ran = run_plan(&mut winning, snapshot, &parsed, operation)?;
        }
        let mut statistics = reply.document("executionStats");
        statistics.append("executionSuccess", true);
        ran.append_counts(&mut statistics);
        let mut stages = statistics.document("executionStages");
        let counted = Shown {
            counts: snapshot.is_some(),
            ..planned
        };
        let ran_to = Shown {
            is_at_end: Some(ran.is_at_end),
            ..counted
        };
        explain_node(&*winning, &ran_to, &mut stages);
        stages.finish();
        if verbosity == Verbosity::AllPlansExecution {
            let mut plans = statistics.array("allPlansExecution");
            for plan in &tried {
                append_tried(plan, &counted, &mut plans);
            }
            plans.finish();
        }
        ran.append_phases(&mut statistics);
        statistics.finish();
        Ok(figures)
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

/// Appends the fields that explain prints of the plan cache.
fn append_plan_cache(info: &PlanCacheInfo, out: &mut DocumentBuilder<'_>) {
    out.append("indexFilterSet", info.has_index_filter);
    out.append("queryHash", info.shape.as_str());
    out.append("planCacheShapeHash", info.shape.as_str());
    out.append("planCacheKey", info.key.as_str());
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
