//! The thread that ends what nobody uses any more: sessions after 30 minutes, cursors after ten.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::server::Server;
use crate::sessions::session::SESSION_TIMEOUT_MINUTES;
use crate::threads;

/// How often it looks, at most; a shorter cursor timeout makes it look more often.
const TICK_MAX: Duration = Duration::from_secs(4);
const TICK_MIN: Duration = Duration::from_millis(50);

pub fn start(server: &'static Server) -> std::io::Result<()> {
    let is_over = || server.shutdown.is_requested();
    threads::start("reaper", is_over, move || wait_and_reap(server)).map(drop)
}

/// False when the server stops.
fn wait_and_reap(server: &'static Server) -> bool {
    let session_timeout = Duration::from_secs(60 * SESSION_TIMEOUT_MINUTES.unsigned_abs() as u64);
    let cursor_ms = server
        .parameters
        .cursor_timeout_ms
        .load(Relaxed)
        .max(1)
        .unsigned_abs();
    let cursor_timeout = Duration::from_millis(cursor_ms);
    if server
        .shutdown
        .wait_for((cursor_timeout / 4).clamp(TICK_MIN, TICK_MAX))
    {
        return false;
    }
    server.cursors.reap(cursor_timeout);
    for session in server.sessions.reap(session_timeout) {
        server.cursors.kill_session(session);
    }
    true
}
