//! A dump as a directory: `DB/COLLECTION.bson` and `DB/COLLECTION.metadata.json`, each with `.gz` where it is compressed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Documents, Dump, Item, Output};
use crate::definition::Kind;
use crate::error::{Error, Result};
use crate::{file_name, metadata};

const STANDARD_OUTPUT: &str = "-";

/// The directory.
pub struct DirectoryOutput {
    root: PathBuf,
    is_compressed: bool,
    is_standard_output: bool,
}

impl DirectoryOutput {
    /// Makes the directories of the databases.
    pub fn begin(options: &Dump, items: &[Item]) -> Result<DirectoryOutput> {
        let output = DirectoryOutput {
            root: options.out.clone(),
            is_compressed: options.gzip,
            is_standard_output: options.out == Path::new(STANDARD_OUTPUT),
        };
        if output.is_standard_output && options.collection.is_none() {
            return Err(Error::usage(
                "--out=- goes with one collection; --archive takes all",
            ));
        }
        if !output.is_standard_output {
            for item in items {
                let directory = output.root.join(&item.namespace.database);
                fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
            }
        }
        Ok(output)
    }

    fn path(&self, item: &Item, ending: &str) -> PathBuf {
        let mut name = file_name::of_collection(&item.namespace.collection);
        name += ending;
        if self.is_compressed {
            name += ".gz";
        }
        self.root.join(&item.namespace.database).join(name)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Finish>> {
        let file = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        Ok(match self.is_compressed {
            true => Box::new(GzEncoder::new(file, Compression::default())),
            false => Box::new(file),
        })
    }
}

impl Output for DirectoryOutput {
    fn collection<'o>(&'o self, item: &'o Item) -> Result<Box<dyn Documents + 'o>> {
        if self.is_standard_output {
            let path = PathBuf::from(STANDARD_OUTPUT);
            let out: Box<dyn Finish> = Box::new(BufWriter::new(io::stdout()));
            return Ok(Box::new(DocumentsFile {
                path,
                out: Some(out),
            }));
        }
        let path = self.path(item, ".metadata.json");
        let mut out = self.create(&path)?;
        out.write_all(metadata::to_text(&item.definition).as_bytes())
            .and_then(|()| out.finish())
            .map_err(Error::file(&path))?;
        let path = self.path(item, ".bson");
        let out = match item.definition.kind {
            Kind::Collection => Some(self.create(&path)?),
            Kind::View => None,
        };
        Ok(Box::new(DocumentsFile { path, out }))
    }
}

struct DocumentsFile {
    path: PathBuf,
    /// None for a view, which has metadata alone.
    out: Option<Box<dyn Finish>>,
}

impl Documents for DocumentsFile {
    fn write(&mut self, documents: &[u8]) -> Result<()> {
        let out = self.out.as_mut();
        out.map_or(Ok(()), |out| out.write_all(documents))
            .map_err(Error::file(&self.path))
    }

    fn end(self: Box<Self>) -> Result<()> {
        let path = self.path;
        let out = self.out;
        out.map_or(Ok(()), Finish::finish)
            .map_err(Error::file(&path))
    }
}

/// A stream whose end has to be written.
pub trait Finish: Write + Send {
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl<W: Write + Send> Finish for BufWriter<W> {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.flush()
    }
}

impl<W: Write + Send> Finish for GzEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish()?.flush()
    }
}
