//! Retryable inserts beside plain ones, and transactions beside the same writes alone, on one connection.

use std::io;
use std::time::{Duration, Instant};

use quarry_bson::{Document, Value, doc};

use super::side::{DATABASE, Level, Options, Side, insert};
use super::turns::{Turns, note_ratio, push_turns, ratio_of};
use crate::documents;
use crate::raw_client::RawClient;
use crate::report::Report;

/// The bars.
const RETRYABLE_MAX: f64 = 1.05;
const TRANSACTION_MAX: f64 = 1.4;

/// The writes that one turn of a case makes, at about.
const TURN_WRITES: u32 = 120;
/// The runs that begin a turn and are not recorded, so that the turn before plays no part.
const WARM_UP: u32 = 5;

const COLLECTION: &str = "writes";

/// One thing that a client does, from the first command to the last reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    /// An insert with its session, as drivers send it without retryable writes.
    Plain,
    /// With a number as well, so that it may be sent again.
    Retryable,
    /// A number of retryable inserts, one after the other.
    Alone(u32),
    /// A transaction of so many inserts, and its commit.
    Transaction(u32),
}

const CASES: [Case; 8] = [
    Case::Plain,
    Case::Retryable,
    Case::Alone(1),
    Case::Transaction(1),
    Case::Alone(2),
    Case::Transaction(2),
    Case::Alone(10),
    Case::Transaction(10),
];

impl Case {
    fn name(self) -> String {
        match self {
            Case::Plain => "insert one".into(),
            Case::Retryable => "insert one, retryable".into(),
            Case::Alone(writes) => format!("{writes} inserts alone"),
            Case::Transaction(writes) => format!("transaction of {writes}"),
        }
    }

    fn writes(self) -> u32 {
        match self {
            Case::Plain | Case::Retryable => 1,
            Case::Alone(writes) | Case::Transaction(writes) => writes,
        }
    }
}

/// Measures all cases on all sides.
pub(super) fn measure(sides: &[Side], options: &Options, report: &mut Report) -> io::Result<()> {
    for level in Level::ALL {
        let mut totals: Vec<Vec<Turns>> = Vec::new();
        let mut writers = Vec::new();
        for side in sides {
            writers.push(Writer::connect(side)?);
            totals.push(CASES.iter().map(|_| Turns::new()).collect());
        }
        for round in 0..options.rounds {
            for (writer, turns) in writers.iter_mut().zip(&mut totals) {
                // The case that comes first changes with the round.
                for step in 0..CASES.len() {
                    let index = (step + round as usize) % CASES.len();
                    writer.turn(CASES[index], level, &mut turns[index])?;
                }
            }
        }
        for (index, case) in CASES.into_iter().enumerate() {
            let name = format!("{}, {}", case.name(), level.name());
            push_turns(report, &name, sides, |side| &totals[side][index]);
        }
        note_bars(report, level, &totals[0]);
    }
    Ok(())
}

fn note_bars(report: &mut Report, level: Level, turns: &[Turns]) {
    let of = |wanted: Case| {
        let index = CASES.iter().position(|&case| case == wanted);
        &turns[index.expect("a case of the table")]
    };
    let level = level.name();
    let retryable = ratio_of(of(Case::Retryable), of(Case::Plain));
    let what = format!("A retryable insert, {level}, over a plain one of the same session");
    note_ratio(report, &what, retryable, RETRYABLE_MAX);
    // Two inserts and the commit are three round trips.
    let trips = ratio_of(of(Case::Transaction(2)), of(Case::Retryable)).map(|ratio| ratio / 3.0);
    let what = format!(
        "A transaction of two inserts, {level}, from its first command to the reply of `commitTransaction`, over three times \
         the round trip of one retryable insert alone (one for each write and one for the commit)"
    );
    note_ratio(report, &what, trips, TRANSACTION_MAX);
    let [_, ratio, _] = ratio_of(of(Case::Transaction(2)), of(Case::Transaction(1)));
    report.note(format!(
        "The same over a transaction of one insert, which is one write's round trip plus a commit: {ratio:.2}."
    ));
}

/// One connection with its session.
struct Writer {
    client: RawClient,
    session: Document,
    txn_number: i64,
    prefix: String,
    /// The number of documents so far.
    count: u64,
}

impl Writer {
    fn connect(side: &Side) -> io::Result<Writer> {
        let mut client = side.connect()?;
        client.command(&doc! { "startSession": 1, "$db": "admin" })?;
        let session = client.reply().get_document("id");
        let session = session.ok_or_else(|| io::Error::other("startSession gave no id"))?;
        let session = session.to_owned_document();
        let port = format!("{:x}", client.local_port()?);
        let mut writer = Writer {
            client,
            session,
            txn_number: 0,
            prefix: format!("w{:x}_{port}", side.run),
            count: 0,
        };
        // The collection is there before a transaction writes to it.
        writer.insert(Case::Plain, Level::Written)?;
        Ok(writer)
    }

    fn turn(&mut self, case: Case, level: Level, turns: &mut Turns) -> io::Result<()> {
        for _ in 0..WARM_UP {
            self.run(case, level)?;
        }
        for _ in 0..(TURN_WRITES / case.writes()).max(1) {
            let time = self.run(case, level)?;
            turns.record(time);
        }
        turns.end_turn();
        Ok(())
    }

    fn run(&mut self, case: Case, level: Level) -> io::Result<Duration> {
        match case {
            Case::Plain | Case::Retryable => self.insert(case, level),
            Case::Alone(writes) => {
                let begun = Instant::now();
                for _ in 0..writes {
                    self.insert(Case::Retryable, level)?;
                }
                Ok(begun.elapsed())
            }
            Case::Transaction(writes) => self.transaction(writes, level),
        }
    }

    fn insert(&mut self, case: Case, level: Level) -> io::Result<Duration> {
        let number = self.next_document();
        let mut command = insert(COLLECTION, &self.prefix, number, level);
        command.append("lsid", self.session.clone());
        if case == Case::Retryable {
            self.txn_number += 1;
            command.append("txnNumber", self.txn_number);
        }
        let begun = Instant::now();
        self.client.command(&command)?;
        Ok(begun.elapsed())
    }

    /// The commands are made before the clock runs, as those of an insert alone are.
    fn transaction(&mut self, writes: u32, level: Level) -> io::Result<Duration> {
        self.txn_number += 1;
        let mut commands = Vec::with_capacity(writes as usize + 1);
        for position in 0..writes {
            let number = self.next_document();
            let document = documents::simple(&self.prefix, number);
            let batch: Vec<Value> = vec![document.into()];
            let mut command = doc! { "insert": COLLECTION, "documents": batch, "$db": DATABASE };
            self.append_transaction(&mut command);
            if position == 0 {
                command.append("startTransaction", true);
            }
            commands.push(command);
        }
        let mut commit = doc! {
            "commitTransaction": 1, "writeConcern": (level.concern()), "$db": "admin"
        };
        self.append_transaction(&mut commit);
        commands.push(commit);
        let begun = Instant::now();
        for command in &commands {
            self.client.command(command)?;
        }
        Ok(begun.elapsed())
    }

    fn append_transaction(&self, command: &mut Document) {
        command.append("lsid", self.session.clone());
        command.append("txnNumber", self.txn_number);
        command.append("autocommit", false);
    }

    fn next_document(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}
