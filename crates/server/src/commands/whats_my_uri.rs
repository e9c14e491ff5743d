//! `whatsmyuri`: the client's address as the server sees it.

use crate::dispatch::command::Command;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command::new(
    "whatsmyuri",
    "tells the client its own address",
    Requires::Nothing,
    |invocation, reply| {
        reply.append("you", invocation.connection.peer.to_string().as_str());
        Ok(())
    },
);
