//! `$facet`: several pipelines over the same documents, each of them giving an array in the one document that comes out.
//!
//! The documents are held while the pipelines run over them one after the other: of each no more than the fields that any of
//! the pipelines reads. What is held is bounded like that of any other stage.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use quarry_bson::{ArrayBuilder, Document, DocumentBuilder, RawArray, RawDocument, RawValue};

use super::execution::{Buffer, RunInput, RunningStage, Show, Source, Upstream};
use super::parsed::Pipeline;
use super::stage::{FieldOrder, Named, Reads, Specification, Stage, Stages, Within, one};
use crate::error::{Error, Result};
use crate::expression::bounds::{self, VALUE_BYTES_MAX};
use crate::expression::type_name;
use crate::field_path::check_name;
use crate::fields_kept::FieldsKept;
use crate::interrupts::{self, units_of_search};
use crate::memory::Charge;
use crate::stage_memory::BoundedMemory;

#[derive(Debug)]
struct Facet {
    specification: Document,
    pipelines: Vec<(Box<str>, Pipeline)>,
    /// The fields that the pipelines read; None for all.
    fields: Option<FieldsKept>,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let value = specification.value;
    let facets = value.as_document().filter(|facets| !facets.is_empty());
    let facets = facets.ok_or_else(|| {
        let text = format!(
            "the $facet specification must be a non-empty object, but found: $facet: {value}"
        );
        Error::location(40169, text)
    })?;
    let context = specification.context.for_sub_pipeline()?;
    let (mut pipelines, mut names) = (Vec::new(), HashSet::new());
    for facet in facets {
        let name = facet.name().as_str()?;
        check_name(name)?;
        if !names.insert(name) {
            let text = format!("$facet names the facet '{name}' twice");
            return Err(Error::failed_to_parse(text));
        }
        let stages = stages_of(name, facet.value())?;
        let pipeline = (specification.parse_within)(stages, &context, Within::Facet)?;
        pipelines.push((name.into(), pipeline));
    }
    Ok(one(Facet {
        specification: facets.to_owned_document(),
        fields: fields_read(&pipelines),
        pipelines,
    }))
}

/// The stages of one facet.
fn stages_of<'v>(name: &str, value: RawValue<'v>) -> Result<RawArray<'v>> {
    let RawValue::Array(stages) = value else {
        let text = format!(
            "arguments to $facet must be arrays, {name} is type {}",
            type_name(value)
        );
        return Err(Error::location(40170, text));
    };
    for stage in stages {
        if stage.as_document().is_none_or(|stage| stage.is_empty()) {
            let text = format!(
                "elements of arrays in $facet spec must be non-empty objects, {name} argument contained an element of type \
                 {}: {stage}",
                type_name(stage)
            );
            return Err(Error::location(40171, text));
        }
    }
    Ok(stages)
}

fn fields_read(pipelines: &[(Box<str>, Pipeline)]) -> Option<FieldsKept> {
    let mut fields = BTreeSet::new();
    for (_, pipeline) in pipelines {
        fields.extend(pipeline.required_fields(0)?);
    }
    Some(FieldsKept::new(fields))
}

/// Each facet is a pipeline.
pub(super) fn name_collections<'v>(value: RawValue<'v>, named: &mut Named<'v>) {
    let facets = value.as_document().into_iter().flat_map(|it| it.iter());
    let pipelines = facets.filter_map(|facet| facet.value().as_array());
    named.pipelines.extend(pipelines);
}

impl Stage for Facet {
    fn name(&self) -> &'static str {
        "$facet"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.specification.as_raw());
    }

    fn depth_within(&self) -> usize {
        let depths = self.pipelines.iter().map(|(_, pipeline)| pipeline.depth());
        depths.max().unwrap_or(0)
    }

    fn add_collections<'s>(&'s self, collections: &mut Vec<&'s str>) {
        for (_, pipeline) in &self.pipelines {
            collections.extend(pipeline.collections());
        }
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        match &self.fields {
            None => Reads::Everything,
            Some(read) => {
                fields.extend(read.names().map(str::to_owned));
                Reads::Only
            }
        }
    }

    fn order_of_fields(&self) -> FieldOrder {
        FieldOrder::Shown
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Faceting {
            stage: self,
            is_done: false,
        })
    }
}

struct Faceting {
    stage: Arc<Facet>,
    is_done: bool,
}

impl RunningStage for Faceting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(false);
        }
        let held = Held::fill(self.stage.fields.as_ref(), upstream)?;
        // The document that comes out is counted while it is written.
        let mut charge = Charge::default();
        let mut document = DocumentBuilder::new(out);
        for (name, pipeline) in &self.stage.pipelines {
            let mut input = held.documents();
            let (mut execution, mut one) = (pipeline.start(), Buffer::default());
            let written = document.len_bytes();
            let mut results: ArrayBuilder<'_> = document.array(&**name);
            while let Some(result) = one.read(|bytes| {
                execution.next(&mut upstream.lend(RunInput::Source(&mut input)), bytes)
            })? {
                check_bytes(written + results.len_bytes() + result.len_bytes())?;
                bounds::check_depth(RawValue::Document(result), 2)?;
                results.push(result);
                charge.cover(written + results.len_bytes())?;
            }
            results.finish();
            execution.close(upstream.collections());
        }
        document.finish();
        Ok(true)
    }
}

fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "document constructed by $facet is {bytes} bytes, which exceeds the limit of {VALUE_BYTES_MAX} bytes"
    );
    Err(Error::location(4_031_700, text))
}

/// The input of the pipelines, one document behind the other.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    memory: BoundedMemory,
}

impl Held {
    /// Reads all documents, and keeps of them the fields that are read.
    fn fill(fields: Option<&FieldsKept>, upstream: &mut Upstream<'_, '_>) -> Result<Held> {
        let mut held = Held::default();
        let Held { bytes, memory } = &mut held;
        upstream.each(&mut |document| {
            let before = bytes.len();
            match fields {
                None => bytes.extend_from_slice(document.as_bytes()),
                Some(fields) => {
                    interrupts::work(units_of_search(document))?;
                    fields.keep(document, bytes);
                }
            }
            memory.grow(bytes.len() - before, "$facet")
        })?;
        Ok(held)
    }

    fn documents(&self) -> Documents<'_> {
        Documents { left: &self.bytes }
    }
}

/// The rest of the documents that are held.
struct Documents<'h> {
    left: &'h [u8],
}

impl Source for Documents<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some((document, left)) = RawDocument::split_first(self.left) else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        self.left = left;
        Ok(true)
    }

    fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        while let Some((document, left)) = RawDocument::split_first(self.left) {
            self.left = left;
            show(document)?;
        }
        Ok(())
    }
}
