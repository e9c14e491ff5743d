//! Privileges that a command needs of the user who runs it, in MongoDB's terms: an action, such as `find`, on a resource, such as a
//! collection. Each row of the command table declares it, beside what further arguments ask for.
//!
//! Access control does not exist yet: no connection has a user, and [`is_authorized`] says yes to all of them. What is
//! declared is checked nevertheless wherever there is a user, so that switching access control on is giving connections
//! one. Actions and resources are those of the manual's pages "Privilege Actions" and "Resource Document".
//!
//! A document may have several fields of one name, of which some readers take the first and others the last. What any of
//! them asks for is needed, so that a field that is not looked at here cannot be one that the command acts on.

use quarry_bson::{RawDocument, RawElement, RawValue};
use quarry_query::pipeline::collections_named;
use quarry_wire::DocumentSequence;

/// An action, by MongoDB's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    BypassDocumentValidation,
    ChangeStream,
    CollMod,
    CollStats,
    CreateCollection,
    CreateIndex,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    EnableProfiler,
    Find,
    Fsync,
    GetCmdLineOpts,
    GetLog,
    GetParameter,
    HostInfo,
    Inprog,
    Insert,
    KillAnySession,
    Killop,
    ListCollections,
    ListDatabases,
    ListIndexes,
    LogRotate,
    Remove,
    RenameCollectionSameDb,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetStateChange,
    ServerStatus,
    SetParameter,
    Shutdown,
    Top,
    Update,
    Validate,
}

/// The resource of a declared action, found in the command when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The server, or all of its fellows.
    Cluster,
    /// The database that the command is sent to.
    Database,
    /// The collection that the command names, in that database.
    Collection,
    /// The database of the namespace that the field spells out.
    DatabaseIn(&'static str),
    /// The collection whose namespace the field spells out.
    CollectionIn(&'static str),
    /// Each of the collections that the stages of the pipeline read beside the command's own.
    CollectionsOfStages,
}

/// Which calls of the command need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Those where the field is true.
    Field(&'static str),
    /// Those where it is false or not there.
    Without(&'static str),
    /// Those where the field is true in a document of the list.
    Statement {
        list: &'static str,
        field: &'static str,
    },
    /// Those whose pipeline begins with the stage.
    FirstStage(&'static str),
    /// Those whose pipeline begins with none of the stages.
    OtherFirstStage(&'static [&'static str]),
}

/// One thing that a command needs.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    pub action: Action,
    pub on: On,
    pub when: When,
}

/// Declares a privilege that every call of a command needs.
pub const fn need(action: Action, on: On) -> Requirement {
    need_when(action, on, When::Always)
}

/// Declares a privilege that some calls of a command need.
pub const fn need_when(action: Action, on: On, when: When) -> Requirement {
    Requirement { action, on, when }
}

/// All that a command needs.
#[derive(Clone, Copy, Debug)]
pub enum Requires {
    /// Nothing: it tells and changes what is the client's own, or what a client must know before it can log in.
    Nothing,
    Each(&'static [Requirement]),
    /// The privileges of the command that the first field holds.
    WhatItExplains,
}

impl Requirement {
    /// Whether a call with this body and these sequences needs it.
    pub fn applies(&self, body: RawDocument<'_>, sequences: &[DocumentSequence<'_>]) -> bool {
        let is_set = |document: RawDocument<'_>, field: &'static str| {
            values(document, field).any(|value| value.is_truthy())
        };
        match self.when {
            When::Always => true,
            When::Field(field) => is_set(body, field),
            When::Without(field) => {
                let mut flags = values(body, field).peekable();
                flags.peek().is_none() || flags.any(|value| !value.is_truthy())
            }
            When::Statement { list, field } => {
                let has = |statement: RawDocument<'_>| is_set(statement, field);
                let in_body = values(body, list).filter_map(|value| value.as_array());
                let mut in_body = in_body.flat_map(|statements| statements.iter());
                in_body.any(|statement| statement.as_document().is_some_and(has))
                    || sequences
                        .iter()
                        .filter(|sequence| sequence.identifier == list)
                        .any(|sequence| sequence.documents().any(has))
            }
            When::FirstStage(name) => first_stages(body).any(|first| first == Some(name)),
            When::OtherFirstStage(names) => {
                let mut firsts = first_stages(body).peekable();
                let is_other =
                    |first: Option<&str>| first.is_none_or(|name| !names.contains(&name));
                firsts.peek().is_none() || firsts.any(is_other)
            }
        }
    }

    /// The resources of the action in a call on this database and collection.
    pub fn resources<'a>(
        &self,
        body: RawDocument<'a>,
        database: &'a str,
        collection: &'a str,
    ) -> Vec<Resource<'a>> {
        let spelled_out = |field| {
            let names = values(body, field).map(|value| value.as_str().unwrap_or_default());
            names.map(|namespace| namespace.split_once('.').unwrap_or((namespace, "")))
        };
        match self.on {
            On::Cluster => vec![Resource::Cluster],
            On::Database => vec![Resource::Database(database)],
            // A command on a whole database, such as an aggregate over none of its collections.
            On::Collection if collection.is_empty() => vec![Resource::Database(database)],
            On::Collection => vec![Resource::Collection(database, collection)],
            On::DatabaseIn(field) => spelled_out(field)
                .map(|(database, _)| Resource::Database(database))
                .collect(),
            On::CollectionIn(field) => spelled_out(field)
                .map(|(database, collection)| Resource::Collection(database, collection))
                .collect(),
            On::CollectionsOfStages => values(body, "pipeline")
                .filter_map(|value| value.as_array())
                .flat_map(collections_named)
                .map(|collection| Resource::Collection(database, collection))
                .collect(),
        }
    }
}

/// The values of all fields of that name.
fn values<'a>(
    document: RawDocument<'a>,
    field: &'static str,
) -> impl Iterator<Item = RawValue<'a>> {
    let fields = document.iter().filter(move |other| other.name() == field);
    fields.map(|field: RawElement<'a>| field.value())
}

/// The name of the first stage of each `pipeline`; none where a pipeline has no stage.
fn first_stages(body: RawDocument<'_>) -> impl Iterator<Item = Option<&str>> {
    values(body, "pipeline").map(|pipeline| {
        let stage = pipeline.as_array()?.iter().next()?.as_document()?;
        stage.first()?.name().as_str().ok()
    })
}

/// The resource of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    Cluster,
    Database(&'a str),
    Collection(&'a str, &'a str),
}

/// A pattern of resources, as a role grants it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "users come with access control")
)]
pub enum Pattern {
    Cluster,
    /// An empty name stands for all of them; all collections are those that are not the system's.
    Namespace {
        database: String,
        collection: String,
    },
}

impl Pattern {
    fn covers(&self, resource: Resource<'_>) -> bool {
        match (self, resource) {
            (Pattern::Cluster, Resource::Cluster) => true,
            (
                Pattern::Namespace {
                    database,
                    collection,
                },
                Resource::Database(name),
            ) => is_or_any(database, name) && collection.is_empty(),
            (
                Pattern::Namespace {
                    database,
                    collection,
                },
                Resource::Collection(name, inner),
            ) => {
                let is_all = collection.is_empty() && !inner.starts_with("system.");
                is_or_any(database, name) && (is_all || collection == inner)
            }
            _ => false,
        }
    }
}

fn is_or_any(pattern: &str, name: &str) -> bool {
    pattern.is_empty() || pattern == name
}

/// Who a client has proven to be, and what its roles grant.
#[derive(Clone, Debug)]
pub struct User {
    pub granted: Vec<(Pattern, Vec<Action>)>,
}

/// Whether the user may do this. Without access control a connection has no user and may do everything; with it, one
/// that has not logged in is a user who is granted nothing.
pub fn is_authorized(user: Option<&User>, action: Action, resource: Resource<'_>) -> bool {
    let Some(user) = user else {
        return true;
    };
    user.granted
        .iter()
        .any(|(pattern, actions)| pattern.covers(resource) && actions.contains(&action))
}

impl Action {
    /// MongoDB's name of the action.
    pub fn name(self) -> &'static str {
        match self {
            Action::BypassDocumentValidation => "bypassDocumentValidation",
            Action::ChangeStream => "changeStream",
            Action::CollMod => "collMod",
            Action::CollStats => "collStats",
            Action::CreateCollection => "createCollection",
            Action::CreateIndex => "createIndex",
            Action::DbStats => "dbStats",
            Action::DropCollection => "dropCollection",
            Action::DropDatabase => "dropDatabase",
            Action::DropIndex => "dropIndex",
            Action::EnableProfiler => "enableProfiler",
            Action::Find => "find",
            Action::Fsync => "fsync",
            Action::GetCmdLineOpts => "getCmdLineOpts",
            Action::GetLog => "getLog",
            Action::GetParameter => "getParameter",
            Action::HostInfo => "hostInfo",
            Action::Inprog => "inprog",
            Action::Insert => "insert",
            Action::KillAnySession => "killAnySession",
            Action::Killop => "killop",
            Action::ListCollections => "listCollections",
            Action::ListDatabases => "listDatabases",
            Action::ListIndexes => "listIndexes",
            Action::LogRotate => "logRotate",
            Action::Remove => "remove",
            Action::RenameCollectionSameDb => "renameCollectionSameDB",
            Action::ReplSetConfigure => "replSetConfigure",
            Action::ReplSetGetConfig => "replSetGetConfig",
            Action::ReplSetGetStatus => "replSetGetStatus",
            Action::ReplSetStateChange => "replSetStateChange",
            Action::ServerStatus => "serverStatus",
            Action::SetParameter => "setParameter",
            Action::Shutdown => "shutdown",
            Action::Top => "top",
            Action::Update => "update",
            Action::Validate => "validate",
        }
    }
}
