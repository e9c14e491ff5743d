//! Tests of what connections hold: everything while they work, next to nothing while they are idle.

use std::time::Duration;

use quarry_bson::{Document, doc};
use quarry_wire::Compressor;

use crate::client::{Client, message};
use crate::server::{Server, wait_for};

/// The flag of a message whose sender takes several replies.
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// The bytes that the message buffers of an idle connection may hold.
const IDLE_BYTES: i64 = 32 << 10;
/// Far more than the tenth of a second that the server takes, for a machine that has much to do.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// The most that one connection holds. Asked on a connection of its own, which has held nothing before.
fn largest_bytes(server: &Server) -> i64 {
    let status = Client::connect(server.port).run(&doc! { "serverStatus": 1 });
    let held = status.get_path("quarry.connectionBuffers.largestBytes");
    held.and_then(|held| held.as_i64_exact()).unwrap()
}

fn packed(command: &Document, compressor: Compressor) -> Vec<u8> {
    let mut packed = Vec::new();
    quarry_wire::compress(&message(command.as_raw(), 0), compressor, &mut packed).unwrap();
    packed
}

#[test]
fn an_idle_connection_gives_back_what_its_largest_exchanges_needed() {
    let server = Server::start(&[]);
    let large = "x".repeat(15 << 20);
    let mut plain = Client::connect(server.port);
    plain.run(&doc! { "ping": 1, "comment": (large.as_str()) });
    let mut unpacking = Client::connect(server.port);
    let ping = packed(
        &doc! { "ping": 1, "comment": (large.as_str()) },
        Compressor::Zstd,
    );
    assert!(ping.len() < 4096, "{}", ping.len());
    unpacking.send(&ping);
    unpacking.reply();
    // Replies of some size: one as it is, one packed.
    let insert = doc! { "insert": "large", "documents": [{ "_id": 1, "text": (large.as_str()) }] };
    assert_eq!(plain.run(&insert).get_i32("n"), Some(1));
    let find = doc! { "find": "large" };
    let mut reading = Client::connect(server.port);
    assert!(reading.run(&find).as_bytes().len() > large.len());
    let mut reading_packed = Client::connect(server.port);
    reading_packed.send(&packed(&find, Compressor::Snappy));
    assert!(reading_packed.reply().document.as_bytes().len() > large.len());
    // One that has begun its next request and does not go on.
    let mut stalled = Client::connect(server.port);
    let mut bytes = message(doc! { "ping": 1, "comment": (large.as_str()) }.as_raw(), 0);
    bytes.extend_from_slice(&message(doc! { "ping": 1 }.as_raw(), 0)[..20]);
    stalled.send(&bytes);
    stalled.reply();
    let held = wait_for(IDLE_TIME, || {
        (largest_bytes(&server) <= IDLE_BYTES).then_some(())
    });
    assert!(held.is_some(), "{} bytes", largest_bytes(&server));
    // They go on as before.
    for client in [&mut plain, &mut unpacking, &mut reading] {
        assert_eq!(client.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
    }
    stalled.send(&message(doc! { "ping": 1 }.as_raw(), 0)[20..]);
    assert_eq!(stalled.reply().document.get_f64("ok"), Some(1.0));
}

#[test]
fn requests_of_all_connections_together_stay_within_a_bound_and_small_ones_pass() {
    let server = Server::start(&[]);
    let mut watcher = Client::connect(server.port);
    let figure = |watcher: &mut Client, name: &str| {
        let status = watcher.run(&doc! { "serverStatus": 1 });
        let path = format!("quarry.connectionBuffers.{name}");
        status
            .get_path(path)
            .and_then(|value| value.as_i64_exact())
            .unwrap()
    };
    // Each announces the largest message and does not send it.
    let mut stalled: Vec<Client> = (0..11)
        .map(|_| {
            let mut client = Client::connect(server.port);
            let mut header = Vec::new();
            for number in [48_000_000i32, 1, 0, 2013] {
                header.extend_from_slice(&number.to_le_bytes());
            }
            client.send(&header);
            client
        })
        .collect();
    let large = message(
        doc! { "ping": 1, "comment": ("x".repeat(15 << 20)) }.as_raw(),
        0,
    );
    let mut sender = Client::connect(server.port);
    sender.send(&large);
    assert_eq!(sender.reply().document.get_f64("ok"), Some(1.0));
    // The beginning of a message takes memory for the whole of it.
    for client in &mut stalled {
        client.send(&[0; 64 << 10]);
    }
    let taken = wait_for(IDLE_TIME, || {
        (figure(&mut watcher, "largeRequestBytes") >= 10 * 48_000_000).then_some(())
    });
    assert!(
        taken.is_some(),
        "{}",
        figure(&mut watcher, "largeRequestBytes")
    );
    assert!(figure(&mut watcher, "largeRequestBytes") <= 512 << 20);
    // Who sends nothing gives way to who does, and small requests pass meanwhile.
    sender.send(&large);
    assert_eq!(watcher.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
    assert_eq!(sender.reply().document.get_f64("ok"), Some(1.0));
    drop(stalled);
    let quiet = wait_for(IDLE_TIME, || {
        (figure(&mut watcher, "waiting") == 0).then_some(())
    });
    assert!(quiet.is_some());
}

#[test]
fn who_waits_at_its_own_wish_keeps_no_memory_from_others() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let hello = client.run(&doc! { "hello": 1 });
    let known = hello.get_path("topologyVersion").unwrap().to_value();
    let filler = "x".repeat(15 << 20);
    let waiting = doc! {
        "hello": 1, "topologyVersion": known, "maxAwaitTimeMS": (1i64 << 62), "comment": (filler.as_str())
    };
    let mut exhausting = Vec::new();
    quarry_wire::compress(
        &message(waiting.as_raw(), EXHAUST_ALLOWED),
        Compressor::Zstd,
        &mut exhausting,
    )
    .unwrap();
    let plain = packed(&waiting, Compressor::Zstd);
    // Together they unpack to more than all of the memory.
    let clients: Vec<Client> = (0..36)
        .map(|number| {
            let mut client = Client::connect(server.port);
            client.send(if number % 2 == 0 { &plain } else { &exhausting });
            client
        })
        .collect();
    for mut waiting in clients {
        assert_eq!(waiting.reply().document.get_f64("ok"), Some(1.0));
    }
    let insert = doc! { "insert": "large", "documents": [{ "_id": 1, "text": filler }] };
    assert_eq!(client.run(&insert).get_i32("n"), Some(1));
}
