//! A new beginning for a journal that is lost or damaged, behind what its engine holds durably. A person decides that: what only
//! the journal had is given up.
//!
//! The new journal is an empty segment that begins an incarnation behind a recorded gap, as where an engine was ahead: nobody is
//! told that there is a record before it. Kept true:
//! - no cluster time is given out a second time: the gap ends above all that is left of the old journal and above whatever a
//!   clock that was right, and clients beside it, can have brought;
//! - the life is none that the old journal had, so that no place in that one is taken for one in this.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, HookError, Result};
use crate::files::Files;
use crate::hooks::{GroupBuilder, Hooks, Payloads};
use crate::journal::{CLUSTER_TIME_AHEAD_MAX_SECS, salt};
use crate::options::{Identity, LSN_MAX, Options};
use crate::recovery::{end_of_start, named_segments, open_prefix};
use crate::scan::GroupScanner;
use crate::segment::{IncarnationStart, OpenSegment, Segment};
use crate::segment_header::{SEGMENT_BYTES_MIN, SEGMENT_HEADER_BYTES};
use crate::segments::Segments;
use crate::stamp::{CLUSTER_TIME_MAX, Stamp, earliest_at};

/// The state of a journal, for an engine that holds what is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no segment.
    Missing,
    /// A start goes on behind this record.
    Whole {
        /// The last record.
        last_lsn: u64,
    },
    /// A start is refused with this error.
    Damaged(Error),
}

/// Looks at a journal as a start does that goes on from an engine at `applied_lsn`, and changes nothing. Fails where the files
/// cannot be read, or are another database's or build's: that is no damage.
pub fn look(files: &dyn Files, identity: &Identity, applied_lsn: u64) -> Result<State> {
    match end_of_start(files, identity, applied_lsn, &Reader) {
        Ok(None) => Ok(State::Missing),
        Ok(Some(last_lsn)) => Ok(State::Whole { last_lsn }),
        Err(error @ (Error::Damaged { .. } | Error::HistoryMissing { .. })) => {
            Ok(State::Damaged(error))
        }
        Err(error) => Err(error),
    }
}

/// Nobody applies what is only looked at.
struct Reader;

impl Hooks for Reader {
    fn ready(&self, _bytes: usize) -> std::result::Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> std::result::Result<(), HookError> {
        Ok(())
    }

    fn apply(
        &self,
        _first_lsn: u64,
        _payloads: &Payloads<'_>,
    ) -> std::result::Result<(), HookError> {
        Ok(())
    }
}

/// The highest positions that stand in what is left of a journal; zeros where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The last record of any whole group.
    pub last_lsn: u64,
    /// No record that is left has a later cluster time.
    pub cluster_time: u64,
    sequence: u64,
    incarnation_number: u32,
}

impl Remains {
    /// Gathers them from every segment and every group that is whole, wherever it stands. What cannot be read is left out.
    pub fn of(files: &dyn Files) -> Result<Remains> {
        let mut remains = Remains::default();
        for named in named_segments(files)? {
            remains.sequence = remains.sequence.max(named.0);
            let Ok(opened) = open_prefix(files, None, std::slice::from_ref(&named)) else {
                continue;
            };
            for segment in &opened.segments {
                remains.note_segment(segment);
                // The groups up to the first that cannot be read are noted.
                let _ = remains.note_groups(files, segment);
            }
        }
        Ok(remains)
    }

    fn note_segment(&mut self, segment: &Segment) {
        let header = &segment.header;
        self.incarnation_number = self.incarnation_number.max(header.incarnation_number());
        self.last_lsn = self.last_lsn.max(header.previous_end_lsn);
        let time = header.cluster_time_min.max(header.stamp.cluster_time);
        self.cluster_time = self.cluster_time.max(time);
    }

    fn note_groups(&mut self, files: &dyn Files, segment: &Arc<Segment>) -> Result<()> {
        let open = OpenSegment::open(segment, files)?;
        let mut scanner = GroupScanner::new(&open, SEGMENT_HEADER_BYTES as u64);
        while let Some(header) = scanner.find_header()? {
            // A sealed group that is not what was sealed is as good as broken.
            let is_whole = matches!(scanner.peek(), Ok(Ok(_)));
            if !is_whole {
                scanner.seek(scanner.offset() + 1);
                continue;
            }
            self.last_lsn = self.last_lsn.max(header.next_lsn() - 1);
            let behind = header.stamp.behind(header.count).cluster_time;
            self.cluster_time = self.cluster_time.max(behind);
            scanner.skip(&header);
        }
        Ok(())
    }
}

/// Begins a journal in `files`, which hold none, behind `applied_lsn`, which is not 0. `remains` are those of the journal before.
pub fn begin(
    files: Arc<dyn Files>,
    identity: Identity,
    applied_lsn: u64,
    remains: &Remains,
) -> Result<()> {
    identity.check()?;
    if applied_lsn == 0 || applied_lsn >= LSN_MAX || !named_segments(&*files)?.is_empty() {
        return Err(Error::PositionMoved {
            expected_lsn: applied_lsn.saturating_add(1),
            next_lsn: 1,
        });
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix = unix.unwrap_or_default();
    let unix_secs = unix.as_secs();
    // Lives are counted from 1: where nothing is left of the count, no earlier one can have come so far.
    let counted_from = u32::try_from(unix_secs).unwrap_or(0);
    let number = remains.incarnation_number.wrapping_add(1).max(counted_from);
    let options = Options {
        segment_bytes: SEGMENT_BYTES_MIN,
        ..Options::default()
    };
    let incarnation = u64::from(number) << 32 | u64::from(salt());
    let sequence = remains.sequence + 1;
    let segments = Segments::new(files, identity, options, incarnation, Vec::new(), sequence)?;
    let cluster_time_min = gap_end(remains, unix_secs);
    let start = IncarnationStart {
        first_lsn: applied_lsn + 1,
        // The journal has none of what comes before: all of it is the gap.
        previous_end_lsn: 0,
        cluster_time_min,
        // A place that no group has come to: an archive joins nothing to it.
        stamp: Stamp {
            cluster_time: cluster_time_min,
            ..Stamp::default()
        },
    };
    let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
    segments.begin(start, None, unix_ms)?;
    Ok(())
}

/// A cluster time that no record of the journal before can have had, if the machine's clock was right.
fn gap_end(remains: &Remains, unix_secs: u64) -> u64 {
    let beyond_clock = earliest_at((unix_secs + CLUSTER_TIME_AHEAD_MAX_SECS + 1) * 1000);
    beyond_clock.max(remains.cluster_time).min(CLUSTER_TIME_MAX)
}
