//! Reading whole messages from a connection into one buffer that is kept.
//!
//! Small messages that arrive whole cost one system call. The buffer grows as bytes arrive, by what a header claims only where a
//! share of the memory has been taken for it, and shrinks again when large messages have not been seen for a while or the connection is idle.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use quarry_timing::Phase;
use quarry_wire::{HEADER_BYTES, Header, OpCode};

use crate::net::busy_poll::Waiting;
use crate::net::request_memory::{NotTaken, RequestMemory, SMALL_REQUEST_BYTES, Share};
use crate::net::transport::Transport;

/// The bytes that one read asks for while no message is known to be larger.
const WINDOW_BYTES: usize = 4 << 10;
/// A large message is read in steps of at most this much.
const STEP_BYTES: usize = 1 << 20;
/// A buffer beyond this is given back after `SMALL_MESSAGES` messages that did not need it.
const KEPT_BYTES: usize = 64 << 10;
const SMALL_MESSAGES: u32 = 64;

/// While others wait for the memory that a message holds, its sender may be silent for so long.
const SILENCE_MAX: Duration = Duration::from_millis(250);
/// While others wait, a sender is judged by its pace once it was watched for so long.
const PACE_AFTER: Duration = Duration::from_secs(1);
/// The pace that a sender has to keep then. The largest message comes within the time that others wait for a share.
const PACE_BYTES_A_SECOND: f64 = 2e6;
/// How often one who reads a large message looks whether others wait.
const PACE_TICK: Duration = Duration::from_millis(50);
/// A message that has begun comes at this pace, whoever waits, once `LATE_AFTER` is over: nobody keeps a thread by the first
/// half of a message. A small one has a minute and a few seconds.
const LATE_BYTES_A_SECOND: f64 = 4096.0;
const LATE_AFTER: Duration = if cfg!(test) {
    Duration::from_millis(500)
} else {
    Duration::from_secs(60)
};

pub struct Inbox<'m> {
    memory: &'m RequestMemory,
    /// Asked while the connection waits for memory.
    gives_up: &'m dyn Fn() -> bool,
    /// How long the transport's reads sleep, but for those of a large message.
    read_timeout: Option<Duration>,
    /// For the buffer, and for what the connection unpacks; none while both are small.
    share: Option<Share<'m>>,
    buffer: Vec<u8>,
    /// Where the bytes begin that came from the client and are not consumed.
    start: usize,
    /// Where they end.
    filled: usize,
    small_messages: u32,
}

/// The result of waiting for a message.
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
    /// No share of the memory for a large message became free, or its sender was too slow for those who waited.
    NoMemory,
    /// A message has begun and did not come whole in time.
    Late,
    /// A header that is none.
    Malformed(String),
}

impl<'m> Inbox<'m> {
    /// The transport's reads sleep for `read_timeout`, and do so again after each message.
    pub fn new(
        memory: &'m RequestMemory,
        gives_up: &'m dyn Fn() -> bool,
        read_timeout: Option<Duration>,
    ) -> Inbox<'m> {
        Inbox {
            memory,
            gives_up,
            read_timeout,
            share: None,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            small_messages: 0,
        }
    }

    /// Waits for the next message, and begins the operation's time with its first byte; the clock then runs for
    /// decoding. With `patience` it comes back when nothing has come for so long; without, after the read timeout of the
    /// transport, and then no byte of a message is here.
    pub fn receive(
        &mut self,
        transport: &Transport,
        waiting: &mut Waiting<'_>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        let mut was_awake = false;
        if self.unread() == 0 {
            self.make_room();
            let Some(read) = waiting.read(transport, &mut self.buffer, patience)? else {
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
            && !transport.has_input_within(patience)
        {
            return Ok(Arrival::NothingYet);
        }
        let started = Instant::now();
        // A message that has come whole is read, and who asks nothing of a session need not be known.
        quarry_timing::begin_operation_after([Phase::Read, Phase::Auth], Phase::Decode);
        let came = self.unread();
        if came < HEADER_BYTES
            && let Some(error) = self.refused_length()
        {
            // Another protocol's client waits for an answer to its few bytes.
            return Ok(Arrival::Malformed(error));
        }
        match self.read_up_to(transport, HEADER_BYTES, started)? {
            Progress::Whole => {}
            Progress::TooSlow => return Ok(Arrival::NoMemory),
            Progress::Late => return Ok(Arrival::Late),
            Progress::Ended => {
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
        if came < bytes && OpCode::from_number(header.op_code).is_none() {
            // Nobody waits for the rest of something that is no message.
            let why = format!("op code {} is not known", header.op_code);
            return Ok(Arrival::Malformed(why));
        }
        // A large message gets no share for what its header claims: as much as a small one may have has to come first.
        let mut progress = self.read_up_to(transport, bytes.min(SMALL_REQUEST_BYTES), started)?;
        if progress == Progress::Whole {
            match self.reserve(&header) {
                Ok(()) => progress = self.read_up_to(transport, bytes, started)?,
                Err(NotTaken::GivenUp) => return Ok(Arrival::End),
                Err(NotTaken::TimedOut) => return Ok(Arrival::NoMemory),
            }
        }
        match progress {
            Progress::Whole => {}
            Progress::TooSlow => return Ok(Arrival::NoMemory),
            Progress::Late => return Ok(Arrival::Late),
            Progress::Ended => {
                return Ok(Arrival::Malformed(format!(
                    "the connection ended after {} of {bytes} bytes",
                    self.unread()
                )));
            }
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

    /// Takes a share of the memory for a large message, of which the first bytes are here.
    fn reserve(&mut self, header: &Header) -> Result<(), NotTaken> {
        let mut wanted = header.message_bytes;
        if header.op_code == OpCode::Compressed.number() {
            let frame = self.buffer[self.start..self.filled].first_chunk();
            wanted += frame.map_or(0, quarry_wire::unpacked_bytes);
        }
        let held = self.share_bytes();
        if wanted <= SMALL_REQUEST_BYTES || wanted <= held {
            return Ok(());
        }
        if held > 0 {
            // Nobody waits for memory while holding some.
            self.give_back();
        }
        quarry_timing::turn(Phase::Read);
        self.share = Some(self.memory.take(wanted, self.gives_up)?);
        Ok(())
    }

    /// Whether the connection holds a share, for this message or from one before it.
    pub fn has_share(&self) -> bool {
        self.share.is_some()
    }

    /// The bytes of that share.
    pub fn share_bytes(&self) -> usize {
        self.share.as_ref().map_or(0, Share::bytes)
    }

    /// The connection's buffers are small again.
    pub fn return_share(&mut self) {
        self.share = None;
    }

    /// Whether others wait for memory that this connection holds.
    pub fn is_wanted(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_wanted)
    }

    /// Why the length with which a header begins is none, once it has come.
    fn refused_length(&self) -> Option<String> {
        let length: &[u8; 4] = self.unread_bytes().first_chunk()?;
        let mut header = [0; HEADER_BYTES];
        header[..length.len()].copy_from_slice(length);
        Header::parse(&header).err().map(|error| error.to_string())
    }

    /// The bytes that have come and are not consumed.
    pub fn unread_bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.filled]
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

    /// Reads until `bytes` of the message are here, whose first ones came when it `started`.
    fn read_up_to(
        &mut self,
        transport: &Transport,
        bytes: usize,
        started: Instant,
    ) -> io::Result<Progress> {
        if self.unread() >= bytes {
            return Ok(Progress::Whole);
        }
        quarry_timing::turn(Phase::Read);
        self.move_to_front();
        self.buffer.truncate(self.filled);
        let share = self.share.take();
        let is_shared = share.is_some();
        if is_shared {
            transport.set_read_timeout(Some(PACE_TICK))?;
        }
        let mut paced = Paced::new(transport, share.as_ref(), self.filled, started);
        let progress = self.read_steps(bytes, &mut paced);
        let given_up = paced.given_up;
        self.share = share;
        if is_shared {
            transport.set_read_timeout(self.read_timeout)?;
        }
        match given_up {
            Some(given_up) => Ok(given_up),
            None => progress,
        }
    }

    /// Reads until `bytes` of the message are here. Also when it fails, the bytes that came are in the buffer.
    fn read_steps(&mut self, bytes: usize, paced: &mut Paced<'_>) -> io::Result<Progress> {
        while self.filled < bytes {
            let step = (bytes - self.filled).min(STEP_BYTES);
            if self.buffer.capacity() < self.filled + step {
                let wanted = match paced.share {
                    // There is room for the message. A buffer that grows is held twice while it is copied.
                    Some(_) => bytes,
                    // Doubled, so that growing copies little in all, and never beyond what the message needs.
                    None => (2 * self.filled).clamp(self.filled + step, bytes),
                };
                self.buffer.reserve_exact(wanted - self.filled);
            }
            let outcome = paced.take(step as u64).read_to_end(&mut self.buffer);
            let read = self.buffer.len() - self.filled;
            self.filled += read;
            outcome?;
            if read < step {
                return Ok(Progress::Ended);
            }
        }
        Ok(Progress::Whole)
    }
}

/// How far a read of some bytes got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    Whole,
    /// The stream has ended before.
    Ended,
    /// Others wait for the memory of the message, and it comes too slowly.
    TooSlow,
    /// It comes more slowly than any message may.
    Late,
}

/// A stream that is given up when it is slow while others wait for the memory of its message, and when it is late. Bytes
/// that have come are handed on in any case, so that the last ones of a message always count.
struct Paced<'s> {
    /// Its reads end from time to time.
    transport: &'s Transport,
    /// None for a small message.
    share: Option<&'s Share<'s>>,
    /// The bytes of the message that have come since it started.
    came: usize,
    started: Instant,
    /// Since others wait.
    watched: Option<Watched>,
    /// Why the last read has failed, if that was for want of pace.
    given_up: Option<Progress>,
}

struct Watched {
    since: Instant,
    bytes: u64,
    last_bytes_at: Instant,
}

impl<'s> Paced<'s> {
    fn new(
        transport: &'s Transport,
        share: Option<&'s Share<'s>>,
        came: usize,
        started: Instant,
    ) -> Paced<'s> {
        Paced {
            transport,
            share,
            came,
            started,
            watched: None,
            given_up: None,
        }
    }

    /// Looks at what the sender has done since others began to wait; none while nobody does.
    fn watch(&mut self) -> Option<&Watched> {
        if !self.share.is_some_and(Share::is_wanted) {
            self.watched = None;
            return None;
        }
        let now = Instant::now();
        Some(self.watched.get_or_insert(Watched {
            since: now,
            bytes: 0,
            last_bytes_at: now,
        }))
    }

    fn is_late(&self) -> bool {
        let over = self.started.elapsed().saturating_sub(LATE_AFTER);
        !over.is_zero() && (self.came as f64) < LATE_BYTES_A_SECOND * over.as_secs_f64()
    }

    fn give_up(&mut self, why: Progress) -> io::Result<usize> {
        self.given_up = Some(why);
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Watched {
    fn is_slow(&self) -> bool {
        let watched_for = self.since.elapsed();
        watched_for > PACE_AFTER
            && (self.bytes as f64) < PACE_BYTES_A_SECOND * watched_for.as_secs_f64()
    }

    fn is_silent(&self) -> bool {
        self.last_bytes_at.elapsed() > SILENCE_MAX
    }
}

impl Read for Paced<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.watch().is_some_and(Watched::is_slow) {
                return self.give_up(Progress::TooSlow);
            }
            if self.is_late() {
                return self.give_up(Progress::Late);
            }
            match self.transport.read(buffer) {
                // Nothing has come, which is known only after a look.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.watch().is_some_and(Watched::is_silent) {
                        return self.give_up(Progress::TooSlow);
                    }
                }
                Ok(bytes) if bytes > 0 => {
                    self.came += bytes;
                    if let Some(watched) = &mut self.watched {
                        watched.bytes += bytes as u64;
                        watched.last_bytes_at = Instant::now();
                    }
                    return Ok(bytes);
                }
                ended => return ended,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;
    use crate::net::busy_poll::BusyPolling;

    fn pair() -> (TcpStream, Transport) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Transport::plain(server).unwrap())
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
                let mut inbox = Inbox::new(&memory, &|| false, None);
                let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
                matches!(arrival.unwrap(), Arrival::NoMemory)
            });
            while memory.used_bytes() == 0 {
                thread::yield_now();
            }
            // As long as nobody else needs it, a slow client has all the time it wants.
            thread::sleep(SILENCE_MAX * 2);
            assert!(!slow.is_finished());
            scope.spawn(move || sending.write_all(&message(LARGE)).unwrap());
            let mut inbox = Inbox::new(&memory, &|| false, None);
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
    fn a_message_that_drips_makes_room_and_a_header_alone_takes_none() {
        const LARGE: usize = 1 << 20;
        let memory = RequestMemory::new(LARGE);
        let polling = BusyPolling::new();
        let (mut dripping, server) = pair();
        thread::scope(|scope| {
            let slow = scope.spawn(|| {
                let mut inbox = Inbox::new(&memory, &|| false, None);
                let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
                matches!(arrival.unwrap(), Arrival::NoMemory)
            });
            let large = message(LARGE);
            let (first, rest) = large.split_at(SMALL_REQUEST_BYTES - 1);
            dripping.write_all(first).unwrap();
            thread::sleep(PACE_TICK);
            assert_eq!(memory.used_bytes(), 0);
            dripping.write_all(&rest[..1]).unwrap();
            while memory.used_bytes() == 0 {
                thread::yield_now();
            }
            // Somebody waits all the time, again and again until there is room.
            let waiting = scope.spawn(|| while memory.take(LARGE, &|| false).is_err() {});
            let mut drops = rest[1..].chunks(16);
            while !slow.is_finished() {
                let _ = dripping.write_all(drops.next().unwrap());
                thread::sleep(PACE_TICK / 10);
            }
            assert!(slow.join().unwrap());
            waiting.join().unwrap();
        });
    }

    #[test]
    fn nobody_keeps_a_connection_by_half_a_message() {
        let memory = RequestMemory::new(1 << 20);
        let polling = BusyPolling::new();
        let small = message(1000);
        // Silent after so many bytes: within the header and behind it.
        for begun in [5, HEADER_BYTES, 999] {
            let (mut client, server) = pair();
            server.set_read_timeout(Some(PACE_TICK)).unwrap();
            client.write_all(&small[..begun]).unwrap();
            let mut inbox = Inbox::new(&memory, &|| false, Some(PACE_TICK));
            let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
            assert!(matches!(arrival.unwrap(), Arrival::Late), "{begun}");
        }
        // One that drips, so that no read ever waits for long; and a large one, which nobody else waits for.
        for bytes in [1000, 1 << 20] {
            let (mut client, server) = pair();
            server.set_read_timeout(Some(PACE_TICK)).unwrap();
            thread::scope(|scope| {
                let late = scope.spawn(|| {
                    let mut inbox = Inbox::new(&memory, &|| false, Some(PACE_TICK));
                    let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
                    matches!(arrival.unwrap(), Arrival::Late)
                });
                let message = message(bytes);
                let mut drops = message.chunks(1);
                while !late.is_finished() {
                    let _ = client.write_all(drops.next().unwrap());
                    thread::sleep(PACE_TICK / 10);
                }
                assert!(late.join().unwrap());
            });
        }
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
        let mut inbox = Inbox::new(&memory, &|| false, None);
        let arrival = inbox.receive(&server, &mut Waiting::new(&polling, 1), None);
        assert!(matches!(arrival.unwrap(), Arrival::Message { .. }));
        assert_eq!(memory.used_bytes(), plain.len() + packed.len());
    }
}
