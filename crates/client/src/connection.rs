//! A socket to a server, on which one command runs after the other.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, Value, doc};
use quarry_wire::Compressor;

use crate::scram::Exchange;
use crate::session::Session;
use crate::stream::Stream;
use crate::{Address, ConnectionString, Cursor, Error, Login, Mechanism, Result, message};

/// Between two attempts to make a lost connection again.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);
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
    facts: Facts,
    request_id: i32,
    out: Vec<u8>,
    packed: Vec<u8>,
    reply: Vec<u8>,
}

/// The parts of a server's hello that a client goes by.
#[derive(Clone, Debug, Default)]
struct Facts {
    has_sessions: bool,
    /// Whether the server knows a write that is sent again by its transaction number.
    knows_numbers: bool,
    is_writable: bool,
    is_secondary: bool,
    set_name: Option<String>,
    primary: Option<Address>,
    compressor: Option<Compressor>,
    mechanisms: Vec<Mechanism>,
}

impl Connection {
    /// Connects to the first of the servers that is the one to ask: the primary of a set, unless the URI wants another member.
    ///
    /// # Errors
    /// No server can be reached, none is the one to ask, or the login fails.
    pub fn open(settings: &Arc<ConnectionString>) -> Result<Connection> {
        let mut left: Vec<Address> = settings.addresses.iter().rev().cloned().collect();
        let mut tried = Vec::new();
        let mut failed = None;
        while let Some(address) = left.pop() {
            if tried.contains(&address) {
                continue;
            }
            tried.push(address.clone());
            match Connection::open_one(&address, settings) {
                Ok(connection) if connection.is_the_one() => return connection.logged_in(),
                Ok(connection) => left.extend(connection.facts.primary),
                Err(error @ (Error::Uri(_) | Error::Login(_))) => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| {
            Error::Protocol(format!("no server of {} is a primary", settings.shown()))
        }))
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
            request_id: 0,
            out: Vec::new(),
            packed: Vec::new(),
            reply: Vec::new(),
        };
        let hello = connection.exchange("admin", &hello(settings), &Document::new(), None)?;
        connection.facts = Facts::of(&hello);
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
        let prefers = self.settings.read_preference.as_deref();
        let takes_secondary = prefers.is_some_and(|mode| mode != "primary");
        let facts = &self.facts;
        self.settings.is_direct || facts.is_writable || (takes_secondary && facts.is_secondary)
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

    fn log_in(&mut self, login: &Login) -> Result<()> {
        let has = |mechanism| self.facts.mechanisms.contains(&mechanism);
        let mechanism = match login.mechanism {
            Some(mechanism) => mechanism,
            None if has(Mechanism::Sha1) && !has(Mechanism::Sha256) => Mechanism::Sha1,
            None => Mechanism::Sha256,
        };
        let exchange = Exchange::new(mechanism, login)?;
        let start = doc! {
            "saslStart": 1, "mechanism": (mechanism.name()), "payload": (binary(&exchange.first())),
            "options": { "skipEmptyExchange": true },
        };
        let (reply, server_first) = self.login_step(login, &start)?;
        let proof = exchange.prove(&server_first)?;
        let conversation = Value::from(reply.get("conversationId").unwrap_or(RawValue::Null));
        let go_on = |message: &str| {
            doc! { "saslContinue": 1, "conversationId": (conversation.clone()), "payload": (binary(message)) }
        };
        let (mut reply, server_last) = self.login_step(login, &go_on(&proof.message))?;
        if server_last != proof.expected {
            let what = "the server does not know the password".to_owned();
            return Err(Error::Login(what));
        }
        // A server from before `skipEmptyExchange` wants one more message.
        if reply.get_bool("done") == Some(false) {
            (reply, _) = self.login_step(login, &go_on(""))?;
        }
        match reply.get_bool("done") {
            Some(true) => Ok(()),
            _ => Err(Error::Login("the server does not end it".to_owned())),
        }
    }

    fn login_step(&mut self, login: &Login, command: &Document) -> Result<(Document, String)> {
        let reply = match self.exchange(&login.source, command, &Document::new(), None) {
            Err(Error::Command(refusal)) => Err(Error::Login(refusal.message)),
            reply => reply,
        }?;
        let message = match reply.get("payload") {
            Some(RawValue::Binary(payload)) => String::from_utf8_lossy(payload.bytes).into_owned(),
            _ => return Err(Error::Login("the server's part is malformed".to_owned())),
        };
        Ok((reply, message))
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Runs a command once.
    ///
    /// # Errors
    /// The connection is lost, or the server refuses the command.
    pub fn run(&mut self, database: &str, command: &Document) -> Result<Document> {
        let carried = self.session_fields();
        self.exchange(database, command, &carried, None)
    }

    /// Runs a command that only looks: it is sent again on a new connection where the first one is lost.
    ///
    /// # Errors
    /// No connection can be made again, or the server refuses the command.
    pub fn read(&mut self, database: &str, command: &Document) -> Result<Document> {
        let mut carried = self.session_fields();
        let preference = self.settings.read_preference_document();
        let only_reads = !self.facts.is_writable && self.facts.is_secondary;
        let preference =
            preference.or_else(|| only_reads.then(|| doc! { "mode": "primaryPreferred" }));
        if let Some(preference) = preference {
            carried.append("$readPreference", preference);
        }
        match self.exchange(database, command, &carried, None) {
            Err(error) if error.is_transient() => {
                self.reconnect()?;
                self.exchange(database, command, &carried, None)
            }
            reply => reply,
        }
    }

    /// Runs `insert`, `update` or `delete`, with the documents beside it. Where the server knows writes by their numbers, it is sent
    /// again on a new connection after the first one is lost, and takes effect once. `is_retryable` says whether the statement is
    /// one that a number may go with: updates and deletes of one document each, and inserts.
    ///
    /// # Errors
    /// The connection is lost and the write may not be sent again, or the server refuses all of it. Errors of single documents stand in the
    /// reply.
    pub fn write(
        &mut self,
        database: &str,
        command: &Document,
        documents: Sequence<'_>,
        is_retryable: bool,
    ) -> Result<Document> {
        let mut carried = self.session_fields();
        if let Some(concern) = &self.settings.write_concern {
            carried.append("writeConcern", concern.clone());
        }
        let has_number =
            is_retryable && self.facts.knows_numbers && self.settings.is_retrying_writes;
        if has_number {
            carried.append("txnNumber", self.session.next_number());
        }
        match self.exchange(database, command, &carried, Some(&documents)) {
            Err(error) if has_number && error.is_transient() => {
                self.reconnect()?;
                self.exchange(database, command, &carried, Some(&documents))
            }
            reply => reply,
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
        let deadline = Instant::now() + self.settings.reconnect_time;
        loop {
            match Connection::open(&self.settings) {
                Ok(mut made) => {
                    std::mem::swap(&mut made.session, &mut self.session);
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

    /// `lsid`, where the server has sessions.
    fn session_fields(&self) -> Document {
        let mut fields = Document::new();
        if self.facts.has_sessions {
            fields.append("lsid", self.session.id());
        }
        fields
    }

    fn exchange(
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
        self.stream.write_all(bytes).map_err(Error::Lost)?;
        self.stream.flush().map_err(Error::Lost)?;
        let reply = message::read(&mut self.stream, self.request_id, &mut self.reply)?;
        match Error::of_reply(&reply) {
            None => Ok(reply),
            Some(error) => Err(error),
        }
    }
}

fn hello(settings: &ConnectionString) -> Document {
    let mut client = Document::new();
    if let Some(name) = &settings.app_name {
        client.append("application", doc! { "name": (name.as_str()) });
    }
    client.append(
        "driver",
        doc! { "name": "quarry-client", "version": (env!("CARGO_PKG_VERSION")) },
    );
    client.append("os", doc! { "type": (std::env::consts::OS) });
    let mut command = doc! { "hello": 1, "helloOk": true, "client": client };
    if !settings.compressors.is_empty() {
        let names = settings.compressors.iter().map(|one| one.name());
        command.append("compression", names.map(Value::from).collect::<Value>());
    }
    if let Some(login) = &settings.login
        && login.mechanism.is_none()
    {
        let user = format!("{}.{}", login.source, login.user);
        command.append("saslSupportedMechs", user);
    }
    command
}

impl Facts {
    fn of(hello: &Document) -> Facts {
        let texts = |name: &str| -> Vec<&str> {
            let listed = hello.get_array(name);
            let texts = listed.iter().flat_map(quarry_bson::RawArray::iter);
            texts.filter_map(|text| text.as_str()).collect()
        };
        let set_name = hello.get_str("setName").map(str::to_owned);
        let is_router = hello.get_str("msg") == Some("isdbgrid");
        let is_true = |name| hello.get_bool(name) == Some(true);
        Facts {
            has_sessions: hello.contains("logicalSessionTimeoutMinutes"),
            knows_numbers: set_name.is_some() || is_router,
            is_writable: is_true("isWritablePrimary") || is_true("ismaster"),
            is_secondary: is_true("secondary"),
            set_name,
            primary: hello.get_str("primary").and_then(Address::parse),
            compressor: texts("compression")
                .into_iter()
                .find_map(Compressor::from_name),
            mechanisms: texts("saslSupportedMechs")
                .into_iter()
                .filter_map(Mechanism::named)
                .collect(),
        }
    }
}

fn binary(text: &str) -> Value {
    Value::binary(0, text.as_bytes())
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
