//! A life: the journal is opened, written to, checkpointed, and ends at the step that was planned.

use super::*;

/// How often a group is to be durable, and how often one is followed by a checkpoint: one of this many.
pub struct Habits {
    pub durable_share: u64,
    pub checkpoint_share: u64,
}

/// The second kind of life reuses segments that it freed itself, the third leaves several that are unsynced.
pub const HABITS: [Habits; 3] = [
    Habits {
        durable_share: 3,
        checkpoint_share: 12,
    },
    Habits {
        durable_share: 3,
        checkpoint_share: 3,
    },
    Habits {
        durable_share: 60,
        checkpoint_share: 60,
    },
];

/// Opens, writes groups, checkpoints now and then. Ends early when the machine stops, or is killed if that is to be.
pub fn live(machine: &mut Machine) -> Result<(), Error> {
    let owner = Owner::new();
    let opened = machine.open(&owner);
    note_replayed(machine, &owner.records());
    count(&STOPPED_UNSYNCED, machine.is_unsynced && opened.is_err());
    machine.is_unsynced = false;
    let journal = opened?;
    check_recovered(machine, &owner.records(), journal.last_lsn());
    owner.set_trailer(machine.random.below(2) == 0);
    let commits = match machine.will_be_killed {
        true => machine.random.below(COMMITS),
        false => COMMITS,
    };
    let habits = &HABITS[machine.random.below(HABITS.len() as u64) as usize];
    for _ in 0..commits {
        commit_some(machine, &journal, habits)?;
        if machine.random.below(habits.checkpoint_share) == 0 {
            let lsn = journal.sync()?;
            machine.promises.durable_lsn = lsn;
            machine.engine_lsn = lsn;
            machine.checkpointed_lsn = lsn;
            journal.checkpointed(lsn)?;
        }
    }
    if machine.will_be_killed {
        match machine.random.below(2) {
            0 => kill(&machine.files, journal),
            _ => kill_after_failed_sync(&machine.files, journal),
        }
    }
    Ok(())
}

/// The process ends before it can sync anything.
pub fn kill(files: &SimulatedFiles, journal: Journal) {
    files.fail_syncs(true);
    drop(journal);
    files.fail_syncs(false);
}

/// A sync fails and forgets, and then the process ends: only readers see what was not yet durable.
pub fn kill_after_failed_sync(files: &SimulatedFiles, journal: Journal) {
    files.forget_syncs(true);
    count(&FORGOTTEN, journal.sync().is_err());
    drop(journal);
    files.forget_syncs(false);
}

/// One group of one or several records.
pub fn commit_some(machine: &mut Machine, journal: &Journal, habits: &Habits) -> Result<(), Error> {
    let level = if machine.random.below(habits.durable_share) == 0 {
        Level::Durable
    } else {
        Level::Written
    };
    let first_lsn = journal.last_lsn() + 1;
    let count = 1 + machine.random.below(3);
    let mut pending = Vec::new();
    let mut payloads = Vec::new();
    for _ in 0..count {
        let size = if count == 1 && machine.random.below(8) == 0 {
            9000
        } else {
            machine.random.below(700)
        };
        let payload = payload(size, machine.random.below(512));
        pending.push(journal.submit_async(&payload, Level::Written)?);
        payloads.push(payload);
    }
    for (index, payload) in payloads.into_iter().enumerate() {
        machine
            .promises
            .submitted
            .insert(first_lsn + index as u64, payload);
    }
    machine.promises.ends.push(first_lsn + count - 1);
    machine.promises.ends.push(first_lsn + count);
    assert_eq!(
        journal.last_lsn() + 1,
        first_lsn,
        "the group is led by the flush"
    );
    journal.flush();
    for pending in &pending {
        journal.wait(pending)?;
    }
    let last_lsn = journal.last_lsn();
    if last_lsn == first_lsn + count {
        machine
            .promises
            .submitted
            .insert(last_lsn, format!("trailer {last_lsn}").into_bytes());
    }
    machine.promises.written_lsn = last_lsn;
    machine.applied_lsn = last_lsn;
    if level == Level::Durable {
        journal.wait_durable(last_lsn)?;
        machine.promises.durable_lsn = last_lsn;
    }
    Ok(())
}

/// Makes a payload. Those of every other seed cannot be compressed.
pub fn payload(bytes: u64, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let byte = |at| match seed % 2 {
        0 => (at as u8).wrapping_mul(31) ^ (seed / 2) as u8,
        _ => random.below(256) as u8,
    };
    (0..bytes).map(byte).collect()
}
