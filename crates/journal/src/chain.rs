//! The chain of groups over segments: each group names its incarnation, its first LSN and the checksum
//! of the group before, so that a ghost of an older life never passes for the next group. Its index and its cluster time
//! go on from the group before, too. Digests are for those who compare nodes: `inspect::verify` checks them.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::Files;
use crate::group_header::{GroupFormat, GroupHeader};
use crate::hooks::Payloads;
use crate::scan::GroupScanner;
use crate::segment::{OpenSegment, Segment};
use crate::segment_header::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::stamp::Stamp;

/// The header fields that the next group must have. `previous_crc` and `stamp` are unknown where reading begins inside an
/// incarnation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub incarnation: u64,
    pub next_lsn: u64,
    pub previous_crc: Option<u32>,
    /// The place in the history that the next group goes on from.
    pub stamp: Option<Stamp>,
}

impl Link {
    /// Before the first group of `segment`, which holds `first_lsn` next if it does not say itself.
    pub fn before(segment: &Segment, first_lsn: u64) -> Self {
        Link::behind_header(&segment.header, segment.header_crc, first_lsn)
    }

    /// Like `before`, of a segment with this header, whose checksum is `header_crc`.
    pub fn behind_header(header: &SegmentHeader, header_crc: u32, first_lsn: u64) -> Self {
        if header.begins_incarnation() {
            return Link {
                incarnation: header.incarnation,
                next_lsn: header.first_lsn,
                previous_crc: Some(header_crc),
                stamp: Some(header.stamp),
            };
        }
        Link {
            incarnation: header.incarnation,
            next_lsn: first_lsn,
            previous_crc: None,
            stamp: None,
        }
    }

    /// Before a group that is known to be on the chain.
    pub fn inside(group: &GroupHeader) -> Self {
        Link {
            incarnation: group.incarnation,
            next_lsn: group.first_lsn,
            previous_crc: None,
            stamp: None,
        }
    }

    pub fn accepts(&self, header: &GroupHeader) -> bool {
        header.incarnation == self.incarnation
            && header.first_lsn == self.next_lsn
            && self
                .previous_crc
                .is_none_or(|crc| crc == header.previous_crc)
            && (header.format == GroupFormat::One
                || self.stamp.is_none_or(|stamp| stamp.precedes(&header.stamp)))
    }

    pub fn advance(&mut self, header: &GroupHeader) {
        self.next_lsn = header.next_lsn();
        self.previous_crc = Some(header.crc);
        if header.format != GroupFormat::One {
            self.stamp = Some(header.stamp.behind(header.count));
        }
    }
}

/// Where the chain ends: no group that continues it begins at `offset` of segment number `index`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainEnd {
    pub index: usize,
    pub offset: u64,
    pub link: Link,
    pub reason: &'static str,
    /// The last group is the mark of closing: everything before it was durable when it was written, and nothing was
    /// written behind it.
    pub is_closed: bool,
}

/// The body of a group on the chain.
#[derive(Clone, Copy)]
pub(crate) struct Visited<'g> {
    pub payloads: Payloads<'g>,
    /// The bytes that its digest sums up.
    pub digested: &'g [u8],
}

/// Follows the chain from the start of `segments`, handing every group to `visit`.
pub(crate) fn walk(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    link: Link,
    visit: &mut dyn FnMut(&Segment, u64, &GroupHeader, Visited<'_>) -> Result<()>,
) -> Result<ChainEnd> {
    walk_from(files, segments, SEGMENT_HEADER_BYTES as u64, link, visit)
}

/// Like `walk`, from a group of the first segment on that begins at `offset`.
pub(crate) fn walk_from(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    offset: u64,
    mut link: Link,
    visit: &mut dyn FnMut(&Segment, u64, &GroupHeader, Visited<'_>) -> Result<()>,
) -> Result<ChainEnd> {
    let mut index = 0;
    loop {
        let segment = &segments[index];
        let mut scanner = scanner(&OpenSegment::open(segment, files)?);
        if index == 0 {
            scanner.seek(offset);
        }
        let mut is_closed = false;
        let reason = loop {
            match scanner.peek()? {
                Ok(header) if link.accepts(&header) => {
                    visit(
                        segment,
                        scanner.offset(),
                        &header,
                        Visited {
                            payloads: scanner.payloads(&header),
                            digested: scanner.digested(&header),
                        },
                    )?;
                    link.advance(&header);
                    is_closed = header.is_mark_of_closing();
                    scanner.skip(&header);
                }
                Ok(_) => break "the group does not continue the chain",
                Err(reason) => break reason,
            }
        };
        let end = ChainEnd {
            index,
            offset: scanner.offset(),
            link,
            reason,
            is_closed,
        };
        match segments.get(index + 1) {
            Some(next) if next.header.begins_incarnation() => {
                link = begin_incarnation(&end, segment, next)?;
            }
            Some(_) if continues(files, &segments[index + 1..], &link)? => {}
            _ => return Ok(end),
        }
        index += 1;
    }
}

pub(crate) fn scanner(segment: &OpenSegment) -> GroupScanner {
    GroupScanner::new(segment, SEGMENT_HEADER_BYTES as u64)
}

/// A new incarnation was begun only after everything before it was cut and synced: it says exactly
/// where the chain ended.
fn begin_incarnation(end: &ChainEnd, segment: &Segment, next: &Segment) -> Result<Link> {
    let end_lsn = end.link.next_lsn - 1;
    let expected = next.header.previous_end_lsn;
    if end_lsn != expected {
        return Err(Error::Damaged {
            segment: segment.name.clone(),
            offset: end.offset,
            reason: format!(
                "records end at {end_lsn} instead of {expected}: {}",
                end.reason
            ),
        });
    }
    let goes_on = (end.link.stamp).is_none_or(|stamp| stamp == next.header.stamp);
    if !goes_on {
        return Err(Error::Damaged {
            segment: next.name.clone(),
            offset: 0,
            reason: "the segment goes on from another history than the one before it".to_owned(),
        });
    }
    Ok(Link::before(next, 0))
}

/// Whether the first of these segments that holds a group goes on where the chain is: one stays empty whose first write
/// met a full disk, if the next group needs a longer one.
fn continues(files: &dyn Files, later: &[Arc<Segment>], link: &Link) -> Result<bool> {
    for segment in later {
        if segment.header.begins_incarnation() {
            return Ok(false);
        }
        if let Ok(header) = scanner(&OpenSegment::open(segment, files)?).peek()? {
            return Ok(link.accepts(&header));
        }
    }
    Ok(false)
}
