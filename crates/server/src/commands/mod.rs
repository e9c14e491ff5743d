//! The commands, one file each, and the table that finds them by name.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::command::Command;

mod build_info;
mod connection_status;
mod current_op;
mod end_sessions;
mod fsync;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod get_parameter;
mod hello;
mod host_info;
mod kill_all_sessions;
mod kill_cursors;
mod kill_op;
mod kill_sessions;
mod list_commands;
mod log_rotate;
mod ping;
mod profile;
mod refresh_sessions;
mod server_status;
mod set_parameter;
mod shutdown;
mod start_session;
mod top;
mod whats_my_uri;

/// Every command, in the order of listCommands.
pub static COMMANDS: &[&Command] = &[
    &build_info::COMMAND,
    &connection_status::COMMAND,
    &current_op::COMMAND,
    &end_sessions::COMMAND,
    &fsync::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &get_log::COMMAND,
    &get_more::COMMAND,
    &get_parameter::COMMAND,
    &hello::COMMAND,
    &hello::IS_MASTER,
    &host_info::COMMAND,
    &kill_all_sessions::COMMAND,
    &kill_cursors::COMMAND,
    &kill_op::COMMAND,
    &kill_sessions::COMMAND,
    &list_commands::COMMAND,
    &log_rotate::COMMAND,
    &ping::COMMAND,
    &profile::COMMAND,
    &refresh_sessions::COMMAND,
    &server_status::COMMAND,
    &set_parameter::COMMAND,
    &shutdown::COMMAND,
    &start_session::COMMAND,
    &top::COMMAND,
    &whats_my_uri::COMMAND,
];

/// The command of that name or alias.
pub fn find(name: &str) -> Option<&'static Command> {
    static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Command>> = LazyLock::new(|| {
        let names = |command: &'static Command| {
            std::iter::once(command.name).chain(command.aliases.iter().copied())
        };
        COMMANDS
            .iter()
            .flat_map(|command| names(command).map(|name| (name, *command)))
            .collect()
    });
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<&str> = Vec::new();
        for command in COMMANDS {
            names.push(command.name);
            names.extend(command.aliases);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(find("ismaster").is_some_and(|command| command.name == "isMaster"));
    }
}
