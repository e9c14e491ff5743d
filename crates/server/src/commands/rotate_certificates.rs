//! `rotateCertificates`: reads the files of TLS again, for the connections from now on.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, text};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[text("message")]),
    is_admin_only: true,
    ..Command::new(
        "rotateCertificates",
        "reads the certificates again",
        Requires::Each(&[need(Action::RotateCertificates, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let message = invocation.text("message")?.unwrap_or_default();
    let Some(certificates) = &invocation.server.certificates else {
        return Err(CommandError::new(
            ErrorCode::ILLEGAL_OPERATION,
            "this server has no certificates: net.tls.mode is disabled",
        ));
    };
    match certificates.rotate() {
        Ok(()) => {
            let line = [("message", message.into())];
            log::info("network", "certificates rotated", &line);
            Ok(())
        }
        Err(why) => {
            let line = [("message", message.into()), ("error", (&why).into())];
            log::error("network", "certificates not rotated", &line);
            Err(CommandError::new(ErrorCode::INVALID_SSL_CONFIGURATION, why))
        }
    }
}
