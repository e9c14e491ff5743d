//! Aggregation pipelines: stages parsed once, run by pulling documents through them.
//!
//! Keeps true: a document passes as bytes and is built anew only by stages that change it; a stage that has passed it on
//! keeps nothing of it. Stages that must see all their input ($sort, $group, $sample) hold at most
//! `MEMORY_BYTES_MAX`, and all stages with what their expressions make at most `memory::OPERATION_BYTES_MAX`. A running
//! pipeline owns what it needs, so that it can outlive a request; what a request lends it (the input, other
//! collections) comes with every pull. A stage that runs pipelines of its own holds them as `SubPipeline`, and reads other
//! collections through one seam, `Collections`. Leaves out: reading collections, spilling to
//! disk (an error says so), `$out`, `$merge`.

mod accumulators;
mod add_fields;
mod count;
mod documents;
mod equality;
mod execution;
mod facet;
mod graph_lookup;
mod group;
mod leading;
mod limit;
mod lookup;
mod match_stage;
mod nested_field;
mod project;
mod replace_root;
mod sample;
mod skip;
mod sort_by_count;
mod sort_stage;
mod stage;
mod stages;
mod sub_pipeline;
mod transform;
mod union_with;
mod unset;
mod unwind;
mod value_set;

use std::sync::Arc;

use quarry_bson::{ArrayBuilder, RawArray, RawValue};

pub use documents::Documents;
pub use execution::{
    Collections, Execution, NoCollections, ReadId, Run, Running, Source, SubFind, Upstream,
};
pub use leading::Leading;
pub use stage::{AddedSource, Input, PartOfFind, Position, Reads, Specification, Stage};
pub use stages::collections_named;

use crate::error::{Error, Result};
use crate::expression::ExpressionContext;

/// Stages in one pipeline.
pub const STAGES_MAX: usize = 1000;

/// A pipeline as it was parsed. Runs share its stages.
#[derive(Debug)]
pub struct Pipeline {
    /// The stages in order.
    pub stages: Vec<Arc<dyn Stage>>,
}

impl Pipeline {
    /// Parses the array of stages.
    pub fn parse(stages: RawArray<'_>, context: &ExpressionContext) -> Result<Pipeline> {
        Pipeline::parse_with(stages, context, &[])
    }

    /// Like `parse`, with first stages that the table of stages does not have.
    pub fn parse_with(
        stages: RawArray<'_>,
        context: &ExpressionContext,
        added: &[AddedSource<'_>],
    ) -> Result<Pipeline> {
        let mut parsed = Vec::new();
        for stage in stages {
            let RawValue::Document(stage) = stage else {
                return Err(Error::type_mismatch(
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            stages::parse(stage, context, added, &mut parsed)?;
            if parsed.len() > STAGES_MAX {
                let text = format!("Pipeline length must be no longer than {STAGES_MAX} stages.");
                return Err(Error::location(7_749_501, text));
            }
        }
        Ok(Pipeline { stages: parsed })
    }

    /// Where the documents come from.
    pub fn input(&self) -> Input {
        let first = self.stages.first();
        first.map_or(Input::Documents, |first| first.input())
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

    /// The collections of the same database that stages read beside the input, some of them several times.
    pub fn collections(&self) -> Vec<&str> {
        let mut collections = Vec::new();
        for stage in &self.stages {
            stage.add_collections(&mut collections);
        }
        collections
    }

    /// Appends the stages from `first` on, as explain prints them.
    pub fn explain(&self, first: usize, out: &mut ArrayBuilder<'_>) {
        for stage in self.stages.get(first..).unwrap_or_default() {
            stage.explain(&mut out.document());
        }
    }
}
