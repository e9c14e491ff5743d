//! Stopping: what runs ends within bounds, whatever clients, reads and disks do.
//!
//! A write that runs may end by itself for a while and is interrupted then. Everything else is interrupted at once, with
//! MongoDB's InterruptedAtShutdown (11600), and its client has a moment to take that answer. So has a client that is being
//! sent a reply. Whoever takes longer has its socket closed. What does not end even then is left behind: the process ends.
//!
//! Leaves out how the data is closed (`Database::close`, which has bounds of its own).

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use signal_hook::low_level;

use crate::net::connections::Connection;
use crate::observe::log;
use crate::process::shutdown::Shutdown;
use crate::server::Server;

/// A write that runs may take this long after the wish to stop, and is interrupted then.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// An interrupted write may take so long to answer.
const WRITE_ANSWER_TIME: Duration = Duration::from_secs(5);
/// Interrupted reads, and replies that are being sent, may take so long; their sockets are closed then.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// A thread whose socket was closed may take so long to notice.
const CLOSE_TIME: Duration = Duration::from_millis(300);
/// How often the connections are looked at.
const TICK: Duration = Duration::from_millis(20);
/// A start that was told to stop gives up within this time, or the process ends without it.
const START_TIME: Duration = Duration::from_secs(2);
/// The data is closed within this time, or the process ends without it; the next start then replays the journal.
const DATA_TIME: Duration = Duration::from_secs(40);
/// mongod's exit code for an end that is not clean.
const EXIT_ABRUPT: i32 = 14;

/// Lets writes end, interrupts everything else, and closes what does not take its answer. False if connections are left.
pub fn end_connections(server: &Server) -> bool {
    let connections = &server.connections;
    connections.stop_reading();
    let begun = Instant::now();
    // Since when a connection has not been writing.
    let mut since: FxHashMap<i64, Instant> = FxHashMap::default();
    let mut has_warned = false;
    server.sessions.end_transactions(None);
    while !connections.wait_closed(TICK) {
        let mut is_worth_waiting = false;
        for connection in connections.list() {
            if connection.is_writing() {
                since.remove(&connection.id);
                let waited = begun.elapsed();
                if waited >= WRITE_TIME {
                    warn_once(&mut has_warned, connections.len());
                    connection.stop_operation();
                }
                is_worth_waiting |= waited < WRITE_TIME + WRITE_ANSWER_TIME;
            } else {
                let since = *since.entry(connection.id).or_insert_with(Instant::now);
                is_worth_waiting |= end_reading(&connection, since.elapsed());
            }
        }
        if !is_worth_waiting && connections.len() > 0 {
            log::warning(
                "control",
                "connections left open",
                &[("open", (connections.len() as u64).into())],
            );
            return false;
        }
    }
    true
}

/// Interrupts what runs, if anything does; closes the socket when its time is over. Whether it may still end by itself.
fn end_reading(connection: &Arc<Connection>, waited: Duration) -> bool {
    connection.stop_operation();
    if waited >= ANSWER_TIME {
        connection.transport.close();
    }
    waited < ANSWER_TIME + CLOSE_TIME
}

fn warn_once(has_warned: &mut bool, open: usize) {
    if !*has_warned {
        let open = [("open", (open as u64).into())];
        log::warning("control", "interrupting writes that still run", &open);
        *has_warned = true;
    }
}

/// Called when a start is told to stop: ends the process if the start neither ends nor succeeds in time. Nothing has
/// been promised to anybody yet, and a start that is cut off is made up for by the next one.
pub fn bound_start(shutdown: Arc<Shutdown>) {
    run_beside(move || {
        if !shutdown.wait_started(START_TIME) {
            log::warning("control", "stopped while starting", &[]);
            low_level::exit(0);
        }
    });
}

/// Ends the process if the data is not closed in time, on a disk that does not answer for instance.
pub fn bound_close() {
    run_beside(|| {
        std::thread::sleep(DATA_TIME);
        log::error(
            "control",
            "the data could not be closed in time; the next start replays the journal",
            &[("exitCode", i64::from(EXIT_ABRUPT).into())],
        );
        low_level::exit(EXIT_ABRUPT);
    });
}

/// Ends the process now: somebody asked twice. As after a kill, nothing that was acknowledged is lost.
pub fn force(signal: i32) -> ! {
    log::warning(
        "control",
        "told to stop a second time: ending at once; the next start replays the journal",
        &[],
    );
    low_level::exit(128 + signal)
}

/// A thread for a bound. Without room for it there is no bound, and a second signal still ends the process.
fn run_beside(work: impl FnOnce() + Send + 'static) {
    let named = std::thread::Builder::new().name("stopping".into());
    if let Err(error) = named.spawn(work) {
        let reason = [("error", error.to_string().into())];
        log::warning("control", "no thread to bound the stop", &reason);
    }
}
