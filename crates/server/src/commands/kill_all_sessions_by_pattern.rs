//! `killAllSessionsByPattern`: like killSessions, over the sessions that one of several patterns names: by their id, by the digest or
//! the name of their user, or by roles that were granted to that. A pattern with several of these means the sessions that suit them
//! all. An empty pattern means all sessions, and so does an empty list.
//!
//! So says MongoDB's manual. Its server takes `users` and `roles` for those whom a router acts for, and ends all sessions by a
//! pattern that has nothing else.

use std::collections::HashSet;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_database::Database;

use crate::access::name::{Kind, Name};
use crate::access::store;
use crate::commands::kill_sessions::kill;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requirement, Requires, When, need, need_when};
use crate::server::Server;
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::{NamedSession, SessionId, Sessions};

const NAME: &str = "killAllSessionsByPattern";

pub static COMMAND: Command = Command::new(
    NAME,
    "ends what the sessions are doing that patterns name",
    Requires::Each(&[
        need(Action::KillAnySession, On::Cluster),
        impersonate_with("users"),
        impersonate_with("roles"),
    ]),
    run,
);

/// Declares the privilege that a pattern with the field needs.
const fn impersonate_with(field: &'static str) -> Requirement {
    let when = When::Statement { list: NAME, field };
    need_when(Action::Impersonate, On::Cluster, when)
}

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::Array(patterns)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "BSON field 'killAllSessionsByPattern.killAllSessionsByPattern' is not an array",
        ));
    };
    let server = invocation.server;
    let mut named = Vec::new();
    let mut all = patterns.is_empty();
    for pattern in patterns {
        let pattern = pattern.as_document().ok_or_else(|| {
            CommandError::type_mismatch(
                "each pattern of 'killAllSessionsByPattern' must be an object",
            )
        })?;
        match Pattern::parse(pattern, server)?.sessions(&server.sessions) {
            Some(sessions) => named.extend(sessions),
            None => all = true,
        }
    }
    if all {
        named.clear();
    }
    if all || !named.is_empty() {
        kill(server, named, invocation.generic.session);
    }
    Ok(())
}

/// One pattern.
#[derive(Default)]
struct Pattern {
    session: Option<SessionId>,
    /// The users whose sessions suit it; those of any user do where it names none.
    owners: Option<HashSet<SessionOwner>>,
}

impl Pattern {
    fn parse(pattern: RawDocument<'_>, server: &Server) -> Result<Pattern> {
        let mut parsed = Pattern::default();
        for field in pattern {
            let name = field.name();
            match (name.as_bytes(), field.value()) {
                (b"lsid", RawValue::Document(lsid)) => {
                    let named = NamedSession::parse(lsid)?;
                    parsed.session = Some(named.id);
                    if let Some(owner) = named.owner {
                        parsed.keep_to(HashSet::from([owner]));
                    }
                }
                (b"uid", uid) => parsed.keep_to(HashSet::from([SessionOwner::parse(uid)?])),
                (b"users" | b"roles", RawValue::Array(none)) if none.is_empty() => {}
                (b"users", RawValue::Array(users)) => {
                    let users = users.iter().map(SessionOwner::parse_user);
                    parsed.keep_to(users.collect::<Result<_>>()?);
                }
                (b"roles", RawValue::Array(roles)) => {
                    parsed.keep_to(holders(&server.database, roles)?);
                }
                _ => {
                    return Err(CommandError::unknown_field(
                        "KillAllSessionsByPattern",
                        &name.to_string_lossy(),
                    ));
                }
            }
        }
        Ok(parsed)
    }

    /// Leaves no sessions but those of these users.
    fn keep_to(&mut self, owners: HashSet<SessionOwner>) {
        match &mut self.owners {
            Some(kept) => kept.retain(|owner| owners.contains(owner)),
            None => self.owners = Some(owners),
        }
    }

    /// The sessions that suit it; none where it means all of them.
    fn sessions(&self, sessions: &Sessions) -> Option<Vec<SessionId>> {
        let Some(session) = self.session else {
            return self.owners.as_ref().map(|owners| sessions.of(owners));
        };
        let owner = sessions.owner(session).unwrap_or(SessionOwner::NOBODY);
        let suits = (self.owners.as_ref()).is_none_or(|owners| owners.contains(&owner));
        Some(suits.then_some(session).into_iter().collect())
    }
}

/// The users to whom one of the roles was granted. A role that a user has by another one was not granted to it.
fn holders(database: &Database, roles: RawArray<'_>) -> Result<HashSet<SessionOwner>> {
    let meant: HashSet<Name> = roles.iter().map(role).collect::<Result<_>>()?;
    let is_meant = |granted: RawValue<'_>| {
        let name = Name::parse(Kind::Role, granted, "");
        name.is_ok_and(|name| meant.contains(&name))
    };
    let has_one = |user: &&Document| {
        let granted = user.get_array("roles");
        granted.is_some_and(|granted| granted.iter().any(is_meant))
    };
    let users = store::find(database, Kind::User, RawDocument::EMPTY)?;
    let names = (users.iter().filter(has_one)).filter_map(|user| store::name_of(Kind::User, user));
    Ok(names.map(|name| SessionOwner::of(&name)).collect())
}

/// Reads `{role: "name", db: "database"}`.
fn role(value: RawValue<'_>) -> Result<Name> {
    let names_database = |role: RawDocument<'_>| role.get_str("db").is_some();
    if !value.as_document().is_some_and(names_database) {
        let message = "each role must be an object with the fields 'role' and 'db'";
        return Err(CommandError::type_mismatch(message));
    }
    Name::parse(Kind::Role, value, "")
}
