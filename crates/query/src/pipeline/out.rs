//! `$out`: the documents that come take the place of those of a collection, all at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawValue};

use super::execution::{RunningStage, Upstream};
use super::stage::{Reads, Specification, Stage, Stages, one};
use super::written::{CollectionWritten, Out, ResultWritten, WriteTarget};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::type_name;

/// The option that makes the collection a time series.
const TIME_SERIES: &str = "timeseries";

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let mut series = None;
    let target = match specification.value {
        RawValue::String(name) => WriteTarget {
            database: None,
            collection: name.as_str()?.into(),
        },
        RawValue::Document(options) => {
            let mut target = Document::new();
            for option in options {
                match option.name() == TIME_SERIES {
                    true => series = Some(read_series(option.value())?),
                    false => {
                        target.append_element(option);
                    }
                }
            }
            let target = WriteTarget::read(target.as_raw(), "$out")?;
            if target.database.is_none() {
                return Err(super::written::missing_field("$out", "db"));
            }
            target
        }
        other => {
            let text = format!(
                "$out only supports a string or object argument, but found {}",
                type_name(other)
            );
            return Err(Error::location(16990, text));
        }
    };
    Ok(one(Out { target, series }))
}

/// The option that makes a time series, if its fields are known and have the right types.
fn read_series(value: RawValue<'_>) -> Result<Document> {
    let wrong_type = |name: &str, expected: &str, found: RawValue<'_>| {
        let found = type_name(found);
        let text =
            format!("BSON field '{name}' is the wrong type '{found}', expected type '{expected}'");
        Error::new(ErrorCode::TYPE_MISMATCH, text)
    };
    let RawValue::Document(series) = value else {
        return Err(wrong_type("$out.timeseries", "object", value));
    };
    for field in series {
        let name = field.name().to_string_lossy();
        let place = format!("timeseries.{name}");
        match (&*name, field.value()) {
            ("timeField" | "metaField" | "granularity", RawValue::String(_)) => {}
            ("timeField" | "metaField" | "granularity", found) => {
                return Err(wrong_type(&place, "string", found));
            }
            ("bucketMaxSpanSeconds" | "bucketRoundingSeconds", found) if found.is_number() => {}
            ("bucketMaxSpanSeconds" | "bucketRoundingSeconds", found) => {
                return Err(wrong_type(&place, "int", found));
            }
            _ => {
                let text = format!("BSON field '{place}' is an unknown field.");
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text));
            }
        }
    }
    if !series.contains("timeField") {
        return Err(super::written::missing_field("timeseries", "timeField"));
    }
    Ok(series.to_owned_document())
}

/// Names the collection without parsing more.
pub(super) fn name_written(value: RawValue<'_>) -> Vec<CollectionWritten<'_>> {
    let written = |database, collection| CollectionWritten {
        database,
        collection,
        inserts: true,
        updates: false,
        removes: true,
    };
    match value {
        RawValue::String(name) => name.as_str().ok().map(|name| written(None, name)),
        RawValue::Document(options) => {
            let collection = last_text(options, "coll");
            collection.map(|collection| written(last_text(options, "db"), collection))
        }
        _ => None,
    }
    .into_iter()
    .collect()
}

/// The last field of that name, which is the one that counts.
pub(super) fn last_text<'v>(
    options: quarry_bson::RawDocument<'v>,
    name: &'static str,
) -> Option<&'v str> {
    let named = options.iter().filter(|option| option.name() == name);
    named.last()?.value().as_str()
}

impl Stage for Out {
    fn name(&self) -> &'static str {
        "$out"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        let mut shown = out.document(self.name());
        if let Some(database) = &self.target.database {
            shown.append("db", &**database);
        }
        shown.append("coll", &*self.target.collection);
        if let Some(series) = &self.series {
            shown.append(TIME_SERIES, series);
        }
        shown.finish();
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Everything
    }

    fn written(&self) -> Option<ResultWritten<'_>> {
        Some(ResultWritten::Out(self))
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Passing)
    }
}

/// Hands the documents to whoever writes them.
pub(super) struct Passing;

impl RunningStage for Passing {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        upstream.next(out)
    }
}
