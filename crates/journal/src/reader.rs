//! A tailing reader: records in LSN order, from the files, while writing goes on. It holds no lock and
//! keeps no space: a segment freed under it stays readable through its own handle.

use std::sync::Arc;
use std::time::Duration;

use crate::chain::scanner;
use crate::error::{Error, Result};
use crate::group_header::GroupHeader;
use crate::pipeline::Pipeline;
use crate::scan::GroupScanner;
use crate::segments::Segment;
use crate::ticket::Level;

/// Reads applied records, or only durable ones after `durable_only`.
pub struct Reader {
    pipeline: Arc<Pipeline>,
    level: Level,
    next_lsn: u64,
    segment: Arc<Segment>,
    scanner: GroupScanner,
    /// The group being handed out, as a copy: the caller may hold records while the window moves.
    group: Vec<(u64, Vec<u8>)>,
    given: usize,
}

impl Reader {
    pub(crate) fn new(pipeline: Arc<Pipeline>, from_lsn: u64) -> Result<Self> {
        let from_lsn = from_lsn.max(1);
        let first_lsn = pipeline.segments.first_lsn();
        if first_lsn > from_lsn {
            return Err(Error::HistoryMissing {
                needed_lsn: from_lsn,
                first_lsn,
            });
        }
        let segments = pipeline.segments.holding(from_lsn);
        let Some(segment) = segments.first().map(Arc::clone) else {
            return Err(Error::Closed);
        };
        let scanner = scanner(&segment);
        let level = Level::Written;
        Ok(Reader {
            pipeline,
            level,
            next_lsn: from_lsn,
            segment,
            scanner,
            group: Vec::new(),
            given: 0,
        })
    }

    /// From here on records are handed out only when they are durable.
    #[must_use]
    pub fn durable_only(mut self) -> Self {
        self.level = Level::Durable;
        self
    }

    /// The LSN that `next` gives out next, if no gap follows.
    pub fn next_lsn(&self) -> u64 {
        self.next_lsn
    }

    /// The next record if there is one now.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        while self.given == self.group.len() {
            if !self.load()? {
                return Ok(None);
            }
        }
        let (lsn, payload) = &self.group[self.given];
        self.given += 1;
        self.next_lsn = lsn + 1;
        Ok(Some((*lsn, payload)))
    }

    /// Sleeps until a record is there, at most `timeout`; says whether one is.
    pub fn wait(&self, timeout: Duration) -> bool {
        if self.given < self.group.len() {
            return true;
        }
        let is_there = || visible_lsn(&self.pipeline, self.level) >= self.next_lsn;
        is_there() || self.pipeline.wakeups.wait_for(timeout, &is_there)
    }

    /// Loads the group that holds the next record; false if it is not visible yet.
    fn load(&mut self) -> Result<bool> {
        if visible_lsn(&self.pipeline, self.level) < self.next_lsn {
            return Ok(false);
        }
        self.scanner.refresh();
        loop {
            match self.scanner.peek()? {
                Ok(header) if header.incarnation == self.segment.header.incarnation => {
                    if self.take(&header)? {
                        return Ok(true);
                    }
                }
                _ => self.next_segment()?,
            }
        }
    }

    fn take(&mut self, header: &GroupHeader) -> Result<bool> {
        self.group.clear();
        self.given = 0;
        for (lsn, payload) in &self.scanner.payloads(header)? {
            if lsn >= self.next_lsn {
                self.group.push((lsn, payload.to_vec()));
            }
        }
        self.scanner.skip(header);
        Ok(!self.group.is_empty())
    }

    fn next_segment(&mut self) -> Result<()> {
        let Some(next) = self.pipeline.segments.after(self.segment.header.sequence) else {
            return Err(Error::Damaged {
                segment: self.segment.name.clone(),
                offset: self.scanner.offset(),
                reason: format!("record {} is not there", self.next_lsn),
            });
        };
        if next.header.sequence != self.segment.header.sequence + 1 {
            let first_lsn = self.pipeline.segments.first_lsn();
            return Err(Error::HistoryMissing {
                needed_lsn: self.next_lsn,
                first_lsn,
            });
        }
        self.scanner = scanner(&next);
        self.segment = next;
        Ok(())
    }
}

fn visible_lsn(pipeline: &Pipeline, level: Level) -> u64 {
    let applied_lsn = pipeline.wakeups.applied_lsn();
    match level {
        Level::Written => applied_lsn,
        Level::Durable => applied_lsn.min(pipeline.syncer.durable_lsn()),
    }
}
