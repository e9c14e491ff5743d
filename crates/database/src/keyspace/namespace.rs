//! Namespaces: `database.collection`, parsed once, with MongoDB's rules for names.

use std::fmt;

use crate::error::{Error, Result};

/// MongoDB's bound on a namespace (since 4.4).
pub const NAMESPACE_BYTES_MAX: usize = 255;
/// MongoDB's bound on the name of a database.
pub const DATABASE_BYTES_MAX: usize = 63;

/// Whether the byte may not stand in the name of a database.
static IS_REFUSED: [bool; 256] = {
    let mut is_refused = [false; 256];
    let refused = b"\0/\\. \"$";
    let mut at = 0;
    while at < refused.len() {
        is_refused[refused[at] as usize] = true;
        at += 1;
    }
    is_refused
};

/// The beginning of names that are the system's.
const SYSTEM: &str = "system.";
/// The system's collections of the database `admin`, without the beginning of their names.
const SYSTEM_OF_ADMIN: &[&str] = &[
    "backup_users",
    "keys",
    "new_users",
    "roles",
    "users",
    "version",
];

/// The name of a collection: a database name without dots, and the rest.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    full: Box<str>,
    database_bytes: usize,
}

impl Namespace {
    /// Checks both names by MongoDB's rules and puts them together.
    pub fn new(database: &str, collection: &str) -> Result<Namespace> {
        check_database(database)?;
        let bad = |why: &str| {
            Err(Error::InvalidNamespace(format!(
                "invalid collection name `{database}.{collection}`: {why}"
            )))
        };
        if collection.is_empty() {
            return bad("the name is empty");
        }
        if collection.starts_with('.') || collection.ends_with('.') {
            return bad("it starts or ends with a dot");
        }
        if collection.contains(['\0', '$']) {
            return bad("it holds `$` or a NUL");
        }
        if database.len() + 1 + collection.len() > NAMESPACE_BYTES_MAX {
            return bad("it is longer than 255 bytes");
        }
        Ok(Namespace {
            full: joined(database, collection),
            database_bytes: database.len(),
        })
    }

    /// Parses `database.collection`.
    pub fn parse(full: &str) -> Result<Namespace> {
        let Some((database, collection)) = full.split_once('.') else {
            return Err(Error::InvalidNamespace(format!(
                "invalid namespace `{full}`: it has no dot"
            )));
        };
        Namespace::new(database, collection)
    }

    /// Refuses a name of the system's that means nothing to it, under which no collection is made: MongoDB keeps all names that
    /// begin with `system.` for itself, and clients believe what stands there. `system.views` and `system.buckets` are how it keeps
    /// views and time series, which are none here.
    pub fn check_new(&self) -> Result<()> {
        let Some(name) = self.collection().strip_prefix(SYSTEM) else {
            return Ok(());
        };
        let is_known = match self.database() {
            "admin" if SYSTEM_OF_ADMIN.contains(&name) => true,
            "config" | "local" => true,
            _ => matches!(name, "js" | "profile"),
        };
        match is_known {
            true => Ok(()),
            false => Err(Error::InvalidNamespace(format!(
                "Invalid system namespace: {self}"
            ))),
        }
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.full[..self.database_bytes]
    }

    /// The collection's name, which may hold dots.
    pub fn collection(&self) -> &str {
        &self.full[self.database_bytes + 1..]
    }

    /// Like `as_str`, but gives the memory away.
    pub fn into_string(self) -> String {
        self.full.into()
    }

    /// Both names, as `database.collection`.
    pub fn as_str(&self) -> &str {
        &self.full
    }
}

/// Both names with a dot between them, in exactly the memory that they take.
#[inline]
fn joined(database: &str, collection: &str) -> Box<str> {
    let mut full = String::with_capacity(database.len() + 1 + collection.len());
    full.push_str(database);
    full.push('.');
    full.push_str(collection);
    full.into_boxed_str()
}

/// Checks the name of a database. Every operation has its name checked, and a table answers with fewer instructions than a search
/// for characters.
pub fn check_database(name: &str) -> Result<()> {
    if name.is_empty()
        || name.len() > DATABASE_BYTES_MAX
        || name.bytes().any(|byte| IS_REFUSED[usize::from(byte)])
    {
        return Err(Error::InvalidNamespace(format!(
            "invalid database name `{name}`"
        )));
    }
    Ok(())
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_system_are_made_only_where_they_mean_something() {
        let is_new = |name: &str| Namespace::parse(name).unwrap().check_new().is_ok();
        for name in [
            "db.system.profile",
            "db.system.js",
            "db.systems",
            "db.my.system.foo",
            "admin.system.users",
            "local.system.replset",
            "config.system.sessions",
        ] {
            assert!(is_new(name), "{name}");
        }
        for name in [
            "db.system.foo",
            "db.system.users",
            "db.system.views",
            "db.system.buckets.x",
            "admin.system.foo",
        ] {
            assert!(!is_new(name), "{name}");
        }
    }

    #[test]
    fn names_follow_mongodb() {
        let namespace = Namespace::parse("db.a.b").unwrap();
        assert_eq!(
            (namespace.database(), namespace.collection()),
            ("db", "a.b")
        );
        for bad in [
            "db", "db.", "db..a", "db.a.", "d b.a", "d$.a", ".a", "db.a$b", "db.a\0b",
        ] {
            assert!(Namespace::parse(bad).is_err(), "{bad}");
        }
        for character in ['\0', '/', '\\', '.', ' ', '"', '$'] {
            let name = format!("d{character}b");
            assert!(check_database(&name).is_err(), "{name}");
        }
        for name in ["quarry-1_b", "größe", "a\u{2024}b", "{[(%)]}~!"] {
            assert!(check_database(name).is_ok(), "{name}");
        }
        assert!(Namespace::new("db", &"x".repeat(252)).is_ok());
        assert!(Namespace::new("db", &"x".repeat(253)).is_err());
    }
}
