//! The server's own threads: the listeners, the one that waits for parked connections, the one for those that wake to no thread, signals, the reaper of cursors and
//! sessions, the timing collector, the recorder of the history, the sender of traces, the archive of the journal, the admin port.
//!
//! Each works in rounds: one connection to accept, one batch to send. A panic ends its round alone: it is logged like any
//! other, counted, and after a short rest the thread goes on with the next round. Without its thread a server would take no
//! connection, hear no signal or keep every cursor, and nobody would know. What a round works on is kept between rounds, so
//! that a listener keeps its socket. Threads of the database do the same (`quarry_database`); those of connections end with
//! their connection.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a thread that panicked rests, so that one that always panics does not fill the log or take a processor.
const REST: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 100 });

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Starts a thread that calls `round` until it says that no other one follows. After a panic no other one follows if
/// `is_over`.
pub fn start(
    name: &'static str,
    is_over: impl Fn() -> bool + Send + 'static,
    mut round: impl FnMut() -> bool + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut rounds = move || loop {
        #[cfg(test)]
        injected::panic_if_asked(name);
        if !round() {
            return;
        }
    };
    // The locks that a round takes do not poison.
    let rounds_and_rests = move || {
        while catch_unwind(AssertUnwindSafe(&mut rounds)).is_err() {
            PANICS.fetch_add(1, Relaxed);
            thread::sleep(REST);
            if is_over() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name(name.into())
        .spawn(rounds_and_rests)
}

/// How often one of these threads has panicked since the process began.
pub fn panics() -> u64 {
    PANICS.load(Relaxed)
}

/// Panics that a test asks for.
#[cfg(test)]
mod injected {
    use parking_lot::Mutex;

    static ASKED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    /// The next round of the thread of that name panics.
    pub fn ask(name: &'static str) {
        ASKED.lock().push(name);
    }

    pub fn is_asked(name: &str) -> bool {
        ASKED.lock().contains(&name)
    }

    pub fn panic_if_asked(name: &str) {
        let mut asked = ASKED.lock();
        if let Some(place) = asked.iter().position(|asked| *asked == name) {
            asked.remove(place);
            drop(asked);
            panic!("on purpose, asked for by a test");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::time::Instant;

    use quarry_bson::DocumentBuilder;
    use quarry_wire::ReplyBuilder;
    use signal_hook::consts::SIGHUP;
    use signal_hook::iterator::Signals;

    use super::*;
    use crate::net::listener::Listener;
    use crate::net::waking;
    use crate::observe::{admin, timing_collector};
    use crate::process::config::AdminPort;
    use crate::process::run::watch_signals;
    use crate::process::shutdown::Shutdown;
    use crate::server::Server;
    use crate::sessions::client_cursor::{ClientCursor, Source};
    use crate::sessions::reaper;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}: it never came");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Lets the thread panic in its next round, which `wake` brings about.
    fn panic_in<R>(name: &'static str, mut wake: impl FnMut() -> R) {
        let before = panics();
        injected::ask(name);
        wait_until(name, || {
            wake();
            !injected::is_asked(name)
        });
        wait_until(name, || panics() > before);
    }

    /// Whether what is sent to that port is answered. A panic may have closed the connection.
    fn is_answered(port: u16, request: &[u8]) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            return false;
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(request);
        matches!(stream.read(&mut [0; 64]), Ok(bytes) if bytes > 0)
    }

    fn ping() -> Vec<u8> {
        let mut message = Vec::new();
        let mut framed = ReplyBuilder::new(&mut message, 1, 0);
        let mut body = DocumentBuilder::new(framed.body());
        body.append("ping", 1);
        body.append("$db", "admin");
        body.finish();
        framed.finish();
        message
    }

    #[test]
    fn a_thread_of_the_server_goes_on_after_a_panic() {
        let mut server = Server::in_memory_with(&["--setParameter", "connectionParkMillis=20"]);
        server.config.admin_port = AdminPort::On(0);
        let server: &'static Server = Box::leak(Box::new(server));

        let listener = Listener::bind(&["127.0.0.1".into()], 0).unwrap();
        let _accepting = listener.start(server).unwrap();
        let ping = ping();
        let is_served = || is_answered(listener.port(), &ping);
        assert!(is_served());
        panic_in("listener", is_served);
        assert!(is_served());

        let resume = waking::start(server).unwrap();
        server.parking.start(resume).unwrap();
        let mut parked = TcpStream::connect(("127.0.0.1", listener.port())).unwrap();
        parked.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut is_heard_parked = || {
            wait_until("parking", || server.parking.len() == 1);
            parked.write_all(&ping).unwrap();
            parked.read(&mut [0; 256]).is_ok_and(|bytes| bytes > 0)
        };
        panic_in("parking", &mut is_heard_parked);
        assert!(is_heard_parked());

        let admin_port = admin::start(server, 10).unwrap().unwrap();
        let health = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let is_healthy = || is_answered(admin_port, health);
        assert!(is_healthy());
        panic_in("admin", is_healthy);
        assert!(is_healthy());

        server.parameters.cursor_timeout_ms.store(1, Relaxed);
        reaper::start(server).unwrap();
        panic_in("reaper", || ());
        let nothing = Source::Documents(VecDeque::new());
        let cursor = ClientCursor::new("db.c".into(), None, nothing);
        server.cursors.keep(cursor).unwrap();
        wait_until("the reaper", || server.cursors.count() == (0, 0, 0));

        timing_collector::start(server).unwrap();
        panic_in("timing", || ());
        // It comes to a further round.
        panic_in("timing", || ());

        let shutdown = Arc::new(Shutdown::default());
        shutdown.note_started();
        watch_signals(&shutdown, Signals::new([SIGHUP]).unwrap(), None);
        // The second panic is in a round after the first one's, and a signal is heard after both.
        let raise = || signal_hook::low_level::raise(SIGHUP).unwrap();
        panic_in("signals", raise);
        panic_in("signals", raise);
        wait_until("the signal", || {
            raise();
            shutdown.reason().is_some()
        });
    }
}
