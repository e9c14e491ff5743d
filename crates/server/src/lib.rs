//! The server: MongoDB's wire protocol over sockets, and the commands behind it.
//!
//! A connection is one thread that reads a message, runs the command on itself, and writes the reply with one call.
//! Keeps true: a client's bytes never end more than its own connection; every field of a command is known or refused;
//! a reply says what was measured or leaves it out. Leaves out: what commands mean (`quarry_query`), how bytes are
//! stored (`quarry_database`).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod advice;
mod audit;
mod backup;
mod catalog;
mod change_streams;
mod commands;
mod data;
mod dispatch;
mod net;
mod observe;
mod process;
mod replication;
mod server;
mod sessions;
mod threads;
mod tools;
mod ttl_monitor;

pub use process::run::from_command_line;
pub use quarry_query::memory_budget::Allocator;
