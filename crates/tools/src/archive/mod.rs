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
//! Blocks of several collections take turns; those of a time series have the name of its buckets. Each collection of the prelude ends with a block of its own, a view without documents too: it has `EOF: true`,
//! no documents, and the CRC-64 (ECMA-182, reflected, as in XZ) of all bytes of the collection's documents. An archive that stops before all have
//! ended is cut off, wherever that is.

mod reader;
mod writer;

use crc::{CRC_64_XZ, Crc, Digest, Table};

use crate::definition::Kind;
use crate::namespaces::Namespace;
use crate::{oplog, time_series};

pub use reader::{Event, Reader};
pub use writer::Writer;

const MAGIC: u32 = 0x8199_E26D;
const TERMINATOR: u32 = 0xFFFF_FFFF;
const VERSION: &str = "0.1";
static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

/// The name that the entries of the oplog are under, which are of no database.
pub fn oplog_name() -> Namespace {
    Namespace::new("", oplog::NAME)
}

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

impl Entry {
    /// The name that the collection's blocks have.
    pub fn name_of_blocks(&self) -> Namespace {
        let Namespace {
            database,
            collection,
        } = &self.namespace;
        match self.kind == Kind::TimeSeries.as_str() {
            true => Namespace::new(database, time_series::buckets_of(collection)),
            false => self.namespace.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::error::Result;

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
            // Between blocks, too: each collection of the prelude has an end.
            let error = events(&whole[..cut]).unwrap_err().to_string();
            assert!(
                error.starts_with("`a.archive` at byte "),
                "cut at {cut}: {error}"
            );
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
