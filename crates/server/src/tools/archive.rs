//! `quarry archive list | verify | remove | flush`: what an archive of a journal has, and to which moments data can be restored with it.
//!
//! All but `flush`, which asks the server, work on the files beside a server that may be writing them. Exits with 0, with 1 when
//! something failed or is damaged.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use quarry_bson::{RawValue, doc};
use quarry_journal::archive::{History, Line, Range, Tip};
use quarry_journal::{Files, RealFiles};
use quarry_tools::Progress;

use crate::backup::address::Address;
use crate::backup::manifest::Manifest;
use crate::backup::place::Access;
use crate::backup::repository::Repository;
use crate::process::config::{ArchiveCommand, FlushArchive, RepositoryFlags};
use crate::tools::backup::{open, port};
use crate::tools::link::Link;
use crate::tools::moment::{self, time};
use crate::tools::say::say;

/// A flush waits for syncs of two disks.
const REPLY_TIME_MAX: Duration = Duration::from_secs(600);
const MB: f64 = 1e6;

type Result<T> = std::result::Result<T, String>;

/// Runs the command; the exit code of the process.
pub fn run(command: &ArchiveCommand) -> ExitCode {
    let done = match command {
        ArchiveCommand::List {
            place,
            from,
            key_file,
        } => list(&place.archive, from.as_ref(), key_file.as_deref()),
        ArchiveCommand::Verify { place } => verify(&place.archive),
        ArchiveCommand::Remove { place, from } => remove(&place.archive, from),
        ArchiveCommand::Flush(options) => flush(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("quarry archive: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The files of an archive, to be read.
pub fn files(path: &Path) -> Result<Arc<dyn Files>> {
    let opened = RealFiles::open_to_read(path);
    let files = opened.map_err(|error| format!("`{}`: {error}", path.display()))?;
    Ok(Arc::new(files))
}

fn list(path: &Path, from: Option<&Address>, key_file: Option<&Path>) -> Result<()> {
    let bad = |error: quarry_journal::Error| format!("`{}`: {error}", path.display());
    let question = |history: &History| history.lines();
    let (history, lines) = History::ask(&files(path)?, &question).map_err(bad)?;
    let identity = history.identity();
    say!(
        "database {:032x}, engine {}, {:.1} MB",
        u128::from_be_bytes(identity.database),
        identity.engine,
        history.bytes() as f64 / MB
    );
    let repository = from.map(|from| Repository::open(from, Access::Read, key_file));
    let repository = repository.transpose()?;
    for (number, line) in lines.iter().enumerate() {
        let is_latest = number + 1 == lines.len();
        let latest = if is_latest { ", the latest" } else { "" };
        say!("\nline {:016x}{latest}", line.incarnation());
        let tip = line.tip(&history);
        print_ranges(line, &history, tip);
        if let Some(repository) = &repository {
            print_restorable(repository, line, &history, tip)?;
        }
    }
    match history.lost_tip() {
        None => Ok(()),
        Some(tip) => Err(format!(
            "pieces are missing: the archive had all up to record {} of line {:016x}; `quarry archive verify` names what is missing",
            tip.lsn, tip.incarnation
        )),
    }
}

fn print_ranges(line: &Line, history: &History, tip: Option<Tip>) {
    let mut next_lsn = 1;
    for range in line.ranges(history) {
        if range.first_lsn > next_lsn {
            say!(
                "  gap: records {next_lsn} to {} are not here",
                range.first_lsn - 1
            );
        }
        say!(
            "  records {} to {}, written {} to {}",
            range.first_lsn,
            range.last_lsn,
            time(range.first_unix_ms),
            time(range.last_unix_ms),
        );
        next_lsn = range.last_lsn + 1;
    }
    if let Some(tip) = tip {
        say!(
            "  all that was acknowledged before {} is here",
            time(tip.unix_ms)
        );
    }
}

/// For each range the first backup that it goes on from.
fn print_restorable(
    repository: &Repository,
    line: &Line,
    history: &History,
    tip: Option<Tip>,
) -> Result<()> {
    let mut backups: Vec<Manifest> = Vec::new();
    for id in repository.ids()? {
        match repository.manifest(&id) {
            Ok(manifest) => backups.push(manifest),
            Err(failure) if failure.is_gone => return Err(failure.into()),
            // Nothing is restored from a damaged one.
            Err(_) => {}
        }
    }
    backups.sort_by_key(|backup| backup.lsn);
    let ranges = line.ranges(history);
    let mut has_one = false;
    for (number, range) in ranges.iter().enumerate() {
        let is_within = |backup: &Manifest| {
            let begins_before = backup.lsn + 1 >= range.first_lsn && backup.lsn <= range.last_lsn;
            match begins_before {
                true => moment::goes_on(repository, backup, line, history, range.last_lsn),
                false => Ok(false),
            }
        };
        for backup in &backups {
            match is_within(backup) {
                Ok(true) => {
                    has_one = true;
                    let tip = tip.filter(|_| number + 1 == ranges.len());
                    print_reach(backup, range, tip);
                    break;
                }
                Err(failure) if failure.is_gone => return Err(failure.into()),
                Ok(false) | Err(_) => {}
            }
        }
    }
    if !has_one {
        say!("  nothing can be restored: no backup of the repository goes on in this line");
    }
    Ok(())
}

fn print_reach(first: &Manifest, range: &Range, tip: Option<Tip>) {
    let until = tip.map_or(range.last_unix_ms, |tip| tip.unix_ms);
    say!(
        "  can be restored to any moment from {} (record {}, backup {}) to {} (record {})",
        time(first.made_unix_ms),
        first.lsn,
        first.id,
        time(until),
        range.last_lsn,
    );
}

fn verify(path: &Path) -> Result<()> {
    let history = History::read(files(path)?);
    let history = history.map_err(|error| format!("`{}`: {error}", path.display()))?;
    let progress = Progress::of_bytes("verifying", Some(history.bytes()));
    let damages = history.verify(&mut |bytes| progress.add(bytes, 0));
    drop(progress);
    for damage in &damages {
        say!("{damage}");
    }
    match damages.len() {
        0 => {
            say!("whole, {:.1} MB", history.bytes() as f64 / MB);
            Ok(())
        }
        count => Err(format!("{count} damaged")),
    }
}

/// Removes what comes before the oldest backup.
fn remove(path: &Path, from: &RepositoryFlags) -> Result<()> {
    let bad = |why: &dyn std::fmt::Display| format!("`{}`: {why}", path.display());
    let repository = open(from, Access::Read)?;
    let history = History::read(files(path)?).map_err(|error| bad(&error))?;
    let mut oldest = None;
    for id in repository.ids()? {
        // One that cannot be read may need any of it, and the record numbers of another database say nothing here.
        let backup = repository.manifest(&id)?;
        if moment::identity_of(&repository, &backup)?.as_ref() != Some(history.identity()) {
            return Err(format!(
                "backup `{id}` is not one of the database whose archive this is: nothing was removed"
            ));
        }
        oldest = Some(oldest.map_or(backup.lsn, |oldest: u64| oldest.min(backup.lsn)));
    }
    let oldest = oldest.ok_or("the repository holds no backup: nothing was removed")?;
    let writable = RealFiles::open_beside(path).map_err(|error| bad(&error))?;
    let freed = history.remove_before(&writable, oldest);
    let freed = freed.map_err(|error| bad(&error))?;
    say!(
        "{:.1} MB free: what comes before record {oldest}",
        freed as f64 / MB
    );
    Ok(())
}

fn flush(options: &FlushArchive) -> Result<()> {
    let port = port(&options.dbpath)?;
    let place = format!("{}:{port}", options.host);
    let failed = |error: std::io::Error| format!("{place}: {error}");
    let mut link =
        Link::open(&options.host, port, REPLY_TIME_MAX, &options.login).map_err(failed)?;
    let reply = link
        .run(&doc! { "flushJournalArchive": 1 })
        .map_err(failed)?;
    let lsn = reply.get_i64("lsn").unwrap_or_default();
    match reply.get("archivedTime") {
        Some(RawValue::Timestamp(time)) => say!(
            "archived up to record {lsn}, and all up to cluster time {},{}",
            time.time,
            time.increment
        ),
        _ => say!("archived up to record {lsn}"),
    }
    Ok(())
}
