//! A pipeline that a stage runs by itself, over another collection or over documents that the stage holds.
//!
//! It is parsed, and so checked, with the stage. One that reads variables of the stage's `let` is parsed again for each
//! document, when the variables have values: those are constants to it, so that an index serves an equality with one, as it
//! does for any filter. Its first stages that read none of them may have results that are held (`HeldPrefix`).

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use super::chance::draws_lots;
use super::equality::both;
use super::execution::{Collections, Execution, ReadId, RunInput, SubFind, Upstream};
use super::held_prefix::{HeldDocuments, HeldPrefix, HeldResults};
use super::parsed::Pipeline;
use super::stage::{Input, ParseWithin, Specification, Within};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{ExpressionContext, LetVariables};
use crate::interrupts;

/// A pipeline over a collection, as a stage's specification gives it.
#[derive(Debug)]
pub(super) struct SubPipeline {
    /// None where the pipeline's first stage makes the documents.
    collection: Option<Box<str>>,
    /// The stages as they were given.
    stages: Value,
    variables: LetVariables,
    /// The context of the stage that runs it.
    surroundings: ExpressionContext,
    /// Its context as long as the variables have no values.
    context: ExpressionContext,
    /// Parsed in that context.
    checked: Pipeline,
    /// The part of it that is the same for all documents.
    prefix: Option<HeldPrefix>,
    parse: ParseWithin,
    /// The name of the stage that runs it.
    owner: &'static str,
}

impl SubPipeline {
    /// Parses the pipeline that the stage of this specification runs over the collection.
    pub fn parse(
        collection: Option<&str>,
        stages: RawArray<'_>,
        variables: LetVariables,
        owner: Specification<'_>,
    ) -> Result<SubPipeline> {
        let (surroundings, parse) = (owner.context, owner.parse_within);
        let mut context = surroundings.for_sub_pipeline()?;
        variables.declare(&mut context);
        let checked = parse(stages, &context, Within::Collection(owner.name))?;
        match (collection, checked.input()) {
            (Some(_), Input::Documents) | (None, Input::MadeOfNothing) => {}
            (None, _) => return Err(no_collection(owner.name)),
            (Some(_), _) => {
                let first = checked.stages.first().map_or("", |first| first.name());
                let text = format!("'{first}' can only be run with {{aggregate: 1}}");
                return Err(Error::new(ErrorCode::INVALID_NAMESPACE, text));
            }
        }
        let prefix = match variables.is_empty() {
            true => None,
            false => HeldPrefix::of(stages, &variables, &context, (parse, owner.name))?,
        };
        Ok(SubPipeline {
            collection: collection.map(Box::from),
            prefix,
            stages: Value::from(stages),
            variables,
            surroundings: surroundings.share(),
            context,
            checked,
            parse,
            owner: owner.name,
        })
    }

    /// The pipeline with a `$match` as its last stage. It reads no variables of its own. `context` is that of its surroundings.
    pub fn with_filter_last(
        &self,
        filter: RawDocument<'_>,
        surroundings: &ExpressionContext,
    ) -> Result<SubPipeline> {
        debug_assert!(self.variables.is_empty() && self.prefix.is_none());
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::new(&mut bytes);
        if let RawValue::Array(stages) = self.stages.as_raw() {
            stages.iter().for_each(|stage| {
                out.push(stage);
            });
        }
        out.document().append("$match", filter);
        out.finish();
        let stages = RawArray::from_document(RawDocument::new(&bytes)?);
        let context = surroundings.for_sub_pipeline()?;
        Ok(SubPipeline {
            collection: self.collection.clone(),
            checked: (self.parse)(stages, &context, Within::Collection(self.owner))?,
            stages: Value::from(stages),
            variables: LetVariables::parse(RawDocument::EMPTY, surroundings)?,
            surroundings: surroundings.share(),
            context,
            prefix: None,
            parse: self.parse,
            owner: self.owner,
        })
    }

    /// The collection; None where the first stage makes the documents.
    pub fn collection(&self) -> Option<&str> {
        self.collection.as_deref()
    }

    /// The stages as they were given.
    pub fn stages(&self) -> RawValue<'_> {
        self.stages.as_raw()
    }

    /// Its variables.
    pub fn variables(&self) -> &LetVariables {
        &self.variables
    }

    /// Adds the collections that it reads, its own among them.
    pub fn add_collections<'s>(&'s self, collections: &mut Vec<&'s str>) {
        collections.extend(self.collection.as_deref());
        collections.extend(self.checked.collections());
    }

    /// Its depth, as that of any pipeline.
    pub fn depth(&self) -> usize {
        self.checked.depth()
    }

    /// Whether one of its stages runs a pipeline of its own.
    pub fn has_pipelines_within(&self) -> bool {
        self.checked.has_pipelines_within()
    }

    /// Whether it gives the same documents each time that it is run: nothing of the surroundings' document goes into it, and
    /// none of its stages draws lots.
    pub fn is_constant(&self) -> bool {
        self.variables.is_empty() && !draws_lots(self.stages.as_raw())
    }

    /// Begins a run for a document of the surroundings. Of its input only what `filter` matches goes in, if there is one.
    /// `held` is for all runs of this pipeline within one of the surroundings.
    pub fn open(
        &self,
        document: RawDocument<'_>,
        filter: Option<RawDocument<'_>>,
        held: &mut HeldResults,
        upstream: &mut Upstream<'_, '_>,
    ) -> Result<OpenPipeline> {
        if let Some(prefix) = self.prefix.as_ref().filter(|_| filter.is_none()) {
            if matches!(held, HeldResults::NotYet) {
                let mut opened = self.open_parsed(
                    &prefix.pipeline,
                    &self.context,
                    None,
                    upstream.collections(),
                )?;
                held.fill(|bytes| opened.next(upstream, bytes))?;
                opened.close(upstream.collections());
            }
            if let HeldResults::Held(results) = held {
                return self.open_behind(&prefix.rest, HeldDocuments::new(results), document);
            }
        }
        let collections = upstream.collections();
        // A filter over documents that are made stands behind the stage that makes them.
        let is_inserted = filter.is_some() && self.collection.is_none();
        if self.variables.is_empty() && !is_inserted {
            return self.open_parsed(&self.checked, &self.context, filter, collections);
        }
        interrupts::work(self.surroundings.variables())?;
        let mut context = self.surroundings.for_sub_pipeline()?;
        self.variables.bind(document, &mut context)?;
        let RawValue::Array(stages) = self.stages.as_raw() else {
            return Ok(OpenPipeline::of_nothing());
        };
        match filter.filter(|_| is_inserted) {
            Some(filter) => {
                let stages = with_filter_second(stages, filter);
                let stages = RawArray::from_document(RawDocument::new(&stages)?);
                let pipeline = (self.parse)(stages, &context, Within::Collection(self.owner))?;
                self.open_parsed(&pipeline, &context, None, collections)
            }
            None => {
                let pipeline = (self.parse)(stages, &context, Within::Collection(self.owner))?;
                self.open_parsed(&pipeline, &context, filter, collections)
            }
        }
    }

    /// Begins a run of the stages behind those whose results are held.
    fn open_behind(
        &self,
        stages: &Value,
        results: HeldDocuments,
        document: RawDocument<'_>,
    ) -> Result<OpenPipeline> {
        interrupts::work(self.surroundings.variables())?;
        let mut context = self.surroundings.for_sub_pipeline()?;
        self.variables.bind(document, &mut context)?;
        let RawValue::Array(stages) = stages.as_raw() else {
            return Ok(OpenPipeline::of_nothing());
        };
        let pipeline = (self.parse)(stages, &context, Within::Collection(self.owner))?;
        Ok(OpenPipeline {
            input: OpenInput::Held(results),
            execution: pipeline.start(),
        })
    }

    fn open_parsed(
        &self,
        pipeline: &Pipeline,
        context: &ExpressionContext,
        filter: Option<RawDocument<'_>>,
        collections: &mut dyn Collections,
    ) -> Result<OpenPipeline> {
        let Some(collection) = &self.collection else {
            return Ok(OpenPipeline {
                input: OpenInput::Nothing,
                execution: pipeline.start(),
            });
        };
        let leading = pipeline.leading();
        let filter = both(filter, leading.filter);
        let find = SubFind {
            filter: filter.as_raw(),
            sort: leading.sort_specification,
            skip: leading.skip.unwrap_or(0),
            limit: leading.limit,
            context,
        };
        Ok(OpenPipeline {
            input: OpenInput::Read(collections.open(collection, find)?),
            execution: pipeline.start_at(leading.stages),
        })
    }
}

/// A run of a pipeline over a collection. It reads the collection until it is closed.
#[derive(Debug)]
pub(super) struct OpenPipeline {
    input: OpenInput,
    execution: Execution,
}

/// Where its documents come from.
#[derive(Debug)]
enum OpenInput {
    /// Its first stage makes them.
    Nothing,
    Read(ReadId),
    Held(HeldDocuments),
}

impl OpenPipeline {
    fn of_nothing() -> OpenPipeline {
        OpenPipeline {
            input: OpenInput::Nothing,
            execution: Execution::new(Vec::new()),
        }
    }

    /// Begins a read of those documents of a collection that a filter matches, with no stage behind it.
    pub fn find(
        collection: &str,
        filter: RawDocument<'_>,
        context: &ExpressionContext,
        collections: &mut dyn Collections,
    ) -> Result<OpenPipeline> {
        let find = SubFind {
            filter,
            sort: None,
            skip: 0,
            limit: None,
            context,
        };
        Ok(OpenPipeline {
            input: OpenInput::Read(collections.open(collection, find)?),
            ..OpenPipeline::of_nothing()
        })
    }

    /// Appends the next result to `out`; false, and nothing appended, at the end.
    pub fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let input = match &mut self.input {
            OpenInput::Nothing => RunInput::Nothing,
            OpenInput::Read(read) => RunInput::Read(*read),
            OpenInput::Held(results) => RunInput::Source(results),
        };
        self.execution.next(&mut upstream.lend(input), out)
    }

    /// Ends the reads that its stages have left open, and that of its own collection.
    pub fn close(mut self, collections: &mut dyn Collections) {
        self.execution.close(collections);
        if let OpenInput::Read(read) = self.input {
            collections.close(read);
        }
    }
}

/// The pipeline that a stage's option `pipeline` holds.
pub(super) fn stages_of(value: RawValue<'_>) -> Result<RawArray<'_>> {
    value
        .as_array()
        .ok_or_else(|| Error::type_mismatch("'pipeline' option must be specified as an array"))
}

fn no_collection(owner: &str) -> Error {
    let text = format!(
        "{owner} stage without explicit collection must have a pipeline with $documents as first stage"
    );
    Error::failed_to_parse(text)
}

/// The stages with a `$match` behind the first, as the bytes of an array.
fn with_filter_second(stages: RawArray<'_>, filter: RawDocument<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = ArrayBuilder::new(&mut bytes);
    for (index, stage) in stages.iter().enumerate() {
        out.push(stage);
        if index == 0 {
            let mut inserted: DocumentBuilder<'_> = out.document();
            inserted.append("$match", filter);
            inserted.finish();
        }
    }
    out.finish();
    bytes
}
