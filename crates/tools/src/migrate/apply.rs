//! Changes of a source, applied so that a change may come twice, and may come to documents that are newer already.
//!
//! A document that was inserted, replaced or updated is put as the source has it by now; what happened to it since then comes behind, and brings it to the
//! same end. One that is gone by now is left to the event that says so. A unique index may meanwhile refuse what it takes a change later: such
//! documents are looked at again behind each batch.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use quarry_client::{Connection, Sequence};

use crate::definition;
use crate::error::{Error, Result};
use crate::namespaces::{Namespace, Selection};

/// Statements that go together.
const STATEMENTS_BYTES: usize = 4 << 20;
const STATEMENTS_MAX: usize = 10_000;
const DUPLICATE_KEY: i32 = 11_000;
/// Documents that a unique index refuses for now.
const PENDING_MAX: usize = 100_000;
const NAMESPACE_NOT_FOUND: i32 = 26;
const INDEX_NOT_FOUND: i32 = 27;
/// An index of that name or key is there with other options: it was made anew since, and stands as it is by now.
const INDEX_MADE_ANEW: [i32; 2] = [85, 86];

/// Applies events to a destination.
pub struct Applier<'a> {
    selection: &'a Selection,
    source: Connection,
    destination: Connection,
    statements: Option<Statements>,
    /// Whether events about indexes are applied. Until the copy is of one moment they are not: the source's indexes of that
    /// moment are built then.
    follows_indexes: bool,
    /// Where a document comes from and goes to, and its `_id`.
    pending: Vec<(Namespace, Namespace, Value)>,
}

/// Statements for one collection that have not been sent.
struct Statements {
    from: Namespace,
    to: Namespace,
    verb: Verb,
    bytes: Vec<u8>,
    ids: Vec<Value>,
}

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Put,
    Delete,
}

impl<'a> Applier<'a> {
    pub fn new(
        selection: &'a Selection,
        source: Connection,
        destination: Connection,
    ) -> Applier<'a> {
        Applier {
            selection,
            source,
            destination,
            statements: None,
            follows_indexes: false,
            pending: Vec::new(),
        }
    }

    /// From now on events about indexes are applied.
    pub fn follow_indexes(&mut self) {
        self.follows_indexes = true;
    }

    /// Applies an event, by and by: `flush` brings it to its end.
    pub fn apply(&mut self, event: RawDocument<'_>) -> Result<()> {
        let Some(from) = namespace(event, "ns") else {
            return Ok(());
        };
        let is_own = from.collection.starts_with("system.") && from.collection != "system.js";
        if is_own || !self.selection.takes(&from) {
            return Ok(());
        }
        let to = self.selection.renamed(&from)?;
        let id = event.get_path("documentKey._id").map(Value::from);
        match (event.get_str("operationType").unwrap_or_default(), id) {
            ("insert" | "replace" | "update", Some(id)) => match event.get_document("fullDocument")
            {
                Some(document) => self.put(from, to, id, document),
                None => Ok(()),
            },
            ("delete", Some(id)) => self.delete(from, to, id),
            (kind, _) => {
                self.flush()?;
                self.define(kind, event, &to)
            }
        }
    }

    fn put(
        &mut self,
        from: Namespace,
        to: Namespace,
        id: Value,
        document: RawDocument<'_>,
    ) -> Result<()> {
        let statements = self.statements_for(from, to, Verb::Put)?;
        append_put(&id, document, &mut statements.bytes);
        statements.ids.push(id);
        Ok(())
    }

    fn delete(&mut self, from: Namespace, to: Namespace, id: Value) -> Result<()> {
        let statements = self.statements_for(from, to, Verb::Delete)?;
        let statement = doc! { "q": { "_id": (id.clone()) }, "limit": 1 };
        statements.bytes.extend_from_slice(statement.as_bytes());
        statements.ids.push(id);
        Ok(())
    }

    /// The statements that the next one joins; others are sent first.
    fn statements_for(
        &mut self,
        from: Namespace,
        to: Namespace,
        verb: Verb,
    ) -> Result<&mut Statements> {
        let joins = self.statements.as_ref().is_some_and(|open| {
            open.to == to
                && open.verb == verb
                && open.bytes.len() < STATEMENTS_BYTES
                && open.ids.len() < STATEMENTS_MAX
        });
        if !joins {
            self.flush()?;
        }
        Ok(self.statements.get_or_insert_with(|| Statements {
            from,
            to,
            verb,
            bytes: Vec::new(),
            ids: Vec::new(),
        }))
    }

    /// Sends what has been gathered.
    pub fn flush(&mut self) -> Result<()> {
        let Some(statements) = self.statements.take() else {
            return Ok(());
        };
        let (verb, field) = match statements.verb {
            Verb::Put => ("update", "updates"),
            Verb::Delete => ("delete", "deletes"),
        };
        let mut command = doc! { (verb): (statements.to.collection.as_str()), "ordered": false };
        if statements.verb == Verb::Put {
            command.append("bypassDocumentValidation", true);
        }
        let sequence = Sequence {
            identifier: field,
            documents: &statements.bytes,
        };
        // Statements on one document are applied in order: a command takes one after the other.
        let reply = self
            .destination
            .write(&statements.to.database, &command, sequence, true)
            .map_err(Error::server(format_args!(
                "changes of `{}`",
                statements.to
            )))?;
        for error in reply
            .get_array("writeErrors")
            .iter()
            .flat_map(quarry_bson::RawArray::iter)
        {
            let Some(error) = error.as_document() else {
                continue;
            };
            let index = error.get("index").and_then(|index| index.as_i64_exact());
            let id = index.and_then(|index| statements.ids.get(usize::try_from(index).ok()?));
            match (error.get_i32("code"), id) {
                (Some(DUPLICATE_KEY), Some(id)) if self.pending.len() < PENDING_MAX => {
                    let (from, to) = (statements.from.clone(), statements.to.clone());
                    self.pending.push((from, to, id.clone()));
                }
                _ => {
                    let message = error.get_str("errmsg").unwrap_or("refused");
                    return Err(Error::Incomplete(format!("`{}`: {message}", statements.to)));
                }
            }
        }
        self.look_again()
    }

    /// Puts documents that a unique index has refused as the source has them now.
    fn look_again(&mut self) -> Result<()> {
        for (from, to, id) in std::mem::take(&mut self.pending) {
            let find =
                doc! { "find": (from.collection.as_str()), "filter": { "_id": (id.clone()) } };
            let found = self
                .source
                .cursor(&from.database, &find)
                .and_then(quarry_client::Cursor::collect)
                .map_err(Error::server(&from))?;
            let mut statement = Vec::new();
            let (command, field) = match found.first() {
                Some(document) => {
                    append_put(&id, document.as_raw(), &mut statement);
                    (doc! { "update": (to.collection.as_str()) }, "updates")
                }
                None => {
                    let delete = doc! { "q": { "_id": (id.clone()) }, "limit": 1 };
                    statement.extend_from_slice(delete.as_bytes());
                    (doc! { "delete": (to.collection.as_str()) }, "deletes")
                }
            };
            let sequence = Sequence {
                identifier: field,
                documents: &statement,
            };
            let reply = self
                .destination
                .write(&to.database, &command, sequence, true)
                .map_err(Error::server(&to))?;
            if reply.contains("writeErrors") {
                self.pending.push((from, to, id));
            }
        }
        Ok(())
    }

    /// Sends what is left, and makes room for documents that a unique index refuses: they are removed together and put again, so that
    /// two that have exchanged their values do not wait for each other.
    pub fn settle(&mut self) -> Result<()> {
        self.flush()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        for (_, to, id) in &self.pending {
            let statement = doc! { "q": { "_id": (id.clone()) }, "limit": 1 };
            let sequence = Sequence {
                identifier: "deletes",
                documents: statement.as_bytes(),
            };
            let command = doc! { "delete": (to.collection.as_str()) };
            self.destination
                .write(&to.database, &command, sequence, true)
                .map_err(Error::server(to))?;
        }
        self.look_again()
    }

    /// A document that a unique index refuses still, because of another one whose change has not come yet.
    pub fn refused(&self) -> Option<String> {
        let (_, to, id) = self.pending.first()?;
        Some(format!(
            "a unique index of `{to}` refuses the document of _id {id}"
        ))
    }

    /// Applies an event that is about a collection and not about a document.
    fn define(&mut self, kind: &str, event: RawDocument<'_>, to: &Namespace) -> Result<()> {
        let described = event
            .get_document("operationDescription")
            .unwrap_or(RawDocument::EMPTY);
        match kind {
            "drop" => definition::drop(&mut self.destination, to),
            "create" => {
                let options = described.iter().filter(|field| field.name() != "idIndex");
                let mut wanted = Document::new();
                options.for_each(|option| {
                    wanted.append_element(option);
                });
                definition::create(&mut self.destination, to, wanted.as_raw()).map(drop)
            }
            "rename" => self.rename(event, to),
            "createIndexes" | "dropIndexes" if !self.follows_indexes => Ok(()),
            "createIndexes" => {
                let indexes = documents(described, "indexes");
                match definition::create_indexes(&mut self.destination, to, &indexes) {
                    Err(Error::Server { why, .. })
                        if why
                            .code()
                            .is_some_and(|code| INDEX_MADE_ANEW.contains(&code)) =>
                    {
                        Ok(())
                    }
                    made => made,
                }
            }
            "dropIndexes" => self.drop_indexes(&documents(described, "indexes"), to),
            // Each collection of it has been dropped by an event of its own.
            "dropDatabase" | "invalidate" | "endOfTransaction" => Ok(()),
            other => {
                let what = format!(
                    "`{to}`: following a change of the kind `{other}` is not supported yet"
                );
                Err(Error::usage(what))
            }
        }
    }

    fn rename(&mut self, event: RawDocument<'_>, to: &Namespace) -> Result<()> {
        let Some(new) = namespace(event, "to") else {
            return Ok(());
        };
        if !self.selection.takes(&new) {
            return definition::drop(&mut self.destination, to);
        }
        let new = self.selection.renamed(&new)?;
        let command = doc! {
            "renameCollection": (to.to_string()), "to": (new.to_string()), "dropTarget": true,
        };
        match self.destination.run("admin", &command) {
            // It has been renamed by an event that comes twice.
            Err(error) if error.code() == Some(NAMESPACE_NOT_FOUND) => Ok(()),
            renamed => renamed
                .map(drop)
                .map_err(Error::server(format_args!("rename of `{to}`"))),
        }
    }

    fn drop_indexes(&mut self, indexes: &[Document], to: &Namespace) -> Result<()> {
        for index in indexes {
            let name = index.get("name").map_or_else(Value::null, Value::from);
            let command = doc! { "dropIndexes": (to.collection.as_str()), "index": name };
            match self.destination.run(&to.database, &command) {
                Err(error)
                    if matches!(error.code(), Some(NAMESPACE_NOT_FOUND | INDEX_NOT_FOUND)) => {}
                dropped => {
                    dropped.map_err(Error::server(format_args!("indexes of `{to}`")))?;
                }
            }
        }
        Ok(())
    }
}

fn namespace(event: RawDocument<'_>, field: &str) -> Option<Namespace> {
    let namespace = event.get_document(field)?;
    Some(Namespace::new(
        namespace.get_str("db")?,
        namespace.get_str("coll")?,
    ))
}

fn documents(described: RawDocument<'_>, field: &str) -> Vec<Document> {
    let array = described.get_array(field);
    let values = array.iter().flat_map(quarry_bson::RawArray::iter);
    let documents = values.filter_map(|value| match value {
        RawValue::Document(document) => Some(document.to_owned_document()),
        _ => None,
    });
    documents.collect()
}

/// Appends the statement that makes the document be as it is here.
fn append_put(id: &Value, document: RawDocument<'_>, out: &mut Vec<u8>) {
    let mut statement = DocumentBuilder::new(out);
    statement.document("q").append("_id", id);
    statement.append("u", document).append("upsert", true);
    statement.finish();
}
