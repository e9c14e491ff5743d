//! `logout`: the client is nobody again.

use crate::dispatch::command::Command;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command::new(
    "logout",
    "ends the login of this connection",
    Requires::Nothing,
    |invocation, _| {
        invocation.connection.login.lock().forget();
        Ok(())
    },
);
