//! `quarry restore`: makes a data directory of a backup, and of an archive of the journal behind it: as the data was at a moment.
//!
//! Each chunk is checked as it is written. A directory in which a restore was cut off says so, and no server starts on it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::ExitCode;

use quarry_journal::RealFiles;
use quarry_journal::archive::Rebuilt;
use quarry_journal::files::real::create_durably;

use quarry_tools::Progress;

use crate::backup::batch::{Batch, RealDisk};
use crate::backup::manifest::{BackedUpFile, Manifest};
use crate::backup::place::Access;
use crate::backup::repository::{Repository, chunk_bytes};
use crate::process::config::Restore;
use crate::process::data_directory::{DataDirectory, LOCK_FILE, RESTORING_FILE};
use crate::process::engine::JOURNAL;
use crate::tools::archive;
use crate::tools::moment::{self, Way};
use crate::tools::say::say;

/// Runs the command; the exit code of the process.
pub fn run(options: &Restore) -> ExitCode {
    match restore(options) {
        Ok(Restored { manifest, end }) => {
            let moment = end.map_or(String::new(), |end| {
                let (seconds, count) = (end.cluster_time >> 32, end.cluster_time as u32);
                format!(
                    " and goes on to record {}, cluster time {seconds},{count}",
                    end.last_lsn
                )
            });
            say!(
                "{} was restored into `{path}`{moment}: quarry serve --engine {} --dbpath {path}",
                manifest.id,
                manifest.engine,
                path = options.dbpath.display(),
            );
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
}

fn restore(options: &Restore) -> Result<Restored, String> {
    let repository = Repository::open(&options.from, Access::Read)?;
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
    let path = &options.dbpath;
    let failed = |error: io::Error| format!("`{}`: {error}", path.display());
    refuse_used(path)?;
    let _locked = DataDirectory::lock(path)?;
    // Another one may have filled it before the lock.
    refuse_used(path)?;
    let mark = path.join(RESTORING_FILE);
    File::create(&mark)
        .and_then(|mark| mark.sync_all())
        .map_err(failed)?;
    sync(path).map_err(failed)?;
    let progress = Progress::of_bytes("restoring", Some(manifest.bytes()));
    let mut batch = Batch::new(&RealDisk);
    for file in &manifest.files {
        write(&repository, file, path, &mut batch, &progress)?;
    }
    batch.finish().map_err(failed)?;
    drop(progress);
    let end = way.map(|way| go_on(&way, &manifest, path)).transpose()?;
    fs::remove_file(&mark)
        .and_then(|()| sync(path))
        .map_err(failed)?;
    Ok(Restored { manifest, end })
}

/// Refuses a directory that has anything but a lock.
fn refuse_used(path: &Path) -> Result<(), String> {
    let is_unused = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(format!("`{}`: {error}", path.display())),
        Ok(mut entries) => {
            entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == LOCK_FILE))
        }
    };
    match is_unused {
        true => Ok(()),
        false => Err(format!(
            "`{}` is not empty: nothing was changed",
            path.display()
        )),
    }
}

/// The backup of that name, or the latest one.
fn chosen(repository: &Repository, id: Option<&str>) -> Result<Manifest, String> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => repository
            .ids()?
            .pop()
            .ok_or("the repository holds no backup")?,
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

fn write(
    repository: &Repository,
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
        let chunk = repository.chunk(*name, chunk_bytes(file.bytes, number));
        let chunk = chunk.map_err(|why| format!("`{}`: {why}", file.name))?;
        out.write(&chunk).map_err(failed)?;
        progress.add(chunk.len() as u64, 0);
    }
    batch.add(out).map_err(failed)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
