//! The audit log: who logged in, who was refused, and who changed users, roles, definitions and the server, one event each, in
//! MongoDB's shape.
//!
//! An event is written before the client is answered, with one call under one lock, so that events are whole and in order. A
//! process that is killed takes none with it; a power loss takes what the system had not written to the disk yet.
//!
//! An operation whose event cannot be written is not acknowledged: its client gets an error, and from then on every command that would leave an
//! event is refused before it runs, until the log can be written again. Commands that leave none go on, and so do those whose events
//! the filter drops: an insert into a collection that is there is one. mongod ends itself
//! instead; here a full disk of the audit log does not take the reads and writes of everybody with it, and nothing that is to be
//! audited happens unseen either way.
//!
//! No event holds a password, a proof or a key: the table (`command_events`) names the fields that are shown, and what
//! `authCheck` shows of a command is what the log would show of it. A server without an audit log pays two comparisons a command.
//!
//! This wing must not know what a command does to data, nor change it, and never asks the server for anything: it is given
//! the connection and the call.

pub mod audit_log;
pub mod command_events;
pub mod event;
pub mod made_collections;
pub mod trail;
