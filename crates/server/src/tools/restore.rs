//! `quarry restore`: makes a data directory of a backup.
//!
//! Each chunk is checked as it is written. A directory in which a restore was cut off says so, and no server starts on it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use quarry_journal::files::real::create_durably;

use quarry_tools::Progress;

use crate::backup::manifest::{BackedUpFile, Manifest};
use crate::backup::repository::{Access, Repository, chunk_bytes};
use crate::process::config::Restore;
use crate::process::data_directory::{DataDirectory, LOCK_FILE, RESTORING_FILE};

/// Runs the command; the exit code of the process.
pub fn run(options: &Restore) -> ExitCode {
    match restore(options) {
        Ok(manifest) => {
            println!(
                "{} was restored into `{path}`: quarry serve --engine {} --dbpath {path}",
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

fn restore(options: &Restore) -> Result<Manifest, String> {
    let repository = Repository::open(&options.from, Access::Read)?;
    let id = match &options.id {
        Some(id) => id.clone(),
        None => repository
            .ids()?
            .pop()
            .ok_or("the repository holds no backup")?,
    };
    let manifest = repository.manifest(&id)?;
    let path = &options.dbpath;
    let failed = |error: io::Error| format!("`{}`: {error}", path.display());
    let is_empty = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(failed(error)),
        Ok(mut entries) => {
            entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == LOCK_FILE))
        }
    };
    if !is_empty {
        return Err(format!(
            "`{}` is not empty: nothing was changed",
            path.display()
        ));
    }
    let _locked = DataDirectory::lock(path)?;
    let mark = path.join(RESTORING_FILE);
    File::create(&mark)
        .and_then(|mark| mark.sync_all())
        .map_err(failed)?;
    sync(path).map_err(failed)?;
    let progress = Progress::of_bytes("restoring", Some(manifest.bytes()));
    for file in &manifest.files {
        write(&repository, file, path, &progress)?;
    }
    drop(progress);
    fs::remove_file(&mark)
        .and_then(|()| sync(path))
        .map_err(failed)?;
    Ok(manifest)
}

fn write(
    repository: &Repository,
    file: &BackedUpFile,
    directory: &Path,
    progress: &Progress,
) -> Result<(), String> {
    let path = directory.join(&file.name);
    let failed = |error: io::Error| format!("`{}`: {error}", path.display());
    let parent = path.parent().unwrap_or(directory);
    create_durably(parent).map_err(failed)?;
    let mut out = File::create_new(&path).map_err(failed)?;
    for (number, name) in file.chunks.iter().enumerate() {
        let chunk = repository.chunk(*name, chunk_bytes(file.bytes, number));
        let chunk = chunk.map_err(|why| format!("`{}`: {why}", file.name))?;
        out.write_all(&chunk).map_err(failed)?;
        progress.add(chunk.len() as u64, 0);
    }
    out.sync_all().and_then(|()| sync(parent)).map_err(failed)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
