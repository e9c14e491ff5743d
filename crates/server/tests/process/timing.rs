//! Where the time went, as clients ask for it: commands, replies, the slow-operation line.

use std::time::Duration;

use quarry_bson::{Document, RawDocument, Value, doc};

use crate::client::{Client, message};
use crate::server::{Server, wait_for};

fn start() -> (Server, Client) {
    let server = Server::start(&["--adminPort", "off", "--logFormat", "json"]);
    let client = Client::connect(server.port);
    (server, client)
}

fn number(document: &Document, path: &str) -> f64 {
    document
        .get_path(path)
        .and_then(|value| value.as_f64_lossy())
        .unwrap_or_else(|| panic!("no number at {path} in {document}"))
}

/// Runs a command that is expected to work.
fn run(client: &mut Client, command: &Document) -> Document {
    let reply = client.run(command);
    assert_eq!(reply.get_f64("ok"), Some(1.0), "{command}: {reply}");
    reply
}

fn insert(client: &mut Client, id: i32) {
    run(
        client,
        &doc! { "insert": "things", "documents": [doc! { "_id": id, "a": 1 }] },
    );
}

fn find(id: i32) -> Document {
    doc! { "find": "things", "filter": { "_id": id } }
}

/// The phases of a breakdown, its unattributed time, and its wall.
fn parts_and_wall(timing: RawDocument<'_>) -> (f64, f64) {
    let number = |value: quarry_bson::RawValue<'_>| value.as_f64_lossy().unwrap();
    let phases = timing.get_document("phases").unwrap();
    let sum: f64 = phases.iter().map(|phase| number(phase.value())).sum();
    let unattributed = number(timing.get("unattributedMicros").unwrap());
    (
        sum + unattributed,
        number(timing.get("wallMicros").unwrap()),
    )
}

#[test]
fn a_reply_tells_its_own_breakdown_when_asked() {
    let (_server, mut client) = start();
    insert(&mut client, 1);
    let mut command = find(1);
    assert!(!run(&mut client, &command).contains("quarry"));
    command.append("$quarry", doc! { "timing": true });
    let reply = run(&mut client, &command);
    let timing = reply
        .get_path("quarry.timing")
        .unwrap()
        .as_document()
        .unwrap();
    let (parts, wall) = parts_and_wall(timing);
    assert!((parts - wall).abs() < 0.01, "{timing}");
    for phase in ["read", "decode", "auth", "execute", "engine_read"] {
        assert!(
            timing.get_path(format!("phases.{phase}")).is_some(),
            "{phase}: {timing}"
        );
    }
    assert!(timing.get_path("phases.send").is_none());
    assert_eq!(number(&reply, "quarry.timing.work.engineGets"), 1.0);
    assert_eq!(number(&reply, "quarry.timing.work.docsExamined"), 1.0);
    let write = doc! {
        "insert": "things",
        "documents": [doc! { "_id": 2 }],
        "writeConcern": doc! { "w": 1, "j": true },
        "$quarry": doc! { "timing": true }
    };
    let reply = run(&mut client, &write);
    assert_eq!(number(&reply, "quarry.timing.waits.groupWriters"), 1.0);
    assert!(number(&reply, "quarry.timing.waits.sync") >= 1.0);
    assert!(number(&reply, "quarry.timing.work.journalBytes") > 20.0);
    assert!(number(&reply, "quarry.timing.phases.journal_append") > 0.0);
    command.append("$quarry", doc! { "timings": true });
    assert_eq!(
        client
            .run(&doc! { "ping": 1, "$quarry": doc! { "bogus": 1 } })
            .get_f64("ok"),
        Some(0.0)
    );
}

#[test]
fn a_document_from_the_cache_of_records_is_counted_as_such() {
    let cached = ["--adminPort", "off", "--setParameter", "recordCacheMB=1"];
    let server = Server::start(&cached);
    let mut client = Client::connect(server.port);
    insert(&mut client, 1);
    let mut command = find(1);
    command.append("$quarry", doc! { "timing": true });
    let reply = run(&mut client, &command);
    assert_eq!(number(&reply, "quarry.timing.work.recordCacheHits"), 1.0);
    assert_eq!(number(&reply, "quarry.timing.work.docsExamined"), 1.0);
    let status = run(&mut client, &doc! { "serverStatus": 1 });
    assert_eq!(number(&status, "quarry.recordCache.hits"), 1.0);
    let parameter = run(&mut client, &doc! { "getParameter": 1, "recordCacheMB": 1 });
    assert_eq!(number(&parameter, "recordCacheMB"), 1.0);
    let change = doc! { "setParameter": 1, "recordCacheMB": 2 };
    assert_eq!(client.run(&change).get_f64("ok"), Some(0.0));
    // The memory engine needs none.
    let (_server, mut client) = start();
    let status = run(&mut client, &doc! { "serverStatus": 1 });
    assert!(status.get_path("quarry.recordCache").is_none());
}

#[test]
fn figures_are_kept_by_kind_collection_and_shape() {
    let (_server, mut client) = start();
    for id in 0..10 {
        insert(&mut client, id);
        run(&mut client, &find(id));
    }
    run(
        &mut client,
        &doc! { "find": "things", "filter": { "a": 1 } },
    );
    // Figures are taken after a reply is sent; the next request of the connection finds them.
    let timing = run(
        &mut client,
        &doc! { "getOpTiming": 1, "collections": true, "shapes": true },
    );
    assert_eq!(number(&timing, "operations.insert.count"), 10.0);
    assert_eq!(number(&timing, "operations.find.count"), 11.0);
    assert_eq!(number(&timing, "operations.find.phases.wall.count"), 11.0);
    assert_eq!(
        number(&timing, "operations.insert.phases.journal_append.count"),
        10.0
    );
    assert_eq!(number(&timing, "operations.find.work.docsExamined"), 20.0);
    let phases = timing.get_path("operations.find.phases").unwrap();
    let total = |name: &str| {
        number(
            &timing,
            &format!("operations.find.phases.{name}.totalMicros"),
        )
    };
    let parts = phases.as_document().unwrap().iter();
    let sum: f64 = parts
        .filter(|part| part.name() != "wall")
        .map(|part| total(&part.name().to_string_lossy()))
        .sum();
    assert!((sum / total("wall") - 1.0).abs() < 1e-6, "{phases}");
    let collections = timing.get_array("collections").unwrap();
    let things = collections.get(0).unwrap().as_document().unwrap();
    assert_eq!(things.get_str("ns"), Some("admin.things"));
    assert_eq!(things.get_i64("count"), Some(21));
    let shapes: Vec<(String, i64)> = timing
        .get_array("shapes")
        .unwrap()
        .iter()
        .map(|shape| {
            let shape = shape.as_document().unwrap();
            (
                shape.get_str("shape").unwrap().to_owned(),
                shape.get_i64("count").unwrap(),
            )
        })
        .collect();
    assert_eq!(shapes.len(), 2, "{shapes:?}");
    assert!(shapes.contains(&(r#"find admin.things {"_id":?}"#.to_owned(), 10)));
    assert!(shapes.contains(&(r#"find admin.things {"a":?}"#.to_owned(), 1)));

    let summary = run(&mut client, &doc! { "getOpTiming": 1, "summary": true });
    let share = |layer: &str| number(&summary, &format!("operations.insert.layers.{layer}.share"));
    let sum: f64 = ["wire", "query", "engine", "journal", "unattributed"]
        .into_iter()
        .map(share)
        .sum();
    assert!((sum - 1.0).abs() < 1e-6, "{summary}");
    assert!((share("total") - 1.0).abs() < 1e-9);
}

#[test]
fn a_reset_and_a_switch_do_what_they_say() {
    let (_server, mut client) = start();
    let stats = |client: &mut Client, op: &str| {
        run(client, &doc! { "getOperationTimingStats": 1, "op": op })
    };
    insert(&mut client, 1);
    insert(&mut client, 2);
    run(&mut client, &find(1));
    run(
        &mut client,
        &doc! { "resetOperationTimingStats": 1, "op": "insert" },
    );
    insert(&mut client, 3);
    let inserts = stats(&mut client, "insert");
    assert_eq!(number(&inserts, "windows.sinceStart.count"), 3.0);
    assert_eq!(number(&inserts, "windows.sinceReset.count"), 1.0);
    assert_eq!(number(&inserts, "windows.lastMinute.count"), 3.0);
    assert_eq!(
        number(&stats(&mut client, "find"), "windows.sinceReset.count"),
        1.0
    );
    run(&mut client, &doc! { "resetOpTiming": 1 });
    let finds = stats(&mut client, "find");
    assert!(finds.get_path("windows.sinceReset").is_none(), "{finds}");
    assert_eq!(number(&finds, "windows.sinceStart.count"), 1.0);

    let was = run(&mut client, &doc! { "setOpTimingEnabled": false });
    assert_eq!(was.get_bool("was"), Some(true));
    run(&mut client, &find(1));
    assert_eq!(
        number(&stats(&mut client, "find"), "windows.sinceStart.count"),
        1.0
    );
    run(&mut client, &doc! { "setOpTimingEnabled": true });
    run(&mut client, &find(1));
    assert_eq!(
        number(&stats(&mut client, "find"), "windows.sinceStart.count"),
        2.0
    );

    let bogus = client.run(&doc! { "getOperationTimingStats": 1, "op": "bogus" });
    assert_eq!(bogus.get_i32("code"), Some(2), "{bogus}");
    let bogus = client.run(&doc! { "getOpTiming": 1, "window": "yesterday" });
    assert_eq!(bogus.get_i32("code"), Some(2), "{bogus}");
}

#[test]
fn latencies_are_told_in_mongodbs_shape() {
    let (_server, mut client) = start();
    for id in 0..5 {
        insert(&mut client, id);
    }
    run(&mut client, &find(1));
    let status = run(
        &mut client,
        &doc! { "serverStatus": 1, "opLatencies": doc! { "histograms": true } },
    );
    assert_eq!(number(&status, "opLatencies.writes.ops"), 5.0);
    assert_eq!(number(&status, "opLatencies.reads.ops"), 1.0);
    assert!(number(&status, "opLatencies.writes.latency") > 0.0);
    assert!(number(&status, "quarry.phases.sinceStart.insert.wall.count") >= 5.0);
    assert!(number(&status, "quarry.work.commits") >= 5.0);
    let histogram = status.get_path("opLatencies.writes.histogram").unwrap();
    let counts = histogram.as_array().unwrap().iter();
    let sum: i64 = counts
        .map(|range| range.as_document().unwrap().get_i64("count").unwrap())
        .sum();
    assert_eq!(sum, 5);
    let stats = run(
        &mut client,
        &doc! {
            "aggregate": "things",
            "pipeline": [doc! { "$collStats": doc! { "latencyStats": doc! {} } }],
            "cursor": doc! {}
        },
    );
    let first = stats.get_path("cursor.firstBatch.0.latencyStats").unwrap();
    let latencies = first.as_document().unwrap();
    assert_eq!(
        latencies
            .get_path("writes.ops")
            .and_then(|ops| ops.as_i64_exact()),
        Some(5)
    );
    assert_eq!(
        latencies
            .get_path("reads.ops")
            .and_then(|ops| ops.as_i64_exact()),
        Some(1)
    );
    assert!(latencies.get_path("reads.histogram").is_none());
    let top = run(&mut client, &doc! { "top": 1 });
    assert_eq!(
        top.get_path("totals")
            .unwrap()
            .as_document()
            .unwrap()
            .get_document("admin.things")
            .unwrap()
            .get_path("insert.count")
            .unwrap()
            .as_i64_exact(),
        Some(5)
    );
}

#[test]
fn a_slow_operation_leaves_a_line_with_its_phases() {
    let (server, mut client) = start();
    insert(&mut client, 1);
    run(
        &mut client,
        &doc! { "setParameter": 1, "slowOpThresholdMs": 0 },
    );
    insert(&mut client, 7);
    run(
        &mut client,
        &doc! { "find": "things", "filter": { "a": 1 } },
    );
    let line = server.line(r#""find":"things""#);
    let line = quarry_bson::extjson::parse(&line).unwrap();
    assert_eq!(line.get_str("msg"), Some("Slow query"));
    assert_eq!(
        line.get_path("attr.ns").unwrap().as_str(),
        Some("admin.things")
    );
    assert_eq!(number(&line, "attr.command.filter.a"), 1.0);
    assert_eq!(number(&line, "attr.docsExamined"), 2.0);
    assert_eq!(number(&line, "attr.nreturned"), 2.0);
    assert!(number(&line, "attr.reslen") > 50.0);
    assert!(line.get_path("attr.durationMillis").is_some());
    for phase in [
        "read",
        "decode",
        "plan",
        "engine_scan",
        "send",
        "unattributed",
    ] {
        assert!(number(&line, &format!("attr.phasesMicros.{phase}")) >= 0.0);
    }
    let line = quarry_bson::extjson::parse(&server.line(r#""_id":7"#)).unwrap();
    assert_eq!(number(&line, "attr.ninserted"), 1.0);
    assert_eq!(number(&line, "attr.waits.groupWriters"), 1.0);
    assert!(number(&line, "attr.work.journalBytes") > 0.0);
}

#[test]
fn the_running_operation_shows_its_phase() {
    let (_server, mut client) = start();
    let current = run(&mut client, &doc! { "currentOp": 1, "$ownOps": true });
    let entry = current.get_path("inprog.0").unwrap().as_document().unwrap();
    let timing = entry.get_document("quarry").unwrap();
    assert_eq!(timing.get_str("phase"), Some("execute"));
    let (parts, wall) = parts_and_wall(timing);
    assert!((parts - wall).abs() < 0.01, "{timing}");
}

/// How long a slow client dawdles, and what an operation takes at most that nobody delays.
const DAWDLE: std::time::Duration = std::time::Duration::from_millis(150);

/// The phase that took longest in the one line that holds `text`, and its microseconds.
fn slowest_phase(server: &Server, text: &str) -> (String, f64) {
    let line = quarry_bson::extjson::parse(&server.line(text)).unwrap();
    let phases = line.get_path("attr.phasesMicros").unwrap();
    let phases = phases.as_document().unwrap().iter().map(|phase| {
        let micros = phase.value().as_f64_lossy().unwrap();
        (phase.name().to_string_lossy().into_owned(), micros)
    });
    phases.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
}

#[test]
fn a_client_that_sends_slowly_shows_in_read() {
    let (server, mut client) = start();
    let threshold = i64::try_from(DAWDLE.as_millis() / 2).unwrap();
    run(
        &mut client,
        &doc! { "setParameter": 1, "slowOpThresholdMs": threshold },
    );
    let message = crate::client::message(doc! { "ping": 1, "comment": "slow" }.as_raw(), 0);
    client.send(&message[..20]);
    std::thread::sleep(DAWDLE);
    client.send(&message[20..]);
    client.reply();
    let (phase, micros) = slowest_phase(&server, r#""comment":"slow""#);
    assert_eq!(phase, "read");
    assert!(micros >= DAWDLE.as_micros() as f64 * 0.9, "{micros}");
}

#[test]
fn a_client_that_reads_slowly_shows_in_send() {
    let (server, mut client) = start();
    let threshold = i64::try_from(DAWDLE.as_millis() / 2).unwrap();
    for id in 0..15 {
        let large = "x".repeat(1 << 20);
        run(
            &mut client,
            &doc! { "insert": "things", "documents": [doc! { "_id": id, "large": large }] },
        );
    }
    run(
        &mut client,
        &doc! { "setParameter": 1, "slowOpThresholdMs": threshold },
    );
    let find = doc! { "find": "things", "comment": "unread" };
    client.send(&crate::client::message(find.as_raw(), 0));
    std::thread::sleep(2 * DAWDLE);
    client.reply();
    let (phase, micros) = slowest_phase(&server, r#""comment":"unread""#);
    assert_eq!(phase, "send");
    assert!(micros >= DAWDLE.as_micros() as f64 * 0.9, "{micros}");
}

/// The number of the sync that a command waited for.
fn sync_of(client: &mut Client, mut command: Document) -> i64 {
    command.append("writeConcern", doc! { "w": 1, "j": true });
    command.append("$quarry", doc! { "timing": true });
    let reply = client.run(&command);
    assert_eq!(reply.get_f64("ok"), Some(1.0), "{reply}");
    number(&reply, "quarry.timing.waits.sync") as i64
}

#[test]
fn a_command_of_many_statements_syncs_once() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let ids = 0..20;
    let documents: Vec<Value> = ids.clone().map(|id| doc! { "_id": id }.into()).collect();
    let first = sync_of(&mut client, doc! { "insert": "c", "documents": documents });
    let updates: Vec<Value> = ids
        .clone()
        .map(|id| doc! { "q": { "_id": id }, "u": { "$set": { "n": 1 } } }.into())
        .collect();
    let updated = sync_of(&mut client, doc! { "update": "c", "updates": updates });
    assert_eq!(updated, first + 1);
    let deletes: Vec<Value> = ids
        .map(|id| doc! { "q": { "_id": id }, "limit": 1 }.into())
        .collect();
    let deleted = sync_of(&mut client, doc! { "delete": "c", "deletes": deletes });
    assert_eq!(deleted, updated + 1);
}

#[test]
fn a_wait_that_a_client_asks_for_is_no_time_of_the_operation() {
    const WAIT_MS: i64 = 1000;
    let server = Server::start(&[
        "--adminPort",
        "off",
        "--logFormat",
        "json",
        "--slowms",
        "500",
    ]);
    let mut client = Client::connect(server.port);
    let mut watcher = Client::connect(server.port);
    let capped = doc! { "create": "log", "capped": true, "size": 65_536 };
    run(&mut client, &capped);
    run(
        &mut client,
        &doc! { "insert": "log", "documents": [{ "_id": 1 }] },
    );
    let tail = doc! { "find": "log", "tailable": true, "awaitData": true };
    let opened = run(&mut client, &tail);
    let cursor = opened.get_path("cursor.id").unwrap().to_value();
    let hello = run(&mut client, &doc! { "hello": 1 });
    let known = hello
        .get_document("topologyVersion")
        .unwrap()
        .to_owned_document();
    let waiting = [
        (
            "hello",
            doc! { "hello": 1, "topologyVersion": known, "maxAwaitTimeMS": WAIT_MS },
        ),
        (
            "getMore",
            doc! { "getMore": cursor, "collection": "log", "maxTimeMS": WAIT_MS },
        ),
    ];
    for (name, command) in waiting {
        client.send(&message(command.as_raw(), 0));
        // Seen from outside it waits, and has worked for next to nothing.
        let running = doc! { "currentOp": 1, "quarry.phase": "waiting" };
        let seen = wait_for(Duration::from_secs(1), || {
            let reply = watcher.run(&running);
            let entry = reply.get_path("inprog.0")?.as_document()?;
            Some(entry.to_owned_document())
        });
        let seen = seen.unwrap_or_else(|| panic!("{name} is not seen to wait"));
        assert!(seen.get_path(format!("command.{name}")).is_some(), "{seen}");
        assert!(number(&seen, "microsecs_running") < 500_000.0, "{seen}");
        assert_eq!(client.reply().document.get_f64("ok"), Some(1.0), "{name}");
    }
    let status = run(&mut client, &doc! { "serverStatus": 1 });
    for class in ["commands", "reads"] {
        let micros = number(&status, &format!("opLatencies.{class}.latency"));
        assert!(micros < 500_000.0, "{class}: {micros}");
    }
    assert_eq!(server.lines_with("slow operation"), Vec::<String>::new());
    assert_eq!(server.lines_with("Slow query"), Vec::<String>::new());
}
