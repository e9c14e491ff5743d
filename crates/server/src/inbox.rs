//! Reading whole messages from a connection into one buffer that is kept.
//!
//! Small messages that arrive whole cost one system call. The buffer grows as bytes arrive, never by what a header
//! merely claims, and shrinks again when large messages have not been seen for a while or the connection is idle.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quarry_timing::Phase;
use quarry_wire::{HEADER_BYTES, Header};

use crate::busy_poll::{Waiting, has_input_within};

/// What one read asks for while no message is known to be larger.
const WINDOW_BYTES: usize = 4 << 10;
/// A large message is read in steps of at most this much.
const STEP_BYTES: usize = 1 << 20;
/// A buffer beyond this is given back after `SMALL_MESSAGES` messages that did not need it.
const KEPT_BYTES: usize = 64 << 10;
const SMALL_MESSAGES: u32 = 64;

#[derive(Default)]
pub struct Inbox {
    buffer: Vec<u8>,
    /// Where the bytes begin that came from the client and are not consumed.
    start: usize,
    /// Where they end.
    filled: usize,
    small_messages: u32,
}

/// What came.
pub enum Arrival {
    /// A whole message of that length.
    Message {
        bytes: usize,
        started: Instant,
        /// Its first bytes came while the connection looked for them.
        was_awake: bool,
    },
    /// Nothing came for as long as the caller would wait.
    NothingYet,
    /// The client closed its side between two messages.
    End,
    /// A header that is none.
    Malformed(String),
}

impl Inbox {
    /// Waits for the next message, and begins the operation's time with its first byte; the clock then runs for
    /// decoding. With `patience` it comes back when nothing has come for so long.
    pub fn receive(
        &mut self,
        stream: &TcpStream,
        waiting: &mut Waiting<'_>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        let mut was_awake = false;
        if self.unread() == 0 {
            self.make_room();
            let Some(read) = waiting.read(stream, &mut self.buffer, patience)? else {
                return Ok(Arrival::NothingYet);
            };
            self.filled = read.bytes;
            was_awake = read.was_awake;
            if self.filled == 0 {
                return Ok(Arrival::End);
            }
        }
        if let Some(patience) = patience
            && !self.has_whole_message()
            && !has_input_within(stream, patience)
        {
            return Ok(Arrival::NothingYet);
        }
        let started = Instant::now();
        // A message that has come whole is read, and who asks nothing of a session need not be known.
        quarry_timing::begin_operation_after([Phase::Read, Phase::Auth], Phase::Decode);
        let came = self.unread();
        while self.unread() < HEADER_BYTES {
            if !self.read_some(stream)? {
                return Ok(Arrival::Malformed(format!(
                    "the connection ended after {} bytes of a header",
                    self.unread()
                )));
            }
        }
        let header = self.buffer[self.start..]
            .first_chunk()
            .expect("the loop above read a whole header");
        let bytes = match Header::parse(header) {
            Ok(header) => header.message_bytes,
            Err(error) => return Ok(Arrival::Malformed(error.to_string())),
        };
        if self.unread() < bytes && !self.read_rest(stream, bytes)? {
            return Ok(Arrival::Malformed(format!(
                "the connection ended after {} of {bytes} bytes",
                self.unread()
            )));
        }
        if came < bytes {
            quarry_timing::turn(Phase::Decode);
        }
        Ok(Arrival::Message {
            bytes,
            started,
            was_awake,
        })
    }

    pub fn message(&self, bytes: usize) -> &[u8] {
        &self.buffer[self.start..self.start + bytes]
    }

    /// Whether bytes of a further message are here already.
    pub fn has_more(&self, bytes: usize) -> bool {
        self.unread() > bytes
    }

    /// Forgets the message. What came after it stays where it is, so that many small messages in one read are not
    /// moved once each.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.unread() == 0 {
            (self.start, self.filled) = (0, 0);
        }
        if self.buffer.len() <= KEPT_BYTES {
            return;
        }
        self.small_messages = if bytes > KEPT_BYTES {
            0
        } else {
            self.small_messages + 1
        };
        if self.small_messages >= SMALL_MESSAGES && self.unread() <= WINDOW_BYTES {
            self.give_back();
        }
    }

    /// Memory held, whether or not it is filled.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Shrinks to what has come and is not consumed.
    pub fn give_back(&mut self) {
        self.move_to_front();
        self.buffer.truncate(self.filled.max(WINDOW_BYTES));
        self.buffer.shrink_to_fit();
        self.small_messages = 0;
    }

    /// Whether the next message needs no further read; a malformed one does not either.
    fn has_whole_message(&self) -> bool {
        let unread = &self.buffer[self.start..self.filled];
        unread.first_chunk().is_some_and(|header| {
            Header::parse(header).map_or(true, |header| header.message_bytes <= unread.len())
        })
    }

    fn unread(&self) -> usize {
        self.filled - self.start
    }

    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
    }

    fn make_room(&mut self) {
        if self.buffer.len() < WINDOW_BYTES {
            self.buffer.resize(WINDOW_BYTES, 0);
        }
    }

    /// One read; false at the end of the stream.
    fn read_some(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        quarry_timing::turn(Phase::Read);
        self.move_to_front();
        self.make_room();
        loop {
            match stream.read(&mut self.buffer[self.filled..]) {
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads up to `bytes` in all; false when the stream ends before.
    fn read_rest(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<bool> {
        quarry_timing::turn(Phase::Read);
        self.move_to_front();
        self.buffer.truncate(self.filled);
        while self.filled < bytes {
            let step = (bytes - self.filled).min(STEP_BYTES);
            if self.buffer.capacity() < self.filled + step {
                // Doubled, so that growing copies little in all, and never beyond what the message needs.
                let wanted = (2 * self.filled).clamp(self.filled + step, bytes);
                self.buffer.reserve_exact(wanted - self.filled);
            }
            let read = stream.take(step as u64).read_to_end(&mut self.buffer)?;
            self.filled += read;
            if read < step {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
