//! `whatsmyuri`: the client's address as the server sees it.

use crate::dispatch::command::Command;

pub static COMMAND: Command = Command::new(
    "whatsmyuri",
    "tells the client its own address",
    |invocation, reply| {
        reply.append("you", invocation.connection.peer.to_string().as_str());
        Ok(())
    },
);
