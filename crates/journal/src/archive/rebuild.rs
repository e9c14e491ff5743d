//! Makes the journal of a restored backup go on to a moment: the archive's segments are written beside the backup's, up to the
//! group that the moment names and nothing behind it.
//!
//! The result is a journal as a process leaves it that was killed there. It is read as a whole before anybody believes it: every
//! checksum, the chain of groups and their digests from the backup's first segment on, and that the backup's own end is a place of
//! this history. The seals of a sealed journal are the start's to check, which has the key.

use std::cell::RefCell;
use std::ops::ControlFlow;

use super::directory::{remove_if_there, retry};
use super::history::{ArchivedSegment, History};
use super::line::{Line, Stretch};
use super::piece::{Key, damaged};
use crate::error::{Error, Result};
use crate::files::{Files, sync_file, write_all_at};
use crate::group_header::GroupFormat;
use crate::inspect;
use crate::recovery::open_segments;
use crate::seal::UnopenedFiles;
use crate::segment::segment_name;
use crate::segment_header::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::stamp::Stamp;

/// A journal that was made of a backup's and an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The last record.
    pub last_lsn: u64,
    /// Its cluster time: seconds since 1970 in the high half, a counter in the low half.
    pub cluster_time: u64,
}

impl Line {
    /// Whether the line goes on from a backup that ends at `lsn`, and without a gap to `cut_lsn`. `segments` are those of the
    /// backup's journal, in order.
    pub fn goes_on_from(
        &self,
        history: &History,
        segments: &[SegmentHeader],
        lsn: u64,
        cut_lsn: u64,
    ) -> bool {
        // The last ones may be empty, and then another life may have taken their places.
        for header in segments.iter().rev() {
            let own = |stretch: &Stretch| {
                let Key {
                    sequence,
                    incarnation,
                } = stretch.key;
                sequence == header.sequence && incarnation == header.incarnation
            };
            if let Some(at) = self.stretches.iter().position(own) {
                let ends_within = self.stretches[at].last_lsn >= lsn;
                return ends_within && self.is_gapless(at + 1, cut_lsn, history);
            }
        }
        // The archive may begin behind the segment in which the backup ends.
        let first = &self.stretches[0];
        let begins = &history.segments[&first.key];
        let goes_on = match begins.header.begins_incarnation() {
            true => begins.header.previous_end_lsn == lsn && !begins.header.is_behind_gap(),
            false => begins.first_lsn() == lsn + 1,
        };
        let is_next = segments
            .last()
            .is_some_and(|last| last.sequence + 1 == first.key.sequence);
        goes_on && is_next && self.is_gapless(1, cut_lsn, history)
    }

    /// Whether no gap lies before any stretch from that one on that holds a record up to `cut_lsn`.
    fn is_gapless(&self, from: usize, cut_lsn: u64, history: &History) -> bool {
        let behind = self.end_of_needed(history, cut_lsn).max(from);
        let mut stretches = self.stretches[from..behind].iter();
        stretches.all(|stretch| !stretch.is_behind_gap)
    }

    /// The position behind the last stretch that holds a record up to `cut_lsn`. Segments without records behind it hold nothing.
    fn end_of_needed(&self, history: &History, cut_lsn: u64) -> usize {
        let is_needed = |stretch: &Stretch| {
            let first_lsn = history.segments[&stretch.key].first_lsn();
            first_lsn != 0 && first_lsn <= cut_lsn
        };
        let last = self.stretches.iter().rposition(is_needed);
        last.map_or(0, |last| last + 1)
    }
}

impl History {
    /// Makes the journal in `files`, which is that of a backup that ends at `backup_lsn`, go on to `cut_lsn`, at which a group of
    /// the line ends. `progress` is told of bytes that were written.
    pub fn rebuild(
        &self,
        line: &Line,
        files: &dyn Files,
        backup_lsn: u64,
        cut_lsn: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Rebuilt> {
        // A sealed journal is put together as it stands; who opens it with its key checks the seals.
        let unopened = UnopenedFiles(files);
        let files: &dyn Files = match self.is_sealed() {
            true => &unopened,
            false => files,
        };
        open_segments(files, Some(&self.identity))?;
        let backup = inspect::verify(files)?;
        let has_records = |summary: &&inspect::SegmentSummary| summary.last_lsn != 0;
        let with_records = backup.segments.iter().rfind(has_records);
        let Some(goes_on_in) = with_records.or(backup.segments.first()) else {
            return Err(Error::HistoryMissing {
                needed_lsn: 1,
                first_lsn: 0,
            });
        };
        if cut_lsn > backup_lsn {
            let sequence = goes_on_in.header.sequence;
            // They hold nothing, and another life may have had their places.
            let behind = backup.segments.iter();
            for empty in behind.filter(|summary| summary.header.sequence > sequence) {
                remove_if_there(files, &empty.name)?;
            }
            for stretch in self.needed_from(line, sequence, cut_lsn) {
                let last_lsn = stretch.last_lsn.min(cut_lsn);
                let progress = RefCell::new(&mut *progress);
                retry(&|| {
                    // Whoever archives may have taken over pieces meanwhile.
                    let archived = self.fresh(stretch.key)?;
                    let mut note = |bytes| progress.borrow_mut()(bytes);
                    self.write_segment(&archived, files, last_lsn, &mut note)
                })?;
            }
        }
        let synced = files.sync_directory();
        synced.map_err(|e| Error::io("sync directory of", "journal", &e))?;
        check(files, backup_lsn, backup.stamp, cut_lsn)
    }

    fn is_sealed(&self) -> bool {
        let mut headers = self.segments.values().map(|segment| &segment.header);
        headers.any(|header| header.format == GroupFormat::Sealed)
    }

    /// The stretches from the segment with that sequence on, up to the last one that holds a record up to `cut_lsn`.
    fn needed_from<'l>(&self, line: &'l Line, sequence: u64, cut_lsn: u64) -> &'l [Stretch] {
        let stretches = &line.stretches;
        let from = stretches.partition_point(|stretch| stretch.key.sequence < sequence);
        &stretches[from..line.end_of_needed(self, cut_lsn).max(from)]
    }

    /// Writes the segment's header and its groups up to `last_lsn`, with zeros behind them.
    fn write_segment(
        &self,
        archived: &ArchivedSegment,
        files: &dyn Files,
        last_lsn: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let name = segment_name(archived.header.sequence);
        let failed = |error: std::io::Error| Error::io("write", &name, &error);
        remove_if_there(files, &name)?;
        let file = files.create(&name).map_err(failed)?;
        let is_needed = |first_lsn: u64| first_lsn == 0 || first_lsn <= last_lsn;
        for piece in (archived.pieces.iter()).take_while(|piece| is_needed(piece.first_lsn)) {
            piece.read_body(&*self.files, &mut |at, part| {
                progress(part.len() as u64);
                write_all_at(&*file, part, at).map_err(failed)
            })?;
        }
        if last_lsn < archived.last_lsn() {
            file.set_len(self.end_of(archived, last_lsn)?)
                .map_err(failed)?;
        }
        file.set_len(archived.header.segment_bytes)
            .map_err(failed)?;
        sync_file(&*file).map_err(failed)
    }

    /// The byte of the segment behind the group that ends at `last_lsn`.
    fn end_of(&self, archived: &ArchivedSegment, last_lsn: u64) -> Result<u64> {
        let pieces = &archived.pieces;
        let (mut end, mut at) = (None, None);
        archived.walk(&*self.files, last_lsn, &mut |group, number| {
            let begin = match at {
                Some((of, offset)) if of == number => offset,
                _ => pieces[number].from.max(SEGMENT_HEADER_BYTES as u64),
            };
            let behind = begin + group.group_bytes();
            at = Some((number, behind));
            if group.next_lsn() == last_lsn + 1 && group.count > 0 {
                end = Some(behind);
            }
            match group.next_lsn() <= last_lsn {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        end.ok_or_else(|| {
            let why = format!("no group ends at record {last_lsn}");
            damaged(&pieces[0].name(), 0, &why)
        })
    }
}

/// Reads all of the journal: it must end at `cut_lsn`, and have come by the place at which the backup's ended.
fn check(files: &dyn Files, backup_lsn: u64, backup: Stamp, cut_lsn: u64) -> Result<Rebuilt> {
    let whole = inspect::verify(files)?;
    let mut passes = backup_lsn == 0;
    inspect::dump(files, backup_lsn, &mut |group| {
        let header = &group.header;
        if header.next_lsn() == backup_lsn + 1 && header.count > 0 {
            passes = header.stamp.behind(header.count) == backup;
        }
        match header.next_lsn() <= backup_lsn {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    // A backup whose journal holds no record of its own ends where its first segment begins.
    if !passes && whole.first_lsn <= backup_lsn {
        return Err(damaged(
            &whole.end_segment,
            0,
            "the archive has another history than the backup",
        ));
    }
    if whole.last_lsn.max(backup_lsn) != cut_lsn {
        let why = format!("the records end at {}, not at {cut_lsn}", whole.last_lsn);
        return Err(damaged(&whole.end_segment, whole.end_offset, &why));
    }
    Ok(Rebuilt {
        last_lsn: cut_lsn,
        cluster_time: whole.stamp.cluster_time.saturating_sub(1),
    })
}
