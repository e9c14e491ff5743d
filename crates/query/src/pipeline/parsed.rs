//! A pipeline as it was parsed: its stages, and what they are together.

use std::sync::Arc;

use quarry_bson::{ArrayBuilder, RawDocument};

use super::execution::{Buffer, Execution, hand_on};
use super::limit::results_wanted;
use super::stage::{Input, PartOfFind, Stage};
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
        let mut left = self.stages.get(first..).unwrap_or_default().iter();
        // The bound of the sort that was shown last, until the `$limit` is met that it is from.
        let mut bound_by_sort = None;
        while let Some(stage) = left.next() {
            match stage.part_of_find() {
                PartOfFind::Sort(..) => {
                    bound_by_sort = results_wanted(left.as_slice());
                    match bound_by_sort {
                        Some(wanted) => stage.explain_limited(wanted, &mut out.document()),
                        None => stage.explain(&mut out.document()),
                    }
                }
                PartOfFind::Limit(_) if bound_by_sort.take().is_some() => {}
                _ => stage.explain(&mut out.document()),
            }
        }
    }
}
