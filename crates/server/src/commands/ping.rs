//! `ping`: an empty answer.

use crate::dispatch::command::Command;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    is_in_api_1: true,
    ..Command::new(
        "ping",
        "answers that the server is there",
        Requires::Nothing,
        |_, _| Ok(()),
    )
};
