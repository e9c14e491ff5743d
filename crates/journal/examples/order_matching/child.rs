//! The process that dies in the kill check: producers keep many orders under way and report each order that was
//! acknowledged over a socket, which is the process's standard input. A report that was sent survives the sender.

use std::error::Error;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use quarry_journal::{Journal, Options, RealFiles};

use super::book::OrderStream;
use super::order_log;
use super::restart::Replay;

pub const PRODUCERS: usize = 4;
/// Producer and LSN, little-endian.
const REPORT_BYTES: usize = 16;
/// Small, so that children die while segments are made and changed, too.
const SEGMENT_BYTES: u64 = 256 * 1024;

/// Starts `command`, whose process is to call `run`.
pub fn spawn(mut command: Command) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    let child = command.spawn()?;
    // Their end with it: reports end when the child does.
    drop(command);
    Ok((child, ours))
}

pub fn options() -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        ..Options::default()
    }
}

/// Goes on where the log in `directory` ends, until the process is killed.
pub fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let files = Arc::new(RealFiles::open(directory)?);
    let streams = Replay::of(&*files, PRODUCERS)?.streams;
    let (journal, _matching) = order_log::open(files, options())?;
    let reports = parent()?;
    std::thread::scope(|scope| {
        for (producer, stream) in streams.into_iter().enumerate() {
            let (journal, reports) = (&journal, &reports);
            scope.spawn(move || work(journal, producer, stream, reports));
        }
    });
    Ok(())
}

/// The socket on which the parent listens.
pub fn parent() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(UnixStream::from(socket))
}

fn work(journal: &Journal, producer: usize, stream: OrderStream, reports: &UnixStream) {
    order_log::produce(journal, stream, u64::MAX, &mut |committed, _| {
        report(reports, producer, committed.lsn).expect("the parent listens");
    });
}

/// One small write, which other threads' writes cannot cut.
pub fn report(mut reports: &UnixStream, producer: usize, lsn: u64) -> io::Result<()> {
    let mut report = [0; REPORT_BYTES];
    report[..8].copy_from_slice(&(producer as u64).to_le_bytes());
    report[8..].copy_from_slice(&lsn.to_le_bytes());
    reports.write_all(&report)
}

/// The reports of children, one life after the other.
#[derive(Clone, Copy, Default)]
pub struct Reported {
    pub orders: u64,
    /// The highest of each producer; 0 = none.
    pub lsns: [u64; PRODUCERS],
}

impl Reported {
    /// Reads until the child is dead. Says so when there are `wanted` orders.
    pub fn read(mut self, reports: UnixStream, wanted: u64, reached: &Sender<()>) -> Reported {
        let mut reports = BufReader::new(reports);
        let mut report = [0; REPORT_BYTES];
        while reports.read_exact(&mut report).is_ok() {
            self.note(&report);
            if self.orders == wanted {
                // Whoever does not wait for it kills at another moment.
                let _ = reached.send(());
            }
        }
        self
    }

    fn note(&mut self, report: &[u8; REPORT_BYTES]) {
        let (producer, lsn) = (long(&report[..8]), long(&report[8..]));
        let highest = &mut self.lsns[producer as usize];
        *highest = lsn.max(*highest);
        self.orders += 1;
    }
}

fn long(bytes: &[u8]) -> u64 {
    let bytes = bytes.first_chunk().expect("a report has two of them");
    u64::from_le_bytes(*bytes)
}
