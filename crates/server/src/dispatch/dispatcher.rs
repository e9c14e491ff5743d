//! From a call to its reply document: finds the command, reads the generic arguments, runs it, writes what went
//! wrong. The reply is built in place; when a command fails, what it wrote of it is taken back.
//!
//! A panic is a defect, and ends one command: whatever the command held (its place among the running operations, its
//! cursor, locks and holds, its epoch, the phases of its time) goes as the stack unwinds, its client is told
//! `InternalError`, and the connection goes on. Nobody can say what a command that writes had done, so that one ends its
//! connection without an answer. The commit path allows no panic and ends the process (`quarry_journal`'s hooks).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::{Namespace, Operation, RetryableWrite};
use quarry_query::{ErrorCode, interrupts};
use quarry_timing::{OperationKind, Phase};

use crate::access::store::{
    DATABASE as USERS_DATABASE, is_of_users_or_roles, keeps_users_or_roles,
};
use crate::access::user::User;
use crate::audit::audit_log::{AuditLog, Check};
use crate::commands;
use crate::dispatch::access;
use crate::dispatch::api_parameters::ApiRules;
use crate::dispatch::call::{Call, CursorRead, Outcome, documents_of};
use crate::dispatch::command::{Command, Generic, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::error_labels;
use crate::dispatch::fail_points;
use crate::dispatch::privilege::Requires;
use crate::dispatch::read_only_views;
use crate::dispatch::transaction_arguments::{Part, SessionUse, TransactionArguments};
use crate::dispatch::unserved;
use crate::net::connections::{Connection, Started};
use crate::observe::counters::Counter;
use crate::observe::operation_end;
use crate::observe::timing_document;
use crate::server::Server;
use crate::sessions::owner::SessionOwner;
use crate::sessions::participant::{CheckedOut, Participant};
use crate::sessions::session::Lsid;
use crate::sessions::transaction_tags;

/// One of this many looks at an operation's interrupts asks the kernel whether the client is still there.
const CHECKS_A_PEEK: u32 = 16;

/// The bytes that a reply document may have: a message less room for its frame.
const REPLY_BYTES_MAX: usize = quarry_wire::MESSAGE_BYTES_MAX - 1024;

/// Runs the call and appends its reply document to `out`.
pub fn dispatch<'a>(
    server: &'static Server,
    connection: &Arc<Connection>,
    call: &Call<'a>,
    out: &mut Vec<u8>,
) -> Outcome<'a> {
    let mut outcome = Outcome::default();
    let start = out.len();
    let mut reply = DocumentBuilder::new(out);
    // What a panic leaves of the outcome is what was known when it came; of the reply nothing is kept.
    let result = catch_unwind(AssertUnwindSafe(|| {
        run(server, connection, call, &mut outcome, &mut reply)
    }));
    let mut result = result
        .unwrap_or_else(|_| Err(defect(&outcome)))
        .and_then(|()| check_size(reply.len_bytes()));
    if let Some(audit) = &server.audit
        && !outcome.is_help
    {
        note_call(audit, server, connection, call, &outcome, &mut result);
    }
    quarry_timing::turn(Phase::Encode);
    match result {
        Ok(()) => {
            reply.append("ok", 1.0);
            append_times(server, &mut reply);
            reply.finish();
        }
        Err(error) => {
            reply.finish();
            out.truncate(start);
            let mut reply = DocumentBuilder::new(out);
            error.write(&mut reply);
            append_times(server, &mut reply);
            reply.finish();
            server.errors.note(&error, || outcome.namespace());
            outcome.is_exhaust = false;
            outcome.error = Some(error);
        }
    }
    outcome
}

/// Leaves the events of a call in the audit log. A call whose events cannot be written is not acknowledged.
#[cold]
fn note_call(
    audit: &AuditLog,
    server: &Server,
    connection: &Connection,
    call: &Call<'_>,
    outcome: &Outcome<'_>,
    result: &mut Result<()>,
) {
    let check = check_of(server, outcome.command_name);
    let error = result.as_ref().err();
    let noted = audit.note_call(connection, call, outcome, error, check);
    if let Err(error) = noted
        && result.is_ok()
    {
        *result = Err(error);
    }
}

/// Holds a call against the audit log while events cannot be written.
#[cold]
fn admit_late(
    audit: &AuditLog,
    server: &Server,
    connection: &Connection,
    call: &Call<'_>,
    outcome: &Outcome<'_>,
) -> Result<()> {
    let check = check_of(server, outcome.command_name);
    let is_there = |namespace: &str| {
        let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
        // What is no name of a collection makes none, and neither does a view.
        Namespace::new(database, collection)
            .is_ok_and(|namespace| !matches!(server.database.definition(&namespace), Ok(None)))
    };
    audit.admit_late(connection, call, outcome, check, is_there)
}

fn check_of(server: &Server, command_name: &str) -> Check {
    let command = commands::find(command_name);
    Check {
        is_success_noted: command.is_some_and(|command| notes_success(server, command)),
        is_of_collection: command.is_some_and(|command| command.requires.is_of_collection()),
    }
}

/// Whether it is noted that a client may run the command. One that every client may run is not.
fn notes_success(server: &Server, command: &Command) -> bool {
    server.parameters.audits_successes.load(Relaxed)
        && !matches!(command.requires, Requires::Nothing)
}

/// Appends the cluster time and the time of the last write, which a set tells with every reply. A command that has committed
/// tells the time of its own commit.
fn append_times(server: &Server, reply: &mut DocumentBuilder<'_>) {
    if let Some(set) = &server.replica_set {
        let times = set.times(&server.database);
        let times = match quarry_database::take_commit_time() {
            Some(committed) => times.of_write(committed),
            None => times,
        };
        times.append(reply);
    }
}

fn run<'a>(
    server: &'static Server,
    connection: &Arc<Connection>,
    call: &Call<'a>,
    outcome: &mut Outcome<'a>,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    // Whoever mistypes the name of a command may have given it a password.
    outcome.has_secrets = true;
    let command = find(server, call.body)?;
    outcome.kind = command.kind;
    outcome.command_name = command.name;
    // Before the arguments are looked at: a wrong one ends here, and the line that tells of it hides the others.
    outcome.has_secrets = holds_secrets(command, call.body);
    if let Some(counter) = counter_of(command.kind) {
        server.counters.add(connection.id, counter, 1);
    }
    let mut generic = Generic::default();
    generic.read(command, call.body, api_rules(server, connection))?;
    generic.suit(command, server)?;
    // An engine that syncs nothing at all must not acknowledge what a power loss would take.
    if !server.config.can_promise_durability() {
        generic.refuse_durability()?;
    }
    if generic.database.is_empty() {
        return Err(CommandError::new(
            ErrorCode(40_571),
            "OP_MSG requests require a $db argument",
        ));
    }
    if generic.wants_help {
        outcome.is_help = true;
        append_help(command, reply);
        return Ok(());
    }
    // From here on the line of a slow or refused operation names what was asked.
    outcome.database = generic.database;
    outcome.asked = generic.asked;
    outcome.collection = collection_of(command, &generic, call.body);
    if generic.database == USERS_DATABASE && names_users(call, outcome.collection) {
        outcome.has_secrets = true;
    }
    let user = user_of(server, connection)?;
    let user = user.as_deref();
    access::check(user, command, call, generic.database, outcome.collection)?;
    generic.check_required(command)?;
    if let Some(audit) = &server.audit
        && audit.is_behind()
    {
        admit_late(audit, server, connection, call, outcome)?;
    }
    // After the check of the user: a client that may not run the command leaves no session behind.
    let mut participant = None;
    if let Some(session) = generic.session {
        quarry_timing::turn(Phase::Auth);
        let owner = user.and_then(|user| user.session_owner.as_ref());
        match generic.transaction {
            // One that has not logged in has no sessions, and what it may ask for needs none.
            None if user.is_some() && owner.is_none() => generic.session = None,
            None => server.sessions.touch(session, owner)?,
            Some(_) => participant = Some((session, server.sessions.participant(session, owner)?)),
        }
    }
    // The log of a set and the other views of the server's own are not written by clients.
    if command.is_write() {
        let is_set = server.replica_set.is_some();
        read_only_views::refuse_write(is_set, generic.database, outcome.collection)?;
    }
    let started = Started {
        deadline: deadline(server, command, &generic, call),
        // The end of a transaction is not interrupted for a client that has gone: one that gave up waiting sends its commit again,
        // and must not find that it was aborted for that.
        outlives_client: command.session_use == SessionUse::EndsTransaction,
        command_name: command.name,
        database: generic.database,
        collection: outcome.collection,
        command: match outcome.has_secrets {
            true => &[],
            false => call.body.as_bytes(),
        },
        session: generic.session,
        transaction: generic.transaction,
        started: call.started,
        is_write: command.is_write(),
    };
    let make = || operation_of(server, connection);
    let begun = connection.begin(&server.connections, &started, make);
    (outcome.opid, outcome.namespace_hash) = (begun.opid, begun.namespace_hash);
    let operation: &Arc<Operation> = outcome.operation.insert(begun.operation);
    quarry_timing::tag_operation(timing_document::tag(command.kind, begun.opid));
    if generic.bypasses_validation {
        operation.bypass_validation();
    }
    quarry_timing::turn(Phase::Execute);
    let _running = RunningGuard(connection);
    // A write holds what others wait for, and so does a transaction.
    let holds_locks = command.is_write() || generic.transaction.is_some();
    let _interrupts = match holds_locks {
        true => interrupts::run_as(Arc::clone(operation)),
        false => interrupts::run_in_turns(Arc::clone(operation)),
    };
    let mut invocation = Invocation {
        server,
        connection,
        command,
        body: call.body,
        sequences: call.sequences,
        has_deep_documents: call.has_deep_documents,
        generic,
        operation,
        user,
        may_wait: call.may_wait,
        is_exhaust_allowed: call.is_exhaust_allowed && call.may_wait,
        is_exhaust: false,
        checked_out: None,
        pinned: None,
        has_write_errors: false,
        loses_answer: Cell::new(false),
        spares_own_database: false,
        returned: 0,
        cursor: CursorRead::default(),
    };
    // Before the session is checked out: a command that a fail point ends has not touched its transaction.
    let failing = match server.fail_points.are_any_on() {
        false => None,
        true => fail_points::meet_command(&invocation)
            .map_err(|error| labelled(error, invocation.generic.transaction))?,
    };
    invocation.checked_out = match (&participant, invocation.generic.transaction) {
        (Some((session, participant)), Some(arguments)) => {
            let owner = user.and_then(|user| user.session_owner);
            let owner = owner.unwrap_or(SessionOwner::NOBODY);
            let lsid = Lsid {
                id: *session,
                owner,
            };
            Some(check_out(
                server,
                lsid,
                participant,
                (arguments, &invocation.generic),
                operation,
            )?)
        }
        _ => None,
    };
    invocation.pin_snapshot()?;
    let result = (command.run)(&mut invocation, reply);
    if let (Ok(()), Some(failing)) = (&result, &failing) {
        let arguments = invocation.generic.transaction;
        fail_points::append_write_concern_error(failing, arguments, reply);
    }
    if user.is_some()
        && command.is_write()
        && invocation.generic.database == USERS_DATABASE
        && !invocation.spares_own_database
    {
        // Whatever it did to users and roles, and whether it failed halfway.
        server.access.note_change();
    }
    // Before the error goes on to the client: a transaction that failed has ended by the time that the client knows.
    if let Some(checked_out) = &mut invocation.checked_out {
        let has_failed = result.is_err() || invocation.has_write_errors;
        let records = operation.retryable().map_or(0, RetryableWrite::records);
        (server.counters).add(connection.id, Counter::SessionRecords, records);
        check_in(server, checked_out, operation, has_failed);
    }
    if invocation.loses_answer.get() {
        return Err(fail_points::lost_connection());
    }
    let result = result.map_err(|error| {
        let error = labelled(error, invocation.generic.transaction);
        match command.is_write() {
            true => invocation.generic.write_concern.beside(error),
            false => error,
        }
    });
    outcome.is_exhaust = invocation.is_exhaust;
    outcome.returned = invocation.returned;
    outcome.cursor = std::mem::take(&mut invocation.cursor);
    outcome.keys_examined = operation.keys_examined.load(Relaxed);
    outcome.docs_examined = operation.docs_examined.load(Relaxed);
    result?;
    // A read at majority or linearizable promises that what it saw survives a power loss; all that it saw is synced now.
    if invocation.generic.read_concern.waits_for_sync() {
        server.database.sync()?;
    }
    if command.is_write() {
        invocation.generic.write_concern.append_error(reply);
    }
    let wants_timing = invocation.generic.wants_timing;
    drop(invocation);
    if wants_timing {
        // The breakdown tells of all that the operation does.
        server.database.catch_up();
        operation_end::append_timing(outcome, reply);
    }
    Ok(())
}

/// The rules by which the client may name a version of the Stable API. The console, which is no client, names none.
#[inline]
fn api_rules(server: &Server, connection: &Connection) -> ApiRules {
    let rules = server.parameters.api_rules();
    ApiRules {
        requires_version: rules.requires_version && connection.is_client(),
        ..rules
    }
}

/// Answers with what the command does; it is not run, and anybody may ask.
#[cold]
fn append_help(command: &Command, reply: &mut DocumentBuilder<'_>) {
    let help = format!("help for: {} {}", command.name, command.help);
    reply.append("help", help.as_str());
}

/// Takes the session for this command, and takes up or begins what its txnNumber is.
fn check_out<'p>(
    server: &Server,
    lsid: Lsid,
    participant: &'p Arc<Participant>,
    (arguments, generic): (TransactionArguments, &Generic<'_>),
    operation: &Operation,
) -> Result<CheckedOut<'p>> {
    let begin = || {
        let mut checked_out = participant.check_out(lsid, arguments, operation)?;
        checked_out.begin(&server.database, operation, generic.begins_with)?;
        match arguments.part {
            Part::Start => checked_out.note_api(generic.api),
            Part::Continue => checked_out.check_api(generic.api)?,
            // A commit looks itself, and one may give up by any parameters.
            Part::RetryableWrite | Part::End => {}
        }
        if arguments.is_of_transaction() {
            let tag = checked_out.note_active(|| transaction_tags::number(lsid, arguments.number));
            // What it locks it has until its transaction ends, and not only for as long as it runs itself.
            if let Some(tag) = tag {
                quarry_timing::tag_operation(timing_document::tag_of_transaction(tag));
            }
        }
        if arguments.part == Part::Start {
            server.sessions.note_open(lsid.id, participant);
        }
        Ok(checked_out)
    };
    begin().map_err(|error| labelled(error, Some(arguments)))
}

/// Ends the command for its session. The cursors of a transaction end with it.
fn check_in(
    server: &Server,
    checked_out: &mut CheckedOut<'_>,
    operation: &Operation,
    has_failed: bool,
) {
    checked_out.finish(operation, has_failed);
    if checked_out.arguments().is_of_transaction() && !checked_out.is_in_progress() {
        server.sessions.note_closed(checked_out.session());
        for (id, namespace) in checked_out.take_cursors() {
            // One that has ended by itself is not there any more.
            let _ = server.cursors.kill(id, &namespace);
        }
    }
}

/// The error with the label by which a driver knows what it may do again.
fn labelled(error: CommandError, arguments: Option<TransactionArguments>) -> CommandError {
    let label = arguments.and_then(|arguments| error_labels::label(arguments, error.code));
    CommandError { label, ..error }
}

/// The client with what it may do; none without access control.
#[inline]
fn user_of(server: &Server, connection: &Connection) -> Result<Option<Arc<User>>> {
    if !server.access.is_enabled() {
        return Ok(None);
    }
    let address = connection.peer.ip();
    let user = server
        .access
        .user_of(&server.database, &connection.login, address)?;
    Ok(Some(user))
}

/// The error of a command that panicked; the panic itself is logged where it happens.
#[cold]
fn defect(outcome: &Outcome<'_>) -> CommandError {
    let name = outcome.command_name;
    let message =
        format!("the command '{name}' failed over a defect of the server; its log has more");
    let mut error = CommandError::new(ErrorCode::INTERNAL_ERROR, message);
    let command = commands::find(name);
    error.is_unanswerable = command.is_some_and(|command| command.takes_write_concern);
    error
}

/// A reply must fit a message; batches are kept far below that, so that only a single huge answer meets this.
fn check_size(bytes: usize) -> Result<()> {
    if bytes <= REPLY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the reply has {bytes} bytes, more than {REPLY_BYTES_MAX}");
    Err(CommandError::new(ErrorCode::BSON_OBJECT_TOO_LARGE, message))
}

/// The connection is idle again, however the command ended.
struct RunningGuard<'a>(&'a Connection);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The command that a body names. One for tests is not there unless the server was started for them.
fn find(server: &Server, body: RawDocument<'_>) -> Result<&'static Command> {
    let Some(first) = body.first() else {
        return Err(CommandError::new(
            ErrorCode::COMMAND_NOT_FOUND,
            "no such command: ''",
        ));
    };
    let name = first.name();
    (name.as_str().ok().and_then(commands::find))
        .filter(|command| !command.is_for_tests || server.parameters.are_test_commands_enabled)
        .ok_or_else(|| not_found(&name.to_string_lossy()))
}

/// The error of a command that there is not, with the reason where it is one of MongoDB's.
#[cold]
fn not_found(name: &str) -> CommandError {
    let mut message = format!("no such command: '{name}'");
    if let Some(why) = unserved::why(name) {
        message.push_str(": ");
        message.push_str(why);
    }
    CommandError::new(ErrorCode::COMMAND_NOT_FOUND, message)
}

/// When the command runs out of time.
#[inline]
fn deadline(
    server: &Server,
    command: &Command,
    generic: &Generic<'_>,
    call: &Call<'_>,
) -> Option<Instant> {
    // A getMore's own maxTimeMS says how long to wait for data; its limit is what its cursor has left.
    let max_time = match command.kind {
        OperationKind::GetMore => (generic.subject)
            .and_then(|id| id.value().as_i64_exact())
            .and_then(|id| server.cursors.time_left(id)),
        _ => generic.max_time,
    };
    max_time.map(|limit| call.started + limit)
}

/// An operation that asks now and then whether the connection's client is still there. The connection keeps it, and is not kept by it.
#[cold]
fn operation_of(server: &'static Server, connection: &Arc<Connection>) -> Operation {
    let connection = Arc::downgrade(connection);
    let checks = AtomicU32::new(0);
    Operation::default().with_disconnect(Box::new(move || {
        checks.fetch_add(1, Relaxed) % CHECKS_A_PEEK == CHECKS_A_PEEK - 1
            && (connection.upgrade()).is_none_or(|connection| connection.transport.is_gone())
            && !server.shutdown.is_requested()
    }))
}

/// Whether only the name of the command may be shown.
fn holds_secrets(command: &Command, body: RawDocument<'_>) -> bool {
    command.has_secrets
        || command
            .secret_field
            .is_some_and(|field| body.get(field).is_some())
        || explains_secrets(command, body)
}

/// Whether a call to the database of users and roles names one of their collections: by itself, in what it explains or among what a
/// bulkWrite writes. Its documents and filters may hold what passwords are checked by.
#[cold]
fn names_users(call: &Call<'_>, collection: &str) -> bool {
    let is_one = |name: &str| keeps_users_or_roles(USERS_DATABASE, name);
    let explained = call
        .body
        .first()
        .and_then(|first| first.value().as_document());
    let explained = explained.and_then(|explained| explained.first());
    let explained = explained.and_then(|first| first.value().as_str());
    let mut written = documents_of(call.body, call.sequences, "nsInfo");
    is_one(collection)
        || explained.is_some_and(is_one)
        || written.any(|info| info.get_str("ns").is_some_and(is_of_users_or_roles))
}

/// Whether the command is an explain of one whose fields are secret, or of another explain, into which nobody looks. It is
/// refused, and must not be shown for that.
fn explains_secrets(command: &Command, body: RawDocument<'_>) -> bool {
    if !matches!(command.requires, Requires::WhatItExplains) {
        return false;
    }
    let held = body.first().and_then(|first| first.value().as_document());
    let named = held.and_then(|held| held.first());
    let name = named.and_then(|named| named.name().as_str().ok());
    name.and_then(commands::find)
        .is_some_and(|held| held.has_secrets || matches!(held.requires, Requires::WhatItExplains))
}

/// The collection that the command names, for currentOp, top and the log.
fn collection_of<'a>(command: &Command, generic: &Generic<'a>, body: RawDocument<'a>) -> &'a str {
    let named = match command.kind {
        OperationKind::GetMore => body.get_str("collection"),
        _ => (generic.subject).and_then(|subject| subject.value().as_str()),
    };
    named.unwrap_or_default()
}

fn counter_of(kind: OperationKind) -> Option<Counter> {
    match kind {
        OperationKind::Find => Some(Counter::Query),
        OperationKind::GetMore => Some(Counter::GetMore),
        // These count documents, as MongoDB does; the commands add them.
        OperationKind::Insert | OperationKind::Update | OperationKind::Delete => None,
        _ => Some(Counter::Command),
    }
}

/// The reply to a command that comes in on a connection of its own.
#[cfg(test)]
pub fn answer(server: &'static Server, command: &quarry_bson::Document) -> quarry_bson::Document {
    tests::answer(server, &tests::connection(server), command)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use quarry_bson::{Document, Value, doc};

    use super::*;
    use crate::access::login::Login;
    use crate::access::name::{Kind, Name};
    use crate::access::store;
    use crate::net::transport::Transport;
    use crate::sessions::client_cursor::{ClientCursor, DocumentStream, Source};

    /// A defect of the server.
    struct Panics;

    impl DocumentStream for Panics {
        fn next(&mut self, _: &Operation, _: &mut Vec<u8>) -> Result<bool> {
            panic!("a defect of the server")
        }

        fn save(&mut self) {}
    }

    fn server() -> &'static Server {
        Box::leak(Box::new(Server::in_memory()))
    }

    pub fn connection(server: &Server) -> Arc<Connection> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = stream.peer_addr().unwrap();
        let transport = Transport::plain(stream).unwrap();
        server.connections.add(transport, peer, usize::MAX).unwrap()
    }

    pub fn answer(
        server: &'static Server,
        connection: &Arc<Connection>,
        command: &Document,
    ) -> Document {
        let call = Call::of(command.as_raw());
        let mut out = Vec::new();
        dispatch(server, connection, &call, &mut out);
        Document::from_bytes(out).unwrap()
    }

    #[test]
    fn a_panic_ends_its_command_and_leaves_nothing_behind() {
        let server = server();
        let connection = connection(server);
        let cursor = ClientCursor::new("db.c".into(), None, Source::Stream(Box::new(Panics)));
        let id = server.cursors.keep(cursor).unwrap();
        let get_more = doc! { "getMore": (Value::from(id)), "collection": "c", "$db": "db" };
        let reply = answer(server, &connection, &get_more);
        assert_eq!(
            (reply.get_f64("ok"), reply.get_i32("code")),
            (Some(0.0), Some(1))
        );
        assert_eq!(reply.get_str("codeName"), Some("InternalError"));
        // The cursor is not busy for ever, and nothing runs.
        assert_eq!(server.cursors.count(), (0, 0, 0));
        assert!(!connection.with_running(crate::net::connections::CurrentOperation::is_active));
        let reply = answer(server, &connection, &get_more);
        assert_eq!(reply.get_i32("code"), Some(43), "{reply}");
        let ping = doc! { "ping": 1, "$db": "admin" };
        assert_eq!(answer(server, &connection, &ping).get_f64("ok"), Some(1.0));
    }

    /// Two clients may find at once that there is no user; the one that comes second must not make another root.
    #[test]
    fn who_waited_while_another_made_the_first_user_makes_none() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory_with(&["--auth"])));
        let connection = connection(server);
        let create = doc! { "createUser": "second", "pwd": "x", "roles": ["root"], "$db": "admin" };
        let changes = server.access.changes.lock();
        let reply = std::thread::scope(|scope| {
            let second = scope.spawn(|| answer(server, &connection, &create));
            // Its user is known before it counts as running.
            while !connection.with_running(crate::net::connections::CurrentOperation::is_active) {
                assert!(!second.is_finished());
                std::thread::yield_now();
            }
            let first = doc! { "_id": "admin.first", "user": "first", "db": "admin", "roles": [] };
            assert!(store::insert(&server.database, Kind::User, &first).unwrap());
            drop(changes);
            second.join().unwrap()
        });
        assert_eq!(reply.get_i32("code"), Some(13), "{reply}");
        let second = Name::new("second", "admin");
        let found = store::get(&server.database, Kind::User, &second).unwrap();
        assert!(found.is_none());
    }

    #[test]
    fn a_command_that_is_asked_for_help_is_not_run() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory_with(&["--auth"])));
        for (name, value) in [("drop", Value::from("c")), ("shutdown", Value::from(1))] {
            let mut command = Document::new();
            command.append(name, value).append("help", true);
            command.append("$db", "admin");
            let reply = answer(server, &connection(server), &command);
            let help = reply.get_str("help").unwrap_or_default();
            assert!(help.starts_with(&format!("help for: {name} ")), "{reply}");
            assert_eq!(reply.get_f64("ok"), Some(1.0));
        }
        let ping = doc! { "ping": 1, "help": false, "$db": "admin" };
        let reply = answer(server, &connection(server), &ping);
        assert!(reply.get("help").is_none() && reply.get_f64("ok") == Some(1.0));
    }

    #[test]
    fn the_console_need_not_name_the_version_that_clients_must() {
        let flags = ["--setParameter", "requireApiVersion=true"];
        let server: &'static Server = Box::leak(Box::new(Server::in_memory_with(&flags)));
        let ping = doc! { "ping": 1, "$db": "admin" };
        let refused = answer(server, &connection(server), &ping);
        assert_eq!(refused.get_i32("code"), Some(498_870), "{refused}");
        let (transport, _other) = Transport::in_process().unwrap();
        let peer = ([127, 0, 0, 1], 1).into();
        let console = server
            .connections
            .add_of_console(transport, peer, Login::default());
        assert_eq!(answer(server, &console, &ping).get_f64("ok"), Some(1.0));
    }

    #[test]
    fn the_defect_of_a_command_that_writes_is_not_answered() {
        let of = |command_name| {
            let outcome = Outcome {
                command_name,
                ..Outcome::default()
            };
            defect(&outcome).is_unanswerable
        };
        assert!(of("insert") && of("findAndModify") && of("createIndexes"));
        assert!(!of("find") && !of("getMore") && !of(""));
    }
}
