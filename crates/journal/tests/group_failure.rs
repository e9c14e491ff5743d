//! What becomes of a group of several records when the disk or the engine fails.
//!
//! A first record, whose writer is alone, is held while it is applied, until writers of all kinds have formed the next
//! group. The failure strikes that group and no other; some more records queue behind it meanwhile. Everybody in the
//! group gets the same answer, what is refused leaves no trace, and nobody hangs. What the same failures do to a writer
//! that is alone is in `failure.rs`.

mod owner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use owner::{Owner, Record, identity};
use parking_lot::Mutex;
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{
    Error, GroupBuilder, HookError, HookErrorKind, Hooks, Journal, Level, Options, Payloads,
    SimulatedFiles,
};

/// Whatever takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(30);
const RECORD_BYTES: usize = 200;
/// The writers of the struck group.
const WRITERS: usize = 12;
/// Records that queue while the group is struck.
const BEHIND: usize = 3;
/// The owner adds a record to each group. So far the first group reaches, and so far the struck one.
const FIRST_LSN: u64 = 2;
const STRUCK_LSN: u64 = FIRST_LSN + WRITERS as u64 + 1;

/// How a record is submitted and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Written,
    Durable,
    ToSync,
    ThroughSync,
    AsyncWritten,
    AsyncDurable,
}

type Kinds = &'static [Kind];

/// The kinds in a group. Those who sleep until it is synced are woken in another way where others go on when it is
/// applied.
const MIXES: [Kinds; 4] = [
    &Kind::ALL,
    &[Kind::Durable, Kind::ThroughSync],
    &[Kind::ToSync],
    &[Kind::Written, Kind::AsyncWritten, Kind::ThroughSync],
];

fn kind_in(kinds: Kinds, writer: usize) -> Kind {
    kinds[writer % kinds.len()]
}

/// The LSN of an acknowledged record.
type Answer = Result<u64, Error>;

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::Written,
        Kind::Durable,
        Kind::ToSync,
        Kind::ThroughSync,
        Kind::AsyncWritten,
        Kind::AsyncDurable,
    ];

    fn level(self) -> Level {
        match self {
            Kind::Written | Kind::AsyncWritten => Level::Written,
            _ => Level::Durable,
        }
    }

    fn commit(self, journal: &Journal, record: &[u8]) -> Answer {
        let ticket = match self {
            Kind::Written | Kind::Durable => {
                return Ok(journal.commit(record, self.level())?.lsn);
            }
            Kind::AsyncWritten | Kind::AsyncDurable => {
                let pending = journal.submit_async(record, self.level())?;
                return Ok(journal.wait(&pending)?.lsn);
            }
            Kind::ToSync => journal.submit_to_sync(record)?,
            Kind::ThroughSync => journal.submit_through_sync(record)?,
        };
        journal.wait_durable(ticket.lsn)?;
        Ok(ticket.lsn)
    }
}

/// Runs on a thread of its own. What hangs there fails the test in `end`.
fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, is_done) = channel();
    std::thread::spawn(move || done.send(work()));
    is_done
}

fn end<T>(is_done: &Receiver<T>) -> T {
    is_done
        .recv_timeout(DEADLINE)
        .expect("it hangs or has panicked")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: it never came");
        std::thread::yield_now();
    }
}

/// A place that tells when it is reached, and goes on when it is told.
struct Gate {
    reached: Mutex<Sender<()>>,
    goes_on: Mutex<Receiver<()>>,
}

struct Keeper {
    is_reached: Receiver<()>,
    go_on: Sender<()>,
}

impl Gate {
    fn new() -> (Gate, Keeper) {
        let ((reached, is_reached), (go_on, goes_on)) = (channel(), channel());
        let gate = Gate {
            reached: Mutex::new(reached),
            goes_on: Mutex::new(goes_on),
        };
        (gate, Keeper { is_reached, go_on })
    }

    fn pass(&self) {
        self.reached.lock().send(()).unwrap();
        end(&self.goes_on.lock());
    }
}

type Strike = fn(&SimulatedFiles, &Owner) -> Result<(), HookError>;

/// Holds the first group while it is applied, and the group of all writers before it is struck.
struct Engine {
    files: SimulatedFiles,
    owner: Arc<Owner>,
    first: Gate,
    struck: Gate,
    strike: Mutex<Option<Strike>>,
}

impl Hooks for Engine {
    fn ready(&self, bytes: usize) -> Result<(), HookError> {
        // With a record less the group is shorter, whatever its headers take.
        if bytes < WRITERS * RECORD_BYTES {
            return Ok(());
        }
        let Some(strike) = self.strike.lock().take() else {
            return Ok(());
        };
        self.struck.pass();
        strike(&self.files, &self.owner)
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) {
        self.owner.finish_group(group);
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        if first_lsn == 1 {
            self.first.pass();
        }
        self.owner.apply(first_lsn, payloads)
    }
}

/// A journal with a group that was struck.
struct Struck {
    files: SimulatedFiles,
    owner: Arc<Owner>,
    journal: Arc<Journal>,
    kinds: Kinds,
    /// What the writers of the group were told, by their number.
    answers: BTreeMap<usize, Answer>,
    /// What those were told who queued behind it.
    behind: Vec<Answer>,
    /// Steps of the disk while it was struck.
    steps: u64,
}

fn options() -> Options {
    Options {
        segment_bytes: 8 * 1024,
        // Who goes on leads no group.
        gather_ns: u64::MAX,
        ..owner::options()
    }
}

fn open(files: &SimulatedFiles, options: Options, hooks: Arc<dyn Hooks>) -> Arc<Journal> {
    let files = Arc::new(files.clone());
    Arc::new(Journal::open(files, options, identity(), 0, hooks).unwrap())
}

fn strike(kinds: Kinds, strike: Strike) -> Struck {
    strike_behind(10, kinds, strike)
}

/// Strikes a group behind a first record of that length.
fn strike_behind(first_bytes: usize, kinds: Kinds, strike: Strike) -> Struck {
    let mut struck = None;
    wait_until("a group of all writers", || {
        struck = try_strike(first_bytes, kinds, strike);
        struck.is_some()
    });
    struck.unwrap()
}

/// None if a writer came too late for the group: then all was well.
fn try_strike(first_bytes: usize, kinds: Kinds, strike: Strike) -> Option<Struck> {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    owner.set_trailer(true);
    let ((first, first_keeper), (struck, strike_keeper)) = (Gate::new(), Gate::new());
    let engine = Arc::new(Engine {
        files: files.clone(),
        owner: owner.clone(),
        first,
        struck,
        strike: Mutex::new(None),
    });
    let journal = open(&files, options(), engine.clone());
    let writer = Arc::clone(&journal);
    let first = begin(move || writer.submit(&vec![0xff; first_bytes]).unwrap().lsn);
    end(&first_keeper.is_reached);
    *engine.strike.lock() = Some(strike);
    let is_answered = begin_writers(&journal, kinds);
    first_keeper.go_on.send(()).unwrap();
    let (mut answers, mut is_struck) = (BTreeMap::new(), false);
    wait_until("the group", || {
        is_struck = strike_keeper.is_reached.try_recv().is_ok();
        answers.extend(is_answered.try_iter());
        is_struck || answers.len() == WRITERS
    });
    assert_eq!(end(&first), 1);
    if !is_struck {
        return None;
    }
    let pending = (0..BEHIND).map(|_| journal.submit_async(b"behind", Level::Written));
    let pending: Result<Vec<_>, _> = pending.collect();
    let pending = pending.unwrap();
    let before = files.steps();
    strike_keeper.go_on.send(()).unwrap();
    while answers.len() < WRITERS {
        answers.extend([end(&is_answered)]);
    }
    let steps = files.steps() - before;
    let waiter = Arc::clone(&journal);
    let behind = begin(move || {
        let answers = pending.iter().map(|pending| Ok(waiter.wait(pending)?.lsn));
        answers.collect()
    });
    Some(Struck {
        behind: end(&behind),
        files,
        owner,
        journal,
        kinds,
        answers,
        steps,
    })
}

/// Returns when all of them are about to submit.
fn begin_writers(journal: &Arc<Journal>, kinds: Kinds) -> Receiver<(usize, Answer)> {
    let (answer, is_answered) = channel();
    let begun = Arc::new(AtomicUsize::new(0));
    for writer in 0..WRITERS {
        let (journal, answer, begun) = (Arc::clone(journal), answer.clone(), Arc::clone(&begun));
        std::thread::spawn(move || {
            begun.fetch_add(1, Ordering::SeqCst);
            let given = kind_in(kinds, writer).commit(&journal, &record_of(writer));
            // Nobody hears it any more once the test has failed.
            let _ = answer.send((writer, given));
        });
    }
    wait_until("the writers", || begun.load(Ordering::SeqCst) == WRITERS);
    (0..1000).for_each(|_| std::thread::yield_now());
    is_answered
}

fn record_of(writer: usize) -> Vec<u8> {
    vec![writer as u8; RECORD_BYTES]
}

/// What a start finds.
fn found_in(files: &SimulatedFiles) -> Vec<Record> {
    let owner = Owner::new();
    owner.open(files, 0).unwrap();
    owner.records()
}

impl Struck {
    /// The same error for everybody in the group.
    fn error(&self) -> Error {
        let error = self.answers[&0].clone().unwrap_err();
        for (writer, answer) in &self.answers {
            let kind = kind_in(self.kinds, *writer);
            assert_eq!(answer, &Err(error.clone()), "{kind:?}");
        }
        error
    }

    fn commit(&self, kind: Kind) -> Answer {
        let journal = Arc::clone(&self.journal);
        end(&begin(move || kind.commit(&journal, b"later")))
    }

    fn close(&self) -> Result<(), Error> {
        let journal = Arc::clone(&self.journal);
        end(&begin(move || journal.close()))
    }

    /// The engine and readers have the first group and nothing else.
    fn check_only_first_is_visible(&self) {
        assert_eq!(self.owner.records().len() as u64, FIRST_LSN);
        assert_eq!(self.journal.last_lsn(), FIRST_LSN);
        let mut reader = self.journal.read(1).unwrap();
        for (lsn, record) in self.owner.records() {
            assert_eq!(reader.next().unwrap(), Some((lsn, &record[..])));
        }
        assert_eq!(reader.next().unwrap(), None);
    }

    /// Nor has a start anything else.
    fn check_no_trace(&self) {
        self.check_only_first_is_visible();
        let found = found_in(&self.files.crash(Crash::Kill, 0));
        assert_eq!(found, self.owner.records());
    }

    fn check_latched(&self) {
        assert!(self.journal.is_latched());
        for behind in &self.behind {
            assert!(matches!(behind, Err(Error::Latched { .. })), "{behind:?}");
        }
        for kind in Kind::ALL {
            let later = self.commit(kind);
            assert!(matches!(later, Err(Error::Latched { .. })), "{later:?}");
        }
        assert!(matches!(self.close(), Err(Error::Latched { .. })));
    }

    /// Writing goes on where the first group ended, with those who queued behind the struck one.
    fn check_goes_on(&self) {
        assert!(!self.journal.is_latched());
        let behind = FIRST_LSN + 1..=FIRST_LSN + BEHIND as u64;
        assert_eq!(self.behind, behind.clone().map(Ok).collect::<Vec<_>>());
        let mut last_lsn = behind.end() + 1;
        for kind in Kind::ALL {
            assert_eq!(self.commit(kind), Ok(last_lsn + 1), "{kind:?}");
            // The owner's record follows.
            last_lsn += 2;
        }
        assert_eq!(self.owner.records().len() as u64, last_lsn);
        assert_eq!(self.close(), Ok(()));
        assert_eq!(
            found_in(&self.files.crash(Crash::Drop, 0)),
            self.owner.records()
        );
    }

    /// The group is there once, whole, behind the first one: the records of all writers and the owner's.
    fn check_group_in(&self, records: &[Record]) {
        let group = &records[FIRST_LSN as usize..STRUCK_LSN as usize];
        let mut expected: Vec<_> = (0..WRITERS).map(record_of).collect();
        let mut found: Vec<_> = group[..WRITERS]
            .iter()
            .map(|(_, record)| record.clone())
            .collect();
        found.sort();
        expected.sort();
        assert!(found == expected, "the group is not what was submitted");
        let trailer = format!("trailer {STRUCK_LSN}").into_bytes();
        assert_eq!(group[WRITERS], (STRUCK_LSN, trailer));
        let lsns = records.iter().map(|(lsn, _)| *lsn);
        assert!(
            lsns.eq(1..=records.len() as u64),
            "a record is missing or doubled"
        );
    }
}

#[test]
fn a_failed_write_answers_the_whole_group_and_latches() {
    for kinds in MIXES {
        let struck = strike(kinds, |files, _| {
            files.inject(files.steps(), Fault::Io);
            Ok(())
        });
        let error = struck.error();
        assert!(matches!(error, Error::Latched { .. }), "{error}");
        assert!(!error.is_outcome_unknown() && !error.is_retryable());
        struck.check_no_trace();
        struck.check_latched();
        struck.check_no_trace();
    }
}

#[test]
fn of_a_group_that_cannot_be_cut_off_nobody_knows_the_outcome() {
    for kinds in MIXES {
        let struck = strike(kinds, |files, _| {
            files.inject(files.steps(), Fault::Io);
            files.inject(files.steps() + 1, Fault::Io);
            Ok(())
        });
        let error = struck.error();
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
        assert!(error.is_outcome_unknown() && !error.is_retryable());
        struck.check_only_first_is_visible();
        struck.check_latched();
    }
}

#[test]
fn a_segment_that_cannot_be_made_answers_the_whole_group_and_latches() {
    for kinds in MIXES {
        let struck = strike_behind(3000, kinds, |files, _| {
            files.inject(files.steps(), Fault::Io);
            Ok(())
        });
        let error = struck.error();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(!error.is_outcome_unknown() && !error.is_retryable());
        struck.check_no_trace();
        struck.check_latched();
        struck.check_no_trace();
    }
}

#[test]
fn a_full_disk_refuses_the_whole_group_and_leaves_no_hole() {
    for kinds in MIXES {
        let in_the_write = strike(kinds, |files, _| {
            files.inject(files.steps(), Fault::NoSpace);
            Ok(())
        });
        let in_the_next_segment = strike_behind(3000, kinds, |files, _| {
            files.inject(files.steps() + 1, Fault::NoSpace);
            Ok(())
        });
        for struck in [in_the_write, in_the_next_segment] {
            let error = struck.error();
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            assert!(error.is_no_space() && error.is_retryable() && !error.is_outcome_unknown());
            struck.check_goes_on();
        }
    }
}

const KINDS_OF_REFUSAL: [HookErrorKind; 3] = [
    HookErrorKind::NoSpace,
    HookErrorKind::Stalled,
    HookErrorKind::Failed,
];

fn refusal(kind: HookErrorKind) -> HookError {
    HookError::new(kind, "the engine was told to refuse")
}

#[test]
fn an_engine_that_is_not_ready_refuses_the_whole_group() {
    let strikes: [Strike; 3] = [
        |_, _| Err(refusal(HookErrorKind::NoSpace)),
        |_, _| Err(refusal(HookErrorKind::Stalled)),
        |_, _| Err(refusal(HookErrorKind::Failed)),
    ];
    for (kind, told_to_refuse) in KINDS_OF_REFUSAL.into_iter().zip(strikes) {
        let struck = strike(&Kind::ALL, told_to_refuse);
        let error = struck.error();
        assert_eq!(error, Error::Refused(refusal(kind)));
        assert!(!error.is_outcome_unknown());
        assert_eq!(error.is_retryable(), kind != HookErrorKind::Failed);
        assert_eq!(error.is_no_space(), kind == HookErrorKind::NoSpace);
        assert_eq!(struck.steps, 0, "nothing is written");
        struck.check_goes_on();
    }
}

/// The log has the group, and the engine does not take it.
fn strike_apply(kinds: Kinds) -> Struck {
    let struck = strike(kinds, |_, owner| {
        owner.refuse(Some(refusal(HookErrorKind::NoSpace)));
        Ok(())
    });
    let error = struck.error();
    assert_eq!(error, Error::Unapplied(refusal(HookErrorKind::NoSpace)));
    assert!(error.is_outcome_unknown() && error.is_no_space() && error.is_retryable());
    assert!(struck.journal.is_latched());
    struck.check_only_first_is_visible();
    let refused = Err(Error::Refused(refusal(HookErrorKind::NoSpace)));
    assert_eq!(struck.behind, vec![refused.clone(); BEHIND]);
    for kind in Kind::ALL {
        assert_eq!(struck.commit(kind), refused, "{kind:?}");
    }
    struck.check_only_first_is_visible();
    struck
}

#[test]
fn a_group_that_the_engine_refused_is_applied_first_and_once() {
    for (next, kinds) in Kind::ALL.into_iter().zip(MIXES.into_iter().cycle()) {
        let struck = strike_apply(kinds);
        struck.owner.refuse(None);
        assert_eq!(struck.commit(next), Ok(STRUCK_LSN + 1), "{next:?}");
        assert!(!struck.journal.is_latched());
        let records = struck.owner.records();
        struck.check_group_in(&records);
        // What was refused meanwhile has left nothing behind.
        assert_eq!(records[STRUCK_LSN as usize].1, b"later");
        assert_eq!(records.len() as u64, STRUCK_LSN + 2);
        assert_eq!(struck.close(), Ok(()));
        assert_eq!(found_in(&struck.files.crash(Crash::Drop, 0)), records);
    }
}

#[test]
fn a_group_that_the_engine_refused_is_offered_again_without_a_write() {
    let struck = strike_apply(&Kind::ALL);
    let retry = || {
        let journal = Arc::clone(&struck.journal);
        end(&begin(move || journal.retry_refused()))
    };
    assert!(matches!(retry(), Err(Error::Refused(_))));
    assert!(struck.journal.is_latched());
    struck.owner.refuse(None);
    assert_eq!((retry(), retry()), (Ok(()), Ok(())));
    assert!(!struck.journal.is_latched());
    let records = struck.owner.records();
    struck.check_group_in(&records);
    assert_eq!(struck.journal.last_lsn(), STRUCK_LSN);
    assert_eq!(struck.close(), Ok(()));
}

#[test]
fn a_restart_replays_a_group_that_the_engine_refused() {
    let struck = strike_apply(&Kind::ALL);
    let killed = found_in(&struck.files.crash(Crash::Kill, 0));
    struck.check_group_in(&killed);
    assert_eq!(struck.close(), Ok(()), "what the log has is synced");
    let closed = found_in(&struck.files.crash(Crash::Drop, 0));
    assert!(closed == killed);
}

#[test]
fn a_failed_sync_answers_those_of_the_group_who_wait_for_it() {
    for kinds in MIXES {
        let struck = strike(kinds, |files, _| {
            files.fail_syncs(true);
            Ok(())
        });
        let records = struck.owner.records();
        struck.check_group_in(&records);
        for (&writer, answer) in &struck.answers {
            let kind = kind_in(kinds, writer);
            match (kind.level(), answer) {
                (Level::Written, Ok(lsn)) => {
                    assert!(records.contains(&(*lsn, record_of(writer))));
                }
                (Level::Durable, Err(error)) => {
                    let is_unknown = matches!(error, Error::OutcomeUnknown { .. });
                    assert!(is_unknown && !error.is_retryable(), "{error}");
                }
                _ => panic!("{kind:?}: {answer:?}"),
            }
        }
        struck.files.fail_syncs(false);
        let syncs = struck.journal.sync_counters().syncs;
        let again = struck.journal.wait_durable(STRUCK_LSN).unwrap_err();
        assert!(again.is_outcome_unknown(), "a second sync would lie");
        struck.check_latched();
        assert_eq!(struck.journal.sync_counters().syncs, syncs);
        assert_eq!(struck.journal.durable_lsn(), 0);
        let killed = found_in(&struck.files.crash(Crash::Kill, 0));
        assert!(killed == records, "a killed process loses nothing");
    }
}

/// Three records that nobody waits for, in one group that is not led yet.
fn gathered(
    files: &SimulatedFiles,
    owner: &Arc<Owner>,
) -> (Arc<Journal>, Vec<quarry_journal::Pending>) {
    let journal = open(files, options(), owner.clone());
    let submit = |_| journal.submit_async(b"gathered", Level::Written).unwrap();
    let pending = (0..3).map(submit).collect();
    (journal, pending)
}

#[test]
fn who_went_on_learns_what_a_flush_met() {
    let faults = [Fault::Io, Fault::NoSpace];
    for fault in faults {
        let (files, owner) = (SimulatedFiles::new(), Owner::new());
        let (journal, pending) = gathered(&files, &owner);
        files.inject(files.steps(), fault);
        journal.flush();
        for pending in &pending {
            assert!(journal.is_acknowledged(pending), "it has its answer");
            let error = journal.wait(pending).unwrap_err();
            assert_eq!(error.is_no_space(), fault == Fault::NoSpace, "{error}");
            assert_eq!(matches!(error, Error::Latched { .. }), fault == Fault::Io);
        }
        assert_eq!((owner.records().len(), journal.last_lsn()), (0, 0));
        assert_eq!(journal.submit(b"next").is_ok(), fault == Fault::NoSpace);
        assert!(owner.records().len() <= 1);
    }
}

#[test]
fn a_failed_group_has_an_answer_for_who_asks_and_does_not_wait() {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    let (journal, pending) = gathered(&files, &owner);
    files.inject(files.steps(), Fault::NoSpace);
    let durable = journal.submit_async(b"leads", Level::Durable).unwrap();
    let is_answered = |pending| journal.is_acknowledged(pending);
    assert!(pending.iter().all(is_answered));
    assert!(is_answered(&durable));
    assert!(journal.wait(&durable).unwrap_err().is_no_space());
}

#[test]
fn who_went_on_learns_what_a_close_met() {
    for fault in [Fault::Io, Fault::NoSpace] {
        let (files, owner) = (SimulatedFiles::new(), Owner::new());
        let (journal, pending) = gathered(&files, &owner);
        files.inject(files.steps(), fault);
        let closed = journal.close();
        assert_eq!(closed.is_ok(), fault == Fault::NoSpace, "{closed:?}");
        for pending in &pending {
            let error = journal.wait(pending).unwrap_err();
            assert_eq!(error.is_no_space(), fault == Fault::NoSpace, "{error}");
        }
        assert_eq!(found_in(&files.crash(Crash::Kill, 0)), []);
    }
}

#[test]
fn who_went_on_learns_what_the_background_met() {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    owner.refuse(Some(refusal(HookErrorKind::Stalled)));
    let options = Options {
        background: true,
        commit_interval_ms: 1,
        ..options()
    };
    let journal = open(&files, options, owner.clone());
    let submit = |_| journal.submit_async(b"gathered", Level::Written).unwrap();
    let pending: Vec<_> = (0..3).map(submit).collect();
    wait_until("the background", || {
        pending.iter().all(|one| journal.is_acknowledged(one))
    });
    // The thread may have come between two of them.
    let errors: Vec<_> = pending
        .iter()
        .map(|one| journal.wait(one).unwrap_err())
        .collect();
    assert!(matches!(errors[0], Error::Unapplied(_)), "{errors:?}");
    let refused = |error: &Error| matches!(error, Error::Unapplied(_) | Error::Refused(_));
    assert!(errors.iter().all(refused), "{errors:?}");
    let unapplied = errors
        .iter()
        .filter(|error| error.is_outcome_unknown())
        .count();
    owner.refuse(None);
    journal.retry_refused().unwrap();
    assert_eq!(owner.records().len(), unapplied);
}

/// An engine and a disk that refuse groups now and then, whoever is in them.
struct Troubled {
    files: SimulatedFiles,
    owner: Arc<Owner>,
    groups: AtomicU64,
}

impl Hooks for Troubled {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        let group = self.groups.fetch_add(1, Ordering::Relaxed);
        // The next segment cannot be made.
        let space = group.is_multiple_of(2).then(|| self.files.bytes());
        self.files.set_space(space);
        let refuses = group.is_multiple_of(11);
        self.owner
            .refuse(refuses.then(|| refusal(HookErrorKind::Stalled)));
        match group % 7 {
            0 => Err(refusal(HookErrorKind::NoSpace)),
            _ => Ok(()),
        }
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) {
        self.owner.finish_group(group);
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        self.owner.apply(first_lsn, payloads)
    }
}

#[test]
fn records_are_there_once_or_not_at_all_as_their_writers_were_told() {
    const RECORDS: usize = 200;
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    owner.set_trailer(true);
    let troubled = Arc::new(Troubled {
        files: files.clone(),
        owner: owner.clone(),
        groups: AtomicU64::new(1),
    });
    let journal = open(&files, options(), troubled);
    let record =
        |writer: usize, number: usize| format!("{writer} {number}").repeat(30).into_bytes();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let journal = Arc::clone(&journal);
            let commit =
                move |number| kind_in(&Kind::ALL, writer).commit(&journal, &record(writer, number));
            begin(move || (0..RECORDS).map(commit).collect::<Vec<_>>())
        })
        .collect();
    let answers: Vec<Vec<Answer>> = writers.iter().map(end).collect();
    let retried = || journal.retry_refused().is_ok();
    wait_until("the engine", retried);
    let records = owner.records();
    let mut lsns = BTreeMap::<&[u8], Vec<u64>>::new();
    for (lsn, record) in &records {
        lsns.entry(record).or_default().push(*lsn);
    }
    let (mut full, mut refused, mut unapplied, mut durable_lsn) = (0, 0, 0, 0);
    for (writer, answers) in answers.iter().enumerate() {
        for (number, answer) in answers.iter().enumerate() {
            let found = lsns.get(&record(writer, number)[..]);
            match answer {
                Ok(lsn) => {
                    assert_eq!(found, Some(&vec![*lsn]));
                    if kind_in(&Kind::ALL, writer).level() == Level::Durable {
                        durable_lsn = durable_lsn.max(*lsn);
                    }
                }
                Err(Error::Unapplied(_)) => {
                    assert_eq!(found.map(Vec::len), Some(1));
                    unapplied += 1;
                }
                Err(Error::NoSpace { .. }) => {
                    assert_eq!(found, None);
                    full += 1;
                }
                Err(Error::Refused(_)) => {
                    assert_eq!(found, None);
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(
        full > 0 && refused > 0 && unapplied > 0,
        "{full} {refused} {unapplied}"
    );
    assert!(durable_lsn > 0 && journal.durable_lsn() >= durable_lsn);
    let after = found_in(&files.crash(Crash::Drop, 0));
    assert!(after.len() as u64 >= durable_lsn && records.starts_with(&after));
    assert!(found_in(&files.crash(Crash::Kill, 0)) == records);
}

#[test]
fn after_a_failed_sync_who_asks_learns_that_there_is_an_answer() {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    let (journal, _) = gathered(&files, &owner);
    let durable = journal.submit_async(b"leads", Level::Durable).unwrap();
    files.inject(files.steps(), Fault::Io);
    assert!(!journal.is_acknowledged(&durable));
    assert!(journal.sync().is_err());
    assert!(journal.is_acknowledged(&durable));
    assert!(journal.wait(&durable).unwrap_err().is_outcome_unknown());
}
