//! A server with few file descriptors: connections end where files need the rest.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quarry_bson::{Document, doc};

use crate::client::Client;
use crate::server::{Server, wait_for};

fn insert(client: &mut Client, id: i32, bytes: usize) -> Document {
    let document = doc! { "_id": id, "text": "x".repeat(bytes) };
    client.run(&doc! { "insert": "things", "documents": [document] })
}

/// A soft limit is no bound that anybody meant.
#[test]
fn the_soft_limit_is_raised_and_a_low_one_is_warned_of() {
    let server = Server::start_under("ulimit -Sn 128; ulimit -Hn 512", "memory", &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.process_id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.unwrap().split_whitespace().nth(3);
    assert_eq!(soft, Some("512"));
    server.line("Soft rlimits for open file descriptors too low");
    let mut client = Client::connect(server.port);
    let warnings = client.run(&doc! { "getLog": "startupWarnings" });
    let lines = warnings.get_array("log").unwrap();
    let text: Vec<String> = lines
        .iter()
        .map(|line| format!("{line:?}"))
        .filter(|line| line.contains("Soft rlimits") && line.contains("512"))
        .collect();
    assert_eq!(text.len(), 1);
}

/// Clients that connect and say nothing take no write from those that do.
#[test]
fn idle_connections_beyond_the_limit_do_not_stop_writes() {
    const IDLE: usize = 120;
    let server = Server::start_under("ulimit -n 90", "rocksdb", &[]);
    let mut client = Client::connect(server.port);
    assert_eq!(insert(&mut client, 0, 10).get_f64("ok"), Some(1.0));
    let idle: Vec<TcpStream> = (0..IDLE)
        .map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap())
        .collect();
    assert!(server.count_lines("too many are open", 1) > 0);
    // More than a memtable, so that files are made meanwhile.
    for id in 1..=48 {
        let reply = insert(&mut client, id, 1 << 20);
        assert_eq!(reply.get_f64("ok"), Some(1.0), "{reply:?}");
        assert_eq!(reply.get_i32("n"), Some(1), "{reply:?}");
    }
    let synced = client.run(&doc! { "fsync": 1 });
    assert_eq!(synced.get_f64("ok"), Some(1.0), "{synced:?}");
    assert!(server.lines_with("writes are refused").is_empty());
    drop(idle);
    // Those who come later are served again.
    wait_for(Duration::from_secs(10), || {
        let mut later = Client::try_connect(server.port)?;
        let reply = later.try_run(&doc! { "ping": 1 })?;
        (reply.get_f64("ok") == Some(1.0)).then_some(())
    })
    .expect("a later client is served");
}

/// The admin port lets nobody wait, and still keeps to its share.
#[test]
fn admin_connections_keep_to_their_share() {
    const LIMIT: usize = 90;
    const STALLED: usize = 60;
    let server = Server::start_under(&format!("ulimit -n {LIMIT}"), "memory", &[]);
    let started = server.line("listening");
    let port = started.split_once("\"adminPort\":").unwrap().1;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let port: u16 = port.parse().unwrap();
    let sockets = || {
        let open = fs::read_dir(format!("/proc/{}/fd", server.process_id())).unwrap();
        let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    let before = sockets();
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let stalled: Vec<TcpStream> = (0..STALLED).map(|_| connect()).collect();
    // Connections are accepted in turn: who comes last is answered when all others were let in.
    let mut last = connect();
    last.write_all(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        .unwrap();
    let mut first_bytes = [0; 12];
    last.read_exact(&mut first_bytes).unwrap();
    assert_eq!(&first_bytes, b"HTTP/1.1 200");
    let more = sockets().saturating_sub(before);
    assert!(more <= LIMIT / 8, "{more} connections");
    drop(stalled);
}
