//! The state that all connections share. There is one server a process and it lives as long as the process does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quarry_bson::ObjectId;
use quarry_database::{Database, Scope};
use quarry_query::memory_budget::BUDGET;
use quarry_storage::Engine;

use crate::access::control::AccessControl;
use crate::audit::audit_log::AuditLog;
use crate::backup::journal_archive::JournalArchive;
use crate::backup::live_copy::LiveCopies;
use crate::catalog::Catalog;
use crate::data::Data;
use crate::dispatch::fail_points::FailPoints;
use crate::net::certificates::Certificates;
use crate::net::connection_threads::ConnectionThreads;
use crate::net::connections::Connections;
use crate::net::parking::Parking;
use crate::net::request_memory::RequestMemory;
use crate::observe::counters::Counters;
use crate::observe::error_counts::ErrorCounts;
use crate::observe::history::kept::History;
use crate::observe::profiler::Profiler;
use crate::observe::query_stats::QueryStats;
use crate::observe::slow_operations::SlowOperations;
use crate::process::config::Config;
use crate::process::parameters::Parameters;
use crate::process::shutdown::Shutdown;
use crate::replication::replica_set::ReplicaSet;
use crate::sessions::cursors::Cursors;
use crate::sessions::session::Sessions;

pub struct Server {
    pub config: Config,
    pub parameters: Parameters,
    /// For connections that are encrypted; a server without TLS has none.
    pub certificates: Option<Certificates>,
    pub access: AccessControl,
    /// The trail of what was done, where one is kept.
    pub audit: Option<Arc<AuditLog>>,
    pub engine: Arc<dyn Engine>,
    pub database: Database,
    /// The set that the server is the only member of; a standalone has none.
    pub replica_set: Option<ReplicaSet>,
    pub fail_points: FailPoints,
    pub connections: Connections,
    pub connection_threads: ConnectionThreads,
    pub parking: Parking,
    pub sessions: Sessions,
    pub cursors: Cursors,
    pub backups: LiveCopies,
    /// The archive of the journal, where one is kept.
    pub journal_archive: Option<JournalArchive>,
    pub counters: Counters,
    pub query_stats: QueryStats,
    pub errors: ErrorCounts,
    pub history: History,
    pub profiler: Profiler,
    pub slow_operations: SlowOperations,
    pub request_memory: RequestMemory,
    pub shutdown: Arc<Shutdown>,
    pub started: Instant,
    /// Tells clients one life of the server from the next.
    pub process_id: ObjectId,
    port: AtomicU16,
    admin_port: AtomicU16,
}

impl Server {
    pub fn new(
        config: Config,
        parameters: Parameters,
        certificates: Option<Certificates>,
        engine: Arc<dyn Engine>,
        database: Database,
        replica_set: Option<ReplicaSet>,
        shutdown: Arc<Shutdown>,
    ) -> Server {
        let access = AccessControl::new(
            config.is_authorization_enabled,
            parameters.has_localhost_exception,
        );
        let profiler = Profiler::default();
        profiler.set_sample_rate(config.slow_op_sample_rate);
        let budget = parameters.memory_budget_mb << 20;
        let request_memory = RequestMemory::within(budget);
        BUDGET.set_bytes_max(budget - request_memory.bytes_max());
        let backups = LiveCopies::new(&config.data_directory, config.engine.as_str());
        let server = Server {
            config,
            parameters,
            certificates,
            access,
            audit: None,
            engine,
            database,
            replica_set,
            fail_points: FailPoints::default(),
            connections: Connections::default(),
            connection_threads: ConnectionThreads::default(),
            parking: Parking::default(),
            sessions: Sessions::default(),
            cursors: Cursors::default(),
            backups,
            journal_archive: None,
            counters: Counters::default(),
            query_stats: QueryStats::default(),
            errors: ErrorCounts::default(),
            history: History::default(),
            profiler,
            slow_operations: SlowOperations::default(),
            request_memory,
            shutdown,
            started: Instant::now(),
            process_id: ObjectId::generate(),
            port: AtomicU16::new(0),
            admin_port: AtomicU16::new(0),
        };
        server.follow_parameters();
        server
    }

    /// Tells the database the parameters that it works by.
    pub fn follow_parameters(&self) {
        let ms = self.parameters.transaction_lock_ms.load(Relaxed);
        self.database.set_transaction_lock_patience_ms(ms);
        let seconds = self.parameters.snapshot_window_s.load(Relaxed);
        let window = Duration::from_secs(seconds.unsigned_abs());
        self.database.set_snapshot_window(window);
        let bytes_max = self.parameters.pinned_bytes_max();
        self.database.set_pinned_bytes_max(bytes_max);
    }

    /// A server with default options that keeps its data in memory and listens nowhere.
    #[cfg(test)]
    pub fn in_memory() -> Server {
        Server::in_memory_with(&[])
    }

    /// Like `in_memory`, with further flags of `quarry serve`.
    #[cfg(test)]
    pub fn in_memory_with(flags: &[&str]) -> Server {
        use clap::Parser;

        use crate::process::config::{Command, CommandLine, Face};

        let line = CommandLine::parse_from(
            ["quarry", "serve", "--engine", "memory"]
                .iter()
                .chain(flags),
        );
        let Command::Serve(options) = line.command else {
            unreachable!("the line says `serve`")
        };
        let config = Config::new(Face::Quarry, *options, Vec::new()).unwrap();
        let parameters = Parameters::new(&config).unwrap();
        let engine = Arc::new(quarry_storage::Memory::new());
        let database = Database::open_in_memory().unwrap();
        let replica_set = config
            .replica_set
            .as_ref()
            .map(|set| ReplicaSet::open(&set.name, set.advertised.as_ref(), &database).unwrap());
        Server::new(
            config,
            parameters,
            None,
            engine,
            database,
            replica_set,
            Arc::default(),
        )
    }

    /// The part that reads and changes definitions.
    pub fn catalog(&self) -> &dyn Catalog {
        &self.database
    }

    /// The part that reads and writes documents.
    pub fn data(&self) -> impl Data + '_ {
        Scope::from(&self.database)
    }

    /// The port that is listened on, once it is.
    pub fn port(&self) -> u16 {
        self.port.load(Relaxed)
    }

    /// The name of the machine and the port, by which the server's own documents name it.
    pub fn host(&self) -> String {
        let name = rustix::system::uname();
        format!("{}:{}", name.nodename().to_string_lossy(), self.port())
    }

    pub fn set_port(&self, port: u16) {
        self.port.store(port, Relaxed);
    }

    /// The port of the admin server, once it is listened on; none where it is off.
    pub fn admin_port(&self) -> Option<u16> {
        Some(self.admin_port.load(Relaxed)).filter(|port| *port > 0)
    }

    /// Notes the port of the admin server.
    pub fn set_admin_port(&self, port: u16) {
        self.admin_port.store(port, Relaxed);
    }

    pub fn is_quiet(&self) -> bool {
        self.parameters.quiet.load(Relaxed)
    }
}
