//! One way through the archive: the segments of a history in order, the ranges of records without a gap, and the place that a
//! moment names.

use std::ops::ControlFlow;

use super::history::{ArchivedSegment, History};
use super::piece::{Key, Piece};
use crate::error::Result;
use crate::group_header::GroupHeader;

/// A moment that data is restored to. Groups belong to it up to the first one that is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Behind the last group that ends at this record or before it.
    Lsn(u64),
    /// Behind the last group with this cluster time or an earlier one.
    ClusterTime(u64),
    /// Behind the last group of this wall time, in milliseconds since 1970: of those whose cluster time is in its second the
    /// ones that were written by then.
    UnixMs(u64),
    /// Behind everything.
    Latest,
}

impl Moment {
    /// Whether a group comes later.
    fn is_before(&self, group: &GroupHeader) -> bool {
        let last_time = group
            .stamp
            .behind(group.count)
            .cluster_time
            .saturating_sub(1);
        self.is_before_all(group.next_lsn() - 1, last_time, group.unix_ms)
    }

    fn is_before_all(&self, last_lsn: u64, last_time: u64, unix_ms: u64) -> bool {
        match *self {
            Moment::Lsn(lsn) => last_lsn > lsn,
            Moment::ClusterTime(time) => last_time > time,
            Moment::UnixMs(ms) => {
                let second = ms / 1000;
                last_time >> 32 > second || last_time >> 32 == second && unix_ms > ms
            }
            Moment::Latest => false,
        }
    }
}

/// The place in a line that a moment names: behind a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The last record; 0 where the moment is before the first one.
    pub lsn: u64,
    /// Whether the archive is known to have everything up to the moment: else records may be missing between the last one that
    /// it has and the moment.
    pub is_certain: bool,
}

/// Records of a line without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first record.
    pub first_lsn: u64,
    /// The last record.
    pub last_lsn: u64,
    /// When the first one was written, in milliseconds since 1970.
    pub first_unix_ms: u64,
    /// When the last ones were written.
    pub last_unix_ms: u64,
    /// The cluster time of the last one; 0 where it is not known.
    pub last_cluster_time: u64,
}

/// A segment as a line has it: up to where the next one goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub key: Key,
    /// The last record that belongs to the line; 0 if there is none.
    pub last_lsn: u64,
    /// The segment before is not in the archive, or records are missing in between.
    pub is_behind_gap: bool,
}

/// One way through the archive.
#[derive(Clone, Debug)]
pub struct Line {
    pub(super) stretches: Vec<Stretch>,
}

impl Line {
    pub(super) fn new(history: &History, leaf: Key, parent: &dyn Fn(Key) -> Option<Key>) -> Line {
        let mut stretches = Vec::new();
        let (mut next, mut last_lsn) = (Some(leaf), u64::MAX);
        while let Some(key) = next {
            let segment = &history.segments[&key];
            next = parent(key);
            let before = next.map(|before| &history.segments[&before]);
            stretches.push(Stretch {
                key,
                last_lsn: segment.last_lsn().min(last_lsn),
                is_behind_gap: before.is_none_or(|before| !is_continued(before, segment)),
            });
            last_lsn = match segment.header.begins_incarnation() {
                true => segment.header.previous_end_lsn,
                false => u64::MAX,
            };
        }
        stretches.reverse();
        Line { stretches }
    }

    pub(super) fn leaf(&self) -> Key {
        self.stretches[self.stretches.len() - 1].key
    }

    /// The life of the journal that the line ends in, by which people name the line.
    pub fn incarnation(&self) -> u64 {
        self.leaf().incarnation
    }

    /// The ranges of records that the line has, in order, with a gap between each two.
    pub fn ranges(&self, history: &History) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        let mut begins_anew = true;
        for stretch in &self.stretches {
            begins_anew |= stretch.is_behind_gap;
            let segment = &history.segments[&stretch.key];
            let first_lsn = segment.first_lsn();
            if first_lsn == 0 || stretch.last_lsn < first_lsn {
                continue;
            }
            let is_cut = stretch.last_lsn < segment.last_lsn();
            let own = Range {
                first_lsn,
                last_lsn: stretch.last_lsn,
                first_unix_ms: first_unix_ms(segment),
                last_unix_ms: segment.end().latest_unix_ms,
                last_cluster_time: match is_cut {
                    true => 0,
                    false => segment.end().behind.cluster_time.saturating_sub(1),
                },
            };
            match ranges.last_mut() {
                Some(last) if !begins_anew => {
                    *last = Range {
                        first_lsn: last.first_lsn,
                        first_unix_ms: last.first_unix_ms,
                        ..own
                    };
                }
                _ => ranges.push(own),
            }
            begins_anew = false;
        }
        ranges
    }

    /// The place behind the last group that belongs to the moment.
    pub fn cut_at(&self, history: &History, moment: Moment) -> Result<Cut> {
        let mut cut = Cut::default();
        for stretch in &self.stretches {
            let segment = &history.segments[&stretch.key];
            for (number, piece) in segment.pieces.iter().enumerate() {
                if piece.first_lsn == 0 || piece.first_lsn > stretch.last_lsn {
                    continue;
                }
                if !reaches_beyond(piece, moment) && piece.next_lsn <= stretch.last_lsn + 1 {
                    cut.lsn = piece.next_lsn - 1;
                    continue;
                }
                let mut is_over = false;
                segment.walk(&*history.files, piece.first_lsn, &mut |group, at| {
                    is_over = group.count > 0 && at == number && moment.is_before(group);
                    if is_over || at > number || group.next_lsn() > stretch.last_lsn + 1 {
                        return ControlFlow::Break(());
                    }
                    cut.lsn = group.next_lsn() - 1;
                    ControlFlow::Continue(())
                })?;
                if is_over {
                    cut.is_certain = true;
                    return Ok(cut);
                }
            }
        }
        cut.is_certain = self.has_all_up_to(history, cut.lsn, moment);
        Ok(cut)
    }

    /// Whether nothing that belongs to the moment can come behind `last_lsn`, with which the line ends.
    fn has_all_up_to(&self, history: &History, last_lsn: u64, moment: Moment) -> bool {
        let end = history.segments[&self.leaf()].end();
        // Cluster times rise: what comes later has a later one than the last record.
        let is_before_next = match moment {
            Moment::Lsn(lsn) => lsn <= last_lsn,
            Moment::ClusterTime(time) => time < end.behind.cluster_time,
            Moment::UnixMs(ms) => ms / 1000 < end.behind.cluster_time.saturating_sub(1) >> 32,
            Moment::Latest => true,
        };
        let is_own = |key: Key, tip_sequence: u64| {
            key.sequence == tip_sequence || key.sequence + 1 == tip_sequence
        };
        let tip = history
            .tip
            .filter(|tip| tip.lsn == last_lsn && is_own(self.leaf(), tip.sequence));
        let is_told = tip.is_some_and(|tip| match moment {
            Moment::Lsn(_) | Moment::Latest => false,
            Moment::ClusterTime(time) => time <= tip.cluster_time,
            Moment::UnixMs(ms) => ms <= tip.unix_ms,
        });
        is_before_next || is_told
    }
}

/// Whether some group of the piece may come later than the moment.
fn reaches_beyond(piece: &Piece, moment: Moment) -> bool {
    let last_time = piece.behind.cluster_time.saturating_sub(1);
    let is_later = moment.is_before_all(piece.next_lsn - 1, last_time, piece.latest_unix_ms);
    // A clock that was set back gives a group a later time than the ones behind it.
    let may_be_later = matches!(moment, Moment::UnixMs(ms) if piece.latest_unix_ms > ms && last_time >> 32 >= ms / 1000);
    is_later || may_be_later
}

/// Whether `segment` goes on where the one before it ends, with no record between.
fn is_continued(before: &ArchivedSegment, segment: &ArchivedSegment) -> bool {
    if segment.header.is_behind_gap() {
        return false;
    }
    if segment.header.begins_incarnation() {
        // It was looked for by the place that it goes on from.
        return true;
    }
    let (last, first_lsn) = (before.last_lsn(), segment.first_lsn());
    let is_next = last == 0 || first_lsn == 0 || last + 1 == first_lsn;
    let end = before.end();
    let first = &segment.pieces[0];
    let is_linked = first.previous_crc == end.last_crc || last == 0 || first_lsn == 0;
    is_next && is_linked
}

fn first_unix_ms(segment: &ArchivedSegment) -> u64 {
    let mut times = segment.pieces.iter().map(|piece| piece.first_unix_ms);
    times.find(|&ms| ms != 0).unwrap_or(0)
}
