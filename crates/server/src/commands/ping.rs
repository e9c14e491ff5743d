//! `ping`: an empty answer.

use crate::dispatch::command::Command;

pub static COMMAND: Command = Command {
    is_in_api_1: true,
    ..Command::new("ping", "answers that the server is there", |_, _| Ok(()))
};
