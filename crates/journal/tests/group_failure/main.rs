//! Tests of what becomes of a group of several records when the disk or the engine fails.
//!
//! A first record, whose writer is alone, is held while it is applied, until writers of all kinds have formed the next
//! group. The failure strikes that group and no other; some more records queue behind it meanwhile. Everybody in the
//! group gets the same answer, what is refused leaves no trace, and nobody hangs. What the same failures do to a writer
//! that is alone is in `failure.rs`.

mod gate;
mod gone_on;
#[path = "../owner/mod.rs"]
mod owner;
mod struck_groups;
mod troubled;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gate::Gate;
use owner::{Owner, Record, identity};
use parking_lot::Mutex;
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{
    Error, GroupBuilder, HookError, HookErrorKind, Hooks, Journal, Level, Options, Payloads,
    SimulatedFiles, Until,
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
    UntilApplied,
    UntilSynced,
    AsyncWritten,
    AsyncDurable,
}

type Kinds = &'static [Kind];

/// The kinds in a group. Those who sleep until it is synced are woken in another way where others go on when it is
/// applied.
const MIXES: [Kinds; 4] = [
    &Kind::ALL,
    &[Kind::Durable, Kind::UntilSynced],
    &[Kind::UntilApplied],
    &[Kind::Written, Kind::AsyncWritten, Kind::UntilSynced],
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
        Kind::UntilApplied,
        Kind::UntilSynced,
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
            Kind::UntilApplied => journal.submit_syncing(record, Until::Applied)?,
            Kind::UntilSynced => journal.submit_syncing(record, Until::Synced)?,
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

type Strike = fn(&SimulatedFiles, &Owner) -> Result<(), HookError>;

fn refusal(kind: HookErrorKind) -> HookError {
    HookError::new(kind, "the engine was told to refuse")
}

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

    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        self.owner.finish_group(group)
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
    /// The answers to the writers of the group, by their number.
    answers: BTreeMap<usize, Answer>,
    /// The answers to those who queued behind the group.
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

/// The records that a start finds.
fn found_in(files: &SimulatedFiles) -> Vec<Record> {
    let owner = Owner::new();
    owner.open(files, 0).unwrap();
    owner.records()
}

impl Struck {
    /// The error that everybody in the group was answered with. Fails if they differ.
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
