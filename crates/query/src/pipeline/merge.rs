//! `$merge`: each document that comes is merged into the document of a collection that has the same values of the `on`
//! fields, or is inserted where there is none.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use super::execution::RunningStage;
use super::out::{Passing, last_text};
use super::stage::{Reads, Specification, Stage, Stages, Within, one};
use super::written::{
    CollectionWritten, Merge, MergePipeline, ResultWritten, WhenMatched, WhenNotMatched,
    WriteTarget, missing_field, unknown_field,
};
use crate::Collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{LetVariables, type_name};
use crate::field_path::FieldPath;

/// The variable that is the document that comes.
const NEW: &str = "new";
/// The fields that `on` may name; a unique index has no more.
const ON_FIELDS_MAX: usize = 32;

/// The options as they were given.
#[derive(Default)]
struct Options<'s> {
    into: Option<WriteTarget>,
    on: Option<RawValue<'s>>,
    variables: Option<RawDocument<'s>>,
    when_matched: Option<RawValue<'s>>,
    when_not_matched: Option<RawValue<'s>>,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let options = match specification.value {
        RawValue::String(name) => Options {
            into: Some(WriteTarget {
                database: None,
                collection: name.as_str()?.into(),
            }),
            ..Options::default()
        },
        RawValue::Document(options) => read(options)?,
        other => {
            let text = format!(
                "$merge requires a string or object argument, but found {}",
                type_name(other)
            );
            return Err(Error::location(51182, text));
        }
    };
    let target = options
        .into
        .ok_or_else(|| missing_field("$merge", "into"))?;
    let when_matched = read_when_matched(options.when_matched, options.variables, specification)?;
    let when_not_matched = read_when_not_matched(options.when_not_matched)?;
    let inserts = when_not_matched == WhenNotMatched::Insert;
    if matches!(when_matched, WhenMatched::KeepExisting | WhenMatched::Fail) && !inserts {
        let text = format!(
            "Combination of $merge modes is not supported: {{ whenMatched: {}, whenNotMatched: {} }}",
            when_matched.name(),
            when_not_matched.name()
        );
        return Err(Error::location(51181, text));
    }
    let merge = Merge {
        target,
        on: read_on(options.on)?,
        when_matched,
        when_not_matched,
        collation: specification.context.collation().clone(),
    };
    let is_collated = merge.collation_of_on() != &merge.collation;
    if is_collated && matches!(merge.when_matched, WhenMatched::Pipeline(_)) {
        let text =
            "$merge on _id with a pipeline is not supported in an aggregate with a collation";
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
    }
    Ok(one(merge))
}

impl Merge {
    /// Whether documents are told by their `_id`.
    pub fn is_on_id(&self) -> bool {
        matches!(&*self.on, [only] if only.as_str() == "_id")
    }

    /// How the fields of `on` are compared: as the pipeline compares strings, but for `_id`, which is unique byte by byte.
    pub fn collation_of_on(&self) -> &Collation {
        static SIMPLE: Collation = Collation::SIMPLE;
        match self.is_on_id() {
            true => &SIMPLE,
            false => &self.collation,
        }
    }
}

fn read(document: RawDocument<'_>) -> Result<Options<'_>> {
    let mut options = Options::default();
    for option in document {
        let value = option.value();
        match option.name().as_bytes() {
            // Null stands for an option that is not there. Those that may be of several types are no such options.
            b"let" | b"whenNotMatched" if value.is_nullish() => {}
            b"into" => options.into = Some(read_into(value)?),
            b"on" => options.on = Some(value),
            b"let" => match value {
                RawValue::Document(variables) => options.variables = Some(variables),
                other => {
                    let text = format!(
                        "BSON field '$merge.let' is the wrong type '{}', expected type 'object'",
                        type_name(other)
                    );
                    return Err(Error::type_mismatch(text));
                }
            },
            b"whenMatched" => options.when_matched = Some(value),
            b"whenNotMatched" => options.when_not_matched = Some(value),
            _ => return Err(unknown_field("$merge", &option.name().to_string_lossy())),
        }
    }
    Ok(options)
}

fn read_into(value: RawValue<'_>) -> Result<WriteTarget> {
    match value {
        RawValue::String(name) => Ok(WriteTarget {
            database: None,
            collection: name.as_str()?.into(),
        }),
        RawValue::Document(target) => WriteTarget::read(target, "$merge.into"),
        other => {
            let text = format!(
                "$merge 'into' field must be either a string or an object, but found {}",
                type_name(other)
            );
            Err(Error::location(51178, text))
        }
    }
}

fn read_on(value: Option<RawValue<'_>>) -> Result<Vec<FieldPath>> {
    let mut on = Vec::new();
    let mut add = |name: &str| {
        let path = FieldPath::parse_strictly(name)?;
        if on.contains(&path) {
            let text = format!("Found a duplicate field '{name}' in $merge 'on'");
            return Err(Error::location(31465, text));
        }
        if on.len() == ON_FIELDS_MAX {
            let text = format!("$merge 'on' names at most {ON_FIELDS_MAX} fields");
            return Err(Error::bad_value(text));
        }
        on.push(path);
        Ok(())
    };
    match value {
        None => add("_id")?,
        Some(RawValue::String(name)) => add(name.as_str()?)?,
        Some(RawValue::Array(names)) if !names.is_empty() => {
            for name in names {
                let Some(name) = name.as_str() else {
                    let text = format!(
                        "$merge 'on' array elements must be strings, but found {}",
                        type_name(name)
                    );
                    return Err(Error::location(51134, text));
                };
                add(name)?;
            }
        }
        Some(RawValue::Array(_)) => {
            let text = "If explicitly specifying $merge 'on', must include at least one field";
            return Err(Error::location(51187, text));
        }
        Some(other) => {
            let text = format!(
                "$merge 'on' field must be either a string or an array of strings, but found {}",
                type_name(other)
            );
            return Err(Error::location(51186, text));
        }
    }
    Ok(on)
}

fn read_when_matched(
    value: Option<RawValue<'_>>,
    variables: Option<RawDocument<'_>>,
    specification: Specification<'_>,
) -> Result<WhenMatched> {
    let mode = match value {
        Some(RawValue::Array(stages)) => {
            return read_pipeline(stages, variables, specification);
        }
        None => WhenMatched::Merge,
        Some(RawValue::String(mode)) => match mode.as_bytes() {
            b"replace" => WhenMatched::Replace,
            b"keepExisting" => WhenMatched::KeepExisting,
            b"merge" => WhenMatched::Merge,
            b"fail" => WhenMatched::Fail,
            _ => return Err(no_such_mode("whenMatched", &mode.to_string_lossy())),
        },
        Some(other) => {
            let text = format!(
                "$merge 'whenMatched' field must be either a string or an array, but found {}",
                type_name(other)
            );
            return Err(Error::location(51191, text));
        }
    };
    if variables.is_some() {
        let text = format!(
            "Cannot use 'let' variables with 'whenMatched: {}' mode",
            mode.name()
        );
        return Err(Error::location(51199, text));
    }
    Ok(mode)
}

/// The variable `new` is there whether it is asked for or not.
fn read_pipeline(
    stages: RawArray<'_>,
    variables: Option<RawDocument<'_>>,
    specification: Specification<'_>,
) -> Result<WhenMatched> {
    let given = variables.unwrap_or(RawDocument::EMPTY);
    let is_root = |value: RawValue<'_>| value.as_str() == Some("$$ROOT");
    if given
        .iter()
        .any(|variable| variable.name() == NEW && !is_root(variable.value()))
    {
        let text =
            "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'";
        return Err(Error::location(51273, text));
    }
    let all = Document::build(|all| {
        for variable in given {
            all.append_element(variable);
        }
        if !given.contains(NEW) {
            all.append(NEW, "$$ROOT");
        }
    });
    let variables = LetVariables::parse(all.as_raw(), specification.context)?;
    let mut checked = specification.context.share();
    variables.declare(&mut checked);
    (specification.parse_within)(stages, &checked, Within::Update)?;
    Ok(WhenMatched::Pipeline(Box::new(MergePipeline {
        stages: Value::from(stages),
        variables,
        context: specification.context.share(),
    })))
}

fn read_when_not_matched(value: Option<RawValue<'_>>) -> Result<WhenNotMatched> {
    match value {
        None => Ok(WhenNotMatched::Insert),
        Some(RawValue::String(mode)) => match mode.as_bytes() {
            b"insert" => Ok(WhenNotMatched::Insert),
            b"discard" => Ok(WhenNotMatched::Discard),
            b"fail" => Ok(WhenNotMatched::Fail),
            _ => Err(no_such_mode("whenNotMatched", &mode.to_string_lossy())),
        },
        Some(other) => {
            let text = format!(
                "BSON field '$merge.whenNotMatched' is the wrong type '{}', expected type 'string'",
                type_name(other)
            );
            Err(Error::type_mismatch(text))
        }
    }
}

fn no_such_mode(field: &str, mode: &str) -> Error {
    let text =
        format!("Enumeration value '{mode}' for field '$merge.{field}' is not a valid value.");
    Error::bad_value(text)
}

/// Names the collection without parsing more. What is not written well is taken for what writes most.
pub(super) fn name_written(value: RawValue<'_>) -> Vec<CollectionWritten<'_>> {
    let written = |database, collection, inserts, updates| CollectionWritten {
        database,
        collection,
        inserts,
        updates,
        removes: false,
    };
    let RawValue::Document(options) = value else {
        let name = value.as_str();
        return name
            .map(|name| written(None, name, true, true))
            .into_iter()
            .collect();
    };
    let inserts = last_text(options, "whenNotMatched").is_none_or(|mode| mode == "insert");
    let updates = !matches!(
        last_text(options, "whenMatched"),
        Some("keepExisting" | "fail")
    );
    let targets = options.iter().filter(|option| option.name() == "into");
    targets
        .filter_map(|into| match into.value() {
            RawValue::Document(target) => {
                let collection = last_text(target, "coll")?;
                Some(written(
                    last_text(target, "db"),
                    collection,
                    inserts,
                    updates,
                ))
            }
            name => Some(written(None, name.as_str()?, inserts, updates)),
        })
        .collect()
}

impl Stage for Merge {
    fn name(&self) -> &'static str {
        "$merge"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        let mut shown = out.document(self.name());
        let mut into = shown.document("into");
        if let Some(database) = &self.target.database {
            into.append("db", &**database);
        }
        into.append("coll", &*self.target.collection);
        into.finish();
        match &*self.on {
            [only] => {
                shown.append("on", only.as_str());
            }
            several => {
                let mut on = shown.array("on");
                for path in several {
                    on.push(path.as_str());
                }
                on.finish();
            }
        }
        match &self.when_matched {
            WhenMatched::Pipeline(pipeline) => {
                shown.append("let", pipeline.variables.as_raw());
                shown.append("whenMatched", &pipeline.stages);
            }
            mode => {
                shown.append("whenMatched", mode.name());
            }
        }
        shown.append("whenNotMatched", self.when_not_matched.name());
        shown.finish();
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Everything
    }

    fn written(&self) -> Option<ResultWritten<'_>> {
        Some(ResultWritten::Merge(self))
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Passing)
    }
}
