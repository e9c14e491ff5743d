//! Actions, as the manual's page "Privilege Actions" names them, and sets of them.

/// Declares the actions and their names in MongoDB's spelling.
macro_rules! actions {
    ($($action:ident = $name:literal,)*) => {
        /// An action, by MongoDB's name. Those that no command here needs yet are known so that roles can grant them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Action {
            $($action,)*
        }

        impl Action {
            /// Every action, in the order of their numbers.
            pub const ALL: &'static [Action] = &[$(Action::$action,)*];

            /// MongoDB's name of the action.
            pub fn name(self) -> &'static str {
                match self {
                    $(Action::$action => $name,)*
                }
            }
        }
    };
}

actions! {
    AddShard = "addShard",
    Analyze = "analyze",
    AppendOplogNote = "appendOplogNote",
    ApplicationMessage = "applicationMessage",
    AuthSchemaUpgrade = "authSchemaUpgrade",
    BypassDocumentValidation = "bypassDocumentValidation",
    BypassWriteBlockingMode = "bypassWriteBlockingMode",
    ChangeCustomData = "changeCustomData",
    ChangeOwnCustomData = "changeOwnCustomData",
    ChangeOwnPassword = "changeOwnPassword",
    ChangePassword = "changePassword",
    ChangeStream = "changeStream",
    CleanupOrphaned = "cleanupOrphaned",
    CloseAllDatabases = "closeAllDatabases",
    CollMod = "collMod",
    CollStats = "collStats",
    Compact = "compact",
    ConnPoolStats = "connPoolStats",
    ConnPoolSync = "connPoolSync",
    ConvertToCapped = "convertToCapped",
    CreateCollection = "createCollection",
    CreateIndex = "createIndex",
    CreateRole = "createRole",
    CreateSearchIndexes = "createSearchIndexes",
    CreateUser = "createUser",
    CursorInfo = "cursorInfo",
    DbHash = "dbHash",
    DbStats = "dbStats",
    DiagLogging = "diagLogging",
    DropCollection = "dropCollection",
    DropConnections = "dropConnections",
    DropDatabase = "dropDatabase",
    DropIndex = "dropIndex",
    DropRole = "dropRole",
    DropSearchIndex = "dropSearchIndex",
    DropUser = "dropUser",
    EnableProfiler = "enableProfiler",
    EnableSharding = "enableSharding",
    Find = "find",
    FlushRouterConfig = "flushRouterConfig",
    ForceUuid = "forceUUID",
    Fsync = "fsync",
    GetClusterParameter = "getClusterParameter",
    GetCmdLineOpts = "getCmdLineOpts",
    GetDefaultRwConcern = "getDefaultRWConcern",
    GetLog = "getLog",
    GetParameter = "getParameter",
    GetShardMap = "getShardMap",
    GrantRole = "grantRole",
    HostInfo = "hostInfo",
    Impersonate = "impersonate",
    IndexStats = "indexStats",
    Inprog = "inprog",
    Insert = "insert",
    Internal = "internal",
    InvalidateUserCache = "invalidateUserCache",
    KillAnyCursor = "killAnyCursor",
    KillAnySession = "killAnySession",
    KillCursors = "killCursors",
    Killop = "killop",
    ListCollections = "listCollections",
    ListDatabases = "listDatabases",
    ListIndexes = "listIndexes",
    ListSearchIndexes = "listSearchIndexes",
    ListSessions = "listSessions",
    ListShards = "listShards",
    LogRotate = "logRotate",
    MoveChunk = "moveChunk",
    Netstat = "netstat",
    OperationMetrics = "operationMetrics",
    PlanCacheIndexFilter = "planCacheIndexFilter",
    PlanCacheRead = "planCacheRead",
    PlanCacheWrite = "planCacheWrite",
    QuerySettings = "querySettings",
    QueryStatsRead = "queryStatsRead",
    ReIndex = "reIndex",
    Remove = "remove",
    RemoveShard = "removeShard",
    RenameCollectionSameDb = "renameCollectionSameDB",
    ReplSetConfigure = "replSetConfigure",
    ReplSetGetConfig = "replSetGetConfig",
    ReplSetGetStatus = "replSetGetStatus",
    ReplSetHeartbeat = "replSetHeartbeat",
    ReplSetStateChange = "replSetStateChange",
    Resync = "resync",
    RevokeRole = "revokeRole",
    RotateCertificates = "rotateCertificates",
    ServerStatus = "serverStatus",
    SetAuthenticationRestriction = "setAuthenticationRestriction",
    SetClusterParameter = "setClusterParameter",
    SetDefaultRwConcern = "setDefaultRWConcern",
    SetFeatureCompatibilityVersion = "setFeatureCompatibilityVersion",
    SetParameter = "setParameter",
    SetUserWriteBlockMode = "setUserWriteBlockMode",
    ShardingState = "shardingState",
    Shutdown = "shutdown",
    SplitChunk = "splitChunk",
    SplitVector = "splitVector",
    StorageDetails = "storageDetails",
    Top = "top",
    Touch = "touch",
    Unlock = "unlock",
    Update = "update",
    UpdateSearchIndex = "updateSearchIndex",
    UseUuid = "useUUID",
    Validate = "validate",
    ViewRole = "viewRole",
    ViewUser = "viewUser",
}

/// The name that stands for every action in a role.
const ANY_ACTION: &str = "anyAction";

/// A set of actions: a bit each, so that a look costs one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionSet(u128);

const _: () = assert!(Action::ALL.len() <= u128::BITS as usize);

impl ActionSet {
    /// The set with every action.
    pub const EVERY: ActionSet = ActionSet(u128::MAX);

    /// The set of these actions.
    pub const fn of(actions: &[Action]) -> ActionSet {
        let mut bits = 0;
        let mut at = 0;
        while at < actions.len() {
            bits |= 1 << actions[at] as u32;
            at += 1;
        }
        ActionSet(bits)
    }

    /// The actions of that name: one, or every one for `anyAction`; none for a name that is no action.
    pub fn named(name: &str) -> Option<ActionSet> {
        if name == ANY_ACTION {
            return Some(ActionSet::EVERY);
        }
        let action = Action::ALL.iter().find(|action| action.name() == name)?;
        Some(ActionSet::of(&[*action]))
    }

    /// Whether the action is in the set.
    #[inline]
    pub fn contains(self, action: Action) -> bool {
        self.0 & (1 << action as u32) != 0
    }

    /// The actions of either.
    #[must_use]
    pub const fn and(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 | other.0)
    }

    /// The actions that `other` does not have.
    #[must_use]
    pub fn without(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 & !other.0)
    }

    /// Whether no action is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the actions, `anyAction` for all of them.
    pub fn names(self) -> Vec<&'static str> {
        if self == ActionSet::EVERY {
            return vec![ANY_ACTION];
        }
        let held = Action::ALL.iter().filter(|action| self.contains(**action));
        held.map(|action| action.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it() {
        let set = ActionSet::of(&[Action::Find, Action::ViewUser]);
        assert!(set.contains(Action::Find) && !set.contains(Action::Insert));
        assert_eq!(set.names(), ["find", "viewUser"]);
        assert_eq!(
            ActionSet::named("find"),
            Some(ActionSet::of(&[Action::Find]))
        );
        assert_eq!(ActionSet::named("findd"), None);
        assert_eq!(
            ActionSet::named("anyAction").unwrap().names(),
            ["anyAction"]
        );
        assert_eq!(
            set.without(ActionSet::of(&[Action::Find])).names(),
            ["viewUser"]
        );
    }
}
