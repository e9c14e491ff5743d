//! Reading an archive, of which any byte may be wrong.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use quarry_bson::{Document, RawDocument};

use super::{Checksum, Entry, MAGIC, TERMINATOR, VERSION, checksum};
use crate::bson_file::Source;
use crate::error::Result;
use crate::namespaces::Namespace;

/// More than a million collections say of themselves.
const PRELUDE_BYTES_MAX: u64 = 1 << 30;

/// Reads an archive.
pub struct Reader<R> {
    source: Source<R>,
    /// The checksum so far of each collection whose end has not come.
    open: HashMap<Namespace, Checksum>,
    /// The collections of the prelude whose end has not come.
    expected: BTreeSet<Namespace>,
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
            expected: BTreeSet::new(),
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
            let entry = reader.entry(&definition)?;
            reader.expected.insert(entry.name_of_blocks());
            entries.push(entry);
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

    /// A collection of the prelude whose end has not come, beside one of that name.
    pub fn awaited(&self, other: &Namespace) -> Option<&Namespace> {
        self.expected.iter().find(|awaited| *awaited != other)
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
            let missing = self.open.keys().min().or_else(|| self.expected.first());
            return match missing {
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
        self.expected.remove(&namespace);
        let stored = header.get("CRC").and_then(|crc| crc.as_i64_exact());
        if stored.map(i64::cast_unsigned) != Some(computed) {
            let what =
                format!("the documents of `{namespace}` do not have the checksum that stands here");
            return Err(self.source.damaged(at, what));
        }
        Ok(Some(Event::EndOf(namespace)))
    }
}
