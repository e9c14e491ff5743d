//! Tailable cursors over sockets: they wait without work, wake with the commit, and are told when they were overrun.

use std::time::{Duration, Instant};

use quarry_bson::{Document, Value, doc};

use crate::client::{Client, message};
use crate::server::{Server, wait_for};

/// Far beyond what anything here takes, and within the client's time to read a reply.
const LONG_MS: i64 = 8000;

fn number(document: &Document, path: &str) -> i64 {
    let value = document
        .get_path(path)
        .and_then(|value| value.as_i64_exact());
    value.unwrap_or_else(|| panic!("no number at {path} in {document}"))
}

fn insert(client: &mut Client, id: i32, text: &str) {
    let insert = doc! { "insert": "log", "documents": [{ "_id": id, "text": text }] };
    assert_eq!(client.run(&insert).get_i32("n"), Some(1));
}

/// A capped collection with one document, and a tailable cursor that has read it.
fn tail(client: &mut Client, size: i32) -> Value {
    let create = doc! { "create": "log", "capped": true, "size": size };
    assert_eq!(client.run(&create).get_f64("ok"), Some(1.0));
    insert(client, 0, "first");
    let find = doc! { "find": "log", "tailable": true, "awaitData": true };
    let opened = client.run(&find);
    opened.get_path("cursor.id").unwrap().to_value()
}

fn get_more(cursor: &Value, wait_ms: i64) -> Document {
    doc! { "getMore": (cursor.clone()), "collection": "log", "maxTimeMS": wait_ms }
}

/// Sends a getMore and returns once the server waits over it.
fn begin_wait(client: &mut Client, cursor: &Value, watcher: &mut Client) -> i64 {
    client.send(&message(get_more(cursor, LONG_MS).as_raw(), 0));
    let waiting = doc! { "currentOp": 1, "quarry.phase": "waiting" };
    let opid = wait_for(Duration::from_secs(5), || {
        let reply = watcher.run(&waiting);
        reply.get_path("inprog.0.opid")?.as_i64_exact()
    });
    opid.expect("the getMore waits")
}

#[test]
fn a_waiting_cursor_does_nothing_and_wakes_with_the_commit() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (Client::connect(server.port), Client::connect(server.port));
    let cursor = tail(&mut client, 65_536);
    let seeks = |client: &mut Client| {
        let status = client.run(&doc! { "serverStatus": 1 });
        number(&status, "quarry.engineCounters.seeks")
    };
    let before = seeks(&mut other);
    let reply = client.run(&get_more(&cursor, 400));
    assert_eq!(reply.get_f64("ok"), Some(1.0), "{reply}");
    let looked = seeks(&mut other) - before;
    assert!(looked <= 10, "{looked} seeks to find nothing");
    for id in 1..20 {
        begin_wait(&mut client, &cursor, &mut other);
        insert(&mut other, id, "next");
        let reply = client.reply().document;
        assert_eq!(
            number(&reply, "cursor.nextBatch.0._id"),
            i64::from(id),
            "{reply}"
        );
    }
    // A commit elsewhere is none of its business.
    begin_wait(&mut client, &cursor, &mut other);
    let before = seeks(&mut other);
    for id in 0..50 {
        other.run(&doc! { "insert": "elsewhere", "documents": [{ "_id": id }] });
    }
    let looked = seeks(&mut other) - before;
    assert!(looked <= 10, "{looked} seeks");
    other.run(&doc! { "drop": "log" });
    let reply = client.reply().document;
    assert_eq!(reply.get_i32("code"), Some(175), "{reply}");
}

#[test]
fn a_waiting_cursor_ends_when_it_is_killed_and_when_the_server_stops() {
    let mut server = Server::start(&[]);
    let (mut client, mut other) = (Client::connect(server.port), Client::connect(server.port));
    let cursor = tail(&mut client, 65_536);
    let opid = begin_wait(&mut client, &cursor, &mut other);
    let started = Instant::now();
    other.run(&doc! { "killOp": 1, "op": (Value::from(opid)) });
    let reply = client.reply().document;
    assert_eq!(reply.get_i32("code"), Some(11_601), "{reply}");
    assert!(started.elapsed() < Duration::from_millis(LONG_MS as u64 / 2));
    // The cursor went with it, and is not busy for ever.
    let again = client.run(&get_more(&cursor, 10));
    assert_eq!(again.get_i32("code"), Some(43), "{again}");
    let find = doc! { "find": "log", "tailable": true, "awaitData": true };
    let opened = client.run(&find);
    let cursor = opened.get_path("cursor.id").unwrap().to_value();
    begin_wait(&mut client, &cursor, &mut other);
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn a_cursor_that_was_overrun_is_told_so() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (Client::connect(server.port), Client::connect(server.port));
    let text = "x".repeat(1000);
    let waiting = tail(&mut client, 8192);
    for await_data in [false, true] {
        let find = doc! { "find": "log", "tailable": true, "awaitData": await_data };
        let opened = client.run(&find);
        let cursor = opened.get_path("cursor.id").unwrap().to_value();
        for id in 0..20 {
            let id = 1 + id + 100 * i32::from(await_data);
            insert(&mut other, id, &text);
        }
        let next = doc! { "getMore": (cursor.clone()), "collection": "log" };
        let reply = client.run(&next);
        assert_eq!(reply.get_i32("code"), Some(136), "{await_data}: {reply}");
        assert_eq!(reply.get_str("codeName"), Some("CappedPositionLost"));
        let again = client.run(&next);
        assert_eq!(again.get_i32("code"), Some(43), "{again}");
    }
    let reply = client.run(&get_more(&waiting, 10));
    assert_eq!(reply.get_i32("code"), Some(136), "{reply}");
}
