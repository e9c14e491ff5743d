//! Commands reach documents and definitions through the seams of the server (`data.rs`, `catalog.rs`), so that something else
//! than the database of this process can answer them.

use xtask::style::Repository;

/// Commands that ask the database itself, and why.
const ASK_IT: &[(&str, &str)] = &[
    ("authenticate", "a login asks for users"),
    ("backup_cursor", "a copy is made of this node's files"),
    ("change_stream", "a stream is made of this node's journal"),
    ("commit_transaction", "a transaction is this node's"),
    ("connection_status", "users and roles: `access`"),
    ("create_role", "users and roles: `access`"),
    ("create_user", "users and roles: `access`"),
    ("current_op", "the lock of this node's files"),
    ("drop_all_roles_from_database", "users and roles: `access`"),
    ("drop_all_users_from_database", "users and roles: `access`"),
    ("drop_role", "users and roles: `access`"),
    ("drop_user", "users and roles: `access`"),
    ("flush_journal_archive", "the journal of this node"),
    ("fsync", "the lock of this node's files"),
    ("fsync_unlock", "the lock of this node's files"),
    ("get_cluster_parameter", "the parameters of this node's set"),
    ("grant_privileges_to_role", "users and roles: `access`"),
    ("grant_roles_to_role", "users and roles: `access`"),
    ("grant_roles_to_user", "users and roles: `access`"),
    ("hello", "the times of this node, and users"),
    ("kill_all_sessions_by_pattern", "users and roles: `access`"),
    ("own_views", "views of this node's journal and sessions"),
    ("profile", "the profiler is this node's"),
    (
        "remove_query_settings",
        "the settings of queries are this node's set's",
    ),
    ("repl_set_get_status", "the times of this node"),
    ("repl_set_reconfig", "the configuration of this node's set"),
    ("revoke_privileges_from_role", "users and roles: `access`"),
    ("revoke_roles_from_role", "users and roles: `access`"),
    ("revoke_roles_from_user", "users and roles: `access`"),
    ("roles_info", "users and roles: `access`"),
    ("sasl_continue", "a login asks for users"),
    ("sasl_start", "a login asks for users"),
    ("server_status", "the state of this node"),
    ("set_cluster_parameter", "the parameters of this node's set"),
    ("set_default_rw_concern", "the defaults of this node's set"),
    (
        "set_query_settings",
        "the settings of queries are this node's set's",
    ),
    ("update_role", "users and roles: `access`"),
    ("update_user", "users and roles: `access`"),
    ("users_info", "users and roles: `access`"),
];

const COMMANDS: &str = "crates/server/src/commands/";

#[test]
fn commands_on_data_do_not_name_the_database() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    let mut asking: Vec<&str> = Vec::new();
    for file in &repository.files {
        let Some(name) = file.path.strip_prefix(COMMANDS) else {
            continue;
        };
        let (code, _) = file
            .text
            .split_once("#[cfg(test)]")
            .unwrap_or((&file.text, ""));
        let code: String = code.split_whitespace().collect();
        if code.contains("server.database") {
            asking.push(name.trim_end_matches(".rs"));
        }
    }
    asking.sort_unstable();
    let expected: Vec<&str> = ASK_IT.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        asking, expected,
        "the list names those that ask, and nobody else"
    );
}

/// Each commit of the database goes one way, which counts it, names what it waited for and tells of a refusal.
#[test]
fn the_journal_has_one_caller() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    let submits = |text: &str| {
        let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((text, ""));
        code.contains(".submit(") || code.contains(".submit_syncing(")
    };
    let files = repository.files.iter();
    let users = files.filter(|file| {
        let users = [
            "crates/database/src/",
            "crates/query/src/",
            "crates/server/src/",
        ];
        users.iter().any(|user| file.path.starts_with(user)) && submits(&file.text)
    });
    let users: Vec<&str> = users.map(|file| file.path.as_str()).collect();
    assert_eq!(users, ["crates/database/src/commit/commits.rs"]);
}

/// The front of the database hands each call to the part that does it: it is to be seen at a glance.
#[test]
fn the_database_has_its_methods_in_four_files() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    let of_database = |path: &str| path.starts_with("crates/database/src/");
    let files = repository.files.iter();
    let files: Vec<&str> = files
        .filter(|file| of_database(&file.path) && file.text.contains("\nimpl Database {"))
        .map(|file| file.path.as_str())
        .collect();
    assert!((1..=4).contains(&files.len()), "{files:?}");
}
