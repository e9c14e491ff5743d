//! `quarry restore`: makes a data directory of a backup, and of an archive of the journal behind it: as the data was at a moment.
//!
//! Each chunk is checked as it is written. A directory in which a restore was cut off says so, and no server starts on it.
//!
//! Some collections out of the whole: the whole is restored, opened, and answered from to this process alone. What was not chosen is dropped there, or
//! what was chosen is copied into a running server, and the directory removed.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::ExitCode;

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
use crate::process::data_directory::{DataDirectory, LOCK_FILE, RESTORING_FILE};
use crate::process::engine::JOURNAL;
use crate::tools::moment::{self, Way};
use crate::tools::say::say;
use crate::tools::{archive, backup};

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
    let selection = &options.part.selection;
    let names = selection.selection().map_err(|error| error.to_string())?;
    if names.renames() && options.part.into.is_none() {
        return Err("--nsFrom and --nsTo go with --into".into());
    }
    let is_part = options.part.into.is_some() || selection.chooses();
    if options.part.key.encryption_key_file.is_some() && !is_part {
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
    let path = &options.dbpath;
    let failed = |error: io::Error| format!("`{}`: {error}", path.display());
    refuse_used(path)?;
    let locked = DataDirectory::lock(path)?;
    // Another one may have filled it before the lock.
    refuse_used(path)?;
    let mark = path.join(RESTORING_FILE);
    File::create(&mark)
        .and_then(|mark| mark.sync_all())
        .map_err(failed)?;
    sync(path).map_err(failed)?;
    write_files(&repository, &manifest, path)?;
    let end = way.map(|way| go_on(&way, &manifest, path)).transpose()?;
    let part = match &options.part.into {
        Some(uri) => {
            let copied = copy_into(uri, options, &manifest);
            drop(locked);
            fs::remove_dir_all(path).map_err(failed)?;
            copied?;
            Part::Copied
        }
        None => {
            let part = match selection.chooses() {
                true => keep_chosen(options, &manifest)?,
                false => Part::All,
            };
            fs::remove_file(&mark)
                .and_then(|()| sync(path))
                .map_err(failed)?;
            part
        }
    };
    Ok(Restored {
        manifest,
        end,
        part,
    })
}

/// Opens what was restored, and drops the collections that were not chosen.
fn keep_chosen(options: &Restore, manifest: &Manifest) -> Result<Part, String> {
    let opened = open(options, manifest)?;
    let narrowed = narrow::narrow(&opened.uri(), &options.part.selection);
    let closed = opened.close();
    let Narrowed { kept, dropped } = narrowed.map_err(|error| error.to_string())?;
    closed?;
    match kept {
        0 => Err(format!(
            "{}: it has no collection of that name, and `{}` can be removed",
            manifest.id,
            options.dbpath.display()
        )),
        _ => Ok(Part::Kept { kept, dropped }),
    }
}

/// Opens what was restored, and copies the collections that were chosen into a running server.
fn copy_into(uri: &str, options: &Restore, manifest: &Manifest) -> Result<(), String> {
    let part = &options.part;
    let opened = open(options, manifest)?;
    let destination = Destination {
        uri: uri.to_owned(),
        password_file: part.into_password_file.clone(),
        drop: part.drop,
    };
    let copy = Migrate::of_rest(opened.uri(), &destination, &part.selection);
    let copied = migrate::migrate(&copy);
    let closed = opened.close();
    copied.map_err(|error| format!("{}: {error}", manifest.id))?;
    closed
}

fn open(options: &Restore, manifest: &Manifest) -> Result<Alone, String> {
    let engine = EngineName::parse(&manifest.engine);
    let engine = engine.ok_or_else(|| format!("an engine `{}` is not known", manifest.engine))?;
    Alone::open(&options.dbpath, engine, &options.part.key)
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

/// Writes every file of the backup, durably.
fn write_files(repository: &Repository, manifest: &Manifest, path: &Path) -> Result<(), String> {
    let progress = Progress::of_bytes("restoring", Some(manifest.bytes()));
    let mut batch = Batch::new(&RealDisk);
    for file in &manifest.files {
        write(repository, file, path, &mut batch, &progress)?;
    }
    let finished = batch.finish();
    finished.map_err(|error| format!("`{}`: {error}", path.display()))
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
