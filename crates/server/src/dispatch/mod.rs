//! From one message to one reply document: what a command is, the arguments that every command takes, and the errors
//! that a client is told.
//!
//! This wing finds a command in the table of `commands` and runs it. It must not know what a single command does, and it
//! sees no socket.

pub mod access;
pub mod api_parameters;
pub mod argument;
pub mod beginning;
pub mod call;
pub mod command;
pub mod concerns;
pub mod dispatcher;
pub mod error;
pub mod error_labels;
pub mod expression_context;
pub mod fail_points;
pub mod fields;
pub mod privilege;
pub mod quarry_options;
pub mod read_only_views;
pub mod transaction_arguments;
mod unserved;
