//! `killAllSessionsByPattern`: like killSessions, over the sessions that one of several patterns names, by their id or their
//! user's digest. An empty pattern means all of them, and so does an empty list.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use crate::commands::kill_sessions::kill;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::{NamedSession, SessionId, Sessions};

pub static COMMAND: Command = Command::new(
    "killAllSessionsByPattern",
    "ends what the sessions are doing that patterns name",
    Requires::Each(&[need(Action::KillAnySession, On::Cluster)]),
    run,
);

/// The sessions that a pattern names.
enum Meant {
    All,
    One(SessionId),
    /// Those of a user.
    Of(SessionOwner),
    /// One that is another user's than the pattern says.
    None,
}

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::Array(patterns)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "BSON field 'killAllSessionsByPattern.killAllSessionsByPattern' is not an array",
        ));
    };
    let mut named = Vec::new();
    let mut all = patterns.is_empty();
    for pattern in patterns {
        let pattern = pattern.as_document().ok_or_else(|| {
            CommandError::type_mismatch(
                "each pattern of 'killAllSessionsByPattern' must be an object",
            )
        })?;
        match parse(pattern, &invocation.server.sessions)? {
            Meant::All => all = true,
            Meant::One(session) => named.push(session),
            Meant::Of(user) => named.extend(invocation.server.sessions.of(&[user])),
            Meant::None => {}
        }
    }
    if all {
        named.clear();
    }
    if all || !named.is_empty() {
        kill(invocation.server, named, invocation.generic.session);
    }
    Ok(())
}

fn parse(pattern: RawDocument<'_>, sessions: &Sessions) -> Result<Meant> {
    let mut meant = Meant::All;
    for field in pattern {
        let name = field.name();
        match (name.as_bytes(), field.value()) {
            (b"lsid", RawValue::Document(lsid)) => {
                let named = NamedSession::parse(lsid)?;
                let owner = sessions.owner(named.id).unwrap_or(SessionOwner::NOBODY);
                meant = match named.owner {
                    Some(uid) if uid != owner => Meant::None,
                    _ => Meant::One(named.id),
                };
            }
            (b"uid", uid) => meant = Meant::Of(SessionOwner::parse(uid)?),
            // Whom a router would act for. Nobody is between this server and its clients.
            (b"users" | b"roles", RawValue::Array(none)) if none.is_empty() => {}
            (b"users" | b"roles", RawValue::Array(_)) => {
                return Err(CommandError::not_supported(format_args!(
                    "the field '{name}' of a pattern"
                )));
            }
            _ => {
                return Err(CommandError::unknown_field(
                    "KillAllSessionsByPattern",
                    &name.to_string_lossy(),
                ));
            }
        }
    }
    Ok(meant)
}
