//! The thread that ends what nobody uses any more: sessions after 30 minutes, cursors after ten.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use crate::server::Server;
use crate::sessions::session::SESSION_TIMEOUT_MINUTES;

/// How often it looks, at most; a shorter cursor timeout makes it look more often.
const TICK_MAX: Duration = Duration::from_secs(4);
const TICK_MIN: Duration = Duration::from_millis(50);

pub fn start(server: &'static Server) -> std::io::Result<()> {
    thread::Builder::new()
        .name("reaper".into())
        .spawn(move || reap(server))
        .map(|_| ())
}

fn reap(server: &'static Server) {
    let session_timeout = Duration::from_secs(60 * SESSION_TIMEOUT_MINUTES.unsigned_abs() as u64);
    loop {
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
            return;
        }
        server.cursors.reap(cursor_timeout);
        for session in server.sessions.reap(session_timeout) {
            server.cursors.kill_session(session);
        }
    }
}
