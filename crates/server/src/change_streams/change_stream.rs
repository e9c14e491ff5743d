//! An open change stream: reads events, passes them through the stages behind `$changeStream`, and keeps the place that a
//! client can resume at.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use quarry_bson::{DateTime, Document, RawDocument};
use quarry_database::{
    ChangeBody, ChangeEvent, ChangeReader, ChangeScope, ChangesFrom, ChangesRead, Database,
    DefinitionKind, Namespace, Operation, Scope,
};
use quarry_query::ErrorCode;
use quarry_query::exec::{self, FindRequest};
use quarry_query::pipeline::{Execution, NoCollections, Run, Source};

use crate::change_streams::event_document::{event_document, invalidate_document, is_expanded};
use crate::change_streams::options::{From, Options};
use crate::change_streams::resume_token::{ResumeToken, TokenKind};
use crate::change_streams::split_event::{self, EVENT_BYTES_MAX};
use crate::dispatch::error::{CommandError, Result};
use crate::replication::pre_image_expiry;

/// Events made at once, before they are handed out.
const READY_EVENTS_MAX: usize = 256;
/// The bytes of events made at once; one event may have more.
const READY_BYTES_MAX: usize = 1 << 20;

/// A stream of changes.
pub struct ChangeStream {
    database: &'static Database,
    scope: ChangeScope,
    options: Options,
    reader: ChangeReader,
    stages: Execution,
    /// Events that are made and not handed out yet.
    ready: VecDeque<Ready>,
    /// The places behind the last event that was handed out, and behind the one before it.
    last: ResumeToken,
    before_last: ResumeToken,
    /// The place behind a fragment of an event whose other fragments are still to come.
    behind_fragment: Option<ResumeToken>,
    /// The error that follows what is ready: of an event that could not be made.
    failed: Option<CommandError>,
    /// Nothing follows what is ready: the collection or the database has gone.
    has_ended: bool,
}

/// An event, with the place behind it; none of an event that a stage has kept back.
struct Ready {
    token: ResumeToken,
    document: Vec<u8>,
}

impl ChangeStream {
    /// Opens a stream; `stages` are those behind `$changeStream`.
    ///
    /// # Errors
    /// ChangeStreamHistoryLost where the journal does not have what comes behind the place to begin at.
    /// ChangeStreamFatalError where that is within an event, and the stream does not split events; and where it is behind an
    /// event that this stream does not tell.
    pub fn open(
        database: &'static Database,
        scope: ChangeScope,
        options: Options,
        stages: Execution,
    ) -> Result<ChangeStream> {
        let mut behind_fragment = None;
        let from = match options.from {
            From::Now => ChangesFrom::Now,
            From::Time(time) => ChangesFrom::Time(time.to_u64()),
            From::Behind(token) if matches!(token.kind, TokenKind::Fragment(_)) => {
                if !options.splits_large_events {
                    let message = "To resume from a split event, the $changeStream pipeline must include a $changeStreamSplitLargeEvent stage";
                    return Err(fatal(message));
                }
                behind_fragment = Some(token);
                ChangesFrom::At(token.point)
            }
            From::Behind(token) => ChangesFrom::Behind(token.point),
        };
        let mut reader = database.read_changes(scope.clone(), from)?;
        let told_ms = match options.from {
            From::Behind(token) if token.kind.names_event() => {
                check_is_told(database, &scope, token)?
            }
            _ => None,
        };
        let last = behind_fragment.unwrap_or_else(|| ResumeToken::at(reader.point()));
        let mut stream = ChangeStream {
            database,
            scope,
            options,
            reader,
            stages,
            ready: VecDeque::new(),
            last,
            before_last: last,
            behind_fragment,
            failed: None,
            has_ended: false,
        };
        if let From::Behind(token) = stream.options.from
            && token.kind == TokenKind::BeforeInvalidate
        {
            let wall_ms = told_ms.unwrap_or_else(|| DateTime::now().0);
            stream.end(token, wall_ms)?;
        }
        Ok(stream)
    }

    /// Appends the next event; false when there is none for now.
    ///
    /// # Errors
    /// That of the first event that could not be made, once all events before it are handed out.
    pub fn next(&mut self, operation: &Arc<Operation>, out: &mut Vec<u8>) -> Result<bool> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                out.extend_from_slice(&ready.document);
                self.before_last = std::mem::replace(&mut self.last, ready.token);
                return Ok(true);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.has_ended {
                return Ok(false);
            }
            operation.check()?;
            let read = self.read(operation)?;
            if self.ready.is_empty() && read == ChangesRead::All {
                self.last = ResumeToken::at(self.reader.point());
                return Ok(false);
            }
        }
    }

    /// Takes back the event that `next` has handed out last: there is no room for it.
    pub fn put_back(&mut self, document: &[u8]) {
        let token = std::mem::replace(&mut self.last, self.before_last);
        let document = document.to_vec();
        self.ready.push_front(Ready { token, document });
    }

    /// The place to resume at that a reply carries: nothing up to it is left to be handed out.
    pub fn resume_token(&self) -> ResumeToken {
        self.last
    }

    /// Whether nothing follows any more.
    pub fn is_dead(&self) -> bool {
        self.has_ended && self.ready.is_empty()
    }

    /// From now on the end of the operation, by killOp for example, ends a wait of this stream.
    pub fn end_wait_with(&self, operation: &Operation) {
        self.reader.end_wait_with(operation);
    }

    /// Waits until there may be a change; false when `until` comes first, or somebody ends the wait.
    pub fn wait_until(&mut self, until: Instant) -> bool {
        self.reader.wait_until(until)
    }

    /// Makes the next events ready, as far as there are any.
    fn read(&mut self, operation: &Arc<Operation>) -> Result<ChangesRead> {
        let images_from_ms = match self.options.asks_for_images() {
            true => pre_image_expiry::expired_before_ms(self.database)?,
            false => i64::MIN,
        };
        let mut made = Made {
            database: self.database,
            scope: &self.scope,
            options: &self.options,
            stages: &mut self.stages,
            operation,
            ready: &mut self.ready,
            behind_fragment: &mut self.behind_fragment,
            images_from_ms,
            bytes: 0,
            has_looked_up: false,
            failed: None,
            ended: None,
        };
        let read = self.reader.read(&mut |event| Ok(made.take(event)))?;
        let (ended, has_looked_up) = (made.ended.take(), made.has_looked_up);
        self.failed = made.failed.take();
        if has_looked_up {
            // What was looked up may be younger than the last event, and survives a power loss before it is handed out, too.
            self.database.sync()?;
        }
        if let Some((token, wall_ms)) = ended {
            self.end(token, wall_ms)?;
        }
        Ok(read)
    }

    /// Lets the invalidate follow that ends the stream, behind the event of that token.
    fn end(&mut self, token: ResumeToken, wall_ms: i64) -> Result<()> {
        let token = ResumeToken {
            kind: TokenKind::Invalidate,
            ..token
        };
        let event = invalidate_document(token, self.reader.commit_time(), wall_ms);
        if let Some(document) = pass(&mut self.stages, event)? {
            self.ready.push_back(Ready { token, document });
        }
        self.has_ended = true;
        Ok(())
    }
}

/// Events that are being made from what the reader hands over.
struct Made<'m> {
    database: &'static Database,
    scope: &'m ChangeScope,
    options: &'m Options,
    stages: &'m mut Execution,
    operation: &'m Arc<Operation>,
    ready: &'m mut VecDeque<Ready>,
    behind_fragment: &'m mut Option<ResumeToken>,
    /// The pre-images of earlier events have expired.
    images_from_ms: i64,
    bytes: usize,
    /// Some of the events have a document as it was when they were made.
    has_looked_up: bool,
    /// The error that no later event is made for.
    failed: Option<CommandError>,
    /// The event that ended the stream, and its time.
    ended: Option<(ResumeToken, i64)>,
}

impl Made<'_> {
    fn take(&mut self, event: &ChangeEvent<'_>) -> ControlFlow<()> {
        if is_expanded(event) && !self.options.shows_expanded_events {
            return ControlFlow::Continue(());
        }
        let is_end = is_end(self.scope, event);
        let kind = match is_end {
            true => TokenKind::BeforeInvalidate,
            false => TokenKind::Event,
        };
        let token = ResumeToken {
            point: event.point,
            kind,
        };
        if let Err(error) = self.make(event, token) {
            self.failed = Some(error);
            return ControlFlow::Break(());
        }
        if is_end {
            self.ended = Some((token, event.wall_ms));
            return ControlFlow::Break(());
        }
        let is_full = self.ready.len() >= READY_EVENTS_MAX || self.bytes >= READY_BYTES_MAX;
        match is_full || self.operation.is_killed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn make(&mut self, event: &ChangeEvent<'_>, token: ResumeToken) -> Result<()> {
        let (database, operation) = (self.database, self.operation);
        let (options, images_from_ms) = (self.options, self.images_from_ms);
        let mut has_looked_up = false;
        let mut look_up = |key: &Document| {
            has_looked_up = true;
            find_one(database, operation, event, key)
        };
        let document = match (self.scope, &event.body) {
            // The collection went with its database.
            (
                ChangeScope::Collection(namespace),
                ChangeBody::Definition {
                    kind: DefinitionKind::DropDatabase,
                    body,
                },
            ) => {
                let dropped = ChangeEvent {
                    point: event.point,
                    cluster_time: event.cluster_time,
                    wall_ms: event.wall_ms,
                    namespace: namespace.as_str(),
                    uuid: event.uuid,
                    session: event.session,
                    body: ChangeBody::Definition {
                        kind: DefinitionKind::Drop,
                        body: *body,
                    },
                };
                event_document(&dropped, token, options, images_from_ms, &mut look_up)?
            }
            _ => event_document(event, token, options, images_from_ms, &mut look_up)?,
        };
        self.has_looked_up |= has_looked_up;
        let behind = (self.behind_fragment).take_if(|fragment| fragment.point == token.point);
        let passed = pass(self.stages, document)?;
        match passed {
            Some(document) if document.len() > EVENT_BYTES_MAX => {
                self.split(&document, token, behind)
            }
            _ if behind.is_some() => Err(fatal(
                "Attempted to resume from a split event, but the resumed event was not split",
            )),
            Some(document) => {
                self.bytes += document.len();
                self.ready.push_back(Ready { token, document });
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Makes the fragments of a large event ready, those `behind` one of them where the client has that already.
    fn split(
        &mut self,
        document: &[u8],
        token: ResumeToken,
        behind: Option<ResumeToken>,
    ) -> Result<()> {
        if !self.options.splits_large_events {
            let message = format!(
                "a change event has {} bytes, more than {EVENT_BYTES_MAX}: the stage $changeStreamSplitLargeEvent splits it",
                document.len()
            );
            return Err(CommandError::new(ErrorCode::BSON_OBJECT_TOO_LARGE, message));
        }
        let fragments = split_event::split(RawDocument::new(document)?, token)?;
        let first = match behind {
            None => 0,
            Some(behind) => match fragments.iter().position(|(token, _)| *token == behind) {
                Some(place) => place + 1,
                None => {
                    let message = "Attempted to resume from a split event, but the resumed event has fewer fragments";
                    return Err(fatal(message));
                }
            },
        };
        for (token, fragment) in fragments.into_iter().skip(first) {
            let document = fragment.as_bytes().to_vec();
            self.bytes += document.len();
            self.ready.push_back(Ready { token, document });
        }
        Ok(())
    }
}

/// Fails for the token of an event that a stream over `scope` does not tell: one of another collection or database. The reader looks
/// for the event where it must be, and no further than to the first one that the stream tells from there on. Returns when the event
/// was, if the journal still has it.
fn check_is_told(
    database: &'static Database,
    scope: &ChangeScope,
    token: ResumeToken,
) -> Result<Option<i64>> {
    let mut reader = match database.read_changes(scope.clone(), ChangesFrom::At(token.point)) {
        Ok(reader) => reader,
        // Whoever goes on behind it needs what comes behind it alone.
        Err(error) if error.code() == ErrorCode::CHANGE_STREAM_HISTORY_LOST.0 => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut first = None;
    reader.read(&mut |event| {
        first = Some((event.point, event.wall_ms));
        Ok(ControlFlow::Break(()))
    })?;
    if let Some((_, wall_ms)) = first.filter(|(point, _)| *point == token.point) {
        return Ok(Some(wall_ms));
    }
    let shown = Document::build(|out| token.append("token", out));
    let shown = shown.get_document("token").unwrap_or(RawDocument::EMPTY);
    let message = format!("cannot resume stream; the resume token was not found. {shown}");
    Err(fatal(&message))
}

/// The error of a stream that cannot go on, from this place or any other.
fn fatal(message: &str) -> CommandError {
    CommandError::new(ErrorCode::CHANGE_STREAM_FATAL_ERROR, message)
}

/// Whether the event takes away what the stream is over.
fn is_end(scope: &ChangeScope, event: &ChangeEvent<'_>) -> bool {
    let ChangeBody::Definition { kind, .. } = &event.body else {
        return false;
    };
    match scope {
        ChangeScope::Collection(_) => matches!(
            kind,
            DefinitionKind::Drop | DefinitionKind::Rename | DefinitionKind::DropDatabase
        ),
        ChangeScope::Database(_) => *kind == DefinitionKind::DropDatabase,
        ChangeScope::Everything => false,
    }
}

/// Passes an event through the stages; none if they keep it back.
///
/// # Errors
/// ChangeStreamFatalError when they changed its `_id`, by which a client resumes.
fn pass(stages: &mut Execution, event: Vec<u8>) -> Result<Option<Vec<u8>>> {
    if stages.is_empty() {
        return Ok(Some(event));
    }
    let event = RawDocument::new(&event)?;
    let mut out = Vec::new();
    let mut input = One(Some(event));
    let mut nothing = NoCollections;
    let mut run = Run::new(&mut input, &mut nothing);
    if !stages.next_of_any_size(&mut run, &mut out)? {
        return Ok(None);
    }
    let token = RawDocument::new(&out)?.get("_id");
    if token != event.get("_id") {
        return Err(fatal(
            "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying the \
             _id field of an event makes it impossible to resume the stream from that point. Only transformations that \
             retain the unmodified _id field are allowed.",
        ));
    }
    Ok(Some(out))
}

/// The input of the stages for one event.
struct One<'e>(Option<RawDocument<'e>>);

impl Source for One<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> quarry_query::Result<bool> {
        match self.0.take() {
            Some(document) => {
                out.extend_from_slice(document.as_bytes());
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// The document with that key as it is now, in the collection of the event: not in another one that has got its name since.
fn find_one(
    database: &Database,
    operation: &Arc<Operation>,
    event: &ChangeEvent<'_>,
    key: &Document,
) -> Result<Option<Document>> {
    let namespace = Namespace::parse(event.namespace)?;
    let is_of_event = || -> Result<bool> {
        let named = database.collection(&namespace)?;
        Ok(named.is_some_and(|named| event.uuid.is_none_or(|of_event| of_event == named.uuid)))
    };
    if !is_of_event()? {
        return Ok(None);
    }
    let request = FindRequest {
        filter: key.as_raw(),
        limit: Some(1),
        ..FindRequest::new(&namespace)
    };
    let mut executor = exec::find(Scope::from(database), operation, request)?;
    let mut found = Vec::new();
    // Another collection may have got the name before the find asked for it.
    if !executor.next(operation, &mut found)? || !is_of_event()? {
        return Ok(None);
    }
    Ok(Some(Document::from_bytes(found)?))
}
