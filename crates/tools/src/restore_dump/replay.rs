//! Applying the oplog of a dump behind its documents, so that all of them are as they were at its end.
//!
//! An entry may be older than the copy that it comes to, and one that is applied twice does no harm: a document is put, deleted, or gets the values that the entry
//! says (`oplog`). Indexes are built behind it, because a unique one may not hold before. Entries about databases of a server's own and collections that
//! are left out are passed over; what is not known is refused by its name.

use quarry_bson::{RawDocument, Timestamp, Value};

use super::replayed::Replayed;
use super::replayed_command::{Command, Destination};
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::oplog::{Change, Entry, Operation, Transactions};
use crate::time_series;
use crate::users;

/// Each view is a document of this collection of its database.
const VIEWS: &str = "system.views";
/// Before MongoDB 4.2, each index that was made was a document of this collection.
const OLD_INDEXES: &str = "system.indexes";
/// Entries on their way to a server.
#[derive(Default)]
pub struct Replay {
    /// Entries of this time and later ones are left.
    limit: Option<Timestamp>,
    is_over: bool,
    transactions: Transactions,
    documents: Replayed,
    /// The entries that have been applied.
    pub applied: u64,
    /// The documents that a unique index refused.
    pub refused: Vec<(Namespace, Value)>,
}

/// Reads the time of `--oplogLimit`: seconds since 1970, and the number of an entry within its second.
pub fn limit(text: &str) -> std::result::Result<Timestamp, String> {
    let (seconds, number) = text.split_once(':').unwrap_or((text, ""));
    let number = if number.is_empty() { "0" } else { number };
    match (seconds.parse(), number.parse()) {
        (Ok(time), Ok(increment)) => Ok(Timestamp { time, increment }),
        _ => Err("seconds since 1970, or SECONDS:NUMBER".to_owned()),
    }
}

impl Replay {
    pub fn new(limit: Option<Timestamp>) -> Replay {
        Replay {
            limit,
            ..Replay::default()
        }
    }

    /// Applies an entry, by and by: `finish` brings all to their end.
    pub fn apply(&mut self, entry: RawDocument<'_>, to: &mut Destination<'_>) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        let entry = Entry::parse(entry).map_err(of_oplog)?;
        if self.limit.is_some_and(|limit| entry.time >= limit) {
            self.is_over = true;
            return Ok(());
        }
        self.applied += u64::from(entry.operation != Operation::Idle);
        let time = entry.time;
        for operation in self.transactions.take(entry).map_err(of_oplog)? {
            self.operation(operation, to).map_err(|error| match error {
                Error::Usage(what) => of_oplog(format!(
                    "the entry of {}:{}: {what}",
                    time.time, time.increment
                )),
                error => error,
            })?;
        }
        Ok(())
    }

    /// Writes what has been gathered.
    pub fn finish(&mut self, to: &mut Destination<'_>) -> Result<()> {
        if let Some(connection) = &mut to.connection {
            self.refused.extend(self.documents.flush(connection)?);
        }
        Ok(())
    }

    fn operation(&mut self, operation: Operation, to: &mut Destination<'_>) -> Result<()> {
        let bytes = operation.len_bytes();
        match operation {
            Operation::Document {
                namespace,
                id,
                change,
            } => self.document(namespace, id, change, bytes, to),
            Operation::Command { database, command } => {
                self.finish(to)?;
                Command::of(database, &command)?.run(to)
            }
            _ => Ok(()),
        }
    }

    fn document(
        &mut self,
        namespace: Namespace,
        id: Value,
        change: Change,
        bytes: usize,
        to: &mut Destination<'_>,
    ) -> Result<()> {
        let Namespace {
            database,
            collection,
        } = &namespace;
        if let Some(series) = time_series::of_buckets(collection) {
            let series = Namespace::new(database, series);
            return match (to.takes)(&series) {
                false => Ok(()),
                true => Err(Error::usage(format!(
                    "changes of the buckets of the time series `{series}` are not supported; --nsExclude leaves it out"
                ))),
            };
        }
        if collection == OLD_INDEXES {
            return Err(Error::usage(format!("`{namespace}` is not supported")));
        }
        if collection == VIEWS {
            return change_view(&id, change, to);
        }
        if !(to.takes)(&namespace) {
            return Ok(());
        }
        if users::are_in(&namespace) {
            let changed = to.accounts.change(collection, &id, change);
            return changed.map_err(Error::Usage);
        }
        self.documents.add(namespace, id, change, bytes);
        match self.documents.is_full() {
            true => self.finish(to),
            false => Ok(()),
        }
    }
}

fn of_oplog(what: String) -> Error {
    Error::damaged("the oplog", what)
}

fn change_view(id: &Value, change: Change, to: &mut Destination<'_>) -> Result<()> {
    let view = id.as_str().and_then(Namespace::parse);
    let Some(view) = view.filter(|view| (to.takes)(view)) else {
        return Ok(());
    };
    // A time series is a view on its buckets for a MongoDB, and is made as what it is here.
    if let Change::Put(view) = &change
        && let Some(on) = view.get_str("viewOn")
        && time_series::of_buckets(on).is_some()
    {
        return Ok(());
    }
    to.later.change_view(&view, change).map_err(Error::Usage)
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, RawValue, doc};

    use super::super::later::Later;
    use super::*;
    use crate::users::Accounts;

    #[test]
    fn a_limit_is_a_time_and_a_number() {
        let at = |time, increment| Ok(Timestamp { time, increment });
        assert_eq!(limit("1700000000"), at(1_700_000_000, 0));
        assert_eq!(limit("1700000000:"), at(1_700_000_000, 0));
        assert_eq!(limit("7:3"), at(7, 3));
        for bad in ["", "x", "1:2:3", "-1", "99999999999"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }

    fn applied(entries: &[Document], limit: Option<Timestamp>) -> (Result<()>, Replay, Later) {
        let mut replay = Replay::new(limit);
        let mut later = Later::default();
        let mut accounts = Accounts::default();
        let takes = |namespace: &Namespace| namespace.database != "local";
        let mut to = Destination {
            connection: None,
            later: &mut later,
            accounts: &mut accounts,
            takes: &takes,
        };
        let result = entries
            .iter()
            .try_for_each(|entry| replay.apply(entry.as_raw(), &mut to));
        (result, replay, later)
    }

    fn entry(seconds: u32, op: &str, ns: &str, o: Document) -> Document {
        let ts = RawValue::Timestamp(Timestamp {
            time: seconds,
            increment: 1,
        });
        doc! { "ts": ts, "op": op, "ns": ns, "o": o }
    }

    #[test]
    fn entries_behind_the_limit_are_left() {
        let command = |seconds| entry(seconds, "c", "db.$cmd", doc! { "nonsense": 1 });
        let before = entry(5, "i", "db.c", doc! { "_id": 1 });
        let limit = Some(Timestamp {
            time: 6,
            increment: 1,
        });
        let (result, replay, _) = applied(&[before.clone(), command(6)], limit);
        assert!(result.is_ok() && replay.applied == 1);
        let (result, ..) = applied(&[before, command(6)], None);
        assert!(result.is_err());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let says = |entry: Document, said: &str| {
            let error = applied(&[entry], None).0.unwrap_err().to_string();
            assert!(
                error.starts_with("the oplog: the entry of 7:1: "),
                "{error}"
            );
            assert!(error.contains(said), "{error}");
        };
        says(
            entry(7, "c", "db.$cmd", doc! { "emptycapped": "c" }),
            "`emptycapped`",
        );
        says(entry(7, "x", "db.c", doc! { "_id": 1 }), "the kind `x`");
        let bucket = entry(7, "i", "db.system.buckets.weather", doc! { "_id": 1 });
        says(bucket, "time series `db.weather`");
        says(
            entry(7, "i", "db.system.indexes", doc! { "_id": 1 }),
            "`db.system.indexes`",
        );
    }

    #[test]
    fn indexes_and_views_are_made_later() {
        let entries = [
            entry(
                1,
                "c",
                "db.$cmd",
                doc! { "createIndexes": "c", "v": 2, "key": { "a": 1 }, "name": "a" },
            ),
            entry(
                2,
                "c",
                "db.$cmd",
                doc! { "commitIndexBuild": "c", "indexes": [{ "name": "b" }, { "name": "x" }] },
            ),
            entry(3, "c", "db.$cmd", doc! { "dropIndexes": "c", "index": "x" }),
            entry(
                4,
                "c",
                "db.$cmd",
                doc! { "collMod": "c", "index": { "name": "b", "hidden": true } },
            ),
            entry(
                5,
                "i",
                "db.system.views",
                doc! { "_id": "db.v", "viewOn": "c", "pipeline": [] },
            ),
            entry(
                6,
                "i",
                "db.system.views",
                doc! { "_id": "db.w", "viewOn": "system.buckets.w" },
            ),
            entry(7, "i", "local.c", doc! { "_id": 1 }),
            entry(
                8,
                "c",
                "gone.$cmd",
                doc! { "createIndexes": "c", "name": "a" },
            ),
            entry(9, "c", "gone.$cmd", doc! { "dropDatabase": 1 }),
        ];
        let (result, replay, later) = applied(&entries, None);
        result.unwrap();
        assert_eq!(replay.applied, 9);
        let index = doc! { "v": 2, "key": { "a": 1 }, "name": "a" };
        let indexes: Vec<_> = later.indexes().collect();
        let expected = [index, doc! { "name": "b", "hidden": true }];
        assert_eq!(indexes, [(&Namespace::new("db", "c"), &expected[..])]);
        let view = doc! { "viewOn": "c", "pipeline": [] };
        let views: Vec<_> = later.views().collect();
        assert_eq!(views, [(&Namespace::new("db", "v"), &view)]);
    }
}
