//! A few rounds of the checks of the example `order_matching`, and that each of them notices what it is there for.
//!
//! Longer: `cargo run --release -p quarry-journal --example order_matching -- kill 1000`, or `power 100000`.

#[path = "../examples/order_matching/book.rs"]
mod book;
#[path = "../examples/order_matching/child.rs"]
mod child;
#[path = "../examples/order_matching/kill.rs"]
mod kill;
#[path = "../examples/order_matching/order_log.rs"]
mod order_log;
#[path = "../examples/order_matching/power_cut.rs"]
mod power_cut;
#[path = "../examples/order_matching/random.rs"]
mod random;
#[path = "../examples/order_matching/restart.rs"]
mod restart;
#[path = "../examples/order_matching/scratch.rs"]
mod scratch;
#[path = "../examples/order_matching/timed_run.rs"]
mod timed_run;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use book::{Critical, Order, OrderStream};
use parking_lot::Mutex;
use quarry_journal::{File, FileEntry, Files, Level, Options, SimulatedFiles};
use restart::CRITICAL;
use timed_run::Work;

const SEED: u64 = 1;
const KILLS: u64 = 8;
const POWER_CUTS: u64 = 60;
/// While one test starts a process, that process holds for a moment all files that another test has open, locked ones too.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());
/// Set in a process that a test started to be killed.
const LOG: &str = "ORDER_MATCHING_LOG";

/// Starts this very test in a process of its own, where it plays the child.
fn child_of(test: &str, log: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([test, "--exact", "--nocapture"]).env(LOG, log);
    Ok(command)
}

fn log_of_child() -> Option<PathBuf> {
    std::env::var_os(LOG).map(PathBuf::from)
}

#[test]
fn every_acknowledged_order_survives_a_kill() {
    if let Some(log) = log_of_child() {
        return child::run(&log).unwrap();
    }
    let _alone = ONE_BY_ONE.lock();
    let directory = scratch::fresh_directory("survives").unwrap();
    let command = |log: &Path| child_of("every_acknowledged_order_survives_a_kill", log);
    let killed = kill::check(&directory, KILLS, SEED, &command);
    let killed = killed.unwrap_or_else(|error| panic!("{error}"));
    assert!(killed.reported > 0 && killed.came_back >= killed.reported);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_report_that_comes_too_early_is_noticed() {
    if log_of_child().is_some() {
        let parent = child::parent().unwrap();
        // Until it is killed, or the parent is gone.
        while child::report(&parent, 0, 1_000_000).is_ok() {}
        return;
    }
    let command = |log: &Path| child_of("a_report_that_comes_too_early_is_noticed", log);
    assert!(failure_of_kills("early", &command).contains("was acknowledged but is missing"));
}

#[test]
fn a_child_that_ends_by_itself_is_noticed() {
    if log_of_child().is_some() {
        return;
    }
    let command = |log: &Path| child_of("a_child_that_ends_by_itself_is_noticed", log);
    assert!(failure_of_kills("ends", &command).contains("ended by itself"));
}

fn failure_of_kills(name: &str, command: &dyn Fn(&Path) -> io::Result<Command>) -> String {
    let _alone = ONE_BY_ONE.lock();
    let directory = scratch::fresh_directory(name).unwrap();
    let failure = kill::check(&directory, KILLS, SEED, command).err();
    std::fs::remove_dir_all(directory).unwrap();
    failure.expect("the check fails").to_string()
}

#[test]
fn every_durable_order_survives_a_power_cut() {
    let survived = power_cut::check(POWER_CUTS, SEED).unwrap_or_else(|error| panic!("{error}"));
    assert!(survived.durable > 0 && survived.came_back >= survived.durable);
}

#[test]
fn a_disk_that_does_not_sync_is_noticed() {
    // A start notices most of them by what is damaged; for some the log just ends too early, which the check has to notice.
    let mut failures = (0..4 * POWER_CUTS).filter_map(|seed| {
        let disk = SimulatedFiles::new();
        let files = Arc::new(LyingFiles(disk.clone()));
        power_cut::cut(&disk, files, seed).err()
    });
    assert!(failures.any(|error| error.to_string().contains("is missing")));
}

/// A disk whose file syncs do nothing.
struct LyingFiles(SimulatedFiles);

struct LyingFile(Arc<dyn File>);

impl Files for LyingFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(LyingFile(self.0.open(name)?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(LyingFile(self.0.create(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }
}

impl File for LyingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

#[test]
fn an_order_that_is_lost_changed_or_out_of_order_is_noticed() {
    let mut stream = OrderStream::new(0, CRITICAL);
    let [first, second, third] = [(); 3].map(|()| stream.next_order());
    let changed = Order {
        quantity: second.quantity + 1,
        ..second
    };
    assert_eq!(check_log(&[first, second, third], &[3]), Ok(3));
    for orders in [
        [first, third].as_slice(),
        &[first, third, second],
        &[first, first, second],
        &[first, changed, third],
    ] {
        let failure = check_log(orders, &[1]).unwrap_err();
        assert!(
            failure.contains("is not the next order of producer 0"),
            "{failure}"
        );
    }
    // Too few, and another producer's.
    for acknowledged in [[3, 0], [0, 2]] {
        let failure = check_log(&[first, second], &acknowledged).unwrap_err();
        assert!(failure.contains("is missing"), "{failure}");
    }
}

/// Writes the orders, and checks them after a restart.
fn check_log(orders: &[Order], acknowledged: &[u64]) -> Result<u64, String> {
    let files = Arc::new(SimulatedFiles::new());
    let (journal, _matching) = order_log::open(files.clone(), small()).unwrap();
    for order in orders {
        journal.commit(&order.encode(), Level::Durable).unwrap();
    }
    drop(journal);
    restart::check(files, small(), acknowledged).map_err(|error| error.to_string())
}

#[test]
fn a_run_of_few_orders_or_none_ends() {
    let directory = scratch::fresh_directory("few").unwrap();
    for (orders, producers, critical) in [(0, 1, "31"), (1, 3, "31"), (30, 1, "31"), (40, 2, "0")] {
        let work = Work {
            orders,
            producers,
            critical: Critical::parse(critical, orders).unwrap(),
        };
        let log = directory.join(format!("{orders}"));
        timed_run::show(&log, &small(), work).unwrap_or_else(|error| panic!("{orders}: {error}"));
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn so_many_orders_are_critical_as_were_asked_for() {
    for (text, orders, expected) in [
        ("31", 50_000, 31),
        ("31", 1_000_000, 31),
        ("0", 50_000, 0),
        ("1%", 50_000, 500),
        ("all", 50_000, 50_000),
        ("31", 30, 30),
    ] {
        let mut stream = OrderStream::new(0, Critical::parse(text, orders).unwrap());
        let critical = (0..orders).filter(|_| stream.next_order().is_critical());
        assert_eq!(critical.count(), expected, "{text} of {orders}");
    }
}

fn small() -> Options {
    Options {
        segment_bytes: 64 * 1024,
        ..Options::default()
    }
}
