//! The binary as an operator and a client meet it: started, spoken to over TCP, stopped.
//!
//! Mostly on the memory engine: what is tested here is above storage, but for where data lies and which files it takes.

mod admin;
mod attribution;
mod client;
mod cursors;
mod data_directory;
mod descriptors;
mod first_run;
mod memory;
mod mongod;
mod options;
mod parking;
mod profiler;
mod protocol;
mod read_concern;
mod server;
mod stopping;
mod tailable;
mod timing;
mod top;
