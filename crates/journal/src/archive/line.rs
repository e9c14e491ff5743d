//! One way through the archive: the segments of a history in order, the ranges of records without a gap, and the place that a
//! moment names.

use std::ops::ControlFlow;

use super::history::{ArchivedSegment, History};
use super::piece::{Key, Piece};
use super::tip::Tip;
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

/// The place in a line that a moment names, which is behind a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The last record; 0 where the moment is before the first one.
    pub lsn: u64,
    /// Whether the archive is known to have everything up to the moment: else records may be missing between the last one that
    /// it has and the moment.
    pub is_certain: bool,
    /// The first record that the line has behind the moment, if the moment is in a gap of the line.
    pub gap_ends_before: Option<u64>,
    /// The last record of the group that the moment's own record is in the middle of: a group is taken as a whole.
    pub group_ends_at: Option<u64>,
}

/// The last group that belongs to the moment, as far as the line was followed.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Its last record; 0 if no group belongs to the moment.
    lsn: u64,
    /// The lowest cluster time that the next record can have; 0 if that is not known.
    next_cluster_time: u64,
}

impl Taken {
    fn group(group: &GroupHeader) -> Taken {
        Taken {
            lsn: group.next_lsn() - 1,
            next_cluster_time: group.stamp.behind(group.count).cluster_time,
        }
    }

    /// Whether every record that comes behind this group, wherever it is, is later than the moment.
    fn ends(&self, moment: Moment) -> bool {
        // Cluster times rise: whatever comes later has a later one than the last record.
        match moment {
            Moment::Lsn(lsn) => lsn <= self.lsn,
            Moment::ClusterTime(time) => time < self.next_cluster_time,
            Moment::UnixMs(ms) => ms / 1000 < self.next_cluster_time.saturating_sub(1) >> 32,
            Moment::Latest => true,
        }
    }
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
            stretches.push(Stretch {
                key,
                last_lsn: segment.last_lsn().min(last_lsn),
                is_behind_gap: true,
            });
            last_lsn = match segment.header.begins_incarnation() {
                true => segment.header.previous_end_lsn,
                // A segment without records lets the next one begin where the one before it ends.
                false if segment.first_lsn() == 0 => last_lsn,
                false => u64::MAX,
            };
        }
        stretches.reverse();
        // The last stretch so far that has records: those without any say nothing of what lies between.
        let mut with_records: Option<Stretch> = None;
        for at in 0..stretches.len() {
            let stretch = stretches[at];
            stretches[at].is_behind_gap = match at.checked_sub(1) {
                None => true,
                Some(before) => {
                    let is_next = stretches[before].key.sequence + 1 == stretch.key.sequence;
                    !is_next || !is_continued(history, with_records.as_ref(), &stretch)
                }
            };
            if stretch.last_lsn != 0 {
                with_records = Some(stretch);
            }
        }
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
        let mut taken = Taken::default();
        // Whether records may be missing between the last group that was taken and the next one.
        let mut is_behind_gap = false;
        for stretch in &self.stretches {
            is_behind_gap |= stretch.is_behind_gap;
            let before = taken.lsn;
            let later = take_from(history, stretch, moment, &mut taken)?;
            // A gap that begins the line hides nothing that the line could lead to.
            is_behind_gap &= taken.lsn == before && before != 0;
            let Some((first_later_lsn, last_later_lsn)) = later else {
                continue;
            };
            let is_in_gap = is_behind_gap && !taken.ends(moment);
            return Ok(Cut {
                lsn: taken.lsn,
                is_certain: !is_in_gap,
                gap_ends_before: is_in_gap.then_some(first_later_lsn),
                group_ends_at: match moment {
                    Moment::Lsn(lsn) if lsn >= first_later_lsn => Some(last_later_lsn),
                    _ => None,
                },
            });
        }
        Ok(Cut {
            lsn: taken.lsn,
            is_certain: taken.ends(moment) || self.is_told(history, taken.lsn, moment),
            gap_ends_before: None,
            group_ends_at: None,
        })
    }

    /// Whether the tip says that nothing that belongs to the moment comes behind `last_lsn`, with which the line ends.
    fn is_told(&self, history: &History, last_lsn: u64, moment: Moment) -> bool {
        let tip = self.tip(history).filter(|tip| tip.lsn == last_lsn);
        tip.is_some_and(|tip| match moment {
            Moment::Lsn(_) | Moment::Latest => false,
            Moment::ClusterTime(time) => time <= tip.cluster_time,
            Moment::UnixMs(ms) => ms <= tip.unix_ms,
        })
    }

    /// The archive's tip, if it is of the end of this line and not of another life's.
    pub fn tip(&self, history: &History) -> Option<Tip> {
        let mut stretches = self.stretches.iter().rev();
        let last = stretches.find(|stretch| stretch.last_lsn != 0)?;
        let tip = history.tip?;
        (tip.key() == last.key && tip.lsn == last.last_lsn).then_some(tip)
    }
}

/// Takes the groups of the stretch that belong to the moment; the first and the last record of the next one, if that one is later.
fn take_from(
    history: &History,
    stretch: &Stretch,
    moment: Moment,
    taken: &mut Taken,
) -> Result<Option<(u64, u64)>> {
    let segment = &history.segments[&stretch.key];
    let next_lsn = stretch.last_lsn + 1;
    for (number, piece) in segment.pieces.iter().enumerate() {
        if piece.first_lsn == 0 || piece.first_lsn > stretch.last_lsn {
            continue;
        }
        if !reaches_beyond(piece, moment) && piece.next_lsn <= next_lsn {
            *taken = Taken {
                lsn: piece.next_lsn - 1,
                next_cluster_time: piece.behind.cluster_time,
            };
            continue;
        }
        let mut later = None;
        segment.walk(&*history.files, piece.first_lsn, &mut |group, at| {
            // What a life wrote behind the place that the line leaves it at says nothing of the moment.
            if at > number || group.next_lsn() > next_lsn {
                return ControlFlow::Break(());
            }
            if group.count > 0 && moment.is_before(group) {
                later = Some((group.first_lsn, group.next_lsn() - 1));
                return ControlFlow::Break(());
            }
            if group.count > 0 {
                *taken = Taken::group(group);
            }
            ControlFlow::Continue(())
        })?;
        if later.is_some() {
            return Ok(later);
        }
    }
    Ok(None)
}

/// Whether some group of the piece may come later than the moment.
fn reaches_beyond(piece: &Piece, moment: Moment) -> bool {
    let last_time = piece.behind.cluster_time.saturating_sub(1);
    let is_later = moment.is_before_all(piece.next_lsn - 1, last_time, piece.latest_unix_ms);
    // A clock that was set back gives a group a later time than the ones behind it.
    let may_be_later = matches!(moment, Moment::UnixMs(ms) if piece.latest_unix_ms > ms && last_time >> 32 >= ms / 1000);
    is_later || may_be_later
}

/// Whether the stretch goes on where `before` ends, the last one before it that has records, with none between.
fn is_continued(history: &History, before: Option<&Stretch>, stretch: &Stretch) -> bool {
    let segment = &history.segments[&stretch.key];
    if segment.header.is_behind_gap() {
        return false;
    }
    let Some(before) = before else {
        return true;
    };
    if segment.header.begins_incarnation() {
        // It was looked for by the place that it goes on from.
        return before.last_lsn == segment.header.previous_end_lsn;
    }
    let first_lsn = segment.first_lsn();
    if first_lsn == 0 {
        return true;
    }
    let previous_crc = segment.pieces.iter().find(|piece| piece.first_lsn != 0);
    let last_crc = history.segments[&before.key].end().last_crc;
    before.last_lsn + 1 == first_lsn
        && previous_crc.is_some_and(|first| first.previous_crc == last_crc)
}

fn first_unix_ms(segment: &ArchivedSegment) -> u64 {
    let mut times = segment.pieces.iter().map(|piece| piece.first_unix_ms);
    times.find(|&ms| ms != 0).unwrap_or(0)
}
