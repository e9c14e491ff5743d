//! The binary as mongod: what scripts and test harnesses that start a mongod read of it.
//!
//! A link named `mongod`, or the subcommand, gives mongod's defaults (`config::Face`), its words for `--version`, its line
//! `Waiting for connections` and its refusal of a data directory that is not there. What a flag means is the same by either
//! name.

use std::ffi::OsString;
use std::path::Path;

use crate::commands::build_info::MONGODB_VERSION;
use crate::observe::log;
use crate::process::config::{Config, Face};
use crate::process::engine;

/// The name of the link and of the subcommand.
const NAME: &str = "mongod";
/// mongod's numbers of the log lines that others wait for.
const WAITING_FOR_CONNECTIONS: u32 = 23_016;
const TRANSITION_TO_PRIMARY: u32 = 21_331;

/// The command line as Quarry reads it: a link's name becomes the subcommand.
pub fn with_subcommand(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_link = arguments
        .first()
        .and_then(|name| Path::new(name).file_name())
        .is_some_and(|name| name == NAME);
    if is_link {
        // As help and errors are to show it.
        arguments[0] = "quarry".into();
        arguments.insert(1, NAME.into());
    }
    arguments
}

/// The text that `mongod --version` prints, if that is what was asked.
pub fn version(arguments: &[OsString]) -> Option<String> {
    let (name, flags) = arguments.get(1..)?.split_first()?;
    if name != NAME || !flags.iter().any(|flag| flag == "--version") {
        return None;
    }
    let engines: Vec<String> = engine::available()
        .map(|engine| format!("\"{}\"", engine.as_str()))
        .collect();
    Some(format!(
        "db version v{MONGODB_VERSION}\nBuild Info: {{\n    \"version\": \"{MONGODB_VERSION}\",\n    \"modules\": [\"quarry\"],\n    \
         \"quarry\": \"{}\",\n    \"storageEngines\": [{}]\n}}\n",
        env!("CARGO_PKG_VERSION"),
        engines.join(", ")
    ))
}

/// mongod does not make its data directory.
pub fn refuse_missing_directory(config: &Config) -> Result<(), String> {
    let directory = &config.data_directory;
    if config.face != Face::Mongod || directory.exists() {
        return Ok(());
    }
    Err(format!(
        "Data directory {} not found. Create the missing directory or name another with --dbpath or, in a file, storage.dbPath",
        directory.display()
    ))
}

/// Logs, in mongod's words, that clients can connect now, and that a set takes writes.
pub fn log_ready(config: &Config, port: u16) {
    if config.replica_set.is_some() {
        log::info_numbered(
            TRANSITION_TO_PRIMARY,
            "repl",
            "Transition to primary complete; database writes are now permitted",
            &[("term", 1i64.into())],
        );
    }
    let ssl = match config.tls {
        Some(_) => "on",
        None => "off",
    };
    log::info_numbered(
        WAITING_FOR_CONNECTIONS,
        "network",
        "Waiting for connections",
        &[("port", port.into()), ("ssl", ssl.into())],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_link_named_mongod_is_the_subcommand() {
        for (given, wanted) in [
            (
                &["/usr/bin/mongod", "--port", "0"][..],
                &["quarry", "mongod", "--port", "0"][..],
            ),
            (&["quarry", "mongod"], &["quarry", "mongod"]),
            (&["quarry-mongod", "serve"], &["quarry-mongod", "serve"]),
        ] {
            assert_eq!(with_subcommand(line(given)), line(wanted));
        }
    }

    #[test]
    fn the_version_is_asked_of_mongod_alone() {
        let text = version(&line(&["quarry", "mongod", "--dbpath", "x", "--version"])).unwrap();
        assert!(text.starts_with("db version v8.0."), "{text}");
        assert!(version(&line(&["quarry", "--version"])).is_none());
        assert!(version(&line(&["quarry", "serve", "--version"])).is_none());
    }
}
