//! Stopping: by signal and by command, with what is in flight finished and nothing left behind.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_bson::{Document, doc};

use crate::client::{Client, message};
use crate::server::{Directory, Server, wait_for};

/// The time that stopping may take here beyond writes that run. The server's own bounds come to 1.3 s for clients and to 2 s for a
/// start; a loaded machine has three times as long. Without these bounds it takes 10 s and more.
const STOP_MAX: Duration = Duration::from_secs(6);
const WAIT_MAX: Duration = Duration::from_secs(20);

fn insert(client: &mut Client, documents: impl Iterator<Item = Document>) {
    let documents: Vec<Document> = documents.collect();
    let count = documents.len() as i32;
    let inserted = client.run(&doc! { "insert": "c", "documents": documents });
    assert_eq!(inserted.get_i32("n"), Some(count), "{inserted}");
}

/// Takes far longer for a few hundred documents than any test waits.
fn slow_condition() -> Document {
    let numbers = doc! { "$range": [0, 200_000] };
    let long = doc! { "$reduce": { "input": numbers, "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } };
    doc! { "$expr": { "$gte": [long, 0] } }
}

/// Waits until `client` sees an operation of that name run.
fn wait_running(client: &mut Client, command: &str) {
    wait_for(WAIT_MAX, || {
        let operations = client.run(&doc! { "currentOp": 1 });
        let shown = operations.get_array("inprog").unwrap();
        let mut shown = shown.iter().filter_map(|one| one.as_document());
        let is_meant = |one: quarry_bson::RawDocument<'_>| {
            let asked = one.get_document("command");
            asked.is_some_and(|asked| asked.get(command).is_some())
        };
        shown.any(is_meant).then_some(())
    })
    .unwrap_or_else(|| panic!("{command} runs"));
}

#[test]
fn sigterm_closes_idle_connections_and_exits_with_0() {
    let mut server = Server::start(&[]);
    let mut idle = Client::connect(server.port);
    assert_eq!(idle.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
    let begun = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(idle.is_closed());
    assert!(!server.data().join("quarry.port").exists());
    server.line("stopped");
}

#[test]
fn a_request_in_flight_is_answered_before_the_end() {
    let mut server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let hello = client.run(&doc! { "hello": 1 });
    let known = hello
        .get_document("topologyVersion")
        .unwrap()
        .to_owned_document();
    let waiting = doc! { "hello": 1, "topologyVersion": known, "maxAwaitTimeMS": 600_000 };
    client.send(&message(waiting.as_raw(), 0));
    let mut other = Client::connect(server.port);
    wait_for(Duration::from_secs(10), || {
        let operations = other.run(&doc! { "currentOp": 1 });
        (operations.get_array("inprog").unwrap().len() == 2).then_some(())
    })
    .expect("both operations are listed");
    server.signal("TERM");
    assert_eq!(
        client.reply().document.get_bool("isWritablePrimary"),
        Some(true)
    );
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_shutdown_command_stops_the_server() {
    let mut server = Server::start(&[]);
    let reply = Client::connect(server.port).run(&doc! { "shutdown": 1 });
    assert_eq!(reply.get_f64("ok"), Some(1.0));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_log_file_is_rotated_on_request() {
    let server = {
        let logs = crate::server::Directory::new();
        let path = logs.path().join("quarry.log");
        let server = Server::start(&["--logpath", path.to_str().unwrap()]);
        let mut client = Client::connect(server.port);
        assert_eq!(
            client.run(&doc! { "logRotate": 1 }).get_f64("ok"),
            Some(1.0)
        );
        let names: Vec<String> = fs::read_dir(logs.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(fs::read_to_string(&path).unwrap().contains("log rotated"));
        server
    };
    drop(server);
}

#[test]
fn a_read_that_runs_is_interrupted_and_told_so() {
    let mut server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    insert(&mut client, (0..500).map(|id| doc! { "_id": id }));
    let find = doc! { "find": "c", "filter": slow_condition() };
    client.send(&message(find.as_raw(), 0));
    wait_running(&mut Client::connect(server.port), "find");
    let begun = Instant::now();
    server.signal("TERM");
    let reply = client.reply().document;
    assert_eq!(reply.get_i32("code"), Some(11_600), "{reply}");
    assert_eq!(server.wait().code(), Some(0));
    assert!(begun.elapsed() < STOP_MAX, "{:?}", begun.elapsed());
}

#[test]
fn clients_that_take_no_reply_do_not_hold_up_the_end() {
    let mut server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    // Together far more than the kernel takes for a client that does not read.
    let large = "x".repeat(4 << 20);
    insert(
        &mut client,
        (0..3).map(|id| doc! { "_id": id, "large": large.as_str() }),
    );
    let find = message(doc! { "find": "c" }.as_raw(), 0);
    let mut stuck: Vec<Client> = (0..4).map(|_| Client::connect(server.port)).collect();
    for one in &mut stuck {
        for _ in 0..8 {
            one.stream.write_all(&find).unwrap();
        }
    }
    wait_for(WAIT_MAX, || {
        let status = client.run(&doc! { "serverStatus": 1 });
        let finds = status.get_document("opcounters").unwrap().get("query");
        (finds.unwrap().as_i64_exact() >= Some(stuck.len() as i64)).then_some(())
    })
    .expect("every client is sent a reply");
    let begun = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(begun.elapsed() < STOP_MAX, "{:?}", begun.elapsed());
    assert!(server.lines_with("connections left open").is_empty());
}

#[test]
fn a_second_sigterm_ends_the_process_at_once() {
    let mut server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    insert(&mut client, (0..500).map(|id| doc! { "_id": id }));
    let update = doc! { "update": "c", "updates": [{ "q": slow_condition(), "u": { "$set": { "a": 1 } }, "multi": true }] };
    client.send(&message(update.as_raw(), 0));
    wait_running(&mut Client::connect(server.port), "update");
    server.signal("TERM");
    server.line("shutting down");
    let begun = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(128 + 15));
    assert!(begun.elapsed() < STOP_MAX, "{:?}", begun.elapsed());
}

#[test]
fn a_start_that_replays_is_stopped_and_the_next_one_has_everything() {
    const DOCUMENTS: i32 = 40_000;
    const TRIES: i32 = 5;
    let directory = Arc::new(Directory::new());
    let text = "x".repeat(1000);
    let mut documents = 0;
    // The replay takes some 100 ms, and the signal may come too late for it: then there is more to replay, and another try.
    let was_met = (0..TRIES).any(|_| {
        let mut server = Server::spawn(Arc::clone(&directory), "mdbx", &[]);
        server.wait_listening();
        let mut client = Client::connect(server.port);
        for _ in 0..DOCUMENTS / 10_000 {
            let ids = documents..documents + 10_000;
            insert(
                &mut client,
                ids.map(|id| doc! { "_id": id, "text": text.as_str() }),
            );
            documents += 10_000;
        }
        server.kill();
        let mut server = Server::spawn(Arc::clone(&directory), "mdbx", &[]);
        server.line("quarry starting");
        let begun = Instant::now();
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        assert!(begun.elapsed() < STOP_MAX, "{:?}", begun.elapsed());
        server.line("stopped").contains("stopped while starting")
    });
    assert!(was_met, "no replay was stopped");
    let mut server = Server::spawn(directory, "mdbx", &[]);
    server.wait_listening();
    let counted = Client::connect(server.port).run(&doc! { "count": "c" });
    assert_eq!(counted.get_i32("n"), Some(documents), "{counted}");
}
