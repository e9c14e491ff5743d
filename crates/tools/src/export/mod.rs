//! `quarry export`: documents of a collection as lines of JSON, as an array, as CSV, or as Parquet.

mod csv_output;
mod json_output;
mod output;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use quarry_bson::{Document, doc};
use quarry_client::Connection;

use self::output::{Compression, Form, Output};
use crate::definition;
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::new_file::{NewFile, STANDARD_OUTPUT};
use crate::progress::Progress;
use crate::server::{self, ServerFlags};

/// Documents that give a file of Parquet its columns.
#[cfg(feature = "parquet")]
const SAMPLE_DEFAULT: u64 = 10_000;

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
    /// Keep every type (`canonical`), or write numbers and dates as people do [default: relaxed]
    #[arg(long = "jsonFormat", value_enum, value_name = "FORM")]
    form: Option<Form>,
    /// One array instead of a document a line
    #[arg(long = "jsonArray")]
    json_array: bool,
    /// Only these fields, separated by commas; CSV needs them
    #[arg(long, short = 'f', value_name = "NAMES")]
    fields: Option<String>,
    /// Names have the type of their column behind them, as in `price.decimal(2)`; of Parquet
    #[arg(long = "columnsHaveTypes", requires = "fields")]
    columns_have_types: bool,
    /// Columns of Parquet are those of so many documents, which are looked at first [default: 10000]
    #[arg(long = "sampleDocuments", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Keep what does not fit in the columns of Parquet in a column of this name
    #[arg(long, value_name = "NAME")]
    overflow: Option<String>,
    /// How the pages of Parquet are compressed [default: zstd]
    #[arg(long, value_enum, value_name = "CODEC")]
    compression: Option<Compression>,
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
    /// Row groups of columns, which keep every type
    Parquet,
}

/// Exports; the exit code of the process.
#[must_use]
pub fn run(options: &Export) -> ExitCode {
    crate::ended("export", export(options))
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
    check_collection(&mut connection, &namespace)?;
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
        for line in output.told() {
            eprintln!("{line}");
        }
        eprintln!("{documents} documents exported");
    }
    Ok(())
}

/// Refuses to export nothing into the place of a file that is there. Collections of the system are taken as they come: a server does not list all that it
/// reads.
fn check_collection(connection: &mut Connection, namespace: &Namespace) -> Result<()> {
    let is_listed = !namespace.collection.starts_with("system.");
    match is_listed && !definition::is_readable(connection, namespace)? {
        true => Err(Error::usage(format!(
            "there is no collection `{namespace}` that could be read: --db and --collection name the one to export"
        ))),
        false => Ok(()),
    }
}

/// Looks whether the flags go with the format.
fn check(options: &Export) -> Result<()> {
    let is_parquet = options.format == Format::Parquet;
    let has_columns = options.columns_have_types
        || options.overflow.is_some()
        || options.sample.is_some()
        || options.compression.is_some();
    if has_columns && !is_parquet {
        return Err(Error::usage(
            "--columnsHaveTypes, --sampleDocuments, --overflow and --compression go with Parquet",
        ));
    }
    let is_json = options.format == Format::Json;
    for (is_given, goes, said) in [
        (options.json_array, is_json, "--jsonArray goes with JSON"),
        (
            options.form.is_some(),
            is_json,
            "--jsonFormat goes with JSON",
        ),
        (
            options.no_header,
            options.format == Format::Csv,
            "--noHeaderLine goes with CSV",
        ),
    ] {
        if is_given && !goes {
            return Err(Error::usage(said));
        }
    }
    Ok(())
}

fn output(options: &Export, fields: Option<&[String]>) -> Result<Box<dyn Output>> {
    check(options)?;
    Ok(match (options.format, fields) {
        (Format::Parquet, fields) => return parquet_output(options, fields),
        (Format::Csv, None) => return Err(Error::usage("CSV needs --fields")),
        (Format::Csv, Some(fields)) => {
            Box::new(csv_output::CsvOutput::new(fields, !options.no_header))
        }
        (Format::Json, _) => Box::new(json_output::JsonOutput::new(
            options.form.unwrap_or(Form::Relaxed),
            options.json_array,
        )),
    })
}

#[cfg(feature = "parquet")]
fn parquet_output(options: &Export, fields: Option<&[String]>) -> Result<Box<dyn Output>> {
    let settings = parquet::Settings {
        compression: options.compression.unwrap_or(Compression::Zstd),
        overflow: options.overflow.clone(),
        sample: options.sample.unwrap_or(SAMPLE_DEFAULT),
    };
    Ok(Box::new(match fields {
        Some(names) if options.columns_have_types => {
            parquet::ParquetOutput::named(settings, names)?
        }
        _ => parquet::ParquetOutput::sampled(settings),
    }))
}

#[cfg(not(feature = "parquet"))]
fn parquet_output(_: &Export, _: Option<&[String]>) -> Result<Box<dyn Output>> {
    Err(Error::without_parquet())
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
        // A type stands behind the last dot of a name.
        let name = |field: &String| match options.columns_have_types {
            true => field
                .rsplit_once('.')
                .map_or(field.clone(), |(name, _)| name.to_owned()),
            false => field.clone(),
        };
        let names: Vec<String> = fields.iter().map(name).collect();
        for name in &names {
            projection.append(name, 1);
        }
        let names_id = names
            .iter()
            .any(|name| name == "_id" || name.starts_with("_id."));
        if options.format != Format::Json && !names_id {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        export: Export,
    }

    fn checked(flags: &str) -> Result<()> {
        let words = ["export", "--collection", "c"].into_iter();
        let line = Line::try_parse_from(words.chain(flags.split_whitespace()));
        check(&line.unwrap().export)
    }

    #[test]
    fn a_flag_without_an_effect_is_refused_by_name() {
        for (flags, said) in [
            ("--noHeaderLine", "--noHeaderLine goes with CSV"),
            (
                "--type parquet --noHeaderLine",
                "--noHeaderLine goes with CSV",
            ),
            ("--type csv --jsonArray", "--jsonArray goes with JSON"),
            ("--type parquet --jsonArray", "--jsonArray goes with JSON"),
            (
                "--type csv --jsonFormat canonical",
                "--jsonFormat goes with JSON",
            ),
            (
                "--type parquet --jsonFormat relaxed",
                "--jsonFormat goes with JSON",
            ),
        ] {
            assert_eq!(checked(flags).unwrap_err().to_string(), said, "{flags}");
        }
        for flags in [
            "",
            "--jsonArray --jsonFormat canonical",
            "--type csv --noHeaderLine",
            "--type parquet",
        ] {
            assert!(checked(flags).is_ok(), "{flags}");
        }
    }
}
