//! `$lookup` by equality: the documents of another collection whose field matches this document's, as an array.
//!
//! A local value that is an array matches by each of its elements; a missing one matches as Null. The form with
//! `pipeline` or `let` is refused by name.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use super::execution::{Buffer, Running, Upstream};
use super::nested_field;
use super::stage::{Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{bounds, path::split, type_name};
use crate::interrupts::{self, units_of};
use crate::memory::{Charge, Counted};
use crate::stage_memory::MEMORY_BYTES_MAX;

#[derive(Debug)]
struct Lookup {
    collection: Box<str>,
    local: Box<[Box<str>]>,
    foreign: Box<str>,
    output: Box<[Box<str>]>,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    Lookup::parse(specification.value).map(one)
}

/// The collections that the specification gives as `from`, of which the last one is read.
pub(super) fn collections(value: RawValue<'_>) -> Vec<&str> {
    let options = value.as_document().into_iter().flat_map(|it| it.iter());
    let from = options.filter(|option| option.name() == "from");
    from.filter_map(|option| option.value().as_str()).collect()
}

impl Lookup {
    fn parse(value: RawValue<'_>) -> Result<Lookup> {
        let RawValue::Document(options) = value else {
            let text = format!(
                "the $lookup stage specification must be an object, but found {}",
                type_name(value)
            );
            return Err(Error::failed_to_parse(text));
        };
        let (mut collection, mut local, mut foreign, mut output) = (None, None, None, None);
        for element in options {
            let name = element.name().to_string_lossy();
            let place = match &*name {
                "from" => &mut collection,
                "localField" => &mut local,
                "foreignField" => &mut foreign,
                "as" => &mut output,
                "pipeline" | "let" => {
                    let text = format!("$lookup with '{name}' is not supported yet");
                    return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
                }
                _ => {
                    return Err(Error::failed_to_parse(format!(
                        "unknown argument to $lookup: {name}"
                    )));
                }
            };
            *place = Some(option_text(&name, element.value())?);
        }
        let collection = collection.ok_or_else(|| {
            Error::failed_to_parse("missing 'from' option to $lookup stage specification")
        })?;
        let output = output
            .ok_or_else(|| Error::failed_to_parse("must specify 'as' field for a $lookup"))?;
        let both = "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified";
        let (Some(local), Some(foreign)) = (local, foreign) else {
            return Err(Error::failed_to_parse(both));
        };
        split(foreign)?;
        Ok(Lookup {
            collection: collection.into(),
            local: split(local)?,
            foreign: foreign.into(),
            output: split(output)?,
        })
    }

    /// The array of the documents that match.
    fn find(&self, document: RawDocument<'_>, upstream: &Upstream<'_, '_>) -> Result<Counted> {
        let mut values = Vec::new();
        collect(RawValue::Document(document), &self.local, &mut values)?;
        if values.is_empty() {
            values.push(RawValue::Null);
        }
        let (mut seen, mut memory) = (HashSet::new(), Charge::default());
        memory.grow(values.capacity() * size_of::<RawValue<'_>>())?;
        let several = values.len() > 1;
        let mut found = Counted::default();
        let mut builder = ArrayBuilder::new(&mut found.bytes);
        for value in values {
            interrupts::work(units_of(value))?;
            upstream.foreign().find_equal(
                &self.collection,
                &self.foreign,
                value,
                &mut |foreign| {
                    // Two local values may match one document by two elements of its array.
                    let id = if several {
                        foreign.get("_id").map(Value::from)
                    } else {
                        None
                    };
                    if let Some(id) = id {
                        memory.grow(size_of::<Value>() + id.as_bytes().len())?;
                        if !seen.insert(id) {
                            return Ok(());
                        }
                    }
                    if builder.len_bytes() + foreign.len_bytes() > MEMORY_BYTES_MAX {
                        return Err(self.too_much());
                    }
                    bounds::check_depth(RawValue::Document(foreign), 2)?;
                    builder.push(foreign);
                    found.charge.cover(builder.len_bytes())
                },
            )?;
        }
        builder.finish();
        Ok(found)
    }
}

impl Stage for Lookup {
    fn name(&self) -> &'static str {
        "$lookup"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.document(self.name())
            .append("from", &*self.collection)
            .append("as", self.output.join(".").as_str())
            .append("localField", self.local.join(".").as_str())
            .append("foreignField", &*self.foreign);
    }

    fn foreign_collection(&self) -> Option<&str> {
        Some(&self.collection)
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        fields.insert(self.local[0].to_string());
        Reads::Passes
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn Running> {
        Box::new(LookingUp {
            stage: self,
            document: Buffer::default(),
        })
    }
}

impl Lookup {
    #[cold]
    fn too_much(&self) -> Error {
        let text = format!(
            "Total size of documents in {} matching pipeline's $lookup stage exceeds {MEMORY_BYTES_MAX} bytes",
            self.collection
        );
        Error::location(4568, text)
    }
}

fn option_text<'v>(name: &str, value: RawValue<'v>) -> Result<&'v str> {
    value.as_str().ok_or_else(|| {
        let text = format!(
            "$lookup argument '{name}' must be a string, found {name}: {value}, type: {}",
            type_name(value)
        );
        Error::failed_to_parse(text)
    })
}

/// The distinct values at a path, arrays on the way and at the end entered, numbers naming their positions too.
fn collect<'a>(
    value: RawValue<'a>,
    path: &[Box<str>],
    values: &mut Vec<RawValue<'a>>,
) -> Result<()> {
    let Some((name, rest)) = path.split_first() else {
        match value {
            RawValue::Array(array) => {
                for item in array {
                    add_distinct(item, values)?;
                }
            }
            single => add_distinct(single, values)?,
        }
        return Ok(());
    };
    match value {
        RawValue::Document(document) => {
            interrupts::work_on_bytes(document.len_bytes())?;
            if let Some(inner) = document.get(&**name) {
                collect(inner, rest, values)?;
            }
        }
        RawValue::Array(array) => {
            if let Some(index) = crate::field_path::array_index(name)
                && let Some(item) = interrupts::element_at(array, index as usize)?
            {
                collect(item, rest, values)?;
            }
            for item in array {
                interrupts::work(1)?;
                if item.as_document().is_some() {
                    collect(item, path, values)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Short lists are kept distinct; a repeated value in a long one costs a second search, no second result.
fn add_distinct<'a>(value: RawValue<'a>, values: &mut Vec<RawValue<'a>>) -> Result<()> {
    const COMPARED_MAX: usize = 64;
    interrupts::work(units_of(value) * values.len().min(COMPARED_MAX))?;
    if values.len() > COMPARED_MAX || !values.contains(&value) {
        values.push(value);
    }
    Ok(())
}

struct LookingUp {
    stage: Arc<Lookup>,
    document: Buffer,
}

impl Running for LookingUp {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.document)? else {
            return Ok(false);
        };
        let found = self.stage.find(document, upstream)?;
        let array = RawArray::from_document(RawDocument::new(&found.bytes)?);
        let output = &self.stage.output;
        nested_field::set(document, output, Some(RawValue::Array(array)), out);
        self.document.empty();
        Ok(true)
    }
}
