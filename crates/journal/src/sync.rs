//! Shared syncs. One thread syncs for everyone whose records were written before it began; who comes
//! later sleeps on the word of the next round, and one of them is woken to make it.
//!
//! Kept true: the durable LSN only rises, and only to what was written before a successful sync began.
//! A failed sync throws the latch and is never tried again.

use std::time::Instant;

use crate::error::{Error, Result};
use crate::files::sync_file;
use crate::hooks::AbortOnPanic;
use crate::latch::Latch;
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::{self, Mutex, Word};
use crate::segment::OpenSegment;

/// Rounds and what they sync. Lock order: `state` is taken last, and never held over a sync.
pub(crate) struct Syncer {
    written_lsn: AtomicU64,
    durable_lsn: AtomicU64,
    state: Mutex<State>,
    /// The words of the running round and of the one after it, by the parity of the round.
    words: [Word; 2],
    syncs: AtomicU64,
    sync_ns: AtomicU64,
    longest_ns: AtomicU64,
}

struct State {
    is_syncing: bool,
    round: u32,
    /// Everything up to here is covered by the running round.
    target_lsn: u64,
    next_round_waiters: u32,
    /// Segments with bytes that may be unsynced, oldest first; the last one is being written.
    unsynced: Vec<OpenSegment>,
}

/// The number and the cost of the syncs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounters {
    /// The number of syncs.
    pub syncs: u64,
    /// The time of all of them.
    pub sync_ns: u64,
    /// The time of the longest one.
    pub longest_ns: u64,
}

enum Role {
    Sync { target_lsn: u64 },
    Sleep { word: usize, seen: u32 },
}

impl Syncer {
    /// Everything below `next_lsn` is durable.
    pub fn new(next_lsn: u64, segment: OpenSegment) -> Self {
        Syncer {
            written_lsn: AtomicU64::new(next_lsn - 1),
            durable_lsn: AtomicU64::new(next_lsn - 1),
            state: Mutex::new(State {
                is_syncing: false,
                round: 0,
                target_lsn: 0,
                next_round_waiters: 0,
                unsynced: vec![segment],
            }),
            words: [Word::new(0), Word::new(0)],
            syncs: AtomicU64::new(0),
            sync_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    pub fn durable_lsn(&self) -> u64 {
        self.durable_lsn.load(Ordering::Acquire)
    }

    pub fn written_lsn(&self) -> u64 {
        self.written_lsn.load(Ordering::Acquire)
    }

    pub fn counters(&self) -> SyncCounters {
        SyncCounters {
            syncs: self.syncs.load(Ordering::Relaxed),
            sync_ns: self.sync_ns.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }

    /// The log has accepted everything up to `lsn`.
    pub fn note_written(&self, lsn: u64) {
        self.written_lsn.store(lsn, Ordering::Release);
    }

    /// Writing goes on in `segment`. Called before its first group is written.
    pub fn note_segment(&self, segment: OpenSegment) {
        self.state.lock().unsynced.push(segment);
    }

    /// The segment that writing goes on in.
    pub fn written_segment(&self) -> OpenSegment {
        let state = self.state.lock();
        let last = state.unsynced.last();
        last.expect("a round keeps the last one").clone()
    }

    /// Returns when everything up to `lsn`, which must be written, is durable.
    pub fn wait_durable(&self, lsn: u64, latch: &Latch) -> Result<()> {
        debug_assert!(lsn <= self.written_lsn());
        loop {
            if self.durable_lsn() >= lsn {
                return Ok(());
            }
            match self.choose_role(lsn, latch)? {
                None => return Ok(()),
                Some(Role::Sync { target_lsn }) => self.run_round(target_lsn, latch)?,
                Some(Role::Sleep { word, seen }) => primitives::wait(&self.words[word], seen),
            }
        }
    }

    /// Syncs everything that is written to the files by now, records or not. Nothing but a round may sync them: the kernel
    /// tells of a page that it could not write once, and whoever is told must be who says what is durable.
    pub fn sync_now(&self, latch: &Latch) -> Result<()> {
        loop {
            match self.choose_role(u64::MAX, latch)? {
                None => {}
                Some(Role::Sync { target_lsn }) => return self.run_round(target_lsn, latch),
                Some(Role::Sleep { word, seen }) => primitives::wait(&self.words[word], seen),
            }
        }
    }

    fn choose_role(&self, lsn: u64, latch: &Latch) -> Result<Option<Role>> {
        let mut state = self.state.lock();
        if self.durable_lsn() >= lsn {
            return Ok(None);
        }
        if latch.is_thrown() {
            // One of those who wait for the next round is woken to make it, and this may be the one.
            let next_word = (state.round.wrapping_add(1) & 1) as usize;
            self.words[next_word].fetch_add(1, Ordering::Release);
            primitives::wake_all(&self.words[next_word]);
            return Err(Error::OutcomeUnknown {
                cause: latch.cause().unwrap_or_default(),
            });
        }
        if !state.is_syncing {
            state.is_syncing = true;
            state.round = state.round.wrapping_add(1);
            state.next_round_waiters = 0;
            state.target_lsn = self.written_lsn();
            return Ok(Some(Role::Sync {
                target_lsn: state.target_lsn,
            }));
        }
        let mut round = state.round;
        if lsn > state.target_lsn {
            state.next_round_waiters += 1;
            round = round.wrapping_add(1);
        }
        let word = (round & 1) as usize;
        Ok(Some(Role::Sleep {
            word,
            seen: self.words[word].load(Ordering::Acquire),
        }))
    }

    fn run_round(&self, target_lsn: u64, latch: &Latch) -> Result<()> {
        // A round that nobody ends keeps everybody who waits for it asleep.
        let _abort = AbortOnPanic::new();
        let begun = Instant::now();
        let result = self.sync_segments();
        let took_ns = begun.elapsed().as_nanos() as u64;
        self.sync_ns.fetch_add(took_ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if let Err(cause) = &result {
            latch.throw(cause);
        }
        let mut state = self.state.lock();
        if result.is_ok() {
            self.durable_lsn.store(target_lsn, Ordering::Release);
            let done =
                |segment: &OpenSegment| segment.last_lsn.load(Ordering::Acquire) <= target_lsn;
            let keep_from = state.unsynced.len() - 1;
            let synced = state.unsynced[..keep_from]
                .iter()
                .take_while(|segment| done(segment))
                .count();
            state.unsynced.drain(..synced);
        }
        state.is_syncing = false;
        let (word, next_word) = (
            (state.round & 1) as usize,
            (state.round.wrapping_add(1) & 1) as usize,
        );
        let has_next = state.next_round_waiters > 0;
        self.words[word].fetch_add(1, Ordering::Release);
        if has_next {
            self.words[next_word].fetch_add(1, Ordering::Release);
        }
        drop(state);
        if has_next && result.is_ok() {
            primitives::wake_one(&self.words[next_word]);
        } else if has_next {
            primitives::wake_all(&self.words[next_word]);
        }
        primitives::wake_all(&self.words[word]);
        result.map_err(|cause| Error::OutcomeUnknown { cause })
    }

    /// Syncs in the order of writing. Only the thread that set `is_syncing` is here.
    fn sync_segments(&self) -> std::result::Result<(), String> {
        let mut index = 0;
        loop {
            let segment = self.state.lock().unsynced.get(index).cloned();
            let Some(segment) = segment else {
                return Ok(());
            };
            sync_file(&*segment.file)
                .map_err(|e| format!("sync of journal segment `{}` failed: {e}", segment.name))?;
            index += 1;
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::files::File;
    use crate::options::Identity;
    use crate::segment::Segment;
    use crate::segment_header::SegmentHeader;

    /// Says when a sync begins, and lets it end.
    struct GatedFile {
        begun: Mutex<Sender<()>>,
        goes_on: Mutex<Receiver<()>>,
    }

    impl File for GatedFile {
        fn write_at(&self, bytes: &[u8], _offset: u64) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn read_at(&self, _bytes: &mut [u8], _offset: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn sync(&self) -> io::Result<()> {
            self.begun.lock().send(()).map_err(io::Error::other)?;
            self.goes_on.lock().recv().map_err(io::Error::other)
        }

        fn set_len(&self, _bytes: u64) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn who_waits_for_the_next_sync_learns_of_a_latch_thrown_meanwhile() {
        let (begun, has_begun) = channel();
        let (go_on, goes_on) = channel();
        let file = Arc::new(GatedFile {
            begun: Mutex::new(begun),
            goes_on: Mutex::new(goes_on),
        });
        let header = SegmentHeader {
            format: crate::group_header::GroupFormat::Two,
            stamp: crate::stamp::Stamp::default(),
            identity: Identity {
                database: [1; 16],
                engine: "test".into(),
            },
            sequence: 1,
            incarnation: 1,
            segment_bytes: 4096,
            first_lsn: 1,
            previous_end_lsn: 0,
            created_unix_ms: 0,
            cluster_time_min: 0,
        };
        let segment = Arc::new(Segment::new("1".into(), header, 0, 4096));
        let segment = OpenSegment {
            segment,
            file,
            seal: None,
        };
        let (syncer, latch) = (Syncer::new(1, segment), Latch::default());
        syncer.note_written(1);
        std::thread::scope(|scope| {
            let wait = |lsn| {
                let (syncer, latch) = (&syncer, &latch);
                scope.spawn(move || syncer.wait_durable(lsn, latch))
            };
            let first = wait(1);
            has_begun.recv().unwrap();
            syncer.note_written(4);
            let later = [wait(2), wait(3), wait(4)];
            while syncer.state.lock().next_round_waiters < 3 {
                primitives::yield_now();
            }
            latch.throw("an append failed");
            go_on.send(()).unwrap();
            assert!(first.join().unwrap().is_ok());
            for one in later {
                assert!(one.join().unwrap().is_err());
            }
        });
        assert_eq!(syncer.durable_lsn(), 1);
    }
}

/// Rounds alone, with a latch that something else throws: rare in the models of the whole (`tests/model.rs`).
#[cfg(all(test, feature = "shuttle"))]
mod model {
    use std::io;
    use std::sync::Arc;

    use shuttle::thread::{spawn, yield_now};

    use super::*;
    use crate::files::File;
    use crate::options::Identity;
    use crate::segment::Segment;
    use crate::segment_header::SegmentHeader;

    const INTERLEAVINGS: usize = 2000;
    const WRITERS: u64 = 4;

    /// A file during whose syncs others run.
    struct SlowFile;

    impl File for SlowFile {
        fn write_at(&self, bytes: &[u8], _offset: u64) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn read_at(&self, _bytes: &mut [u8], _offset: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn sync(&self) -> io::Result<()> {
            (0..8).for_each(|_| yield_now());
            Ok(())
        }

        fn set_len(&self, _bytes: u64) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }
    }

    fn segment() -> OpenSegment {
        let header = SegmentHeader {
            format: crate::group_header::GroupFormat::Two,
            stamp: crate::stamp::Stamp::default(),
            identity: Identity {
                database: [1; 16],
                engine: "model".into(),
            },
            sequence: 1,
            incarnation: 1,
            segment_bytes: 4096,
            first_lsn: 1,
            previous_end_lsn: 0,
            created_unix_ms: 0,
            cluster_time_min: 0,
        };
        OpenSegment {
            segment: Arc::new(Segment::new("1".into(), header, 0, 4096)),
            file: Arc::new(SlowFile),
            seal: None,
        }
    }

    /// One of those who wait for the next round is woken to make it, and finds the latch thrown.
    #[test]
    fn nobody_sleeps_past_a_latch_that_is_thrown_during_a_sync() {
        let model = || {
            let shared = Arc::new((Syncer::new(1, segment()), Latch::default()));
            let mut threads: Vec<_> = (1..=WRITERS)
                .map(|lsn| {
                    let shared = Arc::clone(&shared);
                    spawn(move || {
                        let (syncer, latch) = &*shared;
                        while syncer.written_lsn() < lsn {
                            yield_now();
                        }
                        if syncer.wait_durable(lsn, latch).is_ok() {
                            assert!(syncer.durable_lsn() >= lsn);
                        }
                    })
                })
                .collect();
            threads.push(spawn(move || {
                let (syncer, latch) = &*shared;
                syncer.note_written(1);
                // The others come during the first round, unless it is over before this thread has seen it.
                while !syncer.state.lock().is_syncing && syncer.durable_lsn() < 1 {
                    yield_now();
                }
                syncer.note_written(WRITERS);
                while syncer.state.lock().next_round_waiters < 2 && syncer.durable_lsn() < 1 {
                    yield_now();
                }
                latch.throw("an append failed");
            }));
            for thread in threads {
                thread.join().unwrap();
            }
        };
        shuttle::check_random(model, INTERLEAVINGS);
    }
}
