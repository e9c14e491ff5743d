//! Commands, and a call of one with the arguments that every command takes.
//!
//! Each field of a command is either one of the generic ones below, one that the command names, or an error: nothing
//! that a client sends is dropped unseen.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;
use quarry_bson::{DocumentBuilder, RawDocument, RawElement, RawValue, Timestamp};
use quarry_database::{
    Collation, DATABASE_BYTES_MAX, Namespace, Operation, PinnedSnapshot, Scope, parse_collation,
    refuse_buckets,
};
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;
use quarry_wire::DocumentSequence;

use crate::access::user::User;
use crate::data::Data;
use crate::dispatch::api_parameters::{ApiParameters, ApiRules, ApiVersion, VersionedCommand};
use crate::dispatch::argument::Argument;
use crate::dispatch::beginning::beginning_of;
use crate::dispatch::call::{Asked, CursorRead, without_secrets};
use crate::dispatch::concerns::{ReadConcern, ReadLevel, WriteConcern};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, Present, Seen};
use crate::dispatch::privilege::{Action, Requires, Resource};
use crate::dispatch::quarry_options::wants_timing;
use crate::dispatch::transaction_arguments::{
    CommandInSession, Given, Part, SessionUse, TransactionArguments,
};
use crate::net::connections::Connection;
use crate::replication::cluster_clock;
use crate::replication::default_concerns::DefaultConcerns;
use crate::server::Server;
use crate::sessions::owner::SessionOwner;
use crate::sessions::participant::CheckedOut;
use crate::sessions::session::SessionId;

/// A longer command is not repeated in an error.
const SHOWN_BYTES_MAX: usize = 512;

/// One entry of the command table.
pub struct Command {
    /// The name in MongoDB's spelling, and other spellings that clients use.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// The name that MongoDB's parser of it has, which errors about its fields tell.
    pub parser: &'static str,
    pub help: &'static str,
    pub requires: Requires,
    /// The fields of its own, beside the generic ones.
    pub fields: Fields,
    pub kind: OperationKind,
    pub is_admin_only: bool,
    pub takes_write_concern: bool,
    pub takes_read_concern: bool,
    /// Read concern `snapshot` is served outside of transactions too.
    pub takes_snapshot: bool,
    /// The use that a session can make of it with a txnNumber.
    pub session_use: SessionUse,
    /// A part of version 1 of the Stable API.
    pub is_in_api_1: bool,
    /// A part of that version, refused to clients that want no deprecated commands.
    pub is_deprecated_in_api_1: bool,
    /// A part of version 2, which is there for tests of drivers alone.
    pub is_in_api_2: bool,
    /// A part of version 2, refused to clients that want no deprecated commands.
    pub is_deprecated_in_api_2: bool,
    /// Served in test mode alone; otherwise it is as if there were no such command.
    pub is_for_tests: bool,
    /// Its fields hold what only the client and the server may see: only its name is shown anywhere.
    pub has_secrets: bool,
    /// Calls with this field have secrets, others have none.
    pub secret_field: Option<&'static str>,
    pub run: fn(&mut Invocation<'_>, &mut DocumentBuilder<'_>) -> Result<()>,
}

impl Command {
    /// A command that only answers: no concerns, no fields of its own.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        requires: Requires,
        run: fn(&mut Invocation<'_>, &mut DocumentBuilder<'_>) -> Result<()>,
    ) -> Command {
        Command {
            name,
            aliases: &[],
            parser: name,
            help,
            requires,
            fields: Fields::named(&[]),
            kind: OperationKind::Command,
            is_admin_only: false,
            takes_write_concern: false,
            takes_read_concern: false,
            takes_snapshot: false,
            session_use: SessionUse::None,
            is_in_api_1: false,
            is_deprecated_in_api_1: false,
            is_in_api_2: false,
            is_deprecated_in_api_2: false,
            is_for_tests: false,
            has_secrets: false,
            secret_field: None,
            run,
        }
    }

    /// Whether it changes data or definitions. An aggregate only does with a last stage that writes, and looks after that itself.
    pub fn is_write(&self) -> bool {
        self.takes_write_concern && self.kind != OperationKind::Aggregate
    }

    /// Whether a refusal shows the name of the command alone. An explain that is refused may hold a command with secrets.
    fn hides_fields(&self) -> bool {
        self.has_secrets || matches!(self.requires, Requires::WhatItExplains)
    }

    /// The command as a version of the Stable API has it.
    fn in_version(&self, version: ApiVersion) -> VersionedCommand {
        let (is_there, is_deprecated) = match version {
            ApiVersion::One => (self.is_in_api_1, self.is_deprecated_in_api_1),
            ApiVersion::Two => (self.is_in_api_2, self.is_deprecated_in_api_2),
        };
        VersionedCommand {
            name: self.name,
            is_there,
            is_deprecated,
        }
    }

    /// Whether a client calls it so.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Holds the body of a command that another one holds, as `explain` does, against the list of its fields.
    pub fn check(&self, body: RawDocument<'_>) -> Result<()> {
        let mut seen = Seen::default();
        for element in body.iter().skip(1) {
            let argument = Argument::new(self.parser, element);
            let name = element.name().as_bytes();
            match self.fields.find(name) {
                Some(number) => {
                    self.fields.accept(number, &argument, &mut seen)?;
                }
                None if is_generic(name) || name == b"comment" || IGNORED.contains(&name) => {}
                None => return Err(argument.unknown()),
            }
        }
        self.fields.check_required(self.parser, seen)
    }

    /// The fields that are there, of a body that has been held against the list.
    #[inline]
    pub fn arguments<'a>(&'static self, body: RawDocument<'a>) -> Present<'a> {
        self.fields.present_behind_name(self.parser, body)
    }
}

/// One call of a command.
pub struct Invocation<'a> {
    pub server: &'static Server,
    pub connection: &'a Connection,
    pub command: &'static Command,
    /// The document of the command, its name first.
    pub body: RawDocument<'a>,
    pub sequences: &'a [DocumentSequence<'a>],
    /// A document may nest deeper than what may be stored.
    pub has_deep_documents: bool,
    pub generic: Generic<'a>,
    pub operation: &'a Arc<Operation>,
    /// The client with what it may do; none without access control, where everything is open.
    pub user: Option<&'a User>,
    /// The command may wait at the client's wish; one whose request holds a share of the request memory answers instead.
    pub may_wait: bool,
    /// The client takes replies without asking again.
    pub is_exhaust_allowed: bool,
    /// Set by the command: another reply follows this one.
    pub is_exhaust: bool,
    /// The session, where the command has its txnNumber.
    pub checked_out: Option<CheckedOut<'a>>,
    /// The moment that the command reads, with read concern `snapshot` outside of transactions; a getMore has it from its cursor.
    pub pinned: Option<Arc<PinnedSnapshot>>,
    /// Set by the command: some of its statements have failed.
    pub has_write_errors: bool,
    /// Set by a fail point: the connection ends without an answer, whatever the command has done.
    pub loses_answer: Cell<bool>,
    /// Set by a command that writes: all that it wrote is in other databases than the one that it was sent to.
    pub spares_own_database: bool,
    /// Set by the command: documents in the reply, for the slow-operation line.
    pub returned: u64,
    /// Set by a command that makes or reads a cursor, for the slow-operation line.
    pub cursor: CursorRead,
}

/// The arguments that any command may carry.
#[derive(Default)]
pub struct Generic<'a> {
    pub database: &'a str,
    pub session: Option<SessionId>,
    pub transaction: Option<TransactionArguments>,
    pub max_time: Option<Duration>,
    pub comment: Option<RawElement<'a>>,
    pub read_concern: ReadConcern,
    pub has_read_concern: bool,
    /// The read concern that a transaction begins with, as its first command gives it.
    pub begins_with: ReadConcern,
    pub write_concern: WriteConcern<'a>,
    /// The time of `$clusterTime`: the latest that the client has seen.
    pub cluster_time: Option<Timestamp>,
    /// The version of the Stable API that the client wants to be answered by.
    pub api: ApiParameters,
    /// How a command that takes a collation compares strings, if it says so.
    pub collation: Option<Collation>,
    /// The document of `let`, of a command that takes one.
    pub variables: Option<RawDocument<'a>>,
    /// A batch goes on behind a statement that fails.
    pub is_unordered: bool,
    /// The command says which statements of its session it holds.
    pub names_statements: bool,
    /// Empty timestamps are stored as they are. Tools that restore data ask for it; otherwise they become the time.
    pub keeps_empty_timestamps: bool,
    /// The documents that the command writes need not suit the validators of collections.
    pub bypasses_validation: bool,
    /// The reply tells where the time went.
    pub wants_timing: bool,
    /// The client wants to know what the command does, and not that it is done.
    pub wants_help: bool,
    pub asked: Asked<'a>,
    /// The command's own fields that have come.
    own: Seen,
    /// The command's first field: its name, and `1` or a collection.
    pub subject: Option<RawElement<'a>>,
    /// From behind the first field to behind the last one of the command's own: the offsets in its body within which a
    /// command looks for them. Drivers send what any command takes behind them.
    own_fields: Range<usize>,
}

impl<'a> Generic<'a> {
    /// Reads them from the body, into arguments that are still the default, and refuses what neither they nor the command
    /// know.
    pub fn read(
        &mut self,
        command: &Command,
        body: RawDocument<'a>,
        api_rules: ApiRules,
    ) -> Result<()> {
        let mut parsing = Parsing {
            generic: self,
            given: Given::default(),
            seen: Seen::default(),
            behind: 0,
        };
        let body_bytes = body.len_bytes();
        let mut elements = body.iter();
        parsing.generic.subject = elements.next();
        parsing.behind = body_bytes - elements.remaining_bytes().len();
        parsing.generic.own_fields = parsing.behind..parsing.behind;
        while let Some(element) = elements.next() {
            parsing.behind = body_bytes - elements.remaining_bytes().len();
            parsing.take(command, element)?;
        }
        let Parsing { generic, given, .. } = parsing;
        let api = generic.api;
        api.check(api_rules, |version| command.in_version(version))?;
        let in_session = CommandInSession {
            name: command.name,
            session_use: command.session_use,
        };
        generic.transaction = given.check(in_session, generic.session.is_some())?;
        // Any command takes a time to come after, which drivers send with all of a causally consistent session; a level
        // only those that read, and whatever a transaction begins with.
        let part = generic.transaction.map(|arguments| arguments.part);
        let takes_read_concern =
            command.takes_read_concern || matches!(part, Some(Part::Start | Part::Continue));
        let asks_for_level = generic.read_concern.level != ReadLevel::Local;
        // A getMore goes by the read concern of its cursor, which drivers repeat in a snapshot session.
        let is_get_more = command.kind == OperationKind::GetMore;
        if asks_for_level && !takes_read_concern && !is_get_more {
            return Err(not_taken(command, "read concern"));
        }
        if command.is_admin_only && generic.database != "admin" {
            let message = format!(
                "{} may only be run against the admin database.",
                command.name
            );
            return Err(CommandError::new(ErrorCode::UNAUTHORIZED, message));
        }
        Ok(())
    }

    /// Refuses a body that lacks what the command requires. Apart from `parse`, so that a client which may not run the command is
    /// told so first.
    pub fn check_required(&self, command: &Command) -> Result<()> {
        command.fields.check_required(command.parser, self.own)
    }

    /// Holds the concerns against what the server is: a standalone refuses what needs a set; a set has a default of its own
    /// and follows the time that the client has seen.
    pub fn suit(&mut self, command: &Command, server: &Server) -> Result<()> {
        if let Some(set) = &server.replica_set {
            self.take_default_level(command, &set.default_concerns);
        }
        self.suit_transaction()?;
        let begins_at_a_time = self.begins_with.at_cluster_time.is_some();
        let Some(set) = &server.replica_set else {
            self.write_concern.check_standalone()?;
            if begins_at_a_time {
                self.begins_with.check_standalone()?;
            }
            return self.read_concern.check_standalone();
        };
        // Under access control nobody moves the clock, for good, by a time that no key has signed.
        let is_open = !server.access.is_enabled();
        if let Some(seen) = self.cluster_time.filter(|_| is_open) {
            set.clock.follow(seen, server.database.journal())?;
        }
        let defaults = &set.default_concerns;
        self.write_concern = self.write_concern.in_set(defaults.are_writes_durable());
        let known = || set.times(&server.database).known;
        if begins_at_a_time {
            self.begins_with.check_set(known())?;
        }
        if self.read_concern != ReadConcern::default() {
            self.read_concern.check_set(known())?;
        }
        self.suit_snapshot(command)
    }

    /// Gives a read that names no concern the level that the set has for such reads. The first command of a transaction takes it for
    /// all of that.
    fn take_default_level(&mut self, command: &Command, defaults: &DefaultConcerns) {
        let takes_it = match self.transaction.map(|arguments| arguments.part) {
            None => command.takes_read_concern,
            Some(part) => part == Part::Start,
        };
        if takes_it && !self.has_read_concern {
            self.read_concern.level = defaults.read_level();
        }
    }

    /// MongoDB serves `snapshot` outside of transactions to a few commands, and to no data that a node has for itself.
    fn suit_snapshot(&self, command: &Command) -> Result<()> {
        if self.read_concern.level != ReadLevel::Snapshot {
            return Ok(());
        }
        let message = match self.database {
            _ if !command.takes_snapshot => format!(
                "Command {} does not support readConcern snapshot (read concern snapshot not supported)",
                command.name
            ),
            "local" => "readConcern snapshot is not supported on the local database".to_owned(),
            _ => return Ok(()),
        };
        Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message))
    }

    /// A transaction has one read concern, from its first command, and one write concern, of its commit.
    fn suit_transaction(&mut self) -> Result<()> {
        let refuse = |message: &str| Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
        match self.transaction.map(|arguments| arguments.part) {
            Some(Part::Start | Part::Continue) if self.write_concern.is_given => {
                refuse("writeConcern is not allowed within a multi-statement transaction")
            }
            Some(Part::Continue) if self.has_read_concern => {
                refuse("Only the first command in a transaction may specify a readConcern")
            }
            Some(Part::Start) => {
                self.begins_with = self.read_concern;
                self.read_concern = self.read_concern.in_transaction()?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// For an engine whose file a power loss may damage: nothing that is to survive one is acknowledged.
    pub fn refuse_durability(&self) -> Result<()> {
        if self.write_concern.is_durable {
            return Err(CommandError::bad_value(
                "cannot use 'j' option or w: \"majority\" when a host does not have journaling enabled: \
                 --mdbx-sync utterly-no-sync",
            ));
        }
        if self.read_concern.waits_for_sync() {
            return Err(CommandError::new(
                ErrorCode::READ_CONCERN_MAJORITY_NOT_ENABLED,
                "Majority read concern requested, but it is not supported by the storage engine: \
                 --mdbx-sync utterly-no-sync",
            ));
        }
        Ok(())
    }
}

/// A body that is being read.
struct Parsing<'g, 'a> {
    generic: &'g mut Generic<'a>,
    given: Given,
    /// The generic fields that have come, by the numbers that `take` gives them.
    seen: Seen,
    /// The offset in the body at which the field at hand ends.
    behind: usize,
}

impl<'a> Parsing<'_, 'a> {
    /// Takes one field.
    #[inline(always)]
    fn take(&mut self, command: &Command, element: RawElement<'a>) -> Result<()> {
        let argument = Argument::new(command.parser, element);
        let value = || element.value();
        let name = element.name().as_bytes();
        let generic = &mut *self.generic;
        let number = match name {
            // Null is a field that is not there.
            _ if argument.is_absent() && is_generic(name) => return Ok(()),
            b"$db" => {
                generic.database = database(argument.text()?)?;
                0
            }
            b"lsid" => {
                generic.session = Some(SessionId::parse(argument.document()?)?);
                1
            }
            b"maxTimeMS" => {
                generic.max_time = max_time(value())?;
                2
            }
            b"comment" => {
                generic.comment = Some(element);
                3
            }
            b"$quarry" => {
                generic.wants_timing = wants_timing(argument)?;
                4
            }
            b"readConcern" => {
                generic.has_read_concern = true;
                generic.read_concern = ReadConcern::parse(argument.document()?)?;
                5
            }
            b"writeConcern" => {
                if !command.takes_write_concern {
                    return Err(not_taken(command, "writeConcern"));
                }
                generic.write_concern = WriteConcern::parse(argument.document()?)?;
                6
            }
            b"bypassEmptyTsReplacement" => {
                generic.keeps_empty_timestamps = value().is_truthy();
                14
            }
            b"txnNumber" => {
                self.given.number = Some(argument.whole()?);
                7
            }
            b"autocommit" => {
                self.given.autocommit = Some(argument.flag()?);
                8
            }
            b"startTransaction" => {
                self.given.start = Some(argument.flag()?);
                9
            }
            b"apiVersion" => {
                generic.api.version = Some(ApiVersion::parse(argument.text()?)?);
                10
            }
            b"apiStrict" => {
                generic.api.strict = Some(argument.flag()?);
                11
            }
            b"apiDeprecationErrors" => {
                generic.api.deprecation_errors = Some(argument.flag()?);
                12
            }
            b"$clusterTime" => {
                generic.cluster_time = Some(cluster_clock::parse(argument.document()?)?);
                13
            }
            b"help" => {
                generic.wants_help = argument.flag()?;
                15
            }
            _ => return self.take_own(command, argument),
        };
        match self.seen.note(number) {
            true => Ok(()),
            false => Err(argument.duplicate()),
        }
    }

    /// Takes a field that is the command's own, or one that any command may carry and nobody looks at.
    #[inline(always)]
    fn take_own(&mut self, command: &Command, argument: Argument<'a>) -> Result<()> {
        let name = argument.name().as_bytes();
        let is_open = command.fields.is_open();
        match command.fields.find(name) {
            Some(number) => {
                let fields = &command.fields;
                if !fields.accept(number, &argument, &mut self.generic.own)? {
                    return Ok(());
                }
            }
            None if is_open => {}
            None if IGNORED.contains(&name) => return Ok(()),
            None => return Err(argument.unknown()),
        }
        let generic = &mut *self.generic;
        generic.own_fields.end = self.behind;
        match name {
            b"filter" | b"query" | b"sort" | b"pipeline" => generic.asked.note(argument.element()),
            b"collation" if !is_open => {
                generic.collation = parse_collation(argument.document()?)?;
            }
            b"let" if !is_open => generic.variables = Some(argument.document()?),
            b"ordered" if !is_open => generic.is_unordered = !argument.flag()?,
            b"bypassDocumentValidation" if !is_open => {
                generic.bypasses_validation = argument.value().is_truthy();
            }
            known => generic.names_statements |= known.starts_with(b"stmtId"),
        }
        Ok(())
    }
}

/// Fields that drivers and other servers send with any command, and that change nothing here.
const IGNORED: [&[u8]; 15] = [
    b"$readPreference",
    b"$audit",
    b"$client",
    b"$configServerState",
    b"$replData",
    b"$oplogQueryData",
    b"$traceCtx",
    b"clientOperationKey",
    b"recordStats",
    b"helloOk",
    b"allowImplicitCollectionCreation",
    b"mayBypassWriteBlocking",
    b"maxTimeMSOpOnly",
    b"requestGossipRoutingCache",
    b"rawData",
];

/// Whether any command may carry a field of that name, with an effect. For a field that is Null.
#[cold]
fn is_generic(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 15] = [
        b"help",
        b"$db",
        b"lsid",
        b"maxTimeMS",
        b"$quarry",
        b"bypassEmptyTsReplacement",
        b"readConcern",
        b"writeConcern",
        b"txnNumber",
        b"autocommit",
        b"startTransaction",
        b"apiVersion",
        b"apiStrict",
        b"apiDeprecationErrors",
        b"$clusterTime",
    ];
    NAMES.contains(&name)
}

/// The name of the database that a command names. A longer one than any may have is refused before anything keeps it.
fn database(name: &str) -> Result<&str> {
    if name.len() <= DATABASE_BYTES_MAX {
        return Ok(name);
    }
    let message = format!("the name of a database has at most {DATABASE_BYTES_MAX} bytes");
    Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message))
}

impl<'a> Invocation<'a> {
    /// The digest of the client's user, which its sessions belong to; none without access control.
    pub fn session_owner(&self) -> Option<&'a SessionOwner> {
        self.user.and_then(|user| user.session_owner.as_ref())
    }

    /// The value of the command's first field: `1`, or a collection.
    pub fn subject(&self) -> Option<RawValue<'a>> {
        self.generic.subject.map(|subject| subject.value())
    }

    /// The command's own fields that are there, and a few that any command takes.
    #[inline]
    pub fn arguments(&self) -> Present<'a> {
        let (command, offsets) = (self.command, self.generic.own_fields.clone());
        (command.fields).present_within(command.parser, self.body, offsets)
    }

    /// The name of the collection that the command names first.
    pub fn collection(&self) -> Result<&'a str> {
        match self.subject() {
            Some(RawValue::String(name)) => Ok(name.as_str()?),
            other => {
                let found = other.map_or("missing", |value| value.element_type().alias());
                let message = format!("collection name has invalid type {found}");
                Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message))
            }
        }
    }

    /// Where the command reads and writes: its transaction, a pinned snapshot, or the database itself.
    fn scope(&self) -> Scope<'_> {
        let database = &self.server.database;
        let transaction = self.checked_out.as_ref().and_then(CheckedOut::transaction);
        match (transaction, &self.pinned) {
            (Some(transaction), _) => Scope::in_transaction(database, transaction),
            (None, Some(pinned)) => Scope::at_snapshot(database, pinned),
            (None, None) => database.into(),
        }
    }

    /// Pins what a command with read concern `snapshot` reads outside of transactions, and notes its time, which the reply tells.
    pub fn pin_snapshot(&mut self) -> Result<()> {
        let concern = &mut self.generic.read_concern;
        let is_pinned_already = self.command.kind == OperationKind::GetMore;
        if concern.level != ReadLevel::Snapshot
            || self.generic.transaction.is_some()
            || is_pinned_already
        {
            return Ok(());
        }
        let at = concern.at_cluster_time.map(Timestamp::to_u64);
        let (pinned, time) = self.server.database.pin_snapshot(at)?;
        concern.at_cluster_time = Some(Timestamp::from_u64(time));
        self.pinned = Some(pinned);
        Ok(())
    }

    /// Tells which moment was read, for a client that names it again.
    pub fn append_at_cluster_time(&self, reply: &mut DocumentBuilder<'_>) {
        if self.pinned.is_some()
            && let Some(time) = self.generic.read_concern.at_cluster_time
        {
            reply.append("atClusterTime", time);
        }
    }

    /// The part that reads and writes documents for the command.
    pub fn data(&self) -> impl Data + '_ {
        self.scope()
    }

    /// Whether the client may do this.
    pub fn may(&self, action: Action, resource: Resource<'_>) -> bool {
        self.user.is_none_or(|user| user.may(action, resource))
    }

    /// Refuses the command unless the client may do this.
    pub fn require(&self, action: Action, resource: Resource<'_>) -> Result<()> {
        if self.may(action, resource) {
            return Ok(());
        }
        Err(refusal(self.command, self.body, self.generic.database))
    }

    /// Takes the lock under which users and roles change. The one who may make the first user may have waited for it while
    /// another made that user, which ends the exception.
    pub fn lock_changes(&self) -> Result<MutexGuard<'static, ()>> {
        let server = self.server;
        let changes = server.access.changes.lock();
        let is_bootstrap = self.user.is_some_and(|user| user.is_bootstrap);
        if is_bootstrap && server.access.has_users(&server.database)? {
            return Err(refusal(self.command, self.body, self.generic.database));
        }
        Ok(changes)
    }

    pub fn namespace(&self) -> Result<Namespace> {
        let namespace = Namespace::new(self.generic.database, self.collection()?)?;
        refuse_buckets(&namespace)?;
        Ok(namespace)
    }

    /// The value of a field that is there.
    pub fn get(&self, field: &str) -> Option<RawValue<'a>> {
        Some(self.argument(field)?.value())
    }

    /// The field of that name if it is there, to be read as the type that the command wants.
    pub fn argument(&self, field: &str) -> Option<Argument<'a>> {
        let element = self.body.get_element(field)?;
        let is_there = !self.command.fields.is_absent(&element);
        is_there.then(|| Argument::new(self.command.parser, element))
    }

    /// Like `argument`, for a command that cannot do without: a field that is Null or Undefined is missing.
    pub fn required(&self, field: &str) -> Result<Argument<'a>> {
        let missing = || CommandError::missing_field(self.command.parser, field);
        let argument = self.argument(field);
        argument
            .filter(|argument| !argument.is_absent())
            .ok_or_else(missing)
    }

    pub fn document(&self, field: &str) -> Result<Option<RawDocument<'a>>> {
        self.argument(field)
            .map_or(Ok(None), |argument| argument.document_or_null())
    }

    pub fn text(&self, field: &str) -> Result<Option<&'a str>> {
        self.argument(field)
            .map_or(Ok(None), |argument| argument.optional(Argument::text))
    }

    /// A field that holds a bool, or a number taken as one.
    pub fn boolean(&self, field: &str) -> Result<bool> {
        self.argument(field)
            .map_or(Ok(false), |argument| argument.flag())
    }

    /// The documents of `field`: an array in the body, or a document sequence of that name.
    pub fn documents(&self, field: &str) -> Result<Vec<RawDocument<'a>>> {
        let mut sequences = self.sequences.iter();
        match sequences.find(|sequence| sequence.identifier == field) {
            Some(sequence) => Ok(sequence.documents().collect()),
            None => self.required(field)?.documents(),
        }
    }
}

/// The error of a command that its user may not run.
#[cold]
pub fn refusal(command: &Command, body: RawDocument<'_>, database: &str) -> CommandError {
    let text = match command.hides_fields() {
        true => beginning_of(&without_secrets(body), SHOWN_BYTES_MAX),
        false => beginning_of(&body, SHOWN_BYTES_MAX),
    };
    let message = format!("not authorized on {database} to execute command {text}");
    CommandError::new(ErrorCode::UNAUTHORIZED, message)
}

fn max_time(value: RawValue<'_>) -> Result<Option<Duration>> {
    let Some(ms) = value.as_i64_exact() else {
        return Err(CommandError::bad_value(format!(
            "maxTimeMS must be an integral number, found {value}"
        )));
    };
    match u64::try_from(ms) {
        Ok(0) => Ok(None),
        Ok(ms) if ms <= i32::MAX as u64 => Ok(Some(Duration::from_millis(ms))),
        _ => Err(CommandError::bad_value(format!(
            "{ms} value for maxTimeMS is out of range [0, {}]",
            i32::MAX
        ))),
    }
}

fn not_taken(command: &Command, what: &str) -> CommandError {
    CommandError::new(
        ErrorCode::INVALID_OPTIONS,
        format!("Command {} does not support {what}", command.name),
    )
}
