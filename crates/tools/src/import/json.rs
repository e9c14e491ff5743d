//! Documents in Extended JSON, one after the other or in an array, whatever lines they stand on.
//!
//! A document's end is found by its brackets, then its text is parsed. One that cannot be parsed is left out; a text whose brackets do not close is an
//! error, because nothing behind it can be told from it.

use std::io::Read;

use memchr::{memchr_iter, memchr2};
use quarry_bson::extjson;

use super::documents::{Documents, Next};
use super::resume::Place;
use crate::error::{Error, Result};

const READ_BYTES: usize = 1 << 20;
/// The longest text of a document: sixteen times the largest one.
const TEXT_BYTES_MAX: usize = 256 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A file of JSON.
pub struct JsonFile {
    reader: Box<dyn Read>,
    name: String,
    is_legacy: bool,
    /// Bytes that were read, of which those before `at` are done with.
    buffer: Vec<u8>,
    at: usize,
    /// The place of the byte `at`.
    place: Place,
    is_at_end: bool,
    position: Position,
}

/// The part of the file that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// A document, or the beginning of an array.
    Begin,
    /// A document of no array.
    Between,
    /// A document of an array, or its end.
    InArray,
    /// A comma or the end of the array.
    BehindElement,
    BehindArray,
}

impl JsonFile {
    /// Reads on at the place, at which the reader is.
    pub fn new(reader: Box<dyn Read>, name: String, place: Place, is_legacy: bool) -> JsonFile {
        JsonFile {
            reader,
            name,
            is_legacy,
            buffer: Vec::new(),
            at: 0,
            place,
            is_at_end: false,
            position: match (place.offset, place.is_in_array) {
                (0, _) => Position::Begin,
                (_, true) => Position::BehindElement,
                (_, false) => Position::Between,
            },
        }
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES.max(filled), 0);
        let read = loop {
            match self.reader.read(&mut self.buffer[filled..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map_err(|why| Error::damaged(&self.name, why))?;
        self.buffer.truncate(filled + read);
        self.is_at_end = read == 0;
        Ok(read > 0)
    }

    /// Passes over bytes, which are in the buffer.
    fn pass(&mut self, bytes: usize) {
        let passed = &self.buffer[self.at..self.at + bytes];
        self.place.line += memchr_iter(b'\n', passed).count() as u64;
        self.place.offset += bytes as u64;
        self.at += bytes;
    }

    /// The next byte that is no space, which stays where it is.
    fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            let rest = &self.buffer[self.at..];
            let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
            let space = space.count();
            let found = rest.get(space).copied();
            self.pass(space);
            if found.is_some() || !self.fill()? {
                return Ok(found);
            }
        }
    }

    /// The bytes of the text whose first bracket is next.
    fn text_bytes(&mut self) -> Result<usize> {
        let mut scan = Scan::new(self.is_legacy);
        loop {
            if let Some(bytes) = scan.end(&self.buffer[self.at..]) {
                return Ok(bytes);
            }
            if self.buffer.len() - self.at > TEXT_BYTES_MAX || !self.fill()? {
                return Err(self.damaged("the document that begins here does not end"));
            }
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::damaged(format_args!("{} line {}", self.name, self.place.line), what)
    }

    /// Parses the text of so many bytes.
    fn parse(&self, bytes: usize, out: &mut Vec<u8>) -> std::result::Result<(), String> {
        let text = str::from_utf8(&self.buffer[self.at..self.at + bytes]);
        let text = text.map_err(|error| format!("the text is no UTF-8: {error}"))?;
        let parsed = match self.is_legacy {
            true => extjson::parse_legacy_into(text, out),
            false => extjson::parse_into(text, out),
        };
        parsed.map_err(|error| error.to_string())
    }

    fn document(&mut self, out: &mut Vec<u8>) -> Result<Next> {
        let line = self.place.line;
        let bytes = self.text_bytes()?;
        let parsed = self.parse(bytes, out);
        self.pass(bytes);
        Ok(match parsed {
            Ok(()) => Next::Document(line),
            Err(what) => Next::Bad(line, what),
        })
    }

    /// Passes over a byte order mark, which the buffer may have a part of; false where there is none.
    fn passes_mark(&mut self) -> Result<bool> {
        while self.buffer.len() < BYTE_ORDER_MARK.len()
            && BYTE_ORDER_MARK.starts_with(&self.buffer)
            && self.fill()?
        {}
        let is_there = self.buffer.starts_with(BYTE_ORDER_MARK);
        if is_there {
            self.pass(BYTE_ORDER_MARK.len());
        }
        Ok(is_there)
    }

    /// Passes over a line that is no document.
    fn bad_line(&mut self) -> Result<Next> {
        let line = self.place.line;
        loop {
            let rest = &self.buffer[self.at..];
            let end = memchr_iter(b'\n', rest).next();
            let bytes = end.unwrap_or(rest.len());
            self.pass(bytes);
            if end.is_some() || !self.fill()? {
                return Ok(Next::Bad(line, "expected a document, `{`".to_owned()));
            }
        }
    }
}

impl Documents for JsonFile {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Next> {
        loop {
            let found = self.peek()?;
            if self.place.offset == 0 && self.passes_mark()? {
                continue;
            }
            match (self.position, found) {
                (Position::Begin, Some(b'[')) => {
                    self.pass(1);
                    self.position = Position::InArray;
                    self.place.is_in_array = true;
                }
                (Position::Begin | Position::Between, Some(b'{')) => {
                    self.position = Position::Between;
                    return self.document(out);
                }
                (Position::Begin | Position::Between | Position::BehindArray, None) => {
                    return Ok(Next::End);
                }
                (Position::Begin | Position::Between, Some(_)) => {
                    self.position = Position::Between;
                    return self.bad_line();
                }
                (Position::InArray, Some(b'{')) => {
                    self.position = Position::BehindElement;
                    return self.document(out);
                }
                (Position::BehindElement, Some(b',')) => {
                    self.pass(1);
                    self.position = Position::InArray;
                }
                (Position::InArray | Position::BehindElement, Some(b']')) => {
                    self.pass(1);
                    self.position = Position::BehindArray;
                }
                (Position::InArray | Position::BehindElement, None) => {
                    return Err(self.damaged("the array does not end"));
                }
                (Position::InArray, Some(_)) => {
                    return Err(self.damaged("expected a document, `{`"));
                }
                (Position::BehindElement, Some(_)) => {
                    return Err(self.damaged("expected `,` or `]`"));
                }
                (Position::BehindArray, Some(_)) => {
                    return Err(self.damaged("expected nothing behind the array"));
                }
            }
        }
    }

    fn place(&self) -> Place {
        self.place
    }
}

/// Looks for the bracket that closes the first one, over bytes that become more.
struct Scan {
    at: usize,
    depth: usize,
    /// The quote that ends the string in which the scan is.
    quote: Option<u8>,
    has_single_quotes: bool,
}

impl Scan {
    fn new(has_single_quotes: bool) -> Scan {
        Scan {
            at: 0,
            depth: 0,
            quote: None,
            has_single_quotes,
        }
    }

    /// The bytes up to the closing bracket; none where they are not there yet.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            if let Some(quote) = self.quote {
                let Some(found) = memchr2(quote, b'\\', rest) else {
                    self.at = bytes.len();
                    return None;
                };
                if rest[found] == quote {
                    self.quote = None;
                    self.at += found + 1;
                } else if found + 1 == rest.len() {
                    // What is escaped has not been read yet.
                    self.at += found;
                    return None;
                } else {
                    self.at += found + 2;
                }
                continue;
            }
            self.at += 1;
            match rest[0] {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(self.at);
                    }
                }
                b'"' => self.quote = Some(b'"'),
                b'\'' if self.has_single_quotes => self.quote = Some(b'\''),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::{Document, RawDocument};

    /// Gives a byte a read, so that every boundary is met.
    struct Drip(Vec<u8>);

    impl Read for Drip {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            out[0] = self.0.remove(0);
            Ok(1)
        }
    }

    /// A line for each thing that a text has: documents as the shell prints them, faults by their lines.
    fn read(text: &str, is_legacy: bool) -> Vec<String> {
        let reader = Box::new(Drip(text.as_bytes().to_vec()));
        let mut file = JsonFile::new(reader, "x".to_owned(), Place::default(), is_legacy);
        let mut said = Vec::new();
        loop {
            let mut out = Vec::new();
            match file.next(&mut out) {
                Ok(Next::Document(line)) => {
                    let document = Document::from_raw(RawDocument::validated(&out).unwrap());
                    said.push(format!("{line}: {document}"));
                }
                Ok(Next::Bad(line, what)) => {
                    assert!(out.is_empty());
                    said.push(format!("{line}! {what}"));
                }
                Ok(Next::Skipped(..)) => unreachable!(),
                Ok(Next::End) => {
                    assert_eq!(file.place().offset, text.len() as u64);
                    return said;
                }
                Err(error) => {
                    said.push(error.to_string());
                    return said;
                }
            }
        }
    }

    #[test]
    fn documents_stand_on_any_lines() {
        let text = "\u{feff}{\"a\": 1}\n\n{\"b\": \"}\\\"{\"} {\"c\":\n [1,\n {\"d\": {\"$numberLong\": \"5\"}}]}\n";
        assert_eq!(
            read(text, false),
            [
                "1: { a: 1 }",
                "3: { b: '}\"{' }",
                "3: { c: [ 1, { d: Long('5') } ] }"
            ]
        );
        assert!(read("", false).is_empty());
        assert!(read(" \n", false).is_empty());
    }

    #[test]
    fn an_array_is_seen_by_its_bracket() {
        let text = " [ {\"a\": 1},\n{\"a\": 2}\n]\n";
        assert_eq!(read(text, false), ["1: { a: 1 }", "2: { a: 2 }"]);
        assert!(read("[]", false).is_empty());
        for (text, said) in [
            ("[{\"a\": 1}\n{\"a\": 2}]", "x line 2: expected `,` or `]`"),
            ("[{\"a\": 1}", "x line 1: the array does not end"),
            (
                "[{\"a\": 1}]\n[]",
                "x line 2: expected nothing behind the array",
            ),
            ("[1]", "x line 1: expected a document, `{`"),
        ] {
            assert_eq!(read(text, false).last().unwrap(), said, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out_by_its_line() {
        let text = "{\"a\": 1}\n{\"a\": tru}\nnonsense\n{\"a\": 2}\n";
        let said = read(text, false);
        assert_eq!(said.len(), 4);
        assert!(
            said[1].starts_with("2! ") && said[2].starts_with("3! "),
            "{said:?}"
        );
        assert_eq!(said[3], "4: { a: 2 }");
        let cut = "{\"a\": 1}\n{\"a\": {\"b\": 1}\n{\"a\": 2}\n";
        assert_eq!(
            read(cut, false),
            [
                "1: { a: 1 }",
                "x line 2: the document that begins here does not end"
            ]
        );
    }

    #[test]
    fn legacy_reads_what_the_shell_prints() {
        let said = read("{ a: NumberLong(5), b: '}' }", true);
        assert_eq!(said, ["1: { a: Long('5'), b: '}' }"]);
    }
}
