//! One connection from its first byte to its last: read a message, run it, write its reply with one call.
//!
//! Whatever a client sends ends at most this connection. Bytes that are no message end it with one logged line and no
//! answer, because nothing after them can be understood.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Instant;

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;
use quarry_timing::{OperationKind, Phase};
use quarry_wire::{Compressor, OpQuery, ReplyBuilder, Request};

use crate::busy_poll::Waiting;
use crate::connections::Connection;
use crate::counters::Counter;
use crate::dispatch::{Call, dispatch};
use crate::error::CommandError;
use crate::inbox::{Arrival, Inbox};
use crate::log;
use crate::operation_end;
use crate::server::Server;

/// A reply buffer beyond this is given back after `SMALL_REPLIES` replies that did not need it.
const KEPT_REPLY_BYTES: usize = 64 << 10;
const SMALL_REPLIES: u32 = 64;
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
        scratch: Vec::new(),
        reply: Vec::new(),
        packed: Vec::new(),
        small_replies: 0,
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
    /// Decompressed messages.
    scratch: Vec<u8>,
    reply: Vec<u8>,
    /// Compressed replies.
    packed: Vec<u8>,
    small_replies: u32,
}

impl Conversation {
    fn run(&mut self) -> End {
        let mut inbox = Inbox::default();
        let mut waiting = Waiting::new(&self.server.parameters.busy_polling, self.connection.id);
        loop {
            let (bytes, started, was_awake) =
                match inbox.receive(&self.connection.stream, &mut waiting) {
                    Ok(Arrival::Message {
                        bytes,
                        started,
                        was_awake,
                    }) => (bytes, started, was_awake),
                    Ok(Arrival::End) => return End::Closed,
                    Ok(Arrival::Malformed(why)) => return End::Malformed(why),
                    Err(error) => return End::Failed(error),
                };
            let lane = self.connection.id;
            self.server
                .counters
                .add(lane, Counter::BytesIn, bytes as u64);
            self.server.counters.add(lane, Counter::Requests, 1);
            if was_awake {
                self.server.counters.add(lane, Counter::RequestsMetAwake, 1);
            }
            let answered = self.answer(inbox.message(bytes), started, inbox.has_more(bytes));
            if let Err(end) = answered {
                return end;
            }
            inbox.consume(bytes);
            self.give_back();
            // A client that sends ahead does not keep a server that stops.
            if self.server.shutdown.is_requested() {
                return End::Closed;
            }
        }
    }

    /// Runs one message and sends what there is to send.
    fn answer(&mut self, message: &[u8], started: Instant, has_more: bool) -> Result<(), End> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let answered = self.answer_decoded(message, &mut scratch, started, has_more);
        self.scratch = scratch;
        answered
    }

    fn answer_decoded(
        &mut self,
        message: &[u8],
        scratch: &mut Vec<u8>,
        started: Instant,
        has_more: bool,
    ) -> Result<(), End> {
        let parsed = quarry_wire::parse(message, scratch);
        match parsed {
            Err(error) => Err(End::Malformed(error.to_string())),
            Ok((header, Request::Query(query))) => {
                self.answer_query(header.request_id, &query, started)
            }
            Ok((header, Request::Msg(msg))) => {
                if msg.compressor.is_some() {
                    self.server
                        .counters
                        .add(self.connection.id, Counter::MessagesDecompressed, 1);
                }
                let call = Call {
                    body: msg.body,
                    sequences: &msg.sequences,
                    is_exhaust_allowed: msg.is_exhaust_allowed(),
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
            self.reply.clear();
            let reply_id = next_reply_id();
            let mut reply = ReplyBuilder::new(&mut self.reply, reply_id, response_to);
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
            operation_end::settle(self.server, &self.connection, call, &outcome, &self.reply);
            if !goes_on || manner.wants_no_reply || self.server.shutdown.is_requested() {
                return Ok(());
            }
            // The next reply of the stream follows unasked, unless the client says something first.
            if self.connection.wait_for_input(std::time::Duration::ZERO) {
                return Ok(());
            }
            response_to = reply_id;
            quarry_timing::begin_operation_in(Phase::Auth);
        }
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
        self.reply.clear();
        let mut reply = ReplyBuilder::op_reply(&mut self.reply, next_reply_id(), request_id);
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
                is_exhaust_allowed: false,
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
        let mut bytes = &self.reply;
        if let Some(compressor) = compressor {
            self.packed.clear();
            if let Err(error) = quarry_wire::compress(&self.reply, compressor, &mut self.packed) {
                return Err(End::Failed(io::Error::other(error.to_string())));
            }
            self.server
                .counters
                .add(self.connection.id, Counter::MessagesCompressed, 1);
            bytes = &self.packed;
        }
        self.server
            .counters
            .add(self.connection.id, Counter::BytesOut, bytes.len() as u64);
        quarry_timing::turn(Phase::Send);
        (&self.connection.stream)
            .write_all(bytes)
            .map_err(End::Failed)
    }

    /// Gives large buffers back when they were not needed for a while.
    fn give_back(&mut self) {
        if self.reply.capacity() <= KEPT_REPLY_BYTES && self.scratch.capacity() <= KEPT_REPLY_BYTES
        {
            return;
        }
        let is_small =
            self.reply.len() <= KEPT_REPLY_BYTES && self.scratch.len() <= KEPT_REPLY_BYTES;
        self.small_replies = if is_small { self.small_replies + 1 } else { 0 };
        if self.small_replies >= SMALL_REPLIES {
            self.reply = Vec::new();
            self.packed = Vec::new();
            self.scratch = Vec::new();
            self.small_replies = 0;
        }
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
