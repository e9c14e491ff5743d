//! Resources that actions are done to, and the patterns of them that privileges name.

use crate::access::action::{Action, ActionSet};

/// Databases that hold the server's own collections: a privilege on all databases does not reach them.
const INTERNAL_DATABASES: [&str; 2] = ["local", "config"];
const SYSTEM: &str = "system.";

/// The resource of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The server itself.
    Cluster,
    /// A database.
    Database(&'a str),
    /// A collection: its database and its name.
    Collection(&'a str, &'a str),
}

/// A resource that outlives its call, with an action on it: a privilege that is asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    action: Action,
    /// The database; none for the cluster.
    database: Option<Box<str>>,
    /// The collection; none for the database as a whole.
    collection: Option<Box<str>>,
}

impl Need {
    /// The action on the resource.
    pub fn of(action: Action, resource: Resource<'_>) -> Need {
        let (database, collection) = match resource {
            Resource::Cluster => (None, None),
            Resource::Database(database) => (Some(database), None),
            Resource::Collection(database, collection) => (Some(database), Some(collection)),
        };
        Need {
            action,
            database: database.map(Into::into),
            collection: collection.map(Into::into),
        }
    }

    /// The action.
    pub fn action(&self) -> Action {
        self.action
    }

    /// The resource.
    pub fn resource(&self) -> Resource<'_> {
        match (&self.database, &self.collection) {
            (None, _) => Resource::Cluster,
            (Some(database), None) => Resource::Database(database),
            (Some(database), Some(collection)) => Resource::Collection(database, collection),
        }
    }
}

/// A pattern of resources, as a role grants it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// `{cluster: true}`.
    Cluster,
    /// `{anyResource: true}`.
    AnyResource,
    /// `{db, collection}`. An empty name stands for all of them; all collections are those that are not the system's, and all
    /// databases with all collections are those that are not the server's own.
    Namespace {
        /// The database, or nothing.
        database: String,
        /// The collection, or nothing.
        collection: String,
    },
}

/// Actions on the resources of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The resources.
    pub pattern: Pattern,
    /// The actions.
    pub actions: ActionSet,
}

impl Pattern {
    /// The pattern of a namespace; an empty name stands for all.
    pub fn of(database: &str, collection: &str) -> Pattern {
        Pattern::Namespace {
            database: database.to_owned(),
            collection: collection.to_owned(),
        }
    }

    /// Whether the resource is one of the pattern's. Rules as in the manual's "Resource Document".
    #[inline]
    pub fn covers(&self, resource: Resource<'_>) -> bool {
        let (database, collection) = match self {
            Pattern::AnyResource => return true,
            Pattern::Cluster => return resource == Resource::Cluster,
            Pattern::Namespace {
                database,
                collection,
            } => (database.as_str(), collection.as_str()),
        };
        match resource {
            Resource::Cluster => false,
            Resource::Database(name) => collection.is_empty() && is_or_any(database, name),
            Resource::Collection(name, inner) if collection.is_empty() => {
                !inner.starts_with(SYSTEM) && is_or_any(database, name)
            }
            Resource::Collection(name, inner) => {
                (database.is_empty() || database == name) && collection == inner
            }
        }
    }

    /// Whether some resource within the database may be the pattern's, for lists of what a user may see.
    pub fn touches(&self, name: &str) -> bool {
        match self {
            Pattern::AnyResource => true,
            Pattern::Cluster => false,
            Pattern::Namespace {
                database,
                collection,
            } if collection.is_empty() => is_or_any(database, name),
            Pattern::Namespace { database, .. } => database == name,
        }
    }
}

fn is_or_any(database: &str, name: &str) -> bool {
    match database {
        "" => !INTERNAL_DATABASES.contains(&name),
        database => database == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_collections_and_internal_databases_are_named_or_not_meant() {
        let covers = |database, collection, name, inner| {
            Pattern::of(database, collection).covers(Resource::Collection(name, inner))
        };
        assert!(covers("db", "", "db", "c") && covers("", "", "db", "c"));
        assert!(covers("", "c", "db", "c") && covers("db", "c", "db", "c"));
        assert!(!covers("db", "", "other", "c") && !covers("db", "c", "db", "d"));
        assert!(!covers("admin", "", "admin", "system.users"));
        assert!(!covers("", "", "admin", "system.users"));
        assert!(covers("admin", "system.users", "admin", "system.users"));
        assert!(!covers("", "", "local", "c") && !covers("", "", "config", "c"));
        assert!(covers("local", "", "local", "c"));
        assert!(Pattern::AnyResource.covers(Resource::Collection("admin", "system.users")));
        assert!(!Pattern::of("", "").covers(Resource::Cluster));
        assert!(!Pattern::of("db", "c").covers(Resource::Database("db")));
        assert!(Pattern::of("db", "c").touches("db") && !Pattern::Cluster.touches("db"));
    }
}
