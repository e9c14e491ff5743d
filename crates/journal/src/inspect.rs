//! Looking at a closed journal, for people: `verify` reads everything that a start would skip, `dump`
//! lists groups, `truncate` gives up everything after an LSN. None of them knows what a record means.
//!
//! The journal must not be open: `RealFiles` sees to that with its lock.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::chain::{ChainEnd, Link, scanner, walk};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::group_header::{GroupFormat, GroupHeader};
use crate::hooks::Payloads;
use crate::recovery::{Prefix, check_lengths, named_segments, open_prefix, open_segments};
use crate::segment::{OpenSegment, Segment, segment_name};
use crate::segment_header::{SEGMENT_HEADER_BYTES, SEGMENT_HEADER_USED_BYTES, SegmentHeader};
use crate::segments::discard;
use crate::stamp::Stamp;
use crate::tail::{check_tail, cut, search};

/// The findings of `verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The segments in order.
    pub segments: Vec<SegmentSummary>,
    /// 0 if the journal holds no record.
    pub first_lsn: u64,
    /// The LSN of the last record.
    pub last_lsn: u64,
    /// The highest LSN that a group says was durable.
    pub durable_lsn: u64,
    /// No segment says where the log begins: the first groups of the only ones are lost, and those before them were freed, as
    /// earlier versions did before they were durable. A start goes on behind what the engine holds, which must reach to
    /// `durable_lsn`.
    pub is_unplaced: bool,
    /// Whether the log ends in the mark that closing writes: all of it was durable then.
    pub is_closed: bool,
    /// Where the log ends.
    pub end_segment: String,
    /// The byte behind the last group, in that segment.
    pub end_offset: u64,
    /// The place in the history behind the last group; zeros if no group has a stamp.
    pub stamp: Stamp,
}

/// One segment of a journal that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The file's name.
    pub name: String,
    /// Its header.
    pub header: SegmentHeader,
    /// The number of its groups.
    pub groups: u64,
    /// The number of its records.
    pub records: u64,
    /// 0 if the segment holds no record.
    pub first_lsn: u64,
    /// The LSN of its last record.
    pub last_lsn: u64,
}

/// One group of a dump.
pub struct DumpedGroup<'g> {
    /// The file's name.
    pub segment: &'g str,
    /// The byte at which the group begins.
    pub offset: u64,
    /// Its header.
    pub header: GroupHeader,
    /// Its records.
    pub payloads: Payloads<'g>,
    /// The bytes that its digest sums up.
    digested: &'g [u8],
}

/// Reads the header that the bytes of a segment begin with; `segment` names it in errors.
pub fn segment_header(segment: &str, bytes: &[u8]) -> Result<SegmentHeader> {
    let used = &bytes[..bytes.len().min(SEGMENT_HEADER_USED_BYTES)];
    Ok(SegmentHeader::decode(segment, used)?.0)
}

/// Reads every group of every segment and checks the whole chain; changes nothing. An unsynced tail is
/// not an error: it lies behind `end_offset`. Damage to durable records is.
pub fn verify(files: &dyn Files) -> Result<Verified> {
    let segments = open_segments(files, None)?;
    check_lengths(&segments)?;
    let mut verified = empty(&segments);
    let mut behind: Option<Stamp> = None;
    let end = follow(files, &segments, &mut |group| {
        let summary = verified
            .segments
            .iter_mut()
            .find(|summary| summary.name == group.segment);
        if let Some(summary) = summary {
            if summary.groups == 0 && summary.header.begins_incarnation() {
                behind = Some(summary.header.stamp);
            }
            summary.note(&group.header);
        }
        check_digest(&mut behind, &group)?;
        if group.header.count > 0 {
            if verified.first_lsn == 0 {
                verified.first_lsn = group.header.first_lsn;
            }
            verified.last_lsn = group.header.next_lsn() - 1;
        }
        verified.is_closed =
            group.header.count == 0 && group.header.durable_lsn == verified.last_lsn;
        verified.durable_lsn = verified.durable_lsn.max(group.header.durable_lsn);
        Ok(())
    })?;
    verified.is_unplaced = is_unplaced(&verified);
    if verified.is_unplaced {
        for segment in &segments {
            let found = search(files, segment, SEGMENT_HEADER_BYTES as u64)?;
            verified.durable_lsn = verified.durable_lsn.max(found.durable_lsn);
        }
    }
    if let Some(end) = end {
        check_tail(files, &segments, &end)?;
        verified.end_segment.clone_from(&segments[end.index].name);
        verified.end_offset = end.offset;
        verified.stamp = end.link.stamp.unwrap_or_default();
    }
    Ok(verified)
}

fn is_unplaced(verified: &Verified) -> bool {
    let says = |segment: &SegmentSummary| segment.groups > 0 || segment.header.begins_incarnation();
    !verified.segments.is_empty() && !verified.segments.iter().any(says)
}

/// Whether the group's digest goes on from the one before, where that is known; moves `behind` behind the group.
fn check_digest(behind: &mut Option<Stamp>, group: &DumpedGroup<'_>) -> Result<()> {
    let header = &group.header;
    if header.format == GroupFormat::One {
        return Ok(());
    }
    let (count, digested) = (header.count, group.digested);
    let goes_on = behind
        .is_none_or(|behind| behind.is_digest_of(&header.stamp, header.first_lsn, count, digested));
    if !goes_on {
        return Err(Error::Damaged {
            segment: group.segment.to_owned(),
            offset: group.offset,
            reason: "the group's digest does not go on from the one before".to_owned(),
        });
    }
    *behind = Some(header.stamp.behind(count));
    Ok(())
}

impl SegmentSummary {
    fn note(&mut self, header: &GroupHeader) {
        self.groups += 1;
        if header.count > 0 {
            self.records += u64::from(header.count);
            if self.first_lsn == 0 {
                self.first_lsn = header.first_lsn;
            }
            self.last_lsn = header.next_lsn() - 1;
        }
    }
}

/// Hands every group that holds a record at or above `from_lsn` to `visit`, up to the end of the log or
/// until it breaks off. Damage is an error once the groups before it were visited.
pub fn dump(
    files: &dyn Files,
    from_lsn: u64,
    visit: &mut dyn FnMut(&DumpedGroup<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let Prefix {
        segments, damage, ..
    } = open_prefix(files, None, &named_segments(files)?)?;
    let mut is_over = false;
    let followed = follow(files, &segments, &mut |group| {
        if group.header.next_lsn() > from_lsn && visit(&group).is_break() {
            is_over = true;
            // Any error ends the walk; this one is taken back below.
            return Err(Error::Closed);
        }
        Ok(())
    });
    if is_over {
        return Ok(());
    }
    if let Some(end) = followed? {
        check_tail(files, &segments, &end)?;
        check_lengths(&segments)?;
    }
    damage.map_or(Ok(()), Err)
}

/// The fate of the segments behind a gap in the sequence when the log is cut.
///
/// A gap may stand for a lost segment. It may also be what is left of a segment that could not be freed, while later ones
/// were: then the log is what lies behind the gap, and a start frees the rest. Only the engine can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BehindGap {
    /// Nothing is cut as long as there is a gap.
    Keep,
    /// They are given up, durable records included.
    GiveUp,
}

/// Cuts the log behind `last_lsn`, which must end a group: what follows is zeroed and freed for good.
/// This is how a person gives up damaged records. Returns the number of groups kept. If no group ends
/// there, nothing is changed, and the error's `next_lsn` follows the last group that could be kept.
pub fn truncate(files: &dyn Files, last_lsn: u64, behind_gap: BehindGap) -> Result<u64> {
    let named = named_segments(files)?;
    if behind_gap == BehindGap::Keep {
        check_gapless(&named)?;
    }
    let Prefix {
        mut segments,
        damage,
        rest,
    } = open_prefix(files, None, &named)?;
    let next_lsn = last_lsn.saturating_add(1);
    let mut kept = 0;
    let mut cut_at = None;
    let mut nearest_lsn = 0;
    // Damage behind the cut is the reason for cutting: it ends the walk, whatever it is.
    let walked = follow(files, &segments, &mut |group| {
        if group.header.next_lsn() == next_lsn {
            cut_at = Some((
                group.segment.to_owned(),
                group.offset + group.header.group_bytes(),
            ));
        }
        if group.header.next_lsn() <= next_lsn {
            kept += 1;
            nearest_lsn = group.header.next_lsn() - 1;
        }
        Ok(())
    });
    let Some((name, offset)) = cut_at else {
        walked?;
        return Err(match damage {
            Some(damage) if segments.is_empty() => damage,
            _ => Error::PositionMoved {
                expected_lsn: next_lsn,
                next_lsn: nearest_lsn + 1,
            },
        });
    };
    for name in rest.iter().rev() {
        discard(files, name)?;
    }
    let index = segments
        .iter()
        .position(|segment| segment.name == name)
        .unwrap_or(0);
    let link = Link::before(&segments[index], next_lsn);
    let end = ChainEnd {
        index,
        offset,
        link,
        reason: "the log was cut here",
        is_closed: false,
    };
    cut(files, &mut segments, 0, &end, last_lsn)?;
    Ok(kept)
}

fn check_gapless(named: &[(u64, String)]) -> Result<()> {
    let mut pairs = named.windows(2);
    let Some(gap) = pairs.find(|pair| pair[1].0 != pair[0].0 + 1) else {
        return Ok(());
    };
    Err(Error::Damaged {
        segment: segment_name(gap[0].0 + 1),
        offset: 0,
        reason: "the segment is missing, later ones are there, and nothing was changed: a start frees \
                 what lies before them if the engine needs nothing of it, else say that they are given up"
            .to_owned(),
    })
}

fn empty(segments: &[Arc<Segment>]) -> Verified {
    let summary = |segment: &Arc<Segment>| SegmentSummary {
        name: segment.name.clone(),
        header: segment.header.clone(),
        groups: 0,
        records: 0,
        first_lsn: 0,
        last_lsn: 0,
    };
    Verified {
        segments: segments.iter().map(summary).collect(),
        first_lsn: 0,
        last_lsn: 0,
        durable_lsn: 0,
        is_unplaced: false,
        is_closed: false,
        end_segment: String::new(),
        end_offset: 0,
        stamp: Stamp::default(),
    }
}

/// Follows the chain from the first segment; `None` for a journal without segments. Durable records that the first segments
/// have lost are damage, which is told once the groups behind them were visited.
fn follow(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    visit: &mut dyn FnMut(DumpedGroup<'_>) -> Result<()>,
) -> Result<Option<ChainEnd>> {
    let Some(first) = segments.first() else {
        return Ok(None);
    };
    let Beginning { first_lsn, lost } = beginning(files, segments)?;
    let mut durable_lsn = begun_behind(segments);
    let end = walk(
        files,
        segments,
        Link::before(first, first_lsn),
        &mut |segment, offset, header, visited| {
            durable_lsn = durable_lsn.max(header.durable_lsn);
            visit(DumpedGroup {
                segment: &segment.name,
                offset,
                header: *header,
                payloads: visited.payloads,
                digested: visited.digested,
            })
        },
    )?;
    match lost {
        Some(lost) if lost.lsn <= durable_lsn => Err(lost.damage()),
        Some(_) | None => Ok(Some(end)),
    }
}

/// Up to where all was durable when the last incarnation began.
fn begun_behind(segments: &[Arc<Segment>]) -> u64 {
    let ended = segments
        .iter()
        .map(|segment| segment.header.previous_end_lsn);
    ended.max().unwrap_or(0)
}

/// The LSN that the chain begins with, and what is lost before it.
struct Beginning {
    first_lsn: u64,
    lost: Option<Lost>,
}

/// A record that a segment has held, whose first group is not whole.
struct Lost {
    segment: String,
    lsn: u64,
}

impl Lost {
    fn damage(self) -> Error {
        Error::Damaged {
            segment: self.segment,
            offset: SEGMENT_HEADER_BYTES as u64,
            reason: format!(
                "no whole group begins here, but record {} was durable",
                self.lsn
            ),
        }
    }
}

/// Where the chain begins. The first segments may not say: their groups were lost unsynced, when a checkpoint of an earlier
/// version had freed those before them. Then the first one that does say tells. Where none does, as many records are missing as
/// nobody but the engine knows; the first that is known to be missing is the lost one, or none is.
fn beginning(files: &dyn Files, segments: &[Arc<Segment>]) -> Result<Beginning> {
    let mut lost: Option<Lost> = None;
    for (index, segment) in segments.iter().enumerate() {
        let header = &segment.header;
        if header.begins_incarnation() {
            let first_lsn = match index {
                0 => header.first_lsn,
                _ => header.previous_end_lsn + 1,
            };
            return Ok(Beginning { first_lsn, lost });
        }
        if let Ok(group) = scanner(&OpenSegment::open(segment, files)?).peek()? {
            let first_lsn = group.first_lsn;
            return Ok(Beginning { first_lsn, lost });
        }
        if lost.is_none() {
            lost = lost_from(files, segment)?;
        }
    }
    let first_lsn = lost.map_or(1, |lost| lost.lsn);
    let lost = None;
    Ok(Beginning { first_lsn, lost })
}

/// The first record that the segment, which does not begin with a whole group, is known to have held: what is left of the group
/// says it, or the next whole one, which was not the first.
fn lost_from(files: &dyn Files, segment: &Arc<Segment>) -> Result<Option<Lost>> {
    let first_offset = SEGMENT_HEADER_BYTES as u64;
    let left = scanner(&OpenSegment::open(segment, files)?).peek_header()?;
    let lsn = match left {
        Ok(header) => Some(header.first_lsn),
        Err(_) => {
            let next = search(files, segment, first_offset)?.first_lsn;
            next.map(|next_lsn| next_lsn - 1)
        }
    };
    Ok(lsn.map(|lsn| Lost {
        segment: segment.name.clone(),
        lsn: lsn.max(1),
    }))
}
