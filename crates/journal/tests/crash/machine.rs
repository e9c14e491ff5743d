//! The machine of a seed: its disk, what it was promised, its engine, and how it loses power.

use super::*;

/// The promises that clients were given, over all lives.
#[derive(Clone, Default)]
pub struct Promises {
    /// Every payload that was ever submitted, by LSN; a later life may reuse the LSN of a lost record.
    pub submitted: BTreeMap<u64, Vec<u8>>,
    pub written_lsn: u64,
    pub durable_lsn: u64,
    /// Groups by their last LSN: a journal may end only there.
    pub ends: Vec<u64>,
}

#[derive(Clone)]
pub struct Machine {
    pub files: SimulatedFiles,
    /// The journal is encrypted.
    pub is_sealed: bool,
    pub promises: Promises,
    /// The last LSN that the engine holds on its own disk.
    pub engine_lsn: u64,
    /// The last LSN that the engine has applied. It may come back with anything from its checkpoint to here.
    pub applied_lsn: u64,
    pub checkpointed_lsn: u64,
    pub random: Random,
    pub life: usize,
    pub will_be_killed: bool,
    /// It was killed, and what it wrote need not be on the disk.
    pub is_unsynced: bool,
    /// The steps at which starts were stopped since the last life.
    pub stopped_starts: Vec<u64>,
}

#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

impl Machine {
    pub fn new(seed: u64) -> Machine {
        Machine {
            files: SimulatedFiles::new(),
            is_sealed: seed.is_multiple_of(2),
            promises: Promises::default(),
            engine_lsn: 0,
            applied_lsn: 0,
            checkpointed_lsn: 0,
            random: Random(seed),
            life: 0,
            will_be_killed: false,
            is_unsynced: false,
            stopped_starts: Vec::new(),
        }
    }

    pub fn open(&self, owner: &Arc<Owner>) -> Result<Journal, Error> {
        let files: Arc<dyn Files> = match self.is_sealed {
            true => toy_seal::sealed(&self.files),
            false => Arc::new(self.files.clone()),
        };
        Journal::open(files, options(), identity(), self.engine_lsn, owner.clone())
    }

    /// A copy of the machine with a disk of its own and an engine that holds everything up to `engine_lsn`.
    pub fn copy(&self, engine_lsn: u64) -> Machine {
        let mut copy = self.clone();
        // Everything on it is synced, as it is behind a crash.
        copy.files = self.files.crash(Crash::Kill, 0);
        copy.engine_lsn = engine_lsn;
        copy
    }

    /// The part of what was applied that the journal has durably. Beyond it the engine is ahead of the journal.
    pub fn synced_lsn(&self) -> u64 {
        self.promises.durable_lsn.min(self.applied_lsn)
    }
}

/// Says where a check failed.
impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (life, engine_lsn, stopped) = (self.life, self.engine_lsn, &self.stopped_starts);
            eprintln!("  life {life}, engine at {engine_lsn}, starts stopped at steps {stopped:?}");
        }
    }
}

/// A start, which may have been stopped, has given the engine this: it continues the engine's image with what was
/// submitted. What is applied is synced, so that it must never be lost again.
pub fn note_replayed(machine: &mut Machine, replayed: &[Record]) {
    let promises = &mut machine.promises;
    let first = replayed
        .first()
        .map_or(machine.engine_lsn + 1, |(lsn, _)| *lsn);
    assert_eq!(
        first,
        machine.engine_lsn + 1,
        "replay must continue the engine"
    );
    for (lsn, payload) in replayed {
        match promises.submitted.get(lsn) {
            Some(submitted) => assert!(
                submitted == payload,
                "record {lsn} is not what was submitted"
            ),
            None => assert_eq!(
                payload,
                format!("trailer {lsn}").as_bytes(),
                "record {lsn} came from nowhere"
            ),
        }
    }
    let Some((last, _)) = replayed.last() else {
        return;
    };
    assert!(
        promises.ends.contains(last),
        "the journal ends inside a group, at {last}"
    );
    promises.durable_lsn = promises.durable_lsn.max(*last);
    machine.applied_lsn = *last;
}

/// A start that came to its end has reached at least what was promised.
pub fn check_recovered(machine: &Machine, replayed: &[Record], last_lsn: u64) {
    let durable_lsn = machine.promises.durable_lsn;
    assert!(
        last_lsn >= durable_lsn,
        "durable record lost: {last_lsn} < {durable_lsn}"
    );
    if let Some((last, _)) = replayed.last() {
        assert_eq!(
            *last, last_lsn,
            "a recovered journal ends with what it replayed"
        );
    }
}

/// Cuts the power: the files become what the cut leaves, and the promises narrow to what had to survive.
pub fn lose_power(machine: &mut Machine, crash: Crash) {
    let seed = machine.random.below(1 << 30);
    machine.files = machine.files.crash(crash, seed);
    let promises = &mut machine.promises;
    if crash == Crash::Kill {
        promises.durable_lsn = promises.written_lsn;
    }
}

/// The engine comes back older than the journal's synced end, equal to it or newer.
pub fn choose_image(machine: &mut Machine) {
    let (oldest, synced) = (machine.checkpointed_lsn, machine.synced_lsn());
    let ahead = machine.applied_lsn - synced;
    machine.engine_lsn = match machine.random.below(4) {
        0 => oldest,
        1 => synced,
        2 if ahead > 0 => {
            // The engine's disk has what the journal's lost. From here on it has no older image.
            let lsn = synced + 1 + machine.random.below(ahead);
            machine.checkpointed_lsn = lsn;
            lsn
        }
        _ => oldest + machine.random.below(synced - oldest + 1),
    };
    machine.applied_lsn = machine.engine_lsn;
}
