//! The page `docs/privileges.md`: what each command needs of its user, made from the command table.

use std::fmt::Write as _;

use super::COMMANDS;
use crate::dispatch::privilege::{On, Requirement, Requires, When, Written};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/privileges.md");
/// Set to write the document anew.
const WRITE: &str = "QUARRY_WRITE_DOCS";

const HEAD: &str = "# Privileges\n\n\
    What each command needs of the user who runs it on a server with access control: MongoDB's actions, each on a resource. A command with\n\
    several needs all of them. *Nothing* can be run before a login; *a login* can be run by every user, and what stands behind it is\n\
    asked for by the command itself, of what it is about to do.\n\n\
    The page is made from the command table, against which every call is held (`crates/server/src/dispatch/access.rs`); a test keeps\n\
    the two alike. `tests/drivers/test_access.py` tries every command without a login and as a user who may read one collection.\n\n\
    | command | needs |\n|---|---|\n";

/// The needs that commands find out by themselves, beside those of their rows.
const ASKED_FOR: &[(&str, &str)] = &[
    ("abortTransaction", "the session is the user's own"),
    (
        "bulkWrite",
        "`insert`, `update`, `remove` on each collection that its operations write, `insert` for upserts, `bypassDocumentValidation` where it is asked for",
    ),
    ("commitTransaction", "the session is the user's own"),
    ("configureFailPoint", "the server was started for tests"),
    (
        "createRole",
        "`grantRole` on the database of each role and privilege that it gives, `setAuthenticationRestriction` for restrictions",
    ),
    (
        "createUser",
        "`grantRole` on the database of each role, `setAuthenticationRestriction` for restrictions",
    ),
    ("endSessions", "sessions of others are passed over"),
    (
        "getMore",
        "the cursor is the user's own, and what its command needed is needed again",
    ),
    (
        "grantPrivilegesToRole",
        "`grantRole` on the database of each privilege",
    ),
    (
        "grantRolesToRole",
        "`grantRole` on the database of each role",
    ),
    (
        "grantRolesToUser",
        "`grantRole` on the database of each role",
    ),
    (
        "killCursors",
        "a cursor of the user's own, or `killCursors` on its collection, or `killAnyCursor` on the cluster",
    ),
    (
        "killOp",
        "an operation of the user's own, or `killop` on the cluster",
    ),
    (
        "killSessions",
        "a session of the user's own, or `killAnySession` on the cluster",
    ),
    (
        "listCollections",
        "`listCollections` on its database; with `nameOnly` and `authorizedCollections` nothing: the user's own are listed",
    ),
    ("refreshSessions", "sessions of others are passed over"),
    (
        "renameCollection",
        "`find` on the collection, where the user may `find` under the new name; `insert` and `dropCollection` on each `system.*` name",
    ),
    (
        "revokePrivilegesFromRole",
        "`revokeRole` on the database of each privilege",
    ),
    (
        "revokeRolesFromRole",
        "`revokeRole` on the database of each role",
    ),
    (
        "revokeRolesFromUser",
        "`revokeRole` on the database of each role",
    ),
    (
        "rolesInfo",
        "a role that the user has, or `viewRole` on the database of each role",
    ),
    ("startSession", ""),
    ("testDeprecation", "the server was started for tests"),
    (
        "testDeprecationInVersion2",
        "the server was started for tests",
    ),
    ("testRemoval", "the server was started for tests"),
    ("testVersion2", "the server was started for tests"),
    ("testVersions1And2", "the server was started for tests"),
    (
        "updateRole",
        "`revokeRole` on all databases, and `grantRole` on the database of each role and privilege that it gives",
    ),
    (
        "updateUser",
        "`changePassword` or `changeOwnPassword`, `changeCustomData` or `changeOwnCustomData`, `revokeRole` on all databases and `grantRole` for roles, `setAuthenticationRestriction` for restrictions",
    ),
    (
        "usersInfo",
        "the user itself, or `viewUser` on the database of each user; on the cluster for all databases",
    ),
];

fn page() -> String {
    let mut text = String::from(HEAD);
    for command in COMMANDS {
        let asked = ASKED_FOR.iter().find(|(name, _)| *name == command.name);
        let asked = asked.map(|(_, asked)| *asked);
        let needs = match command.requires {
            Requires::Nothing => "*nothing*".to_owned(),
            Requires::Login => {
                let asked = asked.unwrap_or_else(|| {
                    panic!(
                        "`{}` needs a login: say what more it asks for",
                        command.name
                    )
                });
                match asked.is_empty() {
                    true => "*a login*".to_owned(),
                    false => format!("*a login*: {asked}"),
                }
            }
            Requires::Each(requirements) => {
                let each = requirements.iter().map(requirement);
                let each: Vec<String> = each.chain(asked.map(str::to_owned)).collect();
                each.join("; ")
            }
            Requires::WhatItExplains => "what the explained command needs".to_owned(),
        };
        let _ = writeln!(text, "| `{}` | {needs} |", command.name);
    }
    text
}

fn requirement(needed: &Requirement) -> String {
    let (action, on) = (needed.action.name(), on(needed.on));
    match when(needed.when) {
        None => format!("`{action}` on {on}"),
        Some(when) => format!("`{action}` on {on} {when}"),
    }
}

fn on(on: On) -> String {
    match on {
        On::Cluster => "the cluster".into(),
        On::Database => "its database".into(),
        On::Collection => "its collection".into(),
        On::AllDatabases => "all databases".into(),
        On::DatabaseIn(field) => format!("the database in `{field}`"),
        On::CollectionIn(field) => format!("the collection in `{field}`"),
        On::CollectionNamed(field) => format!("the collection in `{field}`, where it is given"),
        On::CollectionsOfStages => "each collection that its stages read".into(),
        On::CollectionsWritten(how) => {
            let how = match how {
                Written::Inserts => "insert into",
                Written::Updates => "change",
                Written::Removes => "remove from",
                Written::InAnyWay => "write",
            };
            format!("each collection that its stages {how}")
        }
    }
}

fn when(when: When) -> Option<String> {
    match when {
        When::Always => None,
        When::Field(field) => Some(format!("with `{field}`")),
        When::Without(field) => Some(format!("without `{field}`")),
        When::Denied(field) => Some(format!("with `{field}: false`")),
        When::Statement { list, field } => Some(format!("with `{field}` in one of `{list}`")),
        When::FirstStage(stage) => Some(format!("where `{stage}` comes first")),
        When::FirstStageWith { stage, option } => {
            Some(format!("where `{stage}` with `{option}` comes first"))
        }
        When::OtherFirstStage(stages) => {
            let stages: Vec<String> = stages.iter().map(|name| format!("`{name}`")).collect();
            Some(format!("unless one of {} comes first", stages.join(", ")))
        }
    }
}

#[test]
fn the_page_shows_the_table() {
    let wanted = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(DOCUMENT, &wanted).unwrap();
    }
    let shown = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(
        shown == wanted,
        "docs/privileges.md is not what the table says: run this test with {WRITE}=1"
    );
    for (name, _) in ASKED_FOR {
        assert!(super::find(name).is_some(), "{name}");
    }
}
