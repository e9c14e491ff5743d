//! Users and roles, which stand as documents in `admin.system.users` and `admin.system.roles`.
//!
//! A MongoDB takes them by merging what stands in two other collections (`_mergeAuthzCollections`), as mongorestore does it; a server that does not know
//! that command takes the documents themselves.

use quarry_bson::{Document, Value, doc};
use quarry_client::{Connection, Sequence};

use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::oplog::Change;

/// The database of both.
pub const DATABASE: &str = "admin";
/// The collections, and the one that the documents are brought in.
pub const COLLECTIONS: [(&str, &str); 2] =
    [("system.users", "tempusers"), ("system.roles", "temproles")];
/// Statements of one command.
const STATEMENTS_MAX: usize = 1000;

/// Whether the collection holds users or roles.
pub fn are_in(namespace: &Namespace) -> bool {
    let is_one = |(name, _): &(&str, &str)| namespace.collection == *name;
    namespace.database == DATABASE && COLLECTIONS.iter().any(is_one)
}

/// Users and roles, in the order of `COLLECTIONS`; none of a kind that is left as it is on a server.
#[derive(Default)]
pub struct Accounts([Option<Vec<Document>>; 2]);

impl Accounts {
    /// The users and roles of a server.
    pub fn of_server(connection: &mut Connection) -> quarry_client::Result<Accounts> {
        let mut accounts = Accounts::default();
        for (documents, (collection, _)) in accounts.0.iter_mut().zip(COLLECTIONS) {
            let cursor = connection.cursor(DATABASE, &doc! { "find": collection })?;
            *documents = Some(cursor.collect()?);
        }
        Ok(accounts)
    }

    /// Users and roles together.
    pub fn len(&self) -> usize {
        self.0.iter().flatten().map(Vec::len).sum()
    }

    /// Adds a document of one of the collections.
    pub fn add(&mut self, collection: &str, document: Document) {
        for (documents, (name, _)) in self.0.iter_mut().zip(COLLECTIONS) {
            if collection == name {
                documents.get_or_insert_default().push(document);
                return;
            }
        }
    }

    /// Changes one of the documents, or adds one.
    ///
    /// # Errors
    /// The text says what of the change is unknown.
    pub fn change(
        &mut self,
        collection: &str,
        id: &Value,
        change: Change,
    ) -> std::result::Result<(), String> {
        for (documents, (name, _)) in self.0.iter_mut().zip(COLLECTIONS) {
            if collection != name {
                continue;
            }
            let own = |document: &Document| document.get("_id").map(Value::from);
            let is_it = |document: &Document| own(document).as_ref() == Some(id);
            let place = documents.iter().flatten().position(is_it);
            let known = documents.as_mut();
            let before = place.zip(known).map(|(place, known)| known.remove(place));
            if let Some(after) = change.apply(before)? {
                documents.get_or_insert_default().push(after);
            }
            return Ok(());
        }
        Ok(())
    }

    /// The kinds that there are: the collection, the one that documents are brought in, and the documents.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, &[Document])> {
        let named = self.0.iter().zip(COLLECTIONS);
        named.filter_map(|(documents, (collection, brought_in))| {
            Some((collection, brought_in, documents.as_deref()?))
        })
    }

    /// Brings them into a server: those of the same name are replaced, and with `drops` all others of the same kind removed.
    pub fn restore(&self, connection: &mut Connection, drops: bool) -> Result<()> {
        if self.len() == 0 {
            return Ok(());
        }
        let merged = self.merge(connection, drops);
        // Whatever became of it, no copy of users and their keys is left lying about.
        for (_, brought_in) in COLLECTIONS {
            let _ = connection.define(DATABASE, &doc! { "drop": brought_in });
        }
        match merged? {
            true => Ok(()),
            false => self.restore_documents(connection, drops),
        }
    }

    /// Has the server merge them; false where it does not know how.
    fn merge(&self, connection: &mut Connection, drops: bool) -> Result<bool> {
        let mut command = doc! { "_mergeAuthzCollections": 1 };
        for (collection, brought_in, documents) in self.kinds() {
            // What an earlier attempt has left.
            let _ = connection.define(DATABASE, &doc! { "drop": brought_in });
            upsert(connection, brought_in, documents)?;
            let field = match collection == COLLECTIONS[0].0 {
                true => "tempUsersCollection",
                false => "tempRolesCollection",
            };
            command.append(field, format!("{DATABASE}.{brought_in}"));
        }
        command.append("drop", drops).append("db", "");
        command.append("writeConcern", doc! { "w": "majority" });
        match connection.define(DATABASE, &command) {
            Err(error) if error.is_unknown_command() => Ok(false),
            merged => merged
                .map(|_| true)
                .map_err(Error::server("users and roles")),
        }
    }

    fn restore_documents(&self, connection: &mut Connection, drops: bool) -> Result<()> {
        for (collection, _, documents) in self.kinds() {
            upsert(connection, collection, documents)?;
            let kept: Value = documents
                .iter()
                .filter_map(|document| document.get("_id").map(Value::from))
                .collect();
            if drops {
                let others = doc! { "q": { "_id": { "$nin": kept } }, "limit": 0 };
                let command = doc! { "delete": collection, "deletes": [others] };
                let reply = connection
                    .define(DATABASE, &command)
                    .map_err(Error::server("users and roles"))?;
                check_written(&reply)?;
            }
        }
        // A server that keeps users in memory looks again.
        let _ = connection.run(DATABASE, &doc! { "invalidateUserCache": 1 });
        Ok(())
    }
}

fn upsert(connection: &mut Connection, collection: &str, documents: &[Document]) -> Result<()> {
    for documents in documents.chunks(STATEMENTS_MAX) {
        let mut statements = Vec::new();
        for document in documents {
            let id = document.get("_id").map_or_else(Value::null, Value::from);
            let statement = doc! { "q": { "_id": id }, "u": document, "upsert": true };
            statements.extend_from_slice(statement.as_bytes());
        }
        let sequence = Sequence {
            identifier: "updates",
            documents: &statements,
        };
        let reply = connection
            .write(DATABASE, &doc! { "update": collection }, sequence, true)
            .map_err(Error::server("users and roles"))?;
        check_written(&reply)?;
    }
    Ok(())
}

/// Fails where a statement of a write was refused.
fn check_written(reply: &Document) -> Result<()> {
    match reply.get_path("writeErrors.0.errmsg") {
        None => Ok(()),
        Some(error) => {
            let message = error.as_str().unwrap_or("refused");
            Err(Error::Incomplete(format!("users and roles: {message}")))
        }
    }
}
