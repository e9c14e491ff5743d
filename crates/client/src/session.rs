//! The logical session of a connection: its id, and the numbers of its retryable writes.

use quarry_bson::{Document, Value, doc};

use crate::{Error, Result};

const UUID_SUBTYPE: u8 = 4;

/// A session that outlives the sockets of its connection, so that a write that is sent again is known by its number.
pub struct Session {
    id: [u8; 16],
    transaction_number: i64,
}

impl Session {
    /// A session with a random id (UUID version 4).
    pub fn new() -> Result<Session> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| Error::Protocol(error.to_string()))?;
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
        Ok(Session {
            id,
            transaction_number: 0,
        })
    }

    /// The value of `lsid`.
    pub fn id(&self) -> Document {
        doc! { "id": (Value::binary(UUID_SUBTYPE, &self.id)) }
    }

    /// The number of the next write.
    pub fn next_number(&mut self) -> i64 {
        self.transaction_number += 1;
        self.transaction_number
    }
}
