//! The state that all connections share. There is one server a process and it lives as long as the process does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Instant;

use quarry_bson::ObjectId;
use quarry_database::{Database, Scope};
use quarry_storage::Engine;

use crate::data::Data;
use crate::net::connections::Connections;
use crate::net::request_memory::{REQUEST_BYTES_MAX, RequestMemory};
use crate::observe::counters::Counters;
use crate::observe::profiler::Profiler;
use crate::observe::slow_operations::SlowOperations;
use crate::process::config::Config;
use crate::process::parameters::Parameters;
use crate::process::shutdown::Shutdown;
use crate::sessions::cursors::Cursors;
use crate::sessions::session::Sessions;

pub struct Server {
    pub config: Config,
    pub parameters: Parameters,
    pub engine: Arc<dyn Engine>,
    pub database: Database,
    pub connections: Connections,
    pub sessions: Sessions,
    pub cursors: Cursors,
    pub counters: Counters,
    pub profiler: Profiler,
    pub slow_operations: SlowOperations,
    pub request_memory: RequestMemory,
    pub shutdown: Arc<Shutdown>,
    pub started: Instant,
    /// Tells clients one life of the server from the next.
    pub process_id: ObjectId,
    port: AtomicU16,
}

impl Server {
    pub fn new(
        config: Config,
        parameters: Parameters,
        engine: Arc<dyn Engine>,
        database: Database,
        shutdown: Arc<Shutdown>,
    ) -> Server {
        Server {
            config,
            parameters,
            engine,
            database,
            connections: Connections::default(),
            sessions: Sessions::default(),
            cursors: Cursors::default(),
            counters: Counters::default(),
            profiler: Profiler::default(),
            slow_operations: SlowOperations::default(),
            request_memory: RequestMemory::new(REQUEST_BYTES_MAX),
            shutdown,
            started: Instant::now(),
            process_id: ObjectId::generate(),
            port: AtomicU16::new(0),
        }
    }

    /// A server with default options that keeps its data in memory and listens nowhere.
    #[cfg(test)]
    pub fn in_memory() -> Server {
        use clap::Parser;

        use crate::process::config::{Command, CommandLine};

        let line = CommandLine::parse_from(["quarry", "serve", "--engine", "memory"]);
        let Command::Serve(options) = line.command else {
            unreachable!("the line says `serve`")
        };
        let config = Config::new(*options, Vec::new()).unwrap();
        let parameters = Parameters::new(&config).unwrap();
        let engine = Arc::new(quarry_storage::Memory::new());
        let database = Database::open_in_memory().unwrap();
        Server::new(config, parameters, engine, database, Arc::default())
    }

    /// The part that reads and writes documents.
    pub fn data(&self) -> impl Data + '_ {
        Scope::from(&self.database)
    }

    /// The port that is listened on, once it is.
    pub fn port(&self) -> u16 {
        self.port.load(Relaxed)
    }

    pub fn set_port(&self, port: u16) {
        self.port.store(port, Relaxed);
    }

    pub fn is_quiet(&self) -> bool {
        self.parameters.quiet.load(Relaxed)
    }
}
