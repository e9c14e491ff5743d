//! Recovery: everything that happens at open, before the first write. Kept true:
//! - damage at or below the highest durable mark refuses, naming segment and offset, and changes nothing;
//! - the tail above it is cut: zeroed, later segments taken out, all of it synced before anything is applied;
//! - everything kept that was not durable is written again and synced before it is applied, so the engine never gets
//!   ahead of the journal, and no sync that failed before is believed (`tail`);
//! - a gap in the sequence is damage, unless the engine has all that was in it: then what stands before the gap could not be
//!   freed, and is;
//! - no position that is read is counted on from before it is known to be possible (`LSN_MAX`);
//! - a segment has its whole length before it has its name: a shorter file lost its end, durable or not, and is refused;
//! - the replay, which reads once more, ends where the chain did, or the start fails;
//! - segments wholly below the engine's applied LSN are not read (`inspect::verify` reads all), if what comes behind says that
//!   they are durable;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::chain::{ChainEnd, Link, Visited, scanner, walk, walk_from};
use crate::error::{Error, Result};
use crate::files::{Files, read_full_at};
use crate::group_header::{GroupFormat, GroupHeader};
use crate::hooks::Hooks;
use crate::options::{Identity, LSN_MAX};
use crate::segment::{IncarnationStart, OpenSegment, Segment, segment_name, segment_sequence};
use crate::segment_header::{SEGMENT_HEADER_USED_BYTES, SegmentHeader};
use crate::segments::discard;
use crate::stamp::Stamp;
use crate::tail::{check_tail, cut, damage_at_end, first_unsynced};

/// A journal that is whole and synced, what is to be replayed of it, and what its next life must use.
pub(crate) struct Recovered {
    pub segments: Vec<Arc<Segment>>,
    pub next_sequence: u64,
    pub incarnation_number: u32,
    pub start: IncarnationStart,
    replay: Option<Replay>,
}

/// The groups that the engine misses, from one of them on.
struct Replay {
    begin: Place,
    applied_lsn: u64,
    /// The LSN of the last record in them.
    last_lsn: u64,
}

/// Where a group of the chain stands.
struct Place {
    /// The number of its segment.
    segment: usize,
    offset: u64,
    link: Link,
}

/// Finds where the journal ends, and has it end there durably. Applies nothing.
pub(crate) fn recover(
    files: &dyn Files,
    identity: &Identity,
    must_exist: bool,
    applied_lsn: u64,
    hooks: &dyn Hooks,
    unix_ms: u64,
) -> Result<Recovered> {
    if applied_lsn > LSN_MAX {
        return Err(Error::HistoryMissing {
            needed_lsn: applied_lsn.saturating_add(1),
            first_lsn: 0,
        });
    }
    let (mut segments, unfreed) = open_needed(files, identity, applied_lsn)?;
    if segments.is_empty() {
        return fresh(must_exist, applied_lsn);
    }
    let newest = segments
        .iter()
        .map(|segment| segment.header.incarnation_number())
        .max();
    let needed_from = first_needed(files, &segments, applied_lsn)?;
    let Chain {
        begin,
        missed,
        last_lsn,
        end,
        durable_lsn,
    } = follow_chain(files, &segments, needed_from, applied_lsn, hooks)?;
    let ended_lsn = end.link.next_lsn - 1;
    cut(files, &mut segments, begin, &end, durable_lsn)?;
    let begun_last = segments.last().map(|segment| segment.header.clone());
    let end_lsn = drop_empty_last(files, &mut segments, ended_lsn)?;
    for name in unfreed {
        // What stays is met by the next start again.
        let _ = discard(files, &name);
    }
    let first_lsn = end_lsn.max(applied_lsn) + 1;
    let stamp = end.link.stamp.unwrap_or_default();
    let last = segments.last().map_or(0, |segment| segment.header.sequence);
    Ok(Recovered {
        segments,
        next_sequence: last + 1,
        incarnation_number: newest.unwrap_or(0).wrapping_add(1),
        start: IncarnationStart {
            first_lsn,
            previous_end_lsn: end_lsn,
            cluster_time_min: lowest_time(first_lsn, end_lsn, stamp, begun_last.as_ref(), unix_ms),
            stamp,
        },
        replay: missed.map(|begin| Replay {
            begin,
            applied_lsn,
            last_lsn,
        }),
    })
}

/// The last record that a start goes on behind, from an engine at `applied_lsn`; none where there is no segment. Changes nothing,
/// and fails as the start does.
pub(crate) fn end_of_start(
    files: &dyn Files,
    identity: &Identity,
    applied_lsn: u64,
    hooks: &dyn Hooks,
) -> Result<Option<u64>> {
    let (segments, _) = open_needed(files, identity, applied_lsn)?;
    if segments.is_empty() {
        return Ok(None);
    }
    let needed_from = first_needed(files, &segments, applied_lsn)?;
    let chain = follow_chain(files, &segments, needed_from, applied_lsn, hooks)?;
    Ok(Some(chain.end.link.next_lsn - 1))
}

/// The lowest cluster time of what is written behind `previous_end_lsn`, if `stamp` does not say it: 0 if it does.
///
/// Records that only the engine has left no times behind. Those rose by one each from `stamp` or from the end of an earlier gap on,
/// or were those of the system's clock, which has gone on since. A clock that was set back meanwhile is not seen here, nor is a
/// time that a client brought from elsewhere.
fn lowest_time(
    first_lsn: u64,
    previous_end_lsn: u64,
    stamp: Stamp,
    begun_last: Option<&SegmentHeader>,
    unix_ms: u64,
) -> u64 {
    let earlier_gap = begun_last.and_then(|header| Some((header.first_lsn, header.gap_ends_at()?)));
    let (goes_on_at, ends_at) = earlier_gap.unwrap_or_default();
    match first_lsn - 1 - previous_end_lsn {
        // Nothing was written behind an earlier gap, or lost: whoever waits there goes on.
        0 if ends_at > stamp.cluster_time => ends_at,
        0 => 0,
        _ if goes_on_at == first_lsn => ends_at,
        lost => {
            let counted = ends_at.max(stamp.cluster_time).saturating_add(lost);
            stamp.cluster_time_at(unix_ms.saturating_add(1000), counted)
        }
    }
}

/// The chain of groups that a start finds.
struct Chain {
    /// The segment that it was followed from.
    begin: usize,
    /// The first group that the engine does not have.
    missed: Option<Place>,
    /// The LSN of the last record in the chain; 0 if it has none.
    last_lsn: u64,
    end: ChainEnd,
    /// Everything up to here is known to be durable.
    durable_lsn: u64,
}

/// Follows the chain from a segment on. If nothing says that all before that segment is durable, then from the one on behind
/// which nothing says so: an engine that is ahead of the journal needs none of it, and a power loss may have
/// taken the end of one segment and left the beginning of the next.
fn follow_chain(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    mut begin: usize,
    applied_lsn: u64,
    hooks: &dyn Hooks,
) -> Result<Chain> {
    loop {
        check_lengths(&segments[begin..])?;
        let link = initial_link(files, &segments[begin], applied_lsn)?;
        let mut marked_lsn = 0;
        let (mut missed, mut last_lsn) = (None, 0);
        let mut note = |segment: &Segment, offset, header: &GroupHeader, _: Visited<'_>| {
            check_wanted(hooks)?;
            segment.note_group(header, offset);
            marked_lsn = header.durable_lsn.max(marked_lsn);
            last_lsn = header.next_lsn() - 1;
            if missed.is_none() && header.next_lsn() > applied_lsn + 1 {
                missed = Some((segment.header.sequence, offset, Link::inside(header)));
            }
            Ok(())
        };
        let end = walk(files, &segments[begin..], link, &mut note)?;
        let known_lsn = durable_lsn(&segments[..=begin + end.index], marked_lsn);
        let earlier = first_unsynced(&segments[..=begin], known_lsn);
        if earlier < begin {
            begin = earlier;
            continue;
        }
        check_gaps(&segments[begin..], applied_lsn)?;
        check_tail(files, &segments[begin..], &end)?;
        let missed = missed.map(|(sequence, offset, link)| Place {
            segment: segments.partition_point(|segment| segment.header.sequence < sequence),
            offset,
            link,
        });
        return Ok(Chain {
            begin,
            missed,
            last_lsn,
            durable_lsn: known_lsn.min(end.link.next_lsn - 1),
            end,
        });
    }
}

/// Up to where a successful sync is known: from the mark of a group, or because an incarnation began behind it.
fn durable_lsn(segments: &[Arc<Segment>], marked_lsn: u64) -> u64 {
    let headers = segments.iter().map(|segment| &segment.header);
    let begun = headers.filter(|header| header.begins_incarnation());
    let ended_lsn = begun.map(|header| header.previous_end_lsn).max();
    marked_lsn.max(ended_lsn.unwrap_or(0))
}

/// The segments that a start looks at, and the names of those that it does not need and that are cut off from them by a
/// gap in the sequence: a life that could not free a segment and freed the one behind it leaves that.
fn open_needed(
    files: &dyn Files,
    identity: &Identity,
    applied_lsn: u64,
) -> Result<(Vec<Arc<Segment>>, Vec<String>)> {
    let mut named = named_segments(files)?;
    let after_gap = named
        .windows(2)
        .rposition(|pair| pair[1].0 != pair[0].0 + 1)
        .map_or(0, |before| before + 1);
    if after_gap > 0 {
        let behind = open_prefix(files, Some(identity), &named[after_gap..])?;
        let begins_at = match behind.damage {
            None => first_known(files, &behind.segments)?,
            Some(_) => None,
        };
        if begins_at.is_some_and(|first_lsn| first_lsn <= applied_lsn + 1) {
            named.truncate(after_gap);
            let unfreed = named.into_iter().map(|(_, name)| name).collect();
            return Ok((behind.segments, unfreed));
        }
    }
    let prefix = open_prefix(files, Some(identity), &named)?;
    (prefix.damage).map_or(Ok((prefix.segments, Vec::new())), Err)
}

/// The first LSN that any of the segments says that it begins with.
fn first_known(files: &dyn Files, segments: &[Arc<Segment>]) -> Result<Option<u64>> {
    for segment in segments {
        if let Some(beginning) = beginning(files, segment)? {
            return Ok(Some(beginning.first_lsn));
        }
    }
    Ok(None)
}

/// An opening that nobody waits for any more ends where it is: the next one begins again.
fn check_wanted(hooks: &dyn Hooks) -> Result<()> {
    match hooks.gives_up() {
        true => Err(Error::Closed),
        false => Ok(()),
    }
}

fn fresh(must_exist: bool, applied_lsn: u64) -> Result<Recovered> {
    if must_exist || applied_lsn > 0 {
        return Err(Error::HistoryMissing {
            needed_lsn: applied_lsn + 1,
            first_lsn: 0,
        });
    }
    Ok(Recovered {
        segments: Vec::new(),
        next_sequence: 1,
        incarnation_number: 1,
        start: IncarnationStart {
            first_lsn: 1,
            ..IncarnationStart::default()
        },
        replay: None,
    })
}

/// Opens every segment in order and checks headers: identity (if one is asked for), place, no gap.
pub(crate) fn open_segments(
    files: &dyn Files,
    identity: Option<&Identity>,
) -> Result<Vec<Arc<Segment>>> {
    let prefix = open_prefix(files, identity, &named_segments(files)?)?;
    prefix.damage.map_or(Ok(prefix.segments), Err)
}

/// The segments up to the first that cannot be one of this journal.
pub(crate) struct Prefix {
    pub segments: Vec<Arc<Segment>>,
    pub damage: Option<Error>,
    /// The names of the other ones, in order.
    pub rest: Vec<String>,
}

/// Sequences and names, in order.
pub(crate) fn named_segments(files: &dyn Files) -> Result<Vec<(u64, String)>> {
    let entries = files.list().map_err(|e| Error::io("list", "journal", &e))?;
    let named = entries.into_iter().map(|entry| entry.name);
    let mut named: Vec<_> = named
        .filter_map(|name| segment_sequence(&name).map(|sequence| (sequence, name)))
        .collect();
    named.sort();
    Ok(named)
}

pub(crate) fn open_prefix(
    files: &dyn Files,
    identity: Option<&Identity>,
    named: &[(u64, String)],
) -> Result<Prefix> {
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(named.len());
    let mut damage = None;
    for (sequence, name) in named {
        let before = segments.last().map(|before| before.header.sequence);
        match open_next(files, name, *sequence, before, identity) {
            Ok(segment) => segments.push(Arc::new(segment)),
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    let rest = named[segments.len()..]
        .iter()
        .map(|(_, name)| name.clone())
        .collect();
    Ok(Prefix {
        segments,
        damage,
        rest,
    })
}

fn open_next(
    files: &dyn Files,
    name: &str,
    sequence: u64,
    before: Option<u64>,
    identity: Option<&Identity>,
) -> Result<Segment> {
    match before {
        Some(before) if before + 1 != sequence => Err(Error::Damaged {
            segment: segment_name(before + 1),
            offset: 0,
            reason: "the segment is missing".to_owned(),
        }),
        _ => open_segment(files, name, sequence, identity),
    }
}

/// Whether each file is as long as its header says.
pub(crate) fn check_lengths(segments: &[Arc<Segment>]) -> Result<()> {
    for segment in segments {
        if segment.bytes < segment.header.segment_bytes {
            return Err(Error::Damaged {
                segment: segment.name.clone(),
                offset: segment.bytes,
                reason: format!(
                    "the file ends here instead of at {}",
                    segment.header.segment_bytes
                ),
            });
        }
    }
    Ok(())
}

fn open_segment(
    files: &dyn Files,
    name: &str,
    sequence: u64,
    identity: Option<&Identity>,
) -> Result<Segment> {
    let file = files.open(name).map_err(|e| Error::io("open", name, &e))?;
    let mut bytes = [0; SEGMENT_HEADER_USED_BYTES];
    let filled = read_full_at(&*file, &mut bytes, 0).map_err(|e| Error::io("read", name, &e))?;
    let (header, crc) = SegmentHeader::decode(name, &bytes[..filled])?;
    check_sealed(files, name, &header)?;
    if let Some(identity) = identity {
        check_identity(name, &header.identity, identity)?;
    }
    if header.sequence != sequence {
        return Err(Error::Damaged {
            segment: name.to_owned(),
            offset: 64,
            reason: format!("the file holds segment {} of the journal", header.sequence),
        });
    }
    // What a header claims is not asked of the memory: no group lies behind the end of the file.
    let file_bytes = file.len().map_err(|e| Error::io("measure", name, &e))?;
    let bytes = header.segment_bytes.min(file_bytes);
    Ok(Segment::new(name.to_owned(), header, crc, bytes))
}

/// A journal is sealed as a whole or not at all.
fn check_sealed(files: &dyn Files, name: &str, header: &SegmentHeader) -> Result<()> {
    let is_sealed = header.format == GroupFormat::Sealed;
    let reason = match (is_sealed, files.seal()) {
        (true, None) => "it is encrypted, and no key was given",
        (false, Some(_)) => "it is not encrypted, and a key was given",
        (true, Some(_)) | (false, None) => return Ok(()),
    };
    Err(Error::ForeignJournal {
        segment: name.to_owned(),
        reason: reason.to_owned(),
    })
}

fn check_identity(name: &str, found: &Identity, expected: &Identity) -> Result<()> {
    let reason = if found.database != expected.database {
        "it carries another database UUID".to_owned()
    } else if found.engine != expected.engine {
        format!(
            "it was written with engine `{}`, not `{}`",
            found.engine, expected.engine
        )
    } else {
        return Ok(());
    };
    Err(Error::ForeignJournal {
        segment: name.to_owned(),
        reason,
    })
}

/// The last segment that begins at or below the record needed next. Everything before it is applied.
fn first_needed(files: &dyn Files, segments: &[Arc<Segment>], applied_lsn: u64) -> Result<usize> {
    let needed_lsn = applied_lsn + 1;
    let mut first_known = None;
    let mut begin = None;
    for (index, segment) in segments.iter().enumerate() {
        let Some(Beginning {
            first_lsn,
            unix_ms,
            cluster_time,
        }) = beginning(files, segment)?
        else {
            continue;
        };
        (segment.first_cluster_time).store(cluster_time, Ordering::Relaxed);
        if let Some(before) = index.checked_sub(1) {
            // Not before its last group, and close enough for the age of what is kept.
            segments[before]
                .last_unix_ms
                .store(unix_ms, Ordering::Relaxed);
        }
        first_known.get_or_insert(first_lsn);
        if segment.first_lsn.load(Ordering::Relaxed) == 0 {
            segment.first_lsn.store(first_lsn, Ordering::Relaxed);
        }
        if first_lsn <= needed_lsn {
            begin = Some(index);
        }
    }
    let begin = match (begin, first_known) {
        (Some(begin), _) => begin,
        // No segment says where it begins: all groups of an only segment were lost unsynced.
        (None, None) => 0,
        (None, Some(first_lsn)) => {
            return Err(Error::HistoryMissing {
                needed_lsn,
                first_lsn,
            });
        }
    };
    for pair in segments[..=begin].windows(2) {
        let last_lsn = pair[1].first_lsn.load(Ordering::Relaxed).saturating_sub(1);
        pair[0].last_lsn.store(last_lsn, Ordering::Relaxed);
    }
    Ok(begin)
}

/// The positions that a segment begins with.
struct Beginning {
    first_lsn: u64,
    unix_ms: u64,
    /// No record of the segment has a lower one.
    cluster_time: u64,
}

/// The positions that a segment begins with, if its header or its first group says.
fn beginning(files: &dyn Files, segment: &Arc<Segment>) -> Result<Option<Beginning>> {
    let header = &segment.header;
    if header.begins_incarnation() {
        return Ok(Some(Beginning {
            first_lsn: header.first_lsn,
            unix_ms: header.created_unix_ms,
            cluster_time: header.cluster_time_min.max(header.stamp.cluster_time),
        }));
    }
    // One of very many, perhaps: no more of it is read than the first group needs.
    let first = scanner(&OpenSegment::open(segment, files)?)
        .growing()
        .peek()?;
    Ok(first.ok().map(|group| Beginning {
        first_lsn: group.first_lsn,
        unix_ms: group.unix_ms,
        cluster_time: group.stamp.cluster_time,
    }))
}

/// Inside an incarnation the first group is believed; without one, the engine's own position.
fn initial_link(files: &dyn Files, segment: &Arc<Segment>, applied_lsn: u64) -> Result<Link> {
    Ok(Link::before(
        segment,
        beginning(files, segment)?.map_or(applied_lsn + 1, |beginning| beginning.first_lsn),
    ))
}

/// A recorded gap that the engine would have to be replayed over.
fn check_gaps(segments: &[Arc<Segment>], applied_lsn: u64) -> Result<()> {
    for header in segments.iter().skip(1).map(|segment| &segment.header) {
        let has_gap = header.begins_incarnation() && header.first_lsn > header.previous_end_lsn + 1;
        if has_gap && applied_lsn + 1 < header.first_lsn {
            let needed_lsn = header.previous_end_lsn + 1;
            return Err(Error::HistoryMissing {
                needed_lsn,
                first_lsn: header.first_lsn,
            });
        }
    }
    Ok(())
}

/// A last segment without groups would pile up over restarts. The first segment stays, so that a
/// journal never looks new. Returns the last LSN of the journal.
fn drop_empty_last(
    files: &dyn Files,
    segments: &mut Vec<Arc<Segment>>,
    end_lsn: u64,
) -> Result<u64> {
    let Some(last) = segments.last() else {
        return Ok(end_lsn);
    };
    if segments.len() < 2 || last.last_lsn.load(Ordering::Relaxed) != 0 {
        return Ok(end_lsn);
    }
    let header = last.header.clone();
    discard(files, &last.name)?;
    segments.pop();
    Ok(if header.begins_incarnation() {
        header.previous_end_lsn
    } else {
        end_lsn
    })
}

impl Recovered {
    /// Whether the journal has records that the engine does not.
    pub fn has_more(&self) -> bool {
        self.replay.is_some()
    }

    /// Hands every record that the engine does not have to `hooks.apply`. Returns how many those are. Fails where this second
    /// reading ends before the first did: the journal would otherwise go on behind records that nobody has applied.
    pub fn replay(&self, files: &dyn Files, hooks: &dyn Hooks) -> Result<u64> {
        let Some(Replay {
            begin,
            applied_lsn,
            last_lsn,
        }) = &self.replay
        else {
            return Ok(0);
        };
        let segments = &self.segments[begin.segment..];
        let (mut replayed, mut reached_lsn) = (0, 0);
        let end = walk_from(
            files,
            segments,
            begin.offset,
            begin.link,
            &mut |_, _, header, visited| {
                check_wanted(hooks)?;
                reached_lsn = header.next_lsn() - 1;
                let payloads = visited.payloads.after(*applied_lsn);
                if payloads.is_empty() {
                    return Ok(());
                }
                replayed += payloads.len() as u64;
                hooks
                    .apply(payloads.first_lsn(), &payloads)
                    .map_err(Error::Unapplied)
            },
        )?;
        if reached_lsn != *last_lsn {
            // By now all that the first reading found is synced.
            return Err(damage_at_end(files, segments, &end)?);
        }
        Ok(replayed)
    }
}
