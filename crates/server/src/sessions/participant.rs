//! One session's txnNumber: the retryable write or the transaction that it is, and what has become of it.
//!
//! ```text
//!                 a retryable write             its first command
//!   Retryable ◄──────────────────── (a higher ────────────────────► InProgress ──commit──► Committed
//!                                    txnNumber)                          │
//!                                                                        └─abort, error, time, kill──► Aborted
//! ```
//!
//! Keeps true: one command of a session with a txnNumber runs at a time, the others wait for it, so that a write that is
//! sent again while its first try still runs finds that try done. A transaction can be ended from any thread meanwhile.
//! What the session has written is read from the database with the first command, and again after a command of which
//! nobody knows how it ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use quarry_database::{Database, Operation, RetryableWrite, SessionHistory, Transaction};
use quarry_journal::Level;
use quarry_query::ErrorCode;

use crate::dispatch::api_parameters::ApiParameters;
use crate::dispatch::concerns::{ReadConcern, ReadLevel};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::transaction_arguments::{Part, TransactionArguments};
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::{Lsid, SessionId};

/// How often a command that waits for its session looks whether it was killed.
const WAIT_TICK: Duration = Duration::from_millis(20);

/// The part of a session that has used a txnNumber.
#[derive(Default)]
pub struct Participant {
    /// Held by the command that has the session.
    state: Mutex<State>,
    /// The transaction that is open, for those who end it while a command has the session. Locked after `state`.
    open: Mutex<Option<OpenTransaction>>,
}

/// A transaction that is open.
#[derive(Clone)]
pub struct OpenTransaction {
    pub number: i64,
    /// As its first command gave it.
    pub read_concern: ReadConcern,
    pub transaction: Arc<Transaction>,
    /// The number by which those who wait for its locks know it (`transaction_tags`).
    pub tag: u32,
    /// How long its commands have run, but for the one that runs since `active_since`.
    active: Duration,
    active_since: Option<Instant>,
}

impl OpenTransaction {
    /// How long it has been open, and how long of that a command of it ran.
    pub fn times(&self) -> (Duration, Duration) {
        let now = Instant::now();
        let open = now.saturating_duration_since(self.transaction.begun());
        let running = self.active_since;
        let running = running.map(|since| now.saturating_duration_since(since));
        (open, (self.active + running.unwrap_or_default()).min(open))
    }
}

#[derive(Default)]
struct State {
    /// Whether `number` and `history` are what the database says.
    is_loaded: bool,
    number: Option<i64>,
    phase: Phase,
    history: SessionHistory,
    /// The API parameters of the transaction's first command; none where that is not known any more.
    api: Option<ApiParameters>,
    /// The cursors that the transaction has opened, with their namespaces.
    cursors: Vec<(i64, String)>,
}

/// The state of the session's txnNumber.
#[derive(Default)]
enum Phase {
    /// Retryable writes, or nothing yet.
    #[default]
    Retryable,
    InProgress(Arc<Transaction>),
    Committed,
    Aborted,
}

/// A session in the hands of one command.
pub struct CheckedOut<'p> {
    participant: &'p Participant,
    state: MutexGuard<'p, State>,
    session: SessionId,
    owner: SessionOwner,
    arguments: TransactionArguments,
}

impl Participant {
    /// Waits until no other command has the session.
    pub fn check_out(
        &self,
        lsid: Lsid,
        arguments: TransactionArguments,
        operation: &Operation,
    ) -> Result<CheckedOut<'_>> {
        let state = loop {
            if let Some(state) = self.state.try_lock_for(WAIT_TICK) {
                break state;
            }
            operation.check()?;
        };
        Ok(CheckedOut {
            participant: self,
            state,
            session: lsid.id,
            owner: lsid.owner,
            arguments,
        })
    }

    /// Ends the transaction that is open, if there is one. Its next command is told so.
    pub fn end_transaction(&self) {
        if let Some(open) = self.open.lock().take() {
            open.transaction.end();
        }
    }

    /// The transaction that is open.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        let open = self.open.lock();
        let is_open = |open: &&OpenTransaction| !open.transaction.is_ended();
        open.as_ref().filter(is_open).cloned()
    }

    /// No command of the transaction runs any more.
    fn note_idle(&self) {
        if let Some(open) = &mut *self.open.lock()
            && let Some(since) = open.active_since.take()
        {
            open.active += since.elapsed();
        }
    }

    /// Whether no command has the session.
    pub fn is_idle(&self) -> bool {
        self.state.try_lock().is_some()
    }

    /// Takes away what is stored of the session, unless a command has it.
    pub fn forget(&self, session: SessionId, database: &Database) -> Result<()> {
        let Some(mut state) = self.state.try_lock() else {
            return Ok(());
        };
        *state = State::default();
        Ok(database.forget_session(&session.0)?)
    }
}

impl Drop for CheckedOut<'_> {
    /// However the command ends.
    fn drop(&mut self) {
        if self.arguments.is_of_transaction() {
            self.participant.note_idle();
        }
    }
}

impl CheckedOut<'_> {
    /// Begins the command: reads the session where it is not known, and takes up or begins what its txnNumber is.
    pub fn begin(
        &mut self,
        database: &Database,
        operation: &Operation,
        begins_with: ReadConcern,
    ) -> Result<()> {
        if !self.state.is_loaded {
            self.load(database)?;
        }
        let is_over = |phase: &Phase| match phase {
            Phase::InProgress(transaction) => transaction.is_ended(),
            _ => false,
        };
        if is_over(&self.state.phase) {
            self.state.phase = Phase::Aborted;
        }
        match self.arguments.part {
            Part::RetryableWrite => self.begin_retryable_write(operation),
            Part::Start => self.begin_transaction(database, operation, begins_with),
            Part::Continue => self.check_in_progress(),
            Part::End => self.check_number(),
        }
    }

    /// A command that is of a transaction begins, which others see from now on. One that is the first gives the transaction its
    /// `tag`; returns that.
    pub fn note_active(&mut self, tag: impl FnOnce() -> u32) -> Option<u32> {
        let mut open = self.participant.open.lock();
        let open = open.as_mut()?;
        if self.arguments.part == Part::Start {
            open.tag = tag();
        }
        open.active_since = Some(Instant::now());
        Some(open.tag)
    }

    /// Notes the API parameters of a transaction's first command.
    pub fn note_api(&mut self, api: ApiParameters) {
        self.state.api = Some(api);
    }

    /// Refuses a command that goes on with the transaction, or commits it, with other API parameters than its first one had. The
    /// transaction stays as it is.
    pub fn check_api(&self, api: ApiParameters) -> Result<()> {
        match self.state.api {
            Some(first) => api.check_continued(first),
            None => Ok(()),
        }
    }

    /// The transaction that the command works in.
    pub fn transaction(&self) -> Option<&Transaction> {
        match (&self.state.phase, self.arguments.part) {
            (Phase::InProgress(transaction), Part::Start | Part::Continue) => Some(transaction),
            _ => None,
        }
    }

    pub fn arguments(&self) -> TransactionArguments {
        self.arguments
    }

    /// Refuses a command that makes a collection or indexes by name, where its transaction reads at another level than `local`.
    pub fn check_definition(&self, command: &str) -> Result<()> {
        let open = self.participant.open.lock();
        let level = open.as_ref().map(|open| open.read_concern.level);
        let Some(level) = level.filter(|&level| level != ReadLevel::Local) else {
            return Ok(());
        };
        let message = format!(
            "Command {command} does not support this transaction's {{ readConcern: {{ level: \"{}\" }} }} :: caused by :: read \
             concern not supported",
            level.name()
        );
        Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message))
    }

    /// Notes a cursor that ends with the transaction.
    pub fn note_cursor(&mut self, id: i64, namespace: &str) {
        self.state.cursors.push((id, namespace.to_owned()));
    }

    /// Hands out the cursors of a transaction that has ended, to be killed.
    pub fn take_cursors(&mut self) -> Vec<(i64, String)> {
        std::mem::take(&mut self.state.cursors)
    }

    /// Whether the session's transaction goes on.
    pub fn is_in_progress(&self) -> bool {
        matches!(self.state.phase, Phase::InProgress(_))
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Ends the command, whose outcome is known. In a transaction any error ends that.
    pub fn finish(&mut self, operation: &Operation, has_failed: bool) {
        match (self.arguments.part, operation.retryable()) {
            (Part::RetryableWrite, Some(write)) => {
                self.state.history = write.take_history();
                self.state.is_loaded = true;
            }
            (Part::Start | Part::Continue, _) if has_failed && self.transaction().is_some() => {
                self.abort_open();
            }
            _ => {}
        }
    }

    /// commitTransaction: answers a commit that was done before as it was answered then.
    pub fn commit(
        &mut self,
        database: &Database,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let transaction = match &self.state.phase {
            Phase::InProgress(transaction) => Arc::clone(transaction),
            // Whoever asks again relies on the level that it asks for now.
            Phase::Committed => return Ok(database.settle(None, level)?),
            Phase::Aborted => return Err(self.aborted()),
            Phase::Retryable => return Err(self.no_such_transaction()),
        };
        let history = std::mem::take(&mut self.state.history);
        let write = RetryableWrite::new(self.session.0, self.arguments.number, history);
        let write = write.of_user(self.owner.0);
        operation.record_statements(write);
        let write = operation.retryable().expect("it was just set");
        let record = write.commit_record();
        // From here on nobody knows whether it is committed, unless the outcome is one that says so.
        self.state.is_loaded = false;
        let committed = database.commit_transaction(&transaction, operation, level, &record);
        *self.participant.open.lock() = None;
        match committed {
            Ok(lsn) => {
                write.settle(lsn.is_some());
                self.state.history = write.take_history();
                self.state.phase = Phase::Committed;
                self.state.is_loaded = true;
                Ok(database.settle(lsn, level)?)
            }
            Err(error) => {
                let error = CommandError::from(error);
                transaction.end();
                self.state.phase = Phase::Aborted;
                if !error.is_unanswerable {
                    write.settle(false);
                    self.state.history = write.take_history();
                    self.state.is_loaded = true;
                }
                Err(error)
            }
        }
    }

    /// abortTransaction.
    pub fn abort(&mut self) -> Result<()> {
        match &self.state.phase {
            Phase::InProgress(_) => {
                self.abort_open();
                Ok(())
            }
            Phase::Committed => Err(self.committed()),
            Phase::Aborted => Err(self.aborted()),
            Phase::Retryable => Err(self.no_such_transaction()),
        }
    }

    /// Reads what is stored, unless a higher number that has stored nothing is known.
    fn load(&mut self, database: &Database) -> Result<()> {
        let stored = database.stored_session(&self.session.0)?;
        let state = &mut *self.state;
        state.history = SessionHistory::default();
        if let Some(stored) = stored {
            state.history = stored.history;
            if state
                .number
                .is_none_or(|number| stored.txn_number >= number)
            {
                state.number = Some(stored.txn_number);
                state.phase = match stored.is_transaction {
                    true => Phase::Committed,
                    false => Phase::Retryable,
                };
            } else {
                state.history.advance();
            }
        }
        state.is_loaded = true;
        Ok(())
    }

    fn begin_retryable_write(&mut self, operation: &Operation) -> Result<()> {
        let number = self.arguments.number;
        match self.state.number {
            Some(last) if number < last => return Err(self.too_old(last)),
            Some(last) if number == last => {
                if !matches!(self.state.phase, Phase::Retryable) {
                    return Err(CommandError::new(
                        ErrorCode::INVALID_OPTIONS,
                        "Must specify autocommit=false on all operations of a multi-document transaction.",
                    ));
                }
            }
            _ => self.advance(Phase::Retryable),
        }
        // Until it ends in order nobody knows what it has written.
        self.state.is_loaded = false;
        let history = std::mem::take(&mut self.state.history);
        operation.record_statements(RetryableWrite::new(self.session.0, number, history));
        Ok(())
    }

    fn begin_transaction(
        &mut self,
        database: &Database,
        operation: &Operation,
        read_concern: ReadConcern,
    ) -> Result<()> {
        let number = self.arguments.number;
        match self.state.number {
            Some(last) if number < last => return Err(self.too_old(last)),
            Some(last) if number == last => {
                return Err(CommandError::new(
                    ErrorCode::CONFLICTING_OPERATION_IN_PROGRESS,
                    "Only servers in a sharded cluster can start a new transaction at the active transaction number",
                ));
            }
            _ => {}
        }
        self.advance(Phase::Aborted);
        let transaction = match read_concern.at_cluster_time {
            None => database.begin_transaction(operation)?,
            Some(at) => {
                let (pinned, _) = database.pin_snapshot(Some(at.to_u64()))?;
                database.begin_transaction_at(&pinned, operation)?
            }
        };
        *self.participant.open.lock() = Some(OpenTransaction {
            number,
            read_concern,
            transaction: Arc::clone(&transaction),
            tag: 0,
            active: Duration::ZERO,
            active_since: None,
        });
        self.state.phase = Phase::InProgress(transaction);
        Ok(())
    }

    /// Begins a higher txnNumber. A transaction that is open ends, because its client has gone on.
    fn advance(&mut self, phase: Phase) {
        debug_assert!(
            (self.state.number).is_none_or(|last| last < self.arguments.number),
            "a session's numbers only rise"
        );
        self.abort_open();
        self.state.history.advance();
        self.state.number = Some(self.arguments.number);
        self.state.phase = phase;
        self.state.api = None;
    }

    fn check_in_progress(&self) -> Result<()> {
        self.check_number()?;
        match self.state.phase {
            Phase::InProgress(_) => Ok(()),
            Phase::Committed => Err(self.committed()),
            Phase::Aborted => Err(self.aborted()),
            Phase::Retryable => Err(self.no_such_transaction()),
        }
    }

    fn check_number(&self) -> Result<()> {
        match self.state.number {
            Some(last) if self.arguments.number == last => Ok(()),
            Some(last) if self.arguments.number < last => Err(self.too_old(last)),
            _ => Err(self.no_such_transaction()),
        }
    }

    fn abort_open(&mut self) {
        if let Phase::InProgress(transaction) = &self.state.phase {
            transaction.end();
            self.state.phase = Phase::Aborted;
        }
        *self.participant.open.lock() = None;
    }

    #[cold]
    fn too_old(&self, last: i64) -> CommandError {
        let (number, session) = (self.arguments.number, self.session);
        let newer = match self.state.phase {
            Phase::Retryable => "retryable write",
            _ => "transaction",
        };
        let message = match self.arguments.part {
            Part::RetryableWrite => format!(
                "Retryable write with txnNumber {number} is prohibited on session {session} because a newer {newer} with txnNumber {last} has already started on this session."
            ),
            _ => format!(
                "Cannot start transaction with txnNumber {number} on session {session} because a newer {newer} with txnNumber {last} has already started on this session."
            ),
        };
        CommandError::new(ErrorCode::TRANSACTION_TOO_OLD, message)
    }

    #[cold]
    fn no_such_transaction(&self) -> CommandError {
        let number = self.arguments.number;
        let active = self.state.number.unwrap_or(-1);
        let message = format!(
            "Given transaction number {number} does not match any in-progress transactions. The active transaction number is {active}"
        );
        CommandError::new(ErrorCode::NO_SUCH_TRANSACTION, message)
    }

    #[cold]
    fn aborted(&self) -> CommandError {
        let number = self.arguments.number;
        let message = format!("Transaction with {{ txnNumber: {number} }} has been aborted.");
        CommandError::new(ErrorCode::NO_SUCH_TRANSACTION, message)
    }

    #[cold]
    fn committed(&self) -> CommandError {
        let number = self.arguments.number;
        let message = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
        CommandError::new(ErrorCode::TRANSACTION_COMMITTED, message)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quarry_bson::{Document, RawDocument, doc};

    use super::*;
    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    struct Client {
        server: &'static Server,
        id: SessionId,
    }

    impl Client {
        fn new() -> Client {
            Client {
                server: Box::leak(Box::new(Server::in_memory())),
                id: SessionId::generate(),
            }
        }

        fn other(&self) -> Client {
            Client {
                server: self.server,
                id: SessionId::generate(),
            }
        }

        fn plain(&self, mut command: Document) -> Document {
            if !command.contains("$db") {
                command.append("$db", "db");
            }
            answer(self.server, &command)
        }

        /// A command of a transaction.
        fn run(&self, number: i64, mut command: Document) -> Document {
            let lsid = Document::build(|out| self.id.append("lsid", out));
            command.append("lsid", lsid.get_document("lsid").unwrap());
            command.append("txnNumber", number);
            command.append("autocommit", false);
            self.plain(command)
        }

        fn start(&self, number: i64, mut command: Document) -> Document {
            command.append("startTransaction", true);
            self.run(number, command)
        }

        fn end(&self, number: i64, name: &str) -> Document {
            let mut command = Document::new();
            command.append(name, 1);
            command.append("$db", "admin");
            self.run(number, command)
        }

        fn ids(&self) -> Vec<i64> {
            ids(&self.plain(doc! { "find": "c", "sort": { "_id": 1 } }))
        }
    }

    fn ids(reply: &Document) -> Vec<i64> {
        let batch = reply.get_path("cursor.firstBatch");
        let batch = batch.and_then(|batch| batch.as_array()).unwrap();
        let id = |document: RawDocument<'_>| document.get("_id")?.as_i64_exact();
        let documents = batch.iter().filter_map(|value| value.as_document());
        documents.filter_map(id).collect()
    }

    fn insert(id: i32) -> Document {
        doc! { "insert": "c", "documents": [{ "_id": id }] }
    }

    fn code(reply: &Document) -> Option<i32> {
        reply.get_i32("code")
    }

    fn labels(reply: &Document) -> Vec<String> {
        let labels = reply.get_array("errorLabels");
        let text = |label: quarry_bson::RawValue<'_>| label.as_str().map(str::to_owned);
        labels.map_or_else(Vec::new, |labels| labels.iter().filter_map(text).collect())
    }

    #[test]
    fn a_transaction_shows_its_writes_to_itself_and_then_to_all() {
        let client = Client::new();
        client.plain(insert(1));
        let reply = client.start(1, insert(2));
        assert_eq!(reply.get_i32("n"), Some(1), "{reply}");
        client.run(1, doc! { "insert": "other", "documents": [{ "_id": 7 }] });
        let find = doc! { "find": "c", "sort": { "_id": 1 } };
        assert_eq!(ids(&client.run(1, find)), [1, 2]);
        assert_eq!(client.ids(), [1]);
        assert_eq!(client.end(1, "commitTransaction").get_f64("ok"), Some(1.0));
        assert_eq!(client.ids(), [1, 2]);
        // Sent again, it is answered again; nothing else is taken any more.
        assert_eq!(client.end(1, "commitTransaction").get_f64("ok"), Some(1.0));
        assert_eq!(code(&client.run(1, insert(3))), Some(256));
        assert_eq!(code(&client.end(1, "abortTransaction")), Some(256));
        assert_eq!(code(&client.start(1, insert(3))), Some(117));
        assert_eq!(client.ids(), [1, 2]);
    }

    #[test]
    fn what_is_aborted_has_never_been() {
        let client = Client::new();
        client.plain(insert(1));
        client.start(1, insert(2));
        assert_eq!(client.end(1, "abortTransaction").get_f64("ok"), Some(1.0));
        for reply in [
            client.run(1, insert(3)),
            client.end(1, "commitTransaction"),
            client.end(1, "abortTransaction"),
        ] {
            assert_eq!(code(&reply), Some(251), "{reply}");
            assert_eq!(labels(&reply), ["TransientTransactionError"]);
        }
        assert_eq!(client.ids(), [1]);
    }

    #[test]
    fn the_first_writer_wins_and_the_other_may_run_again() {
        let client = Client::new();
        client.plain(insert(1));
        let other = client.other();
        let update =
            doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }] };
        assert_eq!(
            client.start(1, update.clone()).get_i32("nModified"),
            Some(1)
        );
        let reply = other.start(1, update.clone());
        assert_eq!(code(&reply), Some(112), "{reply}");
        let text = "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction.";
        assert_eq!(reply.get_str("errmsg"), Some(text));
        assert_eq!(labels(&reply), ["TransientTransactionError"]);
        // The error has ended it, and has freed what it held.
        assert_eq!(code(&other.run(1, insert(5))), Some(251));
        assert_eq!(client.end(1, "commitTransaction").get_f64("ok"), Some(1.0));
        assert_eq!(other.start(2, update).get_i32("nModified"), Some(1));
        assert_eq!(other.end(2, "commitTransaction").get_f64("ok"), Some(1.0));
    }

    #[test]
    fn a_write_error_ends_the_transaction() {
        let client = Client::new();
        client.plain(insert(1));
        client.start(1, insert(2));
        let reply = client.run(1, insert(1));
        let error = reply.get_path("writeErrors.0.code");
        assert_eq!(
            error.and_then(|code| code.as_i64_exact()),
            Some(11_000),
            "{reply}"
        );
        assert_eq!(code(&client.end(1, "commitTransaction")), Some(251));
        assert_eq!(client.ids(), [1]);
    }

    #[test]
    fn a_cursor_belongs_to_its_transaction() {
        let client = Client::new();
        client
            .plain(doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] });
        let first = client.start(1, doc! { "find": "c", "batchSize": 1 });
        let id = first
            .get_path("cursor.id")
            .and_then(|id| id.as_i64_exact())
            .unwrap();
        client.plain(insert(4));
        let more = || {
            let mut more = Document::new();
            more.append("getMore", id);
            more.append("collection", "c");
            more
        };
        let lsid = Document::build(|out| client.id.append("lsid", out));
        let mut outside = more();
        outside.append("lsid", lsid.get_document("lsid").unwrap());
        assert_eq!(code(&client.plain(outside)), Some(50_740));
        let rest = client.run(1, more());
        let batch = rest
            .get_path("cursor.nextBatch")
            .and_then(|batch| batch.as_array());
        assert_eq!(batch.map(|batch| batch.iter().count()), Some(2), "{rest}");
        let open = client.run(1, doc! { "find": "c", "batchSize": 1 });
        assert_eq!(open.get_f64("ok"), Some(1.0));
        client.end(1, "abortTransaction");
        assert_eq!(client.server.cursors.count().0, 0);
    }

    #[test]
    fn a_transaction_goes_on_by_the_api_parameters_of_its_first_command() {
        let client = Client::new();
        client.plain(insert(1));
        let with = |mut command: Document, version: Option<&str>| {
            if let Some(version) = version {
                command.append("apiVersion", version);
            }
            command
        };
        let commit = || doc! { "commitTransaction": 1, "$db": "admin" };
        for (number, first, other) in [(1, Some("1"), None), (2, None, Some("1"))] {
            let id = 10 * number as i32;
            let reply = client.start(number, with(insert(id), first));
            assert_eq!(reply.get_i32("n"), Some(1), "{reply}");
            for command in [insert(id + 1), commit()] {
                let reply = client.run(number, with(command, other));
                assert_eq!(code(&reply), Some(347), "{reply}");
                assert!(labels(&reply).is_empty(), "{reply}");
                let text = "API parameter mismatch: transaction-continuing command used ";
                assert!(reply.get_str("errmsg").unwrap().starts_with(text));
            }
            // The refused ones have changed nothing, and have not ended it.
            assert_eq!(code(&client.run(number, with(insert(id + 2), first))), None);
            assert_eq!(code(&client.run(number, with(commit(), first))), None);
            assert_eq!(code(&client.run(number, with(commit(), other))), Some(347));
        }
        assert_eq!(client.ids(), [1, 10, 12, 20, 22]);
        // It is given up by any parameters, and the next one has its own.
        client.start(3, with(insert(30), Some("1")));
        let abort = doc! { "abortTransaction": 1, "$db": "admin" };
        assert_eq!(code(&client.run(3, abort)), None);
        client.start(4, insert(40));
        assert_eq!(code(&client.run(4, commit())), None);
        assert_eq!(client.ids(), [1, 10, 12, 20, 22, 40]);
    }

    #[test]
    fn a_transaction_that_is_killed_or_too_old_frees_its_locks() {
        let client = Client::new();
        client.plain(insert(1));
        let update =
            doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } }] };
        client.start(1, update.clone());
        assert_eq!(client.server.sessions.open_transactions().len(), 1);
        client.plain(doc! { "killAllSessions": [], "$db": "admin" });
        assert!(client.server.sessions.open_transactions().is_empty());
        assert_eq!(client.plain(update.clone()).get_i32("nModified"), Some(1));
        assert_eq!(code(&client.end(1, "commitTransaction")), Some(251));
        // endSessions, and a higher number, do the same.
        client.start(2, insert(2));
        client.start(3, insert(2));
        assert_eq!(code(&client.end(2, "commitTransaction")), Some(225));
        let lsid = Document::build(|out| client.id.append("lsid", out));
        let lsid = lsid.get_document("lsid").unwrap().to_owned_document();
        client.plain(doc! { "endSessions": [(lsid)] });
        assert_eq!(client.plain(insert(2)).get_i32("n"), Some(1));
        let counters = client.server.database.transaction_counters();
        assert_eq!((counters.open, counters.aborted), (0, 3));
    }

    #[test]
    fn what_does_not_belong_into_a_transaction_is_refused() {
        let client = Client::new();
        let cases = [
            (263, doc! { "count": "c" }),
            (263, doc! { "drop": "c" }),
            (
                263,
                doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} },
            ),
            (263, doc! { "killCursors": "c", "cursors": [] }),
            (
                72,
                doc! { "find": "c", "readConcern": { "level": "available" } },
            ),
            (
                72,
                doc! { "insert": "c", "documents": [{}], "writeConcern": { "w": 1 } },
            ),
        ];
        for (number, (wanted, command)) in (1..).zip(cases) {
            let reply = client.start(number, command);
            assert_eq!(code(&reply), Some(wanted), "{reply}");
        }
        assert_eq!(code(&client.run(90, insert(1))), Some(251));
        client.start(
            100,
            doc! { "find": "c", "readConcern": { "level": "snapshot" } },
        );
        let again = doc! { "find": "c", "readConcern": { "level": "snapshot" } };
        assert_eq!(code(&client.run(100, again)), Some(72));
        assert_eq!(code(&client.end(100, "commitTransaction")), None);
        let mut write = insert(9);
        write.append("readConcern", &doc! { "level": "majority" });
        assert_eq!(client.start(101, write.clone()).get_i32("n"), Some(1));
        client.end(101, "abortTransaction");
        assert_eq!(code(&client.plain(write)), Some(72));
        let alone = doc! { "commitTransaction": 1, "$db": "admin" };
        assert_eq!(code(&client.plain(alone)), Some(72));
    }

    #[test]
    fn collections_and_indexes_are_made_by_name_in_local_transactions_alone() {
        let client = Client::new();
        let definitions = [
            doc! { "create": "made" },
            doc! { "createIndexes": "made", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
        ];
        let mut number = 0;
        for level in ["majority", "snapshot"] {
            for definition in &definitions {
                // As the first command, and behind a read.
                number += 1;
                let mut first = definition.clone();
                first.append("readConcern", &doc! { "level": level });
                let reply = client.start(number, first);
                assert_eq!(code(&reply), Some(72), "{reply}");
                number += 1;
                let find = doc! { "find": "c", "readConcern": { "level": level } };
                assert_eq!(client.start(number, find).get_f64("ok"), Some(1.0));
                let reply = client.run(number, definition.clone());
                assert_eq!(code(&reply), Some(72), "{reply}");
                let text =
                    format!("this transaction's {{ readConcern: {{ level: \"{level}\" }} }}");
                assert!(reply.get_str("errmsg").unwrap().contains(&text), "{reply}");
                assert_eq!(code(&client.end(number, "abortTransaction")), Some(251));
            }
        }
        // A write makes its collection at any level, and a transaction that names none reads at `local`.
        number += 1;
        let mut write = insert(1);
        write.append("readConcern", &doc! { "level": "snapshot" });
        assert_eq!(client.start(number, write).get_i32("n"), Some(1));
        assert_eq!(code(&client.end(number, "commitTransaction")), None);
        number += 1;
        let [create, index] = definitions;
        assert_eq!(client.start(number, create).get_f64("ok"), Some(1.0));
        assert_eq!(client.run(number, index).get_f64("ok"), Some(1.0));
        assert_eq!(code(&client.end(number, "commitTransaction")), None);
    }

    #[test]
    fn the_same_write_waits_for_its_first_try() {
        let client = Client::new();
        let participant = client.server.sessions.participant(client.id, None).unwrap();
        let arguments = TransactionArguments {
            number: 1,
            part: Part::RetryableWrite,
        };
        let lsid = Lsid {
            id: client.id,
            owner: SessionOwner::NOBODY,
        };
        let first = Operation::default();
        let held = participant.check_out(lsid, arguments, &first).unwrap();
        let killed = Operation::new(Some(std::time::Instant::now() + Duration::from_millis(1)));
        let second = participant.check_out(lsid, arguments, &killed);
        assert_eq!(second.err().map(|error| error.code), Some(50));
        assert!(!participant.is_idle());
        drop(held);
        assert!(participant.check_out(lsid, arguments, &first).is_ok());
    }
}
