//! `$graphLookup`: the documents of another collection that can be reached from a document, step by step.
//!
//! Each step asks for all documents whose `connectToField` equals a value that the step before has found in
//! `connectFromField`. A document is taken once, at the first step that reaches it, and a value is asked for once, so that
//! circles end.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{
    ArrayBuilder, Document, DocumentBuilder, RawArray, RawDocument, RawValue, Value, doc,
};

use super::equality::{any_of, both, each_at};
use super::execution::{Buffer, RunningStage, Upstream};
use super::nested_field;
use super::stage::{Modifies, Named, Reads, Specification, Stage, Stages, one, own_field};
use super::sub_pipeline::OpenPipeline;
use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, ExpressionContext, bounds, type_name};
use crate::field_path::FieldPath;
use crate::matcher::Matcher;
use crate::memory::{Charge, Counted};
use crate::stage_memory::MEMORY_BYTES_MAX;
use crate::value_set::ValueSet;

#[derive(Debug)]
struct GraphLookup {
    specification: Value,
    collection: Box<str>,
    start_with: Expression,
    connect_from: FieldPath,
    connect_to: Box<str>,
    output: FieldPath,
    depth_field: Option<FieldPath>,
    depth_max: Option<u64>,
    restriction: Option<Document>,
    context: ExpressionContext,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(fields) = specification.value else {
        let text = format!(
            "the $graphLookup stage specification must be an object, but found {}",
            type_name(specification.value)
        );
        return Err(Error::failed_to_parse(text));
    };
    let mut options = Options::default();
    for field in fields {
        options.read(&field.name().to_string_lossy(), field.value())?;
    }
    GraphLookup::new(options, specification).map(one)
}

/// Names each `from`: the last of several is read.
pub(super) fn name_collections<'v>(value: RawValue<'v>, named: &mut Named<'v>) {
    let options = value.as_document().into_iter().flat_map(|it| it.iter());
    let from = options.filter(|option| option.name() == "from");
    let names = from.filter_map(|option| option.value().as_str());
    named.collections.extend(names);
}

/// The options as they are given.
#[derive(Default)]
struct Options<'s> {
    from: Option<&'s str>,
    start_with: Option<RawValue<'s>>,
    connect_from: Option<&'s str>,
    connect_to: Option<&'s str>,
    output: Option<&'s str>,
    depth_field: Option<&'s str>,
    depth_max: Option<u64>,
    restriction: Option<RawDocument<'s>>,
}

impl<'s> Options<'s> {
    fn read(&mut self, name: &str, value: RawValue<'s>) -> Result<()> {
        match name {
            "startWith" => self.start_with = Some(value),
            "maxDepth" => self.depth_max = Some(depth_max(value)?),
            "restrictSearchWithMatch" => {
                let wrong = || {
                    let kind = type_name(value);
                    let text = format!("restrictSearchWithMatch must be an object, found {kind}");
                    Error::location(40185, text)
                };
                self.restriction = Some(value.as_document().ok_or_else(wrong)?);
            }
            "from" => {
                let wrong = || {
                    let kind = type_name(value);
                    let text =
                        format!("$graphLookup 'from' field must be a string, but found {kind}");
                    Error::failed_to_parse(text)
                };
                self.from = Some(value.as_str().ok_or_else(wrong)?);
            }
            "as" => self.output = Some(text(name, value)?),
            "connectFromField" => self.connect_from = Some(text(name, value)?),
            "connectToField" => self.connect_to = Some(text(name, value)?),
            "depthField" => self.depth_field = Some(text(name, value)?),
            _ => {
                let text = format!("unknown argument to $graphLookup: {name}");
                return Err(Error::location(40104, text));
            }
        }
        Ok(())
    }
}

fn text<'v>(name: &str, value: RawValue<'v>) -> Result<&'v str> {
    value.as_str().ok_or_else(|| {
        let text = format!(
            "expected string as argument for {name}, found: {}",
            type_name(value)
        );
        Error::location(40103, text)
    })
}

fn depth_max(value: RawValue<'_>) -> Result<u64> {
    if !value.is_number() {
        let text = format!("maxDepth must be numeric, found type: {}", type_name(value));
        return Err(Error::location(40100, text));
    }
    if value.as_f64_lossy().is_some_and(|depth| depth < 0.0) {
        let text = format!("maxDepth requires a nonnegative argument, found: {value}");
        return Err(Error::location(40101, text));
    }
    let depth = value
        .as_i64_exact()
        .and_then(|depth| u64::try_from(depth).ok());
    depth.ok_or_else(|| {
        let text = format!("maxDepth could not be represented as a long long: {value}");
        Error::location(40102, text)
    })
}

impl GraphLookup {
    fn new(options: Options<'_>, specification: Specification<'_>) -> Result<GraphLookup> {
        if options.from.is_none() {
            let text = "missing 'from' option to $graphLookup stage specification";
            return Err(Error::failed_to_parse(text));
        }
        let (
            Some(collection),
            Some(output),
            Some(start_with),
            Some(connect_from),
            Some(connect_to),
        ) = (
            options.from,
            options.output,
            options.start_with,
            options.connect_from,
            options.connect_to,
        )
        else {
            let text = "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified.";
            return Err(Error::location(40105, text));
        };
        FieldPath::parse_strictly(connect_to)?;
        let context = specification.context.for_sub_pipeline()?;
        if let Some(restriction) = options.restriction {
            // It is parsed again with the filter of each step, of which it is a part.
            Matcher::parse_in(restriction, &context)?.refuse_near()?;
        }
        Ok(GraphLookup {
            specification: specification.value.to_value(),
            collection: collection.into(),
            start_with: specification.expression(start_with)?,
            connect_from: FieldPath::parse_strictly(connect_from)?,
            connect_to: connect_to.into(),
            output: FieldPath::parse_strictly(output)?,
            depth_field: options
                .depth_field
                .map(FieldPath::parse_strictly)
                .transpose()?,
            depth_max: options.depth_max,
            restriction: options.restriction.map(|it| it.to_owned_document()),
            context,
        })
    }

    /// The array of what can be reached from the document.
    fn find(&self, document: RawDocument<'_>, upstream: &mut Upstream<'_, '_>) -> Result<Counted> {
        let mut search = Search::new(self.context.collation());
        let start = self.start_with.evaluate(&mut Context::new(document))?;
        if let Some(start) = start.as_raw() {
            search.want(start)?;
        }
        let mut found = Counted::default();
        let mut out = ArrayBuilder::new(&mut found.bytes);
        let mut depth = 0;
        while self.depth_max.is_none_or(|max| depth <= max)
            && let Some(filter) = search.next_step(&self.connect_to)?
        {
            let filter = both(
                self.restriction.as_ref().map(Document::as_raw),
                Some(RawDocument::new(&filter.bytes)?),
            );
            let collections = upstream.collections();
            let name = &self.collection;
            let mut opened = OpenPipeline::find(name, filter.as_raw(), &self.context, collections)?;
            let mut one = Buffer::default();
            while let Some(reached) = one.read(|bytes| opened.next(upstream, bytes))? {
                if search.visit(reached, &self.connect_from)? {
                    self.push(reached, depth, &mut out)?;
                    found.charge.cover(out.len_bytes())?;
                    search.check(out.len_bytes())?;
                }
            }
            opened.close(upstream.collections());
            depth += 1;
        }
        out.finish();
        Ok(found)
    }

    /// Appends a document that was reached, with the number of its step where that is asked for.
    fn push(&self, reached: RawDocument<'_>, depth: u64, out: &mut ArrayBuilder<'_>) -> Result<()> {
        bounds::check_depth(RawValue::Document(reached), 1 + self.output.parts().len())?;
        let Some(field) = &self.depth_field else {
            out.push(reached);
            return Ok(());
        };
        let depth = RawValue::Int64(i64::try_from(depth).unwrap_or(i64::MAX));
        let mut with_depth = Vec::new();
        nested_field::set(reached, field.parts(), Some(depth), &mut with_depth);
        let with_depth = RawDocument::new(&with_depth)?;
        bounds::check_depth(
            RawValue::Document(with_depth),
            1 + self.output.parts().len(),
        )?;
        out.push(with_depth);
        Ok(())
    }
}

/// The state of one search.
struct Search {
    /// The values asked for, and behind the first `asked` those that the next step asks for.
    values: ValueSet,
    asked: usize,
    /// The `_id`s of the documents that were reached.
    visited: ValueSet,
    held: Charge,
}

impl Search {
    fn new(collation: &Collation) -> Search {
        Search {
            values: ValueSet::new(collation),
            asked: 0,
            visited: ValueSet::new(collation),
            held: Charge::default(),
        }
    }

    /// Asks for a value, or for each element of an array, unless that was done.
    fn want(&mut self, value: RawValue<'_>) -> Result<()> {
        let RawValue::Array(array) = value else {
            return self.want_one(value);
        };
        array.iter().try_for_each(|item| self.want_one(item))
    }

    fn want_one(&mut self, value: RawValue<'_>) -> Result<()> {
        let (_, bytes) = self.values.insert(value)?;
        self.held.grow(bytes)
    }

    /// The filter of the next step; None if there is nothing left to ask for.
    fn next_step(&mut self, field: &str) -> Result<Option<Counted>> {
        let wanted = &self.values.values()[self.asked..];
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut filter = any_of(field, wanted.iter().map(Value::as_raw))?;
        // Null leads to null alone, not to what lacks the field.
        if wanted.iter().any(|value| value.as_raw() == RawValue::Null) {
            let is_there = doc! { field: doc! { "$exists": true } };
            let found = RawDocument::new(&filter.bytes)?;
            filter.bytes = both(Some(found), Some(is_there.as_raw())).into_bytes();
            filter.charge.cover(filter.bytes.len())?;
        }
        self.asked = self.values.values().len();
        Ok(Some(filter))
    }

    /// Notes a document, and asks for what it leads to; false if it was reached before.
    fn visit(&mut self, reached: RawDocument<'_>, connect_from: &FieldPath) -> Result<bool> {
        let id = reached.get("_id").unwrap_or(RawValue::Null);
        let (_, bytes) = self.visited.insert(id)?;
        if bytes == 0 {
            return Ok(false);
        }
        self.held.grow(bytes)?;
        let document = RawValue::Document(reached);
        each_at(document, connect_from.parts(), &mut |value| {
            self.want(value)
        })?;
        Ok(true)
    }

    /// Fails where the search and its results take more than a stage may.
    fn check(&self, result_bytes: usize) -> Result<()> {
        if self.held.bytes() + result_bytes <= MEMORY_BYTES_MAX {
            return Ok(());
        }
        let text = "$graphLookup reached maximum memory consumption";
        Err(Error::location(40099, text))
    }
}

impl Stage for GraphLookup {
    fn name(&self) -> &'static str {
        "$graphLookup"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), &self.specification);
    }

    fn add_collections<'s>(&'s self, collections: &mut Vec<&'s str>) {
        collections.push(&self.collection);
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
        match self.start_with.add_fields_read(fields) {
            true => Reads::Passes,
            false => Reads::Everything,
        }
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Searching {
            stage: self,
            document: Buffer::default(),
        })
    }
}

struct Searching {
    stage: Arc<GraphLookup>,
    document: Buffer,
}

impl RunningStage for Searching {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.document)? else {
            return Ok(false);
        };
        let found = self.stage.find(document, upstream)?;
        let array = RawArray::from_document(RawDocument::new(&found.bytes)?);
        let output = &self.stage.output;
        nested_field::set(document, output.parts(), Some(RawValue::Array(array)), out);
        self.document.empty();
        Ok(true)
    }
}
