//! `quarry journal verify | dump | truncate | renew`: the journal of a data directory, looked at, cut or begun anew by a person
//! (the last in `journal_renewal`).
//!
//! Works on a directory that no server uses: the journal's lock sees to that. `verify` and `dump` change nothing.
//! Exits with 0, with 1 when the journal is damaged or cannot be cut there, with mongod's code for a data directory
//! that cannot be used. What records mean is not shown: that is the database's.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use quarry_journal::inspect::{self, BehindGap, DumpedGroup, Verified};
use quarry_journal::{Error, Files, GroupFormat, RealFiles, Stamp};
use quarry_storage::creation::holds_a_store;

use crate::process::config::{EXIT_DATA_DIRECTORY, EngineName, JournalCommand, JournalPlace};
use crate::process::data_directory::{RESTORE_CUT_OFF, RESTORING_FILE};
use crate::process::{encryption, engine};
use crate::tools::journal_renewal;

/// The journal is damaged, or what was asked for cannot be done to it.
pub(super) const EXIT_REFUSED: u8 = 1;

/// A line for the standard error and an exit code.
pub(super) struct Failure {
    pub line: String,
    pub code: u8,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            line: error.to_string(),
            code: EXIT_REFUSED,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure {
            line: format!("standard output: {error}"),
            code: EXIT_REFUSED,
        }
    }
}

/// Runs the command with its output on the standard output.
pub fn run(command: &JournalCommand) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match command {
        JournalCommand::Verify { place } => {
            open_whole(place).and_then(|files| verify(&*files, &place.dbpath, &mut out))
        }
        JournalCommand::Dump {
            place,
            from,
            limit,
            records,
        } => open(place).and_then(|files| dump(&*files, *from, *limit, *records, &mut out)),
        JournalCommand::Truncate {
            place,
            after,
            over_gap,
        } => {
            let behind_gap = match over_gap {
                true => BehindGap::GiveUp,
                false => BehindGap::Keep,
            };
            open(place).and_then(|files| truncate(&*files, *after, behind_gap, &mut out))
        }
        JournalCommand::Renew {
            place,
            engine,
            accept_loss,
        } => journal_renewal::renew(place, *engine, *accept_loss, &mut out),
    };
    match done.and_then(|()| flush(&mut out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = out.flush();
            eprintln!("quarry journal: {}", failure.line);
            ExitCode::from(failure.code)
        }
    }
}

/// The journal's files, locked, with the key that opens them. A directory that is not there is an error, not made.
fn open(place: &JournalPlace) -> Result<Arc<dyn Files>, Failure> {
    let path = place.dbpath.join("journal");
    let bad = |why: &dyn std::fmt::Display| Failure {
        line: format!("journal directory `{}`: {why}", path.display()),
        code: EXIT_DATA_DIRECTORY,
    };
    if !path.is_dir() {
        return Err(bad(&"there is none"));
    }
    let files = RealFiles::open(&path).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => bad(&"in use by another process"),
        _ => bad(&error),
    })?;
    let key = encryption::key_of(&place.dbpath, &place.key).map_err(|why| Failure {
        line: format!("data directory `{}`: {why}", place.dbpath.display()),
        code: EXIT_DATA_DIRECTORY,
    })?;
    Ok(encryption::journal_files(files, key.as_ref()))
}

/// Like [`open`], but of a directory that a restore was cut off in that is said: its journal may be missing, or end anywhere.
fn open_whole(place: &JournalPlace) -> Result<Arc<dyn Files>, Failure> {
    match place.dbpath.join(RESTORING_FILE).exists() {
        true => Err(Failure {
            line: format!(
                "data directory `{}`: {RESTORE_CUT_OFF}",
                place.dbpath.display()
            ),
            code: EXIT_DATA_DIRECTORY,
        }),
        false => open(place),
    }
}

fn verify(files: &dyn Files, dbpath: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let verified = inspect::verify(files)?;
    let Some(first) = verified.segments.first() else {
        let of_engine = |engine: &EngineName| holds_a_store(&dbpath.join(engine.as_str()));
        return match engine::available().find(of_engine) {
            Some(engine) => Err(missing(engine)),
            None => Ok(writeln!(out, "the journal has no segments")?),
        };
    };
    let identity = &first.header.identity;
    writeln!(out, "database {}", uuid(&identity.database))?;
    writeln!(out, "engine   {}", identity.engine)?;
    writeln!(
        out,
        "\n{:<20} {:>11} {:>11} {:>9} {:>10} {:>10} {:>10}  made",
        "segment", "incarnation", "bytes", "groups", "records", "first LSN", "last LSN"
    )?;
    for segment in &verified.segments {
        writeln!(
            out,
            "{:<20} {:>11} {:>11} {:>9} {:>10} {:>10} {:>10}  {}",
            segment.name,
            segment.header.incarnation_number(),
            segment.header.segment_bytes,
            segment.groups,
            segment.records,
            segment.first_lsn,
            segment.last_lsn,
            time(segment.header.created_unix_ms),
        )?;
    }
    Ok(writeln!(out, "\n{}", summary(&verified))?)
}

/// The journal of an engine's data is gone as a whole.
fn missing(engine: EngineName) -> Failure {
    Failure {
        line: format!(
            "the journal has no segments, and there is data of the engine `{}`, which a server does not open without them",
            engine.as_str()
        ),
        code: EXIT_REFUSED,
    }
}

fn summary(verified: &Verified) -> String {
    let records = match verified.last_lsn {
        0 => "no records".to_owned(),
        last_lsn => format!("records {} to {last_lsn}", verified.first_lsn),
    };
    let end = if verified.is_closed {
        "closed, all of it durable".to_owned()
    } else if verified.is_unplaced {
        format!(
            "no segment says where the log begins; a start goes on behind what the engine holds, which must reach to record {}",
            verified.durable_lsn
        )
    } else {
        format!(
            "not closed, known durable up to {}; a start cuts what lies behind the end",
            verified.durable_lsn
        )
    };
    let Stamp {
        term,
        index,
        digest,
        ..
    } = verified.stamp;
    format!(
        "the chain is whole: {records}, end in `{}` at offset {}\n{end}\n\
         {index} groups since the history began, term {term}, digest {digest:016x}",
        verified.end_segment, verified.end_offset
    )
}

fn dump(
    files: &dyn Files,
    from_lsn: u64,
    limit: Option<u64>,
    with_records: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut printed = Ok(());
    inspect::dump(files, from_lsn, &mut |group| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        left -= 1;
        printed = print_group(group, with_records, out);
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    match printed {
        // `quarry journal dump | head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

fn print_group(group: &DumpedGroup<'_>, with_records: bool, out: &mut dyn Write) -> io::Result<()> {
    let header = &group.header;
    write!(out, "{} {:>9}  ", group.segment, group.offset)?;
    match header.count {
        0 => write!(out, "mark")?,
        1 => write!(out, "record {}", header.first_lsn)?,
        _ => write!(
            out,
            "records {} to {}",
            header.first_lsn,
            header.next_lsn() - 1
        )?,
    }
    if header.format == GroupFormat::Sealed {
        write!(out, ", encrypted")?;
    }
    if header.plain_bytes > 0 {
        write!(out, ", {} bytes with LZ4", header.plain_bytes)?;
    }
    write!(
        out,
        ", {} bytes, durable up to {}, incarnation {}, {}",
        header.group_bytes(),
        header.durable_lsn,
        header.incarnation >> 32,
        time(header.unix_ms)
    )?;
    let stamp = header.stamp;
    match header.format {
        GroupFormat::One => writeln!(out)?,
        GroupFormat::Two | GroupFormat::Sealed => writeln!(
            out,
            ", group {} of term {}, cluster time ({}, {}), digest {:016x}",
            stamp.index,
            stamp.term,
            stamp.cluster_time >> 32,
            stamp.cluster_time & 0xffff_ffff,
            stamp.digest
        )?,
    }
    if with_records {
        for (lsn, payload) in &group.payloads {
            write!(out, "  {lsn} {} ", payload.len())?;
            for byte in payload {
                write!(out, "{byte:02x}")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn truncate(
    files: &dyn Files,
    last_lsn: u64,
    behind_gap: BehindGap,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let kept = inspect::truncate(files, last_lsn, behind_gap).map_err(|error| match error {
        Error::PositionMoved { next_lsn: 1, .. } => Failure {
            line: format!("no group ends at record {last_lsn}, nor before it; nothing was changed"),
            code: EXIT_REFUSED,
        },
        Error::PositionMoved { next_lsn, .. } => Failure {
            line: format!(
                "no group ends at record {last_lsn}; the last one before it ends at record {}; nothing was changed",
                next_lsn - 1
            ),
            code: EXIT_REFUSED,
        },
        error => error.into(),
    })?;
    Ok(writeln!(
        out,
        "the log now ends at record {last_lsn}: {kept} groups are kept"
    )?)
}

fn flush(out: &mut dyn Write) -> Result<(), Failure> {
    match out.flush() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        flushed => Ok(flushed?),
    }
}

fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn time(unix_ms: u64) -> String {
    let since = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(since) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{unix_ms} ms since 1970"),
    }
}
