//! `quarry import`: files of JSON, CSV and TSV into a collection.
//!
//! One thread reads and parses, and appends each document to the batch that it fills; several connections write batches meanwhile (`loader.rs`).
//! A document costs no allocation of its own. What cannot be read and what the server refuses is named by its line.
//!
//! With `--resume`, a small file says from where to go on. Documents without `_id` get one that their place in the file gives, so
//! that what was written and not yet noted before an interruption is met again as the same document, and not twice.

mod column_type;
mod columns;
mod date_layout;
mod delimited;
mod documents;
mod json;
mod resume;
mod statement;

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use quarry_bson::RawDocument;

use crate::definition;
use crate::error::{Error, Result};
use crate::loader::{Batch, Loader, Target};
use crate::namespaces::Namespace;
use crate::progress::Progress;
use crate::server::{self, ServerFlags};
use column_type::Grace;
use documents::{Documents, Next};
use resume::{Place, Resume};
use statement::{Mode, Statements};

/// Failures that are named; the others are counted.
const NAMED_MAX: u64 = 20;
const WRITERS_DEFAULT: u8 = 4;

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
    /// Format of the file [default: what its ending says, or json]
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
    /// Leave fields without text out
    #[arg(long = "ignoreBlanks")]
    ignore_blanks: bool,
    /// The file is one array of documents; this is seen without being said, too
    #[arg(long = "jsonArray")]
    json_array: bool,
    /// Read Extended JSON of version 1 and what the shell prints
    #[arg(long)]
    legacy: bool,
    /// The use of a document: `upsert` replaces the one with the same fields, `merge` sets its fields there, `delete` removes it
    #[arg(long, value_enum, default_value = "insert")]
    mode: Mode,
    /// Fields by which the other modes find a document, separated by commas
    #[arg(long = "upsertFields", value_name = "NAMES", default_value = "_id")]
    upsert_fields: String,
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

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Documents one after the other, or an array of them
    Json,
    /// Values separated by commas, as RFC 4180 has them
    Csv,
    /// Values separated by tabs
    Tsv,
}

/// Imports; the exit code of the process.
#[must_use]
pub fn run(options: &Import) -> ExitCode {
    crate::ended("import", import(options))
}

fn import(options: &Import) -> Result<()> {
    let settings = options.server.settings()?;
    let namespace = namespace(options, settings.database.as_deref())?;
    let mut resume = Resume::open(
        options.resume.as_deref(),
        &namespace,
        options.file.as_deref(),
    )?;
    let (mut documents, bytes) = open(options, resume.place())?;
    let is_in_order =
        options.maintain_order || options.stop_on_error || options.mode != Mode::Insert;
    let writers = options.writers.unwrap_or(match is_in_order {
        true => 1,
        false => WRITERS_DEFAULT,
    });
    if options.drop && !resume.goes_on() {
        definition::drop(&mut server::connect(&settings)?, &namespace)?;
    }
    let statements = Statements::new(options.mode, &options.upsert_fields)?;
    let target = Target {
        namespace,
        verb: statements.verb(),
        is_ordered: options.stop_on_error || options.maintain_order,
        bypasses_validation: options.bypass_validation,
    };
    let progress = Progress::of_bytes("import", bytes);
    progress.add(resume.place().offset, 0);
    let mut importer = Importer {
        options,
        loader: Loader::start(&settings, usize::from(writers))?,
        target: Arc::new(target),
        statements,
        resume: &mut resume,
        progress,
        imported: 0,
        met_again: 0,
        bad: 0,
    };
    importer.run(&mut *documents)?;
    let told = importer.told();
    drop(importer);
    resume.done()?;
    told
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
    loader: Loader,
    target: Arc<Target>,
    statements: Statements,
    resume: &'i mut Resume,
    progress: Progress,
    imported: u64,
    met_again: u64,
    bad: u64,
}

impl Importer<'_> {
    fn run(&mut self, documents: &mut dyn Documents) -> Result<()> {
        let mut document = Vec::new();
        let mut batch = self.loader.batch();
        loop {
            document.clear();
            match documents.next(&mut document)? {
                Next::Document(line) => {
                    let ordinal = self.resume.next_ordinal();
                    let raw = RawDocument::new(&document)
                        .map_err(|error| Error::damaged(format_args!("line {line}"), error))?;
                    let id = self.resume.id(ordinal);
                    match self.statements.append(raw, id, &mut batch.documents) {
                        Ok(()) => batch.note(line),
                        Err(what) => self.refuse(line, &what)?,
                    }
                }
                Next::Bad(line, what) => self.refuse(line, &what)?,
                Next::Skipped => {}
                Next::End => break,
            }
            if batch.is_full() {
                self.send(batch, documents.place())?;
                batch = self.loader.batch();
            }
        }
        self.send(batch, documents.place())?;
        self.loader.wait()?;
        self.take_outcomes()
    }

    /// Tells what was done; an error where not everything was.
    fn told(&self) -> Result<()> {
        if !self.options.quiet {
            let again = match self.met_again {
                0 => String::new(),
                count => format!(", {count} were there from the run before"),
            };
            eprintln!(
                "{} documents {}{again}",
                self.imported,
                done_words(self.options.mode)
            );
        }
        match self.bad {
            0 => Ok(()),
            bad => Err(Error::Incomplete(format!(
                "{bad} documents were refused or cannot be read"
            ))),
        }
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
            for failure in &outcome.failures {
                // Written by the run before, which was interrupted until it could be noted.
                if failure.is_same_id && self.resume.may_be_there(outcome.number) {
                    self.met_again += 1;
                } else {
                    self.refuse(failure.place, &failure.message)?;
                }
            }
            self.resume.written(outcome.number)?;
        }
        Ok(())
    }

    /// Names and counts what cannot be imported.
    fn refuse(&mut self, line: u64, what: &str) -> Result<()> {
        self.bad += 1;
        if self.bad <= NAMED_MAX {
            eprintln!("line {line}: {what}");
        }
        if self.bad == NAMED_MAX {
            eprintln!("further ones are counted");
        }
        match self.options.stop_on_error {
            true => Err(Error::Incomplete(format!(
                "stopped; {} documents are {}",
                self.imported,
                done_words(self.options.mode)
            ))),
            false => Ok(()),
        }
    }
}

fn namespace(options: &Import, database: Option<&str>) -> Result<Namespace> {
    let database = options.db.as_deref().or(database).unwrap_or("test");
    let of_file = || {
        let name = options.file.as_ref()?.file_name()?.to_str()?;
        name.split('.').next().map(str::to_owned)
    };
    match options.collection.clone().or_else(of_file) {
        Some(collection) if !collection.is_empty() => Ok(Namespace::new(database, collection)),
        _ => Err(Error::usage("--collection says where the documents go")),
    }
}

/// Opens the file at the place, and gives its length.
fn open(options: &Import, place: Place) -> Result<(Box<dyn Documents>, Option<u64>)> {
    let format = options
        .format
        .unwrap_or_else(|| of_ending(options.file.as_deref()));
    let name = options
        .file
        .as_ref()
        .map_or("standard input".to_owned(), |path| {
            format!("`{}`", path.display())
        });
    let (reader, bytes) = reader(options.file.as_deref(), place)?;
    if format == Format::Json {
        if options.headerline || options.fields.is_some() || options.field_file.is_some() {
            return Err(Error::usage("names of fields go with CSV and TSV"));
        }
        let documents = json::JsonFile::new(reader, name, place, options.legacy);
        return Ok((Box::new(documents), bytes));
    }
    if options.json_array || options.legacy {
        return Err(Error::usage("--jsonArray and --legacy go with JSON"));
    }
    let names = match (&options.fields, &options.field_file) {
        (Some(names), _) => Some(names.split(',').map(str::to_owned).collect()),
        (None, Some(path)) => Some(lines(path)?),
        (None, None) if options.headerline => None,
        (None, None) => {
            return Err(Error::usage(
                "CSV and TSV need --headerline, --fields or --fieldFile",
            ));
        }
    };
    // The names stand at the beginning, wherever the import goes on.
    let header = match (&names, place.offset) {
        (None, 1..) => Some(self::reader(options.file.as_deref(), Place::default())?.0),
        _ => None,
    };
    let layout = delimited::Layout {
        is_tsv: format == Format::Tsv,
        names,
        has_types: options.columns_have_types,
        grace: options.parse_grace,
        ignores_blanks: options.ignore_blanks,
    };
    let documents = delimited::DelimitedFile::new(reader, header, name, place, layout)?;
    Ok((Box::new(documents), bytes))
}

fn of_ending(path: Option<&Path>) -> Format {
    match path
        .and_then(Path::extension)
        .and_then(|ending| ending.to_str())
    {
        Some("csv") => Format::Csv,
        Some("tsv") => Format::Tsv,
        _ => Format::Json,
    }
}

fn reader(path: Option<&Path>, place: Place) -> Result<(Box<dyn Read>, Option<u64>)> {
    let Some(path) = path else {
        return Ok((Box::new(io::stdin()), None));
    };
    let failed = Error::file(path);
    let mut file = File::open(path).map_err(&failed)?;
    let bytes = file.metadata().map_err(&failed)?.len();
    // What is no file, such as a named pipe, can only be read from its beginning.
    if place.offset > 0 {
        file.seek(SeekFrom::Start(place.offset)).map_err(&failed)?;
    }
    Ok((Box::new(file), Some(bytes).filter(|bytes| *bytes > 0)))
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let failed = Error::file(path);
    let file = File::open(path).map_err(&failed)?;
    let lines = io::BufReader::new(file).lines();
    lines.collect::<io::Result<_>>().map_err(failed)
}
