//! The password of `createUser` and `updateUser`, and the credentials that are kept of it.

use quarry_bson::{Document, doc};

use crate::access::credentials::{Credentials, Mechanism};
use crate::access::name::Name;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};

/// The mechanisms that the command names; none where it names none.
pub fn mechanisms(invocation: &Invocation<'_>) -> Result<Option<Vec<Mechanism>>> {
    let Some(argument) = invocation
        .argument("mechanisms")
        .filter(|argument| !argument.is_absent())
    else {
        return Ok(None);
    };
    let mut mechanisms = Vec::new();
    for value in argument.array()? {
        let name = value.as_str().unwrap_or_default();
        let mechanism = Mechanism::named(name)
            .ok_or_else(|| CommandError::bad_value(format!("Unknown auth mechanism '{name}'")))?;
        if mechanisms.contains(&mechanism) {
            return Err(CommandError::bad_value("Duplicate auth mechanism"));
        }
        mechanisms.push(mechanism);
    }
    if mechanisms.is_empty() {
        return Err(CommandError::bad_value(
            "mechanisms field must not be empty",
        ));
    }
    Ok(Some(mechanisms))
}

/// The credentials of a user of `$external`, which say that they are kept elsewhere. A command that gives a password for it, or
/// mechanisms of one, is refused.
pub fn of_external(invocation: &Invocation<'_>) -> Result<Document> {
    if invocation.text("pwd")?.is_some() {
        return Err(CommandError::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        ));
    }
    if mechanisms(invocation)?.is_some() {
        return Err(CommandError::bad_value(
            "Cannot set mechanisms for users defined on the '$external' database",
        ));
    }
    Ok(doc! { "external": true })
}

/// The credentials of the password that the command gives; none where it gives none.
pub fn credentials(
    invocation: &Invocation<'_>,
    name: &Name,
    mechanisms: Option<&[Mechanism]>,
) -> Result<Option<Document>> {
    let digest = invocation.argument("digestPassword");
    let digest = digest.map_or(Ok(None), |argument| argument.optional(Argument::flag))?;
    let Some(password) = invocation.text("pwd")? else {
        return Ok(None);
    };
    let parameters = &invocation.server.parameters;
    let mechanisms = mechanisms.unwrap_or(&Mechanism::ALL);
    if digest == Some(false) {
        if mechanisms.contains(&Mechanism::Sha256) {
            return Err(CommandError::bad_value(
                "Use of SCRAM-SHA-256 requires undigested passwords",
            ));
        }
        let count = parameters.scram_iterations(Mechanism::Sha1);
        let made = Credentials::of_digest(password, count)?;
        let mut credentials = Document::new();
        credentials.append(Mechanism::Sha1.name(), made.document());
        return Ok(Some(credentials));
    }
    of_password(name, password, mechanisms, &|mechanism| {
        parameters.scram_iterations(mechanism)
    })
    .map(Some)
}

/// The field `credentials` of a user with that password.
pub fn of_password(
    name: &Name,
    password: &str,
    mechanisms: &[Mechanism],
    iterations: &dyn Fn(Mechanism) -> u32,
) -> Result<Document> {
    let mut credentials = Document::new();
    for mechanism in mechanisms {
        let count = iterations(*mechanism);
        let made = Credentials::of_password(*mechanism, &name.name, password, count)?;
        credentials.append(mechanism.name(), made.document());
    }
    Ok(credentials)
}
