//! `create`: makes a collection, capped when asked, a time series, or a view.

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_database::{
    COLLATION, Collation, EXPIRE_AFTER, GRANULARITY, ID_INDEX_NAME, Namespace, TIME_SERIES,
    VIEW_ON, VIEW_PIPELINE, complete_time_series,
};
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::encrypted_fields::{self, ENCRYPTED_FIELDS};
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, array, flag, number, object, text};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::transaction_arguments::SessionUse;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("capped"),
        number("size"),
        number("max"),
        flag("autoIndexId"),
        object("idIndex"),
        object("validator"),
        text("validationLevel"),
        text("validationAction"),
        object("collation"),
        text("viewOn"),
        array("pipeline"),
        object(TIME_SERIES),
        any("expireAfterSeconds"),
        object("clusteredIndex"),
        object("changeStreamPreAndPostImages"),
        object("storageEngine").not_served_unless_empty(),
        object("indexOptionDefaults").ignored(),
        object(ENCRYPTED_FIELDS),
        flag("temp").ignored(),
        number("flags").ignored(),
    ]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::InTransactions,
    ..Command::new(
        "create",
        "creates a collection",
        // A view shows what its maker may read.
        Requires::Each(&[
            need(Action::CreateCollection, On::Collection),
            need(Action::Find, On::CollectionNamed("viewOn")),
            need(Action::Find, On::CollectionsOfStages),
        ]),
        run,
    )
};

const PRE_IMAGES: &str = "changeStreamPreAndPostImages";

static CLUSTERED_INDEX: Fields = Fields::named(&[
    number("v"),
    object("key").required(),
    text("name"),
    flag("unique"),
]);

/// The fields of the option that makes a time series; `time_series` reads it.
static TIME_SERIES_FIELDS: Fields = Fields::named(&[
    text("timeField").required(),
    text("metaField"),
    text(GRANULARITY),
    number("bucketMaxSpanSeconds"),
    number("bucketRoundingSeconds"),
]);

/// The span of a bucket is a year of seconds at most, as in MongoDB.
const SPAN_SECONDS_MAX: i64 = 31_536_000;

static IMAGES: Fields = Fields::named(&[flag("enabled").required()]);

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    if let Some(session) = &invocation.checked_out {
        session.check_definition(invocation.command.name)?;
    }
    let namespace = invocation.namespace()?;
    let given = invocation
        .get(COLLATION)
        .and_then(|given| given.as_document());
    if given.is_some_and(|given| given.is_empty()) {
        let message = "'collation' cannot be an empty document";
        return Err(CommandError::bad_value(message));
    }
    if let Some(option) = invocation.argument(ENCRYPTED_FIELDS) {
        encrypted_fields::check(invocation, &option)?;
    }
    let series = invocation.argument(TIME_SERIES);
    let series = series.map(|series| time_series(invocation, &namespace, &series));
    let series = series.transpose()?;
    let mut options = match invocation.get(VIEW_ON) {
        Some(on) => view_options(invocation, &namespace, on)?,
        None if invocation.get(VIEW_PIPELINE).is_some() => {
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "'pipeline' requires 'viewOn' to also be specified",
            ));
        }
        None => options(invocation.body, series)?,
    };
    let collation = invocation.generic.collation.as_ref();
    if let Some(specification) = collation.and_then(Collation::specification) {
        options.append(COLLATION, specification.as_raw());
    }
    let level = writes::level(invocation);
    invocation.data().create_collection(
        invocation.operation,
        &namespace,
        options.as_raw(),
        level,
    )?;
    Ok(())
}

/// The option of a time series, completed. Other options that a collection may have are refused beside it.
fn time_series(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    argument: &Argument<'_>,
) -> Result<Document> {
    let others = [
        "capped",
        "size",
        "max",
        "autoIndexId",
        "idIndex",
        "validator",
        "validationLevel",
        "validationAction",
        "viewOn",
        "pipeline",
        "clusteredIndex",
        "changeStreamPreAndPostImages",
    ];
    if let Some(other) = others.iter().find(|other| invocation.get(other).is_some()) {
        let message = format!("{namespace}: 'timeseries' is not allowed with '{other}'");
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    let given = argument.document()?;
    TIME_SERIES_FIELDS.read("create.timeseries", given, |field| {
        match field.name().as_bytes() {
            b"granularity" => {
                field.one_of(&["seconds", "minutes", "hours"])?;
            }
            b"bucketMaxSpanSeconds" | b"bucketRoundingSeconds" => check_span(&field)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(complete_time_series(namespace, given)?)
}

/// Refuses a span that is not from a second to a year.
fn check_span(field: &Argument<'_>) -> Result<()> {
    let (name, seconds) = (field.name(), field.number()?);
    let (bound, limit) = match seconds {
        ..1 => (">=", 1),
        1..=SPAN_SECONDS_MAX => return Ok(()),
        _ => ("<=", SPAN_SECONDS_MAX),
    };
    let message =
        format!("BSON field '{name}' value must be {bound} {limit}, actual value '{seconds}'");
    Err(CommandError::new(ErrorCode(51_024), message))
}

/// The options of a view, whose definition can be read.
fn view_options(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    on: RawValue<'_>,
) -> Result<Document> {
    let others = [
        "capped",
        "size",
        "max",
        "changeStreamPreAndPostImages",
        "idIndex",
        "autoIndexId",
        "clusteredIndex",
        "expireAfterSeconds",
        "validator",
        "validationLevel",
        "validationAction",
    ];
    if let Some(other) = others.iter().find(|other| invocation.get(other).is_some()) {
        let message = format!("cannot specify '{other}' with 'viewOn'");
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    let on = on.as_str().unwrap_or_default();
    let pipeline = invocation.body.get_array(VIEW_PIPELINE);
    let pipeline = pipeline.unwrap_or(RawArray::EMPTY);
    let collation = invocation.generic.collation.clone().unwrap_or_default();
    check_view(invocation, namespace, (on, pipeline), &collation)?;
    let mut options = Document::new();
    options.append(VIEW_ON, on);
    options.append(VIEW_PIPELINE, pipeline);
    Ok(options)
}

/// Refuses the definition of a view that cannot be read; create and collMod take it alike.
pub(super) fn check_view(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    (on, pipeline): (&str, RawArray<'_>),
    collation: &Collation,
) -> Result<()> {
    if on.is_empty() {
        return Err(CommandError::bad_value("'viewOn' cannot be empty"));
    }
    let data = invocation.data();
    Ok(data.check_view(invocation.operation, namespace, on, pipeline, collation)?)
}

/// The options that are kept with the collection; the others change nothing or are refused.
fn options(body: RawDocument<'_>, series: Option<Document>) -> Result<Document> {
    let mut options = Document::new();
    let is_series = series.is_some();
    for argument in COMMAND.arguments(body) {
        let value = argument.value();
        let name = argument.name();
        match name.as_bytes() {
            b"capped" if argument.flag()? => {
                options.append("capped", true);
            }
            b"size" | b"max" => {
                let number = value
                    .as_i64_exact()
                    .or_else(|| value.as_f64_lossy().map(|number| number as i64));
                let number = number.ok_or_else(|| argument.wrong_type("long"))?;
                options.append(name.as_bytes(), number);
            }
            b"autoIndexId" if value.is_truthy() => {}
            b"idIndex" => check_id_index(value)?,
            b"changeStreamPreAndPostImages" if keeps_pre_images(&argument)? => {
                let mut images = Document::new();
                images.append("enabled", true);
                options.append(name.as_bytes(), images);
            }
            b"changeStreamPreAndPostImages" => {}
            b"clusteredIndex" => {
                options.append(name.as_bytes(), clustered_index(body, &argument)?);
            }
            b"expireAfterSeconds" => {
                options.append(EXPIRE_AFTER, expire_after(value)?);
            }
            b"validator" | b"validationLevel" | b"validationAction" => {
                append_validation(&argument, &mut options)?;
            }
            b"encryptedFields" => {
                options.append_element(argument.element());
            }
            b"autoIndexId" => return Err(argument.not_served()),
            _ => {}
        }
    }
    if let Some(series) = series {
        options.append(TIME_SERIES, series);
    }
    if options.contains(EXPIRE_AFTER) && !options.contains("clusteredIndex") && !is_series {
        return Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is specified",
        ));
    }
    let is_capped = options.contains("capped");
    match options.get_i64("size") {
        None if is_capped => Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "the 'size' field is required when 'capped' is true",
        )),
        Some(_) if !is_capped => Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
        )),
        Some(size) if size <= 0 => Err(CommandError::bad_value(
            "the 'size' field must be greater than 0",
        )),
        _ => Ok(options),
    }
}

/// The seconds after which documents of a clustered collection or a time series go, which create and collMod take alike.
pub(super) fn expire_after(value: RawValue<'_>) -> Result<i64> {
    let seconds = value.as_f64_lossy();
    let seconds = seconds.filter(|seconds| (0.0..=f64::from(i32::MAX)).contains(seconds));
    let Some(seconds) = seconds else {
        return Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            format!(
                "'expireAfterSeconds' must be a number from 0 to {}",
                i32::MAX
            ),
        ));
    };
    Ok(seconds as i64)
}

/// The flag in `changeStreamPreAndPostImages`, which create and collMod take alike.
pub(super) fn keeps_pre_images(argument: &Argument<'_>) -> Result<bool> {
    let mut enabled = false;
    IMAGES.read(PRE_IMAGES, argument.document()?, |field| {
        enabled = field.flag()?;
        Ok(())
    })?;
    Ok(enabled)
}

/// The definition of a clustered index, which is what the `_id` index of every collection but a capped one is.
fn clustered_index(body: RawDocument<'_>, argument: &Argument<'_>) -> Result<Document> {
    if let Some(other) = ["capped", "idIndex"]
        .iter()
        .find(|other| body.contains(other))
    {
        let message = format!("'clusteredIndex' is not allowed with '{other}'");
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    let (mut is_unique, mut name) = (false, ID_INDEX_NAME);
    CLUSTERED_INDEX.read("create.clusteredIndex", argument.document()?, |field| {
        match field.name().as_bytes() {
            b"key" if !is_id_pattern(field.document()?) => {
                let message = "The clusteredIndex option is only supported for key: {_id: 1}";
                let code = ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION;
                return Err(CommandError::new(code, message));
            }
            b"unique" => is_unique = field.flag()?,
            b"name" => name = field.text()?,
            _ => {}
        }
        Ok(())
    })?;
    if !is_unique {
        let message = "The clusteredIndex option requires unique: true to be specified";
        return Err(CommandError::new(ErrorCode(5_979_700), message));
    }
    Ok(quarry_database::clustered_index(name)?)
}

/// Adds an option of a collection's validation, which create and collMod take alike, after a look at its value.
pub(super) fn append_validation(argument: &Argument<'_>, options: &mut Document) -> Result<()> {
    match argument.name().as_bytes() {
        b"validationLevel" => {
            argument.one_of(&["off", "strict", "moderate"])?;
        }
        b"validationAction" => {
            argument.one_of(&["error", "warn"])?;
        }
        _ => {}
    }
    options.append_element(argument.element());
    Ok(())
}

/// The `_id` index is always `{_id: 1}`; a client may say so.
fn check_id_index(value: RawValue<'_>) -> Result<()> {
    let key = value
        .as_document()
        .and_then(|index| index.get_document("key"));
    if key.is_some_and(is_id_pattern) {
        return Ok(());
    }
    Err(CommandError::bad_value(
        "The field 'key' for an _id index must be {_id: 1}",
    ))
}

fn is_id_pattern(key: RawDocument<'_>) -> bool {
    key.len() == 1 && key.get("_id").and_then(|id| id.as_i64_exact()) == Some(1)
}
