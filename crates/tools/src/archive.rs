//! mongodump's archive: many collections in one stream.
//!
//! ```text
//! archive  = magic prelude block*
//! magic    = 6D E2 99 81                        0x8199E26D, little-endian, as all numbers
//! prelude  = header definition* terminator
//! header   = BSON {concurrent_collections, version: "0.1", server_version, tool_version}
//! definition = BSON {db, collection, metadata: "<metadata.json>", size, type}
//! block    = BSON {db, collection, EOF, CRC} document* terminator
//! terminator = FF FF FF FF
//! ```
//!
//! Blocks of several collections take turns. The last one of a collection has `EOF: true`, no documents, and the CRC-64 (ECMA-182, reflected, as in XZ) of
//! all bytes of its documents.

use std::collections::HashMap;
use std::io::{Read, Write};

use crc::{CRC_64_XZ, Crc, Digest, Table};
use quarry_bson::{Document, RawDocument, doc};

use crate::bson_file::Source;
use crate::error::Result;
use crate::namespaces::Namespace;

const MAGIC: u32 = 0x8199_E26D;
const TERMINATOR: u32 = 0xFFFF_FFFF;
const VERSION: &str = "0.1";
/// More than a million collections say of themselves.
const PRELUDE_BYTES_MAX: u64 = 1 << 30;

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

/// The checksum of a collection's documents.
pub type Checksum = Digest<'static, u64, Table<16>>;

/// The checksum of no documents.
pub fn checksum() -> Checksum {
    CRC.digest()
}

/// A collection as the prelude has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub namespace: Namespace,
    /// The text of `metadata.json`.
    pub metadata: String,
    /// Bytes of its documents, more or less.
    pub size: u64,
    /// `collection`, `view` or another kind.
    pub kind: String,
}

/// Writes an archive.
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins an archive of the collections.
    pub fn begin(
        mut out: W,
        entries: &[Entry],
        server_version: &str,
        concurrent: i32,
    ) -> std::io::Result<Writer<W>> {
        out.write_all(&MAGIC.to_le_bytes())?;
        let header = doc! {
            "concurrent_collections": concurrent, "version": VERSION, "server_version": server_version,
            "tool_version": (env!("CARGO_PKG_VERSION")),
        };
        out.write_all(header.as_bytes())?;
        for entry in entries {
            let size = i64::try_from(entry.size).unwrap_or(i64::MAX);
            let definition = doc! {
                "db": (entry.namespace.database.as_str()), "collection": (entry.namespace.collection.as_str()),
                "metadata": (entry.metadata.as_str()), "size": size, "type": (entry.kind.as_str()),
            };
            out.write_all(definition.as_bytes())?;
        }
        out.write_all(&TERMINATOR.to_le_bytes())?;
        Ok(Writer { out })
    }

    /// Writes documents of a collection.
    pub fn block(&mut self, namespace: &Namespace, documents: &[u8]) -> std::io::Result<()> {
        self.out
            .write_all(block_header(namespace, None).as_bytes())?;
        self.out.write_all(documents)?;
        self.out.write_all(&TERMINATOR.to_le_bytes())
    }

    /// Ends a collection.
    pub fn end(&mut self, namespace: &Namespace, checksum: Checksum) -> std::io::Result<()> {
        let crc = checksum.finalize().cast_signed();
        self.out
            .write_all(block_header(namespace, Some(crc)).as_bytes())?;
        self.out.write_all(&TERMINATOR.to_le_bytes())
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> W {
        self.out
    }
}

fn block_header(namespace: &Namespace, crc: Option<i64>) -> Document {
    doc! {
        "db": (namespace.database.as_str()), "collection": (namespace.collection.as_str()),
        "EOF": (crc.is_some()), "CRC": (crc.unwrap_or(0)),
    }
}

/// Reads an archive.
pub struct Reader<R> {
    source: Source<R>,
    /// The checksum so far of each collection whose end has not come.
    open: HashMap<Namespace, Checksum>,
    /// The collection of the block that is being read.
    current: Option<Namespace>,
    scratch: Vec<u8>,
}

/// The next thing in an archive.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A document of the collection, appended to the caller's buffer.
    Document(Namespace),
    /// The collection has no further documents.
    EndOf(Namespace),
    /// The archive has ended.
    End,
}

impl<R: Read> Reader<R> {
    /// Reads the prelude.
    pub fn begin(reader: R, name: &str) -> Result<(Reader<R>, Vec<Entry>)> {
        let mut source = Source::new(reader, name);
        match source.number()? {
            Some(MAGIC) => {}
            _ => return Err(source.damaged(0, "this is no archive of mongodump's format")),
        }
        let mut reader = Reader {
            source,
            open: HashMap::new(),
            current: None,
            scratch: Vec::new(),
        };
        let header = reader.own_document()?;
        let Some(header) = header else {
            return Err(reader.source.damaged(4, "the archive has no header"));
        };
        match header.get_str("version") {
            Some(VERSION) => {}
            version => {
                let what = format!("an archive of version {version:?} is not supported yet");
                return Err(reader.source.damaged(4, what));
            }
        }
        let mut entries = Vec::new();
        while let Some(definition) = reader.own_document()? {
            entries.push(reader.entry(&definition)?);
            if reader.source.position() > PRELUDE_BYTES_MAX {
                let at = reader.source.position();
                return Err(reader.source.damaged(at, "the prelude does not end"));
            }
        }
        Ok((reader, entries))
    }

    fn entry(&self, definition: &Document) -> Result<Entry> {
        let namespace = self.namespace(definition)?;
        let size = definition.get("size").and_then(|size| size.as_i64_exact());
        Ok(Entry {
            namespace,
            metadata: definition
                .get_str("metadata")
                .unwrap_or_default()
                .to_owned(),
            size: size.and_then(|size| size.try_into().ok()).unwrap_or(0),
            kind: definition
                .get_str("type")
                .unwrap_or("collection")
                .to_owned(),
        })
    }

    fn namespace(&self, document: &Document) -> Result<Namespace> {
        match (document.get_str("db"), document.get_str("collection")) {
            (Some(database), Some(collection)) => Ok(Namespace::new(database, collection)),
            _ => {
                let at = self.source.position();
                Err(self
                    .source
                    .damaged(at, "a header without `db` and `collection` ends here"))
            }
        }
    }

    /// A document of the archive's own; none at a terminator.
    fn own_document(&mut self) -> Result<Option<Document>> {
        match self.source.number()? {
            Some(TERMINATOR) => Ok(None),
            Some(length) => {
                self.scratch.clear();
                self.source.rest_of_document(length, &mut self.scratch)?;
                let document = RawDocument::new(&self.scratch).map(|raw| raw.to_owned_document());
                document
                    .map(Some)
                    .map_err(|error| self.source.damaged(self.source.position(), error))
            }
            None => {
                let at = self.source.position();
                Err(self.source.damaged(at, "the archive is cut off"))
            }
        }
    }

    /// Reads on. A document is appended to `out`.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<Event> {
        loop {
            match self.current.clone() {
                Some(namespace) => {
                    if self.document(&namespace, out)? {
                        return Ok(Event::Document(namespace));
                    }
                    self.current = None;
                }
                None => {
                    if let Some(event) = self.header()? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// The next document of the block; false at its end.
    fn document(&mut self, namespace: &Namespace, out: &mut Vec<u8>) -> Result<bool> {
        let at = self.source.position();
        match self.source.number()? {
            Some(TERMINATOR) => Ok(false),
            Some(length) => {
                let start = out.len();
                self.source.rest_of_document(length, out)?;
                if let Some(checksum) = self.open.get_mut(namespace) {
                    checksum.update(&out[start..]);
                }
                Ok(true)
            }
            None => {
                let what = format!("the archive is cut off within `{namespace}`");
                Err(self.source.damaged(at, what))
            }
        }
    }

    /// The header of the next block; none where documents follow.
    fn header(&mut self) -> Result<Option<Event>> {
        let at = self.source.position();
        let Some(length) = self.source.number()? else {
            return match self.open.keys().min() {
                None => Ok(Some(Event::End)),
                Some(namespace) => {
                    let what = format!("the archive is cut off before the end of `{namespace}`");
                    Err(self.source.damaged(at, what))
                }
            };
        };
        self.scratch.clear();
        self.source.rest_of_document(length, &mut self.scratch)?;
        let header = RawDocument::new(&self.scratch)
            .map(|header| header.to_owned_document())
            .map_err(|error| self.source.damaged(at, error))?;
        let namespace = self.namespace(&header)?;
        if header.get_bool("EOF") != Some(true) {
            self.open.entry(namespace.clone()).or_insert_with(checksum);
            self.current = Some(namespace);
            return Ok(None);
        }
        if self.source.number()? != Some(TERMINATOR) {
            let what = format!("the end of `{namespace}` has no terminator");
            return Err(self.source.damaged(at, what));
        }
        let computed = self
            .open
            .remove(&namespace)
            .unwrap_or_else(checksum)
            .finalize();
        let stored = header.get("CRC").and_then(|crc| crc.as_i64_exact());
        if stored.map(i64::cast_unsigned) != Some(computed) {
            let what =
                format!("the documents of `{namespace}` do not have the checksum that stands here");
            return Err(self.source.damaged(at, what));
        }
        Ok(Some(Event::EndOf(namespace)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        Namespace::new("db", "c")
    }

    /// The bytes of an archive with one collection of two documents, put together from the description of the format.
    fn by_hand() -> Vec<u8> {
        let mut bytes = vec![0x6D, 0xE2, 0x99, 0x81];
        let terminator = [0xFF; 4];
        let header = doc! { "concurrent_collections": 4, "version": "0.1", "server_version": "8.0.4", "tool_version": "100.10.0" };
        bytes.extend_from_slice(header.as_bytes());
        let definition = doc! { "db": "db", "collection": "c", "metadata": "{\"options\":{}}", "size": 2, "type": "collection" };
        bytes.extend_from_slice(definition.as_bytes());
        bytes.extend_from_slice(&terminator);
        let block = doc! { "db": "db", "collection": "c", "EOF": false, "CRC": 0i64 };
        // {a: 1} and {}, byte by byte.
        let documents = [12, 0, 0, 0, 0x10, b'a', 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0];
        bytes.extend_from_slice(block.as_bytes());
        bytes.extend_from_slice(&documents);
        bytes.extend_from_slice(&terminator);
        let end = doc! { "db": "db", "collection": "c", "EOF": true, "CRC": (bitwise_crc(&documents).cast_signed()) };
        bytes.extend_from_slice(end.as_bytes());
        bytes.extend_from_slice(&terminator);
        bytes
    }

    /// ECMA-182's polynomial from its definition, a bit at a time.
    fn bitwise_crc(bytes: &[u8]) -> u64 {
        let mut crc = u64::MAX;
        for byte in bytes {
            crc ^= u64::from(*byte);
            for _ in 0..8 {
                crc = match crc & 1 {
                    1 => crc >> 1 ^ 0xC96C_5795_D787_0F42,
                    _ => crc >> 1,
                };
            }
        }
        !crc
    }

    fn events(bytes: &[u8]) -> Result<(Vec<Entry>, Vec<Event>)> {
        let (mut reader, entries) = Reader::begin(bytes, "a.archive")?;
        let mut found = Vec::new();
        let mut out = Vec::new();
        loop {
            found.push(reader.next(&mut out)?);
            if found.last() == Some(&Event::End) {
                return Ok((entries, found));
            }
        }
    }

    #[test]
    fn the_published_check_value() {
        // Of "123456789", in the catalogue of parametrised CRC algorithms.
        let mut digest = checksum();
        digest.update(b"123456789");
        assert_eq!(digest.finalize(), 0x995D_C9BB_DF19_39FA);
        assert_eq!(bitwise_crc(b"123456789"), 0x995D_C9BB_DF19_39FA);
    }

    #[test]
    fn an_archive_made_by_hand_is_read() {
        let (entries, events) = events(&by_hand()).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((&entries[0].namespace, entries[0].size), (&namespace(), 2));
        let document = Event::Document(namespace());
        let end = Event::EndOf(namespace());
        assert_eq!(events, [document.clone(), document, end, Event::End]);
    }

    #[test]
    fn what_is_written_is_read() {
        let entries = [Entry {
            namespace: namespace(),
            metadata: "{}".to_owned(),
            size: 7,
            kind: "collection".to_owned(),
        }];
        let mut writer = Writer::begin(Vec::new(), &entries, "8.0.0", 1).unwrap();
        let mut sum = checksum();
        for n in 0..3 {
            let document = doc! { "n": n };
            sum.update(document.as_bytes());
            writer.block(&namespace(), document.as_bytes()).unwrap();
        }
        writer.end(&namespace(), sum).unwrap();
        let (read, events) = events(&writer.into_inner()).unwrap();
        assert_eq!(read, entries);
        assert_eq!(events.len(), 5);
    }

    #[test]
    fn a_cut_or_changed_archive_is_refused_with_its_place() {
        let whole = by_hand();
        for cut in 0..whole.len() {
            // Between the prelude and the first block an archive without documents ends well.
            match events(&whole[..cut]) {
                Ok((_, events)) => assert_eq!(events, [Event::End], "cut at {cut}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        error.starts_with("`a.archive` at byte "),
                        "cut at {cut}: {error}"
                    );
                }
            }
        }
        // A number within a document, which only the checksum knows.
        let document = [12, 0, 0, 0, 0x10, b'a', 0, 1, 0, 0, 0, 0];
        let at = whole
            .windows(12)
            .position(|window| window == document)
            .unwrap();
        let mut changed = whole.clone();
        changed[at + 7] = 2;
        let error = events(&changed).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
    }

    #[test]
    fn what_is_no_archive_is_said_to_be_none() {
        for bad in [&b""[..], b"PK\x03\x04", b"{}"] {
            let error = events(bad).unwrap_err().to_string();
            assert!(
                error.contains("archive") || error.contains("cut off"),
                "{error}"
            );
        }
    }
}
