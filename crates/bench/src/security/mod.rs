//! Measures the cost of security: a login, encryption of round trips beside what it costs a bare echo, and the check of each
//! operation against its user, as the servers' own timing shows it; and what a round trip saves that takes a socket of the file
//! system instead of the network.
//!
//! All sides take turns in one run: each round measures them right after each other, in an order that turns. The bench's own
//! client speaks TLS by rustls as the server does, so that a round trip holds the encryption of both ends; the echo holds the
//! same and nothing else.

mod echo;
mod scram;
mod stream;

use std::io;
use std::time::Instant;

use quarry_bson::{Document, Value, doc};

use self::scram::Login;
use self::stream::{Identity, Stream};
use crate::documents;
use crate::message::{op_msg, op_msg_body, round_trip};
use crate::process::{Launch, Server, target_directory};
use crate::report::Report;

const DATABASE: &str = "quarry_bench_security";
/// Documents that point queries read.
const PRELOADED: u64 = 10_000;
const USER: &str = "bench";
const PASSWORD: &str = "a password of a bench";

/// The options of `quarry-bench security`.
pub struct Options {
    /// The engine of the servers that the bench starts.
    pub engine: String,
    /// How often the sides take turns.
    pub rounds: u32,
    /// Operations of one side in one round.
    pub turn: u32,
    /// Logins of one side in one round.
    pub logins: u32,
}

/// One server and a connection to it.
struct Side {
    server: Server,
    stream: Stream,
    reply: Vec<u8>,
    sent: u64,
}

/// The n-th command of a workload.
type Command = fn(u64) -> Document;

/// The workloads of a round trip.
const WORKLOADS: [(&str, Command); 2] = [("point query", point_query), ("insert one", insert_one)];

fn point_query(n: u64) -> Document {
    let id = documents::simple_id("bench", n.wrapping_mul(7919) % PRELOADED);
    doc! { "find": "read", "filter": doc! { "_id": id }, "limit": 1, "singleBatch": true, "$db": DATABASE }
}

fn insert_one(n: u64) -> Document {
    let document = documents::simple("security", n);
    doc! { "insert": "written", "documents": [document], "$db": DATABASE }
}

/// Runs the bench, prints its table and writes its report.
pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    std::fs::create_dir_all(&scratch)?;
    let identity = Identity::make(&scratch)?;
    let start = |name: &str, arguments: &[&str], identity: Option<&Identity>| {
        let launch = Launch {
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            ..Launch::default()
        };
        let server = Server::launch(&options.engine, &scratch.join(name), launch)?;
        let stream = Stream::connect(server.port, identity)?;
        io::Result::Ok(Side::new(server, stream))
    };
    let file = identity.file.to_string_lossy().into_owned();
    let requires = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", &file];
    let mut plain = start("plain", &[], None)?;
    let mut encrypted = start("encrypted", &requires, Some(&identity))?;
    let directory = scratch.to_string_lossy();
    let mut local = start("local", &["--unixSocketPrefix", &directory], None)?;
    let path = scratch.join(format!("mongodb-{}.sock", local.server.port));
    local.stream = Stream::open(&path)?;
    let mut guarded = start("guarded", &["--auth"], None)?;
    guarded.command(
        &doc! { "createUser": USER, "pwd": PASSWORD, "roles": ["root"], "$db": "admin" },
    )?;
    let login = Login::learn(&mut guarded.stream, USER, PASSWORD)?;
    for side in [&mut plain, &mut local, &mut encrypted, &mut guarded] {
        side.preload()?;
    }
    let mut report = Report::new("security", "What security costs", "make bench-security");
    report.note(format!(
        "One connection on {}, {} rounds of {} operations a side; medians of a round's operations, then over the rounds. \
         `socket` is a connection by `mongodb-PORT.sock`, `TLS` a server with `--tlsMode requireTLS`, `users` one with `--auth`. The client is the bench's own and encrypts as the \
         server does. The echo answers as many bytes as it got, over the same sockets and the same library: what it \
         takes longer with TLS is what rustls itself takes for both ends.",
        options.engine, options.rounds, options.turn
    ));
    let mut check = Vec::new();
    for (name, command) in WORKLOADS {
        eprintln!("{name}");
        let mut times = [const { Vec::new() }; 4];
        for round in 0..options.rounds as usize {
            for place in 0..4 {
                let which = (round + place) % 4;
                let side = [&mut plain, &mut local, &mut encrypted, &mut guarded][which]
                    .turn(command, options.turn)?;
                times[which].push(side);
            }
        }
        let [plainly, locally, with_tls, with_users] = times.map(|mut side| median(&mut side));
        let sides = [
            ("plain".into(), plainly),
            ("socket".into(), locally),
            ("TLS".into(), with_tls),
            ("users".into(), with_users),
        ];
        report.push(name, "us", "plain", &sides);
        check.push((name, [plain.decode_ns(name)?, guarded.decode_ns(name)?]));
        let bytes = op_msg(1, 0, &command(1)).len();
        let [plainly, with_tls] = echo::measure(bytes, &identity, options)?;
        let sides = [("plain".into(), plainly), ("TLS".into(), with_tls)];
        report.push(
            &format!("bare echo of the bytes of: {name}"),
            "us",
            "plain",
            &sides,
        );
    }
    for (name, [without, with]) in check {
        let sides = [("plain".into(), without), ("users".into(), with)];
        report.push(
            &format!("{name}: command read, user found and checked (phase decode, p50)"),
            "ns",
            "plain",
            &sides,
        );
    }
    eprintln!("logins");
    let (mut without, mut with, mut shaken) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        for _ in 0..options.logins {
            without.push(timed(|| {
                greet(&mut Stream::connect(guarded.server.port, None)?)
            })?);
            with.push(timed(|| {
                let mut stream = Stream::connect(guarded.server.port, None)?;
                greet(&mut stream)?;
                login.run(&mut stream)
            })?);
            shaken.push(timed(|| {
                greet(&mut Stream::connect(
                    encrypted.server.port,
                    Some(&identity),
                )?)
            })?);
        }
    }
    let sides = [
        ("plain".into(), median(&mut without)),
        ("TLS".into(), median(&mut shaken)),
        ("users".into(), median(&mut with)),
    ];
    report.push(
        "connecting: hello; with the handshake; with SCRAM-SHA-256 of a client that keeps its salted password",
        "us",
        "plain",
        &sides,
    );
    for side in [&mut plain, &mut local, &mut encrypted, &mut guarded] {
        side.server.stop()?;
    }
    report.publish("plain")?;
    std::fs::remove_dir_all(&scratch)
}

/// The first exchange of a connection.
fn greet(stream: &mut Stream) -> io::Result<()> {
    round_trip(
        stream,
        &op_msg(1, 0, &doc! { "hello": 1, "$db": "admin" }),
        &mut Vec::new(),
    )
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_nanos() as f64 / 1e3)
}

impl Side {
    fn new(server: Server, stream: Stream) -> Side {
        Side {
            server,
            stream,
            reply: Vec::new(),
            sent: 0,
        }
    }

    fn command(&mut self, body: &Document) -> io::Result<()> {
        round_trip(&mut self.stream, &op_msg(1, 0, body), &mut self.reply)
    }

    fn preload(&mut self) -> io::Result<()> {
        for first in (0..PRELOADED).step_by(1000) {
            let batch: Vec<Value> = (first..first + 1000)
                .map(|n| documents::simple("bench", n).into())
                .collect();
            self.command(&doc! { "insert": "read", "documents": batch, "$db": DATABASE })?;
        }
        Ok(())
    }

    /// The median time of one operation, in microseconds.
    fn turn(&mut self, command: Command, operations: u32) -> io::Result<f64> {
        let mut times = Vec::with_capacity(operations as usize);
        for _ in 0..operations {
            self.sent += 1;
            let request = op_msg(1, 0, &command(self.sent));
            let started = Instant::now();
            round_trip(&mut self.stream, &request, &mut self.reply)?;
            times.push(started.elapsed().as_nanos() as f64 / 1e3);
        }
        Ok(median(&mut times))
    }

    /// The median nanoseconds that operations of the workload spend in the phase `decode`, as the server has measured them. At its
    /// end the user is found and checked, which is all that two servers differ by.
    fn decode_ns(&mut self, workload: &str) -> io::Result<f64> {
        self.command(&doc! { "serverStatus": 1, "$db": "admin" })?;
        let kind = if workload == "insert one" {
            "insert"
        } else {
            "find"
        };
        let (_, body) = op_msg_body(&self.reply)?;
        let phases = body.to_owned_document();
        let path = format!("quarry.phases.sinceStart.{kind}.decode.p50Micros");
        let micros = phases
            .get_path(&path)
            .and_then(|value| value.as_f64_lossy());
        Ok(micros.unwrap_or_default() * 1e3)
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
