//! Privileges that a command needs of the user who runs it, in MongoDB's terms: an action, such as `find`, on a resource, such as a
//! collection. Each row of the command table declares it, beside what further arguments ask for.
//!
//! Without access control no command has a user and nothing is checked. What needs more than a row can say, such as the
//! owner of a cursor, a command asks of its user itself; its row then needs a client that is logged in.
//!
//! A document may have several fields of one name, of which some readers take the first and others the last. What any of
//! them asks for is needed, so that a field that is not looked at here cannot be one that the command acts on.

use quarry_bson::{RawDocument, RawElement, RawValue};
use quarry_query::pipeline::{collections_named, collections_written};
use quarry_wire::DocumentSequence;
use smallvec::{SmallVec, smallvec};

pub use crate::access::action::Action;
use crate::access::resource::Need;
pub use crate::access::resource::Resource;

/// The resource of a declared action, found in the command when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The server, or all of its fellows.
    Cluster,
    /// The database that the command is sent to.
    Database,
    /// The collection that the command names, in that database.
    Collection,
    /// Every database that is not the server's own.
    AllDatabases,
    /// The database of the namespace that the field spells out.
    DatabaseIn(&'static str),
    /// The collection whose namespace the field spells out.
    CollectionIn(&'static str),
    /// The collection of that database which the field names, where the field is there.
    CollectionNamed(&'static str),
    /// Each of the collections that the stages of the pipeline read beside the command's own.
    CollectionsOfStages,
    /// Each of the collections that the pipeline writes into in this way.
    CollectionsWritten(Written),
}

/// A way in which a pipeline writes into a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It inserts documents.
    Inserts,
    /// It changes documents.
    Updates,
    /// It removes documents.
    Removes,
    /// Whatever it does to it.
    InAnyWay,
}

/// Which calls of the command need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Those where the field is true.
    Field(&'static str),
    /// Those where it is false or not there.
    Without(&'static str),
    /// Those where the field is there, and false.
    Denied(&'static str),
    /// Those where the field is true in a document of the list.
    Statement {
        list: &'static str,
        field: &'static str,
    },
    /// Those whose pipeline begins with the stage.
    FirstStage(&'static str),
    /// Those whose pipeline begins with the stage, the option in it being true.
    FirstStageWith {
        stage: &'static str,
        option: &'static str,
    },
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
    /// A user, whoever it is: the command acts on what is the user's own, or checks its user itself.
    Login,
    Each(&'static [Requirement]),
    /// The privileges of the command that the first field holds.
    WhatItExplains,
}

impl Requires {
    /// Whether a command needs something of the collection that it names.
    pub fn is_of_collection(&self) -> bool {
        match self {
            Requires::Each(requirements) => requirements
                .iter()
                .any(|requirement| requirement.on == On::Collection),
            Requires::Nothing | Requires::Login | Requires::WhatItExplains => false,
        }
    }

    /// The privileges that a call needs by its row, which a cursor that it leaves open needs again at each batch.
    pub fn needs(
        &self,
        body: RawDocument<'_>,
        sequences: &[DocumentSequence<'_>],
        database: &str,
    ) -> Box<[Need]> {
        let Requires::Each(requirements) = self else {
            return Box::default();
        };
        let collection = body.first().and_then(|first| first.value().as_str());
        let collection = collection.unwrap_or_default();
        let mut needs = Vec::new();
        for requirement in *requirements {
            if requirement.applies(body, sequences) {
                let resources = requirement.resources(body, database, collection);
                let needed = resources.into_iter();
                needs.extend(needed.map(|resource| Need::of(requirement.action, resource)));
            }
        }
        needs.into()
    }
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
            When::Denied(field) => values(body, field).any(|value| !value.is_truthy()),
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
            When::FirstStageWith { stage, option } => first_stage_values(body, stage)
                .filter_map(|value| value.as_document())
                .any(|options| is_set(options, option)),
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
    ) -> SmallVec<[Resource<'a>; 1]> {
        let spelled_out = |field| {
            let names = values(body, field).map(|value| value.as_str().unwrap_or_default());
            names.map(|namespace| namespace.split_once('.').unwrap_or((namespace, "")))
        };
        match self.on {
            On::Cluster => smallvec![Resource::Cluster],
            On::AllDatabases => smallvec![Resource::Database("")],
            On::Database => smallvec![Resource::Database(database)],
            // A command on a whole database, such as an aggregate over none of its collections.
            On::Collection if collection.is_empty() => smallvec![Resource::Database(database)],
            On::Collection => smallvec![Resource::Collection(database, collection)],
            On::DatabaseIn(field) => spelled_out(field)
                .map(|(database, _)| Resource::Database(database))
                .collect(),
            On::CollectionIn(field) => spelled_out(field)
                .map(|(database, collection)| Resource::Collection(database, collection))
                .collect(),
            On::CollectionNamed(field) => values(body, field)
                .map(|value| Resource::Collection(database, value.as_str().unwrap_or_default()))
                .collect(),
            On::CollectionsOfStages => values(body, "pipeline")
                .filter_map(|value| value.as_array())
                .flat_map(collections_named)
                .map(|collection| Resource::Collection(database, collection))
                .collect(),
            On::CollectionsWritten(how) => values(body, "pipeline")
                .filter_map(|value| value.as_array())
                .flat_map(collections_written)
                .filter(|written| match how {
                    Written::Inserts => written.inserts,
                    Written::Updates => written.updates,
                    Written::Removes => written.removes,
                    Written::InAnyWay => true,
                })
                .map(|written| {
                    let database = written.database.unwrap_or(database);
                    Resource::Collection(database, written.collection)
                })
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

/// The values of the first stages of that name.
fn first_stage_values<'a>(
    body: RawDocument<'a>,
    name: &'static str,
) -> impl Iterator<Item = RawValue<'a>> {
    values(body, "pipeline").filter_map(move |pipeline| {
        let stage = pipeline.as_array()?.iter().next()?.as_document()?;
        stage.get(name)
    })
}
