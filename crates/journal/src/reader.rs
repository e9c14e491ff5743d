//! A tailing reader: records in LSN order, from the log, while writing goes on.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::log::LogReader;
use crate::pipeline::Pipeline;
use crate::ticket::Level;

/// Reads applied records, or only durable ones after `durable_only`.
pub struct Reader {
    pipeline: Arc<Pipeline>,
    level: Level,
    next_lsn: u64,
    groups: Box<dyn LogReader>,
    /// The group being handed out, as a copy: the caller may hold records while the log's window moves.
    group: Vec<(u64, Vec<u8>)>,
    given: usize,
}

impl Reader {
    pub(crate) fn new(pipeline: Arc<Pipeline>, from_lsn: u64) -> Result<Self> {
        let next_lsn = from_lsn.max(1);
        let groups = pipeline.log.read(next_lsn)?;
        Ok(Reader {
            pipeline,
            level: Level::Written,
            next_lsn,
            groups,
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
        let Some(payloads) = self.groups.next_group()? else {
            return Ok(false);
        };
        self.group.clear();
        self.given = 0;
        for (lsn, payload) in &payloads {
            self.group.push((lsn, payload.to_vec()));
        }
        Ok(!self.group.is_empty())
    }
}

fn visible_lsn(pipeline: &Pipeline, level: Level) -> u64 {
    let applied_lsn = pipeline.wakeups.applied_lsn();
    match level {
        Level::Written => applied_lsn,
        Level::Durable => applied_lsn.min(pipeline.log.durable_lsn()),
    }
}
