//! `$lookup`: what another collection has for a document, as an array in one of its fields.
//!
//! Two conditions can be given, alone or together: a field of the collection that equals a local one, and a pipeline that
//! runs over the collection, with variables of a `let`. A local value that is an array matches by each of its elements; a
//! missing one matches as Null. A pipeline into which nothing of the document goes is run once, and so are its first stages where
//! that pays (`held_prefix`).

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawValue};

use super::equality::{self, any_of, each_at};
use super::execution::{Buffer, RunningStage, Upstream};
use super::held_prefix::HeldResults;
use super::nested_field;
use super::read_figures::ReadFigures;
use super::stage::{Modifies, Named, Reads, Specification, Stage, Stages, one, own_field};
use super::sub_pipeline::{OpenPipeline, SubPipeline, stages_of};
use super::unwound_lookup::UnwoundLookup;
use crate::error::{Error, Result};
use crate::expression::{ExpressionContext, LetVariables, bounds, type_name};
use crate::field_path::FieldPath;
use crate::interrupts::{self, units_of};
use crate::memory::{Charge, Counted};
use crate::stage_memory::MEMORY_BYTES_MAX;

#[derive(Debug)]
pub(super) struct Lookup {
    /// None where the pipeline makes the documents.
    collection: Option<Box<str>>,
    equality: Option<Equality>,
    pipeline: Option<SubPipeline>,
    /// For an equality's filter, in which there are constants only.
    context: ExpressionContext,
    pub(super) output: FieldPath,
    /// Each document is given the same.
    is_constant: bool,
}

/// `localField` and `foreignField`.
#[derive(Debug)]
struct Equality {
    local: FieldPath,
    foreign: Box<str>,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let options = Options::read(specification.value)?;
    Lookup::new(options, specification).map(one)
}

/// Names each `from`: the last of several is read.
pub(super) fn name_collections<'v>(value: RawValue<'v>, named: &mut Named<'v>) {
    for option in value.as_document().into_iter().flat_map(|it| it.iter()) {
        match (option.name().as_bytes(), option.value()) {
            (b"from", from) => named.collections.extend(from.as_str()),
            (b"pipeline", stages) => named.pipelines.extend(stages.as_array()),
            _ => {}
        }
    }
}

/// The options as they are given.
#[derive(Default)]
struct Options<'s> {
    from: Option<&'s str>,
    local: Option<&'s str>,
    foreign: Option<&'s str>,
    output: Option<&'s str>,
    pipeline: Option<RawArray<'s>>,
    variables: Option<RawDocument<'s>>,
}

impl<'s> Options<'s> {
    fn read(value: RawValue<'s>) -> Result<Options<'s>> {
        let RawValue::Document(fields) = value else {
            let text = format!(
                "the $lookup stage specification must be an object, but found {}",
                type_name(value)
            );
            return Err(Error::failed_to_parse(text));
        };
        let mut options = Options::default();
        for field in fields {
            let (name, value) = (field.name().to_string_lossy(), field.value());
            match &*name {
                "from" => options.from = Some(text(&name, value)?),
                "localField" => options.local = Some(text(&name, value)?),
                "foreignField" => options.foreign = Some(text(&name, value)?),
                "as" => options.output = Some(text(&name, value)?),
                "pipeline" => options.pipeline = Some(stages_of(value)?),
                "let" => options.variables = Some(variables(value)?),
                _ => {
                    return Err(Error::failed_to_parse(format!(
                        "unknown argument to $lookup: {name}"
                    )));
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        let makes_documents = || {
            let first = self.pipeline.and_then(|stages| stages.get(0));
            let first = first.and_then(|first| first.as_document()?.first());
            first.is_some_and(|first| first.name() == "$documents")
        };
        let text = if self.from.is_none() && !makes_documents() {
            "missing 'from' option to $lookup stage specification"
        } else if self.output.is_none() {
            "must specify 'as' field for a $lookup"
        } else if self.pipeline.is_some() && self.local.is_some() != self.foreign.is_some() {
            "$lookup requires both or neither of 'localField' and 'foreignField' to be specified"
        } else if self.pipeline.is_none() && (self.local.is_none() || self.foreign.is_none()) {
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
        } else if self.pipeline.is_none() && self.variables.is_some() {
            "$lookup with a 'let' argument must also specify 'pipeline'"
        } else {
            return Ok(());
        };
        Err(Error::failed_to_parse(text))
    }
}

fn text<'v>(name: &str, value: RawValue<'v>) -> Result<&'v str> {
    value.as_str().ok_or_else(|| {
        let text = format!(
            "$lookup argument '{name}' must be a string, found {name}: {value}, type: {}",
            type_name(value)
        );
        Error::failed_to_parse(text)
    })
}

fn variables(value: RawValue<'_>) -> Result<RawDocument<'_>> {
    value.as_document().ok_or_else(|| {
        let text = format!(
            "$lookup argument 'let: {value}' must be an object, is type {}",
            type_name(value)
        );
        Error::failed_to_parse(text)
    })
}

impl Lookup {
    fn new(options: Options<'_>, specification: Specification<'_>) -> Result<Lookup> {
        let context = specification.context;
        let equality = match (options.local, options.foreign) {
            (Some(local), Some(foreign)) => Some(Equality::parse(local, foreign)?),
            _ => None,
        };
        let variables = options.variables.unwrap_or(RawDocument::EMPTY);
        let variables = LetVariables::parse(variables, context)?;
        let pipeline = options
            .pipeline
            .map(|stages| SubPipeline::parse(options.from, stages, variables, specification));
        let pipeline = pipeline.transpose()?;
        Ok(Lookup {
            collection: options.from.map(Box::from),
            is_constant: equality.is_none()
                && pipeline.as_ref().is_some_and(SubPipeline::is_constant),
            equality,
            pipeline,
            context: context.for_sub_pipeline()?,
            output: FieldPath::parse_strictly(options.output.unwrap_or_default())?,
        })
    }

    /// The array of what the collection has for the document.
    fn find(
        &self,
        document: RawDocument<'_>,
        held: &mut HeldResults,
        upstream: &mut Upstream<'_, '_>,
    ) -> Result<Counted> {
        let mut opened = self.open(document, None, held, upstream)?;
        let (mut found, mut one) = (Counted::default(), Buffer::default());
        let mut out = ArrayBuilder::new(&mut found.bytes);
        while let Some(result) = one.read(|bytes| opened.next(upstream, bytes))? {
            if out.len_bytes() + result.len_bytes() > MEMORY_BYTES_MAX {
                return Err(self.too_much());
            }
            bounds::check_depth(RawValue::Document(result), 1 + self.output.parts().len())?;
            out.push(result);
            found.charge.cover(out.len_bytes())?;
        }
        out.finish();
        opened.close(upstream.collections());
        Ok(found)
    }

    /// Begins the read of what the collection has for the document, and matches a filter beside, if one is given. `held` is for
    /// all documents of one run.
    pub(super) fn open(
        &self,
        document: RawDocument<'_>,
        matching: Option<RawDocument<'_>>,
        held: &mut HeldResults,
        upstream: &mut Upstream<'_, '_>,
    ) -> Result<OpenPipeline> {
        let equality = self.equality.as_ref();
        let equal = equality.map(|equality| equality.filter(document));
        let equal = equal.transpose()?;
        let equal = equal.as_ref().map(|equal| RawDocument::new(&equal.bytes));
        let both;
        let filter = match (equal.transpose()?, matching) {
            (Some(equal), Some(matching)) => {
                both = equality::both(Some(equal), Some(matching));
                Some(both.as_raw())
            }
            (only, None) | (None, only) => only,
        };
        match (&self.pipeline, &self.collection) {
            (Some(pipeline), _) => pipeline.open(document, filter, held, upstream),
            (None, collection) => {
                let collections = upstream.collections();
                let (name, all) = (
                    collection.as_deref().unwrap_or_default(),
                    RawDocument::EMPTY,
                );
                OpenPipeline::find(name, filter.unwrap_or(all), &self.context, collections)
            }
        }
    }

    /// Appends its options, as explain prints them.
    pub(super) fn append_options(&self, options: &mut DocumentBuilder<'_>) {
        if let Some(collection) = &self.collection {
            options.append("from", &**collection);
        }
        options.append("as", self.output.as_str());
        if let Some(equality) = &self.equality {
            options.append("localField", equality.local.as_str());
            options.append("foreignField", &*equality.foreign);
        }
        if let Some(pipeline) = &self.pipeline {
            options.append("let", pipeline.variables().as_raw());
            options.append("pipeline", pipeline.stages());
        }
    }

    /// Whether the documents are those of a collection that have an equal field, and nothing else is asked of them.
    pub(super) fn is_by_equality(&self) -> bool {
        self.equality.is_some() && self.pipeline.is_none()
    }

    #[cold]
    fn too_much(&self) -> Error {
        let text = format!(
            "Total size of documents in {} matching pipeline's $lookup stage exceeds {MEMORY_BYTES_MAX} bytes",
            self.collection.as_deref().unwrap_or_default()
        );
        Error::location(4568, text)
    }
}

impl Equality {
    fn parse(local: &str, foreign: &str) -> Result<Equality> {
        FieldPath::parse_strictly(foreign)?;
        Ok(Equality {
            local: FieldPath::parse_strictly(local)?,
            foreign: foreign.into(),
        })
    }

    /// The filter of the documents that belong to this one.
    fn filter(&self, document: RawDocument<'_>) -> Result<Counted> {
        let local = LocalValues::of(document, &self.local)?;
        any_of(&self.foreign, local.values.iter().copied())
    }
}

impl Stage for Lookup {
    fn name(&self) -> &'static str {
        "$lookup"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        let mut options = out.document(self.name());
        self.append_options(&mut options);
        options.finish();
    }

    fn depth_within(&self) -> usize {
        self.pipeline.as_ref().map_or(0, SubPipeline::depth)
    }

    fn add_collections<'s>(&'s self, collections: &mut Vec<&'s str>) {
        match &self.pipeline {
            Some(pipeline) => pipeline.add_collections(collections),
            None => collections.extend(self.collection.as_deref()),
        }
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn modifies(&self) -> Modifies {
        Modifies::Fields(BTreeSet::from([self.output.first().to_owned()]))
    }

    fn add_fields_made(&self, fields: &mut BTreeSet<String>) {
        fields.extend(own_field(&self.output));
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        if let Some(equality) = &self.equality {
            fields.insert(equality.local.first().to_owned());
        }
        let pipeline = self.pipeline.as_ref();
        match pipeline.is_none_or(|pipeline| pipeline.variables().add_fields_read(fields)) {
            true => Reads::Passes,
            false => Reads::Everything,
        }
    }

    fn fused(self: Arc<Self>, next: &dyn Stage, _: &ExpressionContext) -> Result<Option<Stages>> {
        let unwound = next
            .unwinds()
            .filter(|unwound| *unwound.path == self.output);
        // What is the same for all documents is read once, and held.
        let unwound = unwound.filter(|_| !self.is_constant);
        Ok(unwound.map(|unwound| one(UnwoundLookup::new(&self, unwound))))
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(LookingUp {
            stage: self,
            document: Buffer::default(),
            constant: None,
            held: HeldResults::default(),
            figures: None,
        })
    }
}

/// The distinct values at a local path; Null where it leads to none, be it because a field is missing or because an array has no
/// elements.
#[derive(Default)]
struct LocalValues<'a> {
    values: Vec<RawValue<'a>>,
    held: Charge,
}

impl<'a> LocalValues<'a> {
    fn of(document: RawDocument<'a>, path: &FieldPath) -> Result<LocalValues<'a>> {
        let mut local = LocalValues::default();
        each_at(RawValue::Document(document), path.parts(), &mut |value| {
            let RawValue::Array(array) = value else {
                return local.add(value);
            };
            array.iter().try_for_each(|item| local.add(item))
        })?;
        if local.values.is_empty() {
            local.values.push(RawValue::Null);
        }
        Ok(local)
    }

    /// Short lists are kept distinct; a repeated value in a long one is sorted out by the filter.
    fn add(&mut self, value: RawValue<'a>) -> Result<()> {
        const COMPARED_MAX: usize = 64;
        interrupts::work(units_of(value) * self.values.len().min(COMPARED_MAX))?;
        if self.values.len() > COMPARED_MAX || !self.values.contains(&value) {
            self.held.grow(size_of::<RawValue<'_>>())?;
            self.values.push(value);
        }
        Ok(())
    }
}

struct LookingUp {
    stage: Arc<Lookup>,
    document: Buffer,
    /// The array that all documents are given, once there is one.
    constant: Option<Counted>,
    held: HeldResults,
    /// Where what it reads is counted.
    figures: Option<Arc<ReadFigures>>,
}

impl RunningStage for LookingUp {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.document)? else {
            return Ok(false);
        };
        let found = match self.constant.take() {
            Some(constant) => constant,
            None => upstream.counted(self.figures.as_ref(), |upstream| {
                self.stage.find(document, &mut self.held, upstream)
            })?,
        };
        let array = RawArray::from_document(RawDocument::new(&found.bytes)?);
        let output = &self.stage.output;
        nested_field::set(document, output.parts(), Some(RawValue::Array(array)), out);
        if self.stage.is_constant {
            self.constant = Some(found);
        }
        self.document.empty();
        Ok(true)
    }

    fn count_reads(&mut self) -> Option<Arc<ReadFigures>> {
        Some(Arc::clone(self.figures.get_or_insert_default()))
    }
}
