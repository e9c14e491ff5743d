//! Sending replies.
//!
//! A connection blocks until its client has taken the whole reply, for as long as that takes, unless the reply is a large one of
//! which the client takes nothing while operations wait for memory. One that holds a share of
//! the request memory blocks only while nobody waits for it: the request has been executed by then, so that its bytes are
//! worth less than another client's request. The caller gives the share back and sends the rest without it. Nobody who takes
//! anything is disconnected for being a slow reader, which is why this differs from a request that comes too slowly (`inbox`): that
//! one needs its memory until its last byte.

use std::io;
use std::time::{Duration, Instant};

use crate::net::transport::Transport;

/// How often a connection that waits for its client to take a reply looks whether others wait for its memory.
const LOOK: Duration = Duration::from_millis(50);

/// A client that takes nothing of a large reply for so long is seen off once others wait for memory.
const SILENCE_MAX: Duration = if cfg!(test) {
    Duration::from_millis(200)
} else {
    Duration::from_secs(10)
};

/// Sends all of a large reply. The error is `TimedOut` when the client has taken nothing for `SILENCE_MAX` and the memory
/// of the reply `is_wanted`.
pub fn send_large(
    transport: &Transport,
    bytes: &[u8],
    is_wanted: impl Fn() -> bool,
) -> io::Result<()> {
    let (mut sent, mut taken_at) = (0, Instant::now());
    while sent < bytes.len() {
        match transport.write_ready(&bytes[sent..])? {
            Some(taken) => {
                sent += taken;
                taken_at = Instant::now();
            }
            None if taken_at.elapsed() > SILENCE_MAX && is_wanted() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => transport.wait_for_room(LOOK)?,
        }
    }
    Ok(())
}

/// Sends `bytes`, or as many of them as the client takes before `is_wanted`; returns how many were sent. A reply that the
/// socket takes whole costs one system call, as it does with `write_all`.
pub fn send_until(
    transport: &Transport,
    bytes: &[u8],
    is_wanted: impl Fn() -> bool,
) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match transport.write_ready(&bytes[sent..])? {
            Some(taken) => sent += taken,
            None if is_wanted() => break,
            None => transport.wait_for_room(LOOK)?,
        }
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::thread;

    use super::*;

    /// More than the buffers of a connection to the same machine take.
    const LARGE_BYTES: usize = 32 << 20;

    fn pair() -> (TcpStream, Transport) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Transport::plain(server).unwrap())
    }

    #[test]
    fn a_reply_that_is_not_taken_is_left_once_its_memory_is_wanted() {
        let (_client, server) = pair();
        let looks = AtomicU32::new(0);
        let is_wanted = || looks.fetch_add(1, Relaxed) == 2;
        let sent = send_until(&server, &vec![1; LARGE_BYTES], is_wanted).unwrap();
        assert!(sent > 0 && sent < LARGE_BYTES, "{sent}");
        assert_eq!(looks.into_inner(), 3);
    }

    #[test]
    fn a_reply_that_is_taken_is_sent_whole() {
        let (mut client, server) = pair();
        let reading = thread::spawn(move || {
            let mut taken = Vec::new();
            client.read_to_end(&mut taken).unwrap();
            taken.len()
        });
        let sent = send_until(&server, &vec![1; LARGE_BYTES], || false).unwrap();
        drop(server);
        assert_eq!((sent, reading.join().unwrap()), (LARGE_BYTES, LARGE_BYTES));
        // Nothing is wanted of a reply that the socket takes at once.
        let (_client, server) = pair();
        assert_eq!(send_until(&server, b"reply", || true).unwrap(), 5);
    }

    #[test]
    fn a_client_that_takes_nothing_is_seen_off_once_others_wait_for_memory() {
        let (mut client, server) = pair();
        let is_wanted = AtomicU32::new(0);
        let bytes = vec![1; LARGE_BYTES];
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let sent = send_large(&server, &bytes, || is_wanted.load(Relaxed) > 0);
                sent.map_err(|error| error.kind())
            });
            thread::sleep(SILENCE_MAX * 2);
            assert!(!sending.is_finished(), "nobody wants it yet");
            is_wanted.store(1, Relaxed);
            assert_eq!(sending.join().unwrap(), Err(io::ErrorKind::TimedOut));
            server.close();
            let mut taken = Vec::new();
            let _ = client.read_to_end(&mut taken);
            assert!(taken.len() < LARGE_BYTES);
        });
    }

    #[test]
    fn a_client_that_has_gone_ends_the_sending() {
        let (client, server) = pair();
        drop(client);
        // The first send is answered by a reset, which the second one sees.
        let sent = send_until(&server, &vec![1; LARGE_BYTES], || false);
        assert!(sent.is_err());
    }
}
