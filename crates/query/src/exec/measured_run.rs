//! The runs of explain: a plan by itself, or below the stages of a pipeline, with what it examined and where its time went. The
//! stages of a pipeline are not in these figures; they have their own.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use quarry_bson::DocumentBuilder;
use quarry_database::{CollectionSnapshot, Operation, Scope};
use quarry_timing::{Breakdown, Phase};

use super::collections::OtherCollections;
use super::reading::Reading;
use crate::Collation;
use crate::error::Result;
use crate::pipeline::{Pipeline, Run, Source, StageFigures};
use crate::plan::{Flow, Node, Parsed, PlanContext, number, run};

/// The outcome of a run.
#[derive(Default)]
pub(super) struct Ran {
    returned: u64,
    keys_examined: u64,
    docs_examined: u64,
    elapsed: Duration,
    /// The plan gave all rows that it has.
    pub is_at_end: bool,
    /// By phase, unless timing is off.
    phases: Vec<(Phase, u64)>,
}

impl Ran {
    /// Appends how much was returned and examined, and how long that took.
    pub fn append_counts(&self, out: &mut DocumentBuilder<'_>) {
        let whole = |count: u128| number(u64::try_from(count).unwrap_or(u64::MAX));
        out.append("nReturned", number(self.returned));
        out.append("executionTimeMillis", whole(self.elapsed.as_millis()));
        out.append("executionTimeMicros", whole(self.elapsed.as_micros()));
        out.append("totalKeysExamined", number(self.keys_examined));
        out.append("totalDocsExamined", number(self.docs_examined));
    }

    /// Appends `phases`, in microseconds.
    pub fn append_phases(&self, out: &mut DocumentBuilder<'_>) {
        let mut phases = out.document("phases");
        for (phase, ns) in &self.phases {
            phases.append(phase.name(), *ns as f64 / 1e3);
        }
        phases.finish();
    }

    fn add(&mut self, phase: Phase, ns: u64) {
        match self.phases.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, sum)) => *sum += ns,
            None if ns > 0 => self.phases.push((phase, ns)),
            None => {}
        }
    }
}

/// The figures of the operation before a part of a run.
struct Before<'o> {
    operation: &'o Operation,
    keys_examined: u64,
    docs_examined: u64,
    breakdown: Breakdown,
    started: Instant,
}

impl<'o> Before<'o> {
    fn of(operation: &'o Operation) -> Before<'o> {
        Before {
            operation,
            keys_examined: operation.keys_examined.load(Relaxed),
            docs_examined: operation.docs_examined.load(Relaxed),
            breakdown: quarry_timing::breakdown(),
            started: Instant::now(),
        }
    }

    /// Adds what has come since.
    fn add_to(self, ran: &mut Ran) {
        ran.elapsed += self.started.elapsed();
        for (phase, ns) in quarry_timing::breakdown().entered() {
            ran.add(phase, ns.saturating_sub(self.breakdown.phase_ns(phase)));
        }
        ran.keys_examined += self.operation.keys_examined.load(Relaxed) - self.keys_examined;
        ran.docs_examined += self.operation.docs_examined.load(Relaxed) - self.docs_examined;
    }
}

/// Reads what a command would read, and makes the documents that it would write.
pub(super) fn run_plan(
    root: &mut Node,
    snapshot: &CollectionSnapshot,
    parsed: &Parsed,
    operation: &Operation,
) -> Result<Ran> {
    let before = Before::of(operation);
    let context = PlanContext {
        snapshot,
        operation,
        parsed,
        is_replay: false,
    };
    let mut ran = Ran::default();
    let more = run(&mut **root, &context, &mut |_| {
        ran.returned += 1;
        Ok(Flow::Continue)
    })?;
    ran.is_at_end = !more;
    before.add_to(&mut ran);
    Ok(ran)
}

/// The stages of a pipeline that its read does not do.
pub(super) struct Behind<'p> {
    pub pipeline: &'p Pipeline,
    /// The position of the first of them.
    pub first: usize,
    pub own_database: &'p str,
    pub collation: &'p Collation,
}

/// Runs a plan with the stages above it, which take as much of it as they need. Returns the plan, and the figures of both.
pub(super) fn run_pipeline(
    behind: &Behind<'_>,
    (root, parsed): (Node, Parsed),
    snapshot: Option<&CollectionSnapshot>,
    scope: Scope<'_>,
    operation: &Operation,
) -> Result<(Node, Ran, Vec<Arc<StageFigures>>)> {
    let names = behind.pipeline.collections();
    let mut others = OtherCollections::open(scope, operation, behind.own_database, names)?;
    others.refuse_other_collations(behind.collation)?;
    let (mut execution, figures) = behind.pipeline.start_watched_at(behind.first);
    let mut reading = Reading::new(root, Some(Arc::new(parsed)));
    reading.begin_small();
    let mut input = MeasuredInput {
        reading,
        snapshot,
        operation,
        ran: Ran::default(),
    };
    let mut document = Vec::new();
    loop {
        let mut lent = others.lend(operation);
        let mut run = Run::new(&mut input, &mut lent);
        if !execution.next(&mut run, &mut document)? {
            break;
        }
        document.clear();
    }
    let MeasuredInput {
        reading, mut ran, ..
    } = input;
    ran.is_at_end = reading.is_finished();
    let root = reading.into_root();
    ran.returned = root.returned();
    Ok((root, ran, figures))
}

/// The documents of a plan, each read of which is measured: what the stages read of other collections is not in it.
struct MeasuredInput<'r> {
    reading: Reading,
    /// None where there is no collection.
    snapshot: Option<&'r CollectionSnapshot>,
    operation: &'r Operation,
    ran: Ran,
}

impl Source for MeasuredInput<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        if self.snapshot.is_none() {
            return Ok(false);
        }
        if self.reading.take_ahead(out) {
            return Ok(true);
        }
        let before = Before::of(self.operation);
        let found = self.reading.next(self.snapshot, self.operation, out)?;
        before.add_to(&mut self.ran);
        Ok(found)
    }
}
