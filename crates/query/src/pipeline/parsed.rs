//! A pipeline as it was parsed: its stages, and what they are together.

use std::sync::Arc;

use quarry_bson::{ArrayBuilder, RawDocument};

use super::execution::{Buffer, Execution, hand_on};
use super::limit::results_wanted;
use super::stage::{Input, PartOfFind, Stage};
use super::watched::{StageFigures, Watched};
use super::written::ResultWritten;
use crate::error::Result;

/// A pipeline as it was parsed. Runs share its stages.
#[derive(Debug)]
pub struct Pipeline {
    /// The stages in order.
    pub stages: Vec<Arc<dyn Stage>>,
}

impl Pipeline {
    /// How many stages pull from each other at most when it runs, those of the pipelines within it among them: each takes a
    /// part of the stack.
    pub fn depth(&self) -> usize {
        let within = self.stages.iter().map(|stage| stage.depth_within());
        self.stages.len() + within.max().unwrap_or(0)
    }

    /// Whether one of its stages runs a pipeline of its own.
    pub fn has_pipelines_within(&self) -> bool {
        self.stages.iter().any(|stage| stage.depth_within() > 0)
    }

    /// Where the documents come from.
    pub fn input(&self) -> Input {
        let first = self.stages.first();
        first.map_or(Input::Documents, |first| first.input())
    }

    /// The last stage, where it writes the result.
    pub fn written(&self) -> Option<ResultWritten<'_>> {
        self.stages.last()?.written()
    }

    /// A run of the stages from `first` on; those before were done by whoever makes the input.
    pub fn start_at(&self, first: usize) -> Execution {
        let stages = self.stages.get(first..).unwrap_or_default();
        let running = stages
            .iter()
            .enumerate()
            .map(|(index, stage)| Arc::clone(stage).start(&stages[index + 1..]));
        Execution::new(running.collect())
    }

    /// Like `start_at`, with the stages watched: each has its figures, in their order.
    pub(crate) fn start_watched_at(&self, first: usize) -> (Execution, Vec<Arc<StageFigures>>) {
        let stages = self.stages.get(first..).unwrap_or_default();
        let mut figures = Vec::with_capacity(stages.len());
        let mut running = Vec::with_capacity(stages.len());
        for (index, stage) in stages.iter().enumerate() {
            let started = Arc::clone(stage).start(&stages[index + 1..]);
            let (watched, its) = Watched::over(started);
            running.push(watched);
            figures.push(its);
        }
        (Execution::new(running), figures)
    }

    /// Begins a run.
    pub fn start(&self) -> Execution {
        self.start_at(0)
    }

    /// Appends the document to `out` that the stages make of one: those of an update, each of which makes one of one.
    pub fn map(&self, document: RawDocument<'_>, out: &mut Vec<u8>) -> Result<()> {
        let (mut made, mut next) = (Buffer::default(), Buffer::default());
        for (place, stage) in self.stages.iter().enumerate() {
            let map = stage
                .as_map()
                .expect("the table of stages lets nothing else into an update");
            let input = match place {
                0 => document,
                _ => RawDocument::new(made.bytes())?,
            };
            let append = |out: &mut Vec<u8>| map.map(input, out).map(|()| true);
            if place + 1 == self.stages.len() {
                hand_on(out, append)?;
                return Ok(());
            }
            next.read(|out| hand_on(out, append))?;
            std::mem::swap(&mut made, &mut next);
        }
        out.extend_from_slice(document.as_bytes());
        Ok(())
    }

    /// The collections of the same database that stages read beside the input, some of them several times.
    pub fn collections(&self) -> Vec<&str> {
        let mut collections = Vec::new();
        for stage in &self.stages {
            stage.add_collections(&mut collections);
        }
        collections
    }

    /// Appends the stages from `first` on, as explain prints them: a `$limit` behind a `$sort` is shown as the sort's own, which it is
    /// when they run.
    pub fn explain(&self, first: usize, out: &mut ArrayBuilder<'_>) {
        self.explain_with(first, &[], out);
    }

    /// Like `explain`, with the figures of stages that have run.
    pub(crate) fn explain_with(
        &self,
        first: usize,
        figures: &[Arc<StageFigures>],
        out: &mut ArrayBuilder<'_>,
    ) {
        let stages = self.stages.get(first..).unwrap_or_default();
        // The bound of the sort that was shown last, until the `$limit` is met that it is from.
        let mut bound_by_sort = None;
        for (index, stage) in stages.iter().enumerate() {
            if let PartOfFind::Limit(_) = stage.part_of_find()
                && bound_by_sort.take().is_some()
            {
                continue;
            }
            let mut shown = out.document();
            if let PartOfFind::Sort(..) = stage.part_of_find() {
                bound_by_sort = results_wanted(&stages[index + 1..]);
            }
            match (stage.part_of_find(), bound_by_sort) {
                (PartOfFind::Sort(..), Some(wanted)) => stage.explain_limited(wanted, &mut shown),
                _ => stage.explain(&mut shown),
            }
            if let Some(figures) = figures.get(index) {
                figures.append(&mut shown);
            }
            shown.finish();
        }
    }
}
