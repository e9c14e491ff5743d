//! The record of what sessions have written, so that a write that a client sends again is not done again.
//!
//! A client that loses its connection before the answer sends its write once more, with the same session, the same txnNumber
//! and the same statement ids. For that each batch of such a write carries one more put: the statements that are in it, and
//! what they are answered (`record`). It is in the same journal record as the documents, so that after any crash both are there
//! or neither is. A statement that changed nothing leaves no record; sent again it runs again, as in MongoDB.
//!
//! A record lives as long as its session. The first batch of a higher txnNumber takes the records of the one before with it;
//! those of a session that has ended go in the background (`session_records`).
//!
//! This wing must not know documents, collections or queries: what an answer means is for whoever asks for it. `write` puts the
//! record into the batch; the server decides which session may write, and keeps one command of a session from the other.

pub(crate) mod record;
pub(crate) mod retryable_write;
pub(crate) mod session_records;
pub(crate) mod statement_set;
