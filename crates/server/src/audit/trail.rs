//! The file or the standard output that events are written to, and what could not be written to it yet.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::observe::log;
use crate::process::config::AuditDestination;

/// The bytes of events that wait for a file that cannot be written; later events are lost, and their clients are told.
const UNWRITTEN_BYTES_MAX: usize = 1 << 20;
/// Only the server's own user reads the file.
const MODE: u32 = 0o600;

/// Where events are written.
pub struct Trail {
    /// Something could not be written, and still is not.
    is_behind: AtomicBool,
    state: Mutex<State>,
}

struct State {
    out: Out,
    /// The events, and perhaps the end of one, that are still to be written.
    unwritten: Vec<u8>,
    lost: u64,
}

enum Out {
    Console,
    File(File, PathBuf),
    /// Stands for a disk that takes so many bytes.
    #[cfg(test)]
    Room(usize, Vec<u8>),
}

impl Trail {
    /// Opens the file, behind what it holds already.
    pub fn open(destination: &AuditDestination) -> io::Result<Trail> {
        let out = match destination {
            AuditDestination::Console => Out::Console,
            AuditDestination::File(path) => Out::File(open(path)?, path.clone()),
        };
        Ok(Trail::new(out))
    }

    /// One that writes to a disk that takes so many bytes.
    #[cfg(test)]
    pub fn of_room(bytes: usize) -> Trail {
        Trail::new(Out::Room(bytes, Vec::new()))
    }

    /// Makes room for so many bytes; what had been written before is in the answer.
    #[cfg(test)]
    pub fn make_room(&self, bytes: usize) -> Vec<u8> {
        match &mut self.state.lock().out {
            Out::Room(room, written) => {
                *room = bytes;
                written.clone()
            }
            _ => unreachable!("the trail was made with a room"),
        }
    }

    fn new(out: Out) -> Trail {
        let state = State {
            out,
            unwritten: Vec::new(),
            lost: 0,
        };
        Trail {
            is_behind: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Writes an event, behind all that still waits. The error also stands for an event that is lost, because too much waits.
    pub fn append(&self, event: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        // What waits goes first, so that no event is dropped that could be written.
        if !state.has_room_for(event)
            && let Err(error) = self.write(&mut state)
            && !state.has_room_for(event)
        {
            state.lost += 1;
            return Err(error);
        }
        state.unwritten.extend_from_slice(event);
        self.write(&mut state)
    }

    /// Whether events wait that could not be written.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Relaxed)
    }

    /// Tries again to write what waits.
    pub fn catch_up(&self) -> io::Result<()> {
        self.write(&mut self.state.lock())
    }

    /// Moves the file aside, under a name with the time, and begins a new one; with `is_moved_by_others` the file is only
    /// opened again. Nothing to do without a file.
    pub fn rotate(&self, is_moved_by_others: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        if let Out::File(file, path) = &mut state.out {
            if !is_moved_by_others && path.exists() {
                log::move_aside(path)?;
            }
            *file = open(path)?;
        }
        self.write(&mut state)
    }

    fn write(&self, state: &mut State) -> io::Result<()> {
        let written = state.write();
        let was_behind = self.is_behind.swap(written.is_err(), Relaxed);
        match &written {
            Err(error) if !was_behind => log::error(
                "audit",
                "the audit log cannot be written: what is to be audited is refused until it can",
                &[("error", error.to_string().into())],
            ),
            Ok(()) if was_behind => {
                let lost = std::mem::take(&mut state.lost);
                log::warning(
                    "audit",
                    "the audit log is written again",
                    &[("eventsLost", lost.into())],
                );
            }
            _ => {}
        }
        written
    }
}

impl State {
    /// Whether the event may wait. One alone always may.
    fn has_room_for(&self, event: &[u8]) -> bool {
        self.unwritten.is_empty() || self.unwritten.len() + event.len() <= UNWRITTEN_BYTES_MAX
    }

    fn write(&mut self) -> io::Result<()> {
        let mut behind = 0;
        let result = loop {
            let rest = &self.unwritten[behind..];
            if rest.is_empty() {
                break Ok(());
            }
            match self.out.write(rest) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => behind += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.unwritten.drain(..behind);
        result
    }
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Console => {
                let mut console = io::stdout().lock();
                console.write_all(bytes)?;
                console.flush()?;
                Ok(bytes.len())
            }
            Out::File(file, _) => file.write(bytes),
            #[cfg(test)]
            Out::Room(room, written) => {
                let bytes = &bytes[..bytes.len().min(*room)];
                *room -= bytes.len();
                written.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(MODE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_written_whole_once_there_is_some() {
        let trail = Trail::of_room(7);
        trail.append(b"one\n").unwrap();
        assert!(trail.append(b"two two\n").is_err() && trail.is_behind());
        assert!(trail.append(b"three\n").is_err() && trail.catch_up().is_err());
        assert_eq!(trail.make_room(100), b"one\ntwo");
        trail.append(b"four\n").unwrap();
        assert!(!trail.is_behind());
        assert_eq!(trail.make_room(0), b"one\ntwo two\nthree\nfour\n");
    }

    #[test]
    fn what_waits_is_bounded_and_no_event_is_lost_that_is_acknowledged() {
        let trail = Trail::of_room(0);
        let event = vec![b'x'; UNWRITTEN_BYTES_MAX / 4];
        for _ in 0..6 {
            assert!(trail.append(&event).is_err());
        }
        let kept = |trail: &Trail| {
            let state = trail.state.lock();
            (state.unwritten.len(), state.lost)
        };
        assert_eq!(kept(&trail), (UNWRITTEN_BYTES_MAX, 2));
        // There is room again when this one comes, for which there is none among those that wait.
        trail.make_room(2 * UNWRITTEN_BYTES_MAX);
        trail.append(b"the last one").unwrap();
        assert!(trail.make_room(0).ends_with(b"the last one"));
    }

    #[test]
    fn a_file_that_is_moved_aside_keeps_what_it_had() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.json");
        let trail = Trail::open(&AuditDestination::File(path.clone())).unwrap();
        trail.append(b"before\n").unwrap();
        trail.rotate(false).unwrap();
        trail.append(b"after\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after\n");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        // Somebody else has moved it.
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        trail.rotate(true).unwrap();
        trail.append(b"new\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new\n");
    }
}
