//! CSV and TSV. A record of CSV may have quoted fields over several lines (RFC 4180); one of TSV is a line, and a quote in it is a quote.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, Terminator};
use memchr::memchr_iter;

use super::column_type::Grace;
use super::columns::{Columns, Refusal};
use super::documents::{Documents, Next};
use super::resume::Place;
use crate::error::{Error, Result};

const BUFFER_BYTES: usize = 1 << 20;
/// The longest text of a record: more than four times the largest document, because of quotes. A quote that nobody closes would take the whole file.
const RECORD_BYTES_MAX: usize = 64 << 20;
const COLUMNS_MAX: usize = 100_000;

/// The reading of a file's records.
pub struct Layout {
    pub is_tsv: bool,
    /// The names of the fields; none where they are the first record.
    pub names: Option<Vec<String>>,
    pub has_types: bool,
    pub grace: Grace,
    pub ignores_blanks: bool,
}

/// A file of records.
pub struct DelimitedFile {
    reader: csv::Reader<Bounded>,
    counts: Rc<Counts>,
    name: String,
    columns: Columns,
    record: ByteRecord,
    scratch: Vec<u8>,
    begin: Place,
}

impl DelimitedFile {
    /// Reads on at the place, at which the reader is. `header` begins with the names, where they stand in the file and the reader is behind them.
    pub fn new(
        reader: Box<dyn Read>,
        header: Option<Box<dyn Read>>,
        name: String,
        place: Place,
        layout: Layout,
    ) -> Result<DelimitedFile> {
        let (mut reader, counts) = records(reader, layout.is_tsv);
        let mut record = ByteRecord::new();
        let names = match (layout.names, header) {
            (Some(names), _) => names,
            (None, header) => {
                let found = match header {
                    Some(header) => records(header, layout.is_tsv)
                        .0
                        .read_byte_record(&mut record),
                    None => reader.read_byte_record(&mut record),
                };
                match found {
                    Ok(true) => names(&record).map_err(|what| Error::damaged(&name, what))?,
                    Ok(false) => return Err(Error::damaged(&name, "the file has no first line")),
                    Err(error) => return Err(Error::damaged(&name, error)),
                }
            }
        };
        Ok(DelimitedFile {
            reader,
            counts,
            name,
            columns: Columns::new(
                &names,
                layout.has_types,
                layout.grace,
                layout.ignores_blanks,
            )?,
            record,
            scratch: Vec::new(),
            begin: place,
        })
    }

    /// The line on which the record begins: as many lines before the reader's place as the record has.
    fn line(&self) -> u64 {
        let end = self.reader.position();
        let is_last = end.byte() == self.counts.all.get();
        let has_end = !(is_last && self.counts.last.get() != b'\n');
        let within = memchr_iter(b'\n', self.record.as_slice()).count() as u64;
        (self.begin.line + end.line() - 1).saturating_sub(within + u64::from(has_end))
    }

    /// Reads the next record that is no empty line; false at the end.
    fn read(&mut self) -> Result<bool> {
        loop {
            self.counts.since.set(0);
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) if self.record.as_slice() == b"\r" => {}
                Ok(is_there) => return Ok(is_there),
                Err(error) => return Err(Error::damaged(&self.name, error)),
            }
        }
    }
}

impl Documents for DelimitedFile {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Next> {
        if !self.read()? {
            return Ok(Next::End);
        }
        let line = self.line();
        let values = self.record.len();
        if values > COLUMNS_MAX {
            return Ok(Next::Bad(line, format!("more than {COLUMNS_MAX} values")));
        }
        if self
            .record
            .iter()
            .any(|value| str::from_utf8(value).is_err())
        {
            return Ok(Next::Bad(line, "the text is no UTF-8".to_owned()));
        }
        let record = &self.record;
        let value = |column| {
            let text = record.get(column)?;
            let is_last = column + 1 == values;
            str::from_utf8(if is_last { without_return(text) } else { text }).ok()
        };
        let start = out.len();
        let appended = self.columns.append(value, values, out, &mut self.scratch);
        if appended.is_err() {
            out.truncate(start);
        }
        match appended {
            Ok(()) => Ok(Next::Document(line)),
            Err(Refusal::Skip) => Ok(Next::Skipped),
            Err(Refusal::Stop(what)) => Err(Error::damaged(
                format_args!("{} line {line}", self.name),
                what,
            )),
        }
    }

    fn place(&self) -> Place {
        let position = self.reader.position();
        Place {
            offset: self.begin.offset + position.byte(),
            line: self.begin.line + position.line() - 1,
            is_in_array: false,
        }
    }
}

/// The text without the carriage return that stands before the end of a line.
fn without_return(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}

fn records(reader: Box<dyn Read>, is_tsv: bool) -> (csv::Reader<Bounded>, Rc<Counts>) {
    let counts = Rc::new(Counts::default());
    let bounded = Bounded {
        reader,
        counts: Rc::clone(&counts),
    };
    let mut builder = csv::ReaderBuilder::new();
    builder
        .has_headers(false)
        .flexible(true)
        // A line ends with its line feed, so that lines can be counted.
        .terminator(Terminator::Any(b'\n'))
        .buffer_capacity(BUFFER_BYTES);
    if is_tsv {
        builder.delimiter(b'\t').quoting(false);
    }
    (builder.from_reader(bounded), counts)
}

fn names(record: &ByteRecord) -> std::result::Result<Vec<String>, String> {
    let mut names = Vec::new();
    for (column, name) in record.iter().enumerate() {
        // A byte order mark stands in front of the first.
        let name = match column {
            0 => name.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(name),
            _ => name,
        };
        let name = match column + 1 == record.len() {
            true => without_return(name),
            false => name,
        };
        let name = str::from_utf8(name).map_err(|_| "a name in the first line is no UTF-8")?;
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Counts over what has been read.
#[derive(Default)]
struct Counts {
    /// Bytes since the last record began.
    since: Cell<usize>,
    /// All bytes.
    all: Cell<u64>,
    /// The last byte.
    last: Cell<u8>,
}

/// A reader that ends with an error when a record takes too much of it.
struct Bounded {
    reader: Box<dyn Read>,
    counts: Rc<Counts>,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let counts = &self.counts;
        if counts.since.get() > RECORD_BYTES_MAX {
            return Err(io::Error::other(
                "a record of more than 64 MiB: a quote is not closed",
            ));
        }
        let read = self.reader.read(out)?;
        counts.since.set(counts.since.get() + read);
        counts.all.set(counts.all.get() + read as u64);
        if let Some(last) = out[..read].last() {
            counts.last.set(*last);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::RawDocument;

    fn file(text: &str, is_tsv: bool, names: Option<&str>, place: Place) -> Result<DelimitedFile> {
        let layout = Layout {
            is_tsv,
            names: names.map(|names| names.split(',').map(str::to_owned).collect()),
            has_types: false,
            grace: Grace::Stop,
            ignores_blanks: false,
        };
        let rest = text.as_bytes()[place.offset as usize..].to_vec();
        let header: Option<Box<dyn Read>> = match place.offset {
            0 => None,
            _ => Some(Box::new(io::Cursor::new(text.as_bytes().to_vec()))),
        };
        DelimitedFile::new(
            Box::new(io::Cursor::new(rest)),
            header,
            "x".to_owned(),
            place,
            layout,
        )
    }

    fn read(file: &mut DelimitedFile) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let mut out = Vec::new();
            match file.next(&mut out).unwrap() {
                Next::Document(line) => {
                    said.push(format!("{line}: {}", RawDocument::validated(&out).unwrap()));
                }
                Next::Bad(line, what) => said.push(format!("{line}! {what}")),
                Next::Skipped => {}
                Next::End => return said,
            }
        }
    }

    #[test]
    fn quotes_hold_commas_and_lines() {
        let text = "\u{feff}a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n2,k\u{e4}se\n";
        let mut csv = file(text, false, None, Place::default()).unwrap();
        assert_eq!(
            read(&mut csv),
            [
                "2: { a: 1, b: 'x, \"y\"\\nz' }",
                "5: { a: 2, b: 'k\u{e4}se' }"
            ]
        );
        assert_eq!(csv.place().offset, text.len() as u64);
        let mut cut = file("a\r\n\r\n1\r\n2", false, None, Place::default()).unwrap();
        assert_eq!(read(&mut cut), ["3: { a: 1 }", "4: { a: 2 }"]);
        let mut tsv = file("1\t\"x\n", true, Some("a,b"), Place::default()).unwrap();
        assert_eq!(read(&mut tsv), ["1: { a: 1, b: '\"x' }"]);
    }

    #[test]
    fn a_file_is_read_on_where_it_was_left() {
        let text = "a,b\n1,2\n3,4\n5,6\n";
        let mut csv = file(text, false, None, Place::default()).unwrap();
        csv.next(&mut Vec::new()).unwrap();
        let place = csv.place();
        let mut rest = file(text, false, None, place).unwrap();
        assert_eq!(read(&mut rest), ["3: { a: 3, b: 4 }", "4: { a: 5, b: 6 }"]);
    }

    #[test]
    fn a_file_without_names_is_refused() {
        assert!(file("", false, None, Place::default()).is_err());
    }
}
