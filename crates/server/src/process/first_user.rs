//! The first user, made from the environment: a container has nobody on its own machine who could make one.
//!
//! `QUARRY_INITDB_ROOT_USERNAME` and `QUARRY_INITDB_ROOT_PASSWORD`, or the same with `MONGO_`, name a user of `admin` with the
//! role `root`. It is made when there is no user yet and never changed afterwards. Naming it switches access control on: a password that
//! nobody is asked for protects nothing.

use quarry_bson::Document;

use crate::access::credentials::{Credentials, Mechanism};
use crate::access::name::{Kind, Name};
use crate::access::restrictions::Restrictions;
use crate::access::{new_user, store};
use crate::dispatch::error::CommandError;
use crate::observe::log;
use crate::process::config::Config;
use crate::server::Server;

const PREFIXES: [&str; 2] = ["QUARRY", "MONGO"];

/// Why the user of the environment cannot be made.
pub struct BadUser(pub String);

impl From<CommandError> for BadUser {
    fn from(error: CommandError) -> BadUser {
        BadUser(format!("the first user cannot be made: {}", error.message))
    }
}

/// Switches access control on for a server whose environment names a user, unless its options say that there is to be none.
pub fn ask_for_access_control(config: &mut Config) -> Result<(), BadUser> {
    if named()?.is_some() && !config.is_authorization_said {
        config.is_authorization_enabled = true;
    }
    Ok(())
}

/// Makes the user that the environment names, if it names one and there is none yet.
pub fn make(server: &Server) -> Result<(), BadUser> {
    let Some((name, password)) = named()? else {
        return Ok(());
    };
    if store::has_any(&server.database, Kind::User)? {
        return Ok(());
    }
    let root = [Name::new("root", "admin")];
    insert(server, &name, &password, &root)?;
    if let Some(audit) = &server.audit {
        audit.note_own_user(&name, &root)?;
    }
    log::info(
        "access",
        "the first user was made",
        &[("user", name.to_string().into())],
    );
    if !server.config.is_authorization_enabled {
        let message = "a first user was asked for, and access control is switched off";
        log::startup_warning("control", message);
    }
    Ok(())
}

/// Stores a new user with that password and these roles; false where there is one of that name.
pub fn insert(
    server: &Server,
    name: &Name,
    password: &str,
    roles: &[Name],
) -> Result<bool, CommandError> {
    let mut credentials = Document::new();
    for mechanism in Mechanism::ALL {
        let iterations = server.parameters.scram_iterations(mechanism);
        let made = Credentials::of_password(mechanism, &name.name, password, iterations)?;
        credentials.append(mechanism.name(), made.document());
    }
    let unrestricted = Restrictions::default();
    let document = new_user::document(name, &credentials, None, roles, &unrestricted);
    let is_new = store::insert(&server.database, Kind::User, &document)?;
    server.access.note_change();
    Ok(is_new)
}

/// The user of the environment and its password.
fn named() -> Result<Option<(Name, String)>, BadUser> {
    for prefix in PREFIXES {
        let of = |what: &str| std::env::var(format!("{prefix}_INITDB_ROOT_{what}")).ok();
        match (of("USERNAME"), of("PASSWORD")) {
            (None, None) => {}
            (Some(name), Some(password)) if !name.is_empty() && !password.is_empty() => {
                return Ok(Some((Name::new(&name, "admin"), password)));
            }
            _ => {
                return Err(BadUser(format!(
                    "{prefix}_INITDB_ROOT_USERNAME and {prefix}_INITDB_ROOT_PASSWORD are needed together, and not empty"
                )));
            }
        }
    }
    Ok(None)
}
