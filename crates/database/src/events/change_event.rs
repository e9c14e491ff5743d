//! One change as whoever reads the journal meets it. All of it is borrowed from the journal's bytes.

use quarry_bson::{Document, RawDocument};
use quarry_storage::{Op, WriteBatch};
use smallvec::SmallVec;

use super::change_point::ChangePoint;
use crate::commit::changes::{Change, ChangeKind};
use crate::commit::definition_event::{DefinitionKind, RecordDefinition};
use crate::commit::payload::{Delta, Payload};
use crate::commit::session_section::RecordSession;
use crate::error::{Error, Result};

/// A change of a document or of a definition.
pub struct ChangeEvent<'e> {
    /// The place behind it.
    pub point: ChangePoint,
    /// The time of its commit, which whoever was answered for the commit was told as well.
    pub cluster_time: u64,
    /// When its record was made, in milliseconds since 1970.
    pub wall_ms: i64,
    /// `database.collection` as it was called then; of a dropped database its name.
    pub namespace: &'e str,
    /// The UUID of the collection, where there is one.
    pub uuid: Option<[u8; 16]>,
    /// The session of the record. Only of a transaction do events tell it.
    pub session: Option<RecordSession<'e>>,
    /// The change.
    pub body: ChangeBody<'e>,
}

/// The change that an event tells of.
pub enum ChangeBody<'e> {
    /// A document was inserted, changed, replaced or deleted.
    Document(DocumentChange<'e>),
    /// A collection, a database or an index was made, changed or dropped.
    Definition {
        /// Which definition changed, and how.
        kind: DefinitionKind,
        /// The rest: docs/formats/keyspace.md names the fields.
        body: RawDocument<'e>,
    },
}

/// The change of a document.
pub struct DocumentChange<'e> {
    /// The fate of the document.
    pub kind: ChangeKind,
    /// The document as the change left it; none of one that is deleted.
    pub document: Option<RawDocument<'e>>,
    /// The key of a deleted document.
    key: Option<RawDocument<'e>>,
    /// Which fields an update has changed, if the record says.
    pub description: Option<&'e [u8]>,
    /// The document before the change, where its collection keeps that.
    pub pre_image: Option<RawDocument<'e>>,
}

impl DocumentChange<'_> {
    /// The document's key: `{_id: ...}`.
    pub fn document_key(&self) -> Document {
        if let Some(key) = self.key {
            return key.to_owned_document();
        }
        let mut key = Document::new();
        let id = self.document.and_then(|document| document.get("_id"));
        if let Some(id) = id {
            key.append("_id", id);
        }
        key
    }
}

/// The operations of a record's batch, to be asked by position.
pub(super) struct RecordOps<'e>(SmallVec<[Op<'e>; 8]>);

impl<'e> RecordOps<'e> {
    pub fn of(payload: &Payload<'e>) -> RecordOps<'e> {
        RecordOps(WriteBatch::ops_in(payload.batch).collect())
    }

    /// The change of a document, from what the record and its batch say.
    pub fn change(&self, change: &Change<'e>) -> Result<DocumentChange<'e>> {
        let broken =
            || Error::Corrupt("a journal record names a change that is not there".to_owned());
        let op = change.position.and_then(|position| self.0.get(position));
        let document = match (op, change.kind.is_delete()) {
            (Some(Op::Put(_, document)), false) => Some(RawDocument::new(document)?),
            (Some(Op::Delete(_)), true) => None,
            _ => return Err(broken()),
        };
        let raw = |bytes: Option<&'e [u8]>| bytes.map(RawDocument::new).transpose();
        Ok(DocumentChange {
            kind: change.kind,
            document,
            key: raw(change.details.key)?,
            description: change.details.description,
            pre_image: raw(change.details.pre_image)?,
        })
    }
}

/// The event of a document's change.
pub(super) fn document_event<'e>(
    payload: &Payload<'e>,
    delta: &Delta<'e>,
    (point, cluster_time): (ChangePoint, u64),
    body: DocumentChange<'e>,
) -> Result<ChangeEvent<'e>> {
    Ok(ChangeEvent {
        point,
        cluster_time,
        wall_ms: payload.wall_ms,
        namespace: text(delta.namespace)?,
        uuid: Some(delta.uuid),
        session: payload.session,
        body: ChangeBody::Document(body),
    })
}

/// The event of a definition's change.
pub(super) fn definition_event<'e>(
    payload: &Payload<'e>,
    definition: &RecordDefinition<'e>,
    (point, cluster_time): (ChangePoint, u64),
) -> Result<ChangeEvent<'e>> {
    let body = RawDocument::new(definition.body)?;
    let uuid = match body.get("ui") {
        Some(quarry_bson::RawValue::Binary(binary)) => binary.bytes.try_into().ok(),
        _ => None,
    };
    Ok(ChangeEvent {
        point,
        cluster_time,
        wall_ms: payload.wall_ms,
        namespace: definition.names()[0].unwrap_or_default(),
        uuid,
        session: payload.session,
        body: ChangeBody::Definition {
            kind: definition.kind,
            body,
        },
    })
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| {
        Error::Corrupt("a journal record names a collection that is no text".to_owned())
    })
}
