//! CSV and TSV. A record of CSV may have quoted fields over several lines (RFC 4180); one of TSV is a line, and a quote in it is a quote.

use std::cell::Cell;
use std::fmt;
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
/// The longest text of a record: more than four times the largest document, because of quotes. A quote that nobody closes would take the whole file
/// into memory.
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
    records: Records,
    columns: Columns,
    record: ByteRecord,
    scratch: Vec<u8>,
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
        let is_tsv = layout.is_tsv;
        let mut records = Records::new(reader, name.clone(), place, is_tsv);
        let mut record = ByteRecord::new();
        let names = match (layout.names, header) {
            (Some(names), _) => names,
            (None, header) => {
                let is_there = match header {
                    Some(header) => Records::new(header, name.clone(), Place::default(), is_tsv)
                        .read(&mut record)?,
                    None => records.read(&mut record)?,
                };
                if !is_there {
                    return Err(Error::damaged(&name, "the file has no first line"));
                }
                names(&record).map_err(|what| Error::damaged(&name, what))?
            }
        };
        Ok(DelimitedFile {
            records,
            columns: Columns::new(
                &names,
                layout.has_types,
                layout.grace,
                layout.ignores_blanks,
            )?,
            record,
            scratch: Vec::new(),
        })
    }

    /// The line on which the record begins: as many lines before the reader's place as the record has, its end included.
    fn line(&self) -> u64 {
        let lines = lines_in(self.record.as_slice()) + 1;
        self.records.line().saturating_sub(lines)
    }

    /// Reads the next record that is no empty line; false at the end.
    fn read(&mut self) -> Result<bool> {
        loop {
            let before = self.records.text_bytes();
            if !self.records.read(&mut self.record)? {
                return Ok(false);
            }
            // Fields that are all empty leave the same text as an empty line that ends with CRLF, and so does a quoted one: the carriage return must be
            // all that was read, in one field.
            let is_empty_line = self.record.len() == 1
                && self.record.as_slice() == b"\r"
                && self.records.text_bytes() == before + 1;
            if !is_empty_line {
                return Ok(true);
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
            Err(Refusal::Skip(what)) => Ok(Next::Skipped(line, what)),
            Err(Refusal::Stop(what)) => Err(self.records.damaged(line, what)),
        }
    }

    fn place(&self) -> Place {
        self.records.place()
    }
}

/// The text without the carriage return that stands before the end of a line.
fn without_return(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}

fn lines_in(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}

/// The records of a file, from a place on.
struct Records {
    reader: csv::Reader<Bounded>,
    counts: Rc<Counts>,
    name: String,
    begin: Place,
}

impl Records {
    fn new(reader: Box<dyn Read>, name: String, begin: Place, is_tsv: bool) -> Records {
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
        Records {
            reader: builder.from_reader(bounded),
            counts,
            name,
            begin,
        }
    }

    /// Reads the next record; false at the end.
    fn read(&mut self, record: &mut ByteRecord) -> Result<bool> {
        let line = self.line();
        self.counts.since.set(0);
        let is_there = self
            .reader
            .read_byte_record(record)
            .map_err(|error| self.damaged(line, error))?;
        // The parser gives what a quote holds at the end of the file as if the quote were closed. Every file ends with a line feed here, which ends
        // any other record.
        if is_there && self.counts.is_ended.get() {
            let quoted = record.iter().next_back().unwrap_or_default();
            let line = self.line().saturating_sub(lines_in(quoted));
            return Err(self.damaged(line, "the quote that opens here is not closed"));
        }
        Ok(is_there)
    }

    /// The line of the next record.
    fn line(&self) -> u64 {
        self.begin.line + self.reader.position().line() - 1
    }

    /// Bytes that were read so far, without the line feeds.
    fn text_bytes(&self) -> u64 {
        let position = self.reader.position();
        // Lines are counted from one.
        (position.byte() + 1).saturating_sub(position.line())
    }

    fn place(&self) -> Place {
        // The line feed behind the end is no byte of the file.
        let read = self.reader.position().byte().min(self.counts.all.get());
        Place {
            offset: self.begin.offset + read,
            line: self.line(),
            is_in_array: false,
        }
    }

    fn damaged(&self, line: u64, what: impl fmt::Display) -> Error {
        Error::damaged(format_args!("{} line {line}", self.name), what)
    }
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
    /// All bytes of the file.
    all: Cell<u64>,
    /// Whether the line feed behind the file was given.
    has_line_feed: Cell<bool>,
    /// Whether the end behind that line feed was met.
    is_ended: Cell<bool>,
}

/// A reader that ends with an error when a record takes too much of it, and gives a line feed behind the end of the file.
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
        if let (0, Some(first)) = (read, out.first_mut()) {
            if counts.has_line_feed.replace(true) {
                counts.is_ended.set(true);
                return Ok(0);
            }
            *first = b'\n';
            return Ok(1);
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
                Next::Skipped(line, what) => said.push(format!("{line}- {what}")),
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
    fn a_record_of_empty_fields_is_a_document_whatever_ends_the_line() {
        let empty = "{ a: '', b: '' }";
        for (is_tsv, record, document) in [
            (false, ",", empty),
            (false, "\"\",\"\"", empty),
            (false, "\"\",", empty),
            (false, ",\"\"", empty),
            (false, ",,", "{ a: '', b: '', field2: '' }"),
            (false, "\"\"", "{ a: '' }"),
            (true, "\t", empty),
        ] {
            for end in ["\n", "\r\n"] {
                let text = [record, "", record, "", "", record].map(|line| line.to_owned() + end);
                let text = text.concat();
                let mut records = file(&text, is_tsv, Some("a,b"), Place::default()).unwrap();
                let expected = [1, 3, 6].map(|line| format!("{line}: {document}"));
                assert_eq!(read(&mut records), expected, "{text:?}");
                let cut = text.strip_suffix(end).unwrap();
                let mut records = file(cut, is_tsv, Some("a,b"), Place::default()).unwrap();
                assert_eq!(read(&mut records), expected, "{cut:?}");
            }
        }
        let mut blank = file("\r\n\n\r\n\r", false, Some("a,b"), Place::default()).unwrap();
        assert_eq!(read(&mut blank), [""; 0]);
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
    fn a_quote_that_is_not_closed_is_an_error_where_it_opens() {
        for (text, line) in [
            ("a,b\n1,2\n3,\"4\n5,6\n7,8\n", 3),
            ("a,b\n1,2\n3,\"4\n5,6\n7,8", 3),
            ("a,b\n\"1\n2\",3\n\"4\n5\",\"6\n", 5),
            ("a,b\n1,\"", 2),
            ("a,b\n1,\"x\"\"", 2),
        ] {
            let mut csv = file(text, false, None, Place::default()).unwrap();
            let error = loop {
                match csv.next(&mut Vec::new()) {
                    Ok(Next::Document(_)) => {}
                    other => break other.unwrap_err(),
                }
            };
            let said = format!("x line {line}: the quote that opens here is not closed");
            assert_eq!(error.to_string(), said, "{text}");
        }
        let error = file("a,\"b\n1,2\n", false, None, Place::default()).err();
        let said = error.unwrap().to_string();
        assert!(said.starts_with("x line 1: the quote"), "{said}");
    }

    /// The parser's buffers grow by the record that they hold, whose end must be met all the same.
    #[test]
    fn a_last_record_of_any_size_is_whole_with_and_without_its_line_feed() {
        for values in 1..70 {
            for bytes in [1, 3, 50] {
                let value = "x".repeat(bytes);
                for (quote, end) in [("", ""), ("", "\n"), ("\"", ""), ("\"", "\n")] {
                    let value = format!("{quote}{value}{quote}");
                    let text = vec![value; values].join(",") + end;
                    let mut csv = file(&text, false, Some("a"), Place::default()).unwrap();
                    assert_eq!(
                        csv.next(&mut Vec::new()).unwrap(),
                        Next::Document(1),
                        "{text}"
                    );
                    assert_eq!(csv.place().offset, text.len() as u64);
                    assert_eq!(csv.next(&mut Vec::new()).unwrap(), Next::End);
                }
            }
        }
    }

    #[test]
    fn a_file_without_names_is_refused() {
        assert!(file("", false, None, Place::default()).is_err());
    }
}
