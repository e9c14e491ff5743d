//! One connection from its first byte to its last: read a message, run it, write its reply with one call.
//!
//! Whatever a client sends ends at most this connection. A message whose content cannot be read gets an error as its
//! answer. Bytes that are no message end the connection with one logged line and no answer, because nothing after them
//! can be understood.
//!
//! An idle connection holds next to nothing: what its last exchanges needed is given back after `IDLE_AFTER`. The wait
//! is cut into two for a connection that has something to give back, and only for that one.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;
use quarry_timing::{OperationKind, Phase};
use quarry_wire::{Compressor, OpQuery, Refused, ReplyBuilder, Request};

use crate::dispatch::call::Call;
use crate::dispatch::dispatcher::dispatch;
use crate::dispatch::error::CommandError;
use crate::net::buffers::Buffers;
use crate::net::busy_poll::Waiting;
use crate::net::connections::Connection;
use crate::net::inbox::{Arrival, Inbox};
use crate::net::request_memory::SMALL_REQUEST_BYTES;
use crate::observe::counters::Counter;
use crate::observe::log;
use crate::observe::operation_end;
use crate::server::Server;

/// A connection without a request for so long is idle.
const IDLE_AFTER: Duration = Duration::from_millis(100);
/// What an idle connection's message buffers may hold. With what its thread keeps elsewhere (a copy of the last batch
/// for RocksDB of 16 KiB, a record of 8, the command that currentOp shows of 4) that stays below 64 KiB.
const IDLE_BYTES_MAX: usize = 32 << 10;
/// MongoDB's code for a legacy query that is no hello.
const UNSUPPORTED_OP_QUERY_COMMAND: ErrorCode = ErrorCode(352);

/// How a message wants to be answered.
#[derive(Clone, Copy)]
struct Manner {
    wants_no_reply: bool,
    has_checksum: bool,
    compressor: Option<Compressor>,
    /// Bytes of another message are here already.
    has_more: bool,
}

/// Why a connection ended.
enum End {
    Closed,
    Malformed(String),
    /// No share of the request memory became free in time, or the client was too slow for those who waited for its own.
    NoMemory,
    Failed(io::Error),
    /// A write's outcome is unknown, and an answer would claim one.
    Unanswerable(String),
    /// A defect; the panic has its own line.
    Panicked,
}

/// Serves the connection on this thread until it ends.
pub fn serve(server: &'static Server, connection: Arc<Connection>) {
    let timing = quarry_timing::attach();
    connection.observer.get_or_init(|| timing.observer());
    let mut conversation = Conversation {
        server,
        connection: Arc::clone(&connection),
        buffers: Buffers::default(),
        may_wait: true,
    };
    let end = catch_unwind(AssertUnwindSafe(|| conversation.run()));
    drop(conversation);
    log_end(server, &connection, end.unwrap_or(End::Panicked));
    let _ = connection.stream.shutdown(std::net::Shutdown::Both);
    server.connections.remove(connection.id);
}

struct Conversation {
    server: &'static Server,
    connection: Arc<Connection>,
    buffers: Buffers,
    /// The request holds no share of the request memory.
    may_wait: bool,
}

impl Conversation {
    fn run(&mut self) -> End {
        let (server, connection) = (self.server, Arc::clone(&self.connection));
        let gives_up = || server.shutdown.is_requested() || connection.is_gone();
        let mut inbox = Inbox::new(&server.request_memory, &gives_up);
        let mut waiting = Waiting::new(&self.server.parameters.busy_polling, self.connection.id);
        let mut is_idle = false;
        loop {
            let held = inbox.capacity_bytes() + self.buffers.capacity_bytes();
            self.connection.note_buffers(held);
            if held <= SMALL_REQUEST_BYTES {
                inbox.return_share();
            }
            let patience = (held > IDLE_BYTES_MAX && !is_idle).then_some(IDLE_AFTER);
            let (bytes, started, was_awake) =
                match inbox.receive(&self.connection.stream, &mut waiting, patience) {
                    Ok(Arrival::Message {
                        bytes,
                        started,
                        was_awake,
                    }) => (bytes, started, was_awake),
                    Ok(Arrival::NothingYet) => {
                        inbox.give_back();
                        self.buffers.give_back();
                        is_idle = true;
                        continue;
                    }
                    Ok(Arrival::End) => return End::Closed,
                    Ok(Arrival::Malformed(why)) => return End::Malformed(why),
                    Ok(Arrival::NoMemory) => return End::NoMemory,
                    Err(error) => return End::Failed(error),
                };
            is_idle = false;
            let lane = self.connection.id;
            self.server
                .counters
                .add(lane, Counter::BytesIn, bytes as u64);
            self.server.counters.add(lane, Counter::Requests, 1);
            if was_awake {
                self.server.counters.add(lane, Counter::RequestsMetAwake, 1);
            }
            self.may_wait = !inbox.has_share();
            let answered = self.answer(inbox.message(bytes), started, inbox.has_more(bytes));
            if let Err(end) = answered {
                return end;
            }
            inbox.consume(bytes);
            self.buffers.end_exchange();
            // A client that sends ahead does not keep a server that stops.
            if self.server.shutdown.is_requested() {
                return End::Closed;
            }
            if inbox.is_wanted() {
                inbox.give_back();
                self.buffers.give_back();
            }
        }
    }

    /// Runs one message and sends what there is to send.
    fn answer(&mut self, message: &[u8], started: Instant, has_more: bool) -> Result<(), End> {
        self.buffers.clear();
        let mut unpacked = std::mem::take(&mut self.buffers.unpacked);
        let answered = self.answer_decoded(message, &mut unpacked, started, has_more);
        self.buffers.unpacked = unpacked;
        answered
    }

    fn answer_decoded(
        &mut self,
        message: &[u8],
        unpacked: &mut Vec<u8>,
        started: Instant,
        has_more: bool,
    ) -> Result<(), End> {
        let parsed = quarry_wire::parse(message, unpacked);
        match parsed {
            Err(error) => Err(End::Malformed(error.to_string())),
            Ok((header, Request::Query(query))) => {
                self.answer_query(header.request_id, &query, started)
            }
            Ok((header, Request::Refused(refused))) => self.refuse(header.request_id, &refused),
            Ok((header, Request::Msg(msg))) => {
                if msg.compressor.is_some() {
                    self.server
                        .counters
                        .add(self.connection.id, Counter::MessagesDecompressed, 1);
                }
                let call = Call {
                    body: msg.body,
                    sequences: &msg.sequences,
                    has_deep_documents: msg.has_deep_documents,
                    is_exhaust_allowed: msg.is_exhaust_allowed(),
                    may_wait: self.may_wait,
                    started,
                };
                let manner = Manner {
                    wants_no_reply: msg.is_more_to_come(),
                    has_checksum: msg.has_checksum(),
                    compressor: msg.compressor,
                    has_more,
                };
                self.answer_message(header.request_id, &call, manner)
            }
        }
    }

    fn answer_message(
        &mut self,
        request_id: i32,
        call: &Call<'_>,
        manner: Manner,
    ) -> Result<(), End> {
        let mut response_to = request_id;
        loop {
            self.buffers.reply.clear();
            let reply_id = next_reply_id();
            let mut reply = ReplyBuilder::new(&mut self.buffers.reply, reply_id, response_to);
            let replying_first = self.server.database.reply_first();
            let outcome = dispatch(self.server, &self.connection, call, reply.body());
            if outcome.is_unanswerable() {
                let why = outcome.error.map(|error| error.message).unwrap_or_default();
                return Err(End::Unanswerable(why));
            }
            let goes_on = outcome.is_exhaust && !manner.has_more;
            if goes_on {
                reply.set_more_to_come();
            }
            if manner.has_checksum {
                reply.set_checksum();
            }
            reply.finish();
            if !manner.wants_no_reply {
                self.send(manner.compressor)?;
            }
            drop(replying_first);
            let sent = &self.buffers.reply;
            operation_end::settle(self.server, &self.connection, call, &outcome, sent);
            if !goes_on || manner.wants_no_reply || self.server.shutdown.is_requested() {
                return Ok(());
            }
            // The next reply of the stream follows unasked, unless the client says something first.
            if self.connection.wait_for_input(Duration::ZERO) {
                return Ok(());
            }
            response_to = reply_id;
            quarry_timing::begin_operation_in(Phase::Auth);
        }
    }

    /// Answers a message whose content cannot be read.
    fn refuse(&mut self, request_id: i32, refused: &Refused) -> Result<(), End> {
        self.buffers.reply.clear();
        let mut reply = ReplyBuilder::new(&mut self.buffers.reply, next_reply_id(), request_id);
        let mut body = DocumentBuilder::new(reply.body());
        let code = ErrorCode(refused.error.code());
        CommandError::new(code, refused.error.to_string()).write(&mut body);
        body.finish();
        reply.finish();
        if !refused.is_more_to_come {
            self.send(refused.compressor)?;
        }
        quarry_timing::end_operation(OperationKind::Command);
        Ok(())
    }

    /// The one use of the legacy query: the first hello.
    fn answer_query(
        &mut self,
        request_id: i32,
        query: &OpQuery<'_>,
        started: Instant,
    ) -> Result<(), End> {
        let name = query
            .query
            .first()
            .map(|first| first.name().to_string_lossy().into_owned())
            .unwrap_or_default();
        self.buffers.reply.clear();
        let mut reply =
            ReplyBuilder::op_reply(&mut self.buffers.reply, next_reply_id(), request_id);
        if matches!(name.as_str(), "hello" | "isMaster" | "ismaster") {
            // The database of a legacy query stands in its namespace.
            let mut bytes = Vec::with_capacity(query.query.as_bytes().len() + 16);
            let mut body = DocumentBuilder::new(&mut bytes);
            for element in query.query.iter().filter(|element| element.name() != "$db") {
                body.append_element(element);
            }
            body.append("$db", query.namespace.split('.').next().unwrap_or("admin"));
            body.finish();
            let Ok(body) = quarry_bson::RawDocument::new(&bytes) else {
                return Err(End::Malformed("a legacy query that cannot be read".into()));
            };
            let call = Call {
                body,
                sequences: &[],
                has_deep_documents: false,
                is_exhaust_allowed: false,
                may_wait: self.may_wait,
                started,
            };
            dispatch(self.server, &self.connection, &call, reply.body());
        } else {
            let message = format!(
                "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade."
            );
            let mut body = DocumentBuilder::new(reply.body());
            CommandError::new(UNSUPPORTED_OP_QUERY_COMMAND, message).write(&mut body);
            body.finish();
        }
        reply.finish();
        self.send(None)?;
        quarry_timing::end_operation(OperationKind::Command);
        Ok(())
    }

    fn send(&mut self, compressor: Option<Compressor>) -> Result<(), End> {
        let Buffers { reply, packed, .. } = &mut self.buffers;
        let mut bytes = &*reply;
        if let Some(compressor) = compressor {
            packed.clear();
            if let Err(error) = quarry_wire::compress(reply, compressor, packed) {
                return Err(End::Failed(io::Error::other(error.to_string())));
            }
            self.server
                .counters
                .add(self.connection.id, Counter::MessagesCompressed, 1);
            bytes = packed;
        }
        self.server
            .counters
            .add(self.connection.id, Counter::BytesOut, bytes.len() as u64);
        quarry_timing::turn(Phase::Send);
        (&self.connection.stream)
            .write_all(bytes)
            .map_err(End::Failed)
    }
}

fn log_end(server: &Server, connection: &Connection, end: End) {
    let client = connection.peer.to_string();
    let id = connection.id;
    match end {
        End::Malformed(why) => log::warning(
            "network",
            "connection ended: malformed message",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", why.into()),
            ],
        ),
        End::NoMemory => log::warning(
            "network",
            "connection ended: the memory for large requests is taken, and others wait for it",
            &[("client", client.into()), ("connectionId", id.into())],
        ),
        End::Unanswerable(why) => log::error(
            "network",
            "connection ended: the outcome of a write is unknown",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", why.into()),
            ],
        ),
        End::Panicked => log::error(
            "network",
            "connection ended: a defect of the server",
            &[("client", client.into()), ("connectionId", id.into())],
        ),
        End::Failed(error) if !server.is_quiet() => log::info(
            "network",
            "connection ended",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", error.to_string().into()),
            ],
        ),
        End::Closed if !server.is_quiet() => {
            log::info(
                "network",
                "connection ended",
                &[("client", client.into()), ("connectionId", id.into())],
            );
        }
        End::Failed(_) | End::Closed => {}
    }
}

fn next_reply_id() -> i32 {
    static LAST: AtomicI32 = AtomicI32::new(0);
    LAST.fetch_add(1, Relaxed)
}
