//! The connections that are open and the operation that each of them runs: what currentOp lists and killOp ends.
//!
//! Lock order: the table, then one connection's `running`. The thread that serves a connection takes only the latter.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quarry_bson::Document;
use quarry_database::{NAMESPACE_BYTES_MAX, Operation, Progress};
use rustc_hash::FxHashMap;

use crate::access::login::Login;
use crate::dispatch::transaction_arguments::TransactionArguments;
use crate::net::peer::Peer;
use crate::net::transport::Transport;
use crate::observe::labels::namespace_hash;
use crate::sessions::session::SessionId;

/// A longer command is not shown by currentOp.
const SHOWN_COMMAND_BYTES_MAX: usize = 4096;

/// The numbers of operations that a connection takes at once, so that connections do not meet for each. A power of two, by
/// which the numbers that there are can be divided.
const OPIDS_AT_ONCE: u32 = 64;

/// One client connection.
pub struct Connection {
    /// Below zero for one that the console runs a command for: it came by the admin port, and counts as none of the clients'.
    pub id: i64,
    pub transport: Transport,
    pub peer: Peer,
    /// Who the client has proven to be.
    pub login: Mutex<Login>,
    /// The client's description of itself, from its first hello.
    pub metadata: Mutex<Option<Document>>,
    running: Mutex<CurrentOperation>,
    /// Looks at the operation that the connection's thread runs; none while it has no thread.
    observer: Mutex<Option<quarry_timing::Observer>>,
    /// Its first bytes have been looked at, and what they ask for of encryption is done. Written by the connection's thread alone.
    pub is_greeted: AtomicBool,
    /// Written by the connection's thread alone.
    buffer_bytes: AtomicUsize,
}

/// The operation that a connection runs now. It is kept between operations so that its buffers are.
#[derive(Default)]
pub struct CurrentOperation {
    /// Kept between operations, too.
    operation: Option<Arc<Operation>>,
    is_active: bool,
    /// Numbers for operations that are this connection's, one after the other.
    opids: Range<u32>,
    pub opid: u32,
    pub command_name: &'static str,
    pub namespace: String,
    namespace_hash: u64,
    /// The command as sent, without document sequences; empty when it is too long to show.
    pub command: Vec<u8>,
    pub session: Option<SessionId>,
    /// The transaction or retryable write that the operation is part of.
    pub transaction: Option<TransactionArguments>,
    pub started: Option<Instant>,
    /// The command changes data or definitions: a server that stops lets it end.
    is_write: bool,
}

impl CurrentOperation {
    /// Notes the namespace; most operations are on that of the one before. The connection keeps it while it is idle, so that
    /// no more of a name is noted than a namespace may have.
    fn set_namespace(&mut self, database: &str, collection: &str) {
        let (database, collection) = (cut(database), cut(collection));
        let known = self.namespace.as_bytes();
        let is_same = known.len() == database.len() + 1 + collection.len()
            && known.starts_with(database.as_bytes())
            && known[database.len()] == b'.'
            && known.ends_with(collection.as_bytes());
        if !is_same {
            self.namespace.clear();
            for part in [database, ".", collection] {
                self.namespace.push_str(part);
            }
            self.namespace_hash = namespace_hash(database, collection);
        }
    }

    pub fn is_active(&self) -> bool {
        self.is_active
    }

    /// The operation, while it runs.
    fn active(&self) -> Option<&Operation> {
        self.operation.as_deref().filter(|_| self.is_active)
    }

    /// The operation that begins: that of before, renewed, unless somebody holds it still.
    #[inline]
    fn renew(&mut self, started: &Started<'_>, make: impl FnOnce() -> Operation) -> Arc<Operation> {
        let (deadline, outlives_client) = (started.deadline, started.outlives_client);
        if let Some(kept) = &mut self.operation
            && let Some(operation) = Arc::get_mut(kept)
        {
            operation.renew(deadline, outlives_client);
            return Arc::clone(kept);
        }
        let mut operation = make();
        operation.renew(deadline, outlives_client);
        let operation = Arc::new(operation);
        self.operation = Some(Arc::clone(&operation));
        operation
    }

    pub fn elapsed(&self) -> Duration {
        self.started
            .map(|started| started.elapsed())
            .unwrap_or_default()
    }

    pub fn is_killed(&self) -> bool {
        self.active().is_some_and(Operation::is_killed)
    }

    /// The plan of the operation, once it is chosen.
    pub fn plan(&self) -> Option<String> {
        let plan = self.active()?.plan.get()?;
        Some(plan.to_string())
    }

    /// How far the operation's long piece of work has come, if it has one.
    pub fn progress(&self) -> Option<&Progress> {
        self.active()?.progress()
    }

    /// Keys and documents examined so far.
    pub fn examined(&self) -> (u64, u64) {
        self.active().map_or((0, 0), |operation| {
            (
                operation.keys_examined.load(Ordering::Relaxed),
                operation.docs_examined.load(Ordering::Relaxed),
            )
        })
    }
}

/// So much of a name as a namespace may have.
#[inline]
fn cut(name: &str) -> &str {
    if name.len() <= NAMESPACE_BYTES_MAX {
        return name;
    }
    let mut end = NAMESPACE_BYTES_MAX;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The notes on an operation while it runs.
pub struct Started<'a> {
    pub deadline: Option<Instant>,
    /// It is not interrupted for a client that has gone.
    pub outlives_client: bool,
    pub command_name: &'static str,
    pub database: &'a str,
    pub collection: &'a str,
    pub command: &'a [u8],
    pub session: Option<SessionId>,
    pub transaction: Option<TransactionArguments>,
    pub started: Instant,
    pub is_write: bool,
}

/// An operation that has begun.
pub struct Begun {
    pub operation: Arc<Operation>,
    pub opid: u32,
    pub namespace_hash: u64,
}

impl Connection {
    /// Whether its client has sent a message.
    pub fn has_asked(&self) -> bool {
        self.running.lock().opid != 0
    }

    fn new(id: i64, transport: Transport, peer: Peer, login: Login) -> Connection {
        Connection {
            id,
            transport,
            peer,
            login: Mutex::new(login),
            metadata: Mutex::default(),
            running: Mutex::default(),
            observer: Mutex::default(),
            is_greeted: AtomicBool::new(false),
            buffer_bytes: AtomicUsize::new(0),
        }
    }

    /// Whether a client connected to the port for clients.
    pub fn is_client(&self) -> bool {
        self.id > 0
    }

    /// Notes the operation that runs from now on. `make` makes one that knows the connection's client.
    pub fn begin(
        &self,
        connections: &Connections,
        started: &Started<'_>,
        make: impl FnOnce() -> Operation,
    ) -> Begun {
        let mut running = self.running.lock();
        if running.opids.is_empty() {
            running.opids = connections.next_opids();
        }
        running.opid = running.opids.start;
        running.opids.start += 1;
        let operation = running.renew(started, make);
        running.command_name = started.command_name;
        let collection = match started.collection {
            "" => "$cmd",
            collection => collection,
        };
        running.set_namespace(started.database, collection);
        running.command.clear();
        if started.command.len() <= SHOWN_COMMAND_BYTES_MAX {
            running.command.extend_from_slice(started.command);
        }
        running.session = started.session;
        running.transaction = started.transaction;
        running.started = Some(started.started);
        running.is_write = started.is_write;
        running.is_active = true;
        Begun {
            operation,
            opid: running.opid,
            namespace_hash: running.namespace_hash,
        }
    }

    pub fn end(&self) {
        self.running.lock().is_active = false;
    }

    /// A thread serves the connection from now on; its operations are looked at through `observer`.
    pub fn take_thread(&self, observer: quarry_timing::Observer) {
        *self.observer.lock() = Some(observer);
    }

    /// The connection gives up its thread, and what it has noted of its last operation.
    pub fn leave_thread(&self) {
        *self.observer.lock() = None;
        let mut running = self.running.lock();
        debug_assert!(!running.is_active());
        running.command = Vec::new();
        running.operation = None;
        running.namespace.shrink_to_fit();
        drop(running);
        self.note_buffers(0);
    }

    /// The times of the operation that runs, as far as its thread shows them.
    pub fn glimpse(&self) -> Option<quarry_timing::Glimpse> {
        self.observer
            .lock()
            .as_ref()
            .and_then(quarry_timing::Observer::look)
    }

    pub fn with_running<R>(&self, look: impl FnOnce(&CurrentOperation) -> R) -> R {
        look(&self.running.lock())
    }

    /// Notes what the connection's buffers hold between two requests.
    pub fn note_buffers(&self, bytes: usize) {
        self.buffer_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The bytes that the connection's buffers held when it last began to wait for a request.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Whether a write runs.
    pub fn is_writing(&self) -> bool {
        let running = self.running.lock();
        running.is_active() && running.is_write
    }

    /// Ends the operation that runs, if one does, because the server stops.
    pub fn stop_operation(&self) {
        if let Some(operation) = self.running.lock().active() {
            operation.stop();
        }
    }

    fn kill(&self, is_meant: impl FnOnce(&CurrentOperation) -> bool) {
        let running = self.running.lock();
        if let Some(operation) = running.active()
            && is_meant(&running)
        {
            operation.kill();
        }
    }
}

/// A connection's entry in the table. The connection is closed and leaves the table where this is dropped, so that also a
/// panic before or behind its conversation takes no place for ever.
pub struct Entry {
    connections: &'static Connections,
    connection: Arc<Connection>,
}

impl Entry {
    /// The connection has been added to the table.
    pub fn new(connections: &'static Connections, connection: Arc<Connection>) -> Entry {
        Entry {
            connections,
            connection,
        }
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connection.transport.close();
        self.connections.remove(self.connection.id);
    }
}

/// The table of connections.
#[derive(Default)]
pub struct Connections {
    open: Mutex<FxHashMap<i64, Arc<Connection>>>,
    closed: Condvar,
    last_id: AtomicI64,
    last_of_console: AtomicI64,
    opids_taken: AtomicU32,
    pub rejected: AtomicU64,
}

impl Connections {
    /// Adds a connection, unless `connections_max` are open.
    pub fn add(
        &self,
        transport: Transport,
        peer: impl Into<Peer>,
        connections_max: usize,
    ) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        if open.len() >= connections_max {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Connection::new(id, transport, peer.into(), Login::default());
        let connection = Arc::new(connection);
        open.insert(id, Arc::clone(&connection));
        Some(connection)
    }

    /// Adds a connection for one command of the console, so that the command is listed and can be ended like any other. There are as
    /// few of them as the admin port has writers.
    pub fn add_of_console(
        &self,
        transport: Transport,
        peer: SocketAddr,
        login: Login,
    ) -> Arc<Connection> {
        let id = -1 - self.last_of_console.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new(id, transport, peer.into(), login));
        self.open.lock().insert(id, Arc::clone(&connection));
        connection
    }

    pub fn remove(&self, id: i64) {
        let mut open = self.open.lock();
        open.remove(&id);
        if open.is_empty() {
            self.closed.notify_all();
        }
    }

    pub fn is_open(&self, id: i64) -> bool {
        self.open.lock().contains_key(&id)
    }

    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    pub fn total_created(&self) -> i64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// Numbers for a connection's next operations, none of them 0.
    fn next_opids(&self) -> Range<u32> {
        let taken = self.opids_taken.fetch_add(OPIDS_AT_ONCE, Ordering::Relaxed);
        // Clients read them as Int32.
        let first = taken & 0x7fff_ffff;
        first.max(1)..first + OPIDS_AT_ONCE
    }

    pub fn list(&self) -> Vec<Arc<Connection>> {
        let mut connections: Vec<_> = self.open.lock().values().cloned().collect();
        connections.sort_by_key(|connection| connection.id);
        connections
    }

    /// Ends an operation of a connection that is meant; says whether there was one.
    pub fn kill_operation(&self, opid: u32, is_meant: impl Fn(&Connection) -> bool) -> bool {
        let mut was_there = false;
        for connection in self.list() {
            if is_meant(&connection) {
                connection.kill(|running| {
                    was_there |= running.opid == opid;
                    running.opid == opid
                });
            }
        }
        was_there
    }

    /// Like `list`, without the console's.
    pub fn list_of_clients(&self) -> Vec<Arc<Connection>> {
        let mut connections = self.list();
        connections.retain(|connection| connection.is_client());
        connections
    }

    pub fn kill_session(&self, session: SessionId) {
        for connection in self.list() {
            connection.kill(|running| running.session == Some(session));
        }
    }

    /// Ends the reading side of every connection: idle ones close, busy ones answer first.
    pub fn stop_reading(&self) {
        for connection in self.list() {
            connection.transport.stop_reading();
        }
    }

    /// Waits until no connection is open; false when that takes longer than `timeout`.
    pub fn wait_closed(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut open = self.open.lock();
        while !open.is_empty() {
            if self.closed.wait_until(&mut open, deadline).timed_out() {
                return open.is_empty();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_a_name_is_kept_than_a_namespace_may_have() {
        let mut running = CurrentOperation::default();
        running.set_namespace("db", &"\u{e9}".repeat(1 << 20));
        assert_eq!(running.namespace.len(), 3 + NAMESPACE_BYTES_MAX - 1);
        assert!(running.namespace.capacity() <= 3 * NAMESPACE_BYTES_MAX);
        running.set_namespace("db", "c");
        assert_eq!(running.namespace, "db.c");
    }

    fn started() -> Started<'static> {
        Started {
            deadline: None,
            outlives_client: false,
            command_name: "ping",
            database: "db",
            collection: "",
            command: &[],
            session: None,
            transaction: None,
            started: Instant::now(),
            is_write: false,
        }
    }

    #[test]
    fn an_operation_is_renewed_unless_somebody_holds_it() {
        let mut running = CurrentOperation::default();
        let mut begin = || running.renew(&started(), Operation::default);
        let held = begin();
        held.count_examined(3, 2);
        let second = begin();
        assert!(!Arc::ptr_eq(&held, &second));
        second.kill();
        second.count_examined(1, 1);
        let place = Arc::as_ptr(&second);
        drop(second);
        let third = begin();
        assert_eq!(Arc::as_ptr(&third), place);
        assert!(!third.is_killed() && third.check().is_ok());
        assert_eq!(third.keys_examined.load(Ordering::Relaxed), 0);
        assert_eq!(held.keys_examined.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn operations_of_all_connections_have_numbers_of_their_own() {
        let connections = Connections::default();
        connections
            .opids_taken
            .store(0u32.wrapping_sub(OPIDS_AT_ONCE), Ordering::Relaxed);
        let taken: Vec<Range<u32>> = (0..3).map(|_| connections.next_opids()).collect();
        let all = taken.iter().flat_map(Clone::clone);
        assert!(
            all.clone()
                .all(|opid| opid > 0 && i32::try_from(opid).is_ok())
        );
        let distinct: std::collections::HashSet<u32> = all.clone().collect();
        assert_eq!(distinct.len(), all.count());
    }
}
