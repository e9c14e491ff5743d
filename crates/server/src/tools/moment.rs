//! The moment that a restore goes on to: how it is written, the place in the archive that it names, and the backup that the way
//! to it begins with.

use quarry_journal::archive::{Cut, History, Line, Moment, Tip};
use quarry_journal::{Identity, SegmentHeader, inspect};

use crate::backup::manifest::{BackedUpFile, CHUNK_BYTES, Manifest};
use crate::backup::repository::{Failure, Repository, chunk_bytes};
use crate::process::config::RestoreMoment;
use crate::process::engine::JOURNAL;

type Result<T> = std::result::Result<T, String>;

/// The first chunk of a segment has its header.
const _: () = assert!(CHUNK_BYTES >= 4096);

/// Where a restore goes to, and which way.
pub struct Way {
    pub history: History,
    pub line: Line,
    pub cut: Cut,
}

/// The moment that the flags name; none where they name none.
pub fn parse(options: &RestoreMoment) -> Result<Option<Moment>> {
    if let Some(lsn) = options.to_lsn {
        return Ok(Some(Moment::Lsn(lsn)));
    }
    if let Some(text) = &options.to_timestamp {
        let parts = text.split_once(',');
        let number = |part: &str| part.trim().parse::<u32>().ok();
        let time = parts.and_then(|(seconds, count)| Some((number(seconds)?, number(count)?)));
        let (seconds, count) =
            time.ok_or_else(|| format!("to-timestamp: `{text}` is not of the form SECONDS,COUNT"))?;
        return Ok(Some(Moment::ClusterTime(
            u64::from(seconds) << 32 | u64::from(count),
        )));
    }
    match options.to.as_deref() {
        None => Ok(None),
        Some("latest") => Ok(Some(Moment::Latest)),
        Some(text) => {
            let time = text.parse::<jiff::Timestamp>();
            let time = time.map_err(|error| format!("to: `{text}` is no time: {error}"))?;
            let ms = u64::try_from(time.as_millisecond());
            let ms = ms.map_err(|_| format!("to: `{text}` is before 1970"))?;
            Ok(Some(Moment::UnixMs(ms)))
        }
    }
}

/// Looks the moment up in the archive.
pub fn find(
    files: &std::sync::Arc<dyn quarry_journal::Files>,
    moment: Moment,
    name: Option<&str>,
) -> Result<Way> {
    let question = |history: &History| -> quarry_journal::Result<Option<(Line, Cut)>> {
        let lines = history.lines()?;
        let name_of = |line: &Line| format!("{:016x}", line.incarnation());
        let wanted = match name {
            Some(name) => lines.into_iter().find(|line| name_of(line) == name),
            None => lines.into_iter().next_back(),
        };
        let Some(line) = wanted else {
            return Ok(None);
        };
        let cut = line.cut_at(history, moment)?;
        Ok(Some((line, cut)))
    };
    let found = History::ask(files, &question).map_err(|error| error.to_string())?;
    let (history, Some((line, cut))) = found else {
        return Err(match name {
            Some(name) => format!("the archive has no line `{name}`"),
            None => "the archive has no records yet".into(),
        });
    };
    refuse_uncertain(&history, &line, &cut, moment, name.is_some())?;
    Ok(Way { history, line, cut })
}

/// Refuses a place in a line that is not what the moment means, or of which that is not known.
fn refuse_uncertain(
    history: &History,
    line: &Line,
    cut: &Cut,
    moment: Moment,
    is_named: bool,
) -> Result<()> {
    if let Some(first_lsn) = cut.gap_ends_before {
        return Err(format!(
            "that moment is in a gap of the archive: records {} to {} are missing, and nobody can say which of them come before it",
            cut.lsn + 1,
            first_lsn - 1
        ));
    }
    let ends_too_early = |tip: &Tip| {
        let is_tips = line.incarnation() == tip.incarnation;
        let is_behind_end = moment == Moment::Latest || !cut.is_certain;
        // The latest line that is there may be another one than that which was.
        match is_tips {
            true => is_behind_end,
            false => !is_named,
        }
    };
    if let Some(tip) = history.lost_tip().filter(ends_too_early) {
        return Err(format!(
            "pieces of the archive are missing: it had all up to record {} of line {:016x}; `quarry archive verify` names what is missing, and `--line {:016x}` with `--to-lsn {}` restores what is there of this line",
            tip.lsn,
            tip.incarnation,
            line.incarnation(),
            line.ranges(history)
                .last()
                .map_or(0, |range| range.last_lsn)
        ));
    }
    if let Some(last_lsn) = cut.group_ends_at {
        return Err(format!(
            "that record is one of a group, which a restore takes as a whole: `--to-lsn {}` ends before the group, `--to-lsn {last_lsn}` behind it",
            cut.lsn
        ));
    }
    if !cut.is_certain {
        return Err(format!(
            "the archive ends at record {}: nobody can say what was written between it and that moment; `--to latest` takes all that is there",
            cut.lsn
        ));
    }
    Ok(())
}

/// The latest backup that the way to the moment goes on from; only that with the name, if one is given.
pub fn backup_before(repository: &Repository, way: &Way, id: Option<&str>) -> Result<Manifest> {
    let ids = match id {
        Some(id) => vec![id.to_owned()],
        None => repository.ids()?,
    };
    let mut backups = Vec::new();
    for id in &ids {
        match repository.manifest(id) {
            Ok(manifest) => backups.push(manifest),
            // A damaged one stands in the way of nothing but itself.
            Err(failure) if ids.len() == 1 || failure.is_gone => return Err(failure.into()),
            Err(why) => eprintln!("quarry restore: {why}"),
        }
    }
    backups.sort_by_key(|backup| std::cmp::Reverse(backup.lsn));
    for backup in backups.into_iter().filter(|it| it.lsn <= way.cut.lsn) {
        match goes_on(repository, &backup, &way.line, &way.history, way.cut.lsn) {
            Ok(true) => return Ok(backup),
            Ok(false) => {}
            Err(failure) if ids.len() == 1 || failure.is_gone => return Err(failure.into()),
            Err(why) => eprintln!("quarry restore: backup `{}`: {why}", backup.id),
        }
    }
    Err(format!(
        "no backup leads to record {}: each is later, of another history, or a gap of the archive lies between",
        way.cut.lsn
    ))
}

/// Whether the line goes on from the end of the backup to `cut_lsn` without a gap.
pub fn goes_on(
    repository: &Repository,
    backup: &Manifest,
    line: &Line,
    history: &History,
    cut_lsn: u64,
) -> std::result::Result<bool, Failure> {
    let segments = segments_of(repository, backup).collect::<std::result::Result<Vec<_>, _>>();
    let mut segments = segments?;
    segments.sort_by_key(|header| header.sequence);
    let is_of_database = segments
        .iter()
        .all(|header| header.identity == *history.identity());
    Ok(is_of_database && line.goes_on_from(history, &segments, backup.lsn, cut_lsn))
}

/// The database and the engine of a backup, as its journal names them; none where it has no journal.
pub fn identity_of(
    repository: &Repository,
    backup: &Manifest,
) -> std::result::Result<Option<Identity>, Failure> {
    let first = segments_of(repository, backup).next().transpose()?;
    Ok(first.map(|header| header.identity))
}

/// The headers of the journal's segments that the backup has.
fn segments_of(
    repository: &Repository,
    backup: &Manifest,
) -> impl Iterator<Item = std::result::Result<SegmentHeader, Failure>> {
    let is_segment =
        |file: &&BackedUpFile| file.name.starts_with(JOURNAL) && file.name.ends_with(".segment");
    let segments = backup.files.iter().filter(is_segment);
    let with_chunk = segments.filter_map(|file| Some((file, *file.chunks.first()?)));
    with_chunk.map(|(file, chunk)| {
        let bytes = repository.chunk(chunk, chunk_bytes(file.bytes, 0))?;
        let header = inspect::segment_header(&file.name, &bytes);
        Ok(header.map_err(|error| error.to_string())?)
    })
}

/// A moment as people read it.
pub fn time(unix_ms: u64) -> String {
    let since = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(since) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{unix_ms} ms since 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_nonsense_is_refused() {
        let of = |to: Option<&str>, timestamp: Option<&str>| {
            parse(&RestoreMoment {
                to: to.map(str::to_owned),
                to_timestamp: timestamp.map(str::to_owned),
                ..RestoreMoment::default()
            })
        };
        assert_eq!(of(None, None), Ok(None));
        assert_eq!(of(Some("latest"), None), Ok(Some(Moment::Latest)));
        let ms = 1_764_331_200_123;
        let text = "2025-11-28T12:00:00.123Z";
        assert_eq!(of(Some(text), None), Ok(Some(Moment::UnixMs(ms))));
        let text = "2025-11-28T14:00:00.1239+02:00";
        assert_eq!(of(Some(text), None), Ok(Some(Moment::UnixMs(ms))));
        assert_eq!(
            of(None, Some("7, 3")),
            Ok(Some(Moment::ClusterTime(7 << 32 | 3)))
        );
        for bad in ["noon", "2025-11-28", "1960-01-01T00:00:00Z"] {
            assert!(of(Some(bad), None).is_err(), "{bad}");
        }
        for bad in ["7", "7,x", "4294967296,1"] {
            assert!(of(None, Some(bad)).is_err(), "{bad}");
        }
    }
}
