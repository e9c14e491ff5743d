//! `quarry dump`: databases into files, in the formats of mongodump.
//!
//! A dump is a directory with a file of documents and one of metadata a collection, or one archive (`archive/mod.rs`). Collections are read by several
//! connections at once, each as it is while it is read: the dump of a server that is written to is of one moment with `--oplog` only (`oplog.rs`).

mod archive_output;
mod directory;
mod oplog;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clap::Args;
use quarry_bson::{Document, doc};
use quarry_client::{Connection, ConnectionString};

use crate::definition::{self, Definition, Kind};
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::progress::Progress;
use crate::server::{self, ServerFlags};
use crate::time_series::{self, Packer, Series};
use crate::users;
use oplog::Slice;

/// Documents that are written in one go.
const CHUNK_BYTES: usize = 4 << 20;

/// The flags of `quarry dump`.
#[derive(Debug, Args)]
pub struct Dump {
    #[command(flatten)]
    server: ServerFlags,
    /// The database; all of them without it
    #[arg(long, short = 'd')]
    db: Option<String>,
    /// The collection; all of the database without it
    #[arg(long, short = 'c', requires = "db")]
    collection: Option<String>,
    /// Leave this collection of the database out; may be given more than once
    #[arg(
        long = "excludeCollection",
        value_name = "NAME",
        requires = "db",
        conflicts_with = "collection"
    )]
    exclude_collection: Vec<String>,
    /// Only the documents that match, in Extended JSON
    #[arg(long, short = 'q', value_name = "FILTER", requires = "collection")]
    query: Option<String>,
    /// The directory; `-` with one collection is the standard output
    #[arg(long, short = 'o', value_name = "DIRECTORY", default_value = "dump")]
    out: PathBuf,
    /// One file instead of a directory; without a name the standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "out")]
    archive: Option<PathBuf>,
    /// Compress the files
    #[arg(long)]
    gzip: bool,
    /// Collections that are read at once
    #[arg(long = "numParallelCollections", short = 'j', value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel: u8,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
    /// Dump what is changed meanwhile, too, so that `restore-dump --oplogReplay` restores one moment
    #[arg(long, conflicts_with = "db")]
    oplog: bool,
}

/// Dumps; the exit code of the process.
#[must_use]
pub fn run(options: &Dump) -> ExitCode {
    crate::ended("dump", dump(options))
}

/// The collection, and the document in it, by which mongorestore knows the form of users and roles.
const VERSIONS: &str = "system.version";
const FORM_OF_USERS: i32 = 5;

/// One collection of the dump.
struct Item {
    namespace: Namespace,
    /// The name that its documents are written under: of a time series, that of its buckets.
    written_under: Namespace,
    definition: Definition,
    /// Documents, more or less.
    documents: u64,
    /// The documents, where the dump makes them and no server is asked.
    made: Option<Document>,
}

/// Where a dump goes. Its methods are called by several threads.
trait Output: Sync {
    /// Begins a collection: what is written is for its documents, in any pieces of whole ones.
    fn collection<'o>(&'o self, item: &'o Item) -> Result<Box<dyn Documents + 'o>>;

    /// Begins the entries of the oplog.
    fn oplog(&self) -> Result<Box<dyn Documents + '_>>;
}

/// The documents of one collection on their way into a dump.
trait Documents {
    fn write(&mut self, documents: &[u8]) -> Result<()>;
    fn end(self: Box<Self>) -> Result<()>;
}

fn dump(options: &Dump) -> Result<()> {
    if let Some(database) = &options.db {
        check_name(database)?;
    }
    let settings = options.server.settings()?;
    let mut connection = server::connect(&settings)?;
    let build = connection
        .read("admin", &doc! { "buildInfo": 1 })
        .map_err(Error::server("buildInfo"))?;
    let version = build.get_str("version").unwrap_or_default();
    let slice = match options.oplog {
        true => Some(Slice::begin(&settings, &build)?),
        false => None,
    };
    let items = items(&mut connection, options)?;
    if options.oplog {
        refuse_series(&items)?;
    }
    let query = match &options.query {
        Some(text) => Some(server::document("--query", text)?),
        None => None,
    };
    if options.collection.is_some() && items.is_empty() {
        return Err(Error::usage("no such collection"));
    }
    let write = |output: &dyn Output| -> Result<()> {
        let documents = dump_all(&settings, options, &items, query.as_ref(), output)?;
        let collections = items.len();
        say(
            options,
            format_args!("{documents} documents of {collections} collections dumped"),
        );
        let Some(slice) = slice else {
            return Ok(());
        };
        let mut written = output.oplog()?;
        let entries = slice.write(&mut |entries| written.write(entries))?;
        written.end()?;
        say(
            options,
            format_args!("{entries} changes dumped that were made meanwhile"),
        );
        Ok(())
    };
    match &options.archive {
        Some(path) => {
            let output = archive_output::ArchiveOutput::begin(path, options, &items, version)?;
            write(&output)?;
            output.finish()
        }
        None => write(&directory::DirectoryOutput::begin(
            options, &items, version,
        )?),
    }
}

fn say(options: &Dump, what: fmt::Arguments<'_>) {
    if !options.quiet {
        eprintln!("{what}");
    }
}

/// Refuses a time series in a dump of one moment: no stream of changes tells of its measurements.
fn refuse_series(items: &[Item]) -> Result<()> {
    let is_series = |item: &&Item| item.definition.kind == Kind::TimeSeries;
    match items.iter().find(is_series) {
        None => Ok(()),
        Some(series) => Err(Error::usage(format!(
            "`{}` is a time series, of whose changes nothing tells: --oplog cannot have it as of one moment, and `quarry backup` does",
            series.namespace
        ))),
    }
}

/// Refuses a database whose name would lead out of the dump's directory, as a server may say it has.
fn check_name(database: &str) -> Result<()> {
    let is_path = matches!(database, "" | "." | "..") || database.contains(['/', '\\', '\0']);
    match is_path {
        true => Err(Error::usage(format!(
            "{database:?} is no name of a database"
        ))),
        false => Ok(()),
    }
}

/// The collections that the flags choose.
fn items(connection: &mut Connection, options: &Dump) -> Result<Vec<Item>> {
    let databases = match &options.db {
        Some(database) => vec![database.clone()],
        None => definition::databases(connection)?,
    };
    let is_wanted =
        |namespace: &Namespace| !options.exclude_collection.contains(&namespace.collection);
    let mut items = Vec::new();
    for database in databases {
        check_name(&database)?;
        let collection = options.collection.as_deref();
        let found = definition::definitions(connection, &database, collection, &is_wanted)?;
        for definition in found {
            items.push(item(connection, &database, definition));
        }
        if database == users::DATABASE && collection.is_none() {
            items.extend(items_of_users(connection, &is_wanted));
        }
    }
    Ok(items)
}

fn item(connection: &mut Connection, database: &str, definition: Definition) -> Item {
    let namespace = Namespace::new(database, &definition.name);
    let documents = match definition.kind {
        Kind::Collection | Kind::TimeSeries => {
            definition::count(connection, &namespace).unwrap_or(0)
        }
        Kind::View => 0,
    };
    let written_under = match definition.kind {
        Kind::TimeSeries => {
            Namespace::new(database, time_series::buckets_of(&namespace.collection))
        }
        Kind::Collection | Kind::View => namespace.clone(),
    };
    Item {
        namespace,
        written_under,
        definition,
        documents,
        made: None,
    }
}

/// Users and roles, and beside them the document that says in which form they are.
fn items_of_users(
    connection: &mut Connection,
    is_wanted: &dyn Fn(&Namespace) -> bool,
) -> Vec<Item> {
    let mut items: Vec<Item> = users::COLLECTIONS
        .iter()
        .map(|(name, _)| item(connection, users::DATABASE, of_users(name)))
        // A server without users has no such collection.
        .filter(|item| item.documents > 0 && is_wanted(&item.namespace))
        .collect();
    if !items.is_empty() {
        items.push(Item {
            namespace: Namespace::new(users::DATABASE, VERSIONS),
            written_under: Namespace::new(users::DATABASE, VERSIONS),
            definition: of_users(VERSIONS),
            documents: 1,
            made: Some(doc! { "_id": "authSchema", "currentVersion": FORM_OF_USERS }),
        });
    }
    items
}

fn of_users(name: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        kind: Kind::Collection,
        options: Document::new(),
        indexes: vec![doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }],
        uuid: None,
    }
}

/// Dumps the items with several connections; the number of documents.
fn dump_all(
    settings: &Arc<ConnectionString>,
    options: &Dump,
    items: &[Item],
    query: Option<&Document>,
    output: &dyn Output,
) -> Result<u64> {
    let progress =
        Progress::of_documents("dump", Some(items.iter().map(|item| item.documents).sum()));
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Ok(0));
    let settle = |result: Result<u64>| {
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *outcome, result) {
            (Ok(sum), Ok(documents)) => *sum += documents,
            (outcome @ Ok(_), Err(error)) => {
                // The others take no further collection.
                next.store(items.len(), Ordering::Relaxed);
                *outcome = Err(error);
            }
            (Err(_), _) => {}
        }
    };
    let threads = usize::from(options.parallel).min(items.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut connection = match server::connect(settings) {
                    Ok(connection) => connection,
                    Err(error) => return settle(Err(error)),
                };
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    settle(dump_one(&mut connection, item, query, output, &progress));
                }
            });
        }
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn dump_one(
    connection: &mut Connection,
    item: &Item,
    query: Option<&Document>,
    output: &dyn Output,
    progress: &Progress,
) -> Result<u64> {
    let mut written = output.collection(item)?;
    let documents = match (&item.made, item.definition.kind) {
        (Some(made), _) => {
            written.write(made.as_bytes())?;
            1
        }
        (None, Kind::View) => 0,
        (None, Kind::Collection | Kind::TimeSeries) => {
            copy(connection, item, query, &mut *written, progress)?
        }
    };
    written.end()?;
    Ok(documents)
}

/// Copies the documents of a collection; their number. Those of a time series are put into buckets.
fn copy(
    connection: &mut Connection,
    item: &Item,
    query: Option<&Document>,
    written: &mut dyn Documents,
    progress: &Progress,
) -> Result<u64> {
    let mut find = doc! { "find": (item.namespace.collection.as_str()) };
    if let Some(query) = query {
        find.append("filter", query);
    }
    let series = Series::of(item.definition.options.as_raw());
    let mut packer = series.map(Packer::new);
    let unpackable = |what| Error::Incomplete(format!("`{}`: {what}", item.namespace));
    let failed = |error| Error::server(&item.namespace)(error);
    let mut cursor = connection
        .cursor(&item.namespace.database, &find)
        .map_err(failed)?;
    let (mut chunk, mut documents) = (Vec::new(), 0);
    while cursor.advance().map_err(failed)? {
        for document in cursor.batch() {
            match &mut packer {
                Some(packer) => packer.add(document, &mut chunk).map_err(unpackable)?,
                None => chunk.extend_from_slice(document.as_bytes()),
            }
            documents += 1;
            progress.add(document.len_bytes() as u64, 1);
            if chunk.len() >= CHUNK_BYTES {
                written.write(&chunk)?;
                chunk.clear();
            }
        }
    }
    if let Some(packer) = &mut packer {
        packer.finish(&mut chunk).map_err(unpackable)?;
    }
    if !chunk.is_empty() {
        written.write(&chunk)?;
    }
    Ok(documents)
}
