//! The thread that brings the archive of the journal up to date each second, and once more when the server stops.

use std::time::{Duration, Instant};

use crate::backup::journal_archive::RoundError;
use crate::observe::log;
use crate::server::Server;
use crate::threads;

/// How often the archive is brought up to date.
const INTERVAL: Duration = Duration::from_secs(1);
/// A server that stops copies for so long at most; the next start goes on from there.
const FINISH_TIME: Duration = Duration::from_secs(10);

/// Starts the thread that keeps the archive, where one is kept.
pub fn start(server: &'static Server) -> std::io::Result<()> {
    let Some(archive) = &server.journal_archive else {
        return Ok(());
    };
    let round = move || {
        if server.shutdown.wait_for(INTERVAL) {
            return false;
        }
        // What fails is noted, and tried again.
        let _ = archive.round(&server.database, &|| server.shutdown.is_requested());
        true
    };
    threads::start("archive", || server.shutdown.is_requested(), round).map(drop)
}

/// Brings the archive up to the server's last write, as far as that takes no longer than `FINISH_TIME`. Called when nobody writes
/// any more.
pub fn finish(server: &Server) {
    let Some(archive) = &server.journal_archive else {
        return;
    };
    let deadline = Instant::now() + FINISH_TIME;
    let finished = archive.flush(&server.database, &|| Instant::now() >= deadline);
    if let Err(RoundError::GivenUp) = finished {
        let message = "the archive of the journal is left behind its end: the next start goes on";
        log::warning("storage", message, &[]);
    }
}
