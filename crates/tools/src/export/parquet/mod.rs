//! Documents as Parquet: a field a column, nested documents as structures and arrays as lists.
//!
//! The columns are those of the first documents, which are kept until enough have been seen, or those that were named with their types. A document that
//! does not fit in them ends the export, or goes to a column of its own in part, where one was asked for: nothing is left out, and nothing is another
//! value when it is read back.

mod column;
mod kind;
mod named;

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::extension::Json;
use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use quarry_bson::{Document, DocumentBuilder, RawDocument, extjson};

use self::column::{Changes, Documents, Misfit};
use self::kind::{Field, Nulls};
use super::output::{Compression, Output};
use crate::column_marks::{self as marks, Mark};
use crate::error::{Error, Result};

/// Documents are looked at before the first is written, until they have so many bytes.
const SAMPLE_BYTES_MAX: usize = 256 << 20;
/// Values go to the writer when their documents have so many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// A row group ends when the writer has so many bytes of it in memory.
const ROW_GROUP_BYTES: usize = 128 << 20;
const COLUMNS_MAX: usize = 10_000;

/// Writes Parquet.
pub struct ParquetOutput {
    settings: Settings,
    state: State,
    /// Documents that have come.
    number: u64,
}

/// The flags of the user.
pub struct Settings {
    pub compression: Compression,
    /// The name of the column that keeps what does not fit.
    pub overflow: Option<String>,
    /// Documents that are looked at.
    pub sample: u64,
}

enum State {
    /// Documents are kept until enough have been seen.
    Sampling {
        kept: Vec<u8>,
        seen: kind::Documents,
    },
    Writing(Box<Writing>),
    Ended(Changes),
}

/// A file whose columns are known.
struct Writing {
    columns: Documents,
    overflow: Option<Overflow>,
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
    rows: usize,
    batch_bytes: usize,
}

/// The column of what does not fit in the others.
struct Overflow {
    name: String,
    texts: StringBuilder,
}

impl ParquetOutput {
    /// Columns of the documents that come first.
    pub fn sampled(settings: Settings) -> ParquetOutput {
        ParquetOutput {
            settings,
            state: State::Sampling {
                kept: Vec::new(),
                seen: kind::Documents::default(),
            },
            number: 0,
        }
    }

    /// Columns of the names, each with its type.
    pub fn named(settings: Settings, names: &[String]) -> Result<ParquetOutput> {
        let fields = named::fields(names)?;
        let writing = Writing::new(fields, &settings).map_err(Error::Usage)?;
        Ok(ParquetOutput {
            settings,
            state: State::Writing(Box::new(writing)),
            number: 0,
        })
    }

    /// Makes columns of what has been seen, and writes the documents that were kept.
    fn begin_writing(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let State::Sampling { kept, seen } = &mut self.state else {
            return Ok(());
        };
        let (kept, seen) = (std::mem::take(kept), std::mem::take(seen));
        if !kept.is_empty() && seen.is_empty() {
            return Err(io::Error::other(
                "the documents have no fields, and so there are no columns",
            ));
        }
        let writing = Writing::new(seen.fields(), &self.settings).map_err(io::Error::other)?;
        self.state = State::Writing(Box::new(writing));
        let mut rest = kept.as_slice();
        self.number = 0;
        while let Some((document, behind)) = RawDocument::split_first(rest) {
            self.document(document, out)?;
            rest = behind;
        }
        Ok(())
    }
}

impl Output for ParquetOutput {
    fn begin(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn document(&mut self, document: RawDocument<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.number += 1;
        match &mut self.state {
            State::Sampling { kept, seen } => {
                seen.look(document);
                kept.extend_from_slice(document.as_bytes());
                match self.number >= self.settings.sample || kept.len() >= SAMPLE_BYTES_MAX {
                    true => self.begin_writing(out),
                    false => Ok(()),
                }
            }
            State::Writing(writing) => {
                let appended = writing.append(document);
                appended.map_err(|misfit| unfit(self.number, document, &misfit))?;
                writing.write_full(out)
            }
            State::Ended(_) => Err(io::Error::other("the file has been ended")),
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.begin_writing(out)?;
        let State::Writing(writing) =
            std::mem::replace(&mut self.state, State::Ended(Changes::default()))
        else {
            return Ok(());
        };
        self.state = State::Ended(writing.end(out)?);
        Ok(())
    }

    fn told(&self) -> Vec<String> {
        let State::Ended(changes) = &self.state else {
            return Vec::new();
        };
        let mut told = Vec::new();
        let mut tell = |paths: &[String], what: &str| {
            if !paths.is_empty() {
                told.push(format!("`{}`: {what}", paths.join("`, `")));
            }
        };
        tell(
            &changes.widened,
            "numbers of several types have become the widest of them",
        );
        tell(&changes.nulls, "null and missing fields have become one");
        if changes.reordered > 0 {
            let count = changes.reordered;
            told.push(format!(
                "{count} documents had their fields in another order than the columns"
            ));
        }
        told
    }
}

fn unfit(number: u64, document: RawDocument<'_>, misfit: &Misfit) -> io::Error {
    let id = document
        .get("_id")
        .map_or(String::new(), |id| format!(" (_id: {id})"));
    io::Error::other(format!(
        "document {number}{id}: {misfit}. --sampleDocuments looks at more documents before the first is written, --fields with \
         --columnsHaveTypes names columns and their types, and --overflow NAME keeps what does not fit in a column of that name"
    ))
}

impl Writing {
    fn new(mut fields: Vec<Field>, settings: &Settings) -> std::result::Result<Writing, String> {
        if settings.overflow.is_some() {
            // A field that is missing has nothing that another column could keep.
            for field in fields.iter_mut().filter(|field| field.nulls == Nulls::Null) {
                field.nulls = Nulls::Told;
            }
        }
        let columns = Documents::new(fields);
        let leaves = columns.leaves();
        if leaves > COLUMNS_MAX {
            return Err(format!(
                "the documents have {leaves} columns, where {COLUMNS_MAX} are possible: --fields chooses some"
            ));
        }
        let mut arrow_fields = columns.arrow_fields().to_vec();
        let overflow = match &settings.overflow {
            Some(name) if columns.has_field(name) => {
                return Err(format!(
                    "the documents have a field `{name}`: --overflow takes another name"
                ));
            }
            Some(name) => {
                let field = ArrowField::new(name, DataType::Utf8, true)
                    .with_extension_type(Json::default());
                let field = marks::mark(marks::mark_null_as_missing(field), Mark::Overflow);
                arrow_fields.push(Arc::new(field));
                Some(Overflow {
                    name: name.clone(),
                    texts: StringBuilder::new(),
                })
            }
            None => None,
        };
        let schema = Arc::new(Schema::new(arrow_fields));
        let properties = WriterProperties::builder()
            .set_compression(settings.compression.codec())
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties));
        Ok(Writing {
            columns,
            overflow,
            schema,
            writer: writer.map_err(|error| error.to_string())?,
            rows: 0,
            batch_bytes: 0,
        })
    }

    fn append(&mut self, document: RawDocument<'_>) -> std::result::Result<(), Misfit> {
        let checked = self.columns.check(document);
        match (checked, &mut self.overflow) {
            (Err(misfit), None) => return Err(misfit),
            (Ok(()), overflow) => {
                self.columns.append(document);
                if let Some(overflow) = overflow {
                    overflow.texts.append_null();
                }
            }
            (Err(misfit), Some(overflow)) => {
                let (fitting, rest) = parted(&self.columns, document);
                self.columns.check(fitting.as_raw())?;
                // A field of the name of the column would be taken for what it keeps.
                if rest.as_raw().contains(&overflow.name) {
                    return Err(misfit);
                }
                column::check_extended_json(rest.as_raw())?;
                self.columns.append(fitting.as_raw());
                overflow
                    .texts
                    .append_value(extjson::canonical(rest.as_raw()));
            }
        }
        self.rows += 1;
        self.batch_bytes += document.len_bytes();
        Ok(())
    }

    /// Hands values to the writer if they are enough.
    fn write_full(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.batch_bytes >= BATCH_BYTES {
            true => self.write(out),
            false => Ok(()),
        }
    }

    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let (mut arrays, _) = self.columns.take();
        if let Some(overflow) = &mut self.overflow {
            let texts: ArrayRef = Arc::new(overflow.texts.finish());
            arrays.push(texts);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        let batch = batch.map_err(io::Error::other)?;
        (self.rows, self.batch_bytes) = (0, 0);
        self.writer.write(&batch).map_err(failed)?;
        if self.writer.memory_size() >= ROW_GROUP_BYTES {
            self.writer.flush().map_err(failed)?;
        }
        self.hand_on(out)
    }

    /// Hands on what the writer has made of whole row groups.
    fn hand_on(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let bytes = std::mem::take(self.writer.inner_mut());
        out.write_all(&bytes)
    }

    fn end(mut self, out: &mut dyn Write) -> io::Result<Changes> {
        if self.rows > 0 {
            self.write(out)?;
        }
        let mut changes = Changes::default();
        self.columns.add_changes("", &mut changes);
        out.write_all(&self.writer.into_inner().map_err(failed)?)?;
        Ok(changes)
    }
}

/// The fields of a document that fit in the columns, and the others.
fn parted(columns: &Documents, document: RawDocument<'_>) -> (Document, Document) {
    let mut rest = Vec::new();
    let mut others = DocumentBuilder::new(&mut rest);
    let fitting = Document::build(|fitting| {
        for element in document {
            let fits = columns.check_field(element.name().as_bytes(), element.value());
            if fits.is_ok() {
                fitting.append_element(element);
            } else {
                others.append_element(element);
            }
        }
    });
    others.finish();
    let rest = RawDocument::new(&rest).expect("it has just been built");
    (fitting, rest.to_owned_document())
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

impl Compression {
    fn codec(self) -> Codec {
        match self {
            Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
            Compression::Snappy => Codec::SNAPPY,
            Compression::Lz4 => Codec::LZ4_RAW,
            Compression::Gzip => Codec::GZIP(GzipLevel::default()),
            Compression::None => Codec::UNCOMPRESSED,
        }
    }
}

#[cfg(test)]
mod tests;
