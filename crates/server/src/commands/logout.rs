//! `logout`: the client is nobody again.

use crate::dispatch::command::Command;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command::new(
    "logout",
    "ends the login of this connection",
    Requires::Nothing,
    |invocation, _| {
        let connection = invocation.connection;
        let user = {
            let mut login = connection.login.lock();
            let user = login.user.take();
            login.forget();
            user
        };
        match (&invocation.server.audit, user) {
            (Some(audit), Some(user)) => {
                audit.note_logout(connection, &user, "The client logged out")
            }
            _ => Ok(()),
        }
    },
);
