//! A socket to a server, on which one command runs after the other.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, doc};

use crate::facts::{Facts, hello};
use crate::session::Session;
use crate::stream::Stream;
use crate::{Address, ConnectionString, Cursor, Error, Result, message};

/// Between two attempts to make a lost connection again.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);
/// How often a command is sent whose connection is lost each time.
const ATTEMPTS_MAX: usize = 4;
/// A field of commands by which a server keeps a Timestamp of zeros as it is.
const KEEPS_EMPTY_TIMESTAMPS: &str = "bypassEmptyTsReplacement";
/// The code of a command with a field that the server does not know.
const UNKNOWN_FIELD: i32 = 40_415;
/// A smaller message is not worth packing.
const PACKED_BYTES_MIN: usize = 1024;

/// Documents that stand beside a command instead of in it.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'d> {
    /// The field of the command that they stand for.
    pub identifier: &'d str,
    /// The documents, one after the other.
    pub documents: &'d [u8],
}

/// One socket, logged in.
pub struct Connection {
    settings: Arc<ConnectionString>,
    address: Address,
    stream: Stream,
    session: Session,
    pub(crate) facts: Facts,
    /// Whether an exchange has failed in its middle, so that nothing further can be asked over the stream.
    is_lost: bool,
    /// Whether documents are written with their empty Timestamps as they are.
    keeps_empty_timestamps: bool,
    request_id: i32,
    out: Vec<u8>,
    packed: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    /// Connects to the first of the servers that is the one to ask: the primary of a set, unless the URI wants another member.
    ///
    /// # Errors
    /// No server can be reached, none is the one to ask, or the login fails.
    pub fn open(settings: &Arc<ConnectionString>) -> Result<Connection> {
        Connection::open_any(settings, &[])
    }

    /// Connects to one of the URI's servers, or of others that are known to be of the same set.
    fn open_any(settings: &Arc<ConnectionString>, others: &[Address]) -> Result<Connection> {
        let named = settings.addresses.iter().chain(others);
        let mut left: Vec<Address> = named.rev().cloned().collect();
        let mut tried = Vec::new();
        let mut failed = None;
        let mut second_best = None;
        while let Some(address) = left.pop() {
            if tried.contains(&address) {
                continue;
            }
            tried.push(address.clone());
            match Connection::open_one(&address, settings) {
                Ok(connection) if connection.is_the_one() => return connection.logged_in(),
                Ok(connection) => {
                    left.extend(connection.facts.primary.clone());
                    if connection.would_do() {
                        second_best.get_or_insert(connection);
                    }
                }
                Err(error @ (Error::Uri(_) | Error::Login(_))) => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        match second_best {
            Some(connection) => connection.logged_in(),
            None => Err(failed.unwrap_or_else(|| Error::NoPrimary(settings.shown()))),
        }
    }

    fn open_one(address: &Address, settings: &Arc<ConnectionString>) -> Result<Connection> {
        let stream = Stream::connect(address, settings)?;
        // A server that accepts and says nothing is no server.
        stream
            .set_reply_time(Some(settings.connect_timeout).filter(|time| *time != Duration::MAX))
            .map_err(Error::Lost)?;
        let mut connection = Connection {
            settings: Arc::clone(settings),
            address: address.clone(),
            stream,
            session: Session::new()?,
            facts: Facts::default(),
            is_lost: false,
            keeps_empty_timestamps: false,
            request_id: 0,
            out: Vec::new(),
            packed: Vec::new(),
            reply: Vec::new(),
        };
        let hello = connection.exchange("admin", &hello(settings), &Document::new(), None)?;
        connection.facts = Facts::of(&hello);
        if connection.facts.is_ghost && !settings.is_direct {
            return Err(Error::NoPrimary(address.to_string()));
        }
        if let Some(wanted) = &settings.replica_set
            && connection.facts.set_name.as_ref() != Some(wanted)
        {
            let what = format!("{address} is no member of the set `{wanted}`");
            return Err(Error::Uri(what));
        }
        Ok(connection)
    }

    /// Whether this is the member that the settings ask for.
    fn is_the_one(&self) -> bool {
        let facts = &self.facts;
        let takes_any = self.settings.read_preference.as_deref() == Some("nearest");
        self.settings.is_direct || facts.is_writable || (takes_any && facts.is_secondary)
    }

    /// Whether this is a member to ask where there is no better one.
    fn would_do(&self) -> bool {
        let prefers = self.settings.read_preference.as_deref();
        prefers == Some("primaryPreferred") && self.facts.is_secondary
    }

    fn logged_in(mut self) -> Result<Connection> {
        if let Some(login) = self.settings.login.clone() {
            self.log_in(&login)?;
        }
        if !self.facts.knows_numbers {
            // A Quarry that is no set keeps them, too.
            let build = self.exchange("admin", &doc! { "buildInfo": 1 }, &Document::new(), None);
            self.facts.knows_numbers = build.is_ok_and(|build| build.contains("quarry"));
        }
        self.stream
            .set_reply_time(self.settings.socket_timeout)
            .map_err(Error::Lost)?;
        Ok(self)
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether both are connections to one server, or to servers of one set.
    #[must_use]
    pub fn is_of_the_same_server(&self, other: &Connection) -> bool {
        let (here, there) = (&self.facts, &other.facts);
        let is_same_process = here.process.is_some() && here.process == there.process;
        let is_same_set = here.set_name.is_some()
            && here.set_name == there.set_name
            && here.hosts.iter().any(|host| there.hosts.contains(host));
        is_same_process || is_same_set || self.address == other.address
    }

    /// From now on inserts and updates leave a Timestamp of zeros as it is, which a server otherwise replaces by the present; a server that
    /// does not know how to do so replaces it.
    pub fn keep_empty_timestamps(&mut self) {
        self.keeps_empty_timestamps = true;
    }

    /// Bounds how long a reply is waited for, until the next call. Without a bound of its own, the URI's counts.
    pub(crate) fn set_reply_time(&mut self, time: Option<Duration>) -> Result<()> {
        let time = self.settings.socket_timeout.or(time);
        self.stream.set_reply_time(time).map_err(Error::Lost)
    }

    /// Whether the connection has been lost, so that the next command makes it anew.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Runs a command once. Where an earlier command has lost the connection, one attempt is made to have a new one first.
    ///
    /// # Errors
    /// The connection is lost, or the server refuses the command.
    pub fn run(&mut self, database: &str, command: &Document) -> Result<Document> {
        self.revive(Duration::ZERO)?;
        let carried = self.session_fields();
        self.exchange(database, command, &carried, None)
    }

    /// Runs a command that defines something, such as `create` or `dropIndexes`, with the URI's write concern unless it has its own. After the connection is lost, it is
    /// sent again on a new one: the first may have been done, so that the second may be told that there is nothing to do.
    ///
    /// # Errors
    /// No connection can be made again, the server refuses the command, or the write concern is not reached.
    pub fn define(&mut self, database: &str, command: &Document) -> Result<Document> {
        self.revive(self.settings.reconnect_time)?;
        let mut carried = self.session_fields();
        if !command.contains("writeConcern") {
            self.append_write_concern(&mut carried);
        }
        self.again(|connection| connection.acknowledged(database, command, &carried, None))
    }

    /// Runs a command that only looks: it is sent again on a new connection where the first one is lost.
    ///
    /// # Errors
    /// No connection can be made again, or the server refuses the command.
    pub fn read(&mut self, database: &str, command: &Document) -> Result<Document> {
        self.revive(self.settings.reconnect_time)?;
        let mut carried = self.session_fields();
        let preference = self.settings.read_preference_document();
        let only_reads = !self.facts.is_writable && self.facts.is_secondary;
        let preference =
            preference.or_else(|| only_reads.then(|| doc! { "mode": "primaryPreferred" }));
        if let Some(preference) = preference {
            carried.append("$readPreference", preference);
        }
        self.again(|connection| connection.exchange(database, command, &carried, None))
    }

    /// Runs `insert`, `update` or `delete`, with the documents beside it. Where the server knows writes by their numbers, it is sent
    /// again on a new connection after the first one is lost, and takes effect once. `is_retryable` says whether the statement is
    /// one that a number may go with: updates and deletes of one document each, and inserts.
    ///
    /// # Errors
    /// The connection is lost and the write may not be sent again, the server refuses all of it, or the write concern is not reached. Errors of
    /// single documents stand in the reply.
    pub fn write(
        &mut self,
        database: &str,
        command: &Document,
        documents: Sequence<'_>,
        is_retryable: bool,
    ) -> Result<Document> {
        self.revive(self.settings.reconnect_time)?;
        let mut carried = self.session_fields();
        self.append_write_concern(&mut carried);
        let has_number =
            is_retryable && self.facts.knows_numbers && self.settings.is_retrying_writes;
        if has_number {
            carried.append("txnNumber", self.session.next_number());
        }
        match has_number {
            true => self
                .again(|connection| connection.write_once(database, command, &carried, &documents)),
            false => self.write_once(database, command, &carried, &documents),
        }
    }

    /// Sends a command that may be sent again, each time on a new connection after one is lost.
    fn again(
        &mut self,
        mut send: impl FnMut(&mut Connection) -> Result<Document>,
    ) -> Result<Document> {
        for _ in 1..ATTEMPTS_MAX {
            match send(self) {
                Err(error) if error.is_transient() => self.reconnect()?,
                reply => return reply,
            }
        }
        send(self)
    }

    fn write_once(
        &mut self,
        database: &str,
        command: &Document,
        carried: &Document,
        documents: &Sequence<'_>,
    ) -> Result<Document> {
        let makes_documents = command.contains("insert") || command.contains("update");
        if !self.keeps_empty_timestamps || !makes_documents {
            return self.acknowledged(database, command, carried, Some(documents));
        }
        let mut keeping = carried.clone();
        keeping.append(KEEPS_EMPTY_TIMESTAMPS, true);
        match self.acknowledged(database, command, &keeping, Some(documents)) {
            // An older server: it has read the command and done nothing.
            Err(Error::Command(refusal))
                if refusal.code == UNKNOWN_FIELD
                    && refusal.message.contains(KEEPS_EMPTY_TIMESTAMPS) =>
            {
                self.keeps_empty_timestamps = false;
                self.acknowledged(database, command, carried, Some(documents))
            }
            reply => reply,
        }
    }

    /// Runs a command; an error where what it did has not reached the members that the write concern asks for.
    fn acknowledged(
        &mut self,
        database: &str,
        command: &Document,
        carried: &Document,
        documents: Option<&Sequence<'_>>,
    ) -> Result<Document> {
        let reply = self.exchange(database, command, carried, documents)?;
        match reply.get_document("writeConcernError") {
            Some(error) => Err(Error::refused(error)),
            None => Ok(reply),
        }
    }

    /// Opens the cursor of a `find`, an `aggregate` or a list.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn cursor(&mut self, database: &str, command: &Document) -> Result<Cursor<'_>> {
        let mut command = command.clone();
        let is_of_documents = command.contains("find") || command.contains("aggregate");
        if let Some(level) = &self.settings.read_concern_level
            && is_of_documents
        {
            command.append("readConcern", doc! { "level": (level.as_str()) });
        }
        let reply = self.read(database, &command)?;
        Cursor::of_reply(self, database, reply)
    }

    /// Makes the connection anew, for as long as the settings give it. The session goes on.
    ///
    /// # Errors
    /// The last attempt's.
    pub fn reconnect(&mut self) -> Result<()> {
        self.reconnect_within(self.settings.reconnect_time)
    }

    fn reconnect_within(&mut self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        loop {
            match Connection::open_any(&self.settings, &self.facts.hosts) {
                Ok(mut made) => {
                    std::mem::swap(&mut made.session, &mut self.session);
                    made.keeps_empty_timestamps = self.keeps_empty_timestamps;
                    *self = made;
                    return Ok(());
                }
                Err(error) if !error.is_transient() || Instant::now() >= deadline => {
                    return Err(error);
                }
                Err(_) => thread::sleep(BETWEEN_ATTEMPTS),
            }
        }
    }

    /// Makes a connection anew that an earlier command has lost, within a time or by one attempt.
    fn revive(&mut self, time: Duration) -> Result<()> {
        match self.is_lost {
            true => self.reconnect_within(time),
            false => Ok(()),
        }
    }

    fn append_write_concern(&self, carried: &mut Document) {
        if let Some(concern) = &self.settings.write_concern {
            carried.append("writeConcern", concern.clone());
        }
    }

    /// `lsid`, where the server has sessions.
    fn session_fields(&self) -> Document {
        let mut fields = Document::new();
        if self.facts.has_sessions {
            fields.append("lsid", self.session.id());
        }
        fields
    }

    pub(crate) fn exchange(
        &mut self,
        database: &str,
        command: &Document,
        carried: &Document,
        sequence: Option<&Sequence<'_>>,
    ) -> Result<Document> {
        self.request_id = self.request_id.wrapping_add(1);
        let mut carried = carried.clone();
        carried.append("$db", database);
        message::write(&mut self.out, self.request_id, command, &carried, sequence)?;
        let mut bytes = &self.out;
        // A login stays below the bound: its packed length would tell of the password.
        if let Some(compressor) = self.facts.compressor
            && self.out.len() >= PACKED_BYTES_MIN
        {
            message::pack(&self.out, compressor, &mut self.packed)?;
            bytes = &self.packed;
        }
        // Until the whole reply is there, the stream is of no further use.
        self.is_lost = true;
        self.stream.write_all(bytes).map_err(Error::Lost)?;
        self.stream.flush().map_err(Error::Lost)?;
        let reply = message::read(&mut self.stream, self.request_id, &mut self.reply)?;
        self.is_lost = false;
        match Error::of_reply(&reply) {
            None => Ok(reply),
            Some(error) => Err(error),
        }
    }
}

/// The documents of an array of a reply.
pub(crate) fn documents<'r>(
    reply: &'r Document,
    path: &str,
) -> impl Iterator<Item = RawDocument<'r>> {
    let array = reply.get_path(path).and_then(|value| value.as_array());
    let values = array.into_iter().flat_map(|array| array.iter());
    values.filter_map(|value| value.as_document())
}
