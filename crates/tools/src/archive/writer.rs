//! Writing an archive.

use std::io::Write;

use quarry_bson::{Document, doc};

use super::{Checksum, Entry, MAGIC, TERMINATOR, VERSION};
use crate::namespaces::Namespace;

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
