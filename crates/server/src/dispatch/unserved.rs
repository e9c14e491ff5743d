//! MongoDB's commands that this server does not have, and why: who sends one is told more than that it is not known.

/// A reason, and the commands that are not there for it.
struct Lack {
    why: &'static str,
    commands: &'static [&'static str],
}

static LACKS: &[Lack] = &[
    Lack {
        why: "the server is no part of a sharded cluster",
        commands: &[
            "abortReshardCollection",
            "addShard",
            "addShardToZone",
            "analyzeShardKey",
            "balancerCollectionStatus",
            "balancerStart",
            "balancerStatus",
            "balancerStop",
            "checkMetadataConsistency",
            "checkShardingIndex",
            "cleanupOrphaned",
            "cleanupReshardCollection",
            "clearJumboFlag",
            "commitReshardCollection",
            "configureCollectionBalancing",
            "configureQueryAnalyzer",
            "enableSharding",
            "flushRouterConfig",
            "getShardMap",
            "getShardVersion",
            "isdbgrid",
            "listShards",
            "medianKey",
            "mergeAllChunksOnShard",
            "mergeChunks",
            "moveChunk",
            "moveCollection",
            "movePrimary",
            "moveRange",
            "refineCollectionShardKey",
            "removeShard",
            "removeShardFromZone",
            "reshardCollection",
            "setAllowMigrations",
            "setShardVersion",
            "shardCollection",
            "shardConnPoolStats",
            "shardingState",
            "split",
            "splitChunk",
            "splitVector",
            "transitionFromDedicatedConfigServer",
            "transitionToDedicatedConfigServer",
            "unsetSharding",
            "unshardCollection",
            "updateZoneKeyRange",
        ],
    },
    Lack {
        why: "a replica set has one member here, and no oplog",
        commands: &[
            "appendOplogNote",
            "applyOps",
            "replSetAbortPrimaryCatchUp",
            "replSetFreeze",
            "replSetMaintenance",
            "replSetResizeOplog",
            "replSetSyncFrom",
            "setIndexCommitQuorum",
        ],
    },
    Lack {
        why: "there is no JavaScript; an aggregation pipeline does what it did",
        commands: &["mapReduce", "mapreduce"],
    },
    Lack {
        why: "there are no search indexes, which are those of Atlas Search",
        commands: &[
            "createSearchIndexes",
            "dropSearchIndex",
            "listSearchIndexes",
            "updateSearchIndex",
        ],
    },
    Lack {
        why: "there is no queryable encryption",
        commands: &[
            "cleanupStructuredEncryptionData",
            "compactStructuredEncryptionData",
        ],
    },
    Lack {
        why: "space is reclaimed in the background, always",
        commands: &["autoCompact"],
    },
    Lack {
        why: "the audit log is configured at the start of the server",
        commands: &["getAuditConfig", "setAuditConfig"],
    },
    Lack {
        why: "it is not served yet",
        commands: &[
            "dropConnections",
            "filemd5",
            "setUserWriteBlockMode",
            "validateDBMetadata",
        ],
    },
    Lack {
        why: "MongoDB has it for its own use, or has it no more",
        commands: &[
            "availableQueryOptions",
            "cursorInfo",
            "driverOIDTest",
            "features",
            "getnonce",
            "isSelf",
            "netstat",
            "resetError",
        ],
    },
];

/// Why there is no such command; None for a name that MongoDB does not have either.
pub fn why(command: &str) -> Option<&'static str> {
    let mut lacks = LACKS.iter();
    let lack = lacks.find(|lack| lack.commands.contains(&command));
    lack.map(|lack| lack.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    #[test]
    fn nothing_that_is_served_is_said_to_be_lacking() {
        for lack in LACKS {
            for command in lack.commands {
                assert!(commands::find(command).is_none(), "{command}");
            }
        }
    }
}
