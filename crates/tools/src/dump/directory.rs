//! A dump as a directory: `DB/COLLECTION.bson` and `DB/COLLECTION.metadata.json`, each with `.gz` where it is compressed, and `prelude.json`.
//!
//! Each file has its name when it is whole and synced. The metadata of a collection comes last. Nothing is written over: what an earlier dump has left
//! would be restored together with this one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use quarry_bson::{doc, extjson};

use super::{Documents, Dump, Item, Output};
use crate::definition::Kind;
use crate::error::{Error, Result};
use crate::new_file::{NewFile, STANDARD_OUTPUT, sync_directory_of};
use crate::{file_name, metadata, oplog};

const DOCUMENTS: &str = ".bson";
const METADATA: &str = ".metadata.json";
const COMPRESSED: &str = ".gz";
/// The file from which mongorestore knows the version of the server that the dump is of.
const PRELUDE: &str = "prelude.json";

/// The directory.
pub struct DirectoryOutput {
    root: PathBuf,
    is_compressed: bool,
    is_standard_output: bool,
}

impl DirectoryOutput {
    /// Makes the directories of the databases.
    pub fn begin(options: &Dump, items: &[Item], server_version: &str) -> Result<DirectoryOutput> {
        let output = DirectoryOutput {
            root: options.out.clone(),
            is_compressed: options.gzip,
            is_standard_output: options.out == Path::new(STANDARD_OUTPUT),
        };
        if output.is_standard_output {
            return match options.collection {
                Some(_) => Ok(output),
                None => Err(Error::usage(
                    "--out=- goes with one collection; --archive takes all",
                )),
            };
        }
        for item in items {
            output.look(options, item)?;
        }
        // Of another dump: it would be applied to this one.
        for path in [output.oplog_path(false), output.oplog_path(true)] {
            if options.db.is_none() && path.exists() {
                let what = format!(
                    "`{}` is of an earlier dump: remove it, or take another directory",
                    path.display()
                );
                return Err(Error::usage(what));
            }
        }
        for item in items {
            let directory = output.directory(item);
            fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
            sync_directory_of(&directory).map_err(Error::file(&directory))?;
        }
        let within = options.db.as_deref().unwrap_or_default();
        let directory = output.root.join(within);
        fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
        if options.collection.is_none() {
            output.write_prelude(&directory, server_version)?;
        }
        sync_directory_of(&output.root).map_err(Error::file(&output.root))?;
        Ok(output)
    }

    fn directory(&self, item: &Item) -> PathBuf {
        self.root.join(&item.namespace.database)
    }

    /// Refuses to write over or beside what an earlier dump has left: of the one collection, or of the database.
    fn look(&self, options: &Dump, item: &Item) -> Result<()> {
        let directory = self.directory(item);
        let is_there = match options.collection {
            Some(_) => [DOCUMENTS, METADATA].into_iter().any(|ending| {
                let file = |packed: bool| self.path(item, ending, packed).exists();
                file(false) || file(true)
            }),
            None => fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()),
        };
        match is_there {
            true => Err(Error::usage(format!(
                "`{}` has an earlier dump of `{}`: remove it, or take another directory",
                directory.display(),
                options.collection.as_ref().map_or_else(
                    || item.namespace.database.clone(),
                    |_| item.namespace.to_string()
                ),
            ))),
            false => Ok(()),
        }
    }

    fn path(&self, item: &Item, ending: &str, is_compressed: bool) -> PathBuf {
        let named = match ending {
            DOCUMENTS => &item.written_under,
            _ => &item.namespace,
        };
        let mut name = file_name::of_collection(&named.collection);
        name += ending;
        if is_compressed {
            name += COMPRESSED;
        }
        self.directory(item).join(name)
    }

    fn oplog_path(&self, is_compressed: bool) -> PathBuf {
        let packed = if is_compressed { COMPRESSED } else { "" };
        self.root
            .join(format!("{}{DOCUMENTS}{packed}", oplog::NAME))
    }

    fn write_prelude(&self, directory: &Path, server_version: &str) -> Result<()> {
        let prelude =
            doc! { "ServerVersion": server_version, "ToolVersion": (env!("CARGO_PKG_VERSION")) };
        let ending = if self.is_compressed { COMPRESSED } else { "" };
        let path = directory.join(format!("{PRELUDE}{ending}"));
        self.write(&path, &extjson::relaxed(prelude.as_raw()))
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let written = NewFile::create(path, self.is_compressed).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.finish()
        });
        written.map_err(Error::file(path))
    }
}

impl Output for DirectoryOutput {
    fn collection<'o>(&'o self, item: &'o Item) -> Result<Box<dyn Documents + 'o>> {
        let path = match self.is_standard_output {
            true => PathBuf::from(STANDARD_OUTPUT),
            false => self.path(item, DOCUMENTS, self.is_compressed),
        };
        let out = match item.definition.kind {
            Kind::Collection | Kind::TimeSeries => {
                Some(NewFile::create(&path, self.is_compressed).map_err(Error::file(&path))?)
            }
            Kind::View => None,
        };
        Ok(Box::new(DocumentsFile {
            output: self,
            item,
            path,
            out,
        }))
    }

    fn oplog(&self) -> Result<Box<dyn Documents + '_>> {
        let path = self.oplog_path(self.is_compressed);
        let out = NewFile::create(&path, self.is_compressed).map_err(Error::file(&path))?;
        Ok(Box::new(OplogFile { path, out }))
    }
}

/// The file of the oplog's entries, which has no metadata.
struct OplogFile {
    path: PathBuf,
    out: NewFile,
}

impl Documents for OplogFile {
    fn write(&mut self, entries: &[u8]) -> Result<()> {
        self.out.write_all(entries).map_err(Error::file(&self.path))
    }

    fn end(self: Box<Self>) -> Result<()> {
        self.out.finish().map_err(Error::file(&self.path))
    }
}

struct DocumentsFile<'o> {
    output: &'o DirectoryOutput,
    item: &'o Item,
    path: PathBuf,
    /// None for a view, which has metadata alone.
    out: Option<NewFile>,
}

impl Documents for DocumentsFile<'_> {
    fn write(&mut self, documents: &[u8]) -> Result<()> {
        let out = self.out.as_mut();
        out.map_or(Ok(()), |out| out.write_all(documents))
            .map_err(Error::file(&self.path))
    }

    fn end(self: Box<Self>) -> Result<()> {
        let DocumentsFile {
            output,
            item,
            path,
            out,
        } = *self;
        out.map_or(Ok(()), NewFile::finish)
            .map_err(Error::file(&path))?;
        if output.is_standard_output {
            return Ok(());
        }
        let path = output.path(item, METADATA, output.is_compressed);
        output.write(&path, &metadata::to_text(&item.definition))
    }
}
