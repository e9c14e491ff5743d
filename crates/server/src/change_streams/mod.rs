//! Change streams: the changes of a collection, a database or the whole server, as documents of a cursor.
//!
//! The changes are read from the journal (`quarry_database::ChangeReader`), durable ones only; nothing is written twice. This
//! wing turns them into MongoDB's events, with tokens to resume by, and runs the stages behind `$changeStream` over them. Keeps
//! true: an event's token names the place behind it, so that whoever resumes meets each event once; a place that the journal no
//! longer has, or that belongs to another history, is an error and never a gap.
//!
//! It must not know which command asks, nor how a journal is stored.

pub mod change_stream;
pub mod event_document;
pub mod options;
pub mod resume_token;
pub mod split_event;
