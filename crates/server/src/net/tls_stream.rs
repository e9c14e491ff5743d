//! One encrypted stream: TLS 1.2 or 1.3 by rustls, over a socket that stays its owner's.
//!
//! The session is used by the thread that serves the connection and by no other: its lock is free whenever that thread
//! takes it, and nobody else waits for it (`close_notify`, which any thread may call, tries). So the lock may be held
//! over a read that sleeps. Whoever wants to wake the thread ends a side of the socket, which needs no lock.
//!
//! Keeps true: bytes that have come and been decrypted are seen before the socket is asked; a record of which a part has
//! come is no input; what TLS itself has to say (an alert, a new key) never makes a read sleep in a write. A session holds
//! one record of the client's at most, read and decrypted, and one of ours: 50 KB, beside 4 KB that an idle one keeps.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::CertificateDer;
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};

use crate::net::tls_records::{Noted, Records};
use crate::net::transport::poll_within;

/// The plaintext of the largest record.
const RECORD_BYTES_MAX: usize = 16 << 10;

/// A record that has begun comes whole within this time, as a message of its size does (`inbox`): nobody keeps a thread by the
/// first half of one.
const RECORD_TIME: Duration = if cfg!(test) {
    Duration::from_secs(1)
} else {
    Duration::from_secs(64)
};

/// An encrypted stream, once its handshake is done.
pub struct TlsStream {
    state: Mutex<State>,
    version: Option<ProtocolVersion>,
}

struct State {
    session: ServerConnection,
    /// How many bytes at the head of what is written next are encrypted already, in a record that was not sent whole.
    encrypted: usize,
    /// The session has failed: nothing that comes can be read any more.
    failure: Option<rustls::Error>,
    records: Records,
    /// How many had come whole when bytes came last.
    whole: u32,
    /// Since when a part of a record is here that has not come whole.
    part_since: Option<Instant>,
}

/// Why a handshake came to nothing.
pub enum HandshakeError {
    /// It took longer than it may.
    TimedOut,
    /// The client ended the connection before.
    Ended,
    /// Either side refuses the other.
    Refused(rustls::Error),
    Failed(io::Error),
}

impl TlsStream {
    /// Shakes hands with the client, which takes until `deadline` at most however slowly its bytes come. Who ends a side of
    /// the socket ends it, too.
    pub fn accept(
        stream: &TcpStream,
        config: Arc<ServerConfig>,
        deadline: Instant,
    ) -> Result<TlsStream, HandshakeError> {
        let mut session = ServerConnection::new(config).map_err(HandshakeError::Refused)?;
        let mut records = Records::default();
        while session.is_handshaking() || session.wants_write() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HandshakeError::TimedOut);
            }
            let moved = if session.wants_write() {
                session.write_tls(&mut Ready(stream))
            } else {
                session.read_tls(&mut Noted {
                    from: Ready(stream),
                    records: &mut records,
                })
            };
            match moved {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let wanted = match session.wants_write() {
                        true => PollFlags::OUT,
                        false => PollFlags::IN | PollFlags::RDHUP,
                    };
                    // What fails here fails in the next call as well, which says why.
                    let _ = poll_within(stream, wanted, left);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(HandshakeError::Failed(error)),
                Ok(0) => return Err(HandshakeError::Ended),
                Ok(_) => {}
            }
            if let Err(error) = session.process_new_packets() {
                // The alert that tells the client why.
                let _ = session.write_tls(&mut Ready(stream));
                return Err(HandshakeError::Refused(error));
            }
        }
        let version = session.protocol_version();
        Ok(TlsStream {
            state: Mutex::new(State {
                session,
                encrypted: 0,
                failure: None,
                whole: records.whole(),
                records,
                part_since: None,
            }),
            version,
        })
    }

    /// The version that both have agreed on.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// The client's certificate and those that lead from it to an authority; none where it has shown none.
    pub fn client_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let state = self.state.lock();
        let shown = state.session.peer_certificates()?;
        Some(shown.iter().map(|one| one.clone().into_owned()).collect())
    }

    /// Sleeps until bytes come and reads up to a buffer of them; 0 at the end of the stream. A read timeout of the socket is
    /// the error `WouldBlock`, also where parts of a record come all the while; a record that takes too long is `TimedOut`.
    pub fn read(&self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let state = &mut *self.state.lock();
        let mut deadline = None;
        loop {
            if let Some(bytes) = state.take(buffer)? {
                return Ok(bytes);
            }
            if let Some(since) = state.part_since {
                check_part(since, stream, &mut deadline)?;
            }
            let mut noted = Noted {
                from: stream,
                records: &mut state.records,
            };
            match state.session.read_tls(&mut noted) {
                Ok(_) => state.process(stream)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Like `read`, but never sleeps; none where no whole record is there.
    pub fn read_ready(&self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut state = self.state.lock();
        loop {
            if let Some(bytes) = state.take(buffer)? {
                return Ok(Some(bytes));
            }
            if !state.pull(stream)? {
                return Ok(None);
            }
        }
    }

    /// Whether `read` would not sleep: bytes are decrypted, or the stream has ended or failed. Takes what has come from the
    /// socket, and never sleeps.
    pub fn has_input(&self, stream: &TcpStream) -> bool {
        let mut state = self.state.lock();
        loop {
            // The end and a failure are input: the next read tells them.
            if !matches!(state.take(&mut []), Ok(None)) {
                return true;
            }
            match state.pull(stream) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Whether a part of a record has come whose rest has not.
    pub fn has_part(&self) -> bool {
        self.state.lock().part_since.is_some()
    }

    /// Writes all of it, however long the client takes.
    pub fn write_all(&self, stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let encrypted = std::mem::take(&mut state.encrypted);
        let mut rest = bytes.get(encrypted..).unwrap_or_default();
        loop {
            while state.session.wants_write() {
                match state.session.write_tls(&mut &*stream) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if rest.is_empty() {
                return Ok(());
            }
            let taken = state.session.writer().write(rest)?;
            if taken == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            rest = &rest[taken..];
        }
    }

    /// Writes what the client takes, a record at most, without making anybody sleep; none when that is not all of a record.
    /// Whoever got none comes again with the same bytes, here or in `write_all`: the record is encrypted already.
    pub fn write_ready(&self, stream: &TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut state = self.state.lock();
        if state.encrypted == 0 {
            let record = &bytes[..bytes.len().min(RECORD_BYTES_MAX)];
            state.encrypted = state.session.writer().write(record)?;
        }
        if !state.flush(stream)? {
            return Ok(None);
        }
        match std::mem::take(&mut state.encrypted) {
            0 => Err(ErrorKind::WriteZero.into()),
            taken => Ok(Some(taken)),
        }
    }

    /// Tells the client that nothing follows, if that can be done now and nobody is in the middle of something else.
    pub fn close_notify(&self, stream: &TcpStream) {
        if let Some(mut state) = self.state.try_lock() {
            state.session.send_close_notify();
            let _ = state.flush(stream);
        }
    }
}

impl State {
    /// Takes decrypted bytes; 0 at the end of the stream, none where there are none yet. With an empty buffer it only looks,
    /// and finds 0 where there are some.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut reader = self.session.reader();
        let taken = match buffer.is_empty() {
            true => reader.into_first_chunk().map(|_| 0),
            false => reader.read(buffer),
        };
        match taken {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => match &self.failure {
                None => Ok(None),
                Some(failure) => Err(io::Error::new(ErrorKind::InvalidData, failure.clone())),
            },
            // The client has closed its socket without a farewell, as many do. Where a message was under way the inbox says so.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Takes what has come from the socket, without sleeping; false where that is nothing. Decrypted bytes have been taken
    /// before.
    fn pull(&mut self, stream: &TcpStream) -> io::Result<bool> {
        let mut noted = Noted {
            from: Ready(stream),
            records: &mut self.records,
        };
        match self.session.read_tls(&mut noted) {
            Ok(_) => self.process(stream).map(|()| true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Decrypts the records that are whole, and sends what TLS itself answers as far as the client takes it now.
    fn process(&mut self, stream: &TcpStream) -> io::Result<()> {
        let processed = self.session.process_new_packets();
        self.note_part();
        if self.session.wants_write() {
            self.flush(stream)?;
        }
        // What was decrypted before is read first; then the failure is told, as often as it is asked for.
        self.failure = processed.err();
        Ok(())
    }

    /// Notes since when a record has not come whole. Each record has its own time.
    fn note_part(&mut self) {
        let whole = self.records.whole();
        let is_another = std::mem::replace(&mut self.whole, whole) != whole;
        self.part_since = match (self.records.is_within_one(), self.part_since) {
            (false, _) => None,
            (true, Some(since)) if !is_another => Some(since),
            (true, _) => Some(Instant::now()),
        };
    }

    /// Sends what is encrypted without sleeping; false where something is left.
    fn flush(&mut self, stream: &TcpStream) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Ready(stream)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Fails where a record has taken too long since its first part, and where the socket's read timeout is over, which is counted from
/// the first call on.
#[cold]
fn check_part(
    since: Instant,
    stream: &TcpStream,
    deadline: &mut Option<Instant>,
) -> io::Result<()> {
    let now = Instant::now();
    if now - since > RECORD_TIME {
        let why = "a record of TLS did not come whole in time";
        return Err(io::Error::new(ErrorKind::TimedOut, why));
    }
    match (*deadline, stream.read_timeout()?) {
        (Some(deadline), _) if now >= deadline => Err(ErrorKind::WouldBlock.into()),
        (Some(_), _) | (None, None) => Ok(()),
        (None, Some(timeout)) => {
            *deadline = Some(now + timeout);
            Ok(())
        }
    }
}

/// The socket as it is now: nothing sleeps, whatever the socket is set to.
struct Ready<'a>(&'a TcpStream);

impl Read for Ready<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match recv(self.0, buffer, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(bytes),
            Err(error) => Err(error.into()),
        }
    }
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(self.0, bytes, flags).map_err(Errno::into)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a client that has closed its side has nothing more to say: what is left unread, of which the first bytes are
/// `left`, is too little for a record with a message in it, and so the farewell of TLS.
pub fn is_farewell(left: usize) -> bool {
    left <= FAREWELL_BYTES_MAX
}

/// The longest record that holds an alert and nothing else: header, nonce, alert and tag of TLS 1.2. A record with the
/// smallest message has 16 bytes more.
pub const FAREWELL_BYTES_MAX: usize = 5 + 8 + 2 + 16;

/// How long the client has for its part of the handshake. Drivers give up after as long themselves.
pub const HANDSHAKE_TIME: Duration = if cfg!(test) {
    Duration::from_millis(500)
} else {
    Duration::from_secs(20)
};
