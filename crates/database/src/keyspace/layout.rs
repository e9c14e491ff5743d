//! The keyspace: which bytes name what (docs/formats/keyspace.md shows them all).
//!
//! `0x00` is the shared system prefix, `0x01` this node's own. Every other first byte begins the prefix of a
//! collection or an index (`ident`). Nothing outside this module builds a key of the system prefixes.

use crate::keyspace::ident::Ident;

/// The version of the layout; a reader refuses a newer one. An older one down to `FORMAT_VERSION_OLDEST` is read as it
/// is and named anew at the start: version 2 added cut index keys, version 3 views, version 4 time series, and none changed anything
/// that was there.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest version that is read.
pub const FORMAT_VERSION_OLDEST: u32 = 1;

/// The key of the format version, a u32.
pub const FORMAT_VERSION_KEY: &[u8] = &[0x00, 0x00];
/// The key of the database's UUID.
pub const DATABASE_UUID_KEY: &[u8] = &[0x00, 0x01];
/// The key of the next ident, a u64.
pub const HIGH_WATER_MARK_KEY: &[u8] = &[0x00, 0x02];
/// The key of the last applied LSN, a u64.
pub const APPLIED_LSN_KEY: &[u8] = quarry_storage::APPLIED_LSN_KEY;
/// The key of the engine's name.
pub const ENGINE_NAME_KEY: &[u8] = &[0x01, 0x01];

/// The prefix of catalog entries.
pub const CATALOG: &[u8] = &[0x00, 0x10];
/// The prefix of the marks of dropped idents.
pub const DROPPED: &[u8] = &[0x00, 0x11];
/// The prefix of the counters of collections.
pub const COUNTERS: &[u8] = &[0x00, 0x13];
/// The prefix of the marks of fields that have met an array.
pub const MULTIKEY: &[u8] = &[0x00, 0x14];
/// The prefix of the marks of indexes that are being built.
pub const BUILDING: &[u8] = &[0x00, 0x15];
/// The prefix of the marks of dropped databases.
pub const DROPPED_DATABASE: &[u8] = &[0x00, 0x16];

/// The mark of a capped collection whose newest document went: no RecordId up to the one in the value is given again.
const RECORD_ID: &[u8] = &[0x00, 0x17];
/// The prefix of what sessions have written.
pub const SESSIONS: &[u8] = &[0x00, 0x18];
/// The prefix of the marks of indexes whose documents expire.
pub const EXPIRING: &[u8] = &[0x00, 0x19];
/// The bytes of an ident in a key of the system.
const IDENT_BYTES: usize = 8;
/// The bytes that tell one session from another.
pub const SESSION_BYTES: usize = 16;

/// `0x00 0x10 database 0x00 collection`: no database name holds a NUL, so one database is one range.
pub fn catalog_key(database: &str, collection: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(CATALOG.len() + database.len() + 1 + collection.len());
    key.extend_from_slice(CATALOG);
    key.extend_from_slice(database.as_bytes());
    key.push(0);
    key.extend_from_slice(collection.as_bytes());
    key
}

/// Database and collection of a catalog key.
pub fn split_catalog_key(key: &[u8]) -> Option<(&str, &str)> {
    let name = std::str::from_utf8(key.strip_prefix(CATALOG)?).ok()?;
    name.split_once('\0')
}

/// The key of the mark that the ident was dropped.
pub fn dropped_key(ident: Ident) -> Vec<u8> {
    with_ident(DROPPED, ident)
}

/// The key of the counters of the collection.
pub fn counters_key(ident: Ident) -> [u8; COUNTERS.len() + IDENT_BYTES] {
    let mut key = [0; COUNTERS.len() + IDENT_BYTES];
    let (prefix, number) = key.split_at_mut(COUNTERS.len());
    prefix.copy_from_slice(COUNTERS);
    number.copy_from_slice(&ident.0.to_be_bytes());
    key
}

/// `0x00 0x14 ident component`: the component-th field of that index has met an array.
pub fn multikey_key(ident: Ident, component: u8) -> Vec<u8> {
    let mut key = multikey_prefix(ident);
    key.push(component);
    key
}

/// The beginning of the keys of an index's multikey marks.
pub fn multikey_prefix(ident: Ident) -> Vec<u8> {
    with_ident(MULTIKEY, ident)
}

/// `0x00 0x17 ident`: the highest RecordId that the capped collection has given, where its documents do not show it.
pub fn record_id_key(ident: Ident) -> Vec<u8> {
    with_ident(RECORD_ID, ident)
}

/// `0x00 0x15 ident`: that index is being built.
pub fn building_key(ident: Ident) -> Vec<u8> {
    with_ident(BUILDING, ident)
}

/// `0x00 0x19 ident`: the documents of that index expire; the value is the name of its collection.
pub fn expiring_key(ident: Ident) -> Vec<u8> {
    with_ident(EXPIRING, ident)
}

/// `0x00 0x18 session`: everything that the session has written.
pub fn session_prefix(session: &[u8; SESSION_BYTES]) -> Vec<u8> {
    [SESSIONS, session].concat()
}

/// `0x00 0x18 session statement`: the record of the batch in which that statement is the first.
pub fn session_key(
    session: &[u8; SESSION_BYTES],
    statement: u32,
) -> [u8; SESSIONS.len() + SESSION_BYTES + 4] {
    let mut key = [0; SESSIONS.len() + SESSION_BYTES + 4];
    let (prefix, rest) = key.split_at_mut(SESSIONS.len());
    prefix.copy_from_slice(SESSIONS);
    rest[..SESSION_BYTES].copy_from_slice(session);
    rest[SESSION_BYTES..].copy_from_slice(&statement.to_be_bytes());
    key
}

/// The session and the statement of a key made by `session_key`.
pub fn split_session_key(key: &[u8]) -> Option<([u8; SESSION_BYTES], u32)> {
    let rest = key.strip_prefix(SESSIONS)?;
    let (session, statement) = rest.split_first_chunk::<SESSION_BYTES>()?;
    Some((*session, u32::from_be_bytes(statement.try_into().ok()?)))
}

/// The ident (and what follows it) of a key of one of the kinds above that begin with an ident.
pub fn split_ident<'k>(kind: &[u8], key: &'k [u8]) -> Option<(Ident, &'k [u8])> {
    let rest = key.strip_prefix(kind)?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    Some((Ident(u64::from_be_bytes(*number)), rest))
}

/// `0x00 0x16 database`: its collections below the ident in the value went with it.
pub fn dropped_database_key(database: &str) -> Vec<u8> {
    [DROPPED_DATABASE, database.as_bytes()].concat()
}

/// The database of a key made by `dropped_database_key`.
pub fn split_dropped_database(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(DROPPED_DATABASE)?).ok()
}

/// An ident as a value holds it.
pub fn read_ident(value: &[u8]) -> Option<Ident> {
    value.try_into().ok().map(u64::from_le_bytes).map(Ident)
}

fn with_ident(kind: &[u8], ident: Ident) -> Vec<u8> {
    let mut key = Vec::with_capacity(kind.len() + 9);
    key.extend_from_slice(kind);
    key.extend_from_slice(&ident.0.to_be_bytes());
    key
}
