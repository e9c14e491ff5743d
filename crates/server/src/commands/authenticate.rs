//! `authenticate`: logs in by the certificate that the client has shown in the handshake of TLS (MONGODB-X509); the login of a
//! hello shares what is here.
//!
//! The certificate has to be good at this moment: a handshake may let in one that is not (`--tlsAllowInvalidCertificates`),
//! and one that was good may be expired or revoked by now.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_query::ErrorCode;

use super::sasl_start::{ends, note_failure, note_success};
use crate::access::name::{EXTERNAL, Name};
use crate::access::subject::Subject;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, text};
use crate::dispatch::privilege::Requires;

/// The one mechanism of this command.
pub const X509: &str = "MONGODB-X509";

pub static COMMAND: Command = Command {
    fields: Fields::named(&[text("mechanism"), text("user"), text("db").ignored()]),
    has_secrets: true,
    ..Command::new(
        "authenticate",
        "logs in by a certificate",
        Requires::Nothing,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let database = invocation.generic.database;
    let name = log_in(invocation, invocation.body, database, false)?;
    append(&name, reply);
    Ok(())
}

/// Logs in as `body` asks for, which is an `authenticate` of that database.
pub fn log_in(
    invocation: &Invocation<'_>,
    body: RawDocument<'_>,
    database: &str,
    is_speculative: bool,
) -> Result<Name> {
    let mechanism = body.get_str("mechanism").unwrap_or_default();
    if mechanism != X509 {
        let message =
            format!("Received authentication for mechanism {mechanism} which is not enabled");
        return Err(CommandError::new(ErrorCode::MECHANISM_UNAVAILABLE, message));
    }
    if database != EXTERNAL {
        return Err(CommandError::new(
            ErrorCode::PROTOCOL_ERROR,
            "X.509 authentication must always use the $external database.",
        ));
    }
    let access = &invocation.server.access;
    access.x509_logins.note_received(is_speculative);
    let proven = proven_name(invocation, body.get_str("user")).and_then(|name| {
        let login = &invocation.connection.login;
        let database = &invocation.server.database;
        access.log_in_external(database, login, &name, ends(invocation))?;
        Ok(name)
    });
    match proven {
        Ok(name) => {
            access.x509_logins.note_successful(is_speculative);
            note_success(invocation, &name, X509)?;
            Ok(name)
        }
        Err(error) => {
            // The client of a hello comes again with the command, and is told then.
            if !is_speculative {
                note_failure(invocation, None, &error.message);
            }
            Err(error)
        }
    }
}

/// Writes who has logged in.
pub fn append(name: &Name, reply: &mut DocumentBuilder<'_>) {
    reply.append("dbname", EXTERNAL);
    reply.append("user", name.name.as_str());
}

/// The user that the client's certificate names, which is the one that it says if it says one.
fn proven_name(invocation: &Invocation<'_>, said: Option<&str>) -> Result<Name> {
    let refused = |why: &str| CommandError::new(ErrorCode::AUTHENTICATION_FAILED, why);
    let encrypted = invocation.connection.transport.tls();
    let certificates = invocation.server.certificates.as_ref();
    let (Some(encrypted), Some(certificates)) = (encrypted, certificates) else {
        return Err(refused(
            "SSL support is required for the MONGODB-X509 mechanism.",
        ));
    };
    let shown = encrypted.client_certificates().unwrap_or_default();
    let subject = shown.first().and_then(|own| Subject::of(own));
    let subject = subject.filter(|subject| !subject.name.is_empty());
    let subject = subject.filter(|_| certificates.are_valid(&shown));
    let Some(subject) = subject else {
        return Err(refused("No verified subject name available from client"));
    };
    if said.is_some_and(|said| said != subject.name) {
        return Err(refused(
            "There is no x.509 client certificate matching the user.",
        ));
    }
    Ok(Name::new(&subject.name, EXTERNAL))
}
