//! Open cursors: what a find or aggregate left to be fetched.
//!
//! A cursor is idle in the table or in the hands of exactly one getMore; killing a busy one interrupts that getMore.
//! It belongs to a namespace and to the session that made it, and ends with its last document, by killCursors, with
//! its session, or after ten idle minutes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_bson::{ArrayBuilder, Document, DocumentBuilder};
use quarry_database::{Database, Operation};
use quarry_query::ErrorCode;
use quarry_query::exec::Executor;
use rustc_hash::FxHashMap;

use crate::command::Invocation;
use crate::counters::Counter;
use crate::error::{CommandError, Result};
use crate::sessions::SessionId;

/// Documents of a first batch when the client names no size.
pub const FIRST_BATCH_DOCUMENTS: u64 = 101;
/// A batch ends before it would exceed a document's size.
const BATCH_BYTES_MAX: usize = quarry_bson::DOCUMENT_BYTES_MAX;
/// Cursors open at once.
const CURSORS_MAX: usize = 1_000_000;
const SHARDS: usize = 16;

/// Where a cursor's documents come from.
pub enum Source {
    Executor(Box<Executor>),
    /// Made when the command ran, such as the list of collections.
    Documents(VecDeque<Document>),
}

/// One cursor.
pub struct ClientCursor {
    pub id: i64,
    pub namespace: String,
    pub session: Option<SessionId>,
    pub source: Source,
    /// A document that was made and did not fit into the last batch.
    overflow: Vec<u8>,
    /// What is left of the maxTimeMS of the command that made it.
    pub time_left: Option<Duration>,
    pub is_tailable: bool,
    pub is_await_data: bool,
    pub has_no_timeout: bool,
    pub returned: u64,
}

/// What the first reply of a cursor holds.
#[derive(Clone, Copy, Debug)]
pub struct FirstBatch {
    pub documents_max: u64,
    /// No cursor stays open after it.
    pub is_only: bool,
    /// With that many documents returned the cursor has ended.
    pub limit: Option<u64>,
}

impl Default for FirstBatch {
    fn default() -> Self {
        FirstBatch {
            documents_max: FIRST_BATCH_DOCUMENTS,
            is_only: false,
            limit: None,
        }
    }
}

impl FirstBatch {
    /// Reads `cursor: {batchSize}` of the commands that list.
    pub fn parse(invocation: &Invocation<'_>) -> Result<FirstBatch> {
        let mut batch = FirstBatch::default();
        let Some(options) = invocation.document("cursor")? else {
            return Ok(batch);
        };
        for element in options {
            let name = element.name();
            if name != "batchSize" {
                let path = format!("{}.cursor", invocation.command.name);
                return Err(CommandError::unknown_field(&path, &name.to_string_lossy()));
            }
            let size = element
                .value()
                .as_i64_exact()
                .and_then(|size| u64::try_from(size).ok());
            batch.documents_max = size.ok_or_else(|| {
                CommandError::bad_value("cursor.batchSize must be a non-negative number")
            })?;
        }
        Ok(batch)
    }
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchEnd {
    /// The batch is full; there may be more.
    Full,
    /// There are no more documents now.
    Exhausted,
}

impl ClientCursor {
    pub fn new(namespace: String, session: Option<SessionId>, source: Source) -> ClientCursor {
        ClientCursor {
            id: 0,
            namespace,
            session,
            source,
            overflow: Vec::new(),
            time_left: None,
            is_tailable: false,
            is_await_data: false,
            has_no_timeout: false,
            returned: 0,
        }
    }

    /// Appends up to `documents_max` documents to the batch.
    pub fn fill(
        &mut self,
        operation: &Arc<Operation>,
        batch: &mut ArrayBuilder<'_>,
        documents_max: u64,
    ) -> Result<BatchEnd> {
        let mut count = 0;
        while count < documents_max {
            let room = BATCH_BYTES_MAX.saturating_sub(batch.len_bytes());
            let mut is_full = false;
            let pushed = batch.push_document_with(|out| {
                let start = out.len();
                if !self.next(operation, out)? {
                    return Ok(false);
                }
                is_full = count > 0 && out.len() - start > room;
                if is_full {
                    self.overflow.extend_from_slice(&out[start..]);
                }
                Ok::<bool, CommandError>(!is_full)
            })?;
            if is_full {
                return Ok(BatchEnd::Full);
            }
            if !pushed {
                return Ok(BatchEnd::Exhausted);
            }
            count += 1;
            self.returned += 1;
        }
        Ok(BatchEnd::Full)
    }

    /// Writes the `cursor` of a first reply and keeps what is left for getMore.
    pub fn answer(
        mut self,
        invocation: &mut Invocation<'_>,
        batch: FirstBatch,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let server = invocation.server;
        let mut shown = reply.document("cursor");
        let mut list = shown.array("firstBatch");
        let end = self.fill(invocation.operation, &mut list, batch.documents_max)?;
        list.finish();
        invocation.returned = self.returned;
        server.counters.add(
            invocation.connection.id,
            Counter::DocumentsReturned,
            self.returned,
        );
        let is_open = if self.is_tailable {
            !self.is_dead()
        } else {
            end == BatchEnd::Full
        };
        let has_reached_limit = batch.limit.is_some_and(|limit| self.returned >= limit);
        let namespace = self.namespace.clone();
        let id = if is_open && !batch.is_only && !has_reached_limit {
            self.save()?;
            self.time_left = invocation
                .operation
                .deadline()
                .map(|end| end.saturating_duration_since(Instant::now()));
            server.cursors.keep(self)?
        } else {
            0
        };
        shown.append("id", id);
        shown.append("ns", namespace.as_str());
        shown.finish();
        Ok(())
    }

    /// Gives up what holds the engine's memory, at the end of a batch.
    pub fn save(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Executor(executor) => Ok(executor.save()?),
            Source::Documents(_) => Ok(()),
        }
    }

    /// Takes up where the last batch ended.
    pub fn restore(&mut self, database: &Database, operation: &Operation) -> Result<()> {
        match &mut self.source {
            Source::Executor(executor) => Ok(executor.restore(database, operation)?),
            Source::Documents(_) => Ok(()),
        }
    }

    /// A tailable cursor that can have no more documents.
    pub fn is_dead(&self) -> bool {
        match &self.source {
            Source::Executor(executor) => executor.is_dead(),
            Source::Documents(_) => true,
        }
    }

    fn next(&mut self, operation: &Arc<Operation>, out: &mut Vec<u8>) -> Result<bool> {
        if !self.overflow.is_empty() {
            out.append(&mut self.overflow);
            return Ok(true);
        }
        match &mut self.source {
            Source::Executor(executor) => Ok(executor.next(operation, out)?),
            Source::Documents(documents) => match documents.pop_front() {
                Some(document) => {
                    out.extend_from_slice(document.as_bytes());
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }
}

enum Slot {
    Idle {
        cursor: Box<ClientCursor>,
        last_used: Instant,
    },
    Busy {
        operation: Arc<Operation>,
        session: Option<SessionId>,
        is_killed: bool,
    },
}

/// The table of cursors.
#[derive(Default)]
pub struct Cursors {
    shards: [Mutex<FxHashMap<i64, Slot>>; SHARDS],
    pub total_opened: AtomicI64,
    pub total_timed_out: AtomicI64,
    open: AtomicI64,
}

impl Cursors {
    /// Gives the cursor a number and keeps it. The number is random, so that no client can guess another's.
    pub fn keep(&self, mut cursor: ClientCursor) -> Result<i64> {
        if self.open.fetch_add(1, Relaxed) >= CURSORS_MAX as i64 {
            self.open.fetch_sub(1, Relaxed);
            return Err(CommandError::new(
                ErrorCode::EXCEEDED_MEMORY_LIMIT,
                "too many open cursors",
            ));
        }
        loop {
            let id = random_id();
            let mut shard = self.shard(id).lock();
            if shard.contains_key(&id) {
                continue;
            }
            cursor.id = id;
            shard.insert(
                id,
                Slot::Idle {
                    cursor: Box::new(cursor),
                    last_used: Instant::now(),
                },
            );
            self.total_opened.fetch_add(1, Relaxed);
            return Ok(id);
        }
    }

    /// What is left of its maxTimeMS, before a getMore begins.
    pub fn time_left(&self, id: i64) -> Option<Duration> {
        match self.shard(id).lock().get(&id) {
            Some(Slot::Idle { cursor, .. }) => cursor.time_left,
            _ => None,
        }
    }

    /// Hands the cursor out to a getMore; `put_back` or `finish` follows.
    pub fn take(
        &self,
        id: i64,
        namespace: &str,
        session: Option<SessionId>,
        operation: &Arc<Operation>,
    ) -> Result<Box<ClientCursor>> {
        let mut shard = self.shard(id).lock();
        let Some(slot) = shard.get_mut(&id) else {
            return Err(not_found(id));
        };
        let Slot::Idle { cursor, .. } = slot else {
            let message = format!("cursor id {id} is already in use");
            return Err(CommandError::new(ErrorCode(12_051), message));
        };
        check_namespace(cursor, namespace)?;
        check_session(cursor, session)?;
        let busy = Slot::Busy {
            operation: Arc::clone(operation),
            session: cursor.session,
            is_killed: false,
        };
        match std::mem::replace(slot, busy) {
            Slot::Idle { cursor, .. } => Ok(cursor),
            Slot::Busy { .. } => Err(not_found(id)),
        }
    }

    /// Takes the cursor back, unless it was killed meanwhile; says whether it is still open.
    pub fn put_back(&self, cursor: Box<ClientCursor>) -> bool {
        let id = cursor.id;
        let mut shard = self.shard(id).lock();
        if !matches!(
            shard.get(&id),
            Some(Slot::Busy {
                is_killed: false,
                ..
            })
        ) {
            shard.remove(&id);
            self.open.fetch_sub(1, Relaxed);
            drop(shard);
            return false;
        }
        shard.insert(
            id,
            Slot::Idle {
                cursor,
                last_used: Instant::now(),
            },
        );
        true
    }

    /// The cursor in hand has ended.
    pub fn finish(&self, id: i64) {
        if self.shard(id).lock().remove(&id).is_some() {
            self.open.fetch_sub(1, Relaxed);
        }
    }

    /// Kills one cursor of `namespace`; false when there is none.
    pub fn kill(&self, id: i64, namespace: &str) -> Result<bool> {
        let mut shard = self.shard(id).lock();
        if let Some(Slot::Idle { cursor, .. }) = shard.get(&id) {
            check_namespace(cursor, namespace)?;
        }
        let killed = shard.get_mut(&id).map(kill_slot);
        let removed = if killed == Some(true) {
            shard.remove(&id)
        } else {
            None
        };
        drop(shard);
        if removed.is_some() {
            self.open.fetch_sub(1, Relaxed);
        }
        Ok(killed.is_some())
    }

    pub fn kill_session(&self, session: SessionId) {
        self.kill_where(|slot| match slot {
            Slot::Idle { cursor, .. } => cursor.session == Some(session),
            Slot::Busy { session: owner, .. } => *owner == Some(session),
        });
    }

    pub fn kill_all(&self) {
        self.kill_where(|_| true);
    }

    /// Ends the cursors that were not used for `timeout`.
    pub fn reap(&self, timeout: Duration) {
        let now = Instant::now();
        let ended = self.kill_where(|slot| match slot {
            Slot::Idle { cursor, last_used } => {
                !cursor.has_no_timeout && now.duration_since(*last_used) >= timeout
            }
            Slot::Busy { .. } => false,
        });
        self.total_timed_out.fetch_add(ended, Relaxed);
    }

    /// Open cursors, those without a timeout, and those in use.
    pub fn count(&self) -> (i64, i64, i64) {
        let (mut open, mut no_timeout, mut busy) = (0, 0, 0);
        for shard in &self.shards {
            for slot in shard.lock().values() {
                open += 1;
                match slot {
                    Slot::Idle { cursor, .. } => no_timeout += i64::from(cursor.has_no_timeout),
                    Slot::Busy { .. } => busy += 1,
                }
            }
        }
        (open, no_timeout, busy)
    }

    fn kill_where(&self, is_meant: impl Fn(&Slot) -> bool) -> i64 {
        let mut killed = 0;
        for shard in &self.shards {
            // The cursors are dropped outside of the lock: one may hold much.
            let mut ended = Vec::new();
            let mut slots = shard.lock();
            let ids: Vec<i64> = slots
                .iter()
                .filter(|(_, slot)| is_meant(slot))
                .map(|(id, _)| *id)
                .collect();
            for id in ids {
                if slots.get_mut(&id).is_some_and(kill_slot) {
                    ended.extend(slots.remove(&id));
                }
            }
            drop(slots);
            killed += ended.len() as i64;
        }
        self.open.fetch_sub(killed, Relaxed);
        killed
    }

    fn shard(&self, id: i64) -> &Mutex<FxHashMap<i64, Slot>> {
        &self.shards[id.unsigned_abs() as usize % SHARDS]
    }
}

/// Interrupts a busy cursor's getMore; says whether the slot can be removed now.
fn kill_slot(slot: &mut Slot) -> bool {
    match slot {
        Slot::Idle { .. } => true,
        Slot::Busy {
            operation,
            is_killed,
            ..
        } => {
            operation.kill();
            *is_killed = true;
            false
        }
    }
}

fn check_namespace(cursor: &ClientCursor, namespace: &str) -> Result<()> {
    if cursor.namespace == namespace {
        return Ok(());
    }
    let message = format!(
        "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
        cursor.namespace
    );
    Err(CommandError::new(ErrorCode::UNAUTHORIZED, message))
}

fn check_session(cursor: &ClientCursor, session: Option<SessionId>) -> Result<()> {
    let id = cursor.id;
    let (code, message) = match (cursor.session, session) {
        (mine, theirs) if mine == theirs => return Ok(()),
        (None, Some(_)) => (
            50_736,
            format!("Cannot run getMore on cursor {id}, which was not created in a session"),
        ),
        (Some(_), None) => (
            50_737,
            format!(
                "Cannot run getMore on cursor {id}, which was created in a session, without an lsid"
            ),
        ),
        _ => (
            50_738,
            format!("Cannot run getMore on cursor {id}, which was created in another session"),
        ),
    };
    Err(CommandError::new(ErrorCode(code), message))
}

fn not_found(id: i64) -> CommandError {
    CommandError::new(
        ErrorCode::CURSOR_NOT_FOUND,
        format!("cursor id {id} not found"),
    )
}

fn random_id() -> i64 {
    loop {
        let random = getrandom::u64().expect("the kernel gives random bytes");
        let id = (random >> 1) as i64;
        if id != 0 {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn cursor(session: Option<SessionId>) -> ClientCursor {
        let documents = (0..5).map(|n| doc! { "_id": n }).collect();
        ClientCursor::new("db.c".into(), session, Source::Documents(documents))
    }

    #[test]
    fn batches_follow_each_other() {
        let operation = Arc::new(Operation::default());
        let mut cursor = cursor(None);
        let mut out = Vec::new();
        let mut batch = ArrayBuilder::new(&mut out);
        assert_eq!(
            cursor.fill(&operation, &mut batch, 2).unwrap(),
            BatchEnd::Full
        );
        assert_eq!(batch.len(), 2);
        assert_eq!(
            cursor.fill(&operation, &mut batch, 10).unwrap(),
            BatchEnd::Exhausted
        );
        assert_eq!((batch.len(), cursor.returned), (5, 5));
    }

    #[test]
    fn a_batch_never_exceeds_its_bytes_and_nothing_is_lost() {
        let operation = Arc::new(Operation::default());
        let large = "x".repeat(6 << 20);
        let documents = (0..5)
            .map(|n| doc! { "_id": n, "large": large.as_str() })
            .collect();
        let mut cursor = ClientCursor::new("db.c".into(), None, Source::Documents(documents));
        let mut lengths = Vec::new();
        loop {
            let mut out = Vec::new();
            let mut batch = ArrayBuilder::new(&mut out);
            let end = cursor.fill(&operation, &mut batch, u64::MAX).unwrap();
            lengths.push(batch.len());
            assert!(batch.len_bytes() <= BATCH_BYTES_MAX + 64);
            if end == BatchEnd::Exhausted {
                break;
            }
        }
        assert_eq!(lengths, [2, 2, 1]);
    }

    #[test]
    fn a_cursor_is_for_its_owner_only_and_ends_when_killed() {
        let cursors = Cursors::default();
        let operation = Arc::new(Operation::default());
        let session = Some(SessionId::generate());
        let id = cursors.keep(cursor(session)).unwrap();
        assert_eq!(
            cursors
                .take(id, "db.other", session, &operation)
                .err()
                .unwrap()
                .code,
            13
        );
        assert_eq!(
            cursors
                .take(id, "db.c", None, &operation)
                .err()
                .unwrap()
                .code,
            50_737
        );
        let taken = cursors.take(id, "db.c", session, &operation).unwrap();
        assert_eq!(
            cursors
                .take(id, "db.c", session, &operation)
                .err()
                .unwrap()
                .code,
            12_051
        );
        assert!(cursors.kill(id, "db.c").unwrap());
        assert!(operation.is_killed());
        assert!(!cursors.put_back(taken));
        assert_eq!(
            cursors
                .take(id, "db.c", session, &operation)
                .err()
                .unwrap()
                .code,
            43
        );
        let id = cursors.keep(cursor(None)).unwrap();
        cursors.reap(Duration::from_secs(60));
        assert!(cursors.take(id, "db.c", None, &operation).is_ok());
        assert!(cursors.kill(id, "db.c").unwrap());
        assert_eq!(cursors.count().0, 1);
        cursors.finish(id);
        assert_eq!(cursors.count().0, 0);
    }
}
