//! `quarry journal renew`: a new journal behind what the engine holds durably, where the old one is lost or damaged.
//!
//! Keeps true: no server uses the directory meanwhile, by its lock; the old journal is not changed, but put beside under another name;
//! the new one is whole and durable before it gets its place. A renewal that is cut off between the two leaves a directory without
//! a journal, which no server starts on, and may be made again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_database::{JournalRenewal, Options};
use quarry_journal::{Files, RealFiles};
use quarry_seal::DataKey;
use quarry_storage::Engine;
use quarry_storage::creation::holds_a_store;

use super::journal::{EXIT_REFUSED, Failure};
use crate::process::config::{
    Config, EXIT_BAD_OPTIONS, EXIT_DATA_DIRECTORY, EncryptionSettings, EngineName, Face,
    JournalPlace, Serve,
};
use crate::process::data_directory::DataDirectory;
use crate::process::engine::{JOURNAL, available};
use crate::process::{encryption, engine, foreign_files};

/// The new journal's directory until it is whole.
const UNFINISHED: &str = "journal.new";
/// The name of the old journal's directory, with a number behind it.
const LOST: &str = "journal.lost-";
/// The memory that the work is to keep to.
const MEMORY_BYTES: usize = 256 << 20;
/// Tables of the engine that are open at once: each is read once.
const TABLES_MAX: u32 = 256;

/// Begins a new journal, or says what would be lost by that.
pub(super) fn renew(
    place: &JournalPlace,
    engine: Option<EngineName>,
    accept_loss: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let directory = place.dbpath.as_path();
    let bad = |why: String| Failure {
        line: format!("data directory `{}`: {why}", directory.display()),
        code: EXIT_DATA_DIRECTORY,
    };
    let engine = engine
        .or_else(|| available().find(|engine| holds(directory, *engine)))
        .filter(|engine| holds(directory, *engine))
        .ok_or_else(|| bad("there is no data of an engine to go on from".to_owned()))?;
    let config = config(place, engine)?;
    foreign_files::refuse(&config).map_err(|why| bad(why.to_string()))?;
    let _locked = DataDirectory::lock(directory).map_err(|line| Failure {
        line,
        code: EXIT_DATA_DIRECTORY,
    })?;
    let key = encryption::key_of(directory, &place.key).map_err(bad)?;
    let engine = engine::open(&config, MEMORY_BYTES, TABLES_MAX, key.as_ref()).map_err(bad)?;
    let renewed = look_and_renew(directory, &engine, key.as_ref(), accept_loss, out);
    // Nothing was written to it.
    let closed = engine.close().map_err(|error| bad(error.to_string()));
    renewed.and(closed)
}

fn holds(directory: &Path, engine: EngineName) -> bool {
    holds_a_store(&directory.join(engine.as_str()))
}

/// The engine is opened as a server opens it that is given nothing but the directory.
fn config(place: &JournalPlace, engine: EngineName) -> Result<Config, Failure> {
    let serve = Serve {
        dbpath: Some(place.dbpath.clone()),
        engine: Some(engine),
        admin_port: Some("off".into()),
        encryption: EncryptionSettings {
            is_enabled: place.key.encryption_key_file.is_some(),
            key: place.key.clone(),
        },
        ..Serve::default()
    };
    Config::new(Face::Quarry, serve, Vec::new()).map_err(|error| Failure {
        line: error.0,
        code: EXIT_BAD_OPTIONS,
    })
}

fn look_and_renew(
    directory: &Path,
    engine: &Arc<dyn Engine>,
    key: Option<&DataKey>,
    accept_loss: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let old = open_old(&directory.join(JOURNAL), key)?;
    let options = Options {
        filter_language: quarry_query::filter_language(),
        index_kinds: quarry_query::index_kinds(),
        ..Options::default()
    };
    let planned = JournalRenewal::plan(engine, old.as_deref(), &options);
    let renewal = planned.map_err(|error| Failure {
        line: format!("{error}; nothing was changed"),
        code: EXIT_REFUSED,
    })?;
    tell(&renewal, old.is_some(), out)?;
    if !accept_loss {
        return Err(Failure {
            line: "nothing was changed: say --accept-loss to begin a new journal".to_owned(),
            code: EXIT_REFUSED,
        });
    }
    drop(old);
    let failed = |error: io::Error| Failure {
        line: format!("data directory `{}`: {error}", directory.display()),
        code: EXIT_DATA_DIRECTORY,
    };
    make(directory, &renewal, key)?;
    let lost = put_in_place(directory).map_err(failed)?;
    writeln!(
        out,
        "a new journal begins behind record {}; change streams from before are not resumed",
        renewal.applied_lsn
    )?;
    if let Some(lost) = lost {
        writeln!(out, "the old journal is in `{}`", lost.display())?;
    }
    Ok(())
}

/// The files of the old journal, locked; none where it has no directory.
fn open_old(path: &Path, key: Option<&DataKey>) -> Result<Option<Arc<dyn Files>>, Failure> {
    if !path.is_dir() {
        return Ok(None);
    }
    let files = RealFiles::open(path).map_err(|error| Failure {
        line: match error.kind() {
            ErrorKind::WouldBlock => {
                format!(
                    "journal directory `{}`: in use by another process",
                    path.display()
                )
            }
            _ => format!("journal directory `{}`: {error}", path.display()),
        },
        code: EXIT_DATA_DIRECTORY,
    })?;
    Ok(Some(encryption::journal_files(files, key)))
}

/// Says what is kept, and what is known to be lost.
fn tell(renewal: &JournalRenewal, is_there: bool, out: &mut dyn Write) -> io::Result<()> {
    let applied_lsn = renewal.applied_lsn;
    writeln!(
        out,
        "the engine holds records up to {applied_lsn}, durably and complete by itself"
    )?;
    match &renewal.damage {
        Some(damage) => writeln!(out, "the journal refuses a start: {damage}")?,
        None if !is_there => writeln!(out, "there is no journal")?,
        None => writeln!(out, "the journal has no record that the engine lacks")?,
    }
    match renewal.last_lsn > applied_lsn {
        true => writeln!(
            out,
            "what is left of the journal has records up to {}: those behind {applied_lsn} are given up",
            renewal.last_lsn
        ),
        false => writeln!(
            out,
            "whatever else the journal had behind record {applied_lsn} is lost"
        ),
    }
}

/// Makes the new journal beside the old one.
fn make(directory: &Path, renewal: &JournalRenewal, key: Option<&DataKey>) -> Result<(), Failure> {
    let path = directory.join(UNFINISHED);
    let bad = |why: String| Failure {
        line: format!("`{}`: {why}", path.display()),
        code: EXIT_DATA_DIRECTORY,
    };
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(bad(error.to_string())),
        _ => {}
    }
    let files = RealFiles::open(&path).map_err(|error| bad(error.to_string()))?;
    let files = encryption::journal_files(files, key);
    let begun = renewal.begin_in(files);
    begun.map_err(|error| bad(error.to_string()))
}

/// Puts the old journal aside, and the new one in its place; where the old one is then, if there was one.
fn put_in_place(directory: &Path) -> io::Result<Option<PathBuf>> {
    let journal = directory.join(JOURNAL);
    let mut lost = None;
    if journal.exists() {
        let mut numbered = (1u32..).map(|number| directory.join(format!("{LOST}{number}")));
        let free = numbered.find(|path| !path.exists()).unwrap_or_default();
        fs::rename(&journal, &free)?;
        lost = Some(free);
    }
    fs::rename(directory.join(UNFINISHED), &journal)?;
    File::open(directory)?.sync_all()?;
    Ok(lost)
}
