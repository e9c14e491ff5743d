//! One test for each way in which a disk fails, and for each way in which a segment is found damaged.

mod owner;

use std::sync::Arc;
use std::time::{Duration, Instant};

use owner::{Owner, identity, options};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{
    Error, Files, GroupBuilder, HookError, Hooks, Journal, Level, Options, Payloads, SimulatedFiles,
};

const HEADER_BYTES: usize = 4096;

#[test]
fn short_and_interrupted_calls_go_on() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    for fault in [Fault::ShortWrite, Fault::Interrupted] {
        files.inject(files.steps(), fault);
        journal.submit(&[3; 100]).unwrap();
        assert!(!journal.is_latched());
    }
    journal.submit(&[4; 100]).unwrap();
    files.inject(files.steps(), Fault::Interrupted);
    journal.wait_durable(3).unwrap();
    let after = Owner::new();
    after.open(&files.crash(Crash::Drop, 0), 0).unwrap();
    assert_eq!(after.records(), owner.records());
}

/// An owner that damages the next segment as soon as the first group is replayed.
struct Damaging {
    owner: Arc<Owner>,
    files: SimulatedFiles,
    segment: String,
}

impl Hooks for Damaging {
    fn ready(&self, bytes: usize) -> Result<(), HookError> {
        self.owner.ready(bytes)
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        self.owner.finish_group(group)
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        if self.owner.records().is_empty() {
            let mut content = self.files.content(&self.segment).unwrap();
            content[HEADER_BYTES] ^= 1;
            self.files.replace(&self.segment, content);
        }
        self.owner.apply(first_lsn, payloads)
    }
}

/// The replay reads once more what the start has read: what it misses then was seen a moment ago.
#[test]
fn a_replay_that_ends_early_is_damage() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    let segments = || -> Vec<String> {
        let names = files.list().unwrap().into_iter().map(|entry| entry.name);
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".segment")).collect();
        names.sort();
        names
    };
    while segments().len() < 3 {
        journal.commit(&[7; 500], Level::Durable).unwrap();
    }
    let names = segments();
    let files = files.crash(Crash::Kill, 0);
    drop(journal);
    let damaging = Damaging {
        owner: Owner::new(),
        files: files.clone(),
        segment: names[1].clone(),
    };
    let opened = Journal::open(
        Arc::new(files.clone()),
        options(),
        identity(),
        0,
        Arc::new(damaging),
    );
    let Error::Damaged {
        segment, reason, ..
    } = opened.err().unwrap()
    else {
        panic!("another error");
    };
    assert_eq!(segment, names[1]);
    assert!(reason.ends_with(" was durable"), "{reason}");
}

#[test]
fn a_failed_write_latches_and_leaves_nothing() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    journal.commit(b"kept", Level::Durable).unwrap();
    files.inject(files.steps(), Fault::Io);
    let error = journal.submit(&[5; 500]).unwrap_err();
    assert!(matches!(error, Error::Latched { .. }), "{error}");
    assert!(journal.is_latched());
    assert!(matches!(
        journal.submit(b"later"),
        Err(Error::Latched { .. })
    ));
    assert_eq!(
        journal.read(1).unwrap().next().unwrap(),
        Some((1, &b"kept"[..])),
        "reads are served"
    );
    drop(journal);
    let after = Owner::new();
    after.open(&files.crash(Crash::Kill, 0), 0).unwrap();
    assert_eq!(after.records(), [(1, b"kept".to_vec())]);
}

#[test]
fn a_write_that_cannot_be_cut_off_has_an_unknown_outcome() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    files.inject(files.steps(), Fault::Io);
    files.inject(files.steps() + 1, Fault::Io);
    let error = journal.submit(&[5; 500]).unwrap_err();
    assert!(
        error.is_outcome_unknown() && !error.is_retryable(),
        "{error}"
    );
    assert!(journal.is_latched());
}

#[test]
fn a_failed_sync_latches_and_is_never_tried_again() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    let lsn = journal.submit(b"written").unwrap().lsn;
    files.fail_syncs(true);
    let error = journal.wait_durable(lsn).unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    files.fail_syncs(false);
    let syncs = journal.sync_counters().syncs;
    assert!(
        journal.wait_durable(lsn).unwrap_err().is_outcome_unknown(),
        "a second sync would lie"
    );
    assert!(matches!(
        journal.commit(b"later", Level::Durable),
        Err(Error::Latched { .. })
    ));
    assert_eq!(journal.sync_counters().syncs, syncs);
    assert_eq!(journal.durable_lsn(), 0);
}

#[test]
fn waiting_threads_all_learn_of_a_failed_sync() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    files.fail_syncs(true);
    std::thread::scope(|scope| {
        let journal = &journal;
        let writers: Vec<_> = (0..8u8)
            .map(|n| scope.spawn(move || journal.commit(&[n], Level::Durable).unwrap_err()))
            .collect();
        for writer in writers {
            let error = writer.join().unwrap();
            assert!(
                error.is_outcome_unknown() || matches!(error, Error::Latched { .. }),
                "{error}"
            );
        }
    });
}

#[test]
fn a_full_disk_refuses_and_goes_on_by_itself() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    files.set_space(Some(files.bytes()));
    let mut accepted = 0;
    let error = loop {
        match journal.submit(&[6; 1000]) {
            Ok(ticket) => accepted = ticket.lsn,
            Err(error) => break error,
        }
    };
    assert!(
        error.is_no_space() && error.is_retryable() && !error.is_outcome_unknown(),
        "{error}"
    );
    assert!(accepted > 5 && !journal.is_latched());
    journal.wait_durable(accepted).unwrap();
    assert!(journal.submit(&[6; 1000]).unwrap_err().is_no_space());
    files.set_space(None);
    assert_eq!(journal.submit(b"space is back").unwrap().lsn, accepted + 1);
    drop(journal);
    let after = Owner::new();
    after.open(&files, 0).unwrap();
    assert_eq!(after.records(), owner.records());
}

#[test]
fn a_segment_that_a_full_disk_left_empty_is_passed_over() {
    // Two records fill the first segment, the third needs another one.
    let record = [7; 6000];
    let fill = |files: &SimulatedFiles, owner: &Arc<Owner>| {
        let journal = owner.open(files, 0).unwrap();
        journal.submit(&record).unwrap();
        journal.commit(&record, Level::Durable).unwrap();
        journal
    };
    let steps_to_the_third_write = {
        let files = SimulatedFiles::new();
        let journal = fill(&files, &Owner::new());
        let before = files.steps();
        journal.submit(&record).unwrap();
        files.steps() - 1 - before
    };
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = fill(&files, &owner);
    files.inject(files.steps() + steps_to_the_third_write, Fault::NoSpace);
    assert!(journal.submit(&record).unwrap_err().is_no_space());
    // It does not fit the segment that was made for the third.
    let longer = [8; 20_000];
    assert_eq!(journal.commit(&longer, Level::Durable).unwrap().lsn, 3);
    drop(journal);
    let after = Owner::new();
    after.open(&files.crash(Crash::Drop, 0), 0).unwrap();
    assert_eq!(after.records().len(), 3);
    assert!(after.records() == owner.records());
}

#[test]
fn an_append_that_meets_a_full_disk_is_cut_off() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    journal.submit(b"before").unwrap();
    files.inject(files.steps(), Fault::NoSpace);
    assert!(journal.submit(&[7; 2000]).unwrap_err().is_no_space());
    assert_eq!(
        Owner::new()
            .open(&files.crash(Crash::Kill, 0), 0)
            .unwrap()
            .last_lsn(),
        1
    );
    assert_eq!(journal.submit(b"after").unwrap().lsn, 2);
    drop(journal);
    let after = Owner::new();
    after.open(&files, 0).unwrap();
    assert_eq!(after.records(), owner.records());
}

#[test]
fn a_panic_while_applying_ends_the_process() {
    const CHILD: &str = "QUARRY_JOURNAL_PANICS";
    if std::env::var_os(CHILD).is_some() {
        let owner = Owner::new();
        let journal = owner.open(&SimulatedFiles::new(), 0).unwrap();
        owner.panic_next();
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| journal.submit(b"last")));
        return;
    }
    let test = std::env::current_exe().unwrap();
    let child = std::process::Command::new(test)
        .args(["--exact", "a_panic_while_applying_ends_the_process"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(
        !child.status.success(),
        "the process went on after a panic in the commit path"
    );
}

/// Several segments: two closed lives with a checkpoint in neither.
fn closed_journal() -> (SimulatedFiles, usize) {
    let files = SimulatedFiles::new();
    for _ in 0..2 {
        let owner = Owner::new();
        let journal = owner.open(&files, 0).unwrap();
        for number in 0..60u32 {
            let level = if number % 5 == 0 {
                Level::Durable
            } else {
                Level::Written
            };
            journal.commit(&[number as u8; 700], level).unwrap();
        }
        journal.close().unwrap();
    }
    let segments = names(&files).len();
    assert!(segments >= 4, "{segments}");
    (files, segments)
}

fn names(files: &SimulatedFiles) -> Vec<String> {
    use quarry_journal::Files;
    files
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| name.ends_with(".segment"))
        .collect()
}

fn refusal(files: &SimulatedFiles) -> (String, u64) {
    let before: Vec<_> = names(files)
        .iter()
        .map(|name| files.content(name))
        .collect();
    let result = Journal::open(
        Arc::new(files.clone()),
        options(),
        identity(),
        0,
        Owner::new(),
    );
    let after: Vec<_> = names(files)
        .iter()
        .map(|name| files.content(name))
        .collect();
    assert!(before == after, "a refused start must change nothing");
    match result.err() {
        Some(Error::Damaged {
            segment, offset, ..
        }) => (segment, offset),
        other => panic!("expected damage to be refused, got {other:?}"),
    }
}

#[test]
fn a_flipped_bit_is_named_wherever_it_is() {
    let (files, segments) = closed_journal();
    for index in 0..segments {
        let name = names(&files)[index].clone();
        let whole = files.content(&name).unwrap();
        let data_end = whole.iter().rposition(|&byte| byte != 0).unwrap();
        for at in (HEADER_BYTES..data_end.saturating_sub(100))
            .step_by(611)
            .chain([3, 70, 150, HEADER_BYTES, HEADER_BYTES + 60])
        {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            if index == segments - 1 && at > HEADER_BYTES + 100 && at + 2000 > data_end {
                continue;
            }
            files.replace(&name, flipped);
            let (segment, offset) = refusal(&files);
            assert_eq!(segment, name, "bit at {at}");
            assert!(
                offset as usize <= at.max(160),
                "offset {offset} for a bit at {at}"
            );
        }
        files.replace(&name, whole);
    }
    Owner::new().open(&files, 0).unwrap();
}

/// The segment that is made ahead of need holds no group yet, and is not what is broken.
#[test]
fn a_flipped_bit_is_named_before_a_segment_made_ahead() {
    let files = SimulatedFiles::new();
    let options = Options {
        background: true,
        ..options()
    };
    let journal = Journal::open(
        Arc::new(files.clone()),
        options,
        identity(),
        0,
        Owner::new(),
    )
    .unwrap();
    for number in 0..20 {
        journal.commit(&[number; 300], Level::Durable).unwrap();
    }
    let is_blank = |name: &String| {
        let content = files.content(name).unwrap();
        content[HEADER_BYTES..].iter().all(|&byte| byte == 0)
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !names(&files).last().is_some_and(is_blank) {
        assert!(Instant::now() < deadline, "no segment is made ahead");
        std::thread::yield_now();
    }
    journal.close().unwrap();
    let name = names(&files).into_iter().rfind(|name| !is_blank(name));
    let name = name.unwrap();
    let whole = files.content(&name).unwrap();
    let data_end = whole.iter().rposition(|&byte| byte != 0).unwrap();
    // All but the last group, which only the mark of closing has behind it.
    for at in (HEADER_BYTES..data_end - 600).step_by(97) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        files.replace(&name, flipped);
        let (segment, offset) = refusal(&files);
        assert_eq!(segment, name, "bit at {at}");
        assert!((offset as usize) <= at && at - (offset as usize) < 600);
    }
}

#[test]
fn a_truncated_or_zeroed_segment_is_refused() {
    let (files, segments) = closed_journal();
    for index in 0..segments - 1 {
        let name = names(&files)[index].clone();
        let whole = files.content(&name).unwrap();
        files.replace(&name, whole[..HEADER_BYTES + 900].to_vec());
        assert_eq!(refusal(&files).0, name);
        let mut zeroed = whole.clone();
        zeroed[HEADER_BYTES + 800..HEADER_BYTES + 1800].fill(0);
        files.replace(&name, zeroed);
        assert_eq!(refusal(&files).0, name);
        files.replace(&name, vec![0; whole.len()]);
        assert_eq!(refusal(&files), (name.clone(), 0));
        files.replace(&name, whole);
    }
}

/// The last segment is refused as well while the mark of the closed journal stands behind the damage.
#[test]
fn the_mark_tells_damage_of_the_last_segment_from_a_tail() {
    let (files, segments) = closed_journal();
    let name = names(&files)[segments - 1].clone();
    let mut zeroed = files.content(&name).unwrap();
    let mark = zeroed.windows(4).rposition(|four| four == b"QJG2").unwrap();
    zeroed[HEADER_BYTES..mark].fill(0);
    files.replace(&name, zeroed);
    assert_eq!(refusal(&files), (name, HEADER_BYTES as u64));
}

/// A segment has its whole length before it has its name: no crash makes it shorter.
#[test]
fn a_last_segment_that_was_cut_short_is_refused() {
    let (files, segments) = closed_journal();
    let name = names(&files)[segments - 1].clone();
    let whole = files.content(&name).unwrap();
    for bytes in [HEADER_BYTES, HEADER_BYTES + 900, whole.len() - 1] {
        files.replace(&name, whole[..bytes].to_vec());
        assert_eq!(refusal(&files), (name.clone(), bytes as u64));
    }
    files.replace(&name, whole);
    Owner::new().open(&files, 0).unwrap();
}

/// Nothing tells a last segment that somebody removed from one that never was: the log ends before it.
#[test]
fn without_its_last_segment_a_journal_ends_before_it() {
    use quarry_journal::Files;
    let (files, segments) = closed_journal();
    files.remove(&names(&files)[segments - 1]).unwrap();
    let kept = Owner::new();
    drop(kept.open(&files, 0).unwrap());
    let all = Owner::new();
    drop(all.open(&closed_journal().0, 0).unwrap());
    let (kept, all) = (kept.records(), all.records());
    assert!(kept.len() < all.len() && kept == all[..kept.len()]);
}

#[test]
fn a_journal_that_must_exist_is_not_begun_anew() {
    let open = |files: &SimulatedFiles| {
        let options = Options {
            must_exist: true,
            ..options()
        };
        let files = Arc::new(files.clone());
        Journal::open(files, options, identity(), 0, Owner::new())
    };
    let error = open(&SimulatedFiles::new()).err();
    assert!(
        matches!(error, Some(Error::HistoryMissing { needed_lsn: 1, .. })),
        "{error:?}"
    );
    let files = SimulatedFiles::new();
    drop(Owner::new().open(&files, 0).unwrap());
    open(&files).unwrap();
}

#[test]
fn a_duplicated_swapped_or_missing_segment_is_refused() {
    use quarry_journal::Files;
    let (files, segments) = closed_journal();
    let names = names(&files);
    let (first, second) = (
        files.content(&names[0]).unwrap(),
        files.content(&names[1]).unwrap(),
    );
    files.replace(&names[1], first.clone());
    assert_eq!(refusal(&files).0, names[1], "duplicated");
    files.replace(&names[0], second.clone());
    assert_eq!(refusal(&files).0, names[0], "out of order");
    files.replace(&names[0], first);
    files.replace(&names[1], second.clone());
    files.remove(&names[1]).unwrap();
    assert_eq!(refusal(&files).0, names[1], "missing");
    files.replace(&names[1], second);
    files.remove(&names[0]).unwrap();
    let missing = Journal::open(
        Arc::new(files.clone()),
        options(),
        identity(),
        0,
        Owner::new(),
    )
    .err();
    assert!(
        matches!(missing, Some(Error::HistoryMissing { needed_lsn: 1, .. })),
        "{missing:?}"
    );
    assert!(segments > 3);
}

#[test]
fn the_unsynced_tail_is_cut_and_stays_cut() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    journal.commit(&[1; 300], Level::Durable).unwrap();
    for number in 2..6u8 {
        journal.submit(&[number; 300]).unwrap();
    }
    let name = names(&files).pop().unwrap();
    let mut torn = files.content(&name).unwrap();
    // The second of four unsynced groups did not arrive; the two after it did.
    let group_bytes = 96 + 4 + 300;
    torn[HEADER_BYTES + 2 * group_bytes + 100] ^= 1;
    let after = SimulatedFiles::new();
    after.replace(&name, torn);
    let owner = Owner::new();
    let journal = owner.open(&after, 0).unwrap();
    assert_eq!(owner.records(), [(1, vec![1; 300]), (2, vec![2; 300])]);
    let cut = after.content(&name).unwrap();
    assert!(
        cut[HEADER_BYTES + 2 * group_bytes..]
            .iter()
            .all(|&byte| byte == 0),
        "the tail is zeroed"
    );
    assert_eq!(journal.commit(b"new third", Level::Durable).unwrap().lsn, 3);
    drop(journal);
    let again = Owner::new();
    again.open(&after.crash(Crash::Drop, 0), 0).unwrap();
    assert_eq!(again.records()[2], (3, b"new third".to_vec()));
}

#[test]
fn an_unsupported_version_is_named() {
    let files = SimulatedFiles::new();
    drop(Owner::new().open(&files, 0).unwrap());
    let name = names(&files).pop().unwrap();
    let mut newer = files.content(&name).unwrap();
    newer[8] = 4;
    let crc = crc32c::crc32c(&newer[..124]);
    newer[124..128].copy_from_slice(&crc.to_le_bytes());
    files.replace(&name, newer);
    let error = Owner::new().open(&files, 0).err();
    assert!(
        matches!(error, Some(Error::UnsupportedVersion { version: 4, .. })),
        "{error:?}"
    );
}
