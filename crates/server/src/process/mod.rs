//! The process: its command line and configuration, the data directory it takes, the engine it opens, how it starts and
//! how it stops.
//!
//! This wing is the top of the house and may know every other one; of the others only `server` and the commands that
//! show or change settings know its configuration and parameters.

pub mod add_user;
pub mod alone;
pub mod background;
pub mod config;
pub mod data_directory;
pub mod descriptors;
pub mod encryption;
pub mod engine;
pub mod file_modes;
pub mod first_user;
pub mod foreign_files;
pub mod greeting;
pub mod memory_limit;
pub mod mongod;
pub mod opening;
pub mod parameters;
pub mod run;
pub mod service_manager;
pub mod shutdown;
pub mod spill_files;
pub mod stopping;
