//! Whether the user of a connection may run a command: what its row declares, held against what the user is granted.

use quarry_bson::RawDocument;
use quarry_query::ErrorCode;
use quarry_wire::DocumentSequence;

use crate::access::user::User;
use crate::commands;
use crate::dispatch::call::Call;
use crate::dispatch::command::{Command, refusal};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::Requires;
use crate::observe::log;

/// An explain within an explain is none of the commands that are explained.
const EXPLAINS_MAX: usize = 1;

/// Refuses a call that its user is not authorized for. Without a user, which is always so without access control, this
/// is one comparison.
#[inline]
pub fn check(
    user: Option<&User>,
    command: &Command,
    call: &Call<'_>,
    database: &str,
    collection: &str,
) -> Result<()> {
    let Some(user) = user else {
        return Ok(());
    };
    if !user.is_known() && !matches!(command.requires, Requires::Nothing) {
        let message = format!("Command {} requires authentication", command.name);
        return Err(CommandError::new(ErrorCode::UNAUTHORIZED, message));
    }
    let asked = Asked {
        command,
        body: call.body,
        sequences: call.sequences,
        database,
        collection,
    };
    if is_permitted(user, &asked, EXPLAINS_MAX) {
        return Ok(());
    }
    Err(refusal(command, call.body, database))
}

/// A command that is to be permitted: a call's own, or the one that it explains.
struct Asked<'a> {
    command: &'a Command,
    body: RawDocument<'a>,
    sequences: &'a [DocumentSequence<'a>],
    database: &'a str,
    collection: &'a str,
}

fn is_permitted(user: &User, asked: &Asked<'_>, explains_left: usize) -> bool {
    match asked.command.requires {
        Requires::Nothing | Requires::Login => true,
        Requires::Each(requirements) => {
            let missing = requirements.iter().find(|requirement| {
                let may = |resource| user.may(requirement.action, resource);
                let resources =
                    || requirement.resources(asked.body, asked.database, asked.collection);
                requirement.applies(asked.body, asked.sequences)
                    && !resources().into_iter().all(may)
            });
            if let Some(missing) = missing {
                let line = [
                    ("command", asked.command.name.into()),
                    ("db", asked.database.into()),
                    ("action", missing.action.name().into()),
                ];
                log::info("access", "not authorized", &line);
            }
            missing.is_none()
        }
        Requires::WhatItExplains => {
            explains_left > 0
                && explained(asked)
                    .is_some_and(|inner| is_permitted(user, &inner, explains_left - 1))
        }
    }
}

/// The command that an explain holds; none for something that cannot be explained, which nobody may do.
fn explained<'a>(asked: &Asked<'a>) -> Option<Asked<'a>> {
    let body = asked.body.first()?.value().as_document()?;
    let first = body.first()?;
    Some(Asked {
        command: commands::find(first.name().as_str().ok()?)?,
        body,
        sequences: &[],
        database: asked.database,
        collection: first.value().as_str().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;
    use crate::access::action::{Action, ActionSet};
    use crate::access::name::Name;
    use crate::access::resource::{Pattern, Privilege, Resource};
    use crate::dispatch::transaction_arguments::SessionUse;

    /// The manual's "Privilege Actions", without those of sharding and free monitoring.
    const DOCUMENTED: &[&str] = &[
        "find",
        "insert",
        "remove",
        "update",
        "bypassDocumentValidation",
        "useUUID",
        "changeCustomData",
        "changeOwnCustomData",
        "changeOwnPassword",
        "changePassword",
        "createCollection",
        "createIndex",
        "createRole",
        "createUser",
        "dropCollection",
        "dropRole",
        "dropUser",
        "enableProfiler",
        "grantRole",
        "killCursors",
        "killAnyCursor",
        "planCacheIndexFilter",
        "revokeRole",
        "setAuthenticationRestriction",
        "setFeatureCompatibilityVersion",
        "unlock",
        "viewRole",
        "viewUser",
        "authSchemaUpgrade",
        "cleanupOrphaned",
        "inprog",
        "invalidateUserCache",
        "killop",
        "planCacheRead",
        "planCacheWrite",
        "storageDetails",
        "changeStream",
        "applicationMessage",
        "bypassWriteBlockingMode",
        "closeAllDatabases",
        "collMod",
        "compact",
        "connPoolSync",
        "convertToCapped",
        "dropConnections",
        "dropDatabase",
        "dropIndex",
        "forceUUID",
        "fsync",
        "getClusterParameter",
        "getDefaultRWConcern",
        "getParameter",
        "hostInfo",
        "logRotate",
        "reIndex",
        "renameCollectionSameDB",
        "replSetConfigure",
        "replSetGetConfig",
        "replSetGetStatus",
        "replSetHeartbeat",
        "replSetStateChange",
        "resync",
        "appendOplogNote",
        "rotateCertificates",
        "setClusterParameter",
        "setDefaultRWConcern",
        "setParameter",
        "setUserWriteBlockMode",
        "shutdown",
        "touch",
        "impersonate",
        "listSessions",
        "killAnySession",
        "analyze",
        "collStats",
        "connPoolStats",
        "cursorInfo",
        "dbHash",
        "dbStats",
        "diagLogging",
        "getCmdLineOpts",
        "getLog",
        "indexStats",
        "listDatabases",
        "listCollections",
        "listIndexes",
        "netstat",
        "operationMetrics",
        "querySettings",
        "queryStatsRead",
        "serverStatus",
        "top",
        "validate",
        "anyAction",
        "internal",
    ];

    fn user(granted: &[(&str, &str, &[Action])]) -> User {
        let privilege = |(database, collection, actions): &(&str, &str, &[Action])| Privilege {
            pattern: match *database {
                "cluster" => Pattern::Cluster,
                database => Pattern::of(database, collection),
            },
            actions: ActionSet::of(actions),
        };
        User {
            name: Some(Name::new("tester", "db")),
            privileges: granted.iter().map(privilege).collect(),
            ..User::default()
        }
    }

    fn error_of(user: Option<&User>, body: &Document, collection: &str) -> Option<CommandError> {
        let call = Call::of(body.as_raw());
        let command = commands::find(body.iter().next().unwrap().name().as_str().unwrap()).unwrap();
        check(user, command, &call, "db", collection).err()
    }

    #[test]
    fn every_command_declares_what_it_needs_in_documented_words() {
        for command in commands::COMMANDS {
            if let Requires::Each(requirements) = command.requires {
                assert!(!requirements.is_empty(), "{}", command.name);
                for requirement in requirements {
                    let name = requirement.action.name();
                    assert!(DOCUMENTED.contains(&name), "{}: {name}", command.name);
                }
            }
        }
        // A command that reads or changes data needs something; the end of a transaction needs nothing beyond what its
        // commands needed. Those that change users and roles find out what they need from what they are to change, and
        // bulkWrite from what it does to each collection.
        const ASK_THEMSELVES: &[&str] = &[
            "bulkWrite",
            "grantPrivilegesToRole",
            "grantRolesToRole",
            "grantRolesToUser",
            "revokePrivilegesFromRole",
            "revokeRolesFromRole",
            "revokeRolesFromUser",
            "updateRole",
            "updateUser",
        ];
        for command in commands::COMMANDS.iter().filter(|command| {
            command.takes_write_concern && command.session_use != SessionUse::EndsTransaction
        }) {
            assert!(
                matches!(command.requires, Requires::Each(_))
                    || ASK_THEMSELVES.contains(&command.name),
                "{}",
                command.name
            );
        }
        for command in commands::COMMANDS
            .iter()
            .filter(|command| command.takes_read_concern)
        {
            assert!(
                !matches!(command.requires, Requires::Nothing),
                "{}",
                command.name
            );
        }
    }

    /// Walks the whole table: nobody, a user without a privilege, one with exactly those that the row asks for, and one
    /// that lacks a single one of them.
    #[test]
    fn every_command_asks_for_exactly_what_its_row_says() {
        let mut checked = 0;
        for command in commands::COMMANDS {
            let body = doc! { (command.name): "db.c", "to": "db.t", "pipeline": [] };
            let may = |user: &User| error_of(Some(user), &body, "c").is_none();
            let stranger = User::nobody();
            let newcomer = user(&[]);
            match command.requires {
                Requires::Nothing => assert!(may(&stranger), "{}", command.name),
                Requires::Login => assert!(!may(&stranger) && may(&newcomer), "{}", command.name),
                Requires::WhatItExplains => assert!(!may(&stranger) && !may(&newcomer)),
                Requires::Each(requirements) => {
                    assert!(!may(&stranger), "{}", command.name);
                    let needed: Vec<Privilege> = requirements
                        .iter()
                        .filter(|requirement| requirement.applies(body.as_raw(), &[]))
                        .flat_map(|requirement| {
                            let resources = requirement.resources(body.as_raw(), "db", "c");
                            resources.into_iter().map(|resource| Privilege {
                                pattern: match resource {
                                    Resource::Cluster => Pattern::Cluster,
                                    Resource::Database(database) => Pattern::of(database, ""),
                                    Resource::Collection(database, name) => {
                                        Pattern::of(database, name)
                                    }
                                },
                                actions: ActionSet::of(&[requirement.action]),
                            })
                        })
                        .collect();
                    let with = |privileges: Vec<Privilege>| User {
                        privileges,
                        ..user(&[])
                    };
                    assert!(may(&with(needed.clone())), "{}", command.name);
                    for left_out in 0..needed.len() {
                        let mut fewer = needed.clone();
                        let lacking = fewer.remove(left_out);
                        assert!(
                            fewer.contains(&lacking) || !may(&with(fewer)),
                            "{}",
                            command.name
                        );
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked >= 30, "{checked}");
    }

    #[test]
    fn without_access_control_everybody_may_do_everything() {
        for body in [
            doc! { "shutdown": 1 },
            doc! { "find": "system.users" },
            doc! { "explain": 1 },
        ] {
            assert!(error_of(None, &body, "").is_none(), "{body}");
        }
    }

    #[test]
    fn a_user_may_do_what_a_pattern_covers() {
        let reader = user(&[("db", "", &[Action::Find]), ("", "log", &[Action::Insert])]);
        let may = |body: Document, collection| error_of(Some(&reader), &body, collection).is_none();
        assert!(may(doc! { "find": "things" }, "things"));
        assert!(!may(doc! { "find": "system.users" }, "system.users"));
        assert!(!may(doc! { "insert": "things" }, "things"));
        assert!(may(doc! { "insert": "log" }, "log"));
        assert!(!may(
            doc! { "insert": "log", "bypassDocumentValidation": true },
            "log"
        ));
        assert!(!may(doc! { "serverStatus": 1 }, ""));
        assert!(may(doc! { "ping": 1 }, ""));
        assert!(may(doc! { "explain": { "find": "things" } }, ""));
        assert!(!may(doc! { "explain": { "delete": "things" } }, ""));
        assert!(!may(
            doc! { "explain": { "explain": { "find": "things" } } },
            ""
        ));
        let error = error_of(Some(&reader), &doc! { "delete": "things" }, "things").unwrap();
        assert_eq!(error.code, 13);
        assert_eq!(
            error.message,
            "not authorized on db to execute command { delete: 'things' }"
        );
        let operator = user(&[("cluster", "", &[Action::ServerStatus])]);
        assert!(error_of(Some(&operator), &doc! { "serverStatus": 1 }, "").is_none());
        assert!(error_of(Some(&operator), &doc! { "find": "things" }, "things").is_some());
    }

    #[test]
    fn arguments_ask_for_more() {
        let writer = user(&[("db", "c", &[Action::Update, Action::Find])]);
        let may = |body: Document| error_of(Some(&writer), &body, "c").is_none();
        assert!(may(
            doc! { "update": "c", "updates": [{ "q": {}, "u": {} }] }
        ));
        assert!(!may(
            doc! { "update": "c", "updates": [{ "q": {} }, { "q": {}, "upsert": true }] }
        ));
        assert!(may(doc! { "findAndModify": "c", "update": {} }));
        assert!(!may(doc! { "findAndModify": "c", "remove": true }));
        assert!(!may(
            doc! { "findAndModify": "c", "update": {}, "upsert": 1 }
        ));
        assert!(may(
            doc! { "aggregate": "c", "pipeline": [{ "$match": {} }] }
        ));
        assert!(!may(
            doc! { "aggregate": "c", "pipeline": [{ "$collStats": {} }] }
        ));
        let renamer = user(&[("a", "", &[Action::RenameCollectionSameDb])]);
        let may = |to: &str| {
            error_of(
                Some(&renamer),
                &doc! { "renameCollection": "a.x", "to": to },
                "",
            )
            .is_none()
        };
        assert!(may("a.y") && !may("b.y"));
    }

    #[test]
    fn a_rename_that_drops_its_target_needs_to_drop_it() {
        let renamer = ("a", "", &[Action::RenameCollectionSameDb][..]);
        let dropper = ("a", "y", &[Action::DropCollection][..]);
        let may = |granted: &[_], drops: bool| {
            let rename = doc! { "renameCollection": "a.x", "to": "a.y", "dropTarget": drops };
            error_of(Some(&user(granted)), &rename, "").is_none()
        };
        assert!(may(&[renamer], false));
        assert!(!may(&[renamer], true));
        assert!(may(&[renamer, dropper], true));
        assert!(!may(
            &[renamer, ("a", "x", &[Action::DropCollection])],
            true
        ));
    }

    #[test]
    fn a_pipeline_needs_to_read_each_collection_that_it_names() {
        let reader = user(&[
            ("db", "c", &[Action::Find]),
            ("db", "other", &[Action::Find]),
        ]);
        let may = |body: &Document| error_of(Some(&reader), body, "c").is_none();
        let lookup = |from: &str| doc! { "$lookup": { "from": from, "localField": "a", "foreignField": "b", "as": "c" } };
        let aggregate = |stages: [Document; 2]| doc! { "aggregate": "c", "pipeline": [(stages[0].clone()), (stages[1].clone())] };
        let fine = aggregate([doc! { "$match": {} }, lookup("other")]);
        let hidden = aggregate([lookup("other"), lookup("hidden")]);
        assert!(may(&fine) && !may(&hidden));
        assert!(!may(&doc! { "explain": (hidden) }));
        let twice = doc! { "$lookup": { "from": "other", "from": "hidden" } };
        assert!(!may(&doc! { "aggregate": "c", "pipeline": [(twice)] }));
    }

    #[test]
    fn validation_is_bypassed_where_the_pipeline_writes() {
        let may = |bypassed: &str| {
            let user = user(&[
                ("db", "source", &[Action::Find]),
                ("db", "target", &[Action::Insert, Action::Update]),
                ("db", bypassed, &[Action::BypassDocumentValidation]),
            ]);
            let merge = doc! {
                "aggregate": "source", "pipeline": [{ "$merge": "target" }], "bypassDocumentValidation": true,
            };
            error_of(Some(&user), &merge, "source").is_none()
        };
        assert!(may("target") && !may("source"));
        // What writes nothing bypasses nothing.
        let reader = user(&[("db", "source", &[Action::Find])]);
        let read = doc! { "aggregate": "source", "pipeline": [], "bypassDocumentValidation": true };
        assert!(error_of(Some(&reader), &read, "source").is_none());
    }

    #[test]
    fn what_any_field_of_a_name_asks_for_is_needed() {
        let updater = user(&[("db", "c", &[Action::Update, Action::Find])]);
        let remover = user(&[("db", "c", &[Action::Remove, Action::Find])]);
        for remove in [[false, true], [true, false]] {
            let body = doc! {
                "findAndModify": "c", "update": {}, "remove": (remove[0]), "remove": (remove[1]),
            };
            for user in [&updater, &remover] {
                assert!(error_of(Some(user), &body, "c").is_some(), "{body}");
            }
        }
        let upsert = doc! { "q": {}, "u": {}, "upsert": false, "upsert": true };
        let collection_stats = doc! { "$collStats": {} };
        let statistician = user(&[("db", "c", &[Action::CollStats])]);
        for (user, body) in [
            (
                &updater,
                doc! { "update": "c", "updates": [(upsert.clone())] },
            ),
            (
                &updater,
                doc! { "update": "c", "updates": [], "updates": [(upsert)] },
            ),
            (
                &updater,
                doc! { "findAndModify": "c", "update": {}, "upsert": false, "upsert": true },
            ),
            (
                &updater,
                doc! { "aggregate": "c", "pipeline": [], "pipeline": [(collection_stats.clone())] },
            ),
            (
                &statistician,
                doc! { "aggregate": "c", "pipeline": [(collection_stats)], "pipeline": [] },
            ),
        ] {
            assert!(error_of(Some(user), &body, "c").is_some(), "{body}");
        }
    }
}
