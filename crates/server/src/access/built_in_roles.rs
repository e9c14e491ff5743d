//! The roles that every database has from the start, after the manual's page "Built-In Roles" of MongoDB 8.0.
//!
//! Actions for sharding and for what Quarry has no command for are listed where MongoDB lists them, so that what `rolesInfo`
//! shows can be compared.

use crate::access::action::{Action, ActionSet};
use crate::access::name::Name;
use crate::access::resource::{Pattern, Privilege};

use Action as A;

const READ: ActionSet = ActionSet::of(&[
    A::ChangeStream,
    A::CollStats,
    A::DbHash,
    A::DbStats,
    A::Find,
    A::KillCursors,
    A::ListCollections,
    A::ListIndexes,
    A::ListSearchIndexes,
    A::PlanCacheRead,
]);

const READ_WRITE: ActionSet = READ.and(ActionSet::of(&[
    A::ConvertToCapped,
    A::CreateCollection,
    A::CreateIndex,
    A::CreateSearchIndexes,
    A::DropCollection,
    A::DropIndex,
    A::DropSearchIndex,
    A::Insert,
    A::Remove,
    A::RenameCollectionSameDb,
    A::Update,
    A::UpdateSearchIndex,
]));

const DB_ADMIN: ActionSet = ActionSet::of(&[
    A::Analyze,
    A::BypassDocumentValidation,
    A::CollMod,
    A::CollStats,
    A::Compact,
    A::ConvertToCapped,
    A::CreateCollection,
    A::CreateIndex,
    A::CreateSearchIndexes,
    A::DbStats,
    A::DropCollection,
    A::DropDatabase,
    A::DropIndex,
    A::DropSearchIndex,
    A::EnableProfiler,
    A::ListCollections,
    A::ListIndexes,
    A::ListSearchIndexes,
    A::PlanCacheIndexFilter,
    A::PlanCacheRead,
    A::PlanCacheWrite,
    A::ReIndex,
    A::RenameCollectionSameDb,
    A::StorageDetails,
    A::UpdateSearchIndex,
    A::Validate,
]);

/// On `system.profile`, for those who administrate a database.
const PROFILE: ActionSet = READ.and(ActionSet::of(&[
    A::ConvertToCapped,
    A::CreateCollection,
    A::DropCollection,
]));

const USER_ADMIN: ActionSet = ActionSet::of(&[
    A::ChangeCustomData,
    A::ChangePassword,
    A::CreateRole,
    A::CreateUser,
    A::DropRole,
    A::DropUser,
    A::GrantRole,
    A::RevokeRole,
    A::SetAuthenticationRestriction,
    A::ViewRole,
    A::ViewUser,
]);

const MONITOR_CLUSTER: ActionSet = ActionSet::of(&[
    A::ConnPoolStats,
    A::GetClusterParameter,
    A::GetCmdLineOpts,
    A::GetDefaultRwConcern,
    A::GetLog,
    A::GetParameter,
    A::GetShardMap,
    A::HostInfo,
    A::Inprog,
    A::ListDatabases,
    A::ListSessions,
    A::ListShards,
    A::Netstat,
    A::OperationMetrics,
    A::QueryStatsRead,
    A::ReplSetGetConfig,
    A::ReplSetGetStatus,
    A::ServerStatus,
    A::ShardingState,
    A::Top,
    A::UseUuid,
]);

const MONITOR_DATABASE: ActionSet = ActionSet::of(&[A::CollStats, A::DbStats, A::IndexStats]);

const HOST_MANAGER_CLUSTER: ActionSet = ActionSet::of(&[
    A::ApplicationMessage,
    A::CloseAllDatabases,
    A::ConnPoolSync,
    A::DropConnections,
    A::FlushRouterConfig,
    A::Fsync,
    A::InvalidateUserCache,
    A::KillAnyCursor,
    A::KillAnySession,
    A::Killop,
    A::LogRotate,
    A::Resync,
    A::RotateCertificates,
    A::SetParameter,
    A::Shutdown,
    A::Touch,
    A::Unlock,
]);

const HOST_MANAGER_DATABASE: ActionSet = ActionSet::of(&[A::KillCursors]);

const MANAGER_CLUSTER: ActionSet = ActionSet::of(&[
    A::AddShard,
    A::AppendOplogNote,
    A::ApplicationMessage,
    A::CleanupOrphaned,
    A::FlushRouterConfig,
    A::GetClusterParameter,
    A::GetDefaultRwConcern,
    A::GetShardMap,
    A::ListSessions,
    A::ListShards,
    A::QuerySettings,
    A::RemoveShard,
    A::ReplSetConfigure,
    A::ReplSetGetConfig,
    A::ReplSetGetStatus,
    A::ReplSetStateChange,
    A::Resync,
    A::SetClusterParameter,
    A::SetDefaultRwConcern,
    A::SetFeatureCompatibilityVersion,
    A::ShardingState,
]);

const MANAGER_DATABASE: ActionSet = ActionSet::of(&[
    A::EnableSharding,
    A::MoveChunk,
    A::SplitChunk,
    A::SplitVector,
]);

/// On the collections of users and roles, for a restore.
const RESTORE_USERS: ActionSet = ActionSet::of(&[
    A::CollMod,
    A::CreateCollection,
    A::CreateIndex,
    A::DropCollection,
    A::DropIndex,
    A::Find,
    A::Insert,
    A::ListIndexes,
    A::Remove,
    A::Update,
]);

const RESTORE: ActionSet = ActionSet::of(&[
    A::BypassDocumentValidation,
    A::CollMod,
    A::ConvertToCapped,
    A::CreateCollection,
    A::CreateIndex,
    A::DropCollection,
    A::Insert,
]);

/// The roles of every database.
pub const OF_EVERY_DATABASE: &[&str] = &["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"];

/// The roles of `admin` alone.
pub const OF_ADMIN: &[&str] = &[
    "__system",
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

/// The names of the built-in roles of a database.
pub fn names(database: &str) -> impl Iterator<Item = &'static str> {
    let of_admin = if database == "admin" { OF_ADMIN } else { &[] };
    OF_EVERY_DATABASE.iter().chain(of_admin).copied()
}

/// Whether the role is a built-in one.
pub fn is_built_in(role: &Name) -> bool {
    names(&role.database).any(|name| name == role.name)
}

/// The privileges of a built-in role; none for a name that is none.
pub fn privileges(role: &Name) -> Option<Vec<Privilege>> {
    is_built_in(role).then(|| {
        let mut granted = Vec::new();
        grant(&role.name, &role.database, &mut granted);
        granted
    })
}

/// Appends what the role grants. Roles that hold others call this for those.
fn grant(role: &str, database: &str, granted: &mut Vec<Privilege>) {
    let mut on = |database: &str, collection: &str, actions: ActionSet| {
        granted.push(Privilege {
            pattern: Pattern::of(database, collection),
            actions,
        });
    };
    match role {
        "read" => {
            on(database, "", READ);
            on(database, "system.js", READ);
        }
        "readWrite" => {
            on(database, "", READ_WRITE);
            on(database, "system.js", READ_WRITE);
        }
        "dbAdmin" => {
            on(database, "", DB_ADMIN);
            on(database, "system.profile", PROFILE);
        }
        "userAdmin" => on(database, "", USER_ADMIN),
        "dbOwner" => {
            for held in ["readWrite", "dbAdmin", "userAdmin"] {
                grant(held, database, granted);
            }
        }
        "readAnyDatabase" => {
            on("", "", READ);
            on("", "system.js", READ);
            on_cluster(granted, ActionSet::of(&[A::ListDatabases]));
        }
        "readWriteAnyDatabase" => {
            on("", "", READ_WRITE);
            on("", "system.js", READ_WRITE);
            on_cluster(granted, ActionSet::of(&[A::ListDatabases]));
        }
        "dbAdminAnyDatabase" => {
            on("", "", DB_ADMIN);
            on("", "system.profile", PROFILE);
            on_cluster(granted, ActionSet::of(&[A::ListDatabases]));
        }
        "userAdminAnyDatabase" => grant_user_admin_any_database(granted),
        "clusterMonitor" => grant_cluster_monitor(granted),
        "hostManager" => {
            on("", "", HOST_MANAGER_DATABASE);
            on_cluster(granted, HOST_MANAGER_CLUSTER);
        }
        "clusterManager" => {
            on("", "", MANAGER_DATABASE);
            on("config", "", READ_WRITE);
            on("local", "system.replset", READ);
            on_cluster(granted, MANAGER_CLUSTER);
        }
        "clusterAdmin" => {
            on("", "", ActionSet::of(&[A::DropDatabase]));
            for held in ["clusterMonitor", "hostManager", "clusterManager"] {
                grant(held, database, granted);
            }
        }
        "backup" => grant_backup(granted),
        "restore" => grant_restore(granted),
        "root" => {
            granted.push(Privilege {
                pattern: Pattern::AnyResource,
                actions: ActionSet::of(&[A::Validate]),
            });
            for held in [
                "readWriteAnyDatabase",
                "dbAdminAnyDatabase",
                "userAdminAnyDatabase",
                "clusterAdmin",
                "backup",
                "restore",
            ] {
                grant(held, database, granted);
            }
        }
        "__system" => granted.push(Privilege {
            pattern: Pattern::AnyResource,
            actions: ActionSet::EVERY,
        }),
        other => unreachable!("`{other}` is no built-in role"),
    }
}

fn on_cluster(granted: &mut Vec<Privilege>, actions: ActionSet) {
    granted.push(Privilege {
        pattern: Pattern::Cluster,
        actions,
    });
}

fn grant_user_admin_any_database(granted: &mut Vec<Privilege>) {
    let actions = [
        A::AuthSchemaUpgrade,
        A::InvalidateUserCache,
        A::ListDatabases,
        A::ViewUser,
    ];
    on_cluster(granted, ActionSet::of(&actions));
    for database in ["", "local", "config"] {
        granted.push(Privilege {
            pattern: Pattern::of(database, ""),
            actions: USER_ADMIN,
        });
    }
    let indexes = ActionSet::of(&[A::CreateIndex, A::DropIndex]);
    for collection in ["system.users", "system.roles"] {
        granted.push(Privilege {
            pattern: Pattern::of("admin", collection),
            actions: READ.and(indexes),
        });
    }
}

fn grant_cluster_monitor(granted: &mut Vec<Privilege>) {
    on_cluster(granted, MONITOR_CLUSTER);
    for (database, collection, actions) in [
        ("", "", MONITOR_DATABASE),
        ("local", "", MONITOR_DATABASE.and(READ)),
        ("config", "", MONITOR_DATABASE.and(READ)),
        ("", "system.profile", ActionSet::of(&[A::Find])),
        ("local", "system.replset", ActionSet::of(&[A::Find])),
    ] {
        granted.push(Privilege {
            pattern: Pattern::of(database, collection),
            actions,
        });
    }
}

fn grant_backup(granted: &mut Vec<Privilege>) {
    let actions = [
        A::AppendOplogNote,
        A::GetParameter,
        A::ListDatabases,
        A::ServerStatus,
        A::SetUserWriteBlockMode,
    ];
    on_cluster(granted, ActionSet::of(&actions));
    granted.push(Privilege {
        pattern: Pattern::AnyResource,
        actions: ActionSet::of(&[A::CollStats, A::ListCollections, A::ListIndexes]),
    });
    for (database, collection) in [
        ("", ""),
        ("local", ""),
        ("config", ""),
        ("", "system.js"),
        ("", "system.profile"),
        ("", "system.users"),
        ("admin", "system.roles"),
        ("admin", "system.version"),
    ] {
        granted.push(Privilege {
            pattern: Pattern::of(database, collection),
            actions: ActionSet::of(&[A::Find]),
        });
    }
}

fn grant_restore(granted: &mut Vec<Privilege>) {
    on_cluster(granted, ActionSet::of(&[A::GetParameter]));
    granted.push(Privilege {
        pattern: Pattern::AnyResource,
        actions: ActionSet::of(&[A::ListCollections, A::CollStats]),
    });
    for (database, collection, actions) in [
        ("", "", RESTORE),
        ("config", "", RESTORE),
        ("local", "", RESTORE),
        ("", "system.js", RESTORE),
        ("admin", "system.users", RESTORE_USERS),
        ("admin", "system.roles", RESTORE_USERS),
        ("admin", "system.version", RESTORE_USERS),
    ] {
        granted.push(Privilege {
            pattern: Pattern::of(database, collection),
            actions,
        });
    }
    let users = [
        A::CreateRole,
        A::CreateUser,
        A::DropRole,
        A::DropUser,
        A::GrantRole,
        A::RevokeRole,
        A::ViewRole,
        A::ViewUser,
        A::ChangePassword,
        A::ChangeCustomData,
    ];
    granted.push(Privilege {
        pattern: Pattern::of("", ""),
        actions: ActionSet::of(&users),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::resource::Resource;

    fn may(role: &str, database: &str, action: Action, resource: Resource<'_>) -> bool {
        let granted = privileges(&Name::new(role, database)).unwrap();
        granted
            .iter()
            .any(|held| held.actions.contains(action) && held.pattern.covers(resource))
    }

    #[test]
    fn every_name_has_privileges_and_other_names_have_none() {
        for name in names("admin") {
            assert!(
                !privileges(&Name::new(name, "admin")).unwrap().is_empty(),
                "{name}"
            );
        }
        assert_eq!(privileges(&Name::new("root", "db")), None);
        assert_eq!(privileges(&Name::new("nothing", "admin")), None);
    }

    #[test]
    fn a_role_reaches_as_far_as_its_name_says() {
        let users = Resource::Collection("admin", "system.users");
        let mine = Resource::Collection("db", "c");
        let other = Resource::Collection("other", "c");
        assert!(may("read", "db", A::Find, mine) && !may("read", "db", A::Find, other));
        assert!(!may("read", "db", A::Insert, mine) && may("readWrite", "db", A::Insert, mine));
        assert!(!may("readWrite", "admin", A::Find, users));
        assert!(!may("readWriteAnyDatabase", "admin", A::Insert, users));
        assert!(!may("dbOwner", "admin", A::Remove, users));
        assert!(may("userAdminAnyDatabase", "admin", A::Find, users));
        assert!(!may("userAdminAnyDatabase", "admin", A::Insert, users));
        assert!(!may("userAdminAnyDatabase", "admin", A::Find, mine));
        assert!(may("root", "admin", A::Shutdown, Resource::Cluster));
        assert!(may("root", "admin", A::Find, mine) && may("root", "admin", A::Find, users));
        assert!(!may("clusterMonitor", "admin", A::Find, mine));
        assert!(!may(
            "clusterMonitor",
            "admin",
            A::Shutdown,
            Resource::Cluster
        ));
        assert!(may("readAnyDatabase", "admin", A::Find, mine));
        assert!(!may(
            "readAnyDatabase",
            "admin",
            A::Find,
            Resource::Collection("config", "c")
        ));
        assert!(may("__system", "admin", A::Internal, Resource::Cluster));
    }
}
