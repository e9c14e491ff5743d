//! One open cursor: where its documents come from, and how they go into batches.
//!
//! Keeps true: a batch stays within a document's size, and a document that did not fit is the first of the next one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quarry_bson::{ArrayBuilder, DateTime, Document, DocumentBuilder};
use quarry_database::{Ident, Operation, PinnedSnapshot};
use quarry_query::exec::Executor;

use crate::access::name::Name;
use crate::access::resource::Need;
use crate::change_streams::change_stream::ChangeStream;
use crate::data::Data;
use crate::dispatch::api_parameters::ApiParameters;
use crate::dispatch::concerns::ReadConcern;
use crate::dispatch::error::{CommandError, Result};
use crate::observe::query_stats::RecordedQuery;
use crate::sessions::cursor_origin::CursorOrigin;
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::{Lsid, SessionId};

/// A batch ends before it would exceed a document's size.
const BATCH_BYTES_MAX: usize = quarry_bson::DOCUMENT_BYTES_MAX;

/// A batch is counted as memory of its operation in steps of so much; a smaller one is not counted.
const REPLY_STEP_BYTES: usize = 1 << 20;

/// Where a cursor's documents come from.
pub enum Source {
    Executor(Box<Executor>),
    /// Made when the command ran, such as the list of indexes.
    Documents(VecDeque<Document>),
    /// Made as they are asked for, such as the list of collections.
    Stream(Box<dyn DocumentStream>),
    /// Made of changes, for as long as somebody asks.
    Changes(Box<ChangeStream>),
}

/// Documents that a command makes a piece at a time.
pub trait DocumentStream: Send {
    /// Appends the next document; false at the end.
    fn next(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool>;

    /// Gives up what is not needed between two batches.
    fn save(&mut self);

    /// Whether the cursor ends with the last document. One that does not keeps something for its client until that closes it.
    fn is_dead(&self) -> bool {
        true
    }

    /// Its client says that it has what it wanted. A cursor that ends with its connection, its time or a stop is not closed by its client.
    fn closed_by_client(&mut self) {}
}

/// One cursor.
pub struct ClientCursor {
    pub id: i64,
    pub namespace: String,
    pub session: Option<SessionId>,
    /// The transaction that it reads in, if it does.
    pub txn_number: Option<i64>,
    /// The user whose command made it, under access control.
    pub owner: Option<Name>,
    /// The privileges that its command needed, under access control.
    pub needs: Box<[Need]>,
    pub source: Source,
    /// A document that a stage has made and that did not fit into the last batch.
    overflow: Vec<u8>,
    /// The rest of the maxTimeMS of the command that made it.
    pub time_left: Option<Duration>,
    pub is_tailable: bool,
    pub is_await_data: bool,
    pub has_no_timeout: bool,
    /// The read concern of the command that made it: each batch keeps to it.
    pub read_concern: ReadConcern,
    /// The version of the Stable API that the command which made it asked for: each getMore asks for it, too.
    pub api: ApiParameters,
    /// The moment that all batches see, with read concern `snapshot` outside of transactions.
    pub pinned: Option<Arc<PinnedSnapshot>>,
    pub returned: u64,
    pub batches: u64,
    /// The part of `$queryStats` that the cursor is, where it is counted.
    pub query_stats: Option<Box<RecordedQuery>>,
    /// The command that made it, for a cursor that is kept.
    pub origin: Option<Arc<CursorOrigin>>,
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
            txn_number: None,
            owner: None,
            needs: Box::default(),
            source,
            overflow: Vec::new(),
            time_left: None,
            is_tailable: false,
            is_await_data: false,
            has_no_timeout: false,
            read_concern: ReadConcern::default(),
            api: ApiParameters::default(),
            pinned: None,
            returned: 0,
            batches: 0,
            query_stats: None,
            origin: None,
        }
    }

    /// A batch is made, as far as `$queryStats` is concerned.
    #[inline]
    pub fn end_counted_batch(&mut self) {
        if let Some(query) = &mut self.query_stats {
            query.returned = self.returned;
            query.end_batch();
        }
    }

    /// Whether it waits for the end of its session, however long nobody asks for it. One that keeps more for its client than a
    /// place to go on from does not.
    pub fn lasts_with_session(&self) -> bool {
        match &self.source {
            Source::Stream(stream) => stream.is_dead(),
            _ => true,
        }
    }

    /// Appends the cursor as `$currentOp` lists an idle one.
    pub fn append_idle(&self, idle: Duration, entry: &mut DocumentBuilder<'_>) {
        entry.append("type", "idleCursor");
        entry.append("ns", self.namespace.as_str());
        if let Some(id) = self.session {
            let owner = self.owner.as_ref().map(SessionOwner::of);
            let owner = owner.unwrap_or(SessionOwner::NOBODY);
            Lsid { id, owner }.append("lsid", entry);
        }
        let mut cursor = entry.document("cursor");
        cursor.append("cursorId", self.id);
        if let Some(origin) = &self.origin {
            cursor.append("createdDate", origin.created);
        }
        let idle_ms = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let last_used = DateTime::now().0.saturating_sub(idle_ms);
        cursor.append("lastAccessDate", DateTime(last_used));
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        cursor.append("nDocsReturned", signed(self.returned));
        cursor.append("nBatchesReturned", signed(self.batches));
        cursor.append("noCursorTimeout", self.has_no_timeout);
        cursor.append("tailable", self.is_tailable);
        cursor.append("awaitData", self.is_await_data);
        if let Some(pinned) = &self.pinned {
            let age = i64::try_from(pinned.age().as_micros()).unwrap_or(i64::MAX);
            cursor.append("pinnedSnapshotMicros", age);
        }
        if let Some(origin) = &self.origin {
            cursor.append("originatingCommand", origin.shown());
            if let Some(plan) = &origin.plan {
                cursor.append("planSummary", plan.to_string().as_str());
            }
        }
        cursor.finish();
    }

    /// Appends up to `documents_max` documents to the batch.
    pub fn fill(
        &mut self,
        operation: &Arc<Operation>,
        batch: &mut ArrayBuilder<'_>,
        documents_max: u64,
    ) -> Result<BatchEnd> {
        if let Source::Executor(executor) = &mut self.source {
            executor.expect(documents_max);
        }
        let mut count = 0;
        let mut counted_bytes = REPLY_STEP_BYTES;
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
                    self.put_back(&out[start..]);
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
            if batch.len_bytes() > counted_bytes {
                counted_bytes = batch.len_bytes() + REPLY_STEP_BYTES;
                quarry_query::memory::check_reply(counted_bytes)?;
            }
        }
        Ok(BatchEnd::Full)
    }

    /// Gives up what holds the engine's memory, at the end of a batch.
    pub fn save(&mut self, operation: &Operation) -> Result<()> {
        self.overflow.shrink_to_fit();
        match &mut self.source {
            Source::Executor(executor) => Ok(executor.save(operation)?),
            Source::Stream(stream) => {
                stream.save();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes up where the last batch ended.
    pub fn restore(&mut self, data: &impl Data, operation: &Operation) -> Result<()> {
        Ok(data.resume(operation, &mut self.source)?)
    }

    /// The collection that is read, to wait for more of it.
    pub fn collection(&self) -> Option<Ident> {
        match &self.source {
            Source::Executor(executor) => executor.collection(),
            _ => None,
        }
    }

    /// The stream of changes that it is over, if it is over one.
    pub fn changes(&mut self) -> Option<&mut ChangeStream> {
        match &mut self.source {
            Source::Changes(stream) => Some(stream),
            _ => None,
        }
    }

    /// Appends the place that a stream of changes can be resumed at, behind the batch.
    pub fn append_resume_token(&self, reply: &mut DocumentBuilder<'_>) {
        if let Source::Changes(stream) = &self.source {
            stream.resume_token().append("postBatchResumeToken", reply);
        }
    }

    /// A tailable cursor that can have no more documents.
    pub fn is_dead(&self) -> bool {
        match &self.source {
            Source::Changes(stream) => stream.is_dead(),
            Source::Executor(executor) => executor.is_dead(),
            Source::Stream(stream) => stream.is_dead(),
            Source::Documents(_) => true,
        }
    }

    /// Leaves a document that `next` has handed out to the next batch: read again where it can be, as it was made
    /// elsewhere.
    fn put_back(&mut self, document: &[u8]) {
        let is_read_again = match &mut self.source {
            Source::Executor(executor) => executor.put_back(document.len()),
            Source::Changes(stream) => {
                stream.put_back(document);
                true
            }
            _ => false,
        };
        if !is_read_again {
            self.overflow.extend_from_slice(document);
        }
    }

    /// Appends the next document to `out`; false if there is none now.
    // Each document of a batch passes here; a second caller would take it out of the loop.
    #[inline(always)]
    pub fn next(&mut self, operation: &Arc<Operation>, out: &mut Vec<u8>) -> Result<bool> {
        if !self.overflow.is_empty() {
            out.append(&mut self.overflow);
            return Ok(true);
        }
        match &mut self.source {
            Source::Executor(executor) => Ok(executor.next(operation, out)?),
            Source::Stream(stream) => stream.next(operation, out),
            Source::Changes(stream) => stream.next(operation, out),
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

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn batches_follow_each_other() {
        let operation = Arc::new(Operation::default());
        let documents = (0..5).map(|n| doc! { "_id": n }).collect();
        let mut cursor = ClientCursor::new("db.c".into(), None, Source::Documents(documents));
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
}
