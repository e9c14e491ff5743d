//! The bytes of one session's record: which statements a batch holds, and what they are answered when they come again.
//!
//! ```text
//! key    00 18 | session, 16 bytes | id of the first statement, u32 BE
//! value  version u8 = 1 | kind u8 | wall time i64 LE, ms | txnNumber i64 LE
//!        statements: count of ranges varint, each: id of the first varint, how many more varint
//!        the rest: the answer, a BSON document; nothing for a kind that needs none
//! ```
//! Statement ids are Int32 for clients; here they stand as the u32 of the same bits.

use crate::error::{Error, Result};
use crate::keyspace::varint::{read_len, read_u64, write_len, write_u64};
use crate::sessions::statement_set::StatementSet;

/// The version of the value.
const VERSION: u8 = 1;

/// The kind of write that the statements of a record were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StatementKind {
    /// Documents of an insert, each a statement of its own.
    Insert = 1,
    /// An update that has changed one document.
    Update = 2,
    /// A delete that has removed one document.
    Delete = 3,
    /// An update that has inserted a document, whose `_id` the answer holds.
    Upsert = 4,
    /// A findAndModify. The answer holds the document that it returned.
    FindAndModify = 5,
    /// The commit of a transaction.
    Commit = 6,
}

/// One record as it stands under its key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord<'r> {
    pub kind: StatementKind,
    /// When it was written, in milliseconds since 1970.
    pub wall_ms: i64,
    pub txn_number: i64,
    pub statements: StatementSet,
    /// A BSON document, or nothing.
    pub answer: &'r [u8],
}

impl SessionRecord<'_> {
    /// Appends the value.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, self.kind as u8]);
        out.extend_from_slice(&self.wall_ms.to_le_bytes());
        out.extend_from_slice(&self.txn_number.to_le_bytes());
        let ranges = self.statements.ranges();
        write_len(out, ranges.len());
        for (first, last) in ranges {
            write_u64(out, u64::from(*first));
            write_u64(out, u64::from(last - first));
        }
        out.extend_from_slice(self.answer);
    }

    /// Reads a value. Fails as corrupt if it is broken or of another version.
    pub fn parse(value: &[u8]) -> Result<SessionRecord<'_>> {
        let broken = || Error::Corrupt("a session's record is broken or of a later version".into());
        parse(value).ok_or_else(broken)
    }
}

fn parse(value: &[u8]) -> Option<SessionRecord<'_>> {
    let [VERSION, kind, rest @ ..] = value else {
        return None;
    };
    let kind = match kind {
        1 => StatementKind::Insert,
        2 => StatementKind::Update,
        3 => StatementKind::Delete,
        4 => StatementKind::Upsert,
        5 => StatementKind::FindAndModify,
        6 => StatementKind::Commit,
        _ => return None,
    };
    let (wall_ms, rest) = rest.split_first_chunk::<8>()?;
    let (txn_number, rest) = rest.split_first_chunk::<8>()?;
    let (ranges, mut rest) = read_len(rest)?;
    let mut statements = StatementSet::default();
    for _ in 0..ranges {
        let (first, after) = read_u64(rest)?;
        let (more, after) = read_u64(after)?;
        let first = u32::try_from(first).ok()?;
        let last = first.checked_add(u32::try_from(more).ok()?)?;
        statements.push_range(first, last)?;
        rest = after;
    }
    Some(SessionRecord {
        kind,
        wall_ms: i64::from_le_bytes(*wall_ms),
        txn_number: i64::from_le_bytes(*txn_number),
        statements,
        answer: rest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of version 1, which stay readable.
    const FIXTURE: &[u8] = &[
        1, 4, 0x15, 0xCD, 0x5B, 0x07, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0xAC, 0x02, 0,
        5, 0, 0, 0, 0,
    ];

    fn record() -> SessionRecord<'static> {
        let mut statements = StatementSet::default();
        for id in [0, 1, 2, 300] {
            statements.insert(id);
        }
        SessionRecord {
            kind: StatementKind::Upsert,
            wall_ms: 123_456_789,
            txn_number: 9,
            statements,
            answer: &[5, 0, 0, 0, 0],
        }
    }

    #[test]
    fn a_record_has_these_bytes() {
        let mut value = Vec::new();
        record().write(&mut value);
        assert_eq!(value, FIXTURE);
        assert_eq!(SessionRecord::parse(FIXTURE).unwrap(), record());
    }

    #[test]
    fn a_broken_record_is_refused() {
        let head = FIXTURE.len() - record().answer.len();
        for cut in 0..head {
            assert!(SessionRecord::parse(&FIXTURE[..cut]).is_err(), "{cut}");
        }
        for (at, byte) in [(0, 2), (1, 0), (1, 7)] {
            let mut value = FIXTURE.to_vec();
            value[at] = byte;
            assert!(SessionRecord::parse(&value).is_err(), "{at}");
        }
        // Ranges that overlap, or go on behind the highest id.
        let broken_ranges = [
            &[2, 5, 2, 6, 0][..],
            &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1],
            &[2, 5, 0, 6, 0],
        ];
        for ranges in broken_ranges {
            let value = [&FIXTURE[..18], ranges].concat();
            assert!(SessionRecord::parse(&value).is_err(), "{ranges:?}");
        }
    }
}
