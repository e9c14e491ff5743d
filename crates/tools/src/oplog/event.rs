//! Entries made of the events of a change stream with `showExpandedEvents`, for a server that keeps no oplog of its own.

use quarry_bson::{Document, RawDocument, RawValue, Value, doc};

use super::diff_of_event::diff;
use super::entry::documents;
use crate::namespaces::Namespace;

/// The version of the entries' form, and the term of a set that has had one election.
const VERSION: i64 = 2;
const TERM: i64 = 1;

/// The entries that say what the event says.
///
/// # Errors
/// The text says why there are none.
pub fn entries_of(event: RawDocument<'_>) -> Result<Vec<Document>, String> {
    let kind = event.get_str("operationType").unwrap_or_default();
    let named = event.get_document("ns").unwrap_or(RawDocument::EMPTY);
    let database = named.get_str("db").ok_or("an event without a database")?;
    let collection = named.get_str("coll").unwrap_or_default();
    let of = Of {
        event,
        database,
        collection,
    };
    let key = event.get_document("documentKey");
    let key = || key.ok_or_else(|| format!("an event `{kind}` without a document"));
    let full = || event.get_document("fullDocument");
    let full = || full().ok_or_else(|| format!("an event `{kind}` without its document"));
    Ok(match kind {
        "insert" => vec![of.document("i", full()?, Some(key()?))],
        "replace" => vec![of.document("u", full()?, Some(key()?))],
        "update" => {
            let description = event.get_document("updateDescription");
            let description = description.ok_or("an update that says nothing")?;
            let o = doc! { "$v": 2, "diff": (diff(description)?) };
            vec![of.document("u", o.as_raw(), Some(key()?))]
        }
        "delete" => vec![of.document("d", key()?, None)],
        "dropDatabase" => vec![of.command(&doc! { "dropDatabase": 1 })],
        "rename" => {
            let what = format!("`{database}.{collection}` was renamed while it was dumped");
            return Err(format!("{what}: a dump of one moment cannot have that"));
        }
        _ => of.definition(kind)?,
    })
}

/// An event, and the names that it is about.
struct Of<'e> {
    event: RawDocument<'e>,
    database: &'e str,
    collection: &'e str,
}

impl Of<'_> {
    /// The entries of a change of a definition. Views are documents of a collection of the system's.
    fn definition(&self, kind: &str) -> Result<Vec<Document>, String> {
        let described = self.event.get_document("operationDescription");
        let described = described.unwrap_or(RawDocument::EMPTY);
        let is_view = !self.event.contains("collectionUUID");
        let with = |name: &str, fields: RawDocument<'_>| {
            let mut command = doc! { (name): (self.collection) };
            for field in fields {
                command.append_element(field);
            }
            command
        };
        let indexes = || documents(described.get_array("indexes")).into_iter();
        Ok(match kind {
            "create" | "modify" if is_view => {
                let mut view = doc! { "_id": (self.full_name()) };
                for field in described {
                    view.append_element(field);
                }
                let op = if kind == "create" { "i" } else { "u" };
                vec![self.of_view(op, &view)]
            }
            "drop" if is_view => vec![self.of_view("d", &doc! { "_id": (self.full_name()) })],
            "create" => vec![self.command(&with("create", described))],
            "modify" => vec![self.command(&with("collMod", described))],
            "drop" => vec![self.command(&doc! { "drop": (self.collection) })],
            "createIndexes" => indexes()
                .map(|index| self.command(&with("createIndexes", index.as_raw())))
                .collect(),
            "dropIndexes" => indexes()
                .map(|index| {
                    let name = index.get("name").map_or_else(Value::null, Value::from);
                    self.command(&doc! { "dropIndexes": (self.collection), "index": name })
                })
                .collect(),
            other => {
                let full = self.full_name();
                return Err(format!(
                    "`{full}`: an event `{other}` has no place in an oplog"
                ));
            }
        })
    }

    fn full_name(&self) -> String {
        Namespace::new(self.database, self.collection).to_string()
    }

    fn document(&self, op: &str, o: RawDocument<'_>, key: Option<RawDocument<'_>>) -> Document {
        let mut entry = self.entry(op, &self.full_name(), o);
        if let Some(key) = key {
            entry.append("o2", RawValue::Document(key));
        }
        entry
    }

    fn of_view(&self, op: &str, view: &Document) -> Document {
        let mut entry = self.entry(
            op,
            &format!("{}.system.views", self.database),
            view.as_raw(),
        );
        if let Some(id) = view.get("_id")
            && op == "u"
        {
            entry.append("o2", doc! { "_id": (Value::from(id)) });
        }
        entry
    }

    fn command(&self, command: &Document) -> Document {
        self.entry("c", &format!("{}.$cmd", self.database), command.as_raw())
    }

    fn entry(&self, op: &str, namespace: &str, o: RawDocument<'_>) -> Document {
        let mut entry = doc! { "op": op, "ns": namespace };
        if let Some(uuid) = self.event.get("collectionUUID") {
            entry.append("ui", uuid);
        }
        entry.append("o", RawValue::Document(o));
        for (name, of_event) in [("ts", "clusterTime"), ("wall", "wallTime")] {
            if let Some(value) = self.event.get(of_event) {
                entry.append(name, value);
            }
        }
        entry.append("t", TERM).append("v", VERSION);
        entry
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::Timestamp;

    use super::super::Entry;
    use super::*;

    fn event(kind: &str, more: Document) -> Document {
        let time = RawValue::Timestamp(Timestamp {
            time: 7,
            increment: 2,
        });
        let mut event = doc! { "operationType": kind, "clusterTime": time, "collectionUUID": 1 };
        event.append("ns", doc! { "db": "db", "coll": "c" });
        for field in &more {
            event.append_element(field);
        }
        event
    }

    /// The kind, the namespace and the `o` of each entry.
    fn said(event: &Document) -> Vec<(String, String, Document)> {
        let entries = entries_of(event.as_raw()).unwrap();
        let said = entries.iter().map(|entry| {
            Entry::parse(entry.as_raw()).unwrap();
            let text = |name| entry.get_str(name).unwrap().to_owned();
            (
                text("op"),
                text("ns"),
                entry.get_document("o").unwrap().to_owned_document(),
            )
        });
        said.collect()
    }

    fn entry(op: &str, ns: &str, o: Document) -> (String, String, Document) {
        (op.to_owned(), ns.to_owned(), o)
    }

    #[test]
    fn changes_of_documents_are_entries() {
        let key = || doc! { "_id": 1 };
        let whole = || doc! { "_id": 1, "a": 2 };
        let of = |kind, more| said(&event(kind, more));
        let put = doc! { "documentKey": (key()), "fullDocument": (whole()) };
        assert_eq!(of("insert", put.clone()), [entry("i", "db.c", whole())]);
        assert_eq!(of("replace", put), [entry("u", "db.c", whole())]);
        assert_eq!(
            of("delete", doc! { "documentKey": (key()) }),
            [entry("d", "db.c", key())]
        );
        let changed = doc! { "updatedFields": { "a": 3 }, "removedFields": [] };
        let update = doc! { "documentKey": (key()), "updateDescription": changed };
        let diff = doc! { "$v": 2, "diff": { "u": { "a": 3 } } };
        assert_eq!(of("update", update), [entry("u", "db.c", diff)]);
    }

    #[test]
    fn changes_of_definitions_are_commands() {
        let of = |kind, described: Document| {
            said(&event(kind, doc! { "operationDescription": described }))
        };
        let command = |o| [entry("c", "db.$cmd", o)];
        let created = doc! { "create": "c", "capped": true };
        assert_eq!(of("create", doc! { "capped": true }), command(created));
        assert_eq!(of("drop", doc! {}), command(doc! { "drop": "c" }));
        let hidden = doc! { "index": { "name": "a_1", "hidden": true } };
        let modified = doc! { "collMod": "c", "index": { "name": "a_1", "hidden": true } };
        assert_eq!(of("modify", hidden), command(modified));
        let index = |name| doc! { "v": 2, "key": { "a": 1 }, "name": name };
        let two = doc! { "indexes": [(index("x")), (index("y"))] };
        let names = |kind| {
            let entries = of(kind, two.clone());
            let named = entries
                .into_iter()
                .map(|(.., o)| o.iter().last().unwrap().value().to_value());
            named.collect::<Vec<_>>()
        };
        assert_eq!(names("createIndexes"), ["x", "y"].map(Value::from));
        assert_eq!(names("dropIndexes"), ["x", "y"].map(Value::from));
    }

    #[test]
    fn views_are_documents_of_the_system() {
        let of = |kind, described: Document| {
            let mut event = event(kind, doc! { "operationDescription": described });
            event.remove("collectionUUID");
            said(&event)
        };
        let view = || doc! { "viewOn": "a", "pipeline": [] };
        let whole = doc! { "_id": "db.c", "viewOn": "a", "pipeline": [] };
        let expected = |op, o| [entry(op, "db.system.views", o)];
        assert_eq!(of("create", view()), expected("i", whole.clone()));
        assert_eq!(of("modify", view()), expected("u", whole));
        assert_eq!(of("drop", doc! {}), expected("d", doc! { "_id": "db.c" }));
    }

    #[test]
    fn what_has_no_place_in_an_oplog_is_refused() {
        for (kind, part) in [
            ("rename", "`db.c` was renamed"),
            ("refineKey", "`refineKey`"),
        ] {
            let error = entries_of(event(kind, doc! {}).as_raw()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
