//! Reading whole messages from a connection into one buffer that is kept.
//!
//! Small messages that arrive whole cost one system call. The buffer grows as bytes arrive, never by what a header
//! merely claims, and shrinks again when large messages have not been seen for a while or the connection is idle.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quarry_timing::Phase;
use quarry_wire::{FRAME_BYTES, HEADER_BYTES, Header, OpCode};

use crate::busy_poll::{Waiting, has_input_within};
use crate::request_memory::{RequestMemory, SMALL_REQUEST_BYTES, Share};

/// What one read asks for while no message is known to be larger.
const WINDOW_BYTES: usize = 4 << 10;
/// A large message is read in steps of at most this much.
const STEP_BYTES: usize = 1 << 20;
/// A buffer beyond this is given back after `SMALL_MESSAGES` messages that did not need it.
const KEPT_BYTES: usize = 64 << 10;
const SMALL_MESSAGES: u32 = 64;

/// A large message may take so long to come when others wait for the memory it holds.
const SLOW_MESSAGE: Duration = if cfg!(test) {
    Duration::from_millis(50)
} else {
    Duration::from_secs(10)
};
/// How often one who reads a large message looks whether others wait.
const SLOW_TICK: Duration = if cfg!(test) {
    Duration::from_millis(10)
} else {
    Duration::from_secs(1)
};

pub struct Inbox<'m> {
    memory: &'m RequestMemory,
    /// Asked while the connection waits for memory.
    gives_up: &'m dyn Fn() -> bool,
    /// For the buffer, and for what the connection unpacks; none while both are small.
    share: Option<Share<'m>>,
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

impl<'m> Inbox<'m> {
    pub fn new(memory: &'m RequestMemory, gives_up: &'m dyn Fn() -> bool) -> Inbox<'m> {
        Inbox {
            memory,
            gives_up,
            share: None,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            small_messages: 0,
        }
    }

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
        let header = match Header::parse(header) {
            Ok(header) => header,
            Err(error) => return Ok(Arrival::Malformed(error.to_string())),
        };
        let bytes = header.message_bytes;
        if !self.reserve(stream, &header)? {
            return Ok(Arrival::End);
        }
        if self.unread() < bytes && !self.read_rest(stream, bytes)? {
            return Ok(Arrival::Malformed(format!(
                "the connection ended after {} of {bytes} bytes, or they were too slow while others waited",
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

    /// Takes a share of the memory for a large message; false when there is no more point in waiting for it.
    fn reserve(&mut self, stream: &TcpStream, header: &Header) -> io::Result<bool> {
        let mut wanted = header.message_bytes;
        if header.op_code == OpCode::Compressed.number() && wanted >= FRAME_BYTES {
            while self.unread() < FRAME_BYTES {
                if !self.read_some(stream)? {
                    return Ok(false);
                }
            }
            let frame = self.buffer[self.start..].first_chunk();
            wanted += frame.map_or(0, quarry_wire::unpacked_bytes);
        }
        let held = self.share.as_ref().map_or(0, Share::bytes);
        if wanted <= SMALL_REQUEST_BYTES || wanted <= held {
            return Ok(true);
        }
        if held > 0 {
            // Nobody waits for memory while holding some.
            self.give_back();
        }
        quarry_timing::turn(Phase::Read);
        self.share = self.memory.take(wanted, self.gives_up);
        Ok(self.share.is_some())
    }

    /// The connection's buffers are small again.
    pub fn return_share(&mut self) {
        self.share = None;
    }

    /// Whether others wait for memory that this connection holds.
    pub fn is_wanted(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_wanted)
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
        self.share = None;
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

    /// Reads up to `bytes` in all; false when the stream ends before, or is too slow for those who wait.
    fn read_rest(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<bool> {
        quarry_timing::turn(Phase::Read);
        self.move_to_front();
        self.buffer.truncate(self.filled);
        let Some(share) = self.share.take() else {
            return self.read_steps(stream, bytes);
        };
        stream.set_read_timeout(Some(SLOW_TICK))?;
        let steady = Steady {
            stream,
            share: &share,
            since: Instant::now(),
        };
        let has_come = self.read_steps(steady, bytes);
        self.share = Some(share);
        stream.set_read_timeout(None)?;
        match has_come {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
            has_come => has_come,
        }
    }

    fn read_steps(&mut self, mut stream: impl Read, bytes: usize) -> io::Result<bool> {
        while self.filled < bytes {
            let step = (bytes - self.filled).min(STEP_BYTES);
            if self.buffer.capacity() < self.filled + step {
                // Doubled, so that growing copies little in all, and never beyond what the message needs.
                let wanted = (2 * self.filled).clamp(self.filled + step, bytes);
                self.buffer.reserve_exact(wanted - self.filled);
            }
            let outcome = stream
                .by_ref()
                .take(step as u64)
                .read_to_end(&mut self.buffer);
            let read = self.buffer.len() - self.filled;
            self.filled += read;
            outcome?;
            if read < step {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A stream that is given up when it is slow and others wait for the memory of its message.
struct Steady<'s> {
    /// Its reads end every `SLOW_TICK`.
    stream: &'s TcpStream,
    share: &'s Share<'s>,
    since: Instant,
}

impl Read for Steady<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.stream.read(buffer);
            if self.share.is_wanted() && self.since.elapsed() > SLOW_MESSAGE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::busy_poll::BusyPolling;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn message(bytes: usize) -> Vec<u8> {
        let header = Header {
            message_bytes: bytes,
            request_id: 1,
            response_to: 0,
            op_code: OpCode::Msg.number(),
        };
        let mut message = header.to_bytes().to_vec();
        message.resize(bytes, 7);
        message
    }

    #[test]
    fn a_message_that_does_not_come_makes_room_for_one_that_does() {
        const LARGE: usize = 1 << 20;
        let memory = RequestMemory::new(LARGE);
        let polling = BusyPolling::new();
        let (mut stalled, server) = pair();
        let (mut sending, other) = pair();
        thread::scope(|scope| {
            stalled.write_all(&message(LARGE)[..100_000]).unwrap();
            let slow = scope.spawn(|| {
                let mut inbox = Inbox::new(&memory, &|| false);
                let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
                matches!(arrival.unwrap(), Arrival::Malformed(_))
            });
            while memory.used_bytes() == 0 {
                thread::yield_now();
            }
            // As long as nobody else needs it, a slow client has all the time it wants.
            thread::sleep(SLOW_MESSAGE * 2);
            assert!(!slow.is_finished());
            scope.spawn(move || sending.write_all(&message(LARGE)).unwrap());
            let mut inbox = Inbox::new(&memory, &|| false);
            let arrival = inbox.receive(&other, &mut Waiting::new(&polling, 2), None);
            assert!(matches!(
                arrival.unwrap(),
                Arrival::Message { bytes: LARGE, .. }
            ));
            assert!(slow.join().unwrap());
            assert!(inbox.capacity_bytes() >= LARGE && memory.used_bytes() == LARGE);
            inbox.consume(LARGE);
            inbox.give_back();
            assert_eq!(
                (inbox.capacity_bytes(), memory.used_bytes()),
                (WINDOW_BYTES, 0)
            );
        });
    }

    #[test]
    fn a_packed_message_takes_memory_for_what_it_unpacks_to() {
        let memory = RequestMemory::new(10 << 20);
        let polling = BusyPolling::new();
        let (mut client, server) = pair();
        let mut packed = Vec::new();
        let plain = message(5 << 20);
        quarry_wire::compress(&plain, quarry_wire::Compressor::Zstd, &mut packed).unwrap();
        client.write_all(&packed).unwrap();
        let mut inbox = Inbox::new(&memory, &|| false);
        let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
        assert!(matches!(arrival.unwrap(), Arrival::Message { .. }));
        assert_eq!(memory.used_bytes(), plain.len() + packed.len());
    }
}
