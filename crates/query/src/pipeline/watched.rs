//! A running stage that is watched, for explain: how many documents it gives, and how long it and those before it take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use quarry_bson::DocumentBuilder;

use super::execution::{Collections, RunningStage, Show, Upstream};
use super::read_figures::ReadFigures;
use crate::error::Result;

/// The figures of one stage of a run.
#[derive(Debug, Default)]
pub(crate) struct StageFigures {
    returned: AtomicU64,
    /// The time of the stages before it is part of it, as in MongoDB.
    nanos: AtomicU64,
    /// The figures of a stage that counts what it reads of other collections.
    reads: Option<Arc<ReadFigures>>,
}

impl StageFigures {
    /// Appends MongoDB's fields.
    pub(super) fn append(&self, out: &mut DocumentBuilder<'_>) {
        if let Some(reads) = &self.reads {
            reads.append(out);
        }
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        out.append("nReturned", signed(self.returned.load(Relaxed)));
        let millis = self.nanos.load(Relaxed) / 1_000_000;
        out.append("executionTimeMillisEstimate", signed(millis));
    }

    fn add_since(&self, started: Instant, less_nanos: u64) {
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos
            .fetch_add(nanos.saturating_sub(less_nanos), Relaxed);
    }
}

/// A stage with its figures.
pub(super) struct Watched {
    stage: Box<dyn RunningStage>,
    figures: Arc<StageFigures>,
}

impl Watched {
    /// Watches a stage.
    pub(super) fn over(
        mut stage: Box<dyn RunningStage>,
    ) -> (Box<dyn RunningStage>, Arc<StageFigures>) {
        let figures = Arc::new(StageFigures {
            reads: stage.count_reads(),
            ..StageFigures::default()
        });
        let watched = Watched {
            stage,
            figures: Arc::clone(&figures),
        };
        (Box::new(watched), figures)
    }
}

impl RunningStage for Watched {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let started = Instant::now();
        let found = self.stage.next(upstream, out);
        self.figures.add_since(started, 0);
        if matches!(found, Ok(true)) {
            self.figures.returned.fetch_add(1, Relaxed);
        }
        found
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        let started = Instant::now();
        // The stage behind takes each document within the call: its time is not this stage's.
        let mut behind_nanos = 0;
        let figures = &self.figures;
        let result = self.stage.each(upstream, &mut |document| {
            figures.returned.fetch_add(1, Relaxed);
            let shown = Instant::now();
            let taken = show(document);
            behind_nanos += u64::try_from(shown.elapsed().as_nanos()).unwrap_or(u64::MAX);
            taken
        });
        self.figures.add_since(started, behind_nanos);
        result
    }

    fn close(&mut self, collections: &mut dyn Collections) {
        self.stage.close(collections);
    }
}
