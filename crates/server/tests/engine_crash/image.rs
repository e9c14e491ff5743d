//! The copies of one moment, and what a crash makes of them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use quarry_storage::copy_directory;

use crate::follower::Follower;
use crate::forgetting::Kernel;
use crate::history::Random;
use crate::power_loss;

/// A directory that an engine can be opened on, and the LSN that it holds at least.
#[derive(Clone, Debug)]
pub struct EngineImage {
    pub lsn: u64,
    pub directory: PathBuf,
}

/// Engine and journal as they stood at one moment, while writers wrote.
pub struct CrashPoint {
    /// The engine's files as a killed process leaves them.
    pub engine: PathBuf,
    pub journal: PathBuf,
    /// The system's knowledge of the journal's files.
    pub kernel: Kernel,
    /// The kernel had forgotten bytes of the journal before this life began.
    pub is_reborn: bool,
    /// Every write up to here was acknowledged before the copy began, at one level or the other.
    pub acknowledged_lsn: u64,
    /// Everything up to here was durable before the copy began: told so to a writer, or by the journal.
    pub durable_before_lsn: u64,
    /// As of the end of the copy: nothing up to here may be damaged.
    pub durable_after_lsn: u64,
    /// Durable points of this life before the copy, oldest first; the first is what the life began with. Those that the engine
    /// made by itself are not among them.
    pub images: Vec<EngineImage>,
    /// The engine's durable point at the copy. Up to here segments of the journal may have been freed.
    pub engine_lsn: u64,
    /// The reader of changes before the copy began.
    pub follower: Follower,
}

/// The state that the next life finds.
pub struct Fallen {
    pub engine: EngineImage,
    pub journal: PathBuf,
    /// The system's knowledge of the journal's files that is left: none after a power loss.
    pub kernel: Kernel,
    pub is_kill: bool,
    pub is_mixed: bool,
    /// The kernel has forgotten bytes of the journal that the next life still sees.
    pub is_forgotten: bool,
    /// A power loss behind a life that saw such bytes.
    pub is_forgotten_lost: bool,
    /// Everything up to here must be found.
    pub must_lsn: u64,
    pub acknowledged_lsn: u64,
    pub follower: Follower,
}

/// The outcome of a crash, for the tally.
pub struct Outcome {
    pub is_kill: bool,
    pub is_mixed: bool,
    pub is_forgotten: bool,
    pub is_forgotten_lost: bool,
    pub is_engine_ahead: bool,
    pub replayed: u64,
    /// The reader of changes has gone on from its place, and has met each change once.
    pub is_followed: bool,
    /// Acknowledged before the crash, at the lower level.
    pub lost_writes: usize,
}

impl CrashPoint {
    /// Makes this moment a crash; its files go to `place`.
    pub fn fall(&self, random: &mut Random, place: &Path, may_lose_pages: bool) -> Fallen {
        let journal = place.join("journal");
        fs::create_dir_all(&journal).unwrap();
        copy_directory(&self.journal, &journal).unwrap();
        let is_forgotten = self.kernel.has_forgotten(&journal);
        // What is forgotten is mostly lost by a power loss behind the start that saw it.
        if random.one_in(3) || is_forgotten && random.one_in(2) {
            return self.kill(random, journal, is_forgotten);
        }
        power_loss::damage(&journal, self.durable_after_lsn, random);
        self.kernel.lose_power(&journal);
        let (first_lsn, _) = power_loss::extent(&journal);
        let mut usable = self.usable(first_lsn);
        // Synced before it counts: what a killed process leaves of it is what a power loss leaves. Else it is that where all of
        // its pages arrived.
        if !may_lose_pages || usable.is_empty() {
            usable.push(self.engine_as_it_stood());
        }
        let newest = usable.last().expect("one was pushed if none was there");
        let newest = newest.clone();
        let is_older = random.one_in(3);
        let mut engine = match is_older {
            true => usable.swap_remove(random.below(usable.len() as u64) as usize),
            false => newest,
        };
        let is_mixed = may_lose_pages && !is_older && self.images.len() > 1 && random.one_in(2);
        if is_mixed {
            let mixed = place.join("engine");
            fs::create_dir_all(&mixed).unwrap();
            power_loss::mix_pages(&engine.directory, &self.engine, &mixed, random);
            engine.directory = mixed;
        }
        Fallen {
            must_lsn: self.durable_before_lsn.max(engine.lsn),
            acknowledged_lsn: self.acknowledged_lsn,
            follower: self.follower.clone(),
            engine,
            journal,
            kernel: Kernel::default(),
            is_kill: false,
            is_mixed,
            is_forgotten: false,
            is_forgotten_lost: self.is_reborn,
        }
    }

    /// A killed process leaves what it handed to the system.
    fn kill(&self, random: &mut Random, journal: PathBuf, is_forgotten: bool) -> Fallen {
        let (first_lsn, _) = power_loss::extent(&journal);
        let mut usable = self.usable(first_lsn);
        let engine = match usable.len() as u64 {
            // Older than it can be: a journal that was killed makes up for any engine.
            count @ 1.. if random.one_in(3) => usable.swap_remove(random.below(count) as usize),
            _ => self.engine_as_it_stood(),
        };
        Fallen {
            engine,
            journal,
            kernel: self.kernel.clone(),
            is_kill: true,
            is_mixed: false,
            is_forgotten,
            is_forgotten_lost: false,
            must_lsn: self.acknowledged_lsn,
            acknowledged_lsn: self.acknowledged_lsn,
            follower: self.follower.clone(),
        }
    }

    /// The durable points that a journal which begins at `first_lsn` can follow, oldest first. A journal that does not say
    /// where it begins follows none that is older than the engine was: what such a one misses may have been freed.
    fn usable(&self, first_lsn: Option<u64>) -> Vec<EngineImage> {
        let first_lsn = first_lsn.unwrap_or(self.engine_lsn + 1);
        let follows = |image: &&EngineImage| image.lsn + 1 >= first_lsn;
        self.images.iter().filter(follows).cloned().collect()
    }

    fn engine_as_it_stood(&self) -> EngineImage {
        EngineImage {
            lsn: 0,
            directory: self.engine.clone(),
        }
    }
}

impl fmt::Debug for Fallen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fallen")
            .field("engine", &self.engine)
            .field("journal", &self.journal)
            .field("is_kill", &self.is_kill)
            .field("is_mixed", &self.is_mixed)
            .field("is_forgotten", &self.is_forgotten)
            .field("is_forgotten_lost", &self.is_forgotten_lost)
            .field("must_lsn", &self.must_lsn)
            .field("acknowledged_lsn", &self.acknowledged_lsn)
            .finish()
    }
}

/// An engine that syncs what it writes frees segments without a durable point that anybody asked for.
#[test]
fn a_journal_that_does_not_say_where_it_begins_follows_no_older_engine() {
    let image = |lsn| EngineImage {
        lsn,
        directory: PathBuf::new(),
    };
    let mut point = CrashPoint {
        engine: PathBuf::new(),
        journal: PathBuf::new(),
        kernel: Kernel::default(),
        is_reborn: false,
        acknowledged_lsn: 18,
        durable_before_lsn: 17,
        durable_after_lsn: 17,
        images: vec![image(3), image(9)],
        engine_lsn: 17,
        follower: Follower::default(),
    };
    let usable = |point: &CrashPoint, first_lsn| -> Vec<u64> {
        let usable = point.usable(first_lsn).into_iter();
        usable.map(|image| image.lsn).collect()
    };
    assert_eq!(usable(&point, None), [0; 0]);
    assert_eq!(usable(&point, Some(10)), [9]);
    assert_eq!(usable(&point, Some(4)), [3, 9]);
    point.engine_lsn = 9;
    assert_eq!(usable(&point, None), [9]);
}
