//! The server that a tool is a client of, as its flags name it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use quarry_bson::{Document, extjson};
use quarry_client::{Connection, ConnectionString};

use crate::error::{Error, Result};

/// A longer password is refused by every server.
const PASSWORD_BYTES_MAX: u64 = 8 << 10;
/// The name under which a server's log shows the tools.
const APP_NAME: &str = "quarry tools";

/// The flags that name a server.
#[derive(Clone, Debug, Args)]
pub struct ServerFlags {
    /// The server, with user and options as drivers take them
    #[arg(long, value_name = "URI", default_value = "mongodb://127.0.0.1:27017/")]
    pub uri: String,
    /// File whose first line is the password of the URI's user; `-` is the standard input
    #[arg(long = "passwordFile", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl ServerFlags {
    /// Whether the password is read from the standard input, so that nothing else can be.
    pub fn takes_standard_input(&self) -> bool {
        self.password_file.as_deref().is_some_and(is_standard_input)
    }

    /// The settings of connections to the server.
    pub fn settings(&self) -> Result<Arc<ConnectionString>> {
        settings(&self.uri, self.password_file.as_deref())
    }
}

/// The settings of connections to the server of a URI.
pub fn settings(uri: &str, password_file: Option<&Path>) -> Result<Arc<ConnectionString>> {
    let mut settings = ConnectionString::parse(uri).map_err(Error::server("--uri"))?;
    if let Some(path) = password_file {
        let Some(login) = &mut settings.login else {
            return Err(Error::usage("--passwordFile goes with a user in the URI"));
        };
        login.password = password(path)?;
    }
    settings.app_name.get_or_insert_with(|| APP_NAME.to_owned());
    Ok(Arc::new(settings))
}

/// A connection to the server.
pub fn connect(settings: &Arc<ConnectionString>) -> Result<Connection> {
    Connection::open(settings).map_err(Error::server(""))
}

/// A document that a person has written as a flag: Extended JSON, or as the shell writes it.
pub fn document(flag: &str, text: &str) -> Result<Document> {
    let parsed = extjson::parse(text).or_else(|error| extjson::parse_legacy(text).or(Err(error)));
    parsed.map_err(|error| Error::usage(format!("{flag}: {error}")))
}

/// Whether the name of a file stands for the standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn password(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = match is_standard_input(path) {
        true => io::stdin()
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text),
        false => File::open(path)
            .and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_string(&mut text)),
    };
    read.map_err(Error::file(path))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
