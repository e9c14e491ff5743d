//! `explain`: the plan of a command and, if asked, what running it examined and where its time went. Writes are run
//! without their effect: the documents they would change are found, updated in memory, and counted.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use quarry_bson::{DateTime, DocumentBuilder, RawDocument};
use quarry_database::{CollectionSnapshot, Operation, Scope};
use quarry_timing::{Phase, phase};

use super::aggregate::{head, input};
use super::executor::{Executor, Reading};
use super::find::Parsed;
use super::request::{
    AggregateRequest, CountRequest, DeleteRequest, FindAndModifyRequest, FindRequest, UpdateRequest,
};
use super::scan::Scan;
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::matcher::Matcher;
use crate::pipeline::Pipeline;
use crate::planner::{Measured, Plan, number};
use crate::stage_memory::MEMORY_BYTES_MAX;
use crate::update::Update;

/// The command to be explained.
pub enum Explained<'a> {
    /// A find.
    Find(FindRequest<'a>),
    /// An aggregate.
    Aggregate(AggregateRequest<'a>),
    /// A count.
    Count(CountRequest<'a>),
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
    /// Like `ExecutionStats`, with the plans that were rejected.
    AllPlansExecution,
}

/// The read of a command, and the stage that stands above it.
struct Read<'a> {
    find: FindRequest<'a>,
    above: Option<&'static str>,
    counts_all: bool,
    /// The update to be made to each document, if it is one.
    update: Option<Update>,
}

/// The outcome of a run.
#[derive(Default)]
struct Ran {
    measured: Measured,
    would_modify: u64,
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
    let read = match explained {
        Explained::Aggregate(request) => {
            return explain_aggregate(scope, operation, request, verbosity, reply);
        }
        Explained::Find(request) => Read::of(request, None),
        Explained::Count(request) => Read::of_count(request),
        Explained::Update(request) => Read::of_update(request)?,
        Explained::Delete(request) => Read::of_delete(request),
        Explained::FindAndModify(request) => Read::of_find_and_modify(request)?,
    };
    read.explain(scope, operation, verbosity, reply)
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
    let pipeline = Pipeline::parse_with(request.pipeline, context, request.sources)?;
    let Some(namespace) = input(request.over, &pipeline)? else {
        let mut stages = reply.array("stages");
        pipeline.explain(0, &mut stages);
        stages.finish();
        return Ok(());
    };
    let leading = pipeline.leading();
    let read = Read::of(head(namespace, request, context, &leading), None);
    if leading.stages == pipeline.stages.len() {
        return read.explain(scope, operation, verbosity, reply);
    }
    let mut stages = reply.array("stages");
    let mut first = stages.document();
    let mut cursor = first.document("$cursor");
    read.explain(scope, operation, verbosity, &mut cursor)?;
    cursor.finish();
    first.finish();
    pipeline.explain(leading.stages, &mut stages);
    stages.finish();
    Ok(())
}

impl<'a> Read<'a> {
    fn of(find: FindRequest<'a>, above: Option<&'static str>) -> Read<'a> {
        Read {
            find,
            above,
            counts_all: false,
            update: None,
        }
    }

    fn of_count(request: CountRequest<'a>) -> Read<'a> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        (find.skip, find.limit) = (request.skip, request.limit);
        Read {
            counts_all: request.filter.is_empty() && request.hint.is_none(),
            ..Read::of(find, Some("COUNT"))
        }
    }

    fn of_update(request: UpdateRequest<'a>) -> Result<Read<'a>> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        find.context = request.context;
        find.limit = (!request.is_multi).then_some(1);
        Ok(Read {
            update: Some(Update::parse_with(request.update, request.array_filters)?),
            ..Read::of(find, Some("UPDATE"))
        })
    }

    fn of_delete(request: DeleteRequest<'a>) -> Read<'a> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        find.context = request.context;
        find.limit = (!request.is_multi).then_some(1);
        Read::of(find, Some("DELETE"))
    }

    fn of_find_and_modify(request: FindAndModifyRequest<'a>) -> Result<Read<'a>> {
        let mut find = FindRequest::new(request.namespace);
        (find.filter, find.hint) = (request.filter, request.hint);
        (find.sort, find.limit) = (request.sort, Some(1));
        find.context = request.context;
        let update = request
            .update
            .map(|update| Update::parse_with(update, request.array_filters))
            .transpose()?;
        let above = if update.is_some() { "UPDATE" } else { "DELETE" };
        Ok(Read {
            update,
            ..Read::of(find, Some(above))
        })
    }

    fn explain(
        &self,
        scope: Scope<'_>,
        operation: &Operation,
        verbosity: Verbosity,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let find = &self.find;
        let own = ExpressionContext::default();
        let context = find.context.unwrap_or(&own);
        let parsed = Parsed::parse(find.filter, find.sort, find.projection, context)?;
        let snapshot = scope.snapshot(find.namespace, operation)?;
        let plan = match &snapshot {
            Some(snapshot) if !self.counts_all => Some(parsed.plan_to_show(snapshot, find.hint)?),
            _ => None,
        };
        reply.append("explainVersion", "1");
        let mut planner = reply.document("queryPlanner");
        planner.append("namespace", find.namespace.as_str());
        planner.append("parsedQuery", find.filter);
        let mut winning = planner.document("winningPlan");
        self.describe(plan.as_ref(), snapshot.is_some(), None, &mut winning);
        winning.finish();
        planner.array("rejectedPlans").finish();
        planner.finish();
        if verbosity == Verbosity::QueryPlanner {
            return Ok(());
        }
        let ran = match (snapshot, &plan) {
            (Some(snapshot), Some(plan)) => {
                self.measure(snapshot, plan.clone(), parsed, operation)?
            }
            _ => Ran::default(),
        };
        let measured = ran.measured;
        let mut statistics = reply.document("executionStats");
        statistics.append("executionSuccess", true);
        statistics.append("nReturned", number(measured.returned));
        statistics.append("executionTimeMillis", number(measured.millis));
        statistics.append("executionTimeMicros", number(ran.micros));
        statistics.append("totalKeysExamined", number(measured.keys_examined));
        statistics.append("totalDocsExamined", number(measured.docs_examined));
        let mut stages = statistics.document("executionStages");
        self.describe(plan.as_ref(), plan.is_some(), Some(&ran), &mut stages);
        stages.finish();
        let mut phases = statistics.document("phases");
        for (phase, ns) in &ran.phases {
            phases.append(phase.name(), *ns as f64 / 1e3);
        }
        phases.finish();
        statistics.finish();
        Ok(())
    }

    /// Reads what the command would read, and makes the documents that it would write.
    fn measure(
        &self,
        snapshot: CollectionSnapshot,
        plan: Plan,
        parsed: Parsed,
        operation: &Operation,
    ) -> Result<Ran> {
        let examined = || {
            (
                operation.keys_examined.load(Relaxed),
                operation.docs_examined.load(Relaxed),
            )
        };
        let (keys, docs) = examined();
        let own = ExpressionContext::default();
        let context = self.find.context.unwrap_or(&own);
        let matcher = match &self.update {
            Some(update) if update.uses_matched_element() => {
                Some(Matcher::parse_in(self.find.filter, context)?)
            }
            _ => None,
        };
        let before = quarry_timing::breakdown();
        let started = Instant::now();
        let reading = Reading::new(Scan::new(plan), parsed, self.find.skip, self.find.limit);
        let mut executor = Executor::reading(snapshot, reading, false);
        let (mut document, mut changed) = (Vec::new(), Vec::new());
        let (mut returned, mut would_modify) = (0, 0);
        while executor.next(operation, &mut document)? {
            if let Some(update) = &self.update {
                let _splice = phase(Phase::Splice);
                let document = RawDocument::new(&document)?;
                let details = matcher
                    .as_ref()
                    .and_then(|matcher| matcher.matches_with_position(document))
                    .unwrap_or_default();
                changed.clear();
                let outcome =
                    update.apply(document, &details, false, DateTime::now().0, &mut changed)?;
                would_modify += u64::from(outcome.modified);
            }
            document.clear();
            returned += 1;
        }
        let elapsed = started.elapsed();
        let after = quarry_timing::breakdown();
        let (keys_after, docs_after) = examined();
        let spent = |(phase, ns): (Phase, u64)| (phase, ns.saturating_sub(before.phase_ns(phase)));
        Ok(Ran {
            measured: Measured {
                returned,
                keys_examined: keys_after - keys,
                docs_examined: docs_after - docs,
                millis: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            },
            would_modify,
            micros: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            phases: (after.entered().map(spent))
                .filter(|(_, ns)| *ns > 0)
                .collect(),
        })
    }

    /// The stages from the outermost in.
    fn describe(
        &self,
        plan: Option<&Plan>,
        exists: bool,
        ran: Option<&Ran>,
        out: &mut DocumentBuilder<'_>,
    ) {
        if self.counts_all && exists {
            out.append("stage", "RECORD_STORE_FAST_COUNT");
            return;
        }
        let Some(plan) = plan else {
            out.append("stage", "EOF");
            return;
        };
        let find = &self.find;
        let mut stages: Vec<Stage<'_>> = self.above.map(Stage::Named).into_iter().collect();
        stages.extend(plan.is_of_branches().then_some(Stage::Named("SUBPLAN")));
        if self.above.is_none() {
            let projection = find.projection.map(Stage::Projection);
            stages.extend(projection);
            stages.extend(find.limit.map(Stage::Limit));
            stages.extend((find.skip > 0).then_some(Stage::Skip(find.skip)));
        }
        if let Some(sort) = find.sort.filter(|_| !plan.is_sorted) {
            let wanted = find.limit.map(|limit| limit.saturating_add(find.skip));
            stages.push(Stage::Sort(sort, wanted));
        }
        nest(&stages, plan, find.filter, ran, out);
    }
}

enum Stage<'a> {
    Named(&'static str),
    Projection(RawDocument<'a>),
    Limit(u64),
    Skip(u64),
    Sort(RawDocument<'a>, Option<u64>),
}

/// Six stages deep at most.
fn nest(
    stages: &[Stage<'_>],
    plan: &Plan,
    filter: RawDocument<'_>,
    ran: Option<&Ran>,
    out: &mut DocumentBuilder<'_>,
) {
    let measured = ran.map(|ran| ran.measured);
    let Some((stage, inner)) = stages.split_first() else {
        plan.describe(filter, measured, out);
        return;
    };
    match stage {
        Stage::Named(name) => {
            out.append("stage", *name);
            match (*name, ran) {
                ("UPDATE", Some(ran)) => {
                    out.append("nMatched", number(ran.measured.returned));
                    out.append("nWouldModify", number(ran.would_modify));
                }
                ("DELETE", Some(ran)) => {
                    out.append("nWouldDelete", number(ran.measured.returned));
                }
                _ => {}
            }
        }
        Stage::Projection(projection) => {
            out.append("stage", "PROJECTION_DEFAULT");
            out.append("transformBy", *projection);
        }
        Stage::Limit(limit) => {
            out.append("stage", "LIMIT");
            out.append("limitAmount", number(*limit));
        }
        Stage::Skip(skip) => {
            out.append("stage", "SKIP");
            out.append("skipAmount", number(*skip));
        }
        Stage::Sort(pattern, wanted) => {
            out.append("stage", "SORT");
            out.append("sortPattern", *pattern);
            out.append("memLimit", MEMORY_BYTES_MAX as i64);
            if let Some(wanted) = wanted {
                out.append("limitAmount", number(*wanted));
            }
        }
    }
    if let Some(measured) = measured {
        out.append("nReturned", number(measured.returned));
    }
    let mut input = out.document("inputStage");
    nest(inner, plan, filter, ran, &mut input);
    input.finish();
}
