//! A dump as one archive: collections are read by several threads, and a lock lets one block after the other into the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use quarry_bson::doc;
use quarry_client::Connection;

use super::directory::Finish;
use super::{Documents, Dump, Item, Output};
use crate::archive::{self, Checksum, Entry, Writer};
use crate::error::{Error, Result};
use crate::metadata;
use crate::namespaces::Namespace;

/// The archive.
pub struct ArchiveOutput {
    path: PathBuf,
    writer: Mutex<Writer<Box<dyn Finish>>>,
}

impl ArchiveOutput {
    /// Writes the prelude, which tells of all collections.
    pub fn begin(
        path: &Path,
        options: &Dump,
        connection: &mut Connection,
        items: &[Item],
    ) -> Result<ArchiveOutput> {
        let build = connection
            .read("admin", &doc! { "buildInfo": 1 })
            .map_err(Error::server("buildInfo"))?;
        let failed = Error::file(path);
        let file: Box<dyn Write + Send> = match path == Path::new("-") {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).map_err(&failed)?),
        };
        let file = BufWriter::new(file);
        let out: Box<dyn Finish> = match options.gzip {
            true => Box::new(GzEncoder::new(file, Compression::default())),
            false => Box::new(file),
        };
        let entries: Vec<Entry> = items
            .iter()
            .map(|item| Entry {
                namespace: item.namespace.clone(),
                metadata: metadata::to_text(&item.definition),
                size: item.documents,
                kind: item.definition.kind.as_str().to_owned(),
            })
            .collect();
        let version = build.get_str("version").unwrap_or_default();
        let writer = Writer::begin(out, &entries, version, i32::from(options.parallel));
        Ok(ArchiveOutput {
            path: path.to_owned(),
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

    fn writer(&self) -> MutexGuard<'_, Writer<Box<dyn Finish>>> {
        // A writer that panicked has left half a block: whatever is written behind it, the checksum tells.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output for ArchiveOutput {
    fn collection<'o>(&'o self, item: &'o Item) -> Result<Box<dyn Documents + 'o>> {
        Ok(Box::new(Blocks {
            output: self,
            namespace: &item.namespace,
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
