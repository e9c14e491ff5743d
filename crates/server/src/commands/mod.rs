//! The commands, one file each, and the table that finds them by name.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::dispatch::command::Command;

mod abort_transaction;
mod aggregate;
mod build_info;
mod change_stream;
mod coll_mod;
mod coll_stats;
mod commit_transaction;
mod configure_fail_point;
mod connection_status;
mod count;
mod create;
mod create_indexes;
mod current_op;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod end_sessions;
mod explain;
mod find;
mod find_and_modify;
mod first_batch;
mod fsync;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod get_op_timing;
mod get_operation_timing_stats;
mod get_parameter;
mod hello;
mod host_info;
mod insert;
mod kill_all_sessions;
mod kill_cursors;
mod kill_op;
mod kill_sessions;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod list_sessions;
mod log_rotate;
mod oplog;
mod ping;
mod profile;
mod refresh_sessions;
mod rename_collection;
mod repl_set_get_config;
mod repl_set_get_status;
mod repl_set_initiate;
mod repl_set_reconfig;
mod repl_set_step_down;
mod reset_op_timing;
mod reset_operation_timing_stats;
mod server_status;
mod set_op_timing_enabled;
mod set_parameter;
mod shutdown;
mod start_session;
mod statements;
mod top;
mod update;
mod validate;
mod whats_my_uri;
pub mod write_errors;
pub mod writes;

pub use hello::WRITE_BATCH_DOCUMENTS_MAX;

/// Every command, in the order of listCommands.
pub static COMMANDS: &[&Command] = &[
    &abort_transaction::COMMAND,
    &aggregate::COMMAND,
    &build_info::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &commit_transaction::COMMAND,
    &configure_fail_point::COMMAND,
    &connection_status::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &current_op::COMMAND,
    &db_stats::COMMAND,
    &delete::COMMAND,
    &distinct::COMMAND,
    &drop::COMMAND,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &end_sessions::COMMAND,
    &explain::COMMAND,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &get_log::COMMAND,
    &get_more::COMMAND,
    &get_op_timing::COMMAND,
    &get_operation_timing_stats::COMMAND,
    &get_parameter::COMMAND,
    &hello::COMMAND,
    &hello::IS_MASTER,
    &host_info::COMMAND,
    &insert::COMMAND,
    &kill_all_sessions::COMMAND,
    &kill_cursors::COMMAND,
    &kill_op::COMMAND,
    &kill_sessions::COMMAND,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &log_rotate::COMMAND,
    &ping::COMMAND,
    &profile::COMMAND,
    &refresh_sessions::COMMAND,
    &rename_collection::COMMAND,
    &repl_set_get_config::COMMAND,
    &repl_set_get_status::COMMAND,
    &repl_set_initiate::COMMAND,
    &repl_set_reconfig::COMMAND,
    &repl_set_step_down::COMMAND,
    &reset_op_timing::COMMAND,
    &reset_operation_timing_stats::COMMAND,
    &server_status::COMMAND,
    &set_op_timing_enabled::COMMAND,
    &set_parameter::COMMAND,
    &shutdown::COMMAND,
    &start_session::COMMAND,
    &top::COMMAND,
    &update::COMMAND,
    &validate::COMMAND,
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
