//! `quarry export`: documents of a collection as lines of JSON, as an array, or as CSV.

mod csv_output;
mod json_output;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use quarry_bson::{Document, RawDocument, doc};

use crate::definition;
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::new_file::{NewFile, STANDARD_OUTPUT};
use crate::progress::Progress;
use crate::server::{self, ServerFlags};

/// The flags of `quarry export`.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    server: ServerFlags,
    /// The database [default: the URI's, or test]
    #[arg(long, short = 'd')]
    db: Option<String>,
    /// The collection, or the view
    #[arg(long, short = 'c')]
    collection: String,
    /// The file; the standard output without it
    #[arg(long, short = 'o', value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format of the file
    #[arg(
        long = "type",
        value_enum,
        value_name = "FORMAT",
        default_value = "json"
    )]
    format: Format,
    /// Keep every type (`canonical`), or write numbers and dates as people do
    #[arg(
        long = "jsonFormat",
        value_enum,
        value_name = "FORM",
        default_value = "relaxed"
    )]
    form: Form,
    /// One array instead of a document a line
    #[arg(long = "jsonArray")]
    json_array: bool,
    /// Only these fields, separated by commas; CSV needs them
    #[arg(long, short = 'f', value_name = "NAMES")]
    fields: Option<String>,
    /// Write no line with the names
    #[arg(long = "noHeaderLine")]
    no_header: bool,
    /// Only the documents that match, in Extended JSON
    #[arg(long, short = 'q', value_name = "FILTER")]
    query: Option<String>,
    /// Their order, as in `{"age": -1}`
    #[arg(long, value_name = "ORDER")]
    sort: Option<String>,
    /// Leave out so many of the first
    #[arg(long, value_name = "COUNT")]
    skip: Option<u32>,
    /// At most so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
}

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Extended JSON
    Json,
    /// Values separated by commas, as RFC 4180 has them
    Csv,
}

/// A form of Extended JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Every type is spelled out
    Canonical,
    /// Numbers, and dates of the years 1970 to 9999, stand as people write them
    Relaxed,
}

/// Exports; the exit code of the process.
#[must_use]
pub fn run(options: &Export) -> ExitCode {
    crate::ended("export", export(options))
}

/// A file of documents that is being written.
trait Output {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()>;
    fn document(&mut self, document: RawDocument<'_>, out: &mut dyn Write) -> io::Result<()>;
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

fn export(options: &Export) -> Result<()> {
    let fields: Option<Vec<String>> = options.fields.as_ref().map(|names| {
        names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect()
    });
    let mut output = output(options, fields.as_deref())?;
    let settings = options.server.settings()?;
    let database = options.db.clone().or_else(|| settings.database.clone());
    let namespace = Namespace::new(database.as_deref().unwrap_or("test"), &options.collection);
    let command = find(options, fields.as_deref())?;
    let mut connection = server::connect(&settings)?;
    let is_whole = options.query.is_none() && options.limit.is_none() && options.skip.is_none();
    let count = is_whole
        .then(|| definition::count(&mut connection, &namespace))
        .flatten();
    let progress = Progress::of_documents("export", count);
    let path = options
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(STANDARD_OUTPUT));
    let failed = Error::file(&path);
    let mut file = NewFile::create(&path, false).map_err(&failed)?;
    output.begin(&mut file).map_err(&failed)?;
    let asked = Error::server(&namespace);
    let mut cursor = connection
        .cursor(&namespace.database, &command)
        .map_err(&asked)?;
    let mut documents = 0u64;
    while cursor.advance().map_err(&asked)? {
        for document in cursor.batch() {
            output.document(document, &mut file).map_err(&failed)?;
            progress.add(document.len_bytes() as u64, 1);
            documents += 1;
        }
    }
    output
        .end(&mut file)
        .and_then(|()| file.finish())
        .map_err(&failed)?;
    drop(progress);
    if !options.quiet {
        eprintln!("{documents} documents exported");
    }
    Ok(())
}

fn output(options: &Export, fields: Option<&[String]>) -> Result<Box<dyn Output>> {
    Ok(match (options.format, fields) {
        (Format::Csv, None) => return Err(Error::usage("CSV needs --fields")),
        (Format::Csv, Some(fields)) => {
            Box::new(csv_output::CsvOutput::new(fields, !options.no_header))
        }
        (Format::Json, _) => Box::new(json_output::JsonOutput::new(
            options.form,
            options.json_array,
        )),
    })
}

fn find(options: &Export, fields: Option<&[String]>) -> Result<Document> {
    let mut command = doc! { "find": (options.collection.as_str()) };
    for (field, flag, text) in [
        ("filter", "--query", &options.query),
        ("sort", "--sort", &options.sort),
    ] {
        if let Some(text) = text {
            command.append(field, server::document(flag, text)?);
        }
    }
    if let Some(fields) = fields {
        let mut projection = Document::new();
        for field in fields {
            projection.append(field, 1);
        }
        let names_id = fields
            .iter()
            .any(|field| field == "_id" || field.starts_with("_id."));
        if options.format == Format::Csv && !names_id {
            projection.append("_id", 0);
        }
        command.append("projection", projection);
    }
    for (field, count) in [("skip", options.skip), ("limit", options.limit)] {
        if let Some(count) = count {
            command.append(field, i64::from(count));
        }
    }
    Ok(command)
}
