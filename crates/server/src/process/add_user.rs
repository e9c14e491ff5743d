//! `quarry user add`: makes a user in a data directory that no server uses, before the first start with `--auth` for instance.
//!
//! It opens the data as a server does, the journal's rest included, and closes it as one that stops.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use crate::access::name::{EXTERNAL, Kind, Name};
use crate::access::roles;
use crate::dispatch::error::CommandError;
use crate::process::config::{
    AddUser, Config, EXIT_BAD_OPTIONS, EXIT_DATA_DIRECTORY, EncryptionSettings, Face, Serve,
};
use crate::process::data_directory::DataDirectory;
use crate::process::shutdown::Shutdown;
use crate::process::{first_user, foreign_files, run};
use crate::server::Server;

/// A longer password is refused anyway.
const PASSWORD_BYTES_MAX: u64 = 8 << 10;

/// Why there is no user: the exit code, and one line.
struct Failure(u8, String);

/// Makes the user; the exit code of the process.
pub fn run(options: AddUser) -> ExitCode {
    let named = options.name.clone();
    match add(options) {
        Ok(()) => {
            println!("user {named} was made");
            ExitCode::SUCCESS
        }
        Err(Failure(code, why)) => {
            eprintln!("quarry: {why}");
            ExitCode::from(code)
        }
    }
}

fn add(options: AddUser) -> Result<(), Failure> {
    let bad_option = |why: String| Failure(EXIT_BAD_OPTIONS, why);
    let bad_data = |why: String| Failure(EXIT_DATA_DIRECTORY, why);
    let user = name(&options.name, Kind::User).map_err(bad_option)?;
    let granted: Result<Vec<Name>, String> = options
        .roles
        .iter()
        .map(|role| name(role, Kind::Role))
        .collect();
    let granted = granted.map_err(bad_option)?;
    let password = password(options.password_file.as_deref()).map_err(bad_option)?;
    let serve = Serve {
        dbpath: Some(options.dbpath),
        engine: options.engine,
        admin_port: Some("off".into()),
        encryption: EncryptionSettings {
            is_enabled: options.key.encryption_key_file.is_some(),
            key: options.key,
        },
        ..Serve::default()
    };
    let config =
        Config::new(Face::Quarry, serve, Vec::new()).map_err(|error| bad_option(error.0))?;
    foreign_files::refuse(&config).map_err(|why| bad_data(why.to_string()))?;
    let directory = DataDirectory::lock(&config.data_directory).map_err(bad_data)?;
    let server = run::open_alone(config, Shutdown::default()).map_err(bad_data)?;
    let made = make(server, &user, &password, &granted);
    let closed = server.database.close();
    drop(directory);
    made.map_err(bad_option)?;
    closed.map_err(|error| bad_data(error.to_string()))
}

fn make(
    server: &'static Server,
    user: &Name,
    password: &str,
    granted: &[Name],
) -> Result<(), String> {
    let database = &server.database;
    let told = |error: CommandError| error.message;
    roles::check_exist(database, granted).map_err(told)?;
    roles::check_within(database, granted).map_err(told)?;
    match first_user::insert(server, user, password, granted).map_err(told)? {
        true => Ok(()),
        false => Err(format!("user `{user}` is there already")),
    }
}

/// Reads `NAME` or `NAME@DATABASE`; without a database it is `admin`.
fn name(text: &str, kind: Kind) -> Result<Name, String> {
    let (name, database) = text.rsplit_once('@').unwrap_or((text, "admin"));
    if database == EXTERNAL {
        return Err(format!(
            "`{text}`: whoever is proven elsewhere has no password"
        ));
    }
    if kind == Kind::User && database == "local" {
        return Err(format!(
            "`{text}`: there are no users in the local database"
        ));
    }
    let name = Name::new(name, database).check();
    name.map_err(|error| {
        format!(
            "`{text}` is no name of a {}: {}",
            kind.field(),
            error.message
        )
    })
}

/// The first line of the file, or of the standard input.
fn password(file: Option<&Path>) -> Result<String, String> {
    let mut text = String::new();
    let read = match file {
        Some(path) => File::open(path)
            .and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_string(&mut text))
            .map_err(|error| format!("passwordFile: {}: {error}", path.display())),
        None => std::io::stdin()
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| format!("the password cannot be read: {error}")),
    };
    read?;
    let line = text.lines().next().unwrap_or_default();
    match line.is_empty() {
        true => Err("a password is needed, on the standard input or in --passwordFile".into()),
        false => Ok(line.to_owned()),
    }
}
