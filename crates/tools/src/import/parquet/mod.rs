//! Parquet: row groups of columns, read a batch of rows at a time.
//!
//! A file is hostile. What the library would do without bound is bounded before (`footer`, `pages`), a panic of it is an error like others, and each
//! error names the row group and the column: the columns of a row group that cannot be read are read alone, one after the other, until one fails.
//!
//! A place in the file is the number of a row. An import that goes on passes over whole row groups without reading them.

mod compact;
mod deltas;
mod footer;
mod layout;
mod pages;
mod panics;
mod values;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use self::layout::Layout;
use self::pages::{Drawn, Group, Source};
use self::values::{Columns, Lost};
use super::documents::{Documents, Next};
use super::resume::Place;
use crate::error::{Error, Result};

/// The values of a batch take about so many bytes.
const BATCH_BYTES: u64 = 8 << 20;
const BATCH_ROWS_MAX: u64 = 8192;
/// The bytes in front of the first row group.
const MAGIC_BYTES: u64 = 4;

/// A file of Parquet.
pub struct ParquetFile {
    name: String,
    source: Source,
    metadata: Arc<ParquetMetaData>,
    layout: Layout,
    /// The row group that is read, or the first that is left.
    group: usize,
    /// Rows before the row group, and the bytes that they take.
    rows_before: u64,
    bytes_before: u64,
    /// Rows of the row group that have been handed out, or are passed over.
    rows_done: u64,
    reader: Option<Reader>,
    batch: Option<Batch>,
    lost: Lost,
}

/// A row group that is being read.
struct Reader {
    batches: ParquetRecordBatchReader,
    drawn: Drawn,
    /// Rows that have been read.
    rows_read: u64,
}

/// Rows that have been read and not yet been handed out.
struct Batch {
    columns: Columns,
    rows: usize,
    at: usize,
}

impl ParquetFile {
    /// Opens the file, to read on at the place.
    pub fn open(path: &Path, place: Place, ignores_blanks: bool) -> Result<ParquetFile> {
        let name = format!("`{}`", path.display());
        let file = File::open(path).map_err(Error::file(path))?;
        let damaged = |what: String| Error::damaged(&name, what);
        let is_file = file.metadata().map_err(Error::file(path))?.is_file();
        if !is_file {
            return Err(damaged(
                "a file of Parquet is read from its end, which this has not".to_owned(),
            ));
        }
        footer::check(&file).map_err(damaged)?;
        let (metadata, layout) = panics::caught(|| read_metadata(&file, ignores_blanks))
            .and_then(|read| read)
            .map_err(damaged)?;
        let mut opened = ParquetFile {
            source: Source::new(file).map_err(Error::file(path))?,
            name,
            metadata,
            layout,
            group: 0,
            rows_before: 0,
            bytes_before: 0,
            rows_done: 0,
            reader: None,
            batch: None,
            lost: Lost::default(),
        };
        opened.go_to(place.line.saturating_sub(1))?;
        Ok(opened)
    }

    /// Passes over row groups up to the one that has the row, and notes the rows that are left out of it.
    fn go_to(&mut self, row: u64) -> Result<()> {
        for group in 0..self.metadata.num_row_groups() {
            let Some(rows) = self.group_rows(group) else {
                return Err(self.damaged(group, None, "it has less than no rows"));
            };
            if row - self.rows_before < rows {
                break;
            }
            self.pass_group(rows);
        }
        self.rows_done = row - self.rows_before;
        let is_there = self.rows_done == 0 || self.group < self.metadata.num_row_groups();
        match is_there {
            true => Ok(()),
            false => Err(Error::damaged(
                &self.name,
                format!(
                    "it has {} rows, and {row} were imported: it is another file",
                    self.rows_before
                ),
            )),
        }
    }

    /// Goes behind the row group.
    fn pass_group(&mut self, rows: u64) {
        self.rows_before += rows;
        self.bytes_before = self.bytes_before.saturating_add(self.group_bytes());
        self.rows_done = 0;
        self.group += 1;
    }

    /// The bytes of the row group in the file.
    fn group_bytes(&self) -> u64 {
        let columns = self.metadata.row_group(self.group).columns();
        let bytes = columns
            .iter()
            .map(|column| u64::try_from(column.compressed_size()).unwrap_or(0));
        bytes.fold(0, u64::saturating_add)
    }

    fn group_rows(&self, group: usize) -> Option<u64> {
        u64::try_from(self.metadata.row_group(group).num_rows()).ok()
    }

    fn damaged(&self, group: usize, column: Option<&str>, what: &str) -> Error {
        let column = column.map_or(String::new(), |column| format!(", column `{column}`"));
        Error::damaged(
            format_args!("{}, row group {}{column}", self.name, group + 1),
            what,
        )
    }

    /// Begins the next row group; false where there is none.
    fn begin_group(&mut self) -> Result<bool> {
        if self.group >= self.metadata.num_row_groups() {
            return Ok(false);
        }
        let group = self.metadata.row_group(self.group);
        if let Err(what) = self.source.check(group) {
            return Err(self.damaged(self.group, None, &what));
        }
        match self.read_group(ProjectionMask::all()) {
            Ok(reader) => self.reader = Some(reader),
            Err(what) => return Err(self.blamed(&what)),
        }
        Ok(true)
    }

    fn read_group(&self, mask: ProjectionMask) -> std::result::Result<Reader, String> {
        let schema = self.metadata.file_metadata().schema_descr();
        let drawn = Drawn::default();
        let group = Group {
            source: &self.source,
            metadata: &self.metadata,
            index: self.group,
            drawn: drawn.clone(),
        };
        let batches = panics::caught(|| {
            let levels = parquet_to_arrow_field_levels(schema, mask, Some(&self.layout.hint))?;
            ParquetRecordBatchReader::try_new_with_row_groups(
                &levels,
                &group,
                self.batch_rows(),
                None,
            )
        });
        Ok(Reader {
            batches: batches?.map_err(|error| error.to_string())?,
            drawn,
            rows_read: 0,
        })
    }

    /// The rows of a batch, by what a row takes.
    fn batch_rows(&self) -> usize {
        let group = self.metadata.row_group(self.group);
        let rows = group.num_rows().max(1) as u64;
        let bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
        let columns = self.metadata.file_metadata().schema_descr().columns();
        let least: u64 = columns
            .iter()
            .map(|column| pages::value_bytes(column))
            .sum();
        let row_bytes = (bytes / rows).max(least).max(1);
        (BATCH_BYTES / row_bytes).clamp(1, BATCH_ROWS_MAX) as usize
    }

    /// Reads the next batch of rows; false at the end of the file.
    fn read_batch(&mut self) -> Result<bool> {
        loop {
            if self.reader.is_none() && !self.begin_group()? {
                return Ok(false);
            }
            let Some(reader) = &mut self.reader else {
                return Ok(false);
            };
            match reader.next() {
                Ok(Some(rows)) => {
                    let first = reader.rows_read - rows.num_rows() as u64;
                    let at = self
                        .rows_done
                        .saturating_sub(first)
                        .min(rows.num_rows() as u64) as usize;
                    if at < rows.num_rows() {
                        let columns = Columns::bind(&self.layout.children, rows.columns());
                        self.batch = Some(Batch {
                            columns: columns
                                .map_err(|what| self.damaged(self.group, None, &what))?,
                            rows: rows.num_rows(),
                            at,
                        });
                        return Ok(true);
                    }
                }
                Ok(None) => {
                    let (read, said) = (reader.rows_read, self.group_rows(self.group).unwrap_or(0));
                    if read != said {
                        let what = format!("it has {read} rows, and its head says {said}");
                        return Err(self.blamed(&what));
                    }
                    self.reader = None;
                    self.pass_group(said);
                }
                Err(what) => return Err(self.blamed(&what)),
            }
        }
    }

    /// The error of the row group, with the name of the first column that cannot be read alone.
    fn blamed(&mut self, what: &str) -> Error {
        self.reader = None;
        let rows = self.group_rows(self.group).unwrap_or(0);
        let schema = self.metadata.file_metadata().schema_descr();
        for (place, column) in schema.columns().iter().enumerate() {
            let read = self
                .read_group(ProjectionMask::leaves(schema, [place]))
                .and_then(Reader::read_to_end);
            let what = match read {
                Ok(read) if read == rows => continue,
                Ok(read) => format!("it has {read} rows, and the row group {rows}"),
                Err(what) => what,
            };
            return self.damaged(self.group, Some(&column.path().string()), &what);
        }
        self.damaged(self.group, None, what)
    }
}

impl Reader {
    fn next(&mut self) -> std::result::Result<Option<RecordBatch>, String> {
        self.drawn.begin();
        let batch = panics::caught(|| self.batches.next())?.transpose();
        let batch = batch.map_err(|error| error.to_string())?;
        self.rows_read += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        Ok(batch)
    }

    /// The number of rows that can be read.
    fn read_to_end(mut self) -> std::result::Result<u64, String> {
        while self.next()?.is_some() {}
        Ok(self.rows_read)
    }
}

impl Documents for ParquetFile {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Next> {
        if self.batch.is_none() && !self.read_batch()? {
            return Ok(Next::End);
        }
        let Some(batch) = &mut self.batch else {
            return Ok(Next::End);
        };
        let start = out.len();
        let appended = batch.columns.append_row(batch.at, out, &self.lost);
        batch.at += 1;
        let is_last = batch.at == batch.rows;
        if is_last {
            self.batch = None;
        }
        self.rows_done += 1;
        let row = self.rows_before + self.rows_done;
        Ok(match appended {
            Ok(()) => Next::Document(row),
            Err(what) => {
                out.truncate(start);
                Next::Bad(row, what)
            }
        })
    }

    /// The bytes are those of the row groups before, and a share of the one that is read.
    fn place(&self) -> Place {
        let row = self.rows_before + self.rows_done;
        let share = match self.rows_done {
            0 => 0,
            done => {
                let rows = self.group_rows(self.group).unwrap_or(0).max(1);
                (u128::from(self.group_bytes()) * u128::from(done) / u128::from(rows)) as u64
            }
        };
        Place {
            offset: if row == 0 {
                0
            } else {
                MAGIC_BYTES
                    .saturating_add(self.bytes_before)
                    .saturating_add(share)
            },
            line: row + 1,
            is_in_array: false,
        }
    }

    fn unit(&self) -> &'static str {
        "row"
    }

    fn told(&self) -> Vec<String> {
        let mut paths = self.layout.coarse.clone();
        paths.extend(self.lost.paths());
        match paths.is_empty() {
            true => Vec::new(),
            false => vec![format!(
                "dates of `{}` were cut to milliseconds",
                paths.join("`, `")
            )],
        }
    }
}

fn read_metadata(
    file: &File,
    ignores_blanks: bool,
) -> std::result::Result<(Arc<ParquetMetaData>, Layout), String> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
    let read = ArrowReaderMetadata::load(file, options).map_err(|error| error.to_string())?;
    let has_rows = read
        .metadata()
        .row_groups()
        .iter()
        .any(|group| group.num_rows() != 0);
    if has_rows && read.parquet_schema().num_columns() == 0 {
        return Err("it has rows and no columns".to_owned());
    }
    let layout = Layout::new(
        read.schema().fields(),
        read.parquet_schema(),
        ignores_blanks,
    )?;
    Ok((Arc::clone(read.metadata()), layout))
}

#[cfg(test)]
mod tests;

/// The documents of a file, and what is told of it.
#[cfg(test)]
pub(crate) fn documents_of(path: &Path) -> Result<Vec<quarry_bson::Document>> {
    let mut file = ParquetFile::open(path, Place::default(), false)?;
    let mut documents = Vec::new();
    let mut out = Vec::new();
    loop {
        out.clear();
        match file.next(&mut out)? {
            Next::Document(_) => {
                let document = quarry_bson::RawDocument::validated(&out);
                documents.push(document.expect("it was just made").to_owned_document());
            }
            Next::Bad(row, what) => return Err(Error::damaged(format_args!("row {row}"), what)),
            Next::Skipped(..) => {}
            Next::End => return Ok(documents),
        }
    }
}
