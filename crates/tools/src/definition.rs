//! A collection or view as it is defined: read from a server, and made on one.

use quarry_bson::{Document, RawDocument, RawValue, Value, doc};
use quarry_client::Connection;

use crate::error::{Error, Result};
use crate::namespaces::Namespace;

const NAMESPACE_EXISTS: i32 = 48;
const NAMESPACE_NOT_FOUND: i32 = 26;
/// Databases of a server's own, which no tool copies.
const OWN_DATABASES: [&str; 2] = ["local", "config"];
/// Collections of the system that are data of its users. All others that begin with `system.` are made by the server itself.
const SYSTEM_JS: &str = "system.js";
/// Fields of old index documents and old options that servers no longer take.
const OLD_INDEX_FIELDS: [&str; 2] = ["ns", "safe"];
const OLD_OPTIONS: [&str; 2] = ["autoIndexId", "flags"];

const UUID_SUBTYPE: u8 = 4;

/// The number of a collection, which stays the same when it is renamed.
pub type Uuid = [u8; 16];

/// The kind of what a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Collection,
    /// A collection of measurements, whose changes no stream of a whole deployment tells.
    TimeSeries,
    /// A pipeline over another collection: it has no documents of its own.
    View,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Collection => "collection",
            Kind::TimeSeries => "timeseries",
            Kind::View => "view",
        }
    }
}

/// Everything about a collection but its documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub kind: Kind,
    /// The options that `create` takes.
    pub options: Document,
    /// The documents of its indexes, as `listIndexes` gives them.
    pub indexes: Vec<Document>,
    pub uuid: Option<Uuid>,
}

impl Definition {
    pub fn is_capped(&self) -> bool {
        self.options
            .get("capped")
            .is_some_and(|capped| capped.is_truthy())
    }
}

/// The databases that have data of users, in order.
pub fn databases(connection: &mut Connection) -> Result<Vec<String>> {
    let command = doc! { "listDatabases": 1, "nameOnly": true };
    let reply = connection
        .read("admin", &command)
        .map_err(Error::server("listDatabases"))?;
    let listed = reply.get_array("databases");
    let mut names: Vec<String> = listed
        .iter()
        .flat_map(quarry_bson::RawArray::iter)
        .filter_map(|one| one.as_document()?.get_str("name").map(str::to_owned))
        .filter(|name| !OWN_DATABASES.contains(&name.as_str()))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// The collections and views of a database that are wanted, in order, without those of the system's own.
pub fn definitions(
    connection: &mut Connection,
    database: &str,
    collection: Option<&str>,
    is_wanted: &dyn Fn(&Namespace) -> bool,
) -> Result<Vec<Definition>> {
    let mut found = Vec::new();
    for entry in &listed(connection, database, collection)? {
        let Some(name) = name_of_users(entry) else {
            continue;
        };
        if is_wanted(&Namespace::new(database, name)) {
            found.push(of_entry(connection, database, name, entry)?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The names of the collections and views of a database, without those of the system's own.
pub fn names(connection: &mut Connection, database: &str) -> Result<Vec<String>> {
    let listed = listed(connection, database, None)?;
    let names = listed.iter().filter_map(name_of_users);
    Ok(names.map(str::to_owned).collect())
}

/// The documents that `listCollections` has of a database, or of one collection in it.
fn listed(
    connection: &mut Connection,
    database: &str,
    collection: Option<&str>,
) -> Result<Vec<Document>> {
    let mut command = doc! { "listCollections": 1 };
    if let Some(name) = collection {
        command.append("filter", doc! { "name": name });
    }
    let at = format!("listCollections of `{database}`");
    connection
        .cursor(database, &command)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server(at))
}

/// The name of a listed collection; none of one of the system's own.
fn name_of_users(entry: &Document) -> Option<&str> {
    let name = entry.get_str("name")?;
    (!name.starts_with("system.") || name == SYSTEM_JS).then_some(name)
}

fn of_entry(
    connection: &mut Connection,
    database: &str,
    name: &str,
    entry: &Document,
) -> Result<Definition> {
    let kind = match entry.get_str("type") {
        Some("view") => Kind::View,
        Some("timeseries") => Kind::TimeSeries,
        Some("collection") | None => Kind::Collection,
        Some(other) => {
            let what = format!("`{database}.{name}` is a {other}, whose copy is not supported yet");
            return Err(Error::usage(what));
        }
    };
    let options = entry.get_document("options");
    let indexes = match kind {
        Kind::View => Vec::new(),
        Kind::Collection | Kind::TimeSeries => indexes(connection, database, name)?,
    };
    Ok(Definition {
        name: name.to_owned(),
        kind,
        options: options.map(Document::from).unwrap_or_default(),
        indexes,
        uuid: uuid_of(entry),
    })
}

fn uuid_of(entry: &Document) -> Option<Uuid> {
    match entry.get_path("info.uuid") {
        Some(RawValue::Binary(uuid)) => uuid.bytes.try_into().ok(),
        _ => None,
    }
}

/// The name that the collection of a UUID has now; none where it has been dropped. `likely` is asked first.
pub fn name_of(
    connection: &mut Connection,
    uuid: &Uuid,
    likely: &Namespace,
) -> Result<Option<Namespace>> {
    let binary = Value::binary(UUID_SUBTYPE, uuid);
    for filter in [
        doc! { "name": (likely.collection.as_str()) },
        doc! { "info.uuid": binary },
    ] {
        let command = doc! { "listCollections": 1, "filter": filter };
        let listed = connection
            .cursor(&likely.database, &command)
            .and_then(quarry_client::Cursor::collect)
            .map_err(Error::server(likely))?;
        let entry = listed.iter().find(|entry| uuid_of(entry) == Some(*uuid));
        if let Some(name) = entry.and_then(|entry| entry.get_str("name")) {
            return Ok(Some(Namespace::new(&likely.database, name)));
        }
    }
    Ok(None)
}

/// The indexes of a collection; none where it has gone meanwhile.
fn indexes(connection: &mut Connection, database: &str, name: &str) -> Result<Vec<Document>> {
    let listed = connection
        .cursor(database, &doc! { "listIndexes": name })
        .and_then(quarry_client::Cursor::collect);
    match listed {
        Err(error) if error.code() == Some(NAMESPACE_NOT_FOUND) => Ok(Vec::new()),
        listed => listed.map_err(Error::server(format_args!(
            "indexes of `{database}.{name}`"
        ))),
    }
}

/// The approximate number of a collection's documents, for a progress line.
pub fn count(connection: &mut Connection, namespace: &Namespace) -> Option<u64> {
    let command = doc! { "count": (namespace.collection.as_str()) };
    let reply = connection.read(&namespace.database, &command).ok()?;
    u64::try_from(reply.get("n")?.as_i64_exact()?).ok()
}

/// Removes a collection; one that is not there is no error.
pub fn drop(connection: &mut Connection, namespace: &Namespace) -> Result<()> {
    let command = doc! { "drop": (namespace.collection.as_str()) };
    match connection.define(&namespace.database, &command) {
        Err(error) if error.code() != Some(NAMESPACE_NOT_FOUND) => {
            Err(Error::server(format_args!("drop `{namespace}`"))(error))
        }
        _ => Ok(()),
    }
}

/// Whether something of that name is there.
pub fn exists(connection: &mut Connection, namespace: &Namespace) -> Result<bool> {
    Ok(entry(connection, namespace)?.is_some())
}

/// Whether something of that name is there that the user may read: one who may not list the database is told of what is the user's own.
pub fn is_readable(connection: &mut Connection, namespace: &Namespace) -> Result<bool> {
    let mut command = names_listed(&namespace.collection);
    command.append("authorizedCollections", true);
    Ok(first_of(connection, namespace, &command)?.is_some())
}

/// Whether a view of that name is there.
pub fn is_view(connection: &mut Connection, namespace: &Namespace) -> Result<bool> {
    let entry = entry(connection, namespace)?;
    Ok(entry.is_some_and(|entry| entry.get_str("type") == Some("view")))
}

fn entry(connection: &mut Connection, namespace: &Namespace) -> Result<Option<Document>> {
    first_of(connection, namespace, &names_listed(&namespace.collection))
}

/// The command that lists the collection of a name, without its options.
fn names_listed(name: &str) -> Document {
    doc! { "listCollections": 1, "filter": { "name": name }, "nameOnly": true }
}

fn first_of(
    connection: &mut Connection,
    namespace: &Namespace,
    command: &Document,
) -> Result<Option<Document>> {
    let listed = connection
        .cursor(&namespace.database, command)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server(namespace))?;
    Ok(listed.into_iter().next())
}

/// Makes a collection or a view with its options; false where something of that name and with other options is there already.
pub fn create(
    connection: &mut Connection,
    namespace: &Namespace,
    options: RawDocument<'_>,
) -> Result<bool> {
    let mut command = doc! { "create": (namespace.collection.as_str()) };
    for option in options {
        let is_old = OLD_OPTIONS.iter().any(|old| option.name() == *old);
        // An id index is made of the collection's own options.
        if !is_old && option.name() != "idIndex" && option.name() != "uuid" {
            command.append_element(option);
        }
    }
    match connection.define(&namespace.database, &command) {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(NAMESPACE_EXISTS) => Ok(false),
        Err(error) => Err(Error::server(format_args!("create `{namespace}`"))(error)),
    }
}

/// Whether a listed index is the one that every collection has: that of a clustered collection may have another name.
pub fn is_of_id(index: RawDocument<'_>) -> bool {
    let is_clustered = || index.get("clustered").is_some_and(|flag| flag.is_truthy());
    index.get_str("name") == Some("_id_") || is_clustered()
}

/// Builds the indexes, all but the one on `_id`.
pub fn create_indexes(
    connection: &mut Connection,
    namespace: &Namespace,
    indexes: &[Document],
) -> Result<()> {
    let wanted: Value = indexes
        .iter()
        .filter(|index| !is_of_id(index.as_raw()))
        .map(|index| Value::from(as_created(index)))
        .collect();
    if wanted.as_array().is_none_or(|wanted| wanted.is_empty()) {
        return Ok(());
    }
    let command = doc! { "createIndexes": (namespace.collection.as_str()), "indexes": wanted };
    connection
        .define(&namespace.database, &command)
        .map_err(Error::server(format_args!("indexes of `{namespace}`")))?;
    Ok(())
}

/// Drops the indexes that a new collection has and the definition does not: a time series is made with one.
pub fn drop_other_indexes(
    connection: &mut Connection,
    namespace: &Namespace,
    wanted: &[Document],
) -> Result<()> {
    let (database, collection) = (&namespace.database, namespace.collection.as_str());
    for index in indexes(connection, database, collection)? {
        let name = index.get_str("name").unwrap_or_default();
        let is_wanted = |other: &Document| other.get_str("name") == Some(name);
        if is_of_id(index.as_raw()) || wanted.iter().any(is_wanted) {
            continue;
        }
        let command = doc! { "dropIndexes": collection, "index": name };
        connection
            .define(database, &command)
            .map_err(Error::server(format_args!("indexes of `{namespace}`")))?;
    }
    Ok(())
}

/// The document of an index as `createIndexes` takes it: an index of the first version, or of none, becomes one of today's. One that
/// is shown without a collation has the simple one, which is said, because it would have the collection's else.
fn as_created(index: &Document) -> Document {
    let mut wanted = Document::new();
    for field in index {
        let is_old_version = field.name() == "v" && field.value().as_i64_exact() != Some(2);
        if !is_old_version && !OLD_INDEX_FIELDS.iter().any(|old| field.name() == *old) {
            wanted.append_element(field);
        }
    }
    if !wanted.contains("collation") {
        wanted.append("collation", doc! { "locale": "simple" });
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_index_becomes_one_of_today() {
        let old = doc! { "v": 1, "key": { "a": 1 }, "name": "a_1", "ns": "db.c", "unique": true };
        let wanted = doc! {
            "key": { "a": 1 }, "name": "a_1", "unique": true, "collation": { "locale": "simple" },
        };
        assert_eq!(as_created(&old), wanted);
        let new = doc! {
            "v": 2.0, "key": { "a": 1 }, "name": "a_1", "collation": { "locale": "de" },
        };
        assert_eq!(as_created(&new), new);
    }
}
