//! The thread that brings the archive of the journal up to date each second, and once more when the server stops.

use std::time::Duration;

use crate::server::Server;
use crate::threads;

/// How often the archive is brought up to date.
const INTERVAL: Duration = Duration::from_secs(1);

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
        let _ = archive.round(&server.database, false);
        true
    };
    threads::start("archive", || server.shutdown.is_requested(), round).map(drop)
}

/// Brings the archive up to the server's last write. Called when nobody writes any more.
pub fn finish(server: &Server) {
    if let Some(archive) = &server.journal_archive {
        // The next start goes on where this one ends.
        let _ = archive.flush(&server.database);
    }
}
