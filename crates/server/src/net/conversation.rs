//! One connection from its first byte to its last: read a message, run it, write its reply with one call.
//!
//! Whatever a client sends ends at most this connection. A message whose content cannot be read gets an error as its
//! answer. Bytes that are no message end the connection with one logged line and no answer, because nothing after them
//! can be understood.
//!
//! An idle connection holds next to nothing: what its last exchanges needed is given back after `IDLE_AFTER`. The wait
//! is cut into two for a connection that has something to give back, and only for that one. A connection that stays idle for
//! `connectionParkMillis` gives up its thread as well (`parking`). Neither costs a connection anything that asks more often:
//! the longer wait is the read timeout of its socket, which is set once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;
use quarry_query::memory_budget::BUDGET;
use quarry_timing::{OperationKind, Phase};
use quarry_wire::{Compressor, OpQuery, Refused, ReplyBuilder, Request};

use crate::dispatch::call::Call;
use crate::dispatch::dispatcher::dispatch;
use crate::dispatch::error::CommandError;
use crate::net::buffers::Buffers;
use crate::net::busy_poll::Waiting;
use crate::net::certificates::Certificates;
use crate::net::connection_end::{End, log_end};
use crate::net::connection_threads::{Afterwards, NoThread};
use crate::net::connections::{Connection, Entry};
use crate::net::foreign::{ConsoleAddress, ForeignProtocol, console_address};
use crate::net::handshake::{Greeting, Refusal, greet};
use crate::net::inbox::{Arrival, Inbox};
use crate::net::outbox::{send_large, send_until};
use crate::net::request_memory::SMALL_REQUEST_BYTES;
use crate::net::transport::Transport;
use crate::observe::counters::Counter;
use crate::observe::log;
use crate::observe::operation_end;
use crate::process::config::ConsoleMode;
use crate::server::Server;

/// A connection without a request for so long is idle.
const IDLE_AFTER: Duration = Duration::from_millis(100);
/// The bytes that an idle connection's message buffers may hold. With what its thread keeps elsewhere (a copy of the last batch
/// for RocksDB of 16 KiB, a record of 8, the command that currentOp shows of 4) that stays below 64 KiB.
const IDLE_BYTES_MAX: usize = 32 << 10;
/// A connection that waits sleeps no longer than this: then it looks whether connections are parked by now, and whether a message
/// that has begun is late.
const LONG_WAIT: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(10)
};
/// A reply beyond this is counted as memory that others may wait for.
const LARGE_REPLY_BYTES: usize = 1 << 20;

/// How a message wants to be answered.
#[derive(Clone, Copy)]
struct Manner {
    wants_no_reply: bool,
    has_checksum: bool,
    compressor: Option<Compressor>,
    /// Bytes of another message are here already.
    has_more: bool,
}

/// The end of a reply that the client has not taken yet, of an operation that has ended.
struct Unsent {
    /// It is in the buffer of packed replies.
    is_packed: bool,
    /// How much of the reply is sent.
    sent_bytes: usize,
}

/// Has the connection served by a thread of its own, from its first byte on or from where it was parked.
pub fn start(server: &'static Server, entry: Entry) -> Result<(), NoThread> {
    let threads = &server.connection_threads;
    threads.serve(entry, move |entry| serve(server, entry))
}

/// Serves the connection on this thread until it ends or is parked.
pub fn serve(server: &'static Server, mut entry: Entry) -> Afterwards {
    let connection = Arc::clone(entry.connection());
    log::set_connection(connection.id);
    let afterwards = loop {
        let turn = catch_unwind(AssertUnwindSafe(|| converse(server, &connection)));
        quarry_query::memory::forget_reply();
        match turn {
            Ok(Turn::Idle) => {
                connection.leave_thread();
                match server.parking.park(entry) {
                    Ok(()) => break Afterwards::Free,
                    Err(not_parked) => entry = not_parked,
                }
            }
            Ok(Turn::Ended(end)) => {
                log_end(server, &connection, end);
                break Afterwards::Free;
            }
            Err(_) => {
                log_end(server, &connection, End::Panicked);
                break Afterwards::Spoiled;
            }
        }
    };
    log::set_connection(0);
    afterwards
}

/// Why a connection needs its thread no longer.
enum Turn {
    /// Its client has said nothing for a while, and nothing of a message has come.
    Idle,
    Ended(End),
}

fn converse(server: &'static Server, connection: &Arc<Connection>) -> Turn {
    let timing = quarry_timing::attach();
    connection.take_thread(timing.observer());
    let mut conversation = Conversation {
        server,
        connection: Arc::clone(connection),
        buffers: Buffers::default(),
        may_wait: true,
        wait: (server.parameters.park_after()).map_or(LONG_WAIT, |after| after.min(LONG_WAIT)),
        last_reply_id: 0,
    };
    conversation.run()
}

struct Conversation {
    server: &'static Server,
    connection: Arc<Connection>,
    buffers: Buffers,
    /// The request holds no share of the request memory.
    may_wait: bool,
    /// How long a read of the socket sleeps.
    wait: Duration,
    /// The number of the last reply. Replies are numbered within their connection: clients look only at what they answer.
    last_reply_id: i32,
}

impl Conversation {
    fn run(&mut self) -> Turn {
        match self.begin() {
            Ok(true) => {}
            Ok(false) => return Turn::Idle,
            Err(end) => return Turn::Ended(end),
        }
        match self.exchange() {
            Ok(()) => Turn::Idle,
            Err(end) => Turn::Ended(end),
        }
    }

    /// Looks at the first bytes of a new connection where there is TLS, and prepares the socket for waits. False for a client that
    /// has said nothing for as long as one is waited for with a thread.
    fn begin(&mut self) -> Result<bool, End> {
        let connection = Arc::clone(&self.connection);
        if !connection.is_greeted.load(Relaxed) {
            if let Some(certificates) = &self.server.certificates
                && !self.greet(certificates)?
            {
                return Ok(false);
            }
            connection.is_greeted.store(true, Relaxed);
        }
        let limited = connection.transport.set_read_timeout(Some(self.wait));
        limited.map(|()| true).map_err(End::Failed)
    }

    fn greet(&self, certificates: &Certificates) -> Result<bool, End> {
        let mut idle = Duration::ZERO;
        loop {
            match greet(certificates, &self.connection.transport, self.wait) {
                Ok(Greeting::Nothing) => {
                    idle += self.wait;
                    if self.is_to_be_parked(idle) {
                        return Ok(false);
                    }
                }
                Ok(Greeting::Plain | Greeting::Encrypted) => return Ok(true),
                Err(Refusal::Closed) => return Err(End::Closed),
                Err(Refusal::ForeignProtocol(foreign)) => return Err(self.refuse_foreign(foreign)),
                Err(Refusal::Handshake(why)) => return Err(End::NoHandshake(why)),
            }
        }
    }

    /// Whether a connection gives up its thread that has said nothing for so long. One of whose next message a part has come keeps
    /// it, until the rest comes or is late.
    fn is_to_be_parked(&self, idle: Duration) -> bool {
        let after = self.server.parameters.park_after();
        after.is_some_and(|after| idle >= after) && !self.connection.transport.has_part()
    }

    /// Answers messages until the client has sent none for a while.
    fn exchange(&mut self) -> Result<(), End> {
        let (server, connection) = (self.server, Arc::clone(&self.connection));
        let gives_up = || server.shutdown.is_requested() || connection.transport.is_gone();
        let mut inbox = Inbox::new(&server.request_memory, &gives_up, Some(self.wait));
        let mut waiting = Waiting::new(&self.server.parameters.busy_polling, self.connection.id);
        // How long the client has said nothing, and whether what its exchanges needed has been given back meanwhile.
        let (mut idle, mut is_idle) = (Duration::ZERO, false);
        loop {
            let held = inbox.capacity_bytes() + self.buffers.capacity_bytes();
            // What the share is for is counted there.
            let received = inbox.capacity_bytes() + self.buffers.unpacked.capacity();
            self.connection
                .note_buffers(held - received.min(inbox.share_bytes()));
            if held <= SMALL_REQUEST_BYTES {
                inbox.return_share();
            }
            let patience = (held > IDLE_BYTES_MAX && !is_idle).then_some(IDLE_AFTER);
            let (bytes, started, was_awake) =
                match inbox.receive(&self.connection.transport, &mut waiting, patience) {
                    Ok(Arrival::Message {
                        bytes,
                        started,
                        was_awake,
                    }) => (bytes, started, was_awake),
                    Ok(Arrival::NothingYet) if patience.is_none() => {
                        idle += self.wait;
                        if self.is_to_be_parked(idle) {
                            return Ok(());
                        }
                        continue;
                    }
                    Ok(Arrival::NothingYet) => {
                        inbox.give_back();
                        self.buffers.give_back();
                        is_idle = true;
                        continue;
                    }
                    Ok(Arrival::End) => return Err(End::Closed),
                    Ok(Arrival::Malformed(why)) => {
                        return Err(match ForeignProtocol::of(inbox.unread_bytes()) {
                            ForeignProtocol::Unknown => End::Malformed(why),
                            foreign => self.refuse_foreign(foreign),
                        });
                    }
                    Ok(Arrival::NoMemory) => return Err(End::NoMemory),
                    Ok(Arrival::Late) => return Err(End::Late),
                    Err(error) => return Err(End::Failed(error)),
                };
            (idle, is_idle) = (Duration::ZERO, false);
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
            let unsent = answered?;
            inbox.consume(bytes);
            if let Some(unsent) = unsent {
                self.buffers.unpacked = Vec::new();
                inbox.give_back();
                self.send_rest(&unsent)?;
            }
            self.buffers.end_exchange();
            if quarry_query::memory::forget_reply() {
                self.buffers.give_back();
            }
            // A client that sends ahead does not keep a server that stops.
            if self.server.shutdown.is_requested() {
                return Err(End::Closed);
            }
            if inbox.is_wanted() {
                inbox.give_back();
                self.buffers.give_back();
            }
        }
    }

    /// Ends a connection whose client speaks another protocol, with an answer that it understands if there is one.
    fn refuse_foreign(&self, foreign: ForeignProtocol) -> End {
        let transport = &self.connection.transport;
        let config = &self.server.config;
        let address = console_address(
            config.addresses.first(),
            transport.local_address(),
            self.server.admin_port(),
        );
        let address = address.filter(|_| config.console != Some(ConsoleMode::Off));
        let console = address.map(|address| ConsoleAddress {
            is_encrypted: config.tls.is_some(),
            address,
        });
        if let Some(answer) = foreign.answer(console) {
            // It is short, and whether it arrives is its client's affair.
            let _ = transport.write_ready(answer.as_bytes());
        }
        End::ForeignProtocol(foreign)
    }

    /// Runs one message and sends what there is to send, or as much of it as the client takes before the memory of the
    /// request is wanted.
    fn answer(
        &mut self,
        message: &[u8],
        started: Instant,
        has_more: bool,
    ) -> Result<Option<Unsent>, End> {
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
    ) -> Result<Option<Unsent>, End> {
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
    ) -> Result<Option<Unsent>, End> {
        let mut response_to = request_id;
        loop {
            self.buffers.reply.clear();
            let reply_id = self.next_reply_id();
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
            if outcome.error.is_some() && self.buffers.reply.capacity() > LARGE_REPLY_BYTES {
                // Nobody counts what was made of the reply before the error.
                self.buffers.reply.shrink_to_fit();
            }
            let unsent = if manner.wants_no_reply {
                None
            } else {
                self.send(manner.compressor)?
            };
            drop(replying_first);
            // The request is still here. Of a reply that is not taken the operation ends before its last byte is sent.
            let sent = &self.buffers.reply;
            operation_end::settle(self.server, &self.connection, call, &outcome, sent);
            let is_last = !goes_on || manner.wants_no_reply || unsent.is_some();
            if is_last || self.server.shutdown.is_requested() {
                return Ok(unsent);
            }
            // The next reply of the stream follows unasked, unless the client says something first.
            if self.connection.transport.has_input_within(Duration::ZERO) {
                return Ok(None);
            }
            response_to = reply_id;
            quarry_timing::begin_operation_in(Phase::Auth);
        }
    }

    fn next_reply_id(&mut self) -> i32 {
        self.last_reply_id = self.last_reply_id.wrapping_add(1);
        self.last_reply_id
    }

    /// Answers a message whose content cannot be read.
    fn refuse(&mut self, request_id: i32, refused: &Refused) -> Result<Option<Unsent>, End> {
        self.buffers.reply.clear();
        let reply_id = self.next_reply_id();
        let mut reply = ReplyBuilder::new(&mut self.buffers.reply, reply_id, request_id);
        let mut body = DocumentBuilder::new(reply.body());
        let code = ErrorCode(refused.error.code());
        CommandError::new(code, refused.error.to_string()).write(&mut body);
        body.finish();
        reply.finish();
        let unsent = if refused.is_more_to_come {
            None
        } else {
            self.send(refused.compressor)?
        };
        quarry_timing::end_operation(OperationKind::Command);
        Ok(unsent)
    }

    /// The one use of the legacy query: the first hello.
    fn answer_query(
        &mut self,
        request_id: i32,
        query: &OpQuery<'_>,
        started: Instant,
    ) -> Result<Option<Unsent>, End> {
        let reply_id = self.next_reply_id();
        let name = query
            .query
            .first()
            .map(|first| first.name().to_string_lossy().into_owned())
            .unwrap_or_default();
        self.buffers.reply.clear();
        let mut reply = ReplyBuilder::op_reply(&mut self.buffers.reply, reply_id, request_id);
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
            CommandError::new(ErrorCode::UNSUPPORTED_OP_QUERY_COMMAND, message).write(&mut body);
            body.finish();
        }
        reply.finish();
        let unsent = self.send(None)?;
        quarry_timing::end_operation(OperationKind::Command);
        Ok(unsent)
    }

    /// Sends the reply. Something of it may be left only where the request holds a share of the request memory and
    /// somebody waits for that, or for the memory of a reply.
    fn send(&mut self, compressor: Option<Compressor>) -> Result<Option<Unsent>, End> {
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
            quarry_query::memory::keep_copy(packed.capacity());
            bytes = packed;
        }
        self.server
            .counters
            .add(self.connection.id, Counter::BytesOut, bytes.len() as u64);
        quarry_timing::turn(Phase::Send);
        let transport = &self.connection.transport;
        if self.may_wait {
            let is_wanted = || BUDGET.is_wanted();
            return send_whole(transport, bytes, reply.len(), is_wanted).map(|()| None);
        }
        let is_wanted = || self.server.request_memory.waiting() > 0 || BUDGET.is_wanted();
        let sent_bytes = send_until(transport, bytes, is_wanted).map_err(End::Failed)?;
        Ok((sent_bytes < bytes.len()).then_some(Unsent {
            is_packed: compressor.is_some(),
            sent_bytes,
        }))
    }

    /// Sends what is left of a reply, for as long as its client takes.
    fn send_rest(&self, unsent: &Unsent) -> Result<(), End> {
        let Buffers { reply, packed, .. } = &self.buffers;
        let bytes = if unsent.is_packed { packed } else { reply };
        let rest = &bytes[unsent.sent_bytes..];
        let is_wanted = || BUDGET.is_wanted();
        send_whole(&self.connection.transport, rest, reply.len(), is_wanted)
    }
}

/// Sends all of a reply, for as long as its client takes; of a large one the client has to take something while its memory
/// `is_wanted`. `reply_bytes` are those that it holds, of which `bytes` may be the end, or a small form.
fn send_whole(
    transport: &Transport,
    bytes: &[u8],
    reply_bytes: usize,
    is_wanted: impl Fn() -> bool,
) -> Result<(), End> {
    let sent = match reply_bytes <= LARGE_REPLY_BYTES {
        true => transport.write_all(bytes),
        false => send_large(transport, bytes, is_wanted),
    };
    sent.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => End::Untaken,
        _ => End::Failed(error),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use quarry_bson::{Document, doc};
    use quarry_wire::{HEADER_BYTES, Header};

    use super::*;
    use crate::net::request_memory::RequestMemory;

    /// The size of a request that takes a share; two do not fit beside each other.
    const LARGE_BYTES: usize = 5 << 20;
    /// A test that waits for so long has failed. Below what a request waits for a share at most.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A client of the server, whose end of the connection is served on a thread of its own.
    fn connect(server: &'static Server) -> TcpStream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let transport = Transport::plain(stream).unwrap();
        let connection = server.connections.add(transport, peer, usize::MAX).unwrap();
        let entry = Entry::new(&server.connections, connection);
        thread::spawn(move || serve(server, entry));
        client
    }

    fn send(client: &mut TcpStream, command: &Document, compressor: Option<Compressor>) {
        let mut message = Vec::new();
        let mut framed = ReplyBuilder::new(&mut message, 1, 0);
        let mut body = DocumentBuilder::new(framed.body());
        for element in command {
            body.append_element(element);
        }
        body.append("$db", "test");
        body.finish();
        framed.finish();
        let mut packed = Vec::new();
        let bytes = match compressor {
            Some(compressor) => {
                quarry_wire::compress(&message, compressor, &mut packed).unwrap();
                &packed
            }
            None => &message,
        };
        client.write_all(bytes).unwrap();
    }

    fn receive(client: &mut TcpStream) -> Document {
        let mut message = vec![0; HEADER_BYTES];
        client.read_exact(&mut message).unwrap();
        let header = Header::parse(message.first_chunk().unwrap()).unwrap();
        message.resize(header.message_bytes, 0);
        client.read_exact(&mut message[HEADER_BYTES..]).unwrap();
        let mut unpacked = Vec::new();
        match quarry_wire::parse(&message, &mut unpacked).unwrap().1 {
            Request::Msg(msg) => msg.body.to_owned_document(),
            _ => panic!("the reply is no OP_MSG"),
        }
    }

    /// Text that does not become small when it is packed.
    fn noise(bytes: usize) -> String {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from((state >> 57) as u8)
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn a_client_that_takes_no_reply_keeps_no_request_memory_from_others() {
        let mut server = Server::in_memory();
        server.request_memory = RequestMemory::new(LARGE_BYTES + LARGE_BYTES / 2);
        let server: &'static Server = Box::leak(Box::new(server));
        let mut other = connect(server);
        for id in 0..3 {
            let text = noise(LARGE_BYTES);
            let insert = doc! { "insert": "large", "documents": [{ "_id": id, "text": text }] };
            send(&mut other, &insert, None);
            assert_eq!(receive(&mut other).get_i32("n"), Some(1));
        }
        let filler = "x".repeat(LARGE_BYTES);
        let find = doc! { "find": "large", "comment": (filler.as_str()) };
        let ping = doc! { "ping": 1, "comment": (filler.as_str()) };
        for compressor in [None, Some(Compressor::Snappy)] {
            let mut slow = connect(server);
            send(&mut slow, &find, compressor);
            let begun = Instant::now();
            while server.request_memory.used_bytes() < LARGE_BYTES {
                assert!(begun.elapsed() < PATIENCE);
                thread::yield_now();
            }
            // It waits until the find is over, and not until its reply is taken.
            send(&mut other, &ping, None);
            assert_eq!(receive(&mut other).get_f64("ok"), Some(1.0));
            // The reply comes whole, and the connection goes on.
            let reply = receive(&mut slow);
            let batch = reply.get_path("cursor.firstBatch").unwrap();
            assert_eq!(batch.as_array().unwrap().iter().count(), 3);
            send(&mut slow, &ping, compressor);
            assert_eq!(receive(&mut slow).get_f64("ok"), Some(1.0));
        }
    }

    #[test]
    fn what_a_reply_holds_says_whether_its_client_may_be_silent() {
        let sent = |reply_bytes: usize| {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let transport = Transport::plain(listener.accept().unwrap().0).unwrap();
            // The client takes nothing, so that what follows finds no room.
            while transport.write_ready(&[0; 1 << 16]).unwrap().is_some() {}
            if reply_bytes <= LARGE_REPLY_BYTES {
                // It is waited for until it has gone.
                drop(client);
            }
            let end = vec![0; LARGE_REPLY_BYTES];
            let sent = send_whole(&transport, &end, reply_bytes, || true);
            matches!(sent, Err(End::Untaken))
        };
        // It is packed, or its rest is short: it holds what the whole of it takes.
        assert!(sent(LARGE_REPLY_BYTES + 1));
        assert!(!sent(LARGE_REPLY_BYTES));
    }

    #[test]
    fn half_a_message_is_late_however_late_connections_are_parked() {
        let parking = ["--setParameter", "connectionParkMillis=86400000"];
        let server: &'static Server = Box::leak(Box::new(Server::in_memory_with(&parking)));
        let mut client = connect(server);
        client.write_all(&[0; HEADER_BYTES / 2]).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn what_a_share_is_for_is_not_counted_as_the_connection_s_again() {
        let mut server = Server::in_memory();
        server.request_memory = RequestMemory::new(4 * LARGE_BYTES);
        let server: &'static Server = Box::leak(Box::new(server));
        let mut client = connect(server);
        let filler = "x".repeat(LARGE_BYTES);
        // The second request comes while the first one's share is still held.
        for _ in 0..2 {
            let ping = doc! { "ping": 1, "comment": (filler.as_str()) };
            send(&mut client, &ping, None);
            assert_eq!(receive(&mut client).get_f64("ok"), Some(1.0));
            let counted = || {
                let open = server.connections.list();
                open.iter().map(|one| one.buffer_bytes()).sum::<usize>()
            };
            let held = server.request_memory.used_bytes();
            assert!(counted() < LARGE_BYTES, "{} beside {held}", counted());
        }
    }
}
