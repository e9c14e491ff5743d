//! What connections hold: everything while they work, next to nothing while they are idle.

use std::time::Duration;

use quarry_bson::{Document, doc};
use quarry_wire::Compressor;

use crate::client::{Client, message};
use crate::server::{Server, wait_for};

/// What the message buffers of an idle connection may hold.
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
    let stalled: Vec<Client> = (0..11)
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
    let taken = wait_for(IDLE_TIME, || {
        (figure(&mut watcher, "largeRequestBytes") == 11 * 48_000_000).then_some(())
    });
    assert!(
        taken.is_some(),
        "{}",
        figure(&mut watcher, "largeRequestBytes")
    );
    let mut sender = Client::connect(server.port);
    let large = doc! { "ping": 1, "comment": ("x".repeat(15 << 20)) };
    let message = message(large.as_raw(), 0);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            sender.send(&message);
            sender.reply().document
        });
        assert!(
            wait_for(IDLE_TIME, || (figure(&mut watcher, "waiting") == 1)
                .then_some(()))
            .is_some()
        );
        assert_eq!(watcher.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
        drop(stalled);
        assert_eq!(sent.join().unwrap().get_f64("ok"), Some(1.0));
    });
    assert_eq!(figure(&mut watcher, "waiting"), 0);
}
