//! The commands, one file each, and the table that finds them by name.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::dispatch::command::Command;

mod abort_transaction;
mod aggregate;
mod authenticate;
mod backup_cursor;
pub mod build_info;
mod bulk_operation;
mod bulk_replies;
mod bulk_write;
mod change_stream;
mod clone_collection_as_capped;
mod coll_mod;
mod coll_stats;
mod commit_transaction;
mod compact;
mod configure_fail_point;
mod conn_pool_stats;
mod connection_status;
mod convert_to_capped;
mod count;
mod create;
mod create_indexes;
mod create_role;
mod create_user;
mod current_op;
mod data_size;
mod db_hash;
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
mod encrypted_fields;
mod end_sessions;
mod explain;
mod explained_aggregate;
mod find;
mod find_and_modify;
mod first_batch;
mod flush_journal_archive;
mod fsync;
mod fsync_unlock;
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
mod index_stats;
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
mod lock_info;
mod log_application_message;
mod log_rotate;
mod logout;
mod named_sessions;
mod named_shape;
mod new_password;
mod open_transactions;
mod own_views;
mod ping;
mod plan_cache_clear;
mod plan_cache_clear_filters;
mod plan_cache_list_filters;
mod plan_cache_set_filter;
mod plan_cache_stats;
#[cfg(test)]
mod privileges_page;
mod profile;
mod query_settings;
mod query_shape;
mod query_shape_arguments;
mod query_stats;
mod re_index;
mod refresh_sessions;
mod remove_query_settings;
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
mod server_stages;
mod server_status;
mod set_cluster_parameter;
mod set_default_rw_concern;
mod set_feature_compatibility_version;
mod set_op_timing_enabled;
mod set_parameter;
mod set_query_settings;
mod shutdown;
mod stage_surroundings;
mod start_session;
mod statements;
mod test_api_versions;
mod top;
mod update;
mod update_role;
mod update_user;
mod users_info;
mod validate;
mod whats_my_uri;
pub mod write_errors;
pub mod writes;

pub use explain::explained_find;
pub use get_cmd_line_opts::options_document;
pub use hello::WRITE_BATCH_DOCUMENTS_MAX;
pub use log_rotate::rotate_all;

/// Every command, in the order of listCommands.
pub static COMMANDS: &[&Command] = &[
    &abort_transaction::COMMAND,
    &aggregate::COMMAND,
    &authenticate::COMMAND,
    &build_info::COMMAND,
    &bulk_write::COMMAND,
    &clone_collection_as_capped::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &commit_transaction::COMMAND,
    &compact::COMMAND,
    &configure_fail_point::COMMAND,
    &conn_pool_stats::COMMAND,
    &connection_status::COMMAND,
    &convert_to_capped::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &create_role::COMMAND,
    &create_user::COMMAND,
    &current_op::COMMAND,
    &data_size::COMMAND,
    &db_hash::COMMAND,
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
    &flush_journal_archive::COMMAND,
    &fsync::COMMAND,
    &fsync_unlock::COMMAND,
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
    &lock_info::COMMAND,
    &log_application_message::COMMAND,
    &logout::COMMAND,
    &log_rotate::COMMAND,
    &ping::COMMAND,
    &plan_cache_clear::COMMAND,
    &plan_cache_clear_filters::COMMAND,
    &plan_cache_list_filters::COMMAND,
    &plan_cache_set_filter::COMMAND,
    &profile::COMMAND,
    &refresh_sessions::COMMAND,
    &re_index::COMMAND,
    &remove_query_settings::COMMAND,
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
    &set_feature_compatibility_version::COMMAND,
    &set_op_timing_enabled::COMMAND,
    &set_parameter::COMMAND,
    &set_query_settings::COMMAND,
    &shutdown::COMMAND,
    &start_session::COMMAND,
    &test_api_versions::DEPRECATION,
    &test_api_versions::DEPRECATION_IN_VERSION_2,
    &test_api_versions::REMOVAL,
    &test_api_versions::VERSION_2,
    &test_api_versions::VERSIONS_1_AND_2,
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
    use quarry_bson::{Document, Value};

    use super::*;
    use crate::dispatch::api_parameters::ApiRules;
    use crate::dispatch::command::Generic;
    use crate::sessions::session::SessionId;

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

    /// The code of the error with which a command's fields are refused; none where they are taken.
    fn refused(command: &'static Command, fields: &[(&str, Value)]) -> Option<i32> {
        let body = Document::build(|body| {
            body.append(command.name, 1);
            for (name, value) in fields {
                body.append(*name, value);
            }
            body.append("$db", "admin");
        });
        let read = Generic::default().read(command, body.as_raw(), ApiRules::default());
        read.err().map(|error| error.code)
    }

    /// Whether nothing is wrong with the fields: a command that ends a transaction is refused outside of one.
    fn is_taken(code: Option<i32>) -> bool {
        matches!(code, None | Some(72))
    }

    #[test]
    fn every_field_of_every_command_is_typed_comes_once_and_may_be_null() {
        for &command in COMMANDS {
            let unknown = refused(command, &[("noSuchField", 1.into())]);
            let expected = (!command.fields.is_open()).then_some(40_415);
            assert_eq!(unknown, expected, "{}", command.name);
            for field in command.fields.list() {
                let shown = format!("{}.{}", command.name, field.name);
                let null = refused(command, &[(field.name, Value::null())]);
                if field.is_absent_where_null() {
                    assert!(is_taken(null), "{shown}: null is refused with {null:?}");
                    let odd = refused(command, &[(field.name, Value::min_key())]);
                    assert_eq!(odd, Some(14), "{shown}");
                }
                let example = || (field.name, field.example());
                let once = refused(command, &[example()]);
                if field.is_never_served() {
                    assert_eq!(once, Some(238), "{shown}");
                    continue;
                }
                assert!(is_taken(once), "{shown}: {once:?}");
                let twice = refused(command, &[example(), example()]);
                assert_eq!(twice, Some(40_413), "{shown}");
            }
        }
    }

    #[test]
    fn what_any_command_may_carry_comes_once_and_may_be_null() {
        let lsid = || Document::build(|out| SessionId::generate().append("lsid", out));
        let generic = |name: &'static str| {
            let value: Value = match name {
                "lsid" => lsid().get("lsid").map(Value::from).unwrap(),
                "apiVersion" => "1".into(),
                "$db" => "db".into(),
                "readConcern" | "$quarry" => Document::new().into(),
                _ => 1.into(),
            };
            (name, value)
        };
        let ping = find("ping").unwrap();
        for name in [
            "lsid",
            "maxTimeMS",
            "comment",
            "readConcern",
            "$quarry",
            "apiVersion",
        ] {
            assert_eq!(refused(ping, &[(name, Value::null())]), None, "{name}");
            assert_eq!(refused(ping, &[generic(name)]), None, "{name}");
            let twice = refused(ping, &[generic(name), generic(name)]);
            assert_eq!(twice, Some(40_413), "{name}");
        }
        assert_eq!(refused(ping, &[generic("$db")]), Some(40_413));
    }
}
