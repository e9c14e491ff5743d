//! The binary `quarry`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use quarry_server::config::{Command, CommandLine, Config, EXIT_BAD_OPTIONS};

/// For the engines as well: theirs and ours are many small blocks from many threads.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let serve = match CommandLine::parse().command {
        Command::Serve(serve) => serve,
        Command::Top(options) => return quarry_server::top::run(&options),
        Command::Journal(command) => return quarry_server::journal_command::run(&command),
    };
    match Config::new(*serve, std::env::args().collect()) {
        Ok(config) => quarry_server::run::serve(config),
        Err(error) => {
            eprintln!("quarry: {error}");
            ExitCode::from(EXIT_BAD_OPTIONS)
        }
    }
}
