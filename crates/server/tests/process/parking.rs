//! Tests of connections that are idle for long: they give up their threads, and go on as if they had not.

use std::fs;
use std::time::{Duration, Instant};

use quarry_bson::doc;

use crate::client::{Client, message};
use crate::server::{Server, wait_for};

const CONNECTIONS: usize = 300;
/// So that a test need not wait for long; what it waits for is that they are parked.
const PARK_SOON: [&str; 2] = ["--setParameter", "connectionParkMillis=50"];
/// The threads that may wait for another connection, and the one that asks.
const THREADS_MAX: usize = 16 + 1;
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Three times what clients may take of a stop (`stopping`).
const STOP_MAX: Duration = Duration::from_secs(6);

fn figure(watcher: &mut Client, name: &str) -> i64 {
    let status = watcher.run(&doc! { "serverStatus": 1 });
    let found = status.get_path(&*format!("connections.{name}"));
    found.and_then(|value| value.as_i64_exact()).unwrap()
}

fn wait_parked(watcher: &mut Client, count: usize) {
    let parked = wait_for(WAIT_MAX, || {
        (figure(watcher, "parked") == count as i64).then_some(())
    });
    assert!(parked.is_some(), "{} of {count}", figure(watcher, "parked"));
}

/// The threads of the process that serve connections, or have done so.
fn connection_threads(server: &Server) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("conn"))
        .count()
}

fn ping(client: &mut Client) {
    assert_eq!(client.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
}

#[test]
fn hundreds_of_parked_connections_hold_no_threads_and_all_go_on() {
    let mut server = Server::start(&PARK_SOON);
    let mut watcher = Client::connect(server.port);
    let mut clients: Vec<Client> = (0..CONNECTIONS)
        .map(|_| Client::connect(server.port))
        .collect();
    // Also those are parked that have never said anything.
    for client in &mut clients[1..] {
        ping(client);
    }
    for round in 0..3 {
        wait_parked(&mut watcher, CONNECTIONS);
        let quiet = wait_for(WAIT_MAX, || {
            (connection_threads(&server) <= THREADS_MAX).then_some(())
        });
        assert!(quiet.is_some(), "{} threads", connection_threads(&server));
        assert_eq!(figure(&mut watcher, "threaded"), 1);
        assert_eq!(figure(&mut watcher, "current"), CONNECTIONS as i64 + 1);
        match round {
            // One after the other, then all together: what is handed over and what needs a new thread.
            0 => clients.iter_mut().for_each(ping),
            _ => {
                let request = message(doc! { "ping": 1 }.as_raw(), 0);
                for client in &mut clients {
                    client.send(&request);
                }
                for client in &mut clients {
                    assert_eq!(client.reply().document.get_f64("ok"), Some(1.0));
                }
            }
        }
    }
    // A request that comes in halves is no smaller a request.
    wait_parked(&mut watcher, CONNECTIONS);
    let request = message(doc! { "ping": 1 }.as_raw(), 0);
    let (begun, rest) = request.split_at(5);
    clients[0].send(begun);
    wait_parked(&mut watcher, CONNECTIONS - 1);
    clients[0].send(rest);
    assert_eq!(clients[0].reply().document.get_f64("ok"), Some(1.0));
    // Idle connections are shown where they are asked for, parked or not.
    wait_parked(&mut watcher, CONNECTIONS);
    let shown = watcher.run(&doc! { "currentOp": 1, "$all": true });
    let shown = shown.get_array("inprog").unwrap().iter().count();
    assert!(shown > CONNECTIONS, "{shown}");
    // Who goes away while parked leaves nothing behind.
    clients.truncate(CONNECTIONS / 2);
    let gone = wait_for(WAIT_MAX, || {
        (figure(&mut watcher, "current") == CONNECTIONS as i64 / 2 + 1).then_some(())
    });
    assert!(gone.is_some(), "{}", figure(&mut watcher, "current"));
    wait_parked(&mut watcher, CONNECTIONS / 2);

    let begun = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(begun.elapsed() < STOP_MAX, "{:?}", begun.elapsed());
    assert!(clients.iter_mut().all(Client::is_closed));
}

#[test]
fn a_connection_keeps_what_it_was_given_while_it_is_parked() {
    let server = Server::start(&PARK_SOON);
    let mut watcher = Client::connect(server.port);
    let mut client = Client::connect(server.port);
    let hello = doc! {
        "hello": 1,
        "client": {
            "application": { "name": "sleeper" },
            "driver": { "name": "none", "version": "1" },
            "os": { "type": "Linux" },
        },
    };
    let id = client.run(&hello).get_i32("connectionId");
    let documents: Vec<_> = (0..10).map(|id| doc! { "_id": id }).collect();
    client.run(&doc! { "insert": "c", "documents": documents });
    let found = client.run(&doc! { "find": "c", "batchSize": 2 });
    let cursor = found.get_path("cursor.id").unwrap().as_i64_exact().unwrap();
    wait_parked(&mut watcher, 1);
    let operations = watcher.run(&doc! { "currentOp": 1, "$all": true, "appName": "sleeper" });
    assert_eq!(operations.get_array("inprog").unwrap().iter().count(), 1);
    let again = client.run(&doc! { "hello": 1 });
    assert_eq!(again.get_i32("connectionId"), id);
    let more = client.run(&doc! { "getMore": cursor, "collection": "c" });
    let batch = more.get_path("cursor.nextBatch").unwrap();
    assert_eq!(batch.as_array().unwrap().iter().count(), 8);
}

#[test]
fn a_connection_keeps_its_thread_where_parking_is_off() {
    let server = Server::start(&["--setParameter", "connectionParkMillis=0"]);
    let mut watcher = Client::connect(server.port);
    let mut idle = Client::connect(server.port);
    ping(&mut idle);
    let bad = watcher.run(&doc! { "setParameter": 1, "connectionParkMillis": (-1) });
    assert_eq!(bad.get_i32("code"), Some(2), "{bad}");
    let was = watcher.run(&doc! { "setParameter": 1, "connectionParkMillis": 20 });
    assert_eq!(was.get_i64("was"), Some(0), "{was}");
    // A connection that begins now is parked; the other one, which began when none was, has its thread.
    let mut parked = Client::connect(server.port);
    ping(&mut parked);
    let first = wait_for(WAIT_MAX, || {
        Some(figure(&mut watcher, "parked")).filter(|parked| *parked > 0)
    });
    assert_eq!(first, Some(1));
    assert_eq!(figure(&mut watcher, "threaded"), 2);
    ping(&mut idle);
    assert_eq!(figure(&mut watcher, "parked"), 1);
    ping(&mut parked);
}
