//! Reads the changes of a collection, a database or everything from the journal, as far as it is durable.
//!
//! A reader has seen all changes before its next record. Up to `walk_through` it reads record by record; behind that its
//! interest tells it where the next record is that may matter, and it jumps there. Between two batches it keeps its place and
//! its interest alone; a file is open only while there is something to read.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use quarry_journal::{LogReader, Payloads};
use smallvec::SmallVec;

use super::change_event::{ChangeEvent, RecordOps, definition_event, document_event};
use super::change_point::{ChangePoint, Lives, WHOLE_RECORD};
use crate::commit::changes::ChangeKind;
use crate::commit::commits::Commits;
use crate::commit::definition_event::{DefinitionKind, RecordDefinition};
use crate::commit::interests::{Look, Registration, Told};
use crate::commit::payload::{Delta, Payload};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;

/// Databases whose changes nobody is told who asks for everything.
const INTERNAL_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// The collections that a reader wants to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeScope {
    /// One collection, by its name.
    Collection(Namespace),
    /// All collections of a database but its system collections.
    Database(String),
    /// All collections but system collections and those of admin, config and local.
    Everything,
}

impl ChangeScope {
    /// The name that the interest is registered with.
    fn name(&self) -> &[u8] {
        match self {
            ChangeScope::Collection(namespace) => namespace.as_str().as_bytes(),
            ChangeScope::Database(database) => database.as_bytes(),
            ChangeScope::Everything => &[],
        }
    }

    /// Whether changes of the collection with that name are wanted.
    fn wants(&self, namespace: &[u8]) -> bool {
        let wanted = match self {
            ChangeScope::Collection(wanted) => return wanted.as_str().as_bytes() == namespace,
            ChangeScope::Database(database) => Some(database.as_bytes()),
            ChangeScope::Everything => None,
        };
        let mut parts = namespace.splitn(2, |&byte| byte == b'.');
        let (database, collection) = (parts.next().unwrap_or_default(), parts.next());
        let is_internal = || {
            INTERNAL_DATABASES
                .iter()
                .any(|internal| internal.as_bytes() == database)
        };
        wanted.map_or_else(|| !is_internal(), |wanted| wanted == database)
            && collection.is_none_or(|collection| !collection.starts_with(b"system."))
    }

    /// Whether a change of a definition is wanted. That of the collection's whole database is where it stands for the
    /// collection's own.
    fn wants_definition(&self, definition: &RecordDefinition<'_>) -> bool {
        let names = definition.names();
        let mut wanted = names.into_iter().flatten().map(str::as_bytes);
        match (self, definition.kind) {
            (ChangeScope::Collection(namespace), DefinitionKind::DropDatabase) => {
                names[0] == Some(namespace.database()) && definition.stands_for_collections()
            }
            (ChangeScope::Collection(_), _) if definition.is_of_view() => false,
            _ => wanted.any(|name| self.wants(name)),
        }
    }
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesFrom {
    /// Behind everything that is committed now.
    Now,
    /// With the first commit that has this cluster time or a later one.
    Time(u64),
    /// Behind a place that an earlier reader has come to.
    Behind(ChangePoint),
    /// With the change that a place is behind: it is handed out again. Until then the reader is at that place.
    At(ChangePoint),
}

/// The outcome of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesRead {
    /// There is nothing more for now: `wait_until` tells when there is.
    All,
    /// The receiver of the changes wanted no more, or enough of the journal was read for one call.
    Some,
}

/// A reader of changes. It may be kept for as long as one likes, and holds a few hundred bytes while it waits.
pub struct ChangeReader {
    commits: Arc<Commits>,
    lives: Lives,
    scope: ChangeScope,
    interest: Registration,
    /// Everything before this record was handed out or passed over.
    next_lsn: u64,
    /// The number of changes of that record that were, too.
    skipped: u32,
    /// Records up to here are to be read; behind that the interest tells.
    walk_through: u64,
    groups: Option<Box<dyn LogReader>>,
    /// Changes before this time are passed over.
    not_before: u64,
    /// The time of the commit that the reader was in last.
    commit_time: u64,
    /// The place that it has come to, behind a durable record.
    behind: ChangePoint,
    /// Later places, whose records may not be durable yet: the earliest of them, and the last.
    soon_behind: Option<ChangePoint>,
    latest: Option<ChangePoint>,
}

/// A reader reads at most so many bytes of records in one call, and is asked again.
const READ_BYTES_MAX: usize = 8 << 20;

impl ChangeReader {
    pub(crate) fn open(
        commits: &Arc<Commits>,
        scope: ChangeScope,
        from: ChangesFrom,
    ) -> Result<ChangeReader> {
        let interest = commits.path().interests().register(scope.name());
        // What is committed from here on the interest is told of.
        let applied_lsn = commits.path().applied_lsn();
        let mut reader = ChangeReader {
            commits: Arc::clone(commits),
            lives: Lives::of(commits.journal()),
            scope,
            interest,
            next_lsn: applied_lsn + 1,
            skipped: 0,
            walk_through: applied_lsn,
            groups: None,
            not_before: 0,
            commit_time: 0,
            behind: ChangePoint::behind_time(0),
            soon_behind: None,
            latest: None,
        };
        match from {
            ChangesFrom::Now => reader.begin_now(applied_lsn)?,
            ChangesFrom::Time(time) => reader.begin_at_time(time)?,
            ChangesFrom::Behind(point) if point.is_behind_time() => {
                let journal = commits.journal();
                let has_come = point.cluster_time <= journal.cluster_time();
                if !has_come && !reader.lives.is_current(&point) {
                    return Err(history_lost());
                }
                reader.begin_at_time(point.cluster_time + 1)?;
            }
            ChangesFrom::Behind(point) => reader.begin_in(point, point.index.checked_add(1))?,
            ChangesFrom::At(point) => reader.begin_in(point, Some(point.index))?,
        }
        Ok(reader)
    }

    fn begin_now(&mut self, applied_lsn: u64) -> Result<()> {
        let journal = self.commits.journal();
        self.behind = ChangePoint::behind_time(journal.cluster_time());
        let first_lsn = journal.first_lsn();
        if first_lsn == 0 || first_lsn > applied_lsn {
            return Ok(());
        }
        self.next_lsn = applied_lsn;
        let place = self.place_behind_next();
        self.next_lsn = applied_lsn + 1;
        match place {
            Ok(Some(place)) => self.behind = place,
            // After a start whose engine was ahead of the journal nobody has the last record; what comes is behind its time.
            Err(error) if error.code() == ErrorCode::CHANGE_STREAM_HISTORY_LOST.0 => {}
            place => return place.map(drop),
        }
        Ok(())
    }

    /// The place behind the next record, which is read for it; none at the end.
    fn place_behind_next(&self) -> Result<Option<ChangePoint>> {
        let mut groups = self.read_journal()?;
        let payloads = groups.next_group().map_err(missing)?;
        Ok(payloads.map(|payloads| ChangePoint {
            cluster_time: payloads.cluster_time(),
            index: WHOLE_RECORD,
            lsn: self.next_lsn,
            life: self.lives.number(payloads.incarnation()),
        }))
    }

    fn begin_at_time(&mut self, time: u64) -> Result<()> {
        let journal = self.commits.journal();
        let first = journal.first_since(time);
        if let Some(lsn) = first.map_err(missing)? {
            self.next_lsn = lsn;
        }
        self.not_before = time;
        self.behind = ChangePoint::behind_time(time.saturating_sub(1));
        // Until the time comes, only the life that the reader waits in can tell that nothing was lost before it.
        if self.behind.cluster_time > journal.cluster_time() {
            self.behind.life = self.lives.current();
        }
        Ok(())
    }

    /// Begins in the record of a place, so many of its changes passed over; behind the record if it is none.
    fn begin_in(&mut self, point: ChangePoint, skipped: Option<u32>) -> Result<()> {
        if point.lsn == 0 || point.lsn > self.walk_through {
            return Err(history_lost());
        }
        self.next_lsn = point.lsn;
        let mut groups = self.read_journal()?;
        let payloads = groups.next_group().map_err(missing)?;
        let payloads = payloads
            .filter(|payloads| {
                payloads.first_lsn() == point.lsn
                    && self.lives.is_of(&point, payloads.incarnation())
                    && payloads.cluster_time() == point.cluster_time
            })
            .ok_or_else(history_lost)?;
        self.commit_time = payloads.group_cluster_time();
        match skipped {
            None => self.next_lsn = point.lsn + 1,
            Some(skipped) => self.skipped = skipped,
        }
        self.behind = point;
        Ok(())
    }

    /// Hands changes to `take` until it breaks off or there are no more for now.
    pub fn read(
        &mut self,
        take: &mut dyn FnMut(&ChangeEvent<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ChangesRead> {
        let mut left = READ_BYTES_MAX;
        loop {
            while self.next_lsn <= self.walk_through {
                if left == 0 {
                    return Ok(ChangesRead::Some);
                }
                if self.read_group(&mut left, take)?.is_break() {
                    self.groups = None;
                    return Ok(ChangesRead::Some);
                }
            }
            let Look { first_lsn, told } = self.interest.look();
            if first_lsn == 0 {
                self.rest(told);
                return Ok(ChangesRead::All);
            }
            if first_lsn > self.next_lsn {
                (self.next_lsn, self.skipped) = (first_lsn, 0);
                self.groups = None;
            }
            self.walk_through = first_lsn.max(told.lsn);
        }
    }

    /// Waits until there may be something to read; false when `until` comes first, or somebody ends the wait.
    pub fn wait_until(&mut self, until: Instant) -> bool {
        self.groups = None;
        self.next_lsn <= self.walk_through || self.interest.wait_until(until)
    }

    /// From now on the end of the operation, by killOp for example, ends a wait of this reader.
    pub fn end_wait_with(&self, operation: &Operation) {
        operation.wake_with(self.interest.waker());
    }

    /// The cluster time of the commit that the reader was in last, or began in.
    pub fn commit_time(&self) -> u64 {
        self.commit_time
    }

    /// The place that the reader has come to: a later reader that begins behind it misses nothing and meets nothing twice.
    pub fn point(&mut self) -> ChangePoint {
        let durable_lsn = self.commits.journal().durable_lsn();
        let is_durable = |point: &mut ChangePoint| point.lsn <= durable_lsn;
        if let Some(latest) = self.latest.take_if(is_durable) {
            self.behind = latest;
            self.soon_behind = None;
        } else if let Some(soon) = self.soon_behind.take_if(is_durable) {
            self.behind = soon;
            self.soon_behind = self.latest.take();
        }
        self.behind
    }

    fn come_to(&mut self, point: ChangePoint) {
        self.behind = point;
        (self.soon_behind, self.latest) = (None, None);
    }

    /// There is nothing more up to `told`.
    fn rest(&mut self, told: Told) {
        self.groups = None;
        if told.lsn < self.next_lsn.saturating_sub(1) || told.lsn <= self.behind.lsn {
            return;
        }
        if told.lsn >= self.next_lsn {
            (self.next_lsn, self.skipped) = (told.lsn + 1, 0);
        }
        if told.cluster_time < self.not_before {
            return;
        }
        self.latest = Some(ChangePoint {
            cluster_time: told.cluster_time,
            index: WHOLE_RECORD,
            lsn: told.lsn,
            life: self.lives.current(),
        });
        if self.soon_behind.is_none() {
            self.soon_behind = self.latest;
        }
        self.point();
    }

    fn read_journal(&self) -> Result<Box<dyn LogReader>> {
        let journal = self.commits.journal();
        // A change that nobody may see after a crash is handed to nobody before.
        journal.wait_durable(self.walk_through)?;
        journal.log().read(self.next_lsn).map_err(missing)
    }

    /// Hands out the changes of the next group.
    fn read_group(
        &mut self,
        left: &mut usize,
        take: &mut dyn FnMut(&ChangeEvent<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut groups = match self.groups.take() {
            Some(groups) => {
                let journal = self.commits.journal();
                journal.wait_durable(self.walk_through)?;
                groups
            }
            None => self.read_journal()?,
        };
        let payloads = groups.next_group().map_err(missing)?;
        let payloads = payloads
            .filter(|payloads| payloads.first_lsn() == self.next_lsn)
            // A recorded gap: what was in it nobody knows.
            .ok_or_else(history_lost)?;
        self.commit_time = payloads.group_cluster_time();
        for (lsn, bytes) in &payloads {
            *left = left.saturating_sub(bytes.len());
            let flow = self.read_record(&payloads, lsn, bytes, take)?;
            if flow.is_break() {
                return Ok(flow);
            }
            (self.next_lsn, self.skipped) = (lsn + 1, 0);
            // Behind a change from before the time to begin with, a later reader would be told of others from before it.
            if self.commit_time >= self.not_before {
                self.come_to(ChangePoint {
                    cluster_time: payloads.cluster_time() + (lsn - payloads.first_lsn()),
                    index: WHOLE_RECORD,
                    lsn,
                    life: self.lives.number(payloads.incarnation()),
                });
            }
        }
        self.groups = Some(groups);
        Ok(ControlFlow::Continue(()))
    }

    fn read_record(
        &mut self,
        payloads: &Payloads<'_>,
        lsn: u64,
        bytes: &[u8],
        take: &mut dyn FnMut(&ChangeEvent<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let payload = Payload::parse(bytes)?;
        if !payload.tells_events() {
            return Err(history_lost());
        }
        let is_empty = payload.changes_len() == 0 && payload.definitions_len() == 0;
        if is_empty || self.commit_time < self.not_before {
            return Ok(ControlFlow::Continue(()));
        }
        let record_time = payloads.cluster_time() + (lsn - payloads.first_lsn());
        let commit_time = self.commit_time;
        let life = self.lives.number(payloads.incarnation());
        let at = |index: u32| {
            let point = ChangePoint {
                cluster_time: record_time,
                index,
                lsn,
                life,
            };
            (point, commit_time)
        };
        // Definitions come first: a transaction makes its collections before it writes to them.
        let skipped = self.skipped;
        for (index, definition) in (0..).zip(payload.all_definitions()) {
            let definition = definition?;
            if index < skipped || !self.scope.wants_definition(&definition) {
                continue;
            }
            let event = definition_event(&payload, &definition, at(index))?;
            if self.hand_out(&event, take)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.hand_out_documents(&payload, at, take)
    }

    /// Hands out the changes of documents in a record whose definitions were all read.
    fn hand_out_documents(
        &mut self,
        payload: &Payload<'_>,
        at: impl Fn(u32) -> (ChangePoint, u64),
        take: &mut dyn FnMut(&ChangeEvent<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let deltas: SmallVec<[Delta<'_>; 2]> = payload.deltas().collect();
        if !deltas.iter().any(|delta| self.scope.wants(delta.namespace)) {
            return Ok(ControlFlow::Continue(()));
        }
        // The definitions and the changes are fewer than the record has bytes, which 32 bits hold.
        let begin = u32::try_from(payload.definitions_len()).unwrap_or(u32::MAX);
        let skipped = self.skipped;
        let ops = RecordOps::of(payload);
        for (index, change) in (begin..).zip(payload.all_changes()) {
            let change = change?;
            let delta = deltas.get(change.collection);
            let delta = delta.filter(|delta| self.scope.wants(delta.namespace));
            let (Some(delta), true) = (delta, index >= skipped && change.kind != ChangeKind::Trim)
            else {
                continue;
            };
            let event = document_event(payload, delta, at(index), ops.change(&change)?)?;
            if self.hand_out(&event, take)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn hand_out(
        &mut self,
        event: &ChangeEvent<'_>,
        take: &mut dyn FnMut(&ChangeEvent<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let flow = take(event)?;
        self.come_to(event.point);
        self.skipped = event.point.index + 1;
        Ok(flow)
    }
}

fn history_lost() -> Error {
    let message = "Resume of change stream was not possible, as the resume point may no longer be in the oplog.";
    Error::invalid(ErrorCode::CHANGE_STREAM_HISTORY_LOST, message)
}

/// The error of a journal that no longer has what is asked for.
fn missing(error: quarry_journal::Error) -> Error {
    match error {
        quarry_journal::Error::HistoryMissing { .. } => history_lost(),
        error => error.into(),
    }
}
