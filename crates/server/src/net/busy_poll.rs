//! Waiting for a client's next request: awake for a moment, then asleep.
//!
//! A client that asks, takes its answer and asks again pauses for less time than it takes to put a thread to sleep and to
//! wake it; on a virtual machine a sleeping processor even goes back to the host. So a connection whose pauses are
//! short looks for its next request a while before it sleeps.
//!
//! It takes no processor that somebody else wants. A connection looks only while no more of them have had a request in
//! the last moment than half the processors: their clients may be on the same machine. It yields between two
//! looks, and when it finds that others ran meanwhile it goes to sleep and, after that has happened a few times, does not
//! look again for a while. A connection without requests, or with rare ones, sleeps from the start.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::net::transport::Transport;

/// The longest wait that may be set, in microseconds.
pub const LIMIT_US_MAX: i64 = 10_000;
pub const LIMIT_US_DEFAULT: i64 = 500;
/// Two looks are no further apart, unless something else ran on the processor in between.
const LOOK_MAX: Duration = Duration::from_micros(30);
/// How many waits in a row are forgiven that were in somebody's way: the kernel may still move one of the two threads
/// to another processor. After each further one, twice as many waits are asleep from their start.
const DISTURBANCES_MAX: u32 = 8;
const WAITS_ASLEEP_MAX: u32 = 256;
/// How many of the last pauses were short, roughly; a connection looks while most were.
const SHORT_PAUSES_MAX: u32 = 16;
const SHORT_PAUSES_MIN: u32 = 8;
/// A long pause takes back as many short ones.
const LONG_PAUSE_WEIGHT: u32 = 2;

/// A connection counts as active for so long after a request.
const ACTIVE_US: u64 = 1000;
/// Connections beyond this number share a place; some are then not counted.
const PLACES: usize = 64;

/// The state of busy polling that the connections of a server share.
pub struct BusyPolling {
    /// When each connection last had a request.
    places: Box<[Place]>,
    since: Instant,
    active_max: usize,
    /// The longest time awake; 0 = all waiting is asleep.
    pub limit_us: AtomicI64,
}

/// Microseconds, in a cache line that only one connection writes.
#[derive(Default)]
#[repr(align(64))]
struct Place(AtomicU64);

impl BusyPolling {
    pub fn new() -> BusyPolling {
        let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        BusyPolling {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            since: Instant::now(),
            active_max: processors / 2,
            limit_us: AtomicI64::new(LIMIT_US_DEFAULT),
        }
    }

    fn limit(&self) -> Duration {
        Duration::from_micros(self.limit_us.load(Relaxed).unsigned_abs())
    }

    fn micros(&self, now: Instant) -> u64 {
        now.duration_since(self.since).as_micros() as u64
    }

    fn has_room(&self, now: Instant) -> bool {
        let after = self.micros(now).saturating_sub(ACTIVE_US);
        let is_active = |place: &&Place| place.0.load(Relaxed) > after;
        self.places.iter().filter(is_active).count() <= self.active_max
    }
}

/// One connection's waiting.
pub struct Waiting<'a> {
    shared: &'a BusyPolling,
    place: &'a Place,
    short_pauses: u32,
    /// Waits in a row that ended because something else ran.
    disturbances: u32,
    waits_asleep: u32,
}

/// The result of a wait.
pub struct Read {
    pub bytes: usize,
    /// The bytes came while the connection looked for them.
    pub was_awake: bool,
}

/// How a wait that began awake ended.
enum Look {
    Read(io::Result<usize>),
    TooLong,
    Disturbed,
}

impl<'a> Waiting<'a> {
    pub fn new(shared: &'a BusyPolling, connection_id: i64) -> Waiting<'a> {
        Waiting {
            shared,
            place: &shared.places[connection_id as usize % PLACES],
            short_pauses: 0,
            disturbances: 0,
            waits_asleep: 0,
        }
    }

    /// Waits for bytes. Their number is 0 at the end of the stream; none when nothing came for as long as `patience`,
    /// where one is given, or for as long as the transport's read timeout.
    pub fn read(
        &mut self,
        transport: &Transport,
        buffer: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<Option<Read>> {
        let started = Instant::now();
        let limit = self.shared.limit();
        let awake = self.read_awake(transport, buffer, started, limit);
        let was_awake = awake.is_some();
        let bytes = match (awake, patience) {
            (Some(read), _) => read?,
            (None, Some(patience)) if !transport.has_input_within(patience) => {
                self.short_pauses = 0;
                return Ok(None);
            }
            (None, _) => match transport.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.short_pauses = 0;
                    return Ok(None);
                }
                read => read?,
            },
        };
        let now = Instant::now();
        self.place.0.store(self.shared.micros(now), Relaxed);
        self.short_pauses = if now - started < limit {
            (self.short_pauses + 1).min(SHORT_PAUSES_MAX)
        } else {
            self.short_pauses.saturating_sub(LONG_PAUSE_WEIGHT)
        };
        Ok(Some(Read { bytes, was_awake }))
    }

    /// None when it is better to sleep.
    fn read_awake(
        &mut self,
        transport: &Transport,
        buffer: &mut [u8],
        started: Instant,
        limit: Duration,
    ) -> Option<io::Result<usize>> {
        if self.short_pauses < SHORT_PAUSES_MIN {
            return None;
        }
        if self.waits_asleep > 0 {
            self.waits_asleep -= 1;
            return None;
        }
        match self.look(transport, buffer, started, limit) {
            Look::Read(read) => {
                self.disturbances = 0;
                Some(read)
            }
            Look::TooLong => None,
            Look::Disturbed => {
                self.disturbances += 1;
                self.waits_asleep = waits_asleep_after(self.disturbances);
                None
            }
        }
    }

    fn look(
        &self,
        transport: &Transport,
        buffer: &mut [u8],
        started: Instant,
        limit: Duration,
    ) -> Look {
        let mut last = started;
        while last - started < limit && self.shared.has_room(last) {
            if let Some(read) = transport.read_ready(buffer).transpose() {
                return Look::Read(read);
            }
            thread::yield_now();
            let now = Instant::now();
            if now - last > LOOK_MAX {
                return Look::Disturbed;
            }
            last = now;
        }
        Look::TooLong
    }
}

fn waits_asleep_after(disturbances: u32) -> u32 {
    let doublings = disturbances.saturating_sub(DISTURBANCES_MAX);
    match doublings {
        0 => 0,
        _ => 1_u32
            .checked_shl(doublings)
            .map_or(WAITS_ASLEEP_MAX, |waits| waits.min(WAITS_ASLEEP_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, Transport) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Transport::plain(server).unwrap())
    }

    /// With room for two active connections, whatever the machine has.
    fn shared(limit_us: i64) -> BusyPolling {
        let mut shared = BusyPolling::new();
        shared.active_max = 2;
        shared.limit_us = AtomicI64::new(limit_us);
        shared
    }

    /// How many of `rounds` requests that are there already were met awake.
    fn met_awake(waiting: &mut Waiting<'_>, rounds: u32) -> u32 {
        let (mut client, server) = pair();
        let mut buffer = [0; 16];
        let mut awake = 0;
        for _ in 0..rounds {
            client.write_all(b"request").unwrap();
            let read = waiting.read(&server, &mut buffer, None).unwrap().unwrap();
            assert_eq!(&buffer[..read.bytes], b"request");
            awake += u32::from(read.was_awake);
        }
        awake
    }

    #[test]
    fn a_client_that_asks_in_quick_succession_is_met_awake() {
        let shared = shared(LIMIT_US_MAX);
        let mut waiting = Waiting::new(&shared, 1);
        assert!(met_awake(&mut waiting, 50) > 20);
    }

    #[test]
    fn nobody_waits_awake_with_a_limit_of_zero() {
        let shared = shared(0);
        assert_eq!(met_awake(&mut Waiting::new(&shared, 1), 50), 0);
    }

    #[test]
    fn nobody_waits_awake_beside_more_active_connections_than_there_is_room_for() {
        let mut shared = shared(LIMIT_US_MAX);
        shared.active_max = 0;
        // Another one, which is active however late the test's own thread comes to run.
        shared.places[2].0.store(u64::MAX, Relaxed);
        assert_eq!(met_awake(&mut Waiting::new(&shared, 1), 50), 0);
    }

    #[test]
    fn a_connection_without_requests_goes_to_sleep_and_still_hears() {
        let shared = shared(1000);
        let mut waiting = Waiting::new(&shared, 1);
        met_awake(&mut waiting, 20);
        let (mut client, server) = pair();
        let silence = shared.limit() * 5;
        let late = thread::spawn(move || {
            thread::sleep(silence);
            client.write_all(b"late").unwrap();
        });
        let mut buffer = [0; 16];
        let read = waiting.read(&server, &mut buffer, None).unwrap().unwrap();
        assert_eq!((read.bytes, read.was_awake), (4, false));
        late.join().unwrap();
        let end = waiting.read(&server, &mut buffer, None).unwrap().unwrap();
        assert_eq!(end.bytes, 0);
    }

    #[test]
    fn disturbances_are_forgiven_and_then_cost_ever_more_waits() {
        assert_eq!(waits_asleep_after(DISTURBANCES_MAX), 0);
        assert_eq!(waits_asleep_after(DISTURBANCES_MAX + 1), 2);
        assert_eq!(waits_asleep_after(DISTURBANCES_MAX + 3), 8);
        assert_eq!(waits_asleep_after(u32::MAX), WAITS_ASLEEP_MAX);
    }
}
