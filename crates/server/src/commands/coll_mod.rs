//! `collMod`: changes a collection after its creation. What applies so far: the definition of a view, the validator, the bounds of a capped collection, hiding and
//! unhiding an index, making one unique, when documents expire, the granularity of a time series, and whether the journal keeps documents as they were before a change.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};
use quarry_database::{
    Collation, GRANULARITY, IndexChange, Namespace, PREPARE_UNIQUE, TIME_SERIES,
    VALIDATION_OPTIONS, VIEW_ON, VIEW_PIPELINE,
};
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::create::{
    append_validation, check_view, expire_after as expire_after_of, keeps_pre_images,
};
use crate::commands::writes;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, array, flag, number, object, text};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("index"),
        object("changeStreamPreAndPostImages"),
        object("validator"),
        text("validationLevel"),
        text("validationAction"),
        text("viewOn"),
        array("pipeline"),
        number("cappedSize"),
        number("cappedMax"),
        any("expireAfterSeconds"),
        object(TIME_SERIES),
        flag("dryRun"),
    ]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "collMod",
        "changes a collection",
        Requires::Each(&[
            need(Action::CollMod, On::Collection),
            need(Action::Find, On::CollectionNamed("viewOn")),
            need(Action::Find, On::CollectionsOfStages),
        ]),
        run,
    )
};

/// The greatest bounds of a capped collection.
const CAPPED_BYTES_MAX: i64 = 1 << 50;
const CAPPED_DOCUMENTS_MAX: i64 = i32::MAX as i64;

/// The fields that change an index.
static INDEX: Fields = Fields::named(&[
    text("name"),
    object("keyPattern"),
    flag("hidden"),
    number("expireAfterSeconds"),
    flag("unique"),
    flag(PREPARE_UNIQUE),
]);

/// The fields of a time series that can be changed.
static SERIES: Fields = Fields::named(&[
    text(GRANULARITY),
    number("bucketMaxSpanSeconds").not_served(),
    number("bucketRoundingSeconds").not_served(),
]);

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    if invocation.boolean("dryRun")? {
        return try_out(invocation, &namespace);
    }
    if modify_view(invocation, &namespace)? {
        return Ok(());
    }
    // What is refused has changed nothing.
    let of_index = index_change(invocation, &namespace)?;
    let modifies_options = modify_options(invocation, &namespace)?;
    if modifies_options && invocation.get("index").is_none() {
        return Ok(());
    }
    let level = writes::level(invocation);
    let Some((index, change)) = of_index else {
        let catalog = invocation.server.catalog();
        return Ok(catalog.modify_nothing(&namespace, invocation.operation, level)?);
    };
    let was = invocation.server.catalog().modify_index(
        &namespace,
        index,
        change,
        invocation.operation,
        level,
    )?;
    append_changes(&was, &change, reply);
    Ok(())
}

/// The change of an index that is asked for, if it may stand beside the other changes.
fn index_change<'i>(
    invocation: &'i Invocation<'_>,
    namespace: &Namespace,
) -> Result<Option<(RawValue<'i>, IndexChange)>> {
    let Some(change) = invocation.document("index")? else {
        return Ok(None);
    };
    let (index, change) = parse(change)?;
    let is_alone = changes_asked(invocation)? <= 1;
    if change.prepare_unique.is_some() && !is_alone {
        let message = "prepareUnique cannot be combined with any other modification.";
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    if change.unique && !is_alone {
        let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
        catalog.check_conversion_to_unique(namespace, index, operation)?;
    }
    Ok(Some((index, change)))
}

/// Tells which options of the index have changed.
fn append_changes(was: &IndexChange, change: &IndexChange, reply: &mut DocumentBuilder<'_>) {
    if let Some(seconds) = change.expire_after_s
        && was.expire_after_s != Some(seconds)
    {
        // An index that is made one of those whose documents expire had no number.
        if let Some(was) = was.expire_after_s {
            reply.append("expireAfterSeconds_old", i64::from(was));
        }
        reply.append("expireAfterSeconds_new", i64::from(seconds));
    }
    if let (Some(was), Some(is)) = (was.hidden, change.hidden)
        && was != is
    {
        reply.append("hidden_old", was);
        reply.append("hidden_new", is);
    }
    if change.unique && !was.unique {
        reply.append("unique_new", true);
    }
    if let (Some(prepared), Some(prepares)) = (was.prepare_unique, change.prepare_unique)
        && prepared != prepares
        && !was.unique
    {
        reply.append("prepareUnique_old", prepared);
        reply.append("prepareUnique_new", prepares);
    }
}

/// Says whether an index could be made unique, and changes nothing.
fn try_out(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<()> {
    let invalid = |message: &str| Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    let index = invocation.document("index")?;
    let index = match index.map(parse).transpose()? {
        Some((index, change)) if change.unique => index,
        _ => return invalid("dry run mode is for an index that is to become unique"),
    };
    if changes_asked(invocation)? > 1 {
        return invalid(
            "unique: true cannot be combined with any other modification in dry run mode.",
        );
    }
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    Ok(catalog.check_conversion_to_unique(namespace, index, operation)?)
}

/// How many changes the command asks for, of the collection and of the index.
fn changes_asked(invocation: &Invocation<'_>) -> Result<usize> {
    let is_change = |name: &str| !matches!(name, "index" | "dryRun");
    let of_collection = COMMAND.fields.names();
    let of_collection =
        of_collection.filter(|name| is_change(name) && invocation.argument(name).is_some());
    let index = invocation.document("index")?;
    let of_index = index.into_iter().flat_map(|index| index.iter());
    let is_change = |name: &str| !matches!(name, "name" | "keyPattern");
    let of_index = of_index
        .filter(|field| is_change(&field.name().to_string_lossy()) && !field.value().is_nullish());
    Ok(of_collection.count() + of_index.count())
}

/// Changes options of a collection, if some are asked for.
fn modify_options(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<bool> {
    let images = invocation.argument("changeStreamPreAndPostImages");
    let images = images.as_ref().map(keeps_pre_images).transpose()?;
    let mut validation = Document::new();
    for name in VALIDATION_OPTIONS {
        if let Some(argument) = invocation.argument(name) {
            append_validation(&argument, &mut validation)?;
        }
    }
    let level = writes::level(invocation);
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    if let Some(enabled) = images {
        catalog.set_pre_images(namespace, enabled, operation, level)?;
    }
    let expire_after = invocation.get("expireAfterSeconds");
    let expire_after = expire_after.filter(|value| !value.is_nullish());
    if let Some(value) = expire_after {
        let seconds = match value {
            RawValue::String(off) if off == "off" => None,
            value => Some(expire_after_of(value)?),
        };
        catalog.set_expire_after(namespace, seconds, operation, level)?;
    }
    let series = invocation.argument(TIME_SERIES);
    if let Some(series) = &series {
        set_granularity(invocation, namespace, series)?;
    }
    if !validation.is_empty() {
        catalog.set_validation(namespace, &validation, operation, level)?;
    }
    let resizes = resize_capped(invocation, namespace)?;
    let is_series = series.is_some();
    let others = resizes || is_series || !validation.is_empty();
    Ok(images.is_some() || expire_after.is_some() || others)
}

/// Gives a capped collection other bounds, if some are asked for. As in MongoDB, the size is rounded up to 256 bytes, and a number of
/// documents that is none stands for the greatest.
fn resize_capped(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<bool> {
    let size = invocation.argument("cappedSize");
    let size = size.map(|size| size.number()).transpose()?;
    let max = invocation.argument("cappedMax");
    let max = max.map(|max| max.number()).transpose()?;
    if size.is_none() && max.is_none() {
        return Ok(false);
    }
    let refused = match (size, max) {
        (Some(..=0), _) => Some("the 'cappedSize' field must be greater than 0"),
        (Some(size), _) if size > CAPPED_BYTES_MAX => Some("size cannot exceed 1 PB"),
        (_, Some(max)) if max > CAPPED_DOCUMENTS_MAX => {
            Some("max in a capped collection has to be < 2^31 or not set")
        }
        _ => None,
    };
    if let Some(message) = refused {
        return Err(CommandError::bad_value(message));
    }
    let size = size.map(|size| (size + 0xff) & !0xff);
    let max = max.map(|max| if max <= 0 { CAPPED_DOCUMENTS_MAX } else { max });
    let level = writes::level(invocation);
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    catalog.resize_capped(namespace, size, max, operation, level)?;
    Ok(true)
}

/// Gives a time series another granularity, if one is asked for.
fn set_granularity(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    series: &Argument<'_>,
) -> Result<()> {
    let mut granularity = None;
    SERIES.read("collMod.timeseries", series.document()?, |field| {
        granularity = Some(field.one_of(&["seconds", "minutes", "hours"])?.to_owned());
        Ok(())
    })?;
    let Some(granularity) = granularity else {
        return Ok(());
    };
    let level = writes::level(invocation);
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    Ok(catalog.set_granularity(namespace, &granularity, operation, level)?)
}

/// Gives a view another definition, if one is asked for.
fn modify_view(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<bool> {
    let on = invocation.get(VIEW_ON).and_then(|on| on.as_str());
    let (on, pipeline) = match (on, invocation.body.get_array(VIEW_PIPELINE)) {
        (None, None) => return Ok(false),
        (Some(on), Some(pipeline)) => (on, pipeline),
        _ => {
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "Must specify both 'viewOn' and 'pipeline' when modifying a view",
            ));
        }
    };
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    let view = catalog.collection(namespace)?;
    let collation = view.map_or(Collation::SIMPLE, |view| view.collation.clone());
    check_view(invocation, namespace, (on, pipeline), &collation)?;
    let level = writes::level(invocation);
    catalog.modify_view(namespace, on, pipeline, operation, level)?;
    Ok(true)
}

/// The index, by name or key pattern, and what is to be changed of it.
fn parse(change: RawDocument<'_>) -> Result<(RawValue<'_>, IndexChange)> {
    let (mut index, mut asked) = (None, IndexChange::default());
    if change.contains("name") && change.contains("keyPattern") {
        let message = "Cannot specify both key pattern and name.";
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    INDEX.read("collMod.index", change, |argument| {
        let name = argument.name();
        match (name.as_bytes(), argument.value()) {
            (b"name", value @ RawValue::String(_))
            | (b"keyPattern", value @ RawValue::Document(_)) => {
                index = Some(value);
            }
            (b"hidden", _) => asked.hidden = Some(argument.flag()?),
            (b"expireAfterSeconds", value) => asked.expire_after_s = Some(seconds(value)?),
            (b"prepareUnique", _) => asked.prepare_unique = Some(argument.flag()?),
            (b"unique", _) if argument.flag()? => asked.unique = true,
            (b"unique", _) => return Err(CommandError::bad_value("Cannot make index non-unique")),
            _ => {}
        }
        Ok(())
    })?;
    let asks = asked.hidden.is_some()
        || asked.expire_after_s.is_some()
        || asked.prepare_unique.is_some()
        || asked.unique;
    match index {
        Some(index) if asks => Ok((index, asked)),
        _ => Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "collMod needs the name or keyPattern of an index, and what to change of it",
        )),
    }
}

/// The number of seconds after which documents expire; a fraction is cut off.
fn seconds(value: RawValue<'_>) -> Result<i32> {
    let seconds = value.as_f64_lossy();
    let Some(seconds) = seconds.filter(|seconds| (0.0..=f64::from(i32::MAX)).contains(seconds))
    else {
        return Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number",
        ));
    };
    Ok(seconds as i32)
}
