//! One entry: what it does, to what, and when.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Timestamp, Value};

use super::change::Change;
use crate::namespaces::Namespace;

/// Kinds of entries that do nothing to data: those that say that time goes by, and those of a server's own records.
const IDLE: [&str; 5] = ["n", "ci", "cu", "cd", "km"];
/// Commands that tell of work that others tell the end of, or that changes nothing.
const IDLE_COMMANDS: [&str; 3] = ["startIndexBuild", "abortIndexBuild", "dbCheck"];
/// Entries may hold entries, which hold no further ones.
const APPLY_OPS: &str = "applyOps";

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub time: Timestamp,
    pub operation: Operation,
}

/// The effect of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Nothing.
    Idle,
    /// A document changes.
    Document {
        namespace: Namespace,
        id: Value,
        change: Change,
    },
    /// A command on a database, whose first field is its name.
    Command { database: String, command: Document },
    /// Several entries at once, and the transaction that they are of.
    Several {
        operations: Vec<Operation>,
        part: Option<Part>,
    },
    /// The end of a prepared transaction.
    Commit(Part),
    /// A transaction that comes to nothing.
    Abort(Part),
}

/// The place of an entry in its transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The session and the number of the transaction, as bytes.
    pub transaction: Vec<u8>,
    /// Whether there is an entry before it.
    pub has_earlier: bool,
    /// Whether the transaction is committed with it.
    pub is_last: bool,
}

impl Entry {
    /// Reads an entry.
    ///
    /// # Errors
    /// The text says what of the entry is unknown.
    pub fn parse(entry: RawDocument<'_>) -> Result<Entry, String> {
        let Some(RawValue::Timestamp(time)) = entry.get("ts") else {
            return Err("an entry without a time".to_owned());
        };
        let failed = |what| format!("the entry of {}:{}: {what}", time.time, time.increment);
        let operation = operation(entry).map_err(failed)?;
        Ok(Entry { time, operation })
    }
}

fn operation(entry: RawDocument<'_>) -> Result<Operation, String> {
    let kind = entry.get_str("op").unwrap_or_default();
    if IDLE.contains(&kind) {
        return Ok(Operation::Idle);
    }
    let full = entry.get_str("ns").unwrap_or_default();
    let o = entry.get_document("o").ok_or("it has no `o`")?;
    if kind == "c" {
        return command(full, o, entry);
    }
    let namespace = Namespace::parse(full).ok_or_else(|| format!("`{full}` is no namespace"))?;
    let (change, named) = match kind {
        "i" => (Change::Put(o.to_owned_document()), Some(o)),
        "u" => (Change::of_update(o)?, entry.get_document("o2")),
        "d" => (Change::Delete, Some(o)),
        other => return Err(format!("the kind `{other}` is not supported")),
    };
    let id = named.and_then(|named| named.get("_id"));
    let id = id.ok_or_else(|| format!("it does not say which document of `{namespace}`"))?;
    Ok(Operation::Document {
        namespace,
        id: Value::from(id),
        change,
    })
}

fn command(full: &str, o: RawDocument<'_>, entry: RawDocument<'_>) -> Result<Operation, String> {
    let first = o.first().ok_or("a command of nothing")?;
    let name = first.name().to_string_lossy().into_owned();
    match name.as_str() {
        APPLY_OPS => several(o, entry),
        "commitTransaction" => Ok(Operation::Commit(part(entry, true)?)),
        "abortTransaction" => Ok(Operation::Abort(part(entry, true)?)),
        idle if IDLE_COMMANDS.contains(&idle) => Ok(Operation::Idle),
        _ => {
            let database = full.split_once('.').map_or(full, |(database, _)| database);
            Ok(Operation::Command {
                database: database.to_owned(),
                command: o.to_owned_document(),
            })
        }
    }
}

fn several(o: RawDocument<'_>, entry: RawDocument<'_>) -> Result<Operation, String> {
    let within = o.get_array(APPLY_OPS).ok_or("`applyOps` is no array")?;
    let mut operations = Vec::with_capacity(within.len());
    for one in within {
        let one = one.as_document().ok_or("an operation is no document")?;
        let operation = operation(one)?;
        if matches!(
            operation,
            Operation::Several { .. } | Operation::Commit(_) | Operation::Abort(_)
        ) {
            return Err("operations within operations are not supported".to_owned());
        }
        operations.push(operation);
    }
    // Inserts that a client may send again are told together, and are no transaction.
    let is_of_retryable = entry
        .get("multiOpType")
        .and_then(|kind| kind.as_i64_exact())
        == Some(1);
    let is_transaction = entry.contains("txnNumber") && entry.contains("lsid") && !is_of_retryable;
    let is_true = |name| o.get(name).is_some_and(|value| value.is_truthy());
    let is_last = !is_true("partialTxn") && !is_true("prepare");
    let part = is_transaction.then(|| part(entry, is_last)).transpose()?;
    Ok(Operation::Several { operations, part })
}

fn part(entry: RawDocument<'_>, is_last: bool) -> Result<Part, String> {
    let mut transaction = Document::new();
    for name in ["lsid", "txnNumber"] {
        let field = entry.get_element(name);
        transaction.append_element(field.ok_or("a transaction without its session")?);
    }
    let earlier = entry.get_path("prevOpTime.ts");
    let has_earlier = match earlier {
        Some(RawValue::Timestamp(earlier)) => earlier.to_u64() != 0,
        _ => false,
    };
    Ok(Part {
        transaction: transaction.into_bytes(),
        has_earlier,
        is_last,
    })
}

impl Operation {
    /// The bytes that the operation takes, more or less.
    pub fn len_bytes(&self) -> usize {
        match self {
            Operation::Document { change, .. } => match change {
                Change::Put(document) | Change::Replace(document) | Change::Diff(document) => {
                    document.len_bytes()
                }
                Change::Set { set, unset } => set.len_bytes() + unset.len_bytes(),
                Change::Delete => 0,
            },
            Operation::Command { command, .. } => command.len_bytes(),
            Operation::Several { operations, .. } => {
                operations.iter().map(Operation::len_bytes).sum()
            }
            Operation::Idle | Operation::Commit(_) | Operation::Abort(_) => 0,
        }
    }
}

/// The values of an array that are documents.
pub fn documents(array: Option<RawArray<'_>>) -> Vec<Document> {
    let values = array.into_iter().flat_map(|array| array.iter());
    let documents = values.filter_map(|value| value.as_document());
    documents
        .map(|document| document.to_owned_document())
        .collect()
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    /// An entry as a MongoDB 8.0 writes it.
    fn entry(op: &str, ns: &str, o: Document) -> Document {
        let ts = RawValue::Timestamp(Timestamp {
            time: 7,
            increment: 1,
        });
        doc! { "op": op, "ns": ns, "o": o, "ts": ts, "t": 1i64, "v": 2i64 }
    }

    fn parsed(entry: &Document) -> Operation {
        Entry::parse(entry.as_raw()).unwrap().operation
    }

    fn of_document(operation: Operation) -> (String, Value, Change) {
        match operation {
            Operation::Document {
                namespace,
                id,
                change,
            } => (namespace.to_string(), id, change),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn documents_are_inserted_updated_and_deleted() {
        let inserted = doc! { "_id": 1, "a": 2 };
        let operation = parsed(&entry("i", "db.a.b", inserted.clone()));
        let expected = ("db.a.b".to_owned(), Value::from(1), Change::Put(inserted));
        assert_eq!(of_document(operation), expected);
        let mut update = entry("u", "db.c", doc! { "$v": 2, "diff": { "u": { "a": 1 } } });
        update.append("o2", doc! { "_id": "x", "shard": 1 });
        let (_, id, change) = of_document(parsed(&update));
        assert_eq!(id, Value::from("x"));
        assert_eq!(change, Change::Diff(doc! { "u": { "a": 1 } }));
        let (_, id, change) = of_document(parsed(&entry("d", "db.c", doc! { "_id": 3 })));
        assert_eq!((id, change), (Value::from(3), Change::Delete));
    }

    #[test]
    fn commands_and_idle_entries() {
        let create = doc! { "create": "c", "capped": true };
        let command = Operation::Command {
            database: "db".to_owned(),
            command: create.clone(),
        };
        assert_eq!(parsed(&entry("c", "db.$cmd", create)), command);
        for (op, o) in [
            ("n", doc! { "msg": "periodic noop" }),
            ("c", doc! { "startIndexBuild": "c" }),
            ("ci", doc! {}),
        ] {
            assert_eq!(parsed(&entry(op, "db.$cmd", o)), Operation::Idle);
        }
    }

    #[test]
    fn transactions_are_known_by_session_and_number() {
        let one = entry("i", "db.c", doc! { "_id": 1 });
        let mut entry = entry(
            "c",
            "admin.$cmd",
            doc! { "applyOps": [one], "partialTxn": true },
        );
        let Operation::Several { operations, part } = parsed(&entry) else {
            panic!("not several");
        };
        assert_eq!((operations.len(), part), (1, None));
        entry
            .append("lsid", doc! { "id": 1 })
            .append("txnNumber", 5i64);
        let zero = RawValue::Timestamp(Timestamp::from_u64(0));
        entry.append("prevOpTime", doc! { "ts": zero, "t": -1i64 });
        let Operation::Several {
            part: Some(part), ..
        } = parsed(&entry)
        else {
            panic!("no part");
        };
        assert!(!part.is_last && !part.has_earlier);
        let mut retryable = entry.clone();
        retryable.append("multiOpType", 1);
        assert!(matches!(
            parsed(&retryable),
            Operation::Several { part: None, .. }
        ));
        entry.set("o", doc! { "commitTransaction": 1 });
        let Operation::Commit(commit) = parsed(&entry) else {
            panic!("no commit");
        };
        assert_eq!(commit.transaction, part.transaction);
    }

    #[test]
    fn unknown_entries_are_refused_by_name_and_time() {
        let refused = |entry: Document, said: &str| {
            let error = Entry::parse(entry.as_raw()).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        refused(doc! { "op": "i" }, "without a time");
        let unknown = entry("xx", "db.c", doc! { "_id": 1 });
        refused(unknown, "the entry of 7:1: the kind `xx` is not supported");
        refused(
            entry("i", "db.c", doc! { "a": 1 }),
            "which document of `db.c`",
        );
        refused(
            entry("u", "db.c", doc! { "a": 1 }),
            "which document of `db.c`",
        );
        refused(entry("i", "c", doc! { "_id": 1 }), "`c` is no namespace");
        let within = doc! { "op": "c", "ns": "admin.$cmd", "o": { "applyOps": [] } };
        refused(
            entry("c", "admin.$cmd", doc! { "applyOps": [within] }),
            "within operations",
        );
    }
}
