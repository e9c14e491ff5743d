//! The binary as an operator and a client meet it: started, spoken to over TCP, stopped.
//!
//! Mostly on the memory engine: what is tested here is above storage.

mod admin;
mod attribution;
mod client;
mod cursors;
mod memory;
mod options;
mod profiler;
mod protocol;
mod read_concern;
mod server;
mod stopping;
mod tailable;
mod timing;
mod top;
