//! The journal record of one committed batch: what changes, by how much, and what change streams will need of it.
//!
//! ```text
//! version u8 = 2 | flags u8 | wall time i64 LE, ms
//! [session, if SESSION: see session_section]
//! count of collections varint | each: ident varint, UUID 16 bytes, name (length varint, `db.collection`),
//!                              documents zigzag varint, bytes zigzag varint
//! count of changes varint | bytes varint | the changes: see changes
//! [count of definitions varint | bytes varint | the definitions: see definition_event, if DEFINITIONS]
//! the rest: the batch (quarry_storage::WriteBatch)
//! ```
//! Replay and a live commit read it with the same function. Sections that a commit has no use for say their length, so that
//! they are passed over in one step.
//!
//! Version 1 is read and no longer written: it has no session, no definitions, one UUID at most, and of changes their kinds.

use std::time::{SystemTime, UNIX_EPOCH};

use quarry_storage::WriteBatch;

use super::changes::{Change, Changes, begins_with_insert, read_change, read_change_v1};
use super::definition_event::{DefinitionEvent, RecordDefinition, read_definition};
use super::session_section::{RecordSession, SessionSection, read_session};
use crate::error::{Error, Result};
use crate::keyspace::ident::Ident;
use crate::keyspace::varint::{read_i64, read_len, read_u64, write_i64, write_len, write_u64};

pub use super::changes::{ChangeDetails, ChangeKind};

/// The version of the record's header, which docs/formats/keyspace.md describes.
pub const VERSION: u8 = 2;
/// The version before, which is read.
const VERSION_1: u8 = 1;

/// The batch has catalog entries, or marks of dropped databases or builds: the catalog's gate is shut while it is applied,
/// because memory follows it.
pub const CATALOG: u8 = 1;
/// Idents were allocated: the group carries the high-water mark.
pub const ALLOCATED: u8 = 2;
/// In version 1 a UUID follows; in version 2 a session.
const SESSION: u8 = 4;
/// The batch marks fields of indexes that have met an array. Loaded indexes are given the marks, and no gate is shut.
pub const MARKS: u8 = 8;
const DEFINITIONS: u8 = 16;
/// A document is changed several times: its key occurs as often in the batch, where the last one counts.
pub const REPEATS: u8 = 32;
const FLAGS: u8 = CATALOG | ALLOCATED | SESSION | MARKS | DEFINITIONS | REPEATS;
const FLAGS_1: u8 = CATALOG | ALLOCATED | SESSION;

/// A collection of which a record changes documents, and by how much its document count and data size change. It is named even
/// when neither changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta<'a> {
    /// The collection.
    pub ident: Ident,
    /// Its UUID; zeros in a record of version 1 that names several collections.
    pub uuid: [u8; 16],
    /// Its name when the record was made, `db.collection`; empty in a record of version 1.
    pub namespace: &'a [u8],
    /// By how much the number of its documents changes.
    pub documents: i64,
    /// By how many bytes its data changes.
    pub bytes: i64,
}

impl Delta<'_> {
    /// Whether it changes anything that is counted.
    pub fn counts(&self) -> bool {
        self.documents != 0 || self.bytes != 0
    }
}

/// The parts of a record before its batch.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    /// The flags of the record: [`CATALOG`], [`ALLOCATED`], [`MARKS`] and [`REPEATS`].
    pub flags: u8,
    /// When the record was made, in milliseconds since 1970.
    pub wall_ms: i64,
    /// The session that the record belongs to, if it does.
    pub session: Option<SessionSection<'a>>,
    /// The collections whose documents change, each once.
    pub deltas: &'a [Delta<'a>],
    /// The changes of documents.
    pub changes: Option<&'a Changes>,
    /// The changes of definitions.
    pub definitions: &'a [DefinitionEvent],
}

impl Header<'_> {
    /// The header of a record that changes neither documents nor anything that memory follows.
    pub const PLAIN: Header<'static> = Header {
        flags: 0,
        wall_ms: 0,
        session: None,
        deltas: &[],
        changes: None,
        definitions: &[],
    };

    /// The header of a record that changes what the catalog keeps, and no documents.
    pub const CATALOG_ONLY: Header<'static> = Header {
        flags: CATALOG,
        ..Header::PLAIN
    };

    /// The record of a batch.
    pub fn record(&self, batch: &WriteBatch) -> Vec<u8> {
        let changes = self.changes.map_or(0, Changes::bytes_len);
        let mut record = Vec::with_capacity(96 + changes + batch.bytes_len());
        self.write(&mut record);
        record.extend_from_slice(batch.as_bytes());
        record
    }

    /// Appends the header; the batch follows it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        let session = flag(self.session.is_some(), SESSION);
        let definitions = flag(!self.definitions.is_empty(), DEFINITIONS);
        out.extend_from_slice(&[VERSION, self.flags | session | definitions]);
        out.extend_from_slice(&self.wall_ms.to_le_bytes());
        if let Some(session) = &self.session {
            session.write(out);
        }
        write_len(out, self.deltas.len());
        for delta in self.deltas {
            write_u64(out, delta.ident.0);
            out.extend_from_slice(&delta.uuid);
            write_len(out, delta.namespace.len());
            out.extend_from_slice(delta.namespace);
            write_i64(out, delta.documents);
            write_i64(out, delta.bytes);
        }
        write_len(out, self.changes.map_or(0, Changes::len));
        write_section(out, |out| {
            if let Some(changes) = self.changes {
                changes.write(self.deltas.len() > 1, out);
            }
        });
        if definitions != 0 {
            write_len(out, self.definitions.len());
            write_section(out, |out| {
                self.definitions
                    .iter()
                    .for_each(|definition| definition.write(out));
            });
        }
    }
}

/// Appends what `write` does behind its length, which has one byte where that is enough.
fn write_section(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0);
    write(out);
    let len = out.len() - start - 1;
    if len < 0x80 {
        out[start] = len as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    write_len(&mut prefix, len);
    out.splice(start..=start, prefix);
}

/// A record as read back.
pub struct Payload<'a> {
    version: u8,
    /// The flags of the record: [`CATALOG`], [`ALLOCATED`], [`MARKS`], [`REPEATS`] and which sections it has.
    pub flags: u8,
    /// When the record was made, in milliseconds since 1970.
    pub wall_ms: i64,
    /// The session that the record belongs to, if it does.
    pub session: Option<RecordSession<'a>>,
    deltas: Section<'a>,
    /// The UUID that stands before the only delta of version 1.
    uuid: Option<&'a [u8; 16]>,
    changes: Section<'a>,
    definitions: Section<'a>,
    /// The batch in its byte form.
    pub batch: &'a [u8],
}

/// Entries that are read when somebody wants them.
#[derive(Clone, Copy, Default)]
struct Section<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Section<'a> {
    /// The results of `read` for each entry, up to the first that is broken.
    #[inline]
    fn entries<T>(
        self,
        read: impl Fn(&'a [u8]) -> Option<(T, &'a [u8])>,
    ) -> impl Iterator<Item = T> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| {
            let (entry, behind) = read(rest)?;
            rest = behind;
            Some(entry)
        })
    }

    /// Like `entries`, and fails where there are fewer than the record says.
    fn all_entries<T>(
        self,
        read: impl Fn(&'a [u8]) -> Option<(T, &'a [u8])>,
    ) -> impl Iterator<Item = Result<T>> {
        let (mut rest, mut left) = (self.bytes, self.count);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let Some((entry, behind)) = read(rest) else {
                left = 0;
                return Some(Err(Error::Corrupt(
                    "a journal record has fewer changes than it says".to_owned(),
                )));
            };
            rest = behind;
            Some(Ok(entry))
        })
    }
}

impl<'a> Payload<'a> {
    /// Reads the header of a record. Fails as corrupt if it is broken or of another version.
    pub fn parse(bytes: &'a [u8]) -> Result<Payload<'a>> {
        parse(bytes).ok_or_else(|| {
            Error::Corrupt("a journal record has a broken or unknown header".to_owned())
        })
    }

    /// Whether the record has the flag.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether the catalog follows the record: its gate is shut while it is applied.
    pub fn touches_catalog(&self) -> bool {
        self.has(CATALOG)
    }

    /// Whether the batch may have multikey marks, which loaded indexes are given before the engine shows them.
    pub fn may_have_marks(&self) -> bool {
        self.has(CATALOG | MARKS)
    }

    /// Whether it was written since records tell all that an event needs.
    pub fn tells_events(&self) -> bool {
        self.version == VERSION
    }

    /// The collections whose documents change.
    #[inline]
    pub fn deltas(&self) -> impl Iterator<Item = Delta<'a>> {
        let (version, uuid) = (self.version, self.uuid);
        (self.deltas).entries(move |bytes| match version {
            VERSION_1 => read_delta_v1(bytes, uuid),
            _ => read_delta(bytes),
        })
    }

    /// The number of documents that change.
    pub fn changes_len(&self) -> usize {
        self.changes.count
    }

    /// Whether all that changes is one document, which is new.
    #[inline]
    pub fn is_one_insert(&self) -> bool {
        self.changes.count == 1 && begins_with_insert(self.changes.bytes)
    }

    /// The changes of documents, in the order in which they were made. A broken one ends them: fewer than `changes_len`.
    #[inline]
    pub fn changes(&self) -> impl Iterator<Item = Change<'a>> {
        let (version, has_several) = (self.version, self.deltas.count > 1);
        (self.changes).entries(move |bytes| match version {
            VERSION_1 => read_change_v1(bytes),
            _ => read_change(bytes, has_several),
        })
    }

    /// Like `changes`; a broken one is an error, the last.
    pub fn all_changes(&self) -> impl Iterator<Item = Result<Change<'a>>> {
        let (version, has_several) = (self.version, self.deltas.count > 1);
        (self.changes).all_entries(move |bytes| match version {
            VERSION_1 => read_change_v1(bytes),
            _ => read_change(bytes, has_several),
        })
    }

    /// The number of definitions that change.
    pub fn definitions_len(&self) -> usize {
        self.definitions.count
    }

    /// The changes of definitions, in order. A broken one ends them: fewer than `definitions_len`.
    pub fn definitions(&self) -> impl Iterator<Item = RecordDefinition<'a>> {
        self.definitions.entries(read_definition)
    }

    /// Like `definitions`; a broken one is an error, the last.
    pub fn all_definitions(&self) -> impl Iterator<Item = Result<RecordDefinition<'a>>> {
        self.definitions.all_entries(read_definition)
    }
}

#[inline]
fn parse(bytes: &[u8]) -> Option<Payload<'_>> {
    let [version, flags, rest @ ..] = bytes else {
        return None;
    };
    let (wall_ms, rest) = rest.split_first_chunk::<8>()?;
    let payload = Payload {
        version: *version,
        flags: *flags,
        wall_ms: i64::from_le_bytes(*wall_ms),
        session: None,
        deltas: Section::default(),
        uuid: None,
        changes: Section::default(),
        definitions: Section::default(),
        batch: &[],
    };
    match *version {
        VERSION if flags & !FLAGS == 0 => parse_sections(payload, rest),
        VERSION_1 if flags & !FLAGS_1 == 0 => parse_sections_v1(payload, rest),
        _ => None,
    }
}

#[inline]
fn parse_sections<'a>(mut payload: Payload<'a>, mut rest: &'a [u8]) -> Option<Payload<'a>> {
    if payload.has(SESSION) {
        let session;
        (session, rest) = read_session(rest)?;
        payload.session = Some(session);
    }
    (payload.deltas, rest) = count_deltas(rest, skip_delta)?;
    (payload.changes, rest) = read_section(rest)?;
    if payload.has(DEFINITIONS) {
        (payload.definitions, rest) = read_section(rest)?;
    }
    payload.batch = rest;
    Some(payload)
}

fn parse_sections_v1<'a>(mut payload: Payload<'a>, mut rest: &'a [u8]) -> Option<Payload<'a>> {
    if payload.has(SESSION) {
        let uuid;
        (uuid, rest) = rest.split_first_chunk::<16>()?;
        payload.uuid = Some(uuid);
        payload.flags &= !SESSION;
    }
    (payload.deltas, rest) = count_deltas(rest, |bytes| Some(read_delta_v1(bytes, None)?.1))?;
    let (count, rest) = read_len(rest)?;
    let (bytes, batch) = rest.split_at_checked(count)?;
    payload.changes = Section { count, bytes };
    payload.batch = batch;
    Some(payload)
}

/// Reads past the deltas, of which there are few. Each commit comes through here more than once.
#[inline]
fn count_deltas<'a>(
    bytes: &'a [u8],
    skip: impl Fn(&'a [u8]) -> Option<&'a [u8]>,
) -> Option<(Section<'a>, &'a [u8])> {
    let (count, deltas) = read_len(bytes)?;
    let mut rest = deltas;
    for _ in 0..count {
        rest = skip(rest)?;
    }
    let bytes = &deltas[..deltas.len() - rest.len()];
    Some((Section { count, bytes }, rest))
}

#[inline]
fn read_section(bytes: &[u8]) -> Option<(Section<'_>, &[u8])> {
    let (count, rest) = read_len(bytes)?;
    let (len, rest) = read_len(rest)?;
    let (bytes, rest) = rest.split_at_checked(len)?;
    Some((Section { count, bytes }, rest))
}

/// Passes over a delta; returns what follows. It fails where `read_delta` does.
#[inline]
fn skip_delta(bytes: &[u8]) -> Option<&[u8]> {
    let (_, rest) = read_u64(bytes)?;
    let (_, rest) = rest.split_first_chunk::<16>()?;
    let (len, rest) = read_len(rest)?;
    let (_, rest) = rest.split_at_checked(len)?;
    let (_, rest) = read_u64(rest)?;
    let (_, rest) = read_u64(rest)?;
    Some(rest)
}

#[inline]
fn read_delta(bytes: &[u8]) -> Option<(Delta<'_>, &[u8])> {
    let (ident, rest) = read_u64(bytes)?;
    let (uuid, rest) = rest.split_first_chunk::<16>()?;
    let (len, rest) = read_len(rest)?;
    let (namespace, rest) = rest.split_at_checked(len)?;
    let (documents, rest) = read_i64(rest)?;
    let (size, rest) = read_i64(rest)?;
    let delta = Delta {
        ident: Ident(ident),
        uuid: *uuid,
        namespace,
        documents,
        bytes: size,
    };
    Some((delta, rest))
}

fn read_delta_v1<'a>(bytes: &'a [u8], uuid: Option<&[u8; 16]>) -> Option<(Delta<'a>, &'a [u8])> {
    let (ident, rest) = read_u64(bytes)?;
    let (documents, rest) = read_i64(rest)?;
    let (size, rest) = read_i64(rest)?;
    let delta = Delta {
        ident: Ident(ident),
        uuid: uuid.copied().unwrap_or_default(),
        namespace: &[],
        documents,
        bytes: size,
    };
    Some((delta, rest))
}

/// The wall time of a record that is made now.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::super::definition_event::DefinitionKind;
    use super::*;

    fn delta(ident: u64, uuid: u8, documents: i64, bytes: i64) -> Delta<'static> {
        Delta {
            ident: Ident(ident),
            uuid: [uuid; 16],
            namespace: b"db.collection",
            documents,
            bytes,
        }
    }

    /// Every cut of a header is refused, or found broken by whoever reads the section that it is in.
    fn is_refused_where_it_is_cut(bytes: &[u8], whole: &Payload<'_>) {
        for cut in 0..bytes.len() {
            if let Ok(payload) = Payload::parse(&bytes[..cut]) {
                assert!(payload.batch.len() < whole.batch.len(), "{cut}");
            }
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_written_and_a_cut_one_is_refused() {
        let deltas = [delta(17, 1, -3, i64::MIN), delta(u64::MAX, 2, 1, i64::MAX)];
        let mut changes = Changes::default();
        changes.push_with(
            ChangeKind::Delete,
            1,
            0,
            &ChangeDetails {
                key: Some(b"key"),
                pre_image: Some(&[7; 300]),
                ..ChangeDetails::default()
            },
        );
        let described = ChangeDetails {
            description: Some(b""),
            ..ChangeDetails::default()
        };
        changes.push_with(ChangeKind::Update, 0, 0, &described);
        changes.push(ChangeKind::Insert, 200);
        changes.put_behind(1);
        let definitions = [DefinitionEvent {
            kind: DefinitionKind::Rename,
            body: doc! { "ns": "a.b", "to": "a.c" },
        }];
        let session = SessionSection {
            id: &[9; 16],
            user: Some(&[8; 32]),
            txn_number: -7,
            is_transaction: true,
            statements: &[0, -1, i32::MAX],
        };
        let header = Header {
            flags: CATALOG,
            wall_ms: -5,
            session: Some(session),
            deltas: &deltas,
            changes: Some(&changes),
            definitions: &definitions,
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        bytes.extend_from_slice(b"batch");
        let payload = Payload::parse(&bytes).unwrap();
        assert!(payload.has(CATALOG) && !payload.has(ALLOCATED) && payload.tells_events());
        assert_eq!(payload.wall_ms, -5);
        assert_eq!(payload.deltas().collect::<Vec<_>>(), deltas);
        let read: Vec<_> = payload.changes().collect();
        let told = read
            .iter()
            .map(|change| (change.kind, change.collection, change.position));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (ChangeKind::Delete, 1, Some(0)),
                (ChangeKind::Update, 0, Some(1)),
                (ChangeKind::Insert, 0, Some(201)),
            ]
        );
        assert_eq!(read[0].details.key, Some(&b"key"[..]));
        assert_eq!(read[0].details.pre_image, Some(&[7; 300][..]));
        assert_eq!(read[1].details, described);
        let read: Vec<_> = payload.definitions().collect();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].kind, DefinitionKind::Rename);
        assert_eq!(read[0].body, definitions[0].body.as_bytes());
        let read = payload.session.unwrap();
        assert_eq!((read.id, read.user), (session.id, session.user));
        assert_eq!((read.txn_number, read.is_transaction), (-7, true));
        assert_eq!(
            read.statements().collect::<Vec<_>>(),
            [0, -1, i64::from(i32::MAX)]
        );
        assert_eq!(payload.batch, b"batch");
        is_refused_where_it_is_cut(&bytes, &payload);
    }

    /// A count that a record does not keep is damage to whoever tells of all changes, however large it is.
    #[test]
    fn a_record_with_fewer_changes_than_it_says_is_corrupt() {
        let mut bytes = vec![VERSION, DEFINITIONS];
        bytes.extend_from_slice(&[0; 8]);
        write_len(&mut bytes, 0);
        let mut change = Changes::default();
        change.push(ChangeKind::Insert, 0);
        let mut section = Vec::new();
        change.write(false, &mut section);
        write_len(&mut bytes, usize::MAX);
        write_section(&mut bytes, |out| out.extend_from_slice(&section));
        let definition = DefinitionEvent {
            kind: DefinitionKind::Drop,
            body: doc! { "ns": "a.b" },
        };
        write_len(&mut bytes, usize::MAX);
        write_section(&mut bytes, |out| definition.write(out));
        let payload = Payload::parse(&bytes).unwrap();
        let told = |results: Vec<bool>| assert_eq!(results, [true, false]);
        told(payload.all_changes().map(|change| change.is_ok()).collect());
        told(payload.all_definitions().map(|it| it.is_ok()).collect());
        assert_eq!(
            (payload.changes().count(), payload.definitions().count()),
            (1, 1)
        );
    }

    /// The fewest bytes: what an insert adds to its batch.
    #[test]
    fn a_plain_insert_takes_few_bytes() {
        let mut changes = Changes::default();
        changes.push(ChangeKind::Insert, 0);
        let header = Header {
            deltas: &[delta(100, 3, 1, 300)],
            changes: Some(&changes),
            ..Header::PLAIN
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(bytes.len(), 36 + "db.collection".len());
    }

    /// As the build before wrote it.
    #[test]
    fn a_record_of_version_1_is_read() {
        let mut bytes = vec![1, CATALOG | ALLOCATED | 4];
        bytes.extend_from_slice(&(-5i64).to_le_bytes());
        bytes.extend_from_slice(&[7; 16]);
        // A delta of ident 17, three documents fewer, one byte more; an insert and a delete.
        bytes.extend_from_slice(&[1, 17, 5, 2, 2, 1, 3]);
        bytes.extend_from_slice(b"batch");
        let payload = Payload::parse(&bytes).unwrap();
        assert!(payload.has(CATALOG) && payload.has(ALLOCATED) && !payload.tells_events());
        assert_eq!((payload.wall_ms, payload.session), (-5, None));
        let deltas: Vec<_> = payload.deltas().collect();
        let expected = Delta {
            namespace: b"",
            ..delta(17, 7, -3, 1)
        };
        assert_eq!(deltas, [expected]);
        let kinds = payload
            .changes()
            .map(|change| (change.kind, change.position));
        assert_eq!(
            kinds.collect::<Vec<_>>(),
            [(ChangeKind::Insert, None), (ChangeKind::Delete, None)]
        );
        assert_eq!(payload.batch, b"batch");
        is_refused_where_it_is_cut(&bytes, &payload);
        for broken in [[0, 0], [3, 0], [1, 8], [2, 64]] {
            bytes[..2].copy_from_slice(&broken);
            assert!(Payload::parse(&bytes).is_err(), "{broken:?}");
        }
    }
}
