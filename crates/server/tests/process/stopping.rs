//! Stopping: by signal and by command, with what is in flight finished and nothing left behind.

use std::fs;
use std::time::{Duration, Instant};

use quarry_bson::doc;

use crate::client::{Client, message};
use crate::server::{Server, wait_for};

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
