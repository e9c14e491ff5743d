//! The binary `quarry`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use quarry_server::config::{Command, CommandLine, Config, EXIT_BAD_OPTIONS};

fn main() -> ExitCode {
    let Command::Serve(serve) = CommandLine::parse().command;
    match Config::new(*serve, std::env::args().collect()) {
        Ok(config) => quarry_server::run::serve(config),
        Err(error) => {
            eprintln!("quarry: {error}");
            ExitCode::from(EXIT_BAD_OPTIONS)
        }
    }
}
