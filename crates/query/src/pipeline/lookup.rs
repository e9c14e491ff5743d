//! `$lookup` by equality: the documents of another collection whose field matches this document's, as an array.
//!
//! A local value that is an array matches by each of its elements; a missing one matches as Null. The form with
//! `pipeline` or `let` is refused by name.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use quarry_bson::{ArrayBuilder, Document, RawDocument, RawValue, Value};

use super::bounded_memory::BoundedMemory;
use super::execution::{Running, Upstream};
use super::nested_field;
use super::stage::Reads;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{bounds, path::split, type_name};

#[derive(Debug)]
pub struct Lookup {
    collection: Box<str>,
    local: Box<[Box<str>]>,
    foreign: Box<str>,
    output: Box<[Box<str>]>,
}

impl Lookup {
    pub(super) fn parse(value: RawValue<'_>) -> Result<Lookup> {
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

    pub(super) fn collection(&self) -> &str {
        &self.collection
    }

    pub(super) fn explain(&self) -> Document {
        Document::build(|out| {
            out.append("from", &*self.collection)
                .append("as", self.output.join(".").as_str());
            out.append("localField", self.local.join(".").as_str())
                .append("foreignField", &*self.foreign);
        })
    }

    pub(super) fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        fields.insert(self.local[0].to_string());
        Reads::Passes
    }

    pub(super) fn start(self: &Arc<Self>) -> Box<dyn Running> {
        Box::new(LookingUp {
            stage: Arc::clone(self),
            document: Vec::new(),
            found: Vec::new(),
        })
    }

    /// Writes the array of the documents that match into `found`.
    fn find(
        &self,
        document: RawDocument<'_>,
        upstream: &Upstream<'_, '_>,
        found: &mut Vec<u8>,
    ) -> Result<()> {
        let mut values = Vec::new();
        collect(RawValue::Document(document), &self.local, &mut values);
        if values.is_empty() {
            values.push(RawValue::Null);
        }
        let (mut seen, mut memory) = (HashSet::new(), BoundedMemory::default());
        let several = values.len() > 1;
        found.clear();
        let mut builder = ArrayBuilder::new(found);
        for value in values {
            upstream.check_interrupt()?;
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
                    if id.is_some_and(|id| !seen.insert(id)) {
                        return Ok(());
                    }
                    memory.grow(foreign.as_bytes().len(), "$lookup")?;
                    bounds::check_depth(RawValue::Document(foreign), 2)?;
                    builder.push(foreign);
                    Ok(())
                },
            )?;
        }
        Ok(())
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
fn collect<'a>(value: RawValue<'a>, path: &[Box<str>], values: &mut Vec<RawValue<'a>>) {
    let Some((name, rest)) = path.split_first() else {
        match value {
            RawValue::Array(array) => array.iter().for_each(|item| add_distinct(item, values)),
            single => add_distinct(single, values),
        }
        return;
    };
    match value {
        RawValue::Document(document) => {
            if let Some(inner) = document.get(&**name) {
                collect(inner, rest, values);
            }
        }
        RawValue::Array(array) => {
            if let Some(item) =
                crate::field_path::array_index(name).and_then(|index| array.get(index as usize))
            {
                collect(item, rest, values);
            }
            for item in array.iter().filter(|item| item.as_document().is_some()) {
                collect(item, path, values);
            }
        }
        _ => {}
    }
}

/// Short lists are kept distinct; a repeated value in a long one costs a second search, no second result.
fn add_distinct<'a>(value: RawValue<'a>, values: &mut Vec<RawValue<'a>>) {
    const COMPARED_MAX: usize = 64;
    if values.len() > COMPARED_MAX || !values.contains(&value) {
        values.push(value);
    }
}

struct LookingUp {
    stage: Arc<Lookup>,
    document: Vec<u8>,
    found: Vec<u8>,
}

impl Running for LookingUp {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.document)? else {
            return Ok(false);
        };
        self.stage.find(document, upstream, &mut self.found)?;
        let found = quarry_bson::RawArray::from_document(RawDocument::new(&self.found)?);
        nested_field::set(
            document,
            &self.stage.output,
            Some(RawValue::Array(found)),
            out,
        );
        Ok(true)
    }
}
