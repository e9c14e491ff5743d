//! The session that a journal record belongs to, for change streams and for nodes that follow this one. What a retry is
//! answered stands in the batch, as puts of the session's own keys.
//!
//! ```text
//! session: flags u8 (1 a user follows, 2 the record is a transaction) | id, 16 bytes | [user, 32 bytes]
//!          | txnNumber zigzag varint | count of statement ids varint | each: zigzag varint
//! ```

use crate::keyspace::varint::{read_i64, read_len, write_i64, write_len};

/// The bytes of a user's digest: a SHA-256.
pub const USER_BYTES: usize = 32;

const HAS_USER: u8 = 1;
const IS_TRANSACTION: u8 = 2;

/// The session of a record on its way into the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionSection<'a> {
    /// The UUID of the session.
    pub id: &'a [u8; 16],
    /// The digest of the user whose session it is, where there is one.
    pub user: Option<&'a [u8; USER_BYTES]>,
    /// The number that the client gave to the retryable write or the transaction.
    pub txn_number: i64,
    /// Whether the record is a transaction of several statements, not a retryable write.
    pub is_transaction: bool,
    /// The statement of each of the record's changes, in their order. Empty in a transaction.
    pub statements: &'a [i32],
}

impl SessionSection<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let user = if self.user.is_some() { HAS_USER } else { 0 };
        let transaction = if self.is_transaction {
            IS_TRANSACTION
        } else {
            0
        };
        out.push(user | transaction);
        out.extend_from_slice(self.id);
        out.extend_from_slice(self.user.map_or(&[][..], |user| &user[..]));
        write_i64(out, self.txn_number);
        write_len(out, self.statements.len());
        for &statement in self.statements {
            write_i64(out, statement.into());
        }
    }
}

/// The session of a record that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordSession<'a> {
    /// The UUID of the session.
    pub id: &'a [u8; 16],
    /// The digest of the user whose session it is, where there is one.
    pub user: Option<&'a [u8; USER_BYTES]>,
    /// The number that the client gave to the retryable write or the transaction.
    pub txn_number: i64,
    /// Whether the record is a transaction of several statements, not a retryable write.
    pub is_transaction: bool,
    statements: &'a [u8],
    statement_count: usize,
}

impl<'a> RecordSession<'a> {
    /// The statement of each of the record's changes, in their order.
    pub fn statements(&self) -> impl Iterator<Item = i64> + 'a {
        let mut rest = self.statements;
        (0..self.statement_count).map_while(move |_| {
            let (statement, behind) = read_i64(rest)?;
            rest = behind;
            Some(statement)
        })
    }
}

/// Reads a session; returns it and what follows. None if it is broken.
pub(super) fn read_session(bytes: &[u8]) -> Option<(RecordSession<'_>, &[u8])> {
    let (&flags, rest) = bytes.split_first()?;
    if flags & !(HAS_USER | IS_TRANSACTION) != 0 {
        return None;
    }
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (user, rest) = match flags & HAS_USER {
        0 => (None, rest),
        _ => rest
            .split_first_chunk::<USER_BYTES>()
            .map(|(user, rest)| (Some(user), rest))?,
    };
    let (txn_number, rest) = read_i64(rest)?;
    let (statement_count, statements) = read_len(rest)?;
    let mut behind = statements;
    for _ in 0..statement_count {
        behind = read_i64(behind)?.1;
    }
    let session = RecordSession {
        id,
        user,
        txn_number,
        is_transaction: flags & IS_TRANSACTION != 0,
        statements: &statements[..statements.len() - behind.len()],
        statement_count,
    };
    Some((session, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The byte of its flags says whether a user follows: what has been written without one is read as ever.
    #[test]
    fn a_session_names_its_user_or_nobody() {
        let mut bytes = vec![2];
        bytes.extend_from_slice(&[9; 16]);
        bytes.extend_from_slice(&[10, 0]);
        let nobodys = SessionSection {
            id: &[9; 16],
            user: None,
            txn_number: 5,
            is_transaction: true,
            statements: &[],
        };
        let somebodys = SessionSection {
            user: Some(&[7; USER_BYTES]),
            ..nobodys
        };
        let mut with_user = vec![3];
        with_user.extend_from_slice(&bytes[1..17]);
        with_user.extend_from_slice(&[7; USER_BYTES]);
        with_user.extend_from_slice(&[10, 0]);
        for (section, bytes) in [(nobodys, bytes), (somebodys, with_user)] {
            let mut written = Vec::new();
            section.write(&mut written);
            assert_eq!(written, bytes);
            let (read, rest) = read_session(&bytes).unwrap();
            assert!(rest.is_empty() && read.is_transaction);
            assert_eq!((read.id, read.user), (section.id, section.user));
            assert_eq!(read.txn_number, 5);
        }
    }
}
