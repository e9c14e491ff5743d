//! Counts the instructions that the server's thread takes for one operation, and the memory of an idle connection, beside an
//! earlier build if one is given.
//!
//! Instructions tell of a percent where times tell of ten, and it does not matter what else the machine does. They are not
//! time: a cache miss counts as little as a hit, and the kernel's are left out. The engine in memory is the default, because
//! RocksDB's memtables are skip lists of random heights.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use quarry_bson::{Document, RawBinary, RawValue, Value, doc};

use crate::callgrind;
use crate::message::{op_msg, op_msg_with_documents};
use crate::process::{Launch, Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::Report;

const DATABASE: &str = "quarry_bench_instructions";
/// Documents that reads and updates are about.
const PRELOADED: u64 = 2000;
/// Before those that are counted: caches fill and buffers grow.
const WARM_UP: u64 = 500;
const BATCH: u64 = 10;
const SCANNED: u64 = 100;
/// Connections whose memory is measured.
const CONNECTIONS: u64 = 1000;
/// Behind it an idle connection has given its buffers back.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The options of `quarry-bench instructions`.
pub struct Options {
    /// The engine of the servers that the bench starts.
    pub engine: String,
    /// Operations that are counted of each workload.
    pub operations: u64,
    /// The binary of an earlier build.
    pub before: Option<PathBuf>,
}

/// One workload: the messages of its n-th operation, as drivers send them.
struct Workload {
    name: &'static str,
    messages: fn(u64) -> Vec<Vec<u8>>,
    /// The message that is sent for the n-th operation before any is counted.
    prepare: Option<fn(u64) -> Vec<u8>>,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "point query",
        messages: |n| {
            vec![command(
                doc! { "find": "c", "filter": { "_id": (id(n)) }, "limit": 1, "singleBatch": true },
            )]
        },
        prepare: None,
    },
    Workload {
        name: "find by index",
        messages: |n| vec![command(doc! { "find": "c", "filter": { "a": (id(n)) } })],
        prepare: None,
    },
    Workload {
        name: "range scan of 100",
        messages: |n| {
            let first = id(n) % (PRELOADED - SCANNED) as i64;
            let range = doc! { "$gte": first, "$lt": (first + SCANNED as i64) };
            vec![command(doc! { "find": "c", "filter": { "_id": range } })]
        },
        prepare: None,
    },
    Workload {
        name: "insert one",
        messages: |n| vec![insert(n, 1, Session::Implicit)],
        prepare: None,
    },
    Workload {
        name: "insert batch of 10",
        messages: |n| vec![insert(n, BATCH, Session::Implicit)],
        prepare: None,
    },
    Workload {
        name: "insert batch of 10, ids shuffled",
        messages: |n| {
            let numbers = n * BATCH..(n + 1) * BATCH;
            let documents = numbers.map(|n| document(shuffled(n), n)).collect();
            vec![insert_documents(documents, Session::Implicit)]
        },
        prepare: None,
    },
    Workload {
        name: "update one field",
        messages: |n| vec![update(n, doc! { "$set": { "c": (-(n as i64)) } })],
        prepare: None,
    },
    Workload {
        name: "update six fields",
        messages: |n| {
            let mut fields = Document::new();
            for field in ["c", "d", "e", "f", "g", "h"] {
                fields.append(field, n as i64);
            }
            vec![update(n, doc! { "$set": fields })]
        },
        prepare: None,
    },
    Workload {
        name: "findAndModify",
        messages: |n| {
            let update = doc! { "$inc": { "c": 1 } };
            vec![command(
                doc! { "findAndModify": "c", "query": { "_id": (id(n)) }, "update": update, "new": true },
            )]
        },
        prepare: None,
    },
    Workload {
        name: "delete one",
        messages: |n| {
            let delete = vec![doc! { "q": { "_id": (new_id(n)) }, "limit": 1 }];
            let body = with_session(doc! { "delete": "c", "ordered": true }, Session::Implicit);
            vec![op_msg_with_documents(1, &body, "deletes", &delete)]
        },
        prepare: Some(|n| insert(n, 1, Session::Implicit)),
    },
    Workload {
        name: "insert one, retryable",
        messages: |n| vec![insert(n, 1, Session::Retryable(n))],
        prepare: None,
    },
    Workload {
        name: "update one field, retryable",
        messages: |n| {
            let body = with_session(
                doc! { "update": "c", "ordered": true },
                Session::Retryable(n),
            );
            let statement =
                doc! { "q": { "_id": (id(n)) }, "u": { "$set": { "c": (-(n as i64)) } } };
            vec![op_msg_with_documents(1, &body, "updates", &[statement])]
        },
        prepare: None,
    },
    Workload {
        name: "transaction of two inserts",
        messages: |n| {
            let first = insert(2 * n, 1, Session::Transaction(n, true));
            let second = insert(2 * n + 1, 1, Session::Transaction(n, false));
            let end = doc! { "commitTransaction": 1 };
            let end = with_session_in(end, Session::Transaction(n, false), "admin");
            vec![first, second, op_msg(1, 0, &end)]
        },
        prepare: None,
    },
];

/// The session of a command, as drivers have one with every command.
#[derive(Clone, Copy)]
enum Session {
    Implicit,
    /// With that txnNumber.
    Retryable(u64),
    /// With that txnNumber, and whether it is the transaction's first command.
    Transaction(u64, bool),
}

fn with_session(command: Document, session: Session) -> Document {
    with_session_in(command, session, DATABASE)
}

fn with_session_in(mut command: Document, session: Session, database: &str) -> Document {
    let uuid = RawBinary {
        subtype: 4,
        bytes: b"a session's uuid",
    };
    let mut lsid = Document::new();
    lsid.append("id", RawValue::Binary(uuid));
    command.append("lsid", lsid);
    match session {
        Session::Implicit => {}
        Session::Retryable(number) => {
            command.append("txnNumber", number as i64 + 1);
        }
        Session::Transaction(number, is_first) => {
            command.append("txnNumber", number as i64 + 1);
            if is_first {
                command.append("startTransaction", true);
            }
            command.append("autocommit", false);
        }
    }
    command.append("$db", database);
    command
}

fn command(command: Document) -> Vec<u8> {
    op_msg(1, 0, &with_session(command, Session::Implicit))
}

fn update(n: u64, change: Document) -> Vec<u8> {
    let body = with_session(doc! { "update": "c", "ordered": true }, Session::Implicit);
    let statement = doc! { "q": { "_id": (id(n)) }, "u": change };
    op_msg_with_documents(1, &body, "updates", &[statement])
}

fn insert(n: u64, count: u64, session: Session) -> Vec<u8> {
    let numbers = n * count..(n + 1) * count;
    insert_documents(numbers.map(|n| document(new_id(n), n)).collect(), session)
}

fn insert_documents(documents: Vec<Document>, session: Session) -> Vec<u8> {
    let body = with_session(doc! { "insert": "c", "ordered": true }, session);
    op_msg_with_documents(1, &body, "documents", &documents)
}

fn document(id: i64, n: u64) -> Document {
    doc! { "_id": id, "a": (n as i64), "b": (&*"x".repeat(100)), "c": (2 * n as i64) }
}

/// A document that is there.
fn id(n: u64) -> i64 {
    (n % PRELOADED) as i64
}

fn new_id(n: u64) -> i64 {
    (1 << 32) + n as i64
}

/// Each number has another one, without an order: the steps of SplitMix64.
fn shuffled(n: u64) -> i64 {
    let mut mixed = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) >> 1) as i64 | 1 << 62
}

/// Runs the bench, prints its table and writes its report.
pub fn run(options: &Options) -> io::Result<()> {
    let version =
        callgrind::version().ok_or_else(|| io::Error::other("valgrind is not installed"))?;
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let mut report = Report::new(
        "instructions",
        "Instructions of an operation",
        "make bench-instructions",
    );
    report.note(format!(
        "Callgrind's count ({version}) of the thread that serves one connection, over {} operations on the engine {}: from the \
         request's bytes to the reply's, the kernel left out. Messages are those that drivers send, a session's id with each. The \
         collection has one index beside that of `_id`. With `BEFORE=path/to/quarry` an earlier build is counted beside this one; \
         what it does not serve is left empty.",
        options.operations, options.engine
    ));
    report.note(format!(
        "The memory of an idle connection is what {CONNECTIONS} of them add to the resident memory of the process after an \
         insert, an update and a query each."
    ));
    let sides = [("now", None), ("before", options.before.clone())];
    let sides: Vec<_> = sides
        .into_iter()
        .filter(|(name, binary)| *name == "now" || binary.is_some())
        .collect();
    for workload in WORKLOADS {
        eprintln!("{}", workload.name);
        let mut counts = Vec::new();
        for (name, binary) in &sides {
            let launch = Launch {
                binary: binary.clone(),
                ..Launch::default()
            };
            match count(options, workload, launch, &scratch.join("counted")) {
                Ok(count) => counts.push(((*name).to_owned(), count)),
                Err(error) if *name == "before" => eprintln!("  {name}: {error}"),
                Err(error) => return Err(error),
            }
        }
        report.push(workload.name, "instructions", "now", &counts);
    }
    let memory = memory_of_idle(options, &sides, &scratch)?;
    report.push("an idle connection", "KiB", "now", &memory);
    report.publish("now")?;
    std::fs::remove_dir_all(&scratch)
}

fn memory_of_idle(
    options: &Options,
    sides: &[(&str, Option<PathBuf>)],
    scratch: &Path,
) -> io::Result<Vec<(String, f64)>> {
    let mut memory = Vec::new();
    for (name, binary) in sides {
        let kib = idle_kib(
            options,
            binary.clone(),
            &scratch.join(format!("idle-{name}")),
        )?;
        memory.push(((*name).to_owned(), kib));
    }
    Ok(memory)
}

/// The instructions of one operation of the workload of that name, on a server that is started so.
pub(crate) fn count_of(
    workload: &str,
    engine: &str,
    operations: u64,
    launch: Launch,
    directory: &Path,
) -> io::Result<f64> {
    let options = Options {
        engine: engine.to_owned(),
        operations,
        before: None,
    };
    let found = WORKLOADS.iter().find(|known| known.name == workload);
    let workload = found.ok_or_else(|| io::Error::other("there is no such workload"))?;
    count(&options, workload, launch, directory)
}

/// The instructions of one operation.
fn count(
    options: &Options,
    workload: &Workload,
    launch: Launch,
    directory: &Path,
) -> io::Result<f64> {
    // A server refuses a data directory that holds what is not its own.
    let counts = directory.with_extension("counts");
    for old in [directory, &*counts] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    std::fs::create_dir_all(&counts)?;
    let file = counts.join("callgrind.out");
    let launch = callgrind::launch(&file, true, launch);
    let mut server = Server::launch(&options.engine, directory, launch)?;
    let mut client = RawClient::connect(("127.0.0.1", server.port))?;
    preload(&mut client)?;
    if let Some(prepare) = workload.prepare {
        for n in 0..WARM_UP + options.operations {
            client.round_trip(&prepare(n))?;
        }
    }
    send(&mut client, workload, 0..WARM_UP)?;
    callgrind::zero(&server)?;
    send(&mut client, workload, WARM_UP..WARM_UP + options.operations)?;
    let counted = callgrind::dump(&server, &file)?;
    server.stop()?;
    Ok(counted / options.operations as f64)
}

fn preload(client: &mut RawClient) -> io::Result<()> {
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    client.command(&doc! { "createIndexes": "c", "indexes": [index], "$db": DATABASE })?;
    for first in (0..PRELOADED).step_by(500) {
        let documents: Vec<Value> = (first..first + 500)
            .map(|n| document(id(n), n).into())
            .collect();
        client.command(&doc! { "insert": "c", "documents": documents, "$db": DATABASE })?;
    }
    Ok(())
}

fn send(
    client: &mut RawClient,
    workload: &Workload,
    numbers: std::ops::Range<u64>,
) -> io::Result<()> {
    for n in numbers {
        for message in (workload.messages)(n) {
            client.round_trip(&message)?;
        }
    }
    Ok(())
}

/// The resident memory that an idle connection adds.
fn idle_kib(options: &Options, binary: Option<PathBuf>, directory: &Path) -> io::Result<f64> {
    let launch = Launch {
        binary,
        ..Launch::default()
    };
    let mut server = Server::launch(&options.engine, directory, launch)?;
    let mut client = RawClient::connect(("127.0.0.1", server.port))?;
    preload(&mut client)?;
    let use_once = |number: u64| -> io::Result<RawClient> {
        let mut client = RawClient::connect(("127.0.0.1", server.port))?;
        client.round_trip(&insert(number, 1, Session::Implicit))?;
        client.round_trip(&update(number, doc! { "$set": { "c": 1 } }))?;
        client.round_trip(&command(
            doc! { "find": "c", "filter": { "_id": (id(number)) } },
        ))?;
        Ok(client)
    };
    // What the first connections make is everybody's.
    let first = (0..CONNECTIONS / 10)
        .map(use_once)
        .collect::<io::Result<Vec<_>>>()?;
    thread::sleep(IDLE_AFTER);
    let before = server.resident_bytes()?;
    let others = (CONNECTIONS..2 * CONNECTIONS)
        .map(use_once)
        .collect::<io::Result<Vec<_>>>()?;
    thread::sleep(IDLE_AFTER);
    let added = server.resident_bytes()?.saturating_sub(before);
    drop((first, others));
    server.stop()?;
    Ok(added as f64 / 1024.0 / CONNECTIONS as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn shuffled_ids_are_all_different_and_without_an_order() {
        let ids: Vec<i64> = (0..10_000).map(shuffled).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        let rising = ids.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((3000..7000).contains(&rising), "{rising}");
    }
}
