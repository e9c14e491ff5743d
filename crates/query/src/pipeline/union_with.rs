//! `$unionWith`: the documents that come in, and behind them those of another collection, through a pipeline if one is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use super::execution::{Collections, RunningStage, Upstream};
use super::held_prefix::HeldResults;
use super::stage::{InFront, Named, Reads, Specification, Stage, Stages, one};
use super::sub_pipeline::{OpenPipeline, SubPipeline, stages_of};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{ExpressionContext, LetVariables, type_name};

/// A pipeline that is deeper is given no filter, which is a stage more there.
const FILTERED_DEPTH_MAX: usize = 100;

#[derive(Debug)]
struct UnionWith {
    specification: Value,
    pipeline: SubPipeline,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let (collection, stages) = match specification.value {
        RawValue::String(collection) => (Some(collection.as_str()?), None),
        RawValue::Document(options) => read(options)?,
        other => {
            let text = format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                type_name(other)
            );
            return Err(Error::failed_to_parse(text));
        }
    };
    let none = RawArray::from_document(RawDocument::EMPTY);
    let variables = LetVariables::parse(RawDocument::EMPTY, specification.context)?;
    Ok(one(UnionWith {
        specification: specification.value.to_value(),
        pipeline: SubPipeline::parse(collection, stages.unwrap_or(none), variables, specification)?,
    }))
}

/// The collection and the pipeline of an object.
fn read<'s>(options: RawDocument<'s>) -> Result<(Option<&'s str>, Option<RawArray<'s>>)> {
    let (mut collection, mut stages) = (None, None);
    for option in options {
        match (option.name().as_bytes(), option.value()) {
            (b"coll", RawValue::String(name)) => collection = Some(name.as_str()?),
            (b"coll", other) => {
                let text = format!(
                    "BSON field '$unionWith.coll' is the wrong type '{}', expected type 'string'",
                    type_name(other)
                );
                return Err(Error::type_mismatch(text));
            }
            (b"pipeline", value) => stages = Some(stages_of(value)?),
            _ => {
                let text = format!(
                    "BSON field '$unionWith.{}' is an unknown field.",
                    option.name()
                );
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text));
            }
        }
    }
    Ok((collection, stages))
}

/// A string names the collection; of several options of one name the last one is read.
pub(super) fn name_collections<'v>(value: RawValue<'v>, named: &mut Named<'v>) {
    named.collections.extend(value.as_str());
    for option in value.as_document().into_iter().flat_map(|it| it.iter()) {
        match (option.name().as_bytes(), option.value()) {
            (b"coll", collection) => named.collections.extend(collection.as_str()),
            (b"pipeline", stages) => named.pipelines.extend(stages.as_array()),
            _ => {}
        }
    }
}

impl Stage for UnionWith {
    fn name(&self) -> &'static str {
        "$unionWith"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), &self.specification);
    }

    fn in_front(&self, _: RawDocument<'_>, _: &ExpressionContext) -> Result<InFront> {
        // The pipeline is read again with the filter, and so would be those within, twice at each level.
        let takes_filters =
            self.pipeline.depth() < FILTERED_DEPTH_MAX && !self.pipeline.has_pipelines_within();
        Ok(match takes_filters {
            true => InFront::Both,
            false => InFront::Nothing,
        })
    }

    fn with_filter_within(
        &self,
        filter: RawDocument<'_>,
        context: &ExpressionContext,
    ) -> Result<Option<Arc<dyn Stage>>> {
        let pipeline = self.pipeline.with_filter_last(filter, context)?;
        let specification = Document::build(|out| {
            if let Some(collection) = pipeline.collection() {
                out.append("coll", collection);
            }
            out.append("pipeline", pipeline.stages());
        });
        Ok(Some(Arc::new(UnionWith {
            specification: RawValue::Document(specification.as_raw()).to_value(),
            pipeline,
        })))
    }

    fn depth_within(&self) -> usize {
        self.pipeline.depth()
    }

    fn add_collections<'s>(&'s self, collections: &mut Vec<&'s str>) {
        self.pipeline.add_collections(collections);
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Passes
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Uniting {
            stage: self,
            place: Place::Input,
        })
    }
}

struct Uniting {
    stage: Arc<UnionWith>,
    place: Place,
}

/// How far a union is.
enum Place {
    Input,
    /// In the other collection. The read stays open between two pulls.
    Other(OpenPipeline),
    End,
}

impl RunningStage for Uniting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if let Place::Input = self.place {
            if upstream.next(out)? {
                return Ok(true);
            }
            let pipeline = &self.stage.pipeline;
            let opened = pipeline.open(
                RawDocument::EMPTY,
                None,
                &mut HeldResults::default(),
                upstream,
            )?;
            self.place = Place::Other(opened);
        }
        let Place::Other(opened) = &mut self.place else {
            return Ok(false);
        };
        if opened.next(upstream, out)? {
            return Ok(true);
        }
        self.close(upstream.collections());
        Ok(false)
    }

    fn close(&mut self, collections: &mut dyn Collections) {
        if let Place::Other(opened) = std::mem::replace(&mut self.place, Place::End) {
            opened.close(collections);
        }
    }
}
