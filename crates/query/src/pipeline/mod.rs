//! Aggregation pipelines: stages parsed once, run by pulling documents through them.
//!
//! Keeps true: a document passes as bytes and is built anew only by stages that change it; a stage that has passed it on
//! keeps nothing of it. Stages that must see all their input ($sort, $group, $sample) hold at most
//! `MEMORY_BYTES_MAX` and go on in files (`spilling`), and all stages with what their expressions make at most `memory::OPERATION_BYTES_MAX`. A running
//! pipeline owns what it needs, so that it can outlive a request; what a request lends it (the input, other
//! collections) comes with every pull. A stage that runs pipelines of its own holds them as `SubPipeline`, and reads other
//! collections through one seam, `Collections`. Leaves out: reading and
//! writing collections (`exec` does, for `$out` and `$merge` as well), and files, which whoever owns the data directory lends.

mod accumulation;
mod accumulators;
mod add_fields;
mod bucket;
mod bucket_auto;
mod chance;
mod count;
mod densify;
mod documents;
mod equality;
mod execution;
mod facet;
mod fields_read;
mod fill;
mod fuse;
mod gathered;
mod geo_near;
mod graph_lookup;
mod group;
mod group_overflow;
mod group_rows;
mod held_prefix;
mod leading;
mod limit;
mod limits_forward;
mod lookup;
mod match_stage;
mod merge;
pub(crate) mod nested_field;
mod out;
mod parsed;
mod plain_values;
mod preferred_numbers;
mod project;
mod read_figures;
mod redact;
mod redact_safe;
mod renamed;
mod reorder;
mod replace_root;
mod sample;
mod shared_input;
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
mod unwound_lookup;
mod watched;
mod window;
mod written;

use quarry_bson::{RawArray, RawValue};

pub use documents::Documents;
pub(crate) use execution::show_all;
pub use execution::{
    Collections, Execution, Fork, NoCollections, ReadId, Run, RunningStage, Show, Source, SubFind,
    Upstream,
};
pub use group_rows::{GroupRows, ROWS_BYTES_MAX};
pub use leading::Leading;
pub use parsed::Pipeline;
pub use read_figures::ReadFigures;
pub use shared_input::{Gather, GatherFor, Part, SharedInput};
pub(crate) use skip::specification as specification_of_skip;
pub use stage::{AddedSource, Input, PartOfFind, Position, Reads, Specification, Stage};
pub(crate) use stages::metadata_not_here;
pub use stages::{check_stage_name, collections_named, collections_written};
pub(crate) use watched::StageFigures;
pub use written::{
    CollectionWritten, Merge, MergePipeline, Out, ResultWritten, SpecialCodes, WhenMatched,
    WhenNotMatched, WriteTarget,
};

use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use fuse::fuse;
use limits_forward::limits_forward;
use reorder::filters_forward;
use stage::{Surroundings, Within};

/// Stages in one pipeline, and in pipelines within each other together.
pub const STAGES_MAX: usize = 1000;

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
        read(stages, context, Within::Command, added)
    }

    /// Parses an update, whose stages each make one document of one.
    pub fn parse_of_update(stages: RawArray<'_>, context: &ExpressionContext) -> Result<Pipeline> {
        read(stages, context, Within::Update, &[])
    }
}

/// Parses the pipeline of a stage.
fn parse_within(
    stages: RawArray<'_>,
    context: &ExpressionContext,
    within: Within,
) -> Result<Pipeline> {
    read(stages, context, within, &[])
}

fn read(
    stages: RawArray<'_>,
    context: &ExpressionContext,
    within: Within,
    added: &[AddedSource<'_>],
) -> Result<Pipeline> {
    let surroundings = Surroundings {
        context,
        within,
        added,
        parse_within,
    };
    let mut parsed = Vec::new();
    for stage in stages {
        let RawValue::Document(stage) = stage else {
            return Err(Error::type_mismatch(
                "Each element of the 'pipeline' array must be an object",
            ));
        };
        stages::parse(stage, surroundings, &mut parsed)?;
        if parsed.len() > STAGES_MAX {
            return Err(too_long());
        }
    }
    let parsed = Pipeline { stages: parsed };
    if parsed.depth() > STAGES_MAX {
        return Err(too_long());
    }
    let stages = limits_forward(filters_forward(parsed.stages, context)?)?;
    Ok(Pipeline {
        stages: fuse(stages, context)?,
    })
}

#[cold]
fn too_long() -> Error {
    let text = format!("Pipeline length must be no longer than {STAGES_MAX} stages.");
    Error::location(7_749_501, text)
}
