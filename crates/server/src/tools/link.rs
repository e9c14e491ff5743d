//! A connection to a running server, as the client that the flags of `top` and `backup` describe.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use quarry_bson::Document;
use quarry_client::{Address, Connection, ConnectionString, Login, TlsOptions};

use crate::process::config::LoginOptions;

/// How long `quarry top` waits for a picture.
pub const REPLY_TIME_MAX: Duration = Duration::from_secs(10);

/// A longer password is refused anyway.
const PASSWORD_BYTES_MAX: u64 = 8 << 10;

pub struct Link(Connection);

impl Link {
    /// Connects and logs in. A server that says nothing for `reply_time_max` is taken for gone.
    pub fn open(
        host: &str,
        port: u16,
        reply_time_max: Duration,
        options: &LoginOptions,
    ) -> io::Result<Link> {
        let mut settings = ConnectionString::new(vec![Address {
            host: host.to_owned(),
            port,
        }]);
        settings.is_direct = true;
        settings.socket_timeout = Some(reply_time_max);
        settings.login = login(options)?;
        settings.tls = options.tls.then(|| TlsOptions {
            ca_file: options.tls_ca_file.clone(),
            certificate_key_file: options.tls_certificate_key_file.clone(),
            ..TlsOptions::default()
        });
        let connection = Connection::open(&Arc::new(settings)).map_err(io::Error::other)?;
        Ok(Link(connection))
    }

    /// Runs a command on `admin`; an error reply is an error.
    pub fn run(&mut self, command: &Document) -> io::Result<Document> {
        self.0.run("admin", command).map_err(io::Error::other)
    }
}

/// The user that the options name, if they name one. Its password is the first line of the file, or of the standard input.
fn login(options: &LoginOptions) -> io::Result<Option<Login>> {
    let Some(user) = &options.user else {
        return Ok(None);
    };
    let (name, database) = user.rsplit_once('@').unwrap_or((user, "admin"));
    let mut text = String::new();
    match &options.password_file {
        Some(path) => File::open(path)?
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)?,
        None => io::stdin()
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)?,
    };
    Ok(Some(Login {
        user: name.to_owned(),
        password: text.lines().next().unwrap_or_default().to_owned(),
        source: database.to_owned(),
        mechanism: None,
    }))
}
