//! The document of a change event, in the order of MongoDB's fields.

use quarry_bson::{
    DateTime, Document, DocumentBuilder, RawBinary, RawDocument, RawValue, Timestamp, doc,
};
use quarry_database::{
    ChangeBody, ChangeEvent, ChangeKind, DefinitionKind, DocumentChange, ID_INDEX_NAME, is_of_view,
    shown_description,
};
use quarry_query::ErrorCode;

use crate::change_streams::options::{FullDocument, Image, Options};
use crate::change_streams::resume_token::ResumeToken;
use crate::dispatch::error::{CommandError, Result};

const UUID_SUBTYPE: u8 = 4;

/// The document of an event, as bytes that a builder has made; it may be larger than a client's document, before the stages
/// have seen it. `look_up` finds the document of an update as it is now, by the update's document key. The images of
/// events before `images_from_ms` have expired.
///
/// # Errors
/// An image that is required and was not kept, or has expired.
pub fn event_document(
    event: &ChangeEvent<'_>,
    token: ResumeToken,
    options: &Options,
    images_from_ms: i64,
    look_up: &mut dyn FnMut(&Document) -> Result<Option<Document>>,
) -> Result<Vec<u8>> {
    let image = match &event.body {
        ChangeBody::Document(change) if event.wall_ms >= images_from_ms => change.pre_image,
        _ => None,
    };
    let mut looked_up = None;
    let mut full = None;
    if let ChangeBody::Document(change) = &event.body {
        check_pre_image(change, options, image)?;
        if options.full_document == FullDocument::UpdateLookup
            && kind_of(change) == ChangeKind::Update
        {
            looked_up = look_up(&change.document_key())?;
        }
        full = full_document(change, options, image.is_some(), looked_up.as_ref())?;
    }
    let description = description(event, options)?;
    let mut bytes = Vec::new();
    let mut out = DocumentBuilder::new(&mut bytes);
    token.append("_id", &mut out);
    out.append("operationType", operation_type(event));
    out.append("clusterTime", Timestamp::from_u64(event.cluster_time));
    append_transaction(event, &mut out);
    out.append("wallTime", DateTime(event.wall_ms));
    let is_of_view = match &event.body {
        ChangeBody::Definition { body, .. } => is_of_view(*body),
        ChangeBody::Document(_) => false,
    };
    if options.shows_expanded_events
        && !is_of_view
        && let Some(uuid) = &event.uuid
    {
        append_uuid("collectionUUID", uuid, &mut out);
    }
    match &event.body {
        ChangeBody::Document(change) => {
            append_change(event, change, full, description.as_ref(), &mut out);
            if options.before_change != Image::Off && change.kind != ChangeKind::Insert {
                let image = image.map_or(RawValue::Null, RawValue::Document);
                out.append("fullDocumentBeforeChange", image);
            }
        }
        ChangeBody::Definition { kind, body } => {
            append_namespace("ns", event.namespace, &mut out);
            append_definition(event, *kind, *body, options, &mut out);
        }
    }
    out.finish();
    Ok(bytes)
}

/// Refuses an event without its pre-image where the stream requires one.
fn check_pre_image(
    change: &DocumentChange<'_>,
    options: &Options,
    image: Option<RawDocument<'_>>,
) -> Result<()> {
    if options.before_change != Image::Required
        || change.kind == ChangeKind::Insert
        || image.is_some()
    {
        return Ok(());
    }
    let message = "Change stream was configured to require a pre-image for all update, delete and replace events, but \
                   the pre-image was not found";
    Err(CommandError::new(ErrorCode::NO_MATCHING_DOCUMENT, message))
}

/// The `fullDocument` of a change. That of an update is told as the change left it where its collection keeps images, although the
/// journal always has it: as in MongoDB, nobody is to rely on what another collection, or a later time, would not tell.
fn full_document<'d>(
    change: &DocumentChange<'d>,
    options: &Options,
    has_images: bool,
    looked_up: Option<&'d Document>,
) -> Result<Option<RawValue<'d>>> {
    if kind_of(change) != ChangeKind::Update {
        return Ok(change.document.map(RawValue::Document));
    }
    let kept = change.document.filter(|_| has_images);
    let document = match options.full_document {
        FullDocument::Default => return Ok(None),
        FullDocument::UpdateLookup => looked_up.map(Document::as_raw),
        FullDocument::WhenAvailable => kept,
        FullDocument::Required => {
            let message = "Change stream was configured to require a post-image for all update events, but the post-image was not found";
            let missing = || CommandError::new(ErrorCode::NO_MATCHING_DOCUMENT, message);
            Some(kept.ok_or_else(missing)?)
        }
    };
    Ok(Some(document.map_or(RawValue::Null, RawValue::Document)))
}

/// The document of the event that ends a stream, because what it is over has gone. It has the time of the event that did that.
pub fn invalidate_document(token: ResumeToken, cluster_time: u64, wall_ms: i64) -> Vec<u8> {
    let document = Document::build(|out| {
        token.append("_id", out);
        out.append("operationType", "invalidate");
        out.append("clusterTime", Timestamp::from_u64(cluster_time));
        out.append("wallTime", DateTime(wall_ms));
    });
    document.into_bytes()
}

/// The fields that an update has changed, as an event shows them.
fn description(event: &ChangeEvent<'_>, options: &Options) -> Result<Option<Document>> {
    let ChangeBody::Document(change) = &event.body else {
        return Ok(None);
    };
    match (kind_of(change), change.description, change.document) {
        (ChangeKind::Update, Some(description), Some(document)) => {
            let disambiguates = options.shows_expanded_events;
            Ok(Some(shown_description(
                description,
                document,
                disambiguates,
            )?))
        }
        _ => Ok(None),
    }
}

/// Whether only a stream that shows expanded events has it.
pub fn is_expanded(event: &ChangeEvent<'_>) -> bool {
    match &event.body {
        ChangeBody::Document(_) => false,
        ChangeBody::Definition { kind, body } => match kind {
            DefinitionKind::Create
            | DefinitionKind::CreateIndexes
            | DefinitionKind::DropIndexes
            | DefinitionKind::Modify => true,
            DefinitionKind::Drop | DefinitionKind::Rename | DefinitionKind::DropDatabase => {
                is_of_view(*body)
            }
        },
    }
}

/// The kind that an event shows. A record that does not say which fields an update has changed has the whole document: shown as a
/// replacement, the event leads whoever follows it to that same document.
fn kind_of(change: &DocumentChange<'_>) -> ChangeKind {
    match change.kind {
        ChangeKind::Update if change.description.is_none() => ChangeKind::Replace,
        kind => kind,
    }
}

fn operation_type(event: &ChangeEvent<'_>) -> &'static str {
    match &event.body {
        ChangeBody::Document(change) => match kind_of(change) {
            ChangeKind::Insert => "insert",
            ChangeKind::Update => "update",
            ChangeKind::Replace => "replace",
            _ => "delete",
        },
        ChangeBody::Definition { kind, .. } => match kind {
            DefinitionKind::Create => "create",
            DefinitionKind::Drop => "drop",
            DefinitionKind::Rename => "rename",
            DefinitionKind::DropDatabase => "dropDatabase",
            DefinitionKind::CreateIndexes => "createIndexes",
            DefinitionKind::DropIndexes => "dropIndexes",
            DefinitionKind::Modify => "modify",
        },
    }
}

/// Appends the transaction that the change is of; a retryable write is none.
fn append_transaction(event: &ChangeEvent<'_>, out: &mut DocumentBuilder<'_>) {
    let Some(session) = event.session.filter(|session| session.is_transaction) else {
        return;
    };
    out.append("txnNumber", session.txn_number);
    let mut lsid = out.document("lsid");
    append_uuid("id", session.id, &mut lsid);
    // A record that an earlier version wrote does not name it.
    if let Some(user) = session.user {
        let bytes = &user[..];
        lsid.append("uid", RawValue::Binary(RawBinary { subtype: 0, bytes }));
    }
    lsid.finish();
}

fn append_change(
    event: &ChangeEvent<'_>,
    change: &DocumentChange<'_>,
    full: Option<RawValue<'_>>,
    description: Option<&Document>,
    out: &mut DocumentBuilder<'_>,
) {
    if let Some(full) = full {
        out.append("fullDocument", full);
    }
    append_namespace("ns", event.namespace, out);
    out.append("documentKey", &change.document_key());
    if let Some(description) = description {
        out.append("updateDescription", description);
    }
}

/// Appends what a change of a definition shows beside its namespace; all but the new name of a collection in expanded events
/// alone.
fn append_definition(
    event: &ChangeEvent<'_>,
    kind: DefinitionKind,
    body: RawDocument<'_>,
    options: &Options,
    out: &mut DocumentBuilder<'_>,
) {
    let target = body.get_str("to");
    if let Some(target) = target {
        append_namespace("to", target, out);
    }
    if !options.shows_expanded_events {
        return;
    }
    match kind {
        DefinitionKind::Drop | DefinitionKind::DropDatabase => {}
        DefinitionKind::Rename => {
            let mut description = out.document("operationDescription");
            if let Some(target) = target {
                append_namespace("to", target, &mut description);
            }
            if let Some(dropped) = body.get("dropTarget") {
                description.append("dropTarget", dropped);
            }
            description.finish();
        }
        DefinitionKind::CreateIndexes | DefinitionKind::DropIndexes => {
            let mut description = out.document("operationDescription");
            if let Some(indexes) = body.get_array("indexes") {
                description.append("indexes", RawValue::Array(indexes));
            }
            description.finish();
        }
        DefinitionKind::Create => {
            let mut description = out.document("operationDescription");
            for option in body.get_document("o").unwrap_or(RawDocument::EMPTY) {
                description.append_element(option);
            }
            if !is_of_view(body) {
                let id_index = doc! { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX_NAME };
                description.append("idIndex", &id_index);
            }
            description.finish();
        }
        DefinitionKind::Modify => {
            let mut description = out.document("operationDescription");
            for option in body.get_document("o").unwrap_or(RawDocument::EMPTY) {
                description.append_element(option);
            }
            description.finish();
            append_state_before(event, body, out);
        }
    }
}

/// Appends the options of a collection, and of the index if it is one that changed, as they were before a collMod.
fn append_state_before(
    event: &ChangeEvent<'_>,
    body: RawDocument<'_>,
    out: &mut DocumentBuilder<'_>,
) {
    let was = body.get_document("was").unwrap_or(RawDocument::EMPTY);
    let mut before = out.document("stateBeforeChange");
    let mut of_collection = before.document("collectionOptions");
    if let Some(uuid) = event.uuid.as_ref().filter(|_| !is_of_view(body)) {
        append_uuid("uuid", uuid, &mut of_collection);
    }
    for option in was.iter().filter(|option| option.name() != "index") {
        of_collection.append_element(option);
    }
    of_collection.finish();
    if let Some(index) = was.get_document("index") {
        let mut of_index = before.document("indexOptions");
        for option in index.iter().filter(|option| option.name() != "name") {
            of_index.append_element(option);
        }
        of_index.finish();
    }
    before.finish();
}

/// Appends `{db, coll}`; of a database only its name.
fn append_namespace(name: &str, namespace: &str, out: &mut DocumentBuilder<'_>) {
    let mut shown = out.document(name);
    match namespace.split_once('.') {
        Some((database, collection)) => {
            shown.append("db", database);
            shown.append("coll", collection);
        }
        None => {
            shown.append("db", namespace);
        }
    }
    shown.finish();
}

fn append_uuid(name: &str, uuid: &[u8; 16], out: &mut DocumentBuilder<'_>) {
    out.append(
        name,
        RawValue::Binary(RawBinary {
            subtype: UUID_SUBTYPE,
            bytes: uuid,
        }),
    );
}
