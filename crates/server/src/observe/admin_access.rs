//! Who may see the admin port, on a server with access control: a user who may see the server's figures, or whoever has the
//! token.
//!
//! A user logs in with each request (HTTP Basic), where the connection is encrypted or does not leave the machine. Checking a
//! password takes milliseconds of a processor, as it is meant to, so that what was right is remembered until a user or role
//! changes. What is remembered is not the password but a keyed hash of it. What is not remembered waits before it is looked
//! at as a login does, after failures (`attempts`): whoever guesses learns nothing from an answer that comes late.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::access::action::Action;
use crate::access::credentials::Mechanism;
use crate::access::name::Name;
use crate::access::resource::Resource;
use crate::access::restrictions::Ends;
use crate::access::roles;
use crate::access::user::User;
use crate::dispatch::error::Result;
use crate::observe::log;
use crate::server::Server;

/// The beginning of a header with a user and a password.
const BASIC: &str = "Basic ";
/// The beginning of a header with the token.
const BEARER: &str = "Bearer ";
/// A longer header is no user's.
const HEADER_BYTES_MAX: usize = 4 << 10;
/// Headers that are remembered: a monitor has one.
const REMEMBERED_MAX: usize = 64;

/// The memory of headers that were right.
pub struct AdminAccess {
    /// Makes the hashes worthless to whoever reads them.
    secret: [u8; 32],
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// The state of users and roles that they were right in.
    generation: u64,
    headers: Vec<(Vec<u8>, Who)>,
}

/// The client of a request.
#[derive(Clone, Debug)]
pub enum Who {
    /// There is no access control.
    Anybody,
    /// A user, as it was in this generation of users and roles.
    User(Arc<User>, u64),
    /// Somebody who has the token: a user who stands nowhere and may see the server's figures.
    Token(Arc<User>, u64),
}

impl Who {
    /// Whether the user's restrictions let it come from there.
    fn may_come_from(&self, origin: Origin) -> bool {
        let ends = Ends {
            client: Some(origin.address),
            server: None,
        };
        match self {
            Who::User(user, _) => user.may_come_by(ends),
            Who::Anybody | Who::Token(..) => true,
        }
    }
}

/// Where a request comes from.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The other end of the connection.
    pub address: IpAddr,
    pub port: u16,
    /// The connection is encrypted.
    pub is_encrypted: bool,
}

/// The decision on a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is answered.
    Granted(Who),
    /// It carries nobody, or somebody who is not known.
    Unknown,
    /// Its user may not see this.
    Forbidden,
    /// A password would cross the network for everybody to read.
    NotEncrypted,
}

impl AdminAccess {
    /// Nothing is remembered yet.
    pub fn new() -> AdminAccess {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the kernel gives random bytes");
        AdminAccess {
            secret,
            remembered: Mutex::default(),
        }
    }

    /// The decision where nothing has to be checked; none where a password or a token has (`check`).
    pub fn look(&self, server: &Server, header: Option<&str>, origin: Origin) -> Option<Verdict> {
        if !server.access.is_enabled() {
            return Some(Verdict::Granted(Who::Anybody));
        }
        let Some(header) = header.filter(|header| header.len() <= HEADER_BYTES_MAX) else {
            return Some(Verdict::Unknown);
        };
        let is_password = header.starts_with(BASIC);
        if !is_password && !header.starts_with(BEARER) {
            return Some(Verdict::Unknown);
        }
        if is_password && !origin.is_encrypted && !origin.address.to_canonical().is_loopback() {
            return Some(Verdict::NotEncrypted);
        }
        let who = self.remembered(server.access.generation(), &self.hash(header))?;
        who.may_come_from(origin).then_some(Verdict::Granted(who))
    }

    /// Whom a header says that it is of, for the waits of that user; none for a token, and for what cannot be read.
    pub fn name_in(header: &str) -> Option<Name> {
        let (user, _) = parse_basic(header)?;
        Some(Name::new(&user, "admin"))
    }

    fn check_token(
        &self,
        server: &Server,
        given: &str,
        origin: Origin,
        generation: u64,
    ) -> Verdict {
        let token = server.config.admin_token.as_ref();
        // Of equal length, so that the comparison tells nothing of it.
        let is_right = token.is_some_and(|token| {
            self.hash(token.as_str())
                .ct_eq(&self.hash(given.trim()))
                .into()
        });
        if !is_right {
            return refuse(server, origin, None, "a token");
        }
        match monitor(server) {
            Ok(user) => Verdict::Granted(Who::Token(Arc::new(user), generation)),
            Err(error) => {
                let reason = [("error", error.message.into())];
                log::warning("access", "the roles cannot be read", &reason);
                Verdict::Unknown
            }
        }
    }

    /// Checks the token or the password of a request, which was admitted (`attempts`). Takes milliseconds of a processor.
    pub fn check(&self, server: &Server, header: &str, origin: Origin) -> Verdict {
        // Before the user is read: what changes meanwhile makes what is remembered here worthless.
        let generation = server.access.generation();
        if let Some(given) = header.strip_prefix(BEARER) {
            let verdict = self.check_token(server, given, origin, generation);
            if let Verdict::Granted(who) = &verdict {
                self.remember(generation, self.hash(header), who.clone());
            }
            return verdict;
        }
        let Some((user, password)) = parse_basic(header) else {
            return refuse(server, origin, None, "a header that cannot be read");
        };
        let name = Name::new(&user, "admin");
        let iterations = |mechanism: Mechanism| server.parameters.scram_iterations(mechanism);
        let proven = server
            .access
            .check_password(&server.database, &name, &password, iterations);
        let user = match proven {
            Ok(Some(user)) => user,
            Ok(None) => return refuse(server, origin, Some(&name), &name.to_string()),
            Err(error) => {
                let reason = [("error", error.message.into())];
                log::warning("access", "a user of the admin port cannot be read", &reason);
                return Verdict::Unknown;
            }
        };
        server.access.attempts.succeed(origin.address, &name);
        let from = Ends {
            client: Some(origin.address),
            server: None,
        };
        if !user.may_come_by(from) {
            return refuse(server, origin, Some(&name), &name.to_string());
        }
        let needed = [Action::ServerStatus, Action::Top];
        if !needed
            .into_iter()
            .all(|action| user.may(action, Resource::Cluster))
        {
            return Verdict::Forbidden;
        }
        let who = Who::User(Arc::new(user), generation);
        self.remember(generation, self.hash(header), who.clone());
        Verdict::Granted(who)
    }

    fn hash(&self, text: &str) -> Vec<u8> {
        Mechanism::Sha256.hmac(&self.secret, text.as_bytes())
    }

    fn remembered(&self, generation: u64, hash: &[u8]) -> Option<Who> {
        let remembered = self.remembered.lock();
        if remembered.generation != generation {
            return None;
        }
        let mut headers = remembered.headers.iter();
        let found = headers.find(|(known, _)| bool::from(known.as_slice().ct_eq(hash)));
        found.map(|(_, who)| who.clone())
    }

    fn remember(&self, generation: u64, hash: Vec<u8>, who: Who) {
        let mut remembered = self.remembered.lock();
        if remembered.generation != generation || remembered.headers.len() >= REMEMBERED_MAX {
            *remembered = Remembered {
                generation,
                headers: Vec::new(),
            };
        }
        remembered.headers.push((hash, who));
    }
}

/// The user that the token stands for: of no database, with what the role of a monitor grants.
fn monitor(server: &Server) -> Result<User> {
    let reached = roles::reach(&server.database, &[Name::new("clusterMonitor", "admin")])?;
    Ok(User {
        name: Some(Name::new("token", "$console")),
        inherited_roles: reached.roles,
        privileges: reached.privileges,
        ..User::default()
    })
}

fn refuse(server: &Server, origin: Origin, user: Option<&Name>, who: &str) -> Verdict {
    let line = [
        ("client", log::Attribute::Owned(origin.address.to_string())),
        ("user", who.into()),
        ("mechanism", "HTTP".into()),
    ];
    log::info("access", "Authentication failed", &line);
    server.access.attempts.fail(origin.address, user);
    Verdict::Unknown
}

/// The user and the password of `Basic BASE64(user:password)`.
fn parse_basic(header: &str) -> Option<(String, String)> {
    let encoded = header.strip_prefix(BASIC)?.trim();
    let text = String::from_utf8(BASE64.decode(encoded).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_user_and_a_password_that_may_hold_a_colon() {
        let header = format!("Basic {}", BASE64.encode("mon:a:b"));
        assert_eq!(parse_basic(&header), Some(("mon".into(), "a:b".into())));
        for bad in ["Basic ", "Basic !!", "Basic bW9u", "Bearer bW9uOng="] {
            assert_eq!(parse_basic(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_was_right_is_remembered_until_something_changes() {
        let access = AdminAccess::new();
        let hash = access.hash("Basic x");
        let is_known = |generation, hash: &[u8]| access.remembered(generation, hash).is_some();
        assert!(!is_known(0, &hash));
        access.remember(3, hash.clone(), Who::Anybody);
        assert!(is_known(3, &hash) && !is_known(4, &hash));
        assert!(!is_known(3, &access.hash("Basic y")));
        for number in 0..2 * REMEMBERED_MAX {
            access.remember(3, access.hash(&number.to_string()), Who::Anybody);
        }
        assert!(access.remembered.lock().headers.len() <= REMEMBERED_MAX);
    }
}
