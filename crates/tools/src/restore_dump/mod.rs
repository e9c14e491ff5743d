//! `quarry restore-dump`: what `quarry dump` or mongodump has written, into a server.
//!
//! Collections are made with their options first, then their documents are inserted by several connections at once. With `--oplogReplay` the changes
//! that were made during the dump are applied behind them (`replay.rs`). Indexes are built last; views come behind the collections that they are on, users and roles at
//! the end.

mod archive_input;
mod directory;
mod later;
mod oplog_input;
mod packed_file;
mod replay;
mod replayed;
mod replayed_command;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use quarry_bson::{RawDocument, Timestamp};
use quarry_client::Connection;

use crate::definition::{self, Definition, Kind};
use crate::error::{Error, Result};
use crate::loader::{Batch, Loader, Target, Verb};
use crate::namespaces::{Namespace, Selection, SelectionFlags};
use crate::progress::Progress;
use crate::server::{self, ServerFlags};
use crate::time_series::{self, Series};
use crate::users::{self, Accounts};
use later::Later;
use replay::Replay;

/// Batches of all collections of an archive together, while none of them is full.
const OPEN_BYTES_MAX: usize = 64 << 20;
/// Refused documents that are named.
const NAMED_MAX: u64 = 20;
/// Databases of a server's own.
const LEFT_OUT: [&str; 2] = ["local", "config"];

/// The flags of `quarry restore-dump`.
#[derive(Debug, Args)]
pub struct RestoreDump {
    #[command(flatten)]
    server: ServerFlags,
    /// The dump's directory; with --db a database's, with --collection a file of documents
    #[arg(value_name = "DIRECTORY", default_value = "dump")]
    directory: PathBuf,
    /// One file instead of a directory; without a name the standard input
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "directory")]
    archive: Option<PathBuf>,
    /// The files are compressed; this is seen without being said, too
    #[arg(long)]
    gzip: bool,
    /// The database that the directory is of
    #[arg(long, short = 'd', conflicts_with = "archive")]
    db: Option<String>,
    /// The collection that the file is of
    #[arg(long, short = 'c', requires = "db")]
    collection: Option<String>,
    #[command(flatten)]
    selection: SelectionFlags,
    /// Remove each collection of the dump from the server first
    #[arg(long)]
    drop: bool,
    /// Read and check everything, and write nothing
    #[arg(long = "dryRun")]
    dry_run: bool,
    /// End at the first document that the server refuses
    #[arg(long = "stopOnError")]
    stop_on_error: bool,
    /// Build no indexes but those on _id
    #[arg(long = "noIndexRestore")]
    no_indexes: bool,
    /// Make collections without the options of the dump
    #[arg(long = "noOptionsRestore")]
    no_options: bool,
    /// Insert documents that a collection's validator would refuse
    #[arg(long = "bypassDocumentValidation")]
    bypass_validation: bool,
    /// Connections that insert
    #[arg(long = "numInsertionWorkers", short = 'j', value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    writers: u8,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
    /// Apply the oplog of the dump behind its documents, so that all are of one moment
    #[arg(long = "oplogReplay", conflicts_with_all = ["db", "ns_include", "ns_from", "ns_to"])]
    oplog_replay: bool,
    /// Apply only what was made before this time, as seconds since 1970 and the number of an entry within its second
    #[arg(long = "oplogLimit", value_name = "SECONDS[:NUMBER]", requires = "oplog_replay", value_parser = replay::limit)]
    oplog_limit: Option<Timestamp>,
    /// Apply the oplog of this file instead of the dump's
    #[arg(long = "oplogFile", value_name = "FILE", requires = "oplog_replay")]
    oplog_file: Option<PathBuf>,
}

/// Restores; the exit code of the process.
#[must_use]
pub fn run(options: &RestoreDump) -> ExitCode {
    crate::ended("restore-dump", restore(options))
}

/// One collection of the dump, and what becomes of it.
struct Plan {
    from: Namespace,
    definition: Definition,
    /// The definition of a time series, whose documents are buckets in the dump.
    series: Option<Series>,
    target: Arc<Target>,
    /// The file of its documents, in a directory.
    file: Option<PathBuf>,
}

impl Plan {
    fn to(&self) -> &Namespace {
        &self.target.namespace
    }
}

fn restore(options: &RestoreDump) -> Result<()> {
    let archive = options.archive.as_deref();
    if archive.is_some_and(server::is_standard_input) && options.server.takes_standard_input() {
        return Err(Error::usage(
            "--passwordFile - and an archive cannot both be the standard input",
        ));
    }
    let selection = options.selection.selection()?;
    let restorer = Restorer::new(options, selection)?;
    match &options.archive {
        Some(path) => archive_input::restore(restorer, path),
        None => directory::restore(restorer),
    }
}

/// A restore under way.
struct Restorer<'o> {
    options: &'o RestoreDump,
    selection: Selection,
    /// None in a dry run.
    writing: Option<Writing>,
    open: HashMap<Namespace, (Arc<Target>, Batch)>,
    accounts: Accounts,
    later: Later,
    replay: Option<Replay>,
    read: u64,
    restored: u64,
    refused: u64,
    progress: Progress,
}

struct Writing {
    connection: Connection,
    loader: Loader,
}

impl<'o> Restorer<'o> {
    fn new(options: &'o RestoreDump, selection: Selection) -> Result<Restorer<'o>> {
        let writing = match options.dry_run {
            true => None,
            false => {
                let settings = options.server.settings()?;
                Some(Writing {
                    connection: server::connect(&settings)?,
                    loader: Loader::start(&settings, usize::from(options.writers))?,
                })
            }
        };
        Ok(Restorer {
            options,
            selection,
            writing,
            open: HashMap::new(),
            accounts: Accounts::default(),
            later: Later::default(),
            replay: options
                .oplog_replay
                .then(|| Replay::new(options.oplog_limit)),
            read: 0,
            restored: 0,
            refused: 0,
            progress: Progress::of_bytes("restore", None),
        })
    }

    /// Whether a collection of the dump is restored.
    fn takes(&self, from: &Namespace) -> bool {
        takes(&self.selection, from)
    }

    /// The plan of a collection of the dump; none where it is left out.
    fn plan(
        &self,
        from: Namespace,
        definition: Definition,
        file: Option<PathBuf>,
    ) -> Result<Option<Plan>> {
        if !self.takes(&from) {
            return Ok(None);
        }
        let target = Target {
            namespace: self.selection.renamed(&from)?,
            verb: Verb::Insert,
            is_ordered: self.options.stop_on_error,
            // The order of a capped collection is that of its inserts.
            is_in_sequence: self.options.stop_on_error || definition.is_capped(),
            gives_back: false,
            bypasses_validation: self.options.bypass_validation,
        };
        Ok(Some(Plan {
            from,
            series: Series::of(definition.options.as_raw()),
            definition,
            target: Arc::new(target),
            file,
        }))
    }

    /// Makes the collections of the plans, and notes what is made of them later.
    fn make_collections(&mut self, plans: &[Plan]) -> Result<()> {
        for plan in plans.iter().filter(|plan| !users::are_in(plan.to())) {
            match plan.definition.kind {
                Kind::View => self
                    .later
                    .add_view(plan.to(), plan.definition.options.clone()),
                Kind::Collection | Kind::TimeSeries => self
                    .later
                    .add_indexes(plan.to(), plan.definition.indexes.clone()),
            }
        }
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        for plan in plans {
            if users::are_in(plan.to()) {
                continue;
            }
            if self.options.drop {
                definition::drop(&mut writing.connection, plan.to())?;
            }
            if plan.definition.kind != Kind::View {
                make(&mut writing.connection, plan, self.options)?;
            }
        }
        Ok(())
    }

    /// Takes a document of a plan's collection, which was appended to the batch that `batch` gave.
    fn batch(&mut self, plan: &Plan) -> &mut Batch {
        let loader = self.writing.as_mut().map(|writing| &mut writing.loader);
        let (_, batch) = self.open.entry(plan.from.clone()).or_insert_with(|| {
            let batch = loader.map(Loader::batch).unwrap_or_default();
            (Arc::clone(&plan.target), batch)
        });
        batch
    }

    /// Counts the document at the end of the plan's batch, which begins at `start`, and sends the batch when it is full. The bucket of a time series
    /// is replaced by its measurements.
    fn note(&mut self, plan: &Plan, start: usize) -> Result<()> {
        let Some(series) = &plan.series else {
            return self.note_document(plan, start);
        };
        let batch = self.batch(plan);
        let bucket = batch.documents.split_off(start);
        let mut measurements = Vec::new();
        RawDocument::new(&bucket)
            .map_err(|error| error.to_string())
            .and_then(|bucket| time_series::measurements(series, bucket, &mut measurements))
            .map_err(|what| Error::damaged(format_args!("`{}`", plan.from), what))?;
        let mut rest = measurements.as_slice();
        while let Some((measurement, behind)) = RawDocument::split_first(rest) {
            let batch = self.batch(plan);
            let start = batch.documents.len();
            batch.documents.extend_from_slice(measurement.as_bytes());
            self.note_document(plan, start)?;
            rest = behind;
        }
        Ok(())
    }

    fn note_document(&mut self, plan: &Plan, start: usize) -> Result<()> {
        self.read += 1;
        let number = self.read;
        let batch = self.batch(plan);
        let bytes = batch.documents.len() - start;
        if users::are_in(plan.to()) {
            let document = RawDocument::new(&batch.documents[start..])
                .map_err(|error| Error::damaged(&plan.from, error))?
                .to_owned_document();
            batch.documents.truncate(start);
            self.accounts.add(&plan.to().collection, document);
        } else {
            batch.note(number);
            if batch.is_full() {
                self.send(&plan.from)?;
            }
        }
        self.progress.add(bytes as u64, 1);
        Ok(())
    }

    /// Sends every batch, if together they have become large.
    fn bound_open(&mut self) -> Result<()> {
        let open: usize = self
            .open
            .values()
            .map(|(_, batch)| batch.documents.len())
            .sum();
        match open > OPEN_BYTES_MAX {
            true => self.send_all(),
            false => Ok(()),
        }
    }

    fn send_all(&mut self) -> Result<()> {
        let namespaces: Vec<Namespace> = self.open.keys().cloned().collect();
        namespaces
            .iter()
            .try_for_each(|namespace| self.send(namespace))
    }

    /// Sends what a collection has.
    fn send(&mut self, from: &Namespace) -> Result<()> {
        let Some((target, batch)) = self.open.remove(from) else {
            return Ok(());
        };
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        if !batch.is_empty() {
            writing.loader.send(&target, batch)?;
        }
        self.take_outcomes()
    }

    fn take_outcomes(&mut self) -> Result<()> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        for outcome in writing.loader.outcomes() {
            self.restored += outcome.done;
            for failure in &outcome.failures {
                self.refused += 1;
                if self.refused <= NAMED_MAX {
                    eprintln!("`{}`: {}", outcome.target.namespace, failure.message);
                }
            }
        }
        match self.options.stop_on_error && self.refused > 0 {
            true => Err(Error::Incomplete(format!(
                "stopped; {} documents are restored",
                self.restored
            ))),
            false => Ok(()),
        }
    }

    /// Waits until all documents that have been read are written.
    fn settle(&mut self) -> Result<()> {
        self.send_all()?;
        if let Some(writing) = &mut self.writing {
            writing.loader.wait()?;
        }
        self.take_outcomes()
    }

    /// Writes what is left, then indexes, views, users and roles; tells what was done.
    fn finish(mut self, plans: &[Plan]) -> Result<()> {
        self.settle()?;
        self.finish_replay()?;
        if let Some(writing) = &mut self.writing {
            let connection = &mut writing.connection;
            if !self.options.no_indexes {
                for (namespace, indexes) in self.later.indexes() {
                    definition::create_indexes(connection, namespace, indexes)?;
                }
            }
            for (namespace, options) in self.later.views() {
                let is_new = definition::create(connection, namespace, options.as_raw())?;
                tell_if_there(namespace, is_new, self.options);
            }
            self.accounts.restore(connection, self.options.drop)?;
        }
        let accounts = self.accounts.len();
        if !self.options.quiet {
            match self.options.dry_run {
                true => eprintln!(
                    "{} documents of {} collections would be restored",
                    self.read,
                    plans.len()
                ),
                false => eprintln!(
                    "{} documents of {} collections restored",
                    self.restored + accounts as u64,
                    plans.len()
                ),
            }
        }
        match self.refused {
            0 => Ok(()),
            refused => Err(Error::Incomplete(format!(
                "{refused} documents were refused"
            ))),
        }
    }
}

/// Whether a collection of the dump is restored.
fn takes(selection: &Selection, from: &Namespace) -> bool {
    let is_system = from.collection.starts_with("system.") && from.collection != "system.js";
    let is_left_out = LEFT_OUT.contains(&from.database.as_str())
        || (is_system && !users::are_in(from))
        || from.collection.starts_with('$');
    !is_left_out && selection.takes(from)
}

/// Makes the plan's collection. One that is there stays as it is, and gets the documents besides.
fn make(connection: &mut Connection, plan: &Plan, options: &RestoreDump) -> Result<()> {
    let is_plain = plan.definition.kind == Kind::Collection;
    let wanted = match options.no_options && is_plain {
        true => RawDocument::EMPTY,
        false => plan.definition.options.as_raw(),
    };
    let was_there = plan.series.is_some() && definition::exists(connection, plan.to())?;
    let is_new = definition::create(connection, plan.to(), wanted)?;
    if plan.series.is_some() && is_new && !was_there && !options.no_indexes {
        definition::drop_other_indexes(connection, plan.to(), &plan.definition.indexes)?;
    }
    tell_if_there(plan.to(), is_new, options);
    Ok(())
}

fn tell_if_there(namespace: &Namespace, is_new: bool, options: &RestoreDump) {
    if !is_new && !options.quiet {
        eprintln!("`{namespace}` is there and keeps its options");
    }
}
