//! The commands, one file each, and the table that finds them by name.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::dispatch::command::Command;

mod abort_transaction;
mod aggregate;
mod authenticate;
pub mod build_info;
mod bulk_operation;
mod bulk_replies;
mod bulk_write;
mod change_stream;
mod coll_mod;
mod coll_stats;
mod commit_transaction;
mod configure_fail_point;
mod connection_status;
mod count;
mod create;
mod create_indexes;
mod create_role;
mod create_user;
mod current_op;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_all_roles_from_database;
mod drop_all_users_from_database;
mod drop_database;
mod drop_indexes;
mod drop_role;
mod drop_user;
mod end_sessions;
mod explain;
mod find;
mod find_and_modify;
mod first_batch;
mod fsync;
mod get_cluster_parameter;
mod get_cmd_line_opts;
mod get_default_rw_concern;
mod get_log;
mod get_more;
mod get_op_timing;
mod get_operation_timing_stats;
mod get_parameter;
mod grant_privileges_to_role;
mod grant_roles_to_role;
mod grant_roles_to_user;
mod hello;
mod host_info;
mod insert;
mod invalidate_user_cache;
mod kill_all_sessions;
mod kill_all_sessions_by_pattern;
mod kill_cursors;
mod kill_op;
mod kill_sessions;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod list_sessions;
mod log_rotate;
mod logout;
mod new_password;
mod own_views;
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
mod revoke_privileges_from_role;
mod revoke_roles_from_role;
mod revoke_roles_from_user;
mod roles_info;
mod rotate_certificates;
mod sasl_continue;
mod sasl_start;
mod server_status;
mod set_cluster_parameter;
mod set_default_rw_concern;
mod set_op_timing_enabled;
mod set_parameter;
mod shutdown;
mod start_session;
mod statements;
mod top;
mod update;
mod update_role;
mod update_user;
mod users_info;
mod validate;
mod whats_my_uri;
pub mod write_errors;
pub mod writes;

pub use hello::WRITE_BATCH_DOCUMENTS_MAX;

/// Every command, in the order of listCommands.
pub static COMMANDS: &[&Command] = &[
    &abort_transaction::COMMAND,
    &aggregate::COMMAND,
    &authenticate::COMMAND,
    &build_info::COMMAND,
    &bulk_write::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &commit_transaction::COMMAND,
    &configure_fail_point::COMMAND,
    &connection_status::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &create_role::COMMAND,
    &create_user::COMMAND,
    &current_op::COMMAND,
    &db_stats::COMMAND,
    &delete::COMMAND,
    &distinct::COMMAND,
    &drop::COMMAND,
    &drop_all_roles_from_database::COMMAND,
    &drop_all_users_from_database::COMMAND,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &drop_role::COMMAND,
    &drop_user::COMMAND,
    &end_sessions::COMMAND,
    &explain::COMMAND,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &get_cluster_parameter::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &get_default_rw_concern::COMMAND,
    &get_log::COMMAND,
    &get_more::COMMAND,
    &get_operation_timing_stats::COMMAND,
    &get_op_timing::COMMAND,
    &get_parameter::COMMAND,
    &grant_privileges_to_role::COMMAND,
    &grant_roles_to_role::COMMAND,
    &grant_roles_to_user::COMMAND,
    &hello::COMMAND,
    &hello::IS_MASTER,
    &host_info::COMMAND,
    &insert::COMMAND,
    &invalidate_user_cache::COMMAND,
    &kill_all_sessions::COMMAND,
    &kill_all_sessions_by_pattern::COMMAND,
    &kill_cursors::COMMAND,
    &kill_op::COMMAND,
    &kill_sessions::COMMAND,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &logout::COMMAND,
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
    &reset_operation_timing_stats::COMMAND,
    &reset_op_timing::COMMAND,
    &revoke_privileges_from_role::COMMAND,
    &revoke_roles_from_role::COMMAND,
    &revoke_roles_from_user::COMMAND,
    &roles_info::COMMAND,
    &rotate_certificates::COMMAND,
    &sasl_continue::COMMAND,
    &sasl_start::COMMAND,
    &server_status::COMMAND,
    &set_cluster_parameter::COMMAND,
    &set_default_rw_concern::COMMAND,
    &set_op_timing_enabled::COMMAND,
    &set_parameter::COMMAND,
    &shutdown::COMMAND,
    &start_session::COMMAND,
    &top::COMMAND,
    &update::COMMAND,
    &update_role::COMMAND,
    &update_user::COMMAND,
    &users_info::COMMAND,
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
