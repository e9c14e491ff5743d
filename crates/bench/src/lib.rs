//! Workloads that measure any server that speaks the MongoDB wire protocol.
//!
//! Every side of a comparison is measured interleaved in one run, and beside the servers stands the canned-reply
//! server: it answers every message with a fixed valid reply, so what a client measures against it is the client's
//! own cost. Numbers are printed, written as JSON to the target directory and as Markdown to docs/benchmarks.
//!
//! Left out: judging the numbers. A bench reports; whether a bar holds is for the reader.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod callgrind;
pub mod canned;
pub mod collections;
pub mod concurrent;
pub mod crud;
pub mod documents;
pub mod driver_client;
pub mod durability;
pub mod earlier_build;
pub mod encryption;
pub mod engine_work;
pub mod hostile;
pub mod instructions;
pub mod language;
pub mod layers;
pub mod message;
pub mod peers;
pub mod process;
pub mod raw_client;
pub mod report;
pub mod security;
pub mod sessions;
pub mod shortcuts;
pub mod timing;
pub mod tools;
