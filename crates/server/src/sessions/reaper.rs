//! The thread that ends what nobody uses any more: sessions after
//! `localLogicalSessionTimeoutMinutes`, and with them their cursors; cursors of no session after ten; transactions after
//! `transactionLifetimeLimitSeconds` or when the engine may keep more than `snapshotPinnedMaxMB` for them; and that forgets what
//! sessions that have ended had written.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use quarry_bson::DateTime;

use crate::dispatch::error::Result;
use crate::observe::log;
use crate::server::Server;
use crate::sessions::session::SessionId;
use crate::threads;

/// How often it looks, at most; a shorter cursor timeout makes it look more often.
const TICK_MAX: Duration = Duration::from_secs(1);
/// Sessions that are forgotten in one round, of those that have ended.
const FORGOTTEN_A_TICK: usize = 1000;
const TICK_MIN: Duration = Duration::from_millis(50);

pub fn start(server: &'static Server) -> std::io::Result<()> {
    let is_over = || server.shutdown.is_requested();
    let behind = Mutex::default();
    let round = move || wait_and_reap(server, &behind);
    threads::start("reaper", is_over, round).map(drop)
}

/// False when the server stops.
fn wait_and_reap(server: &'static Server, behind: &Mutex<Option<[u8; 16]>>) -> bool {
    let minutes = server.parameters.session_timeout_minutes.unsigned_abs();
    let session_timeout = Duration::from_secs(60 * u64::from(minutes));
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
    let times_all_out = server.parameters.times_out_session_cursors.load(Relaxed);
    // The session of a command that ran for longer than sessions live may have ended before its cursor was there.
    let spares = |session| !times_all_out && server.sessions.is_open(session);
    server.cursors.reap(cursor_timeout, spares);
    for session in server.sessions.reap(session_timeout) {
        server.cursors.kill_session(session);
    }
    end_old_transactions(server);
    // What cannot be written now, because writes are refused, is found again by the walk.
    let _ = forget(server, session_timeout, &mut behind.lock());
    true
}

/// Ends the transactions that have been open for too long or whose snapshots cost too much space, and what runs in them.
fn end_old_transactions(server: &'static Server) {
    let seconds = server.parameters.transaction_lifetime_s.load(Relaxed);
    let lifetime = Duration::from_secs(seconds.unsigned_abs());
    let bytes_max = server.parameters.pinned_bytes_max();
    for (session, participant, open) in server.sessions.open_transactions() {
        let is_old = open.transaction.begun().elapsed() >= lifetime;
        let pinned_bytes = server.database.pinned_bytes_of(&open.transaction);
        let is_costly = bytes_max.is_some_and(|bytes_max| pinned_bytes > bytes_max);
        if !is_old && !is_costly {
            continue;
        }
        if is_costly {
            note_costly(session, pinned_bytes);
        }
        participant.end_transaction();
        server.sessions.note_closed(session);
        server.cursors.kill_session(session);
        if !participant.is_idle() {
            server.connections.kill_session(session);
        }
    }
}

fn note_costly(session: SessionId, pinned_bytes: u64) {
    log::warning(
        "transaction",
        "transaction ended because of the space that its snapshot may pin",
        &[
            ("lsid", session.to_string().into()),
            ("pinnedBytesAtMost", pinned_bytes.into()),
        ],
    );
}

/// Takes away what sessions had written that have ended, and goes on with the walk over all that is stored, for those that no
/// start of the server has seen since.
fn forget(server: &'static Server, timeout: Duration, behind: &mut Option<[u8; 16]>) -> Result<()> {
    for session in server.sessions.take_forgotten(FORGOTTEN_A_TICK) {
        server.sessions.forget(session, &server.database)?;
    }
    let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
    let before_ms = DateTime::now().0.saturating_sub(timeout_ms);
    let unused = server
        .database
        .unused_sessions(behind.as_ref(), before_ms)?;
    for session in unused.sessions {
        server
            .sessions
            .forget(SessionId(session), &server.database)?;
    }
    *behind = unused.behind;
    Ok(())
}
