//! `quarry migrate`: a live deployment into another one.
//!
//! A place in the source's changes is taken first. Then collections are made and their documents copied, while the source is written to: the copy is of no
//! one moment. The changes since that place are applied behind it (`follow.rs`), each so that applying it twice does no harm, until the source has
//! no further ones. Only then are indexes built, because a unique one may not hold for a copy that is of no one moment. After that the changes are followed until the
//! user ends it, or with `--once` not at all; counts of documents are compared at the end.

mod apply;
mod follow;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use quarry_bson::doc;
use quarry_client::{Connection, ConnectionString};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::definition::{self, Definition, Kind};
use crate::error::{Error, Result};
use crate::loader::{Loader, Target, Verb};
use crate::namespaces::{Namespace, Selection};
use crate::progress::Progress;
use crate::server;
use crate::users::{self, Accounts};
use follow::Follower;

/// How often counts are compared again behind further changes, while the source is written to.
const COMPARISONS_MAX: usize = 20;
/// A server without change streams: a MongoDB that is no set.
const NO_CHANGE_STREAMS: i32 = 40_573;

/// Added to a signal's number, the exit code of a process that it ends.
const EXIT_BY_SIGNAL: i32 = 128;

/// The flags of `quarry migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The source, with user and options as drivers take them
    #[arg(value_name = "FROM")]
    source: String,
    /// The server that gets everything
    #[arg(value_name = "TO")]
    destination: String,
    /// File whose first line is the password of the source's user
    #[arg(long = "fromPasswordFile", value_name = "FILE")]
    source_password: Option<PathBuf>,
    /// File whose first line is the password of the other user
    #[arg(long = "toPasswordFile", value_name = "FILE")]
    destination_password: Option<PathBuf>,
    /// End when everything is copied that was written meanwhile
    #[arg(long)]
    once: bool,
    /// Remove each collection from the server that gets it first
    #[arg(long)]
    drop: bool,
    /// Only collections of this pattern, in which `*` is any text; may be given more than once
    #[arg(long = "nsInclude", value_name = "PATTERN")]
    include: Vec<String>,
    /// No collections of this pattern
    #[arg(long = "nsExclude", value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Give collections of this pattern another name, in which `*` and `$name$` are what they were
    #[arg(long = "nsFrom", value_name = "PATTERN")]
    from: Vec<String>,
    /// The other name
    #[arg(long = "nsTo", value_name = "PATTERN")]
    to: Vec<String>,
    /// Leave users and roles
    #[arg(long = "noUsers")]
    no_users: bool,
    /// Connections that insert
    #[arg(long = "numInsertionWorkers", short = 'j', value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    writers: u8,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
}

/// Migrates; the exit code of the process.
#[must_use]
pub fn run(options: &Migrate) -> ExitCode {
    crate::ended("migrate", migrate(options))
}

/// A collection, and where it goes.
struct Item {
    from: Namespace,
    to: Namespace,
    definition: Definition,
}

/// Both sides of a migration.
struct Migration<'m> {
    options: &'m Migrate,
    selection: &'m Selection,
    source_settings: Arc<ConnectionString>,
    destination_settings: Arc<ConnectionString>,
    source: Connection,
    destination: Connection,
}

fn migrate(options: &Migrate) -> Result<()> {
    let selection = Selection::new(
        &options.include,
        &options.exclude,
        &options.from,
        &options.to,
    )?;
    let source_settings = server::settings(&options.source, options.source_password.as_deref())?;
    let destination_settings = server::settings(
        &options.destination,
        options.destination_password.as_deref(),
    )?;
    let migration = Migration {
        options,
        selection: &selection,
        source: server::connect(&source_settings)?,
        destination: server::connect(&destination_settings)?,
        source_settings,
        destination_settings,
    };
    migration.run()
}

/// A flag that is set when a signal asks for the end. A second signal ends the process.
fn stopping() -> Result<Arc<AtomicBool>> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = EXIT_BY_SIGNAL + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&is_stopped))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&is_stopped)))
            .map_err(|error| Error::usage(error.to_string()))?;
    }
    Ok(is_stopped)
}

impl Migration<'_> {
    fn run(mut self) -> Result<()> {
        let token = self.token()?;
        let items = self.items()?;
        self.make_collections(&items)?;
        let documents = self.copy(&items)?;
        self.say(&format!(
            "{documents} documents of {} collections copied",
            items.len()
        ));
        // From here on a signal ends the following, and what has begun is brought to its end.
        let is_stopped = stopping()?;
        let mut follower = match token {
            Some(token) => Some(Follower::new(&self, token)?),
            None => None,
        };
        if let Some(follower) = &mut follower {
            let changes = follower.catch_up()?;
            self.say(&format!(
                "{changes} changes applied that were made meanwhile"
            ));
        }
        self.finish_definitions()?;
        if !self.options.no_users {
            self.copy_users()?;
        }
        if let Some(follower) = &mut follower {
            follower.follow_indexes();
            if !self.options.once {
                self.say("following the changes; Ctrl-C ends it");
                follower.follow(&is_stopped)?;
            }
        }
        self.compare(follower.as_mut())
    }

    fn say(&self, what: &str) {
        if !self.options.quiet {
            eprintln!("{what}");
        }
    }

    /// The place in the source's changes as it is now; none where the source has no change streams and does not need to have.
    fn token(&mut self) -> Result<Option<quarry_bson::Document>> {
        match follow::current_token(&mut self.source) {
            Ok(token) => Ok(Some(token)),
            Err(error) if error.code() == Some(NO_CHANGE_STREAMS) && self.options.once => {
                self.say("the source has no change streams: what is written to it meanwhile is copied or not");
                Ok(None)
            }
            Err(error) if error.code() == Some(NO_CHANGE_STREAMS) => Err(Error::usage(
                "the source has no change streams, because it is no set: --once copies it as it is",
            )),
            Err(error) => Err(Error::server("changes of the source")(error)),
        }
    }

    fn items(&mut self) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for database in definition::databases(&mut self.source)? {
            for definition in definition::definitions(&mut self.source, &database, None)? {
                let from = Namespace::new(&database, &definition.name);
                if self.selection.takes(&from) {
                    items.push(Item {
                        to: self.selection.renamed(&from)?,
                        from,
                        definition,
                    });
                }
            }
        }
        Ok(items)
    }

    fn make_collections(&mut self, items: &[Item]) -> Result<()> {
        for item in items {
            if self.options.drop {
                definition::drop(&mut self.destination, &item.to)?;
            } else if definition::exists(&mut self.destination, &item.to)? {
                let what = format!("`{}` is there already; --drop removes it first", item.to);
                return Err(Error::usage(what));
            }
            if item.definition.kind == Kind::Collection {
                let options = item.definition.options.as_raw();
                definition::create(&mut self.destination, &item.to, options)?;
            }
        }
        Ok(())
    }

    /// Copies the documents; their number.
    fn copy(&mut self, items: &[Item]) -> Result<u64> {
        let collections = || {
            items
                .iter()
                .filter(|item| item.definition.kind == Kind::Collection)
        };
        let total = collections()
            .filter_map(|item| definition::count(&mut self.source, &item.from))
            .sum();
        let progress = Progress::of_documents("copy", Some(total));
        let mut loader = Loader::start(
            &self.destination_settings,
            usize::from(self.options.writers),
        )?;
        let mut copied = 0;
        for item in collections() {
            copied += copy_one(&mut self.source, &mut loader, item, &progress)?;
        }
        Ok(copied)
    }

    /// Builds the indexes and makes the views that the source has now, when the copy is of one moment.
    fn finish_definitions(&mut self) -> Result<()> {
        for item in self.items()? {
            // A collection that is new since the copy may be met here before its event comes.
            let options = item.definition.options.as_raw();
            definition::create(&mut self.destination, &item.to, options)?;
            let indexes = &item.definition.indexes;
            definition::create_indexes(&mut self.destination, &item.to, indexes)?;
        }
        Ok(())
    }

    fn copy_users(&mut self) -> Result<()> {
        let named = users::COLLECTIONS.map(|(name, _)| Namespace::new(users::DATABASE, name));
        if !named
            .iter()
            .all(|namespace| self.selection.takes(namespace))
        {
            return Ok(());
        }
        let accounts = Accounts::of_server(&mut self.source).map_err(Error::server(
            "users and roles of the source (--noUsers leaves them)",
        ))?;
        accounts.restore(&mut self.destination, false)
    }

    /// Compares the counts of the collections that the source has now, behind further changes if they differ.
    fn compare(&mut self, mut follower: Option<&mut Follower<'_>>) -> Result<()> {
        let mut different = Vec::new();
        for _ in 0..COMPARISONS_MAX {
            if let Some(follower) = &mut follower {
                follower.catch_up()?;
            }
            different.clear();
            different.extend(follower.as_ref().and_then(|follower| follower.refused()));
            let items = self.items()?;
            for item in items
                .iter()
                .filter(|item| item.definition.kind == Kind::Collection)
            {
                let here = exact_count(&mut self.source, &item.from)?;
                let there = exact_count(&mut self.destination, &item.to)?;
                if here != there {
                    different.push(format!(
                        "`{}` has {here} documents and `{}` {there}",
                        item.from, item.to
                    ));
                }
            }
            if different.is_empty() {
                self.say(&format!(
                    "{} collections and views have been compared: their counts are equal",
                    items.len()
                ));
                return Ok(());
            }
            if follower.is_none() {
                break;
            }
        }
        Err(Error::Incomplete(format!(
            "{}; is the source still written to?",
            different.join(", ")
        )))
    }
}

fn copy_one(
    source: &mut Connection,
    loader: &mut Loader,
    item: &Item,
    progress: &Progress,
) -> Result<u64> {
    let is_in_order = item.definition.is_capped();
    let target = Arc::new(Target {
        namespace: item.to.clone(),
        verb: Verb::Insert,
        is_ordered: is_in_order,
        // The source's documents are as they are.
        bypasses_validation: true,
    });
    let failed = Error::server(&item.from);
    let find = doc! { "find": (item.from.collection.as_str()) };
    let mut cursor = source.cursor(&item.from.database, &find).map_err(&failed)?;
    let mut batch = loader.batch();
    let mut copied = 0;
    while cursor.advance().map_err(&failed)? {
        for document in cursor.batch() {
            batch.documents.extend_from_slice(document.as_bytes());
            copied += 1;
            batch.note(copied);
            progress.add(document.len_bytes() as u64, 1);
            if batch.is_full() {
                loader.send(&target, std::mem::take(&mut batch))?;
                if is_in_order {
                    loader.wait()?;
                }
                batch = loader.batch();
            }
        }
    }
    if !batch.is_empty() {
        loader.send(&target, batch)?;
    }
    loader.wait()?;
    for outcome in loader.outcomes() {
        // A document that moved in the source's order is met twice, and is there the second time.
        if let Some(failure) = outcome.failures.iter().find(|failure| !failure.is_same_id) {
            return Err(Error::Incomplete(format!(
                "`{}`: {}",
                item.to, failure.message
            )));
        }
    }
    Ok(copied)
}

fn exact_count(connection: &mut Connection, namespace: &Namespace) -> Result<i64> {
    let command = doc! {
        "aggregate": (namespace.collection.as_str()), "pipeline": [{ "$count": "n" }], "cursor": {},
    };
    let counted = connection
        .cursor(&namespace.database, &command)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server(format_args!("count of `{namespace}`")))?;
    let count = counted
        .first()
        .and_then(|count| count.get("n")?.as_i64_exact());
    Ok(count.unwrap_or(0))
}
