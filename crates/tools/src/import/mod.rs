//! `quarry import`: files of JSON, CSV, TSV and Parquet into a collection.
//!
//! One thread reads and parses, and appends each document to the batch that it fills; several connections write batches meanwhile (`loader.rs`).
//! A document costs no allocation of its own. What cannot be read and what the server refuses is named by its line, or its row.
//!
//! With `--resume`, a small file says from where to go on. Documents without `_id` get one that their place in the file gives, so
//! that what was written and not yet noted before an interruption is met again as the same document, and not twice.

mod column_type;
mod columns;
mod date_layout;
mod delimited;
mod documents;
mod earlier;
mod input;
mod json;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod resume;
mod statement;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use quarry_bson::{DOCUMENT_BYTES_INTERNAL_MAX, DOCUMENT_BYTES_MAX, RawDocument};

use crate::definition;
use crate::error::{Error, Result};
use crate::loader::{Batch, Loader, Target};
use crate::namespaces::Namespace;
use crate::progress::Progress;
use crate::server::{self, ServerFlags};
use column_type::Grace;
use documents::{Documents, Next};
use earlier::Earlier;
use resume::{Place, Resume};
use statement::{ID, Mode, Statements};

/// Failures that are named; the others are counted.
const NAMED_MAX: u64 = 20;
const WRITERS_DEFAULT: u8 = 4;
/// The ending of a file that is compressed; the one before it tells the format.
const PACKED_ENDING: &str = ".gz";

/// The flags of `quarry import`.
#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    server: ServerFlags,
    /// The file; the standard input without it
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The database [default: the URI's, or test]
    #[arg(long, short = 'd')]
    db: Option<String>,
    /// The collection [default: the file's name without its ending]
    #[arg(long, short = 'c')]
    collection: Option<String>,
    /// Format of the file [default: what its ending says before any .gz, or json]
    #[arg(long = "type", value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The first line has the names of the fields
    #[arg(long)]
    headerline: bool,
    /// Names of the fields, separated by commas
    #[arg(long, short = 'f', value_name = "NAMES", conflicts_with = "headerline")]
    fields: Option<String>,
    /// File with the name of a field a line
    #[arg(long = "fieldFile", value_name = "FILE", conflicts_with_all = ["headerline", "fields"])]
    field_file: Option<PathBuf>,
    /// Names have their type behind them, as in `age.int32()` or `born.date(2006-01-02)`
    #[arg(long = "columnsHaveTypes")]
    columns_have_types: bool,
    /// The fate of a value that is not of its type
    #[arg(
        long = "parseGrace",
        value_enum,
        value_name = "WHAT",
        default_value = "stop",
        requires = "columns_have_types"
    )]
    parse_grace: Grace,
    /// Leave fields without text out, and those of Parquet that are null
    #[arg(long = "ignoreBlanks")]
    ignore_blanks: bool,
    /// The file is one array of documents; this is seen without being said, too
    #[arg(long = "jsonArray")]
    json_array: bool,
    /// Read Extended JSON of version 1 and what the shell prints
    #[arg(long)]
    legacy: bool,
    /// The use of a document: `upsert` replaces the one with the same fields, `merge` sets its fields there, `delete` removes it [default: insert, or
    /// upsert with --upsertFields]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Fields by which the other modes find a document, separated by commas [default: _id]
    #[arg(long = "upsertFields", value_name = "NAMES")]
    upsert_fields: Option<String>,
    /// Remove the collection first
    #[arg(long)]
    drop: bool,
    /// End at the first document that cannot be read or is refused
    #[arg(long = "stopOnError")]
    stop_on_error: bool,
    /// Write the documents in the order of the file
    #[arg(long = "maintainInsertionOrder")]
    maintain_order: bool,
    /// Insert documents that the collection's validator would refuse
    #[arg(long = "bypassDocumentValidation")]
    bypass_validation: bool,
    /// Connections that write [default: 4 that insert, or 1 in the order of the file]
    #[arg(long = "numInsertionWorkers", short = 'j', value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    writers: Option<u8>,
    /// Note in this file how far the import is, and go on from there if it says
    #[arg(long, value_name = "FILE", requires = "file")]
    resume: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
}

impl Import {
    /// The use of a document: fields to find one by ask for an upsert, where no mode is named.
    fn mode(&self) -> Mode {
        self.mode.unwrap_or(match self.upsert_fields {
            Some(_) => Mode::Upsert,
            None => Mode::Insert,
        })
    }
}

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Documents one after the other, or an array of them
    Json,
    /// Values separated by commas, as RFC 4180 has them
    Csv,
    /// Values separated by tabs
    Tsv,
    /// Row groups of columns; what their types say is kept
    Parquet,
}

impl Format {
    /// Whether the fields of a document are the values of a line.
    fn has_lines_of_values(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv)
    }
}

/// Imports; the exit code of the process.
#[must_use]
pub fn run(options: &Import) -> ExitCode {
    crate::ended("import", import(options))
}

fn import(options: &Import) -> Result<()> {
    let statements = check(options)?;
    let settings = options.server.settings()?;
    let namespace = namespace(options, settings.database.as_deref())?;
    let mut resume = Resume::open(
        options.resume.as_deref(),
        &namespace,
        options.file.as_deref(),
    )?;
    let (mut documents, bytes) = input::open(options, resume.place())?;
    let writers = options.writers.unwrap_or(match is_in_order(options) {
        true => 1,
        false => WRITERS_DEFAULT,
    });
    if options.drop && !resume.goes_on() {
        definition::drop(&mut server::connect(&settings)?, &namespace)?;
    }
    let target = Target {
        namespace,
        verb: statements.verb(),
        is_ordered: options.stop_on_error,
        // Otherwise batches behind the one with the error would be under way.
        is_in_sequence: options.stop_on_error,
        gives_back: resume.goes_on(),
        bypasses_validation: options.bypass_validation,
    };
    let progress = Progress::of_bytes("import", bytes);
    progress.add(resume.place().offset, 0);
    let mut importer = Importer {
        options,
        unit: documents.unit(),
        loader: Loader::start(&settings, usize::from(writers))?,
        target: Arc::new(target),
        earlier: resume.goes_on().then(|| Earlier::new(&settings)),
        statements,
        resume: &mut resume,
        progress,
        imported: 0,
        met_again: 0,
        left_out: 0,
        bad: 0,
    };
    let ended = importer.run(&mut *documents);
    let bad = importer.bad;
    let told = importer.tell(ended, &documents.told());
    drop(importer);
    told?;
    resume.done()?;
    match bad {
        0 => Ok(()),
        bad => Err(Error::Incomplete(format!(
            "{bad} documents were refused or cannot be read"
        ))),
    }
}

/// Looks whether the flags go together, before anything is done.
fn check(options: &Import) -> Result<Statements> {
    if options.file.is_none() && options.server.takes_standard_input() {
        return Err(Error::usage(
            "--passwordFile - and the documents cannot both be the standard input",
        ));
    }
    if options.maintain_order && options.writers.is_some_and(|writers| writers > 1) {
        return Err(Error::usage(
            "--maintainInsertionOrder goes with one connection that writes",
        ));
    }
    if options.stop_on_error && options.writers.is_some_and(|writers| writers > 1) {
        return Err(Error::usage(
            "--stopOnError goes with one connection that writes: leave --numInsertionWorkers out",
        ));
    }
    if options.upsert_fields.is_some() && options.mode() == Mode::Insert {
        return Err(Error::usage(
            "--upsertFields goes with --mode upsert, merge or delete, and not with insert",
        ));
    }
    if options.resume.is_some() && options.mode() == Mode::Delete {
        return Err(Error::usage(
            "--resume does not go with --mode delete, which removes another document the second time",
        ));
    }
    let fields = options.upsert_fields.as_deref().unwrap_or(ID);
    Statements::new(options.mode(), fields)
}

fn is_in_order(options: &Import) -> bool {
    options.maintain_order || options.stop_on_error || options.mode() != Mode::Insert
}

fn done_words(mode: Mode) -> &'static str {
    match mode {
        Mode::Insert => "imported",
        Mode::Upsert => "inserted or replaced",
        Mode::Merge => "inserted or merged",
        Mode::Delete => "deleted",
    }
}

/// An import under way.
struct Importer<'i> {
    options: &'i Import,
    /// The things that the number of a document counts.
    unit: &'static str,
    loader: Loader,
    target: Arc<Target>,
    statements: Statements,
    resume: &'i mut Resume,
    /// Knows the documents that the run before has written, where there was one.
    earlier: Option<Earlier>,
    progress: Progress,
    imported: u64,
    met_again: u64,
    /// Documents that the flags leave out.
    left_out: u64,
    bad: u64,
}

impl Importer<'_> {
    /// Imports the documents. Whatever ends it early, those that were read before it are written, and counted.
    fn run(&mut self, documents: &mut dyn Documents) -> Result<()> {
        let mut batch = self.loader.batch();
        let mut behind = documents.place();
        let read = self.read(documents, &mut batch, &mut behind);
        let sent = self.send(batch, behind);
        let written = self.loader.wait();
        let taken = self.take_outcomes();
        match (read, sent.and(written).and(taken)) {
            (Err(read), Err(written)) => Err(Error::Incomplete(format!("{read}; {written}"))),
            (Ok(()), Ok(())) => self.check_stop(),
            (ended, written) => ended.and(written),
        }
    }

    /// Reads to the end. After an error, what is still to be sent is in the batch, and `behind` is where that ends.
    fn read(
        &mut self,
        documents: &mut dyn Documents,
        batch: &mut Batch,
        behind: &mut Place,
    ) -> Result<()> {
        let mut document = Vec::new();
        loop {
            document.clear();
            match documents.next(&mut document)? {
                Next::Document(line) => {
                    let ordinal = self.resume.next_ordinal();
                    match self.append(&document, ordinal, &mut batch.documents) {
                        Ok(()) => batch.note(line),
                        Err(what) => self.refuse(line, &what),
                    }
                }
                Next::Bad(line, what) => self.refuse(line, &what),
                Next::Skipped(line, what) => self.leave_out(line, &what),
                Next::End => return Ok(()),
            }
            self.check_stop()?;
            *behind = documents.place();
            if batch.is_full() {
                let full = std::mem::replace(batch, self.loader.batch());
                self.send(full, *behind)?;
                self.check_stop()?;
            }
        }
    }

    /// An error where the import has to end at what was refused.
    fn check_stop(&self) -> Result<()> {
        match self.options.stop_on_error && self.bad > 0 {
            true => Err(Error::Incomplete("stopped".to_owned())),
            false => Ok(()),
        }
    }

    /// Appends the statement for a document; the error says why there is none.
    fn append(
        &self,
        document: &[u8],
        ordinal: u64,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        let raw = RawDocument::new(document).map_err(|error| error.to_string())?;
        let start = out.len();
        self.statements.append(raw, self.resume.id(ordinal), out)?;
        // A server that gets more refuses the whole batch.
        let bytes = out.len() - start;
        if document.len() > DOCUMENT_BYTES_MAX || bytes > DOCUMENT_BYTES_INTERNAL_MAX {
            out.truncate(start);
            return Err(format!(
                "a document of {} bytes, where {DOCUMENT_BYTES_MAX} are possible",
                document.len()
            ));
        }
        Ok(())
    }

    /// Tells what was done: in the error, where there is one.
    fn tell(&self, ended: Result<()>, of_file: &[String]) -> Result<()> {
        let mut lines = of_file.to_vec();
        let done = self.done();
        let told = match ended {
            Ok(()) => {
                lines.push(done);
                Ok(())
            }
            Err(why) => Err(Error::Incomplete(format!("{why}; {done}"))),
        };
        if !self.options.quiet {
            lines.iter().for_each(|line| eprintln!("{line}"));
        }
        told
    }

    /// The words that say what was done.
    fn done(&self) -> String {
        let mut done = format!(
            "{} documents {}",
            self.imported,
            done_words(self.options.mode())
        );
        if self.left_out > 0 {
            done += &format!(", {} left out", self.left_out);
        }
        if self.met_again > 0 {
            done += &format!(", {} were there from the run before", self.met_again);
        }
        done
    }

    fn send(&mut self, mut batch: Batch, behind: Place) -> Result<()> {
        self.progress
            .add(self.resume.advance(behind), batch.len() as u64);
        if !batch.is_empty() {
            batch.number = self.resume.sent(behind)?;
            self.loader.send(&self.target, batch)?;
        }
        self.take_outcomes()
    }

    fn take_outcomes(&mut self) -> Result<()> {
        for outcome in self.loader.outcomes() {
            self.imported += outcome.done;
            let may_be_there = self.resume.may_be_there(outcome.number);
            let written = match &mut self.earlier {
                Some(earlier) if may_be_there => {
                    earlier.written(&outcome.target, &outcome.failures, self.resume)?
                }
                _ => HashSet::new(),
            };
            for (place, failure) in outcome.failures.iter().enumerate() {
                // Written by the run before, which was interrupted until it could be noted.
                if written.contains(&place) {
                    self.met_again += 1;
                } else {
                    self.refuse(failure.place, &failure.message);
                }
            }
            self.resume.written(outcome.number)?;
        }
        Ok(())
    }

    /// Names and counts what cannot be imported.
    fn refuse(&mut self, line: u64, what: &str) {
        self.bad += 1;
        self.name(self.bad, format_args!("{line}: {what}"));
    }

    /// Names and counts what is not imported because the flags say so.
    fn leave_out(&mut self, line: u64, what: &str) {
        self.left_out += 1;
        if !self.options.quiet {
            self.name(self.left_out, format_args!("{line} is left out: {what}"));
        }
    }

    /// Names the first ones of a kind.
    fn name(&self, count: u64, what: fmt::Arguments<'_>) {
        if count <= NAMED_MAX {
            eprintln!("{} {what}", self.unit);
        }
        if count == NAMED_MAX {
            eprintln!("further ones are counted");
        }
    }
}

fn namespace(options: &Import, database: Option<&str>) -> Result<Namespace> {
    let database = options.db.as_deref().or(database).unwrap_or("test");
    let of_file = || options.file.as_deref().and_then(collection_of_file);
    match options.collection.clone().or_else(of_file) {
        Some(collection) if !collection.is_empty() => Ok(Namespace::new(database, collection)),
        _ => Err(Error::usage("--collection says where the documents go")),
    }
}

/// The name of a file without its last ending, as mongoimport takes it.
fn collection_of_file(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let name = name.strip_suffix(PACKED_ENDING).unwrap_or(name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    Some(stem.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        import: Import,
    }

    fn options(flags: &str) -> Import {
        let words = std::iter::once("import").chain(flags.split_whitespace());
        Line::try_parse_from(words).unwrap().import
    }

    #[test]
    fn fields_to_find_documents_by_ask_for_an_upsert() {
        for (flags, mode) in [
            ("", Mode::Insert),
            ("--upsertFields k", Mode::Upsert),
            ("--upsertFields k --mode delete", Mode::Delete),
            ("--mode merge", Mode::Merge),
        ] {
            assert_eq!(options(flags).mode(), mode, "{flags}");
        }
        let statements = check(&options("--upsertFields k")).unwrap();
        assert_eq!(statements.verb(), crate::loader::Verb::Update);
    }

    #[test]
    fn a_flag_without_an_effect_is_refused_by_name() {
        for (flags, said) in [
            (
                "--mode insert --upsertFields k",
                "--upsertFields goes with --mode upsert, merge or delete",
            ),
            ("--stopOnError -j 4", "--stopOnError goes with one"),
            (
                "--maintainInsertionOrder -j 4",
                "--maintainInsertionOrder goes with one",
            ),
        ] {
            let error = check(&options(flags)).err().unwrap().to_string();
            assert!(error.starts_with(said), "{flags}: {error}");
        }
        assert!(check(&options("--stopOnError -j 1")).is_ok());
        assert!(check(&options("--mode upsert -j 4")).is_ok());
        for (flags, said) in [
            ("--ignoreBlanks", "--ignoreBlanks goes with CSV"),
            ("--type json --ignoreBlanks", "--ignoreBlanks goes with CSV"),
            ("--type csv --headerline --legacy", "--jsonArray and"),
            ("--fields a", "names of fields go with CSV"),
        ] {
            let opened = input::open(&options(flags), Place::default());
            let error = opened.err().unwrap().to_string();
            assert!(error.starts_with(said), "{flags}: {error}");
        }
    }

    #[test]
    fn a_file_gives_its_collection_its_name_without_the_last_ending() {
        let of = |path: &str| collection_of_file(Path::new(path));
        for (path, collection) in [
            ("orders.json", "orders"),
            ("dir.d/orders.csv", "orders"),
            ("orders", "orders"),
            ("orders.csv.gz", "orders"),
            ("orders.2024.json", "orders.2024"),
            ("orders.2025.json", "orders.2025"),
        ] {
            assert_eq!(of(path).as_deref(), Some(collection));
        }
        assert_eq!(of(".json").as_deref(), Some(""));
        assert_eq!(of(".."), None);
    }
}
