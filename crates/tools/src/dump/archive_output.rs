//! A dump as one archive: collections are read by several threads, and a lock lets one block after the other into the file.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Documents, Dump, Item, Output};
use crate::archive::{self, Checksum, Entry, Writer, oplog_name};
use crate::error::{Error, Result};
use crate::metadata;
use crate::namespaces::Namespace;
use crate::new_file::NewFile;

/// The archive.
pub struct ArchiveOutput {
    path: PathBuf,
    oplog: Namespace,
    writer: Mutex<Writer<NewFile>>,
}

impl ArchiveOutput {
    /// Writes the prelude, which tells of all collections.
    pub fn begin(
        path: &Path,
        options: &Dump,
        items: &[Item],
        server_version: &str,
    ) -> Result<ArchiveOutput> {
        let failed = Error::file(path);
        let out = NewFile::create(path, options.gzip).map_err(&failed)?;
        let mut entries: Vec<Entry> = items
            .iter()
            .map(|item| Entry {
                namespace: item.namespace.clone(),
                metadata: metadata::to_text(&item.definition),
                size: item.documents,
                kind: item.definition.kind.as_str().to_owned(),
            })
            .collect();
        let oplog = oplog_name();
        if options.oplog {
            entries.push(Entry {
                namespace: oplog.clone(),
                metadata: String::new(),
                size: 0,
                kind: String::new(),
            });
        }
        let writer = Writer::begin(out, &entries, server_version, i32::from(options.parallel));
        Ok(ArchiveOutput {
            path: path.to_owned(),
            oplog,
            writer: Mutex::new(writer.map_err(&failed)?),
        })
    }

    /// Writes the end of the file.
    pub fn finish(self) -> Result<()> {
        let writer = self
            .writer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        writer
            .into_inner()
            .finish()
            .map_err(Error::file(&self.path))
    }

    fn writer(&self) -> MutexGuard<'_, Writer<NewFile>> {
        // A writer that panicked has left half a block: whatever is written behind it, the checksum tells.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output for ArchiveOutput {
    fn collection<'o>(&'o self, item: &'o Item) -> Result<Box<dyn Documents + 'o>> {
        Ok(Box::new(Blocks {
            output: self,
            namespace: &item.written_under,
            checksum: archive::checksum(),
        }))
    }

    fn oplog(&self) -> Result<Box<dyn Documents + '_>> {
        Ok(Box::new(Blocks {
            output: self,
            namespace: &self.oplog,
            checksum: archive::checksum(),
        }))
    }
}

struct Blocks<'o> {
    output: &'o ArchiveOutput,
    namespace: &'o Namespace,
    checksum: Checksum,
}

impl Documents for Blocks<'_> {
    fn write(&mut self, documents: &[u8]) -> Result<()> {
        self.checksum.update(documents);
        let written = self.output.writer().block(self.namespace, documents);
        written.map_err(Error::file(&self.output.path))
    }

    fn end(self: Box<Self>) -> Result<()> {
        let written = self.output.writer().end(self.namespace, self.checksum);
        written.map_err(Error::file(&self.output.path))
    }
}
