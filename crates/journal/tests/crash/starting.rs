//! Starts behind a crash: under several images of the engine, stopped at their own steps, and in the end let through.

use super::*;

/// The findings of a start on a disk.
#[derive(PartialEq)]
pub struct Found {
    pub records: Vec<Record>,
    pub last_lsn: u64,
}

/// Without the records.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, last_lsn) = (self.records.len(), self.last_lsn);
        write!(f, "{count} records up to {last_lsn}")
    }
}

impl Found {
    /// The findings that an engine that holds everything up to `lsn` must have on this disk.
    pub fn above(&self, lsn: u64) -> Found {
        let records = self.records.iter().filter(|(record, _)| *record > lsn);
        Found {
            records: records.cloned().collect(),
            last_lsn: self.last_lsn,
        }
    }
}

/// Opens the files as the machine is: promises are kept.
pub fn replay(machine: &mut Machine) -> Found {
    let owner = Owner::new();
    let journal = machine.open(&owner);
    let journal = journal.expect("a crash must leave a journal that opens");
    let (records, last_lsn) = (owner.records(), journal.last_lsn());
    note_replayed(machine, &records);
    check_recovered(machine, &records, last_lsn);
    Found { records, last_lsn }
}

/// Opens a copy of the files twice from the same image: the same records, no record more.
pub fn replay_twice(machine: &Machine, engine_lsn: u64) -> Found {
    let mut copy = machine.copy(engine_lsn);
    let first = replay(&mut copy);
    assert!(first == replay(&mut copy), "the second replay differs");
    first
}

/// The records that a crash has left are the same under every image of the engine, from the image on. Only an engine
/// that is ahead of them may find none, or some that hang on records that it has and the journal lost. Returns what
/// the image finds that the machine goes on with.
pub fn check_images(machine: &mut Machine) -> Found {
    let (oldest, newest) = (machine.checkpointed_lsn, machine.applied_lsn);
    let any = oldest + machine.random.below(newest - oldest + 1);
    let images = match machine.random.below(ALL_IMAGES_SHARE) {
        0 => (oldest..=newest).collect(),
        _ => BTreeSet::from([any, newest]),
    };
    let found = replay_twice(machine, oldest);
    for &lsn in images.iter().filter(|&&lsn| lsn > oldest) {
        let under = replay(&mut machine.copy(lsn));
        let is_ahead = lsn > found.last_lsn;
        assert!(
            is_ahead || under == found.above(lsn),
            "an engine at {lsn} finds {under}, one at {oldest} {found}"
        );
        count(&IMAGES, true);
        count(&GAPS, is_ahead && under.records.is_empty());
    }
    choose_image(machine);
    if machine.engine_lsn > found.last_lsn {
        return replay_twice(machine, machine.engine_lsn);
    }
    found
}

/// Starts, and loses the power again at a step of the start, or after that step has failed and, as a sync, forgotten; false
/// if the start ends before.
pub fn stop_start(machine: &mut Machine, stop: u64, crash: Crash) -> bool {
    let mut stopped = machine.copy(machine.engine_lsn);
    let faults = [Fault::PowerOff, Fault::PowerOff, Fault::ForgetfulSync];
    let fault = faults[stopped.random.below(3) as usize];
    stopped.files.inject(stop, fault);
    let owner = Owner::new();
    let Err(error) = stopped.open(&owner) else {
        return false;
    };
    assert!(matches!(error, Error::Io { .. }), "{error}");
    note_replayed(&mut stopped, &owner.records());
    count(&STOPPED_STARTS, true);
    count(&STOPPED_AGAIN, !stopped.stopped_starts.is_empty());
    count(&STOPPED_CUTTING, has_cut(&machine.files, &stopped.files));
    stopped.stopped_starts.push(stop);
    lose_power(&mut stopped, crash);
    // The engine may have kept any of what it was given.
    let given = stopped.applied_lsn - stopped.engine_lsn;
    stopped.engine_lsn += stopped.random.below(given + 1);
    stopped.applied_lsn = stopped.engine_lsn;
    *machine = stopped;
    true
}

/// Whether a segment is not what it was before.
pub fn has_cut(before: &SimulatedFiles, after: &SimulatedFiles) -> bool {
    let entries = before.list().unwrap().into_iter();
    let mut segments = entries.filter(|entry| entry.name.ends_with(".segment"));
    segments.any(|entry| before.content(&entry.name) != after.content(&entry.name))
}

/// Stops the next start at each of its steps, and some of the starts after it at any step.
pub fn check_all_stops(machine: &Machine, found: &Found) {
    for stop in 0.. {
        let mut copy = machine.copy(machine.engine_lsn);
        copy.random.0 ^= stop;
        let any = |random: &mut Random| Crash::ALL[random.below(5) as usize];
        let crash = any(&mut copy.random);
        if !stop_start(&mut copy, stop, crash) {
            return;
        }
        stop_some_starts(&mut copy, any);
        check_found(&copy, found);
    }
}

/// Stops none, one or several starts.
pub fn stop_some_starts(machine: &mut Machine, crash: impl Fn(&mut Random) -> Crash) {
    while machine.random.below(2) == 0 {
        let stop = machine.random.below(START_STEPS);
        let crash = crash(&mut machine.random);
        if !stop_start(machine, stop, crash) {
            return;
        }
    }
}

pub fn check_found(machine: &Machine, found: &Found) {
    let later = replay(&mut machine.copy(machine.engine_lsn));
    assert!(
        later == found.above(machine.engine_lsn),
        "a start after others that were stopped finds {later}, an undisturbed one {found}"
    );
}

/// Makes promises of what was found: what is on the disk when the power is back must never be lost again, and what is not is gone.
pub fn keep_found(promises: &mut Promises, last_lsn: u64) {
    (promises.durable_lsn, promises.written_lsn) = (last_lsn, last_lsn);
    promises.submitted.retain(|&lsn, _| lsn <= last_lsn);
    promises.ends.retain(|&lsn| lsn <= last_lsn);
}
