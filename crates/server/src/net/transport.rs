//! The bytes between a client and the thread that serves it, whatever carries them.
//!
//! Everything that a connection does with its socket stands here, so that an encrypted stream stands beside the plain one
//! without the inbox, busy polling or the conversation knowing. One thread reads and writes; any thread may ask whether the
//! client is gone and may end a side. A stream begins plain and may become encrypted once, before its first message
//! (`handshake`). A call on a plain one costs what its system call costs and one comparison.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ServerConfig;

use crate::net::tls_stream::{FAREWELL_BYTES_MAX, HandshakeError, TlsStream, is_farewell};

/// A stream of bytes to and from one client.
pub struct Transport {
    stream: TcpStream,
    /// The address that is told as the server's end where the socket has no address.
    stands_for: Option<SocketAddr>,
    /// Set by the thread that serves the connection, when its client has shaken hands.
    tls: OnceLock<Box<TlsStream>>,
}

impl Transport {
    /// A stream without encryption. Replies leave when they are written, not when more could leave with them.
    pub fn plain(stream: TcpStream) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        Ok(Transport {
            stream,
            stands_for: None,
            tls: OnceLock::new(),
        })
    }

    /// Like `plain`, for a client that came by a socket of the file system instead of the address that it stands for.
    pub fn unix(stream: UnixStream, stands_for: SocketAddr) -> Transport {
        Transport {
            // Every call here means the same on both kinds of socket.
            stream: TcpStream::from(OwnedFd::from(stream)),
            stands_for: Some(stands_for),
            tls: OnceLock::new(),
        }
    }

    /// The stream of a client within this process, which says what it has to say elsewhere: nothing is ever read or written here. The
    /// client is gone once the other end is dropped.
    pub fn in_process() -> io::Result<(Transport, UnixStream)> {
        let (stream, other_end) = UnixStream::pair()?;
        let transport = Transport {
            stream: TcpStream::from(OwnedFd::from(stream)),
            stands_for: None,
            tls: OnceLock::new(),
        };
        Ok((transport, other_end))
    }

    /// Shakes hands with the client, until `deadline` at most; from then on everything is encrypted.
    pub fn encrypt(
        &self,
        config: Arc<ServerConfig>,
        deadline: Instant,
    ) -> Result<(), HandshakeError> {
        let tls = TlsStream::accept(&self.stream, config, deadline)?;
        let _ = self.tls.set(Box::new(tls));
        Ok(())
    }

    /// The encrypted stream; none where the stream is plain.
    #[inline]
    pub fn tls(&self) -> Option<&TlsStream> {
        self.tls.get().map(|tls| &**tls)
    }

    /// The first bytes that the client sends, which stay in the stream: sleeps until as many have come as `buffer` takes, the
    /// client has closed its side, or the read timeout is over. Says how many there are.
    pub fn look_ahead(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(
                &self.stream,
                &mut *buffer,
                RecvFlags::PEEK | RecvFlags::WAITALL,
            ) {
                Ok((bytes, _)) => return Ok(bytes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sleeps until bytes come and reads up to a buffer of them; 0 at the end of the stream. With a read timeout the
    /// error is `WouldBlock` when nothing came within it.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(tls) = self.tls() {
            return tls.read(&self.stream, buffer);
        }
        loop {
            match recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((bytes, _)) => return Ok(bytes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Like `read`, but never sleeps; none when nothing is there. Calling it over and over can stand in for sleeping: it sees
    /// all that came, and what was decrypted and not read.
    #[inline]
    pub fn read_ready(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(tls) = self.tls() {
            return tls.read_ready(&self.stream, buffer);
        }
        match recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all of it, however long the client takes.
    #[inline]
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self.tls() {
            None => (&self.stream).write_all(bytes),
            Some(tls) => tls.write_all(&self.stream, bytes),
        }
    }

    /// Writes what the client takes without making anybody sleep; none when that is nothing now. Who got none comes again with
    /// the same bytes, here or in `write_all`.
    pub fn write_ready(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if let Some(tls) = self.tls() {
            return tls.write_ready(&self.stream, bytes);
        }
        loop {
            match send(
                &self.stream,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
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
        match poll_within(&self.stream, PollFlags::OUT, limit) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Bounds how long `read` sleeps; without a limit it sleeps for as long as the client is silent.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(limit)
    }

    /// Sleeps until there is something to read, the end of the stream included; false when that takes longer than `limit`.
    #[inline]
    pub fn has_input_within(&self, limit: Duration) -> bool {
        if let Some(tls) = self.tls() {
            return self.has_decrypted_input(tls, None, limit);
        }
        loop {
            match poll_within(&self.stream, PollFlags::IN | PollFlags::RDHUP, limit) {
                Err(Errno::INTR) => {}
                // What fails here fails in the read as well, which says why.
                found => return found != Ok(0),
            }
        }
    }

    /// Like `has_input_within`, but ends as soon as `event` can be read as well, which is no input.
    pub fn has_input_before(&self, event: BorrowedFd<'_>, limit: Duration) -> bool {
        if let Some(tls) = self.tls() {
            return self.has_decrypted_input(tls, Some(event), limit);
        }
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.poll_beside(Some(event), left) {
                Err(Errno::INTR) => {}
                // What fails here fails in the read as well, which says why.
                Err(_) => return true,
                Ok(found) => return found == Found::Input,
            }
        }
    }

    /// The encrypted side of `has_input_within` and `has_input_before`: bytes of the socket are input once they make a record
    /// with something in it.
    fn has_decrypted_input(
        &self,
        tls: &TlsStream,
        event: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if tls.has_input(&self.stream) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.poll_beside(event, left) {
                Ok(Found::Input) | Err(Errno::INTR) => {}
                Ok(Found::Nothing) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Sleeps until the socket or `event` can be read, for `limit` at most.
    fn poll_beside(&self, event: Option<BorrowedFd<'_>>, limit: Duration) -> Result<Found, Errno> {
        let flags = PollFlags::IN | PollFlags::RDHUP;
        let socket = PollFd::new(&self.stream, flags);
        // Without an event the socket is looked at twice.
        let beside = match event {
            Some(event) => PollFd::from_borrowed_fd(event, PollFlags::IN),
            None => PollFd::new(&self.stream, flags),
        };
        let mut looked = [socket, beside];
        poll(&mut looked, Some(&timeout(limit)))?;
        Ok(match looked[0].revents().is_empty() {
            true => Found::Nothing,
            false => Found::Input,
        })
    }

    /// Whether something has been read from the socket that is not input yet: a part of an encrypted record.
    pub fn has_part(&self) -> bool {
        self.tls().is_some_and(TlsStream::has_part)
    }

    /// The address of the server's end: the one that the client has connected to, unless something stands between that
    /// changes it. Where it has opened a file, the address that the file stands for. None for a socket that is closed.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.stands_for.or_else(|| self.stream.local_addr().ok())
    }

    /// Whether the client has closed its side. Takes nothing from the stream and never sleeps.
    pub fn is_gone(&self) -> bool {
        let mut left = [0; FAREWELL_BYTES_MAX + 1];
        let looked = if self.tls().is_some() { left.len() } else { 1 };
        match recv(
            &self.stream,
            &mut left[..looked],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok((0, _)) => true,
            // A client of TLS may say farewell before it closes, which nobody has read yet.
            Ok((bytes, _)) => {
                self.tls().is_some()
                    && is_farewell(bytes)
                    && poll_within(&self.stream, PollFlags::RDHUP, Duration::ZERO) != Ok(0)
            }
            Err(error) => error != Errno::WOULDBLOCK && error != Errno::INTR,
        }
    }

    /// Has `watch`, which is an epoll, report `token` once, as soon as the socket can be read or has ended: also when that is
    /// so already. Bytes that were read from the socket and not handed on are not seen.
    pub fn watch(&self, watch: impl AsFd, token: u64) -> io::Result<()> {
        let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        Ok(epoll::add(
            watch,
            &self.stream,
            EventData::new_u64(token),
            events,
        )?)
    }

    /// Undoes `watch`, so that it can be called again.
    pub fn unwatch(&self, watch: impl AsFd) {
        // It fails for a socket that is not watched, which is what is wanted.
        let _ = epoll::delete(watch, &self.stream);
    }

    /// Ends the reading side: who sleeps in `read` gets what has come and then the end of the stream.
    pub fn stop_reading(&self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Ends both sides: who sleeps in a call here no longer does.
    pub fn close(&self) {
        if let Some(tls) = self.tls() {
            tls.close_notify(&self.stream);
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The outcome of a look at a socket beside an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The socket can be read.
    Input,
    /// It cannot: the time is over, or the event has come.
    Nothing,
}

/// Sleeps until the stream is as `flags` say, for `limit` at most; 0 when it was not.
pub fn poll_within(stream: &TcpStream, flags: PollFlags, limit: Duration) -> Result<usize, Errno> {
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
    fn a_client_within_the_process_is_gone_with_its_end() {
        let (server, other_end) = Transport::in_process().unwrap();
        assert!(!server.is_gone() && server.local_address().is_none());
        drop(other_end);
        assert!(server.is_gone());
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

#[cfg(test)]
mod encrypted_tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::ring;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// The configurations of both sides, with a certificate of their own.
    fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server), Arc::new(client))
    }

    fn sockets() -> (TcpStream, Transport) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Transport::plain(server).unwrap())
    }

    type Client = StreamOwned<ClientConnection, TcpStream>;

    fn pair() -> (Client, Transport) {
        let (for_server, for_client) = configs();
        let (socket, server) = sockets();
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(for_client, name).unwrap();
        let mut client = StreamOwned::new(session, socket);
        thread::scope(|scope| {
            let shaken = scope.spawn(|| server.encrypt(for_server, Instant::now() + LONG).is_ok());
            while client.conn.is_handshaking() {
                client.conn.complete_io(&mut client.sock).unwrap();
            }
            assert!(shaken.join().unwrap());
        });
        (client, server)
    }

    /// The bytes of one record on the wire, unsent.
    fn record(client: &mut Client, text: &[u8]) -> Vec<u8> {
        client.conn.writer().write_all(text).unwrap();
        let mut bytes = Vec::new();
        while client.conn.wants_write() {
            client.conn.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn what_was_decrypted_is_there_without_the_socket() {
        let (mut client, server) = pair();
        let mut buffer = [0; 3];
        assert_eq!(server.read_ready(&mut buffer).unwrap(), None);
        assert!(!server.has_input_within(Duration::ZERO));
        client.write_all(b"two asks").unwrap();
        assert_eq!(server.read(&mut buffer).unwrap(), 3);
        // The rest of the record is in no socket any more.
        assert!(server.has_input_within(Duration::ZERO));
        assert_eq!(server.read_ready(&mut buffer).unwrap(), Some(3));
        let mut rest = [0; 8];
        assert_eq!(server.read(&mut rest).unwrap(), 2);
        assert_eq!((&buffer, &rest[..2]), (b" as", &b"ks"[..]));
        assert!(!server.has_input_within(Duration::ZERO) && !server.is_gone());
    }

    #[test]
    fn a_part_of_a_record_is_no_input_and_keeps_nobody() {
        let (mut client, server) = pair();
        let bytes = record(&mut client, b"request");
        let (begun, rest) = bytes.split_at(bytes.len() - 1);
        client.sock.write_all(begun).unwrap();
        assert!(!server.has_input_within(Duration::from_millis(20)));
        assert_eq!(server.read_ready(&mut [0; 8]).unwrap(), None);
        server
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let error = server.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        server.set_read_timeout(None).unwrap();
        client.sock.write_all(rest).unwrap();
        assert!(server.has_input_within(LONG));
        let mut buffer = [0; 8];
        assert_eq!(server.read(&mut buffer).unwrap(), 7);
        // Who sleeps for the rest of a record is woken by the end of the side.
        let bytes = record(&mut client, b"never");
        client.sock.write_all(&bytes[..bytes.len() - 1]).unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| server.read(&mut [0; 8]));
            server.stop_reading();
            assert_eq!(reader.join().unwrap().unwrap(), 0);
        });
    }

    #[test]
    fn a_client_that_goes_is_seen_with_a_farewell_and_without() {
        for says_farewell in [true, false] {
            let (mut client, server) = pair();
            assert!(!server.is_gone());
            if says_farewell {
                client.conn.send_close_notify();
                client.flush().unwrap();
            }
            drop(client);
            assert!(poll_within(&server.stream, PollFlags::RDHUP, LONG) == Ok(1));
            assert!(server.is_gone());
            assert!(server.has_input_within(LONG));
            assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        }
        // A message that it left is more than a farewell: it is read first.
        let (mut client, server) = pair();
        client.write_all(&[7; 26]).unwrap();
        drop(client);
        assert!(poll_within(&server.stream, PollFlags::RDHUP, LONG) == Ok(1));
        assert!(!server.is_gone());
        assert_eq!(server.read(&mut [0; 64]).unwrap(), 26);
    }

    #[test]
    fn a_reply_that_is_taken_slowly_arrives_whole_and_once() {
        let (mut client, server) = pair();
        let reply: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        let mut sent = 0;
        while let Some(taken) = server.write_ready(&reply[sent..]).unwrap() {
            sent += taken;
        }
        assert!(sent > 0 && sent < reply.len());
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut taken = vec![0; reply.len() + 4];
                client.read_exact(&mut taken).map(|()| taken)
            });
            // A record is encrypted and half sent; the rest follows from there.
            server.write_all(&reply[sent..]).unwrap();
            server.write_all(b"next").unwrap();
            let taken = reader.join().unwrap().unwrap();
            assert!(taken[..reply.len()] == reply && taken.ends_with(b"next"));
        });
    }

    #[test]
    fn the_server_says_farewell() {
        let (mut client, server) = pair();
        server.write_all(b"last").unwrap();
        server.close();
        let mut all = Vec::new();
        // An end without a farewell would be an error here.
        client.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"last");
        assert!(server.write_all(b"too late").is_err());
    }

    /// Reads until a read ends in something else than a time that is over while nothing has come.
    fn outlasted(server: &Transport) -> io::ErrorKind {
        loop {
            match server.read(&mut [0; 8]) {
                Ok(bytes) => panic!("{bytes} bytes have come"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return error.kind(),
            }
        }
    }

    #[test]
    fn a_record_that_drips_keeps_no_read_and_comes_in_time_or_not_at_all() {
        const TICK: Duration = Duration::from_millis(20);
        let (mut client, server) = pair();
        server.set_read_timeout(Some(TICK * 2)).unwrap();
        let bytes = record(&mut client, &[1; 4096]);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // More often than the read timeout, so that no read of the socket ever waits for as long.
                for drop in bytes.chunks(1) {
                    if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    let _ = client.sock.write_all(drop);
                    thread::sleep(TICK / 4);
                }
            });
            let error = server.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert!(server.has_part());
            assert_eq!(outlasted(&server), io::ErrorKind::TimedOut);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn who_is_silent_between_two_records_has_begun_none() {
        let (mut client, server) = pair();
        let bytes = [record(&mut client, b"first"), record(&mut client, b"last")].concat();
        let (begun, rest) = bytes.split_at(bytes.len() - 3);
        client.sock.write_all(begun).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(server.read(&mut buffer).unwrap(), 5);
        client.sock.write_all(rest).unwrap();
        assert_eq!(server.read(&mut buffer).unwrap(), 4);
        assert!(!server.has_part());
    }

    #[test]
    fn a_damaged_record_ends_the_stream() {
        let (mut client, server) = pair();
        let mut bytes = record(&mut client, b"request");
        *bytes.last_mut().unwrap() ^= 1;
        client.sock.write_all(&bytes).unwrap();
        assert!(server.has_input_within(LONG));
        for _ in 0..2 {
            let error = server.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn broken_handshakes_end_in_time_and_leave_nothing() {
        let (for_server, for_client) = configs();
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(for_client, name).unwrap();
        let mut hello = Vec::new();
        session.write_tls(&mut hello).unwrap();
        let before = Arc::strong_count(&for_server);
        let mut state = 1u32;
        let mut next = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        for round in 0..1000 {
            let (mut client, server) = sockets();
            let mut bytes = hello.clone();
            match round % 3 {
                0 => bytes.truncate(next(hello.len())),
                1 => bytes[next(hello.len())] ^= 1 << next(8),
                _ => bytes
                    .iter_mut()
                    .skip(next(64))
                    .for_each(|byte| *byte = next(256) as u8),
            }
            client.write_all(&bytes).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let shaken = server.encrypt(Arc::clone(&for_server), Instant::now() + LONG);
            assert!(shaken.is_err() && server.tls().is_none(), "{round}");
        }
        assert_eq!(Arc::strong_count(&for_server), before);
        // One that begins and says no more is given up.
        let (mut client, server) = sockets();
        client.write_all(&hello[..9]).unwrap();
        let shaken = server.encrypt(for_server, Instant::now() + Duration::from_millis(20));
        assert!(matches!(shaken, Err(HandshakeError::TimedOut)));
    }
}
