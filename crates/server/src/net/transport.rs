//! The bytes between a client and the thread that serves it, whatever carries them.
//!
//! Everything that a connection does with its socket stands here, so that an encrypted stream can stand beside the plain
//! one without the inbox, busy polling or the conversation knowing. One thread reads and writes; any thread may ask
//! whether the client is gone and may end a side. A call costs what its system call costs: the kind of the stream is
//! known at compile time as long as there is one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A stream of bytes to and from one client.
pub enum Transport {
    /// The bytes as they are.
    Plain(TcpStream),
}

impl Transport {
    /// A stream without encryption. Replies leave when they are written, not when more could leave with them.
    pub fn plain(stream: TcpStream) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        Ok(Transport::Plain(stream))
    }

    /// Whether `read_ready` sees all that came, so that calling it over and over can stand in for sleeping. It would not
    /// for a stream whose bytes may be here and not yet make a whole record.
    #[inline]
    pub fn may_be_polled(&self) -> bool {
        match self {
            Transport::Plain(_) => true,
        }
    }

    /// Sleeps until bytes come and reads up to a buffer of them; 0 at the end of the stream. With a read timeout the
    /// error is `WouldBlock` when nothing came within it.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Transport::Plain(stream) = self;
        loop {
            match recv(stream, &mut *buffer, RecvFlags::empty()) {
                Ok((bytes, _)) => return Ok(bytes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Like `read`, but never sleeps; none when nothing is there.
    #[inline]
    pub fn read_ready(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Transport::Plain(stream) = self;
        match recv(stream, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends bytes until `bytes` of them have come or the stream has ended; says how many came. The buffer's spare room
    /// is filled without being cleared before.
    pub fn append(&self, bytes: usize, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let Transport::Plain(stream) = self;
        stream.take(bytes as u64).read_to_end(buffer)
    }

    /// Writes all of it, however long the client takes.
    #[inline]
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Transport::Plain(stream) = self;
        (&*stream).write_all(bytes)
    }

    /// Writes what the client takes without making anybody sleep; none when that is nothing now.
    pub fn write_ready(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let Transport::Plain(stream) = self;
        loop {
            match send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => return Ok(Some(taken)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sleeps until the client has taken something, for `limit` at most. What fails on the stream fails in the next write.
    pub fn wait_for_room(&self, limit: Duration) -> io::Result<()> {
        let Transport::Plain(stream) = self;
        match poll_within(stream, PollFlags::OUT, limit) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Bounds how long `read` sleeps; without a limit it sleeps for as long as the client is silent.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        let Transport::Plain(stream) = self;
        stream.set_read_timeout(limit)
    }

    /// Sleeps until there is something to read, the end of the stream included; false when that takes longer than `limit`.
    #[inline]
    pub fn has_input_within(&self, limit: Duration) -> bool {
        let Transport::Plain(stream) = self;
        loop {
            match poll_within(stream, PollFlags::IN | PollFlags::RDHUP, limit) {
                Err(Errno::INTR) => {}
                // What fails here fails in the read as well, which says why.
                found => return found != Ok(0),
            }
        }
    }

    /// Like `has_input_within`, but ends as soon as `event` can be read as well, which is no input.
    pub fn has_input_before(&self, event: BorrowedFd<'_>, limit: Duration) -> bool {
        let Transport::Plain(stream) = self;
        let deadline = Instant::now() + limit;
        loop {
            let mut looked = [
                PollFd::new(stream, PollFlags::IN | PollFlags::RDHUP),
                PollFd::from_borrowed_fd(event, PollFlags::IN),
            ];
            let left = deadline.saturating_duration_since(Instant::now());
            match poll(&mut looked, Some(&timeout(left))) {
                Err(Errno::INTR) => {}
                // What fails here fails in the read as well, which says why.
                Err(_) => return true,
                Ok(_) => return !looked[0].revents().is_empty(),
            }
        }
    }

    /// The address of the server's end: the one that the client has connected to, unless something stands between that
    /// changes it. None for a socket that is closed.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let Transport::Plain(stream) = self;
        stream.local_addr().ok()
    }

    /// Whether the client has closed its side. Takes nothing from the stream and never sleeps.
    pub fn is_gone(&self) -> bool {
        let Transport::Plain(stream) = self;
        let mut byte = [0; 1];
        match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => bytes == 0,
            Err(error) => error != Errno::WOULDBLOCK && error != Errno::INTR,
        }
    }

    /// Ends the reading side: who sleeps in `read` gets what has come and then the end of the stream.
    pub fn stop_reading(&self) {
        let Transport::Plain(stream) = self;
        let _ = stream.shutdown(Shutdown::Read);
    }

    /// Ends both sides: who sleeps in a call here no longer does.
    pub fn close(&self) {
        let Transport::Plain(stream) = self;
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Sleeps until the stream is as `flags` say, for `limit` at most; 0 when it was not.
fn poll_within(stream: &TcpStream, flags: PollFlags, limit: Duration) -> Result<usize, Errno> {
    poll(&mut [PollFd::new(stream, flags)], Some(&timeout(limit)))
}

fn timeout(limit: Duration) -> Timespec {
    Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn pair() -> (TcpStream, Transport) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Transport::plain(server).unwrap())
    }

    #[test]
    fn what_is_there_is_read_without_sleeping_and_nothing_is_none() {
        let (mut client, server) = pair();
        let mut buffer = [0; 8];
        assert!(server.may_be_polled());
        assert_eq!(server.read_ready(&mut buffer).unwrap(), None);
        assert!(!server.has_input_within(Duration::ZERO));
        client.write_all(b"ask").unwrap();
        assert!(server.has_input_within(LONG));
        // A look at the client takes nothing from the stream.
        assert!(!server.is_gone());
        assert_eq!(server.read_ready(&mut buffer).unwrap(), Some(3));
        assert_eq!(&buffer[..3], b"ask");
    }

    #[test]
    fn the_end_of_a_client_is_seen_and_is_input() {
        let (client, server) = pair();
        assert!(!server.is_gone());
        drop(client);
        assert!(server.has_input_within(LONG) && server.is_gone());
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(server.read_ready(&mut [0; 8]).unwrap(), Some(0));
    }

    #[test]
    fn bytes_are_appended_up_to_a_number_or_the_end() {
        let (mut client, server) = pair();
        let mut buffer = b"kept ".to_vec();
        thread::scope(|scope| {
            scope.spawn(move || {
                for part in [b"so ", b"it ", b"is "] {
                    client.write_all(part).unwrap();
                }
            });
            assert_eq!(server.append(4, &mut buffer).unwrap(), 4);
            assert_eq!(server.append(100, &mut buffer).unwrap(), 5);
        });
        assert_eq!(buffer, b"kept so it is ");
    }

    #[test]
    fn a_read_ends_with_its_limit_and_with_its_side() {
        let (_client, server) = pair();
        server
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let error = server.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        server.set_read_timeout(None).unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| server.read(&mut [0; 8]));
            server.stop_reading();
            assert_eq!(reader.join().unwrap().unwrap(), 0);
        });
        server.close();
        assert!(server.is_gone());
        assert!(server.write_all(b"too late").is_err());
    }
}
