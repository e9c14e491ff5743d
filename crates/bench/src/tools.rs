//! The tools that operators run beside a server: backups, restores, imports, exports and dumps of one collection, and what a client feels of a
//! backup meanwhile.
//!
//! Each tool is a process of its own, as it is run by hand, and its time is that of the whole process. A copy by `cp` of the files that
//! a backup has made stands beside it: the same bytes, read from memory and written to the same disk.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use hdrhistogram::Histogram;
use quarry_bson::{Document, doc};

use crate::concurrent::latencies;
use crate::documents;
use crate::encryption::key_file;
use crate::process::{Launch, Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::{Report, quartiles, reached};

const DATABASE: &str = "quarry_bench_tools";
const COLLECTION: &str = "documents";

/// Between two operations of the client that is watched.
const PAUSE: Duration = Duration::from_millis(1);
/// How long it is watched alone before each backup, so that both are of the same time and the same data.
const QUIET: Duration = Duration::from_secs(5);
/// Its 99th percentile beside a backup, at most so many times that.
const TIMES_MAX: f64 = 1.5;
/// Bytes of text that make a document one of 300 bytes.
const PAD_BYTES: usize = 232;
/// Documents of 300 bytes that an import takes a second, at least.
const IMPORTED_MIN: f64 = 150_000.0;

/// The options of `quarry-bench tools`.
pub struct Options {
    /// The engine of the server.
    pub engine: String,
    /// The documents of the collection, of 300 bytes each.
    pub documents: u64,
    /// How many backups a client is watched beside, each to a place of its own.
    pub backups: u32,
}

/// A kind of repository.
struct Kind<'a> {
    /// As rows of the table have it.
    name: &'static str,
    /// Each command that opens it is given these.
    flags: &'a [&'a str],
}

const PLAIN: Kind<'static> = Kind {
    name: "backup",
    flags: &[],
};

/// A server and where its tools write.
struct Place {
    server: Server,
    scratch: PathBuf,
}

/// Runs the bench, prints its table and writes its report.
pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let server = Server::launch(&options.engine, &scratch.join("server"), Launch::default())?;
    let mut place = Place { server, scratch };
    let mut report = Report::new(
        "tools",
        "Backups, restores, imports and dumps",
        "make bench-tools",
    );
    report.note(format!(
        "{} documents of 300 bytes on {}. Every tool runs as a process beside the server, on the same processors and the same disk; `cp` copies \
         the files of the backup, and `sync` ends it.",
        options.documents, options.engine
    ));
    eprintln!("filling");
    let mut client = place.client()?;
    client.insert_all(DATABASE, COLLECTION, (0..options.documents).map(document))?;
    let key = key_file(&place.scratch)?;
    backups(options, &place, &PLAIN, &mut report)?;
    let encrypted = Kind {
        name: "encrypted backup",
        flags: &["--backupKeyFile", &key],
    };
    backups(options, &place, &encrypted, &mut report)?;
    interchange(options, &place, &mut report)?;
    place.server.stop()?;
    fs::remove_dir_all(&place.scratch)?;
    report.publish("quarry").map(drop)
}

/// 300 bytes, most of which an engine cannot compress: a backup of a million of them lasts long enough for a percentile of what is
/// felt beside it, and is not all beginning and end.
fn document(n: u64) -> Document {
    let mut spread = n;
    let mut pad = String::with_capacity(PAD_BYTES + 16);
    while pad.len() < PAD_BYTES {
        spread = (spread ^ (spread >> 29)).wrapping_add(1);
        spread = spread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // Writing to a string cannot fail.
        let _ = write!(pad, "{spread:016x}");
    }
    pad.truncate(PAD_BYTES);
    let k = (spread >> 20) as i64;
    doc! { "_id": (n as i64), "name": (format!("document {n:09}")), "k": k, "pad": pad }
}

impl Place {
    fn client(&self) -> io::Result<RawClient> {
        RawClient::connect(("127.0.0.1", self.server.port))
    }

    /// A path beside the server's directory, as words of a command line have it.
    fn path(&self, name: &str) -> String {
        self.scratch.join(name).to_string_lossy().into_owned()
    }

    /// The documents of a collection.
    fn count(&self, collection: &str) -> io::Result<u64> {
        let mut client = self.client()?;
        client.command(&doc! { "count": collection, "$db": DATABASE })?;
        let number = client.reply().get("n").and_then(|n| n.as_i64_exact());
        let number = number.and_then(|n| u64::try_from(n).ok());
        number.ok_or_else(|| io::Error::other("a count without a number"))
    }
}

/// Runs a command of the server's own binary; the seconds that it took.
fn quarry(arguments: &[&str]) -> io::Result<f64> {
    run_to_its_end(Command::new(Server::binary()).args(arguments))
}

fn run_to_its_end(command: &mut Command) -> io::Result<f64> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(begun.elapsed().as_secs_f64());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "{command:?}: {}: {said}",
        output.status
    )))
}

/// The bytes of the files below a directory.
fn bytes_below(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_below(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// The latencies of a client alone and beside backups.
struct Felt {
    alone: Histogram<u64>,
    beside: Histogram<u64>,
    /// How many times as large the 99th percentile was, of each backup.
    times: Vec<f64>,
}

impl Felt {
    fn new() -> Felt {
        Felt {
            alone: latencies(),
            beside: latencies(),
            times: Vec::new(),
        }
    }

    /// Adds the latencies before a backup, and those beside it.
    fn add(&mut self, alone: &Histogram<u64>, beside: &Histogram<u64>) -> io::Result<()> {
        self.times.push(times(alone, beside));
        self.alone.add(alone).map_err(io::Error::other)?;
        self.beside.add(beside).map_err(io::Error::other)
    }

    fn report(&self, kind: &str, report: &mut Report) {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let beside = format!("beside {kind}s");
            let alone = format!("before {kind}s");
            for (when, times) in [(alone, &self.alone), (beside, &self.beside)] {
                let case = format!("point query or insert, {when} {name}");
                let us = ("quarry".into(), us(times, quantile));
                report.push(&case, "us", "quarry", &[us]);
            }
        }
        let all = times(&self.alone, &self.beside);
        let [lower, median, upper] = quartiles(self.times.clone());
        report.note(format!(
            "The 99th percentile of {} operations of a client beside {} {kind}s is {all:.2} times what it is alone, at most {TIMES_MAX} asked \
             for: {}. At the median of single ones it is {median:.2} times what it is just before; half of them lie between {lower:.2} and \
             {upper:.2}.",
            self.beside.len(),
            self.times.len(),
            reached(all <= TIMES_MAX),
        ));
    }
}

fn us(times: &Histogram<u64>, quantile: f64) -> f64 {
    times.value_at_quantile(quantile) as f64 / 1e3
}

/// How many times as large the 99th percentile is.
fn times(alone: &Histogram<u64>, beside: &Histogram<u64>) -> f64 {
    us(beside, 0.99) / us(alone, 0.99)
}

/// Adds the rates of backups of one kind, of their verification and of a restore, and what a client feels of them.
fn backups(
    options: &Options,
    place: &Place,
    kind: &Kind<'_>,
    report: &mut Report,
) -> io::Result<()> {
    let Kind { name, flags } = kind;
    let mut felt = Felt::new();
    let (mut seconds, mut copied) = (0.0, 0.0);
    let mut bytes = 0;
    let data = place.server.directory.to_string_lossy().into_owned();
    for number in 0..options.backups {
        eprintln!("{name} {} of {}", number + 1, options.backups);
        let repository = place.path(&format!("{name} {number}"));
        let words = ["backup", "create", "--to", &repository, "--dbpath", &data];
        let words = [&words, *flags].concat();
        let alone = watch(place, QUIET, || Ok(()))?.0;
        let (beside, took) = watch(place, Duration::ZERO, || quarry(&words))?;
        felt.add(&alone, &beside)?;
        seconds += took;
        bytes += bytes_below(repository.as_ref())?;
        let copy = place.path("copy");
        copied += run_to_its_end(
            Command::new("sh")
                .args(["-c", r#"cp -r "$1" "$2" && sync"#, "sh"])
                .args([&repository, &copy]),
        )?;
        fs::remove_dir_all(&copy)?;
        // The first one is verified and restored below.
        if number > 0 {
            fs::remove_dir_all(&repository)?;
        }
    }
    let megabytes = bytes as f64 / 1e6;
    let sides = [
        ("quarry".into(), megabytes / seconds),
        ("cp".into(), megabytes / copied),
    ];
    report.push(&format!("{name} beside a client"), "MB/s", "quarry", &sides);
    felt.report(name, report);
    let repository = place.path(&format!("{name} 0"));
    let megabytes = bytes_below(repository.as_ref())? as f64 / 1e6;
    let took = quarry(&[&["backup", "verify", "--from", &repository], *flags].concat())?;
    let rate = [("quarry".into(), megabytes / took)];
    report.push(&format!("{name}: verify"), "MB/s", "quarry", &rate);
    let restored = place.path("restored");
    let words = ["restore", "--from", &repository, "--dbpath", &restored];
    let took = quarry(&[&words, *flags].concat())?;
    let rate = [("quarry".into(), megabytes / took)];
    report.push(&format!("{name}: restore"), "MB/s", "quarry", &rate);
    check_restored(options, place, restored.as_ref())
}

/// Looks whether a server finds all documents in a restored directory, and removes it.
fn check_restored(options: &Options, place: &Place, restored: &Path) -> io::Result<()> {
    let server = Server::launch(&options.engine, restored, Launch::default())?;
    let mut other = Place {
        server,
        scratch: place.scratch.clone(),
    };
    let found = other.count(COLLECTION)?;
    other.server.stop()?;
    fs::remove_dir_all(restored)?;
    match found == options.documents {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{found} documents after a restore"
        ))),
    }
}

/// Adds the rates of an export, an import, a dump and its restore.
fn interchange(options: &Options, place: &Place, report: &mut Report) -> io::Result<()> {
    let uri = place.server.uri();
    let (file, dump) = (place.path("documents.json"), place.path("dump"));
    let of = |name: &'static str, collection: &'static str| {
        vec![name, "--uri", &uri, "-d", DATABASE, "-c", collection]
    };
    let renamed = [
        format!("{DATABASE}.{COLLECTION}"),
        format!("{DATABASE}.restored"),
    ];
    let [from, to] = &renamed;
    let mut steps = [
        (of("export", COLLECTION), None),
        (of("import", "imported"), Some("imported")),
        (of("dump", COLLECTION), None),
        (vec!["restore-dump", "--uri", &uri], Some("restored")),
    ];
    steps[0].0.extend(["-o", &file]);
    steps[1].0.push(&file);
    steps[2].0.extend(["-o", &dump]);
    steps[3].0.extend(["--nsFrom", from, "--nsTo", to, &dump]);
    for (words, made) in steps {
        let name = words[0];
        eprintln!("{name}");
        let took = quarry(&words)?;
        let rate = options.documents as f64 / took;
        report.push(name, "documents/s", "quarry", &[("quarry".into(), rate)]);
        if let Some(collection) = made {
            let found = place.count(collection)?;
            if found != options.documents {
                return Err(io::Error::other(format!("{found} documents after {name}")));
            }
        }
        if name == "import" {
            report.note(format!(
                "An import takes {rate:.0} documents a second, at least {IMPORTED_MIN:.0} asked for: {}.",
                reached(rate >= IMPORTED_MIN)
            ));
        }
    }
    Ok(())
}

/// The latencies of a client for as long as `work` takes, and for `least` at the least; and what `work` gives.
fn watch<T: Send>(
    place: &Place,
    least: Duration,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<(Histogram<u64>, T)> {
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            let done = work();
            is_over.store(true, Ordering::Relaxed);
            done
        });
        let mut times = latencies();
        let mut client = place.client()?;
        // The kernel may give a later connection the port of an earlier one.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let began_ns = since_epoch.map_or(0, |since| since.as_nanos());
        let prefix = format!("{began_ns:x}");
        let mut number = 0;
        while begun.elapsed() < least || !is_over.load(Ordering::Relaxed) {
            let document = documents::simple(&prefix, number);
            let id = documents::simple_id(&prefix, number);
            let insert = doc! { "insert": "beside", "documents": [document], "$db": DATABASE };
            let find =
                doc! { "find": "beside", "filter": { "_id": id }, "limit": 1, "$db": DATABASE };
            for command in [insert, find] {
                thread::sleep(PAUSE);
                let begun = Instant::now();
                client.command(&command)?;
                times.saturating_record(begun.elapsed().as_nanos() as u64);
            }
            number += 1;
        }
        let done = working.join();
        Ok((
            times,
            done.map_err(|_| io::Error::other("the work panicked"))??,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_size_that_rates_are_told_for() {
        for n in [0, 1, 999_999] {
            assert_eq!(document(n).as_bytes().len(), 300);
        }
    }
}
