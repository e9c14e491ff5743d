//! The directory of an archive: whose it is, the pieces in it, and what a reader does from under whom pieces are taken.

use std::io::ErrorKind;

use super::piece::{NEW_SUFFIX, Piece, damaged, is_piece};
use crate::error::{Error, Result};
use crate::files::{Files, read_full_at, sync_file, write_all_at};
use crate::options::Identity;

/// Names the directory as an archive, and whose it is.
const MARK: &str = "quarry.archive";
const MARK_LINE: &str = "quarry archive 1";
const MARK_BYTES_MAX: usize = 512;
/// A reader begins anew so often where pieces went while it read: whoever archives takes over small ones.
const TRIES: usize = 20;

/// The headers of all pieces.
pub(super) fn read_pieces(files: &dyn Files) -> Result<Vec<Piece>> {
    let entries = files.list().map_err(|e| Error::io("list", "archive", &e))?;
    let names = entries.into_iter().map(|entry| entry.name);
    names
        .filter(|name| is_piece(name))
        .map(|name| Piece::read(files, &name))
        .collect()
}

/// Whose archive it is; none where there is nothing but what a first start has left that was killed.
pub(super) fn read_mark(files: &dyn Files) -> Result<Option<Identity>> {
    let file = match files.open(MARK) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| Error::io("open", MARK, &e))?,
    };
    let mut bytes = vec![0; MARK_BYTES_MAX];
    let filled = read_full_at(&*file, &mut bytes, 0).map_err(|e| Error::io("read", MARK, &e))?;
    let text = String::from_utf8_lossy(&bytes[..filled]);
    let mut lines = text.lines();
    if lines.next() != Some(MARK_LINE) {
        return Err(damaged(MARK, 0, "it is no archive of this version"));
    }
    let database = lines
        .next()
        .and_then(|line| u128::from_str_radix(line, 16).ok());
    match (database, lines.next()) {
        (Some(database), Some(engine)) => Ok(Some(Identity {
            database: database.to_be_bytes(),
            engine: engine.to_owned(),
        })),
        _ => Err(damaged(MARK, 0, "it does not say whose archive it is")),
    }
}

/// Holds the archive against the database whose it is to be. A directory without files becomes its archive.
pub(super) fn check_mark(files: &dyn Files, identity: &Identity) -> Result<()> {
    if let Some(found) = read_mark(files)? {
        return match found == *identity {
            true => Ok(()),
            false => Err(Error::ForeignJournal {
                segment: MARK.to_owned(),
                reason: "the archive is of another database or engine".to_owned(),
            }),
        };
    }
    let entries = files.list().map_err(|e| Error::io("list", "archive", &e))?;
    for entry in &entries {
        if !entry.name.ends_with(NEW_SUFFIX) {
            return Err(Error::ForeignJournal {
                segment: entry.name.clone(),
                reason: "the directory holds files and is no archive".to_owned(),
            });
        }
    }
    let database = u128::from_be_bytes(identity.database);
    let text = format!("{MARK_LINE}\n{database:032x}\n{}\n", identity.engine);
    let new_name = format!("{MARK}{NEW_SUFFIX}");
    remove_if_there(files, &new_name)?;
    let failed = |error: std::io::Error| Error::io("write", MARK, &error);
    let file = files.create(&new_name).map_err(failed)?;
    write_all_at(&*file, text.as_bytes(), 0).map_err(failed)?;
    sync_file(&*file).map_err(failed)?;
    files
        .rename(&new_name, MARK)
        .and_then(|()| files.sync_directory())
        .map_err(failed)
}

/// Removes the file, which may be gone.
pub(super) fn remove_if_there(files: &dyn Files, name: &str) -> Result<()> {
    match files.remove(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", name, &error)),
        _ => Ok(()),
    }
}

/// Calls `read` again where a file has gone that it had listed.
pub(super) fn retry<T>(read: &dyn Fn() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        tries += 1;
        match read() {
            Err(Error::Io { action: "open", .. }) if tries < TRIES => {}
            done => return done,
        }
    }
}
