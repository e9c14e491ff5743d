//! The journal record of one committed batch: what changes, by how much, and what change streams will need of it.
//!
//! ```text
//! version u8 = 1 | flags u8 | wall time i64 LE, ms | [collection UUID, 16 bytes, if COLLECTION]
//! count of deltas varint | each: ident varint, documents zigzag varint, bytes zigzag varint
//! count of operations varint | each: kind u8 (1 insert, 2 update, 3 delete), in the order of the record puts and deletes
//! the rest: the batch (quarry_storage::WriteBatch)
//! ```
//! Replay and a live commit read it with the same function.

use std::time::{SystemTime, UNIX_EPOCH};

use quarry_storage::WriteBatch;

use crate::error::{Error, Result};
use crate::keyspace::ident::Ident;
use crate::keyspace::varint::{read_len, read_u64, write_len, write_u64};

/// The version of the record's header, which docs/formats/keyspace.md describes.
pub const VERSION: u8 = 1;

/// The batch has keys of the system prefix, so memory (catalog, counters) follows it.
pub const SYSTEM: u8 = 1;
/// Idents were allocated: the group carries the high-water mark.
pub const ALLOCATED: u8 = 2;
const COLLECTION: u8 = 4;
const FLAGS: u8 = SYSTEM | ALLOCATED | COLLECTION;

/// The change of one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum OperationKind {
    /// The document is new.
    Insert = 1,
    /// The document has changed.
    Update = 2,
    /// The document has gone.
    Delete = 3,
}

/// A change of a collection's document count and data size. A record that changes documents names their collection so,
/// even when neither count nor size changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta {
    /// The collection.
    pub ident: Ident,
    /// By how much the number of its documents changes.
    pub documents: i64,
    /// By how many bytes its data changes.
    pub bytes: i64,
}

impl Delta {
    /// Whether it changes anything that is counted.
    pub fn counts(&self) -> bool {
        self.documents != 0 || self.bytes != 0
    }
}

/// The parts of a record before its batch.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    /// The flags of the record: [`SYSTEM`] and [`ALLOCATED`].
    pub flags: u8,
    /// When the record was made, in milliseconds since 1970.
    pub wall_ms: i64,
    /// The UUID of the collection, if the record is of one.
    pub collection: Option<[u8; 16]>,
    /// The changes of counts and sizes, by collection.
    pub deltas: &'a [Delta],
    /// The kind of each document's change.
    pub operations: &'a [OperationKind],
}

impl Header<'_> {
    /// The header of a record that changes system keys and no collection.
    pub const SYSTEM_ONLY: Header<'static> = Header {
        flags: SYSTEM,
        wall_ms: 0,
        collection: None,
        deltas: &[],
        operations: &[],
    };

    /// The record of a batch.
    pub fn record(&self, batch: &WriteBatch) -> Vec<u8> {
        let mut record = Vec::with_capacity(64 + batch.bytes_len());
        self.write(&mut record);
        record.extend_from_slice(batch.as_bytes());
        record
    }

    /// Appends the header; the batch follows it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(
            self.flags
                | if self.collection.is_some() {
                    COLLECTION
                } else {
                    0
                },
        );
        out.extend_from_slice(&self.wall_ms.to_le_bytes());
        if let Some(uuid) = &self.collection {
            out.extend_from_slice(uuid);
        }
        write_len(out, self.deltas.len());
        for delta in self.deltas {
            write_u64(out, delta.ident.0);
            write_u64(out, zigzag(delta.documents));
            write_u64(out, zigzag(delta.bytes));
        }
        write_len(out, self.operations.len());
        out.extend(self.operations.iter().map(|&kind| kind as u8));
    }
}

/// A record as read back.
pub struct Payload<'a> {
    /// The flags of the record: [`SYSTEM`], [`ALLOCATED`] and whether a UUID follows.
    pub flags: u8,
    /// When the record was made, in milliseconds since 1970.
    pub wall_ms: i64,
    /// The UUID of the collection, if the record is of one.
    pub collection: Option<&'a [u8; 16]>,
    deltas: &'a [u8],
    delta_count: usize,
    /// The kind of each document's change, as a byte.
    pub operations: &'a [u8],
    /// The batch in its byte form.
    pub batch: &'a [u8],
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

    /// The changes of counts and sizes, by collection.
    pub fn deltas(&self) -> impl Iterator<Item = Delta> + 'a {
        let mut rest = self.deltas;
        (0..self.delta_count).map_while(move |_| {
            let (delta, after) = read_delta(rest)?;
            rest = after;
            Some(delta)
        })
    }
}

fn parse(bytes: &[u8]) -> Option<Payload<'_>> {
    let [version, flags, rest @ ..] = bytes else {
        return None;
    };
    if *version != VERSION || flags & !FLAGS != 0 {
        return None;
    }
    let (wall_ms, rest) = rest.split_first_chunk::<8>()?;
    let (collection, rest) = if flags & COLLECTION != 0 {
        let (uuid, rest) = rest.split_first_chunk::<16>()?;
        (Some(uuid), rest)
    } else {
        (None, rest)
    };
    let (delta_count, deltas) = read_len(rest)?;
    let mut rest = deltas;
    for _ in 0..delta_count {
        rest = read_delta(rest)?.1;
    }
    let deltas = &deltas[..deltas.len() - rest.len()];
    let (operation_count, rest) = read_len(rest)?;
    let (operations, batch) = rest.split_at_checked(operation_count)?;
    Some(Payload {
        flags: *flags,
        wall_ms: i64::from_le_bytes(*wall_ms),
        collection,
        deltas,
        delta_count,
        operations,
        batch,
    })
}

#[inline]
fn read_delta(bytes: &[u8]) -> Option<(Delta, &[u8])> {
    let (ident, rest) = read_u64(bytes)?;
    let (documents, rest) = read_u64(rest)?;
    let (size, rest) = read_u64(rest)?;
    Some((
        Delta {
            ident: Ident(ident),
            documents: unzigzag(documents),
            bytes: unzigzag(size),
        },
        rest,
    ))
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
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
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_written_and_a_cut_one_is_refused() {
        let deltas = [
            Delta {
                ident: Ident(17),
                documents: -3,
                bytes: i64::MIN,
            },
            Delta {
                ident: Ident(u64::MAX),
                documents: 1,
                bytes: i64::MAX,
            },
        ];
        let header = Header {
            flags: SYSTEM,
            wall_ms: -5,
            collection: Some([7; 16]),
            deltas: &deltas,
            operations: &[OperationKind::Insert, OperationKind::Delete],
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        let header_len = bytes.len();
        bytes.extend_from_slice(b"batch");
        let payload = Payload::parse(&bytes).unwrap();
        assert!(payload.has(SYSTEM) && !payload.has(ALLOCATED));
        assert_eq!((payload.wall_ms, payload.collection), (-5, Some(&[7; 16])));
        assert_eq!(payload.deltas().collect::<Vec<_>>(), deltas);
        assert_eq!(
            (payload.operations, payload.batch),
            (&[1u8, 3][..], &b"batch"[..])
        );
        for cut in 0..header_len {
            assert!(Payload::parse(&bytes[..cut]).is_err(), "{cut}");
        }
    }
}
