//! Commands that entries of the oplog tell, applied so that one that has been done does no harm. Indexes and views are changed before they are made
//! (`later.rs`).

use quarry_bson::{Document, RawElement, RawValue, doc};
use quarry_client::Connection;

use super::later::Later;
use crate::definition;
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::time_series;
use crate::users::Accounts;

const NAMESPACE_NOT_FOUND: i32 = 26;
const INDEX_NOT_FOUND: i32 = 27;
/// Options of a collection's creation that are none of `create`.
const OPTIONS_OF_OPLOG: [&str; 2] = ["temp", "recordIdsReplicated"];
/// Options of the collection of buckets that are those of its time series, too.
const OPTIONS_OF_SERIES: [&str; 3] = [time_series::OPTION, "expireAfterSeconds", "collation"];
/// Options of `collMod` that servers no longer take.
const OLD_CHANGES: [&str; 2] = ["noPadding", "usePowerOf2Sizes"];

/// Where entries are applied.
pub struct Destination<'d> {
    /// None in a dry run.
    pub connection: Option<&'d mut Connection>,
    pub later: &'d mut Later,
    pub accounts: &'d mut Accounts,
    /// Whether a collection is restored.
    pub takes: &'d dyn Fn(&Namespace) -> bool,
}

/// A command of an entry, on a collection or on a whole database.
pub struct Command<'c> {
    database: String,
    name: String,
    /// The collection that it is on.
    on: Namespace,
    /// The fields behind the first.
    options: Vec<RawElement<'c>>,
    whole: &'c Document,
}

impl<'c> Command<'c> {
    pub fn of(database: String, command: &'c Document) -> Result<Command<'c>> {
        let mut fields = command.iter();
        let first = fields.next();
        let first = first.ok_or_else(|| Error::usage("a command of nothing"))?;
        let collection = first.value().as_str().unwrap_or_default();
        // For a server here, a time series is what its buckets are for a MongoDB.
        let collection = time_series::of_buckets(collection).unwrap_or(collection);
        Ok(Command {
            name: first.name().to_string_lossy().into_owned(),
            on: Namespace::new(&database, collection),
            database,
            options: fields.collect(),
            whole: command,
        })
    }

    /// Applies the command.
    pub fn run(&self, to: &mut Destination<'_>) -> Result<()> {
        match self.name.as_str() {
            "dropDatabase" => return self.drop_database(to),
            "renameCollection" => return self.rename(to),
            _ if !(to.takes)(&self.on) => return Ok(()),
            _ => {}
        }
        match self.name.as_str() {
            "create" => self.create(to),
            "drop" => {
                to.later.remove(&self.on);
                with(to, |connection| definition::drop(connection, &self.on))
            }
            "createIndexes" => {
                to.later.add_indexes(&self.on, vec![self.fields(&[])]);
                Ok(())
            }
            "commitIndexBuild" => self.commit_index_build(to),
            "dropIndexes" | "dropIndex" | "deleteIndexes" | "deleteIndex" => self.drop_indexes(to),
            "collMod" => self.modify(to),
            "convertToCapped" => self.send(to, self.whole.clone(), &[]),
            other => Err(Error::usage(format!(
                "the command `{other}` is not supported"
            ))),
        }
    }

    /// The fields behind the first, but for those that are left out.
    fn fields(&self, without: &[&str]) -> Document {
        let mut fields = Document::new();
        for field in &self.options {
            if !without.iter().any(|left_out| field.name() == *left_out) {
                fields.append_element(*field);
            }
        }
        fields
    }

    fn option(&self, name: &str) -> Option<RawValue<'c>> {
        let found = self.options.iter().find(|option| option.name() == name);
        found.map(RawElement::value)
    }

    /// Sends a command to the database; the codes are those of a server where there is nothing to do.
    fn send(&self, to: &mut Destination<'_>, command: Document, idle: &[i32]) -> Result<()> {
        with(to, |connection| {
            match connection.define(&self.database, &command) {
                Err(error) if error.code().is_some_and(|code| idle.contains(&code)) => Ok(()),
                done => done.map(drop).map_err(Error::server(format_args!(
                    "{} of `{}`",
                    self.name, self.on
                ))),
            }
        })
    }

    fn create(&self, to: &mut Destination<'_>) -> Result<()> {
        let options = match self.option(time_series::OPTION) {
            None => self.fields(&OPTIONS_OF_OPLOG),
            Some(_) => {
                let mut options = Document::new();
                for option in &self.options {
                    if OPTIONS_OF_SERIES.iter().any(|kept| option.name() == *kept) {
                        options.append_element(*option);
                    }
                }
                options
            }
        };
        // One that is there has been copied.
        with(to, |connection| {
            definition::create(connection, &self.on, options.as_raw()).map(drop)
        })
    }

    fn commit_index_build(&self, to: &mut Destination<'_>) -> Result<()> {
        let indexes = self
            .option("indexes")
            .and_then(|indexes| indexes.as_array());
        let indexes = indexes.ok_or_else(|| Error::usage("an index build without indexes"))?;
        let documents = indexes.iter().filter_map(|index| index.as_document());
        let indexes = documents.map(|index| index.to_owned_document()).collect();
        to.later.add_indexes(&self.on, indexes);
        Ok(())
    }

    fn drop_indexes(&self, to: &mut Destination<'_>) -> Result<()> {
        let index = self.option("index");
        let index = index.ok_or_else(|| Error::usage("indexes that are dropped without a name"))?;
        to.later.remove_indexes(&self.on, index);
        let command = doc! { "dropIndexes": (self.on.collection.as_str()), "index": index };
        self.send(to, command, &[NAMESPACE_NOT_FOUND, INDEX_NOT_FOUND])
    }

    /// Changes options of the collection, and those of an index where it will be built or is there.
    fn modify(&self, to: &mut Destination<'_>) -> Result<()> {
        let index = self.option("index").and_then(|index| index.as_document());
        let is_later = index.is_some_and(|index| to.later.modify_index(&self.on, index));
        let mut command = doc! { "collMod": (self.on.collection.as_str()) };
        for option in &self.options {
            let is_old = OLD_CHANGES.iter().any(|old| option.name() == *old);
            if !(is_old || is_later && option.name() == "index") {
                command.append_element(*option);
            }
        }
        match command.len() {
            1 => Ok(()),
            _ => self.send(to, command, &[NAMESPACE_NOT_FOUND, INDEX_NOT_FOUND]),
        }
    }

    /// Drops the database's collections that are restored: others of it are no part of the dump.
    fn drop_database(&self, to: &mut Destination<'_>) -> Result<()> {
        let takes = to.takes;
        to.later.remove_database(&self.database, takes);
        with(to, |connection| {
            let found = definition::definitions(connection, &self.database, None, takes)?;
            for one in found {
                definition::drop(connection, &Namespace::new(&self.database, &one.name))?;
            }
            Ok(())
        })
    }

    fn rename(&self, to: &mut Destination<'_>) -> Result<()> {
        let from = self
            .whole
            .get_str("renameCollection")
            .and_then(Namespace::parse);
        let new = self.whole.get_str("to").and_then(Namespace::parse);
        let (Some(from), Some(new)) = (from, new) else {
            return Err(Error::usage("a rename without two names"));
        };
        match ((to.takes)(&from), (to.takes)(&new)) {
            (true, true) => {}
            (false, false) => return Ok(()),
            _ => {
                let what = format!("`{from}` is renamed to `{new}`, and one of them is left out");
                return Err(Error::usage(what));
            }
        }
        to.later.rename(&from, &new);
        let drops = self
            .option("dropTarget")
            .is_some_and(|drops| drops.is_truthy());
        let command = doc! {
            "renameCollection": (from.to_string()), "to": (new.to_string()), "dropTarget": drops,
        };
        with(to, |connection| {
            match connection.define("admin", &command) {
                // It has the new name already.
                Err(error)
                    if error.code() == Some(NAMESPACE_NOT_FOUND)
                        && definition::exists(connection, &new)? =>
                {
                    Ok(())
                }
                renamed => renamed
                    .map(drop)
                    .map_err(Error::server(format_args!("rename of `{from}`"))),
            }
        })
    }
}

/// Runs what needs a server, unless this is a dry run.
fn with(to: &mut Destination<'_>, run: impl FnOnce(&mut Connection) -> Result<()>) -> Result<()> {
    to.connection.as_deref_mut().map_or(Ok(()), run)
}
