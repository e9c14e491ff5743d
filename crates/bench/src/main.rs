//! `quarry-bench`: the command line over the workloads.
#![forbid(unsafe_code)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use quarry_bench::peers::Peer;
use quarry_bench::{
    canned, collections, concurrent, crud, durability, encryption, hostile, instructions, language,
    layers, security, sessions, shortcuts, timing, tools,
};

/// Measures servers that speak the MongoDB wire protocol, interleaved in one run.
#[derive(Parser)]
#[command(version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve canned replies until killed.
    Canned {
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// The CRUD workloads from pymongo on one connection.
    Crud {
        /// A Python that imports pymongo.
        #[arg(long, default_value = "python3")]
        python: String,
        /// How often all cases are gone through.
        #[arg(long, default_value_t = 5)]
        passes: u32,
        /// Operations of each case in each pass.
        #[arg(long, default_value_t = 300)]
        iterations: u32,
        /// Only cases whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// The binary of an earlier build, to be measured beside this one over many starts of both.
        #[arg(long, conflicts_with = "servers")]
        before: Option<PathBuf>,
        /// How often the servers are started, with `--before`.
        #[arg(long, default_value_t = 40)]
        starts: u32,
        /// NAME=URI of servers to measure; without any, Quarry on each engine.
        #[arg(value_parser = Peer::parse)]
        servers: Vec<Peer>,
    },
    /// Point reads and inserts from many connections of compiled clients.
    Concurrent {
        #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
        connections: Vec<u32>,
        /// Length of one turn of one server.
        #[arg(long, default_value_t = 700)]
        turn_ms: u64,
        #[arg(long, default_value_t = 3)]
        rounds: u32,
        /// The binary of an earlier build, to be measured beside this one over many starts of both.
        #[arg(long, conflicts_with = "servers")]
        before: Option<PathBuf>,
        /// How often the servers are started, with `--before`.
        #[arg(long, default_value_t = 60)]
        starts: u32,
        /// NAME=URI of servers to measure; without any, Quarry on each engine.
        #[arg(value_parser = Peer::parse)]
        servers: Vec<Peer>,
    },
    /// Very many collections with two secondary indexes each.
    Collections {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        #[arg(long, default_value_t = 100_000)]
        count: u64,
        #[arg(long, default_value_t = 8)]
        connections: u64,
        #[arg(long, default_value_t = 20_000)]
        reads: u64,
    },
    /// Where the time goes, by layer: point queries and inserts at the median and the 99th percentile.
    Layers {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
        connections: Vec<u32>,
        /// Length of the turn of one line.
        #[arg(long, default_value_t = 5000)]
        turn_ms: u64,
    },
    /// `{j: true}` beside `{w: 1}`, its latency while the engine flushes and compacts, and how fast a start replays.
    Durability {
        #[arg(long, value_delimiter = ',', default_values_t = ["rocksdb".to_owned(), "mdbx".to_owned()])]
        engines: Vec<String>,
        #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
        connections: Vec<u32>,
        /// Length of one turn of one level.
        #[arg(long, default_value_t = 250)]
        turn_ms: u64,
        #[arg(long, default_value_t = 48)]
        rounds: u32,
        /// Length of one turn of the quiet or the loaded server.
        #[arg(long, default_value_t = 5000)]
        tail_turn_ms: u64,
        #[arg(long, default_value_t = 3)]
        tail_rounds: u32,
        /// How often a server is killed and started again.
        #[arg(long, default_value_t = 8)]
        replay_rounds: u32,
        /// The bytes written before the first kill; each later one comes a sixteenth later.
        #[arg(long, default_value_t = 112)]
        replay_mib: u64,
        /// Only the starts behind a kill.
        #[arg(long)]
        only_replay: bool,
    },
    /// An honest client beside crowds that take what they can.
    Hostile {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        /// The memory that the server may use for its clients.
        #[arg(long, default_value_t = 1024)]
        budget_mb: u64,
        /// Connections of the slow clients.
        #[arg(long, default_value_t = 10_000)]
        slow: u32,
        /// How long the honest client is watched beside each crowd.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// Only crowds whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Measures logins, TLS and the check of users, on one connection.
    Security {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        #[arg(long, default_value_t = 60)]
        rounds: u32,
        /// Operations of one side in one round.
        #[arg(long, default_value_t = 200)]
        turn: u32,
        /// Logins of one side in one round.
        #[arg(long, default_value_t = 10)]
        logins: u32,
    },
    /// Measures encryption at rest on one connection, and counts instructions with and without.
    Encryption {
        #[arg(long, default_value_t = 30)]
        rounds: u32,
        /// Operations of one side in one round.
        #[arg(long, default_value_t = 300)]
        turn: u32,
        /// Operations whose instructions are counted; 0 counts none.
        #[arg(long, default_value_t = 2000)]
        counted: u64,
    },
    /// Retryable writes, transactions and change streams, and the journal that is kept for them.
    Sessions {
        #[arg(long, default_value_t = 12)]
        rounds: u32,
        /// Numbers of streams that are open beside a writer.
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
        streams: Vec<u32>,
        /// The number of streams whose clients wait, each on a connection of its own.
        #[arg(long, default_value_t = 1_000)]
        waiting: u32,
        /// The amount written before streams resume, in MiB.
        #[arg(long, default_value_t = 1_024)]
        window_mb: u64,
        /// Only parts whose name contains this: writes, latency, throughput, streams, window.
        #[arg(long)]
        only: Option<String>,
        /// NAME=URI of servers to measure, each a set of one; without any, Quarry on RocksDB.
        #[arg(value_parser = Peer::parse)]
        servers: Vec<Peer>,
    },
    /// Updates, queries through each kind of index, and the rates of operations over very many documents.
    Language {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        #[arg(long, default_value_t = 10)]
        rounds: u32,
        /// Operations of one side in one turn.
        #[arg(long, default_value_t = 50)]
        turn: u32,
        /// Documents of a collection whose rate is measured.
        #[arg(long, default_value_t = 1_000_000)]
        documents: u64,
        /// Only operations and rates whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// The binary of an earlier build, to be measured beside this one over many starts of both.
        #[arg(long)]
        before: Option<PathBuf>,
        /// How often the servers are started, with `--before`.
        #[arg(long, default_value_t = 20)]
        starts: u32,
        /// NAME=URI of servers to measure; without any, Quarry.
        #[arg(value_parser = Peer::parse)]
        servers: Vec<Peer>,
    },
    /// Counts the instructions of operations and the memory of an idle connection.
    Instructions {
        #[arg(long, default_value = "memory")]
        engine: String,
        /// Operations that are counted of each workload.
        #[arg(long, default_value_t = 2000)]
        operations: u64,
        /// The binary of an earlier build, to be counted as well.
        #[arg(long)]
        before: Option<PathBuf>,
    },
    /// Measures what each shortcut of the server wins, by servers that go without one.
    Shortcuts {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        /// A Python that imports pymongo.
        #[arg(long, default_value = "python3")]
        python: String,
        #[arg(long, default_value_t = 3)]
        passes: u32,
        /// Operations of each case in each pass.
        #[arg(long, default_value_t = 300)]
        iterations: u32,
        #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
        connections: Vec<u32>,
        /// Length of one turn of one side.
        #[arg(long, default_value_t = 200)]
        turn_ms: u64,
        #[arg(long, default_value_t = 15)]
        rounds: u32,
    },
    /// Backups, restores, imports and dumps beside a server, and what a client feels of a backup.
    Tools {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        /// Documents of 300 bytes.
        #[arg(long, default_value_t = 1_000_000)]
        documents: u64,
        /// How many backups a client is watched beside.
        #[arg(long, default_value_t = 15)]
        backups: u32,
    },
    /// Measures what always-on timing costs, on one connection.
    Timing {
        #[arg(long, default_value = "rocksdb")]
        engine: String,
        #[arg(long, default_value_t = 144)]
        rounds: u32,
        /// Operations of one side in one round.
        #[arg(long, default_value_t = 200)]
        turn: u32,
    },
}

fn main() -> ExitCode {
    let done = match Line::parse().command {
        Command::Canned { port } => TcpListener::bind(("127.0.0.1", port)).and_then(|listener| {
            println!("listening on {}", listener.local_addr()?);
            canned::serve(&listener);
            Ok(())
        }),
        Command::Crud {
            python,
            passes,
            iterations,
            only,
            before,
            starts,
            servers,
        } => {
            let options = crud::Options {
                given: servers,
                python,
                passes,
                iterations,
                only,
                is_brief: before.is_some(),
            };
            match before {
                None => crud::run(&options),
                Some(before) => crud::starts::run(&options, &before, starts.max(1)),
            }
        }
        Command::Concurrent {
            connections,
            turn_ms,
            rounds,
            before,
            starts,
            servers,
        } => {
            let options = concurrent::Options {
                given: servers,
                connections,
                turn: Duration::from_millis(turn_ms),
                rounds: rounds.max(1),
            };
            match before {
                None => concurrent::run(&options),
                Some(before) => concurrent::starts::run(&options, &before, starts.max(1)),
            }
        }
        Command::Collections {
            engine,
            count,
            connections,
            reads,
        } => collections::run(&collections::Options {
            engine,
            count,
            connections: connections.max(1),
            reads: reads.max(1),
        }),
        Command::Shortcuts {
            engine,
            python,
            passes,
            iterations,
            connections,
            turn_ms,
            rounds,
        } => shortcuts::run(&shortcuts::Options {
            engine,
            python,
            passes,
            iterations,
            connections,
            turn: Duration::from_millis(turn_ms),
            rounds: rounds.max(1),
        }),
        Command::Hostile {
            engine,
            budget_mb,
            slow,
            seconds,
            only,
        } => hostile::run(&hostile::Options {
            engine,
            budget_mb,
            slow,
            length: Duration::from_secs(seconds.max(1)),
            only,
        }),
        Command::Security {
            engine,
            rounds,
            turn,
            logins,
        } => security::run(&security::Options {
            engine,
            rounds: rounds.max(1),
            turn: turn.max(1),
            logins,
        }),
        Command::Encryption {
            rounds,
            turn,
            counted,
        } => encryption::run(&encryption::Options {
            rounds: rounds.max(1),
            turn: turn.max(1),
            counted,
        }),
        Command::Layers {
            engine,
            connections,
            turn_ms,
        } => layers::run(&layers::Options {
            engine,
            connections,
            turn: Duration::from_millis(turn_ms),
        }),
        Command::Durability {
            engines,
            connections,
            turn_ms,
            rounds,
            tail_turn_ms,
            tail_rounds,
            replay_rounds,
            replay_mib,
            only_replay,
        } => durability::run(&durability::Options {
            engines,
            connections,
            turn: Duration::from_millis(turn_ms),
            rounds: rounds.max(1),
            tail_turn: Duration::from_millis(tail_turn_ms),
            tail_rounds: tail_rounds.max(1),
            replay_rounds: replay_rounds.max(1),
            replay_mib: replay_mib.max(1),
            only_replay,
        }),
        Command::Sessions {
            rounds,
            streams,
            waiting,
            window_mb,
            only,
            servers,
        } => sessions::run(&sessions::Options {
            given: servers,
            rounds: rounds.max(1),
            streams,
            waiting: waiting.max(1),
            window_mb: window_mb.max(64),
            only,
        }),
        Command::Language {
            engine,
            rounds,
            turn,
            documents,
            only,
            before,
            starts,
            servers,
        } => {
            let options = language::Options {
                given: servers,
                engine,
                rounds: rounds.max(1),
                turn: turn.max(1),
                documents: documents.max(1),
                only,
            };
            match before {
                None => language::run(&options),
                Some(before) => language::starts::run(&options, &before, starts.max(1)),
            }
        }
        Command::Instructions {
            engine,
            operations,
            before,
        } => instructions::run(&instructions::Options {
            engine,
            operations: operations.max(1),
            before,
        }),
        Command::Tools {
            engine,
            documents,
            backups,
        } => tools::run(&tools::Options {
            engine,
            documents: documents.max(1),
            backups: backups.max(1),
        }),
        Command::Timing {
            engine,
            rounds,
            turn,
        } => timing::run(&timing::Options {
            engine,
            rounds: rounds.max(1),
            turn: turn.max(1),
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
