//! Where a parked connection goes on that wakes.
//!
//! Nearly every one gets a thread immediately. One whose client has gone needs none: it is closed by the thread `waking`, which
//! writes what the log and the audit log say of it. For one that finds no thread, because the system gives no more, that thread
//! tries again for a while: a client that has logged in and asks does not lose its connection for a moment's shortage.
//!
//! Keeps true: the thread that waits for the parked connections of all (`parking`) writes to no file and waits for nothing else, so
//! that a disk that hangs under the audit log keeps nobody from waking. What waits here is bounded by the connections that there are.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::net::connection_end::{End, log_end};
use crate::net::connection_threads::NoThread;
use crate::net::connections::Entry;
use crate::net::conversation;
use crate::server::Server;
use crate::threads;

/// How long a connection waits for a thread before it is closed.
const PATIENCE: Duration = if cfg!(test) {
    Duration::from_secs(2)
} else {
    Duration::from_secs(10)
};
/// How often a thread is asked for meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// A connection that woke and has no thread.
enum Left {
    /// Its client has gone.
    Gone(Entry),
    /// There was no thread for it.
    Waiting(Entry),
}

/// Starts the thread `waking`; returns what goes on with a connection that was parked.
pub fn start(server: &'static Server) -> io::Result<impl Fn(Entry) + Send + 'static> {
    let (sender, receiver) = channel();
    let mut waiting = VecDeque::new();
    let round = move || work(server, &receiver, &mut waiting);
    threads::start("waking", || false, round)?;
    Ok(move |entry: Entry| {
        let left = if entry.connection().transport.is_gone() {
            Left::Gone(entry)
        } else {
            match conversation::start(server, entry) {
                Ok(()) => return,
                Err(NoThread { entry, .. }) => Left::Waiting(entry),
            }
        };
        // The thread lives as long as this; if not, the connection is closed.
        let _ = sender.send(left);
    })
}

/// Deals with the next connection, and tries again for those that wait. False when no other one can come.
fn work(
    server: &'static Server,
    came: &Receiver<Left>,
    waiting: &mut VecDeque<(Entry, Instant)>,
) -> bool {
    let next = match waiting.is_empty() {
        true => came.recv().map_err(|_| RecvTimeoutError::Disconnected),
        false => came.recv_timeout(PAUSE),
    };
    match next {
        Ok(Left::Gone(entry)) => log_end(server, entry.connection(), End::Closed),
        Ok(Left::Waiting(entry)) => waiting.push_back((entry, Instant::now() + PATIENCE)),
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => return false,
    }
    while let Some((entry, until)) = waiting.pop_front() {
        match conversation::start(server, entry) {
            Ok(()) => {}
            Err(NoThread { entry, .. }) if Instant::now() < until => {
                waiting.push_front((entry, until));
                break;
            }
            Err(NoThread { entry, error }) => {
                let why = format!("no thread to go on with: {error}");
                let why = io::Error::new(error.kind(), why);
                log_end(server, entry.connection(), End::Failed(why));
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use quarry_bson::DocumentBuilder;
    use quarry_wire::ReplyBuilder;

    use super::*;
    use crate::net::transport::Transport;

    /// A connection of the server that has no thread.
    fn connect(server: &'static Server) -> (TcpStream, Entry) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE * 4)).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let transport = Transport::plain(stream).unwrap();
        let connection = server.connections.add(transport, peer, usize::MAX).unwrap();
        (client, Entry::new(&server.connections, connection))
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
    fn one_that_finds_no_thread_has_one_later_and_one_that_has_gone_needs_none() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        let resume = start(server).unwrap();
        let are_exhausted = &server.connection_threads.are_exhausted;
        are_exhausted.store(true, Relaxed);
        let (gone, entry) = connect(server);
        drop(gone);
        resume(entry);
        while server.connections.len() > 0 {
            thread::yield_now();
        }
        let (mut client, entry) = connect(server);
        client.write_all(&ping()).unwrap();
        resume(entry);
        // It is not seen off, though others come to the same.
        let (mut late, entry) = connect(server);
        late.write_all(&ping()).unwrap();
        resume(entry);
        assert_eq!(server.connections.len(), 2);
        are_exhausted.store(false, Relaxed);
        for client in [&mut client, &mut late] {
            assert!(client.read(&mut [0; 16]).unwrap() > 0);
        }
        // One for which there is no thread for long is closed, and nothing keeps its place.
        drop((client, late));
        while server.connections.len() > 0 {
            thread::yield_now();
        }
        are_exhausted.store(true, Relaxed);
        let (mut client, entry) = connect(server);
        client.write_all(&ping()).unwrap();
        resume(entry);
        assert_eq!(client.read(&mut [0; 16]).unwrap_or(0), 0);
    }
}
