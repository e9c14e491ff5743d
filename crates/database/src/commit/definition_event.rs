//! Changes of definitions, as a journal record tells them to change streams and to other nodes: what the puts and deletes of
//! catalog entries in its batch mean.
//!
//! ```text
//! definition: kind u8 | length varint | document
//! ```
//! The document has `ns` (`db.collection`; of a dropped database its name alone) and `ui`, the UUID of the collection, and by
//! kind what else the event shows: `o` of a creation is its options; `to` of a rename the new name, and `dropTarget` the UUID
//! of the collection that stood there; `drops` of a dropped database how many drops of its collections come before it in the
//! record, if they do; `indexes` the specifications of the indexes that were made or dropped; `o` and
//! `was` of a modification the options that changed, as they are and as they were.

use quarry_bson::{Document, RawBinary, RawDocument, RawValue, Value};

use crate::catalog::collection::Collection;
use crate::catalog::view::VIEW_ON;
use crate::keyspace::varint::{read_len, write_len};

/// Which definition changed, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DefinitionKind {
    /// A collection was made.
    Create = 1,
    /// A collection was dropped.
    Drop = 2,
    /// A collection got another name.
    Rename = 3,
    /// A database was dropped with all that was in it.
    DropDatabase = 4,
    /// Indexes were made, and are used from now on.
    CreateIndexes = 5,
    /// Indexes were dropped.
    DropIndexes = 6,
    /// Options of a collection, or of one of its indexes, changed.
    Modify = 7,
}

impl DefinitionKind {
    fn of(byte: u8) -> Option<DefinitionKind> {
        Some(match byte {
            1 => DefinitionKind::Create,
            2 => DefinitionKind::Drop,
            3 => DefinitionKind::Rename,
            4 => DefinitionKind::DropDatabase,
            5 => DefinitionKind::CreateIndexes,
            6 => DefinitionKind::DropIndexes,
            7 => DefinitionKind::Modify,
            _ => return None,
        })
    }
}

/// The field of a dropped database that counts the drops of its collections before it.
pub const DROPS_FIELD: &str = "drops";

/// The field that marks the drop of a view.
const VIEW_FIELD: &str = "view";

/// Whether the document of a change of a definition tells of a view.
pub fn is_of_view(body: RawDocument<'_>) -> bool {
    let options = body.get_document("o");
    body.get(VIEW_FIELD).is_some() || options.is_some_and(|options| options.get(VIEW_ON).is_some())
}

/// A change of a definition on its way into a record.
#[derive(Clone, Debug)]
pub struct DefinitionEvent {
    /// Which definition changed, and how.
    pub kind: DefinitionKind,
    /// The document that tells the rest.
    pub body: Document,
}

impl DefinitionEvent {
    /// An event that says no more than whose definition changed; `namespace` of a dropped database is its name.
    pub fn new(kind: DefinitionKind, namespace: &str, uuid: Option<[u8; 16]>) -> DefinitionEvent {
        let mut body = Document::new();
        body.append("ns", namespace);
        if let Some(uuid) = uuid {
            append_uuid(&mut body, "ui", &uuid);
        }
        DefinitionEvent { kind, body }
    }

    /// The drop of a collection or a view.
    pub fn drop_of(collection: &Collection) -> DefinitionEvent {
        let (name, uuid) = (collection.namespace.as_str(), Some(collection.uuid));
        let event = DefinitionEvent::new(DefinitionKind::Drop, name, uuid);
        match collection.view.is_some() {
            true => event.with(VIEW_FIELD, true),
            false => event,
        }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> DefinitionEvent {
        self.body.append(name, value);
        self
    }

    /// Adds a UUID.
    #[must_use]
    pub fn with_uuid(mut self, name: &str, uuid: &[u8; 16]) -> DefinitionEvent {
        append_uuid(&mut self.body, name, uuid);
        self
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        write_len(out, self.body.as_bytes().len());
        out.extend_from_slice(self.body.as_bytes());
    }
}

fn append_uuid(body: &mut Document, name: &str, uuid: &[u8; 16]) {
    let binary = RawBinary {
        subtype: 4,
        bytes: uuid,
    };
    body.append(name, RawValue::Binary(binary));
}

/// A change of a definition as a record has it: its kind, and the bytes of its document, which nobody has checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordDefinition<'a> {
    /// Which definition changed, and how.
    pub kind: DefinitionKind,
    /// The document that tells the rest.
    pub body: &'a [u8],
}

impl<'a> RecordDefinition<'a> {
    /// The names that it is about: the collection's (of a dropped database its own), and of a rename the new one.
    pub fn names(&self) -> [Option<&'a str>; 2] {
        let body = RawDocument::new(self.body).ok();
        ["ns", "to"].map(|field| body.and_then(|body| body.get_str(field)))
    }

    /// Whether it is about a view, of which streams over collections know nothing.
    pub fn is_of_view(&self) -> bool {
        RawDocument::new(self.body).is_ok_and(is_of_view)
    }

    /// Whether a database is dropped whose collections are not told of one by one.
    pub fn stands_for_collections(&self) -> bool {
        let body = RawDocument::new(self.body);
        self.kind == DefinitionKind::DropDatabase
            && body.is_ok_and(|body| body.get(DROPS_FIELD).is_none())
    }
}

/// Reads one; returns it and what follows. None if it is broken.
pub(super) fn read_definition(bytes: &[u8]) -> Option<(RecordDefinition<'_>, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (len, rest) = read_len(rest)?;
    let (body, rest) = rest.split_at_checked(len)?;
    let kind = DefinitionKind::of(kind)?;
    Some((RecordDefinition { kind, body }, rest))
}
