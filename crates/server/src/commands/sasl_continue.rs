//! `saslContinue`: the next message of a login that `saslStart` or a hello began.

use quarry_bson::DocumentBuilder;

use super::sasl_start::{append, ends, note_failure, note_success, payload, wait_as};
use crate::access::control::failed;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, number};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        number("conversationId").required(),
        any("payload").required(),
    ]),
    has_secrets: true,
    ..Command::new(
        "saslContinue",
        "goes on with a login",
        Requires::Nothing,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let conversation = invocation.required("conversationId")?.number()?;
    let conversation = i32::try_from(conversation)
        .map_err(|_| CommandError::bad_value("the conversationId is out of range"))?;
    let payload = payload(invocation.required("payload")?.value())?;
    let login = &invocation.connection.login;
    let attempts = &server.access.attempts;
    let wanted = {
        let login = login.lock();
        let pending = login.pending.as_ref();
        pending.map(|pending| (pending.name.clone(), pending.mechanism))
    };
    let name = wanted.as_ref().map(|(name, _)| name);
    let Some(admission) = attempts.admit(invocation.connection.peer.ip(), name) else {
        login.lock().pending = None;
        let why = "too many attempts of this address wait";
        note_failure(invocation, wanted.as_ref(), why);
        return Err(failed());
    };
    if !wait_as(&admission, invocation) {
        return Err(failed());
    }
    let mut who = None;
    let ends = ends(invocation);
    let gone_on = server.access.go_on(
        &server.database,
        login,
        conversation,
        &payload,
        ends,
        &mut who,
    );
    let step = match gone_on {
        Ok(step) => step,
        Err(error) => {
            note_failure(invocation, who.as_ref(), &error.message);
            return Err(error);
        }
    };
    if let Some((name, mechanism)) = who {
        note_success(invocation, &name, mechanism.name())?;
    }
    append(&step, reply);
    Ok(())
}
