//! The server: MongoDB's wire protocol over sockets, and the commands behind it.
//!
//! A connection is one thread that reads a message, runs the command on itself, and writes the reply with one call.
//! Keeps true: a client's bytes never end more than its own connection; every field of a command is known or refused;
//! a reply says what was measured or leaves it out. Leaves out: what commands mean (`quarry_query`), how bytes are
//! stored (`quarry_database`).

#![forbid(unsafe_code)]

pub mod config;
pub mod journal_command;
pub mod run;
pub mod top;

mod buffers;
mod busy_poll;
mod command;
mod commands;
mod concerns;
mod conversation;
mod dispatch;
mod error;
mod inbox;
mod listener;
mod operation_end;
mod profile_document;
mod profiler;
mod quarry_options;
mod query_shape;
mod slow_log;
mod slow_operations;
mod timing_collector;
mod timing_document;
mod traces;
mod write_errors;
mod writes;

mod client_cursor;
mod connections;
mod counters;
mod cursors;
mod parameters;
mod reaper;
mod request_memory;
mod server;
mod sessions;
mod shutdown;
mod stopping;

mod admin;
mod console;
mod data_directory;
mod descriptors;
mod engine;
mod foreign_files;
mod log;
mod metrics;
mod metrics_text;
