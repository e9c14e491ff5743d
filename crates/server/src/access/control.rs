//! Access control of the server: whether it is on, who a connection's client is now, and the steps of a login.
//!
//! Users and roles have a generation that each change of them raises. A connection remembers the generation that its user
//! was read from, and reads it again when that is not the last one: a change holds for the next command of every
//! connection, and a command that finds nothing changed reads one number.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quarry_bson::{Document, RawValue};
use quarry_database::Database;
use quarry_query::ErrorCode;

use crate::access::attempts::Attempts;
use crate::access::credentials::{Credentials, Mechanism};
use crate::access::login::{Awaits, Login, Pending};
use crate::access::name::{Kind, Name};
use crate::access::restrictions::{Ends, Restrictions};
use crate::access::roles;
use crate::access::scram::{ClientFirst, Exchange};
use crate::access::store;
use crate::access::user::User;
use crate::dispatch::error::{CommandError, Result};
use crate::observe::log;
use crate::sessions::owner::SessionOwner;

const SECRET_BYTES: usize = 32;
const UUID_BYTES: usize = 16;

/// Access control of one server.
pub struct AccessControl {
    is_enabled: bool,
    /// A client on this machine may make the first user.
    has_localhost_exception: bool,
    generation: AtomicU64,
    /// A user or role was seen: the localhost exception is over for the life of the process.
    has_users: AtomicBool,
    /// Makes up credentials of users who are not there.
    secret: [u8; SECRET_BYTES],
    nobody: Arc<User>,
    /// Held by a command that reads users or roles to change them. It is taken before any lock of the database.
    pub changes: Mutex<()>,
    /// Failed logins.
    pub attempts: Attempts,
    /// Logins by mechanism, for serverStatus.
    pub logins: [LoginCounters; Mechanism::ALL.len()],
    /// Logins by certificate.
    pub x509_logins: LoginCounters,
}

/// How often clients tried a mechanism, and how often they succeeded.
#[derive(Default)]
pub struct LoginCounters {
    /// Exchanges that began, in a hello or not.
    pub received: AtomicU64,
    /// Exchanges that ended with a user.
    pub successful: AtomicU64,
    /// Exchanges that began in a hello.
    pub speculative_received: AtomicU64,
    /// Exchanges that began in a hello and ended with a user.
    pub speculative_successful: AtomicU64,
}

impl LoginCounters {
    /// Counts an exchange that begins.
    pub fn note_received(&self, is_speculative: bool) {
        self.received.fetch_add(1, Ordering::Relaxed);
        if is_speculative {
            self.speculative_received.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an exchange that has ended with a user.
    pub fn note_successful(&self, is_speculative: bool) {
        self.successful.fetch_add(1, Ordering::Relaxed);
        if is_speculative {
            self.speculative_successful.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The beginning of a login, as `saslStart` or a hello asks for it.
pub struct Start<'a> {
    /// The mechanism's name.
    pub mechanism: &'a str,
    /// The client's first message.
    pub payload: &'a [u8],
    /// The database of the user.
    pub database: &'a str,
    /// The exchange ends with the server's proof.
    pub skips_empty: bool,
    /// It stands in a hello.
    pub is_speculative: bool,
}

/// The server's answer to one message of a login.
pub struct Step {
    /// The number of the exchange.
    pub conversation: i32,
    /// The client is logged in.
    pub is_done: bool,
    /// The server's message.
    pub payload: Vec<u8>,
}

impl AccessControl {
    /// Access control of a server that starts.
    pub fn new(is_enabled: bool, has_localhost_exception: bool) -> AccessControl {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).expect("the kernel gives random bytes");
        AccessControl {
            is_enabled,
            has_localhost_exception,
            generation: AtomicU64::new(1),
            has_users: AtomicBool::new(false),
            secret,
            nobody: Arc::new(User::nobody()),
            changes: Mutex::default(),
            attempts: Attempts::default(),
            logins: Default::default(),
            x509_logins: LoginCounters::default(),
        }
    }

    /// Whether commands are checked.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The number of the state that users and roles are in.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Users or roles may have changed: every connection reads its own again before its next command.
    pub fn note_change(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The client of a connection, with what it may do now.
    #[inline]
    pub fn user_of(
        &self,
        database: &Database,
        login: &Mutex<Login>,
        address: IpAddr,
    ) -> Result<Arc<User>> {
        let generation = self.generation.load(Ordering::Acquire);
        {
            let login = login.lock();
            if let Some(user) = &login.user
                && login.generation == generation
            {
                return Ok(Arc::clone(user));
            }
        }
        self.read_again(database, login, address, generation)
    }

    #[cold]
    fn read_again(
        &self,
        database: &Database,
        login: &Mutex<Login>,
        address: IpAddr,
        generation: u64,
    ) -> Result<Arc<User>> {
        let held = login.lock().user.clone();
        let Some(held) = held else {
            return self.nobody_at(database, address);
        };
        let name = held.name.as_ref().unwrap_or(&NO_NAME);
        let user = load(database, name)?.filter(|user| user.id == held.id);
        let mut login = login.lock();
        let may_stay = |user: &User| login.ends.is_none_or(|ends| user.may_come_by(ends));
        let user = user.filter(may_stay).map(Arc::new);
        login.generation = generation;
        login.user.clone_from(&user);
        drop(login);
        match user {
            Some(user) => Ok(user),
            None => {
                let name = [("user", name.to_string().into())];
                log::info("access", "a user who is logged in is gone", &name);
                self.nobody_at(database, address)
            }
        }
    }

    /// A client without a user: one on this machine may make the first.
    fn nobody_at(&self, database: &Database, address: IpAddr) -> Result<Arc<User>> {
        let may_bootstrap = self.has_localhost_exception && address.to_canonical().is_loopback();
        if may_bootstrap && !self.has_users(database)? {
            return Ok(Arc::new(User::bootstrap()));
        }
        Ok(Arc::clone(&self.nobody))
    }

    /// Whether there is a user or a role. Once there was one the answer stays yes.
    pub fn has_users(&self, database: &Database) -> Result<bool> {
        if self.has_users.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let found = store::has_any(database, Kind::User)? || store::has_any(database, Kind::Role)?;
        if found {
            self.has_users.store(true, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Begins a login.
    pub fn start(
        &self,
        database: &Database,
        login: &Mutex<Login>,
        start: &Start<'_>,
        iterations: impl Fn(Mechanism) -> u32,
    ) -> Result<Step> {
        login.lock().pending = None;
        let Some(mechanism) = Mechanism::named(start.mechanism) else {
            let message = format!(
                "Received authentication for mechanism {} which is not enabled",
                start.mechanism
            );
            return Err(CommandError::new(ErrorCode::MECHANISM_UNAVAILABLE, message));
        };
        self.logins[mechanism as usize].note_received(start.is_speculative);
        let first = ClientFirst::parse(start.payload).ok_or_else(failed)?;
        // No such user can be there, and the exchange keeps the name until the client goes on.
        let name = Name::new(&first.user, start.database).check();
        let name = name.map_err(|_| failed())?;
        refuse_second(&login.lock(), &name)?;
        // The same work for a user who is there and for one who is not.
        let document = store::get(database, Kind::User, &name)?;
        let made_up =
            Credentials::made_up(mechanism, &self.secret, &name.id(), iterations(mechanism));
        let real = document
            .as_ref()
            .and_then(|document| credentials_of(document, mechanism));
        if document.is_some() && real.is_none() {
            // Drivers rely on that: one who goes on as if the mechanism served would never try the user's own.
            return Err(failed());
        }
        let is_real = real.is_some();
        let (exchange, payload) =
            Exchange::begin(mechanism, &first, real.unwrap_or(made_up), is_real);
        let mut login = login.lock();
        login.last_conversation = login.last_conversation.wrapping_add(1).max(1);
        let conversation = login.last_conversation;
        login.pending = Some(Pending {
            conversation,
            name,
            mechanism,
            is_speculative: start.is_speculative,
            skips_empty: start.skips_empty,
            awaits: Awaits::Proof(Box::new(exchange)),
        });
        Ok(Step {
            conversation,
            is_done: false,
            payload,
        })
    }

    /// The user whose password this is; none where it is another, or the user is not there, which takes as long.
    pub fn check_password(
        &self,
        database: &Database,
        name: &Name,
        password: &str,
        iterations: impl Fn(Mechanism) -> u32,
    ) -> Result<Option<User>> {
        let Ok(name) = name.clone().check() else {
            return Ok(None);
        };
        let document = store::get(database, Kind::User, &name)?;
        let strongest = Mechanism::ALL.into_iter().rev().find_map(|mechanism| {
            let held = credentials_of(document.as_ref()?, mechanism)?;
            Some((mechanism, held))
        });
        let is_real = strongest.is_some();
        let (mechanism, held) = strongest.unwrap_or_else(|| {
            let mechanism = Mechanism::Sha256;
            let count = iterations(mechanism);
            let made_up = Credentials::made_up(mechanism, &self.secret, &name.id(), count);
            (mechanism, made_up)
        });
        let is_right = held.is_of_password(mechanism, &name.name, password);
        match is_right && is_real {
            true => load(database, &name),
            false => Ok(None),
        }
    }

    /// Logs in a user whom something else than a password has proven: it is the caller's to know that.
    pub fn log_in_external(
        &self,
        database: &Database,
        login: &Mutex<Login>,
        name: &Name,
        ends: Ends,
    ) -> Result<()> {
        refuse_second(&login.lock(), name)?;
        let user = Arc::new(load_for(database, name, ends)?);
        let mut login = login.lock();
        login.ends = Some(ends);
        login.pending = None;
        login.generation = 0;
        login.user = Some(user);
        Ok(())
    }

    /// Takes an exchange's next message. Whatever fails ends the exchange; `who` is told of whom it was, for the log.
    pub fn go_on(
        &self,
        database: &Database,
        login: &Mutex<Login>,
        conversation: i32,
        payload: &[u8],
        ends: Ends,
        who: &mut Option<(Name, Mechanism)>,
    ) -> Result<Step> {
        let pending = login.lock().pending.take();
        let Some(mut pending) = pending else {
            return Err(CommandError::new(
                ErrorCode::PROTOCOL_ERROR,
                "No SASL session state found",
            ));
        };
        if pending.conversation != conversation {
            return Err(CommandError::new(
                ErrorCode::PROTOCOL_ERROR,
                "sasl: Mismatched conversation id",
            ));
        }
        *who = Some((pending.name.clone(), pending.mechanism));
        let (user, payload) = match pending.awaits {
            Awaits::Empty(user) if payload.is_empty() => (user, Vec::new()),
            Awaits::Empty(_) => return Err(failed()),
            Awaits::Proof(exchange) => {
                let answer = exchange.finish(payload).ok_or_else(failed)?;
                let user = Arc::new(load_for(database, &pending.name, ends)?);
                if !pending.skips_empty {
                    pending.awaits = Awaits::Empty(user);
                    login.lock().pending = Some(pending);
                    *who = None;
                    return Ok(Step {
                        conversation,
                        is_done: false,
                        payload: answer,
                    });
                }
                (user, answer)
            }
        };
        self.logins[pending.mechanism as usize].note_successful(pending.is_speculative);
        let mut login = login.lock();
        // Of no generation: the next command reads the user again, which may have changed since the proof.
        login.generation = 0;
        login.ends = Some(ends);
        login.user = Some(user);
        Ok(Step {
            conversation,
            is_done: true,
            payload,
        })
    }
}

/// A connection is one user's.
fn refuse_second(login: &Login, name: &Name) -> Result<()> {
    match login.name().filter(|other| *other != name) {
        None => Ok(()),
        Some(other) => {
            let message = format!(
                "Each client connection may only be authenticated once. Previously authenticated as: {other}"
            );
            Err(CommandError::new(ErrorCode::PROTOCOL_ERROR, message))
        }
    }
}

/// A user of no name is in no document.
static NO_NAME: Name = Name {
    name: String::new(),
    database: String::new(),
};

/// The one answer to a login that fails, whatever the reason.
pub fn failed() -> CommandError {
    CommandError::new(ErrorCode::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// The user who logs in over a connection with these ends.
fn load_for(database: &Database, name: &Name, ends: Ends) -> Result<User> {
    let user = load(database, name)?.ok_or_else(failed)?;
    if user.may_come_by(ends) {
        return Ok(user);
    }
    let client = match ends.client {
        Some(address) => address.to_string(),
        None => "a socket of the file system".to_owned(),
    };
    let line = [
        ("user", log::Attribute::Owned(name.to_string())),
        ("client", client.into()),
    ];
    log::info("access", "authenticationRestrictions are not met", &line);
    Err(failed())
}

/// The user of that name with all that its roles come to; none where there is none.
pub fn load(database: &Database, name: &Name) -> Result<Option<User>> {
    let Some(document) = store::get(database, Kind::User, name)? else {
        return Ok(None);
    };
    let own = match Restrictions::parse(document.get_array("authenticationRestrictions")) {
        Ok(own) => own,
        Err(error) => {
            let line = [
                ("user", log::Attribute::Owned(name.to_string())),
                ("reason", error.message.into()),
            ];
            let message = "authenticationRestrictions cannot be read: the user is refused";
            log::warning("access", message, &line);
            return Ok(None);
        }
    };
    let roles = roles::readable_names(document.get_array("roles"), &name.database);
    let reached = roles::reach(database, &roles)?;
    let mut restrictions = reached.restrictions;
    restrictions.push(own);
    restrictions.retain(|list| !list.is_empty());
    Ok(Some(User {
        name: Some(name.clone()),
        session_owner: Some(SessionOwner::of(name)),
        id: user_id(&document),
        inherited_roles: reached.roles,
        privileges: reached.privileges,
        restrictions,
        is_bootstrap: false,
    }))
}

/// The `userId` of a user's document.
fn user_id(document: &Document) -> Option<[u8; UUID_BYTES]> {
    match document.get("userId")? {
        RawValue::Binary(id) => id.bytes.try_into().ok(),
        _ => None,
    }
}

/// The credential of a user's document for that mechanism.
fn credentials_of(document: &Document, mechanism: Mechanism) -> Option<Credentials> {
    let credentials = document.get_document("credentials")?;
    Credentials::parse(mechanism, credentials.get_document(mechanism.name())?)
}

/// The mechanisms that a user's document has credentials for, by name.
pub fn mechanisms_of(document: &Document) -> Vec<&'static str> {
    let has = |mechanism: &Mechanism| credentials_of(document, *mechanism).is_some();
    Mechanism::ALL
        .into_iter()
        .filter(has)
        .map(Mechanism::name)
        .collect()
}
