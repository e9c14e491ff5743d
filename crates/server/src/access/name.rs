//! The name of a user or of a role, which are both found by a name within a database.

use std::fmt;

use quarry_bson::{Document, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

/// The database of users whom something else than a password proves. It holds users alone.
pub const EXTERNAL: &str = "$external";

/// A longer name is none.
const NAME_BYTES_MAX: usize = 1024;

/// The name of a user or role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The name within its database.
    pub name: String,
    /// The database that it is defined in.
    pub database: String,
}

/// The two things that have such names; the field that names one in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A user, named by `user`.
    User,
    /// A role, named by `role`.
    Role,
}

impl Kind {
    /// The field that holds the name in a document.
    pub fn field(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::Role => "role",
        }
    }
}

impl Name {
    /// The name within that database.
    pub fn new(name: &str, database: &str) -> Name {
        Name {
            name: name.to_owned(),
            database: database.to_owned(),
        }
    }

    /// Reads `"name"`, which is one of the command's own database, or `{user: "name", db: "database"}`.
    pub fn parse(kind: Kind, value: RawValue<'_>, database: &str) -> Result<Name> {
        let name = match value {
            RawValue::String(name) => Name::new(name.as_str()?, database),
            RawValue::Document(document) => {
                let field = kind.field();
                let text = |field: &str| {
                    document.get_str(field).ok_or_else(|| {
                        let message = format!("Missing expected field \"{field}\"");
                        CommandError::new(ErrorCode::NO_SUCH_KEY, message)
                    })
                };
                let known = |name: &str| name == field || name == "db";
                if let Some(other) = document
                    .iter()
                    .find(|element| !element.name().as_str().is_ok_and(known))
                {
                    let message = format!(
                        "\"{}\" is not a valid argument",
                        other.name().to_string_lossy()
                    );
                    return Err(CommandError::bad_value(message));
                }
                Name::new(text(field)?, text("db")?)
            }
            other => {
                return Err(CommandError::bad_value(format!(
                    "{} names must be either strings or objects, found {}",
                    match kind {
                        Kind::User => "User",
                        Kind::Role => "Role",
                    },
                    other.element_type().alias()
                )));
            }
        };
        name.check()
    }

    /// Refuses a name that no user or role can have.
    pub fn check(self) -> Result<Name> {
        if self.name.is_empty() {
            return Err(CommandError::bad_value("User name must be non-empty"));
        }
        if self.name.len() > NAME_BYTES_MAX || self.name.contains('\0') {
            return Err(CommandError::bad_value(
                "the name of a user or role is too long or holds a null",
            ));
        }
        if self.database != EXTERNAL {
            quarry_database::check_database(&self.database)?;
        }
        Ok(self)
    }

    /// The `_id` of its document.
    pub fn id(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// `{user: ..., db: ...}` or `{role: ..., db: ...}`.
    pub fn document(&self, kind: Kind) -> Document {
        let mut document = Document::new();
        document.append(kind.field(), self.name.as_str());
        document.append("db", self.database.as_str());
        document
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.database)
    }
}
