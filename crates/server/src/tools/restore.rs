//! `quarry restore`: makes a data directory of a backup, and of an archive of the journal behind it: as the data was at a moment.
//!
//! Each chunk is checked as it is written. A directory in which a restore was cut off says so, and no server starts on it.
//!
//! Some collections out of the whole: the whole is restored, opened, and answered from to this process alone. What was not chosen is dropped there, or
//! what was chosen is copied into a running server, and the directory removed. A signal ends the work between two steps of it.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_journal::RealFiles;
use quarry_journal::archive::Rebuilt;
use quarry_journal::files::real::create_durably;

use quarry_tools::Progress;
use quarry_tools::migrate::{self, Destination, Migrate};
use quarry_tools::narrow::{self, Narrowed};

use crate::backup::batch::{Batch, RealDisk};
use crate::backup::manifest::{BackedUpFile, Manifest};
use crate::backup::place::Access;
use crate::backup::repository::{Repository, chunk_bytes};
use crate::process::alone::Alone;
use crate::process::config::{EngineName, Restore};
use crate::process::engine::{self, JOURNAL};
use crate::tools::moment::{self, Way};
use crate::tools::restored_directory::RestoredDirectory;
use crate::tools::say::say;
use crate::tools::{archive, backup};

/// Why a restore is not whole that a signal has ended.
const ENDED: &str = "ended by a signal";

/// Runs the command; the exit code of the process.
pub fn run(options: &Restore) -> ExitCode {
    match restore(options) {
        Ok(Restored {
            manifest,
            end,
            part,
        }) => {
            let moment = end.map(|end| {
                let (seconds, count) = (end.cluster_time >> 32, end.cluster_time as u32);
                format!("to record {}, cluster time {seconds},{count}", end.last_lsn)
            });
            let up_to = |words: &str| match &moment {
                Some(moment) => format!(" {words} {moment}"),
                None => String::new(),
            };
            let (id, engine, path) = (&manifest.id, &manifest.engine, options.dbpath.display());
            let serve = format!("quarry serve --engine {engine} --dbpath {path}");
            match part {
                Part::All => say!(
                    "{id} was restored into `{path}`{}: {serve}",
                    up_to("and goes on")
                ),
                Part::Kept { kept, dropped } => say!(
                    "{kept} collections of {id} were restored into `{path}`{}, without {dropped} others: {serve}",
                    up_to("up")
                ),
                Part::Copied => say!(
                    "the collections of {id} were copied{}, and `{path}` is removed again",
                    up_to("as they were up")
                ),
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("quarry restore: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The outcome of a restore.
struct Restored {
    manifest: Manifest,
    /// Where it ends, if it went on behind the backup.
    end: Option<Rebuilt>,
    part: Part,
}

/// The collections that were restored.
enum Part {
    All,
    /// These are in the data directory, of so many more.
    Kept {
        kept: u64,
        dropped: u64,
    },
    /// They are in a running server, and there is no data directory.
    Copied,
}

fn restore(options: &Restore) -> Result<Restored, String> {
    let part = &options.part;
    let selection = &part.selection;
    let names = selection.selection().map_err(|error| error.to_string())?;
    if names.renames() && part.into.is_none() {
        return Err("--nsFrom and --nsTo go with --into".into());
    }
    let is_part = part.into.is_some() || selection.chooses();
    if part.key.encryption_key_file.is_some() && !is_part {
        return Err(
            "--encryptionKeyFile goes with a part: the whole is restored as it is, encrypted"
                .into(),
        );
    }
    let repository = backup::open(&options.from, Access::Read)?;
    let way = match (moment::parse(&options.moment)?, &options.moment.archive) {
        (Some(moment), Some(archive)) => {
            let line = options.moment.line.as_deref();
            let found = moment::find(&archive::files(archive)?, moment, line);
            Some(found.map_err(|why| format!("`{}`: {why}", archive.display()))?)
        }
        _ => None,
    };
    let manifest = match &way {
        Some(way) => moment::backup_before(&repository, way, options.id.as_deref())?,
        None => chosen(&repository, options.id.as_deref())?,
    };
    let engine = known_engine(&manifest, is_part)?;
    // Before the work of hours that would be for nothing.
    let destination = part.into.as_deref().map(|uri| {
        Destination::reach(uri, part.into_password_file.as_deref(), part.drop)
            .map_err(|error| format!("--into: {error}"))
    });
    let destination = destination.transpose()?;
    let work = Work {
        options,
        repository: &repository,
        manifest: &manifest,
        engine,
        way: way.as_ref(),
        is_stopped: migrate::stopping().map_err(|error| error.to_string())?,
    };
    let directory = RestoredDirectory::claim(&options.dbpath)?;
    let (end, part) = match destination {
        Some(destination) => work.copy_into(&destination, directory)?,
        None => work.keep(directory)?,
    };
    Ok(Restored {
        manifest,
        end,
        part,
    })
}

/// The engine of the backup. The data of a part has to be opened here.
fn known_engine(manifest: &Manifest, is_part: bool) -> Result<EngineName, String> {
    let (id, name) = (&manifest.id, &manifest.engine);
    let engine = EngineName::parse(name)
        .ok_or_else(|| format!("{id}: an engine `{name}` is not known; nothing was changed"))?;
    match is_part && !engine::available().any(|available| available == engine) {
        true => Err(format!(
            "{id}: this build has no engine `{name}` to open the data with; nothing was changed"
        )),
        false => Ok(engine),
    }
}

/// A restore of a backup that was found.
struct Work<'w> {
    options: &'w Restore,
    repository: &'w Repository,
    manifest: &'w Manifest,
    engine: EngineName,
    way: Option<&'w Way>,
    /// Set by a signal, which ends the work with an error.
    is_stopped: Arc<AtomicBool>,
}

impl Work<'_> {
    /// Restores, and keeps the directory with what was chosen.
    fn keep(&self, directory: RestoredDirectory) -> Result<(Option<Rebuilt>, Part), String> {
        let kept = self.write(directory.path()).and_then(|end| {
            let part = match self.options.part.selection.chooses() {
                true => self.keep_chosen(directory.path())?,
                false => Part::All,
            };
            Ok((end, part))
        });
        match kept {
            Ok(kept) => directory.finish().map(|()| kept),
            Err(why) => Err(format!(
                "{why}; `{}` has a part of it, and can be removed",
                directory.path().display()
            )),
        }
    }

    /// Restores, copies the collections that were chosen into a running server, and removes the directory, whatever became of it.
    fn copy_into(
        &self,
        destination: &Destination,
        directory: RestoredDirectory,
    ) -> Result<(Option<Rebuilt>, Part), String> {
        let copied = self.write(directory.path()).and_then(|end| {
            self.copy_chosen(destination, directory.path())?;
            Ok(end)
        });
        Ok((removed_behind(copied, directory.remove())?, Part::Copied))
    }

    /// Writes the files of the backup, and has its journal go on to the moment.
    fn write(&self, path: &Path) -> Result<Option<Rebuilt>, String> {
        self.write_files(path)?;
        let end = self.way.map(|way| go_on(way, self.manifest, path));
        let end = end.transpose()?;
        self.check_stop()?;
        Ok(end)
    }

    fn check_stop(&self) -> Result<(), String> {
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(ENDED.into()),
            false => Ok(()),
        }
    }

    /// The reason why something failed: the signal, if there was one.
    fn or_ended(&self, why: String) -> String {
        self.check_stop().err().unwrap_or(why)
    }

    /// Opens what was restored, and drops the collections that were not chosen.
    fn keep_chosen(&self, path: &Path) -> Result<Part, String> {
        let opened = self.open(path)?;
        let narrowed = narrow::narrow(&opened.uri(), &self.options.part.selection);
        // Asked before the close, which sets the flag for the server's own connections.
        let narrowed = narrowed.map_err(|error| self.or_ended(error.to_string()));
        let closed = opened.close();
        let Narrowed { kept, dropped } = narrowed?;
        closed?;
        match kept {
            0 => Err(format!(
                "{}: it has no collection of that name",
                self.manifest.id
            )),
            _ => Ok(Part::Kept { kept, dropped }),
        }
    }

    /// Opens what was restored, and copies the collections that were chosen.
    fn copy_chosen(&self, destination: &Destination, path: &Path) -> Result<(), String> {
        let opened = self.open(path)?;
        let selection = &self.options.part.selection;
        let copy = Migrate::of_rest(opened.uri(), destination, selection, &self.is_stopped);
        // Asked before the close, which sets the flag for the server's own connections.
        let copied = migrate::migrate(&copy)
            .map_err(|error| self.or_ended(format!("{}: {error}", self.manifest.id)));
        let closed = opened.close();
        copied?;
        closed
    }

    fn open(&self, path: &Path) -> Result<Alone, String> {
        let key = &self.options.part.key;
        let opened = Alone::open(path, self.engine, key, &self.is_stopped);
        opened.map_err(|why| self.or_ended(why))
    }

    /// Writes every file of the backup, durably.
    fn write_files(&self, path: &Path) -> Result<(), String> {
        let progress = Progress::of_bytes("restoring", Some(self.manifest.bytes()));
        let mut batch = Batch::new(&RealDisk);
        for file in &self.manifest.files {
            self.write_file(file, path, &mut batch, &progress)?;
        }
        let finished = batch.finish();
        finished.map_err(|error| format!("`{}`: {error}", path.display()))
    }

    fn write_file(
        &self,
        file: &BackedUpFile,
        directory: &Path,
        batch: &mut Batch<'_>,
        progress: &Progress,
    ) -> Result<(), String> {
        let path = directory.join(&file.name);
        let failed = |error: io::Error| format!("`{}`: {error}", path.display());
        create_durably(path.parent().unwrap_or(directory)).map_err(failed)?;
        let mut out = batch.create_named(&path).map_err(failed)?;
        for (number, name) in file.chunks.iter().enumerate() {
            self.check_stop()?;
            let bytes = chunk_bytes(file.bytes, number);
            let chunk = self.repository.chunk(*name, bytes);
            let chunk = chunk.map_err(|why| format!("`{}`: {why}", file.name))?;
            out.write(&chunk).map_err(failed)?;
            progress.add(chunk.len() as u64, 0);
        }
        batch.add(out).map_err(failed)
    }
}

/// The outcome of a copy behind which the directory was removed: of both failures the copy's comes first.
fn removed_behind<T>(copied: Result<T, String>, removed: Result<(), String>) -> Result<T, String> {
    match (copied, removed) {
        (copied, Ok(())) => copied,
        (Ok(_), Err(why)) => Err(format!("the collections were copied, but {why}")),
        (Err(copied), Err(why)) => Err(format!("{copied}; and {why}")),
    }
}

/// The backup of that name, or the latest one.
fn chosen(repository: &Repository, id: Option<&str>) -> Result<Manifest, String> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => repository.ids()?.pop().ok_or(backup::NO_BACKUP)?,
    };
    Ok(repository.manifest(&id)?)
}

/// Has the restored journal go on to the moment.
fn go_on(way: &Way, manifest: &Manifest, path: &Path) -> Result<Rebuilt, String> {
    let journal = path.join(JOURNAL);
    let bad = |why: &dyn std::fmt::Display| format!("`{}`: {why}", journal.display());
    let files = RealFiles::open(&journal).map_err(|error| bad(&error))?;
    let progress = Progress::of_bytes("going on to the moment", None);
    let mut note = |bytes| progress.add(bytes, 0);
    let (line, cut_lsn) = (&way.line, way.cut.lsn);
    let rebuilt = (way.history).rebuild(line, &files, manifest.lsn, cut_lsn, &mut note);
    rebuilt.map_err(|error| bad(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_that_fails_hides_no_result() {
        let fails = |text: &str| Err(text.to_owned());
        assert_eq!(removed_behind(Ok(1), Ok(())), Ok(1));
        assert_eq!(removed_behind::<()>(fails("a"), Ok(())), fails("a"));
        let said = removed_behind::<()>(fails("a"), fails("b"));
        assert_eq!(said, Err("a; and b".to_owned()));
        let said = removed_behind(Ok(1), fails("b"));
        assert_eq!(said, Err("the collections were copied, but b".to_owned()));
    }
}
