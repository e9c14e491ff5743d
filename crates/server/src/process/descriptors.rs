//! File descriptors: as many as the process may have, shared out between connections and files.
//!
//! A client that cannot connect tries again; a file that cannot be opened stops writes. So connections end where files need
//! the rest: the process has some of its own, and the engine's tables and the files of sorts that spill have theirs.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::observe::log;

/// Below this mongod warns too.
const RECOMMENDED: u64 = 64_000;
/// The descriptors that a server holds or opens for a moment besides connections and tables: segments of the journal, logs, locks, directories,
/// sockets that it listens on, what flushes and compactions write.
const OWN: u64 = 40;
/// Tables of the engine that can be open at once, however few descriptors there are, and the share of a low limit.
const TABLES_MIN: u64 = 24;
const TABLES_SHARE: u64 = 4;
/// The files of sorts and groups that have outgrown their memory: their share of the limit, and as many as are enough for anybody.
const SPILL_SHARE: u64 = 16;
const SPILL_FILES_MAX: u64 = 4096;
/// The admin port has its own bound on connections; of a low limit it is allowed this share.
const ADMIN_SHARE: u64 = 8;

/// How the descriptors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    pub connections_max: usize,
    /// Connections to the admin port.
    pub admin_max: usize,
    pub tables_max: u32,
    /// Files of sorts and groups.
    pub spill_files_max: usize,
}

/// Raises the soft limit to the hard one and gives it; warns where it is low.
pub fn raise_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Whoever may not raise it goes on with what there is.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if current < RECOMMENDED {
        log::startup_warning_about(
            "control",
            "Soft rlimits for open file descriptors too low",
            &[
                ("currentValue", current.into()),
                ("recommendedMinimum", RECOMMENDED.into()),
            ],
        );
    }
    current
}

/// Connections get what they are allowed by the options, as far as a share of the limit is left for tables; tables get the
/// rest. A limit too low for anything gives one connection of each kind that there is.
pub fn share_out(limit: u64, connections_wanted: usize, admin_connections: usize) -> Shares {
    let admin = (admin_connections as u64).min((limit / ADMIN_SHARE).max(1));
    let spill_files = (limit / SPILL_SHARE).clamp(1, SPILL_FILES_MAX);
    let left = limit.saturating_sub(OWN + admin + spill_files);
    let tables_min = TABLES_MIN.max(limit / TABLES_SHARE);
    let connections = left
        .saturating_sub(tables_min)
        .min(connections_wanted as u64)
        .max(1);
    let tables = left.saturating_sub(connections).max(TABLES_MIN);
    Shares {
        connections_max: connections as usize,
        admin_max: admin as usize,
        tables_max: u32::try_from(tables).unwrap_or(u32::MAX),
        spill_files_max: spill_files as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::admin;

    #[test]
    fn connections_leave_descriptors_for_files() {
        for limit in [80, 90, 256, 1_024, 4_096, 20_000, 64_000, 1_048_576] {
            let shares = share_out(limit, 20_000, admin::CONNECTIONS_MAX);
            let connections = (shares.connections_max + shares.admin_max) as u64;
            let files = u64::from(shares.tables_max) + shares.spill_files_max as u64;
            let all = connections + files + OWN;
            assert!(all <= limit, "{shares:?} of {limit}");
            assert!(u64::from(shares.tables_max) >= limit / TABLES_SHARE);
        }
        let ample = share_out(64_000, 20_000, admin::CONNECTIONS_MAX);
        assert_eq!(ample.connections_max, 20_000);
        assert_eq!(ample.admin_max, admin::CONNECTIONS_MAX);
        assert_eq!(share_out(64_000, 500, 64).connections_max, 500);
        let least = share_out(4, 500, 64);
        assert_eq!((least.connections_max, least.admin_max), (1, 1));
        assert_eq!(share_out(64_000, 500, 0).admin_max, 0);
        assert_eq!(share_out(1_024, 500, 64).spill_files_max, 64);
        assert_eq!(share_out(1_048_576, 500, 64).spill_files_max, 4096);
        let unlimited = share_out(u64::MAX, 20_000, 64);
        assert_eq!(unlimited.connections_max, 20_000);
        assert_eq!(unlimited.tables_max, u32::MAX);
    }
}
