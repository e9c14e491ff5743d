//! The protocol over a socket: malformed bytes, the forms of a message, and the arguments that all commands take.

use std::io::Write;
use std::net::Shutdown;
use std::thread;

use quarry_bson::{Document, RawDocument, Value, doc};
use quarry_wire::Compressor;

use crate::client::{CHECKSUM_PRESENT, Client, EXHAUST_ALLOWED, MORE_TO_COME, message};
use crate::server::Server;

fn header(length: i32, op_code: i32) -> Vec<u8> {
    [length, 1, 0, op_code]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

#[test]
fn malformed_bytes_end_their_connection_and_nothing_else() {
    let server = Server::start(&[]);
    let mut bystander = Client::connect(server.port);
    bystander.run(&doc! { "ping": 1 });
    let ping = message(doc! { "ping": 1 }.as_raw(), 0);
    let mut cut = ping.clone();
    cut.truncate(ping.len() - 3);
    let mut bad_document = ping.clone();
    bad_document[21] = 0xff;
    let mut bad_checksum = message(doc! { "ping": 1 }.as_raw(), CHECKSUM_PRESENT);
    *bad_checksum.last_mut().unwrap() ^= 1;
    let mut bad_section = ping.clone();
    bad_section[20] = 9;
    let cases = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        header(-1, 2013),
        header(15, 2013),
        header(48_000_001, 2013),
        [header(20, 9999), vec![0; 4]].concat(),
        cut,
        bad_document,
        bad_checksum,
        bad_section,
    ];
    for (index, case) in cases.iter().enumerate() {
        let mut client = Client::connect(server.port);
        client.send(case);
        let _ = client.stream.shutdown(Shutdown::Write);
        assert!(client.is_closed(), "case {index}");
        assert_eq!(
            bystander.run(&doc! { "ping": 1 }).get_f64("ok"),
            Some(1.0),
            "case {index}"
        );
    }
    let logged = server.count_lines("malformed message", cases.len());
    assert_eq!(logged, cases.len());
}

#[test]
fn a_message_may_come_in_pieces_and_several_at_once() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let ping = message(doc! { "ping": 1 }.as_raw(), 0);
    for byte in &ping {
        client.send(&[*byte]);
    }
    client.reply();
    client.send(&[&ping[..], &ping, &ping[..20]].concat());
    client.send(&ping[20..]);
    for _ in 0..3 {
        assert_eq!(client.reply().document.get_f64("ok"), Some(1.0));
    }
    let large = doc! { "ping": 1, "comment": ("x".repeat(3_000_000)) };
    assert_eq!(client.run(&large).get_f64("ok"), Some(1.0));
}

#[test]
fn what_comes_behind_a_large_message_is_answered_in_order() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let large = doc! { "ping": 1, "comment": ("x".repeat(3_000_000)) };
    let mut bytes = message(large.as_raw(), 0);
    let names: Vec<String> = (0..4000).map(|number| format!("nothing{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let mut command = Document::new();
        command.append(name, "y".repeat(number % 37 * 29));
        bytes.extend(message(command.as_raw(), 0));
    }
    let mut sender = client.stream.try_clone().unwrap();
    let sent = thread::spawn(move || sender.write_all(&bytes).unwrap());
    assert_eq!(client.reply().document.get_f64("ok"), Some(1.0));
    for name in &names {
        let reply = client.reply().document;
        let refusal = reply.get_str("errmsg").unwrap();
        assert!(refusal.ends_with(&format!("'{name}'")), "{refusal}");
    }
    sent.join().unwrap();
}

#[test]
fn more_to_come_gets_no_reply_and_a_checksum_gets_a_checksum() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    client.send(&message(doc! { "buildInfo": 1 }.as_raw(), MORE_TO_COME));
    client.send(&message(
        doc! { "whatsmyuri": 1 }.as_raw(),
        CHECKSUM_PRESENT,
    ));
    let reply = client.reply();
    assert!(reply.document.get_str("you").is_some());
    assert!(reply.has_checksum);
}

#[test]
fn a_packed_message_is_answered_packed_the_same_way() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let hello = client.run(&doc! { "hello": 1, "compression": ["zlib", "lz4", "zstd", "snappy"] });
    let agreed: Vec<&str> = hello
        .get_array("compression")
        .unwrap()
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    assert_eq!(agreed, ["zlib", "zstd", "snappy"]);
    for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let mut packed = Vec::new();
        quarry_wire::compress(
            &message(doc! { "buildInfo": 1 }.as_raw(), 0),
            compressor,
            &mut packed,
        )
        .unwrap();
        client.send(&packed);
        let reply = client.reply();
        assert_eq!(reply.compressor, Some(compressor));
        assert!(
            reply
                .document
                .get_str("version")
                .is_some_and(|version| version.starts_with("8.0."))
        );
    }
}

#[test]
fn an_exhaust_hello_keeps_answering() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let hello = client.run(&doc! { "hello": 1 });
    let known = hello
        .get_document("topologyVersion")
        .unwrap()
        .to_owned_document();
    let streaming = doc! { "hello": 1, "topologyVersion": known, "maxAwaitTimeMS": 20 };
    client.send(&message(streaming.as_raw(), EXHAUST_ALLOWED));
    for _ in 0..3 {
        let reply = client.reply();
        assert!(reply.is_more_to_come);
        assert_eq!(reply.document.get_i32("maxWireVersion"), Some(25));
    }
}

#[test]
fn a_first_packet_may_be_a_legacy_query() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let query = doc! { "ismaster": 1, "helloOk": true };
    let mut bytes = header(0, 2004);
    bytes.extend_from_slice(&0i32.to_le_bytes());
    bytes.extend_from_slice(b"admin.$cmd\0");
    bytes.extend_from_slice(&0i32.to_le_bytes());
    bytes.extend_from_slice(&(-1i32).to_le_bytes());
    bytes.extend_from_slice(query.as_bytes());
    let length = i32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    client.send(&bytes);
    let reply = client.read_message().unwrap();
    assert_eq!(reply[12..16], 1i32.to_le_bytes());
    let document = RawDocument::validated(&reply[36..]).unwrap();
    assert_eq!(document.get_bool("ismaster"), Some(true));
    assert_eq!(document.get_bool("helloOk"), Some(true));
}

#[test]
fn what_is_not_understood_gets_mongodbs_code() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let cases = [
        (doc! { "noSuchCommand": 1 }, 59),
        (doc! { "ping": 1, "foo": 1 }, 40_415),
        (doc! { "ping": 1, "maxTimeMS": "long" }, 2),
        (doc! { "ping": 1, "maxTimeMS": (-5) }, 2),
        (doc! { "ping": 1, "txnNumber": 1i64 }, 20),
        (doc! { "ping": 1, "apiVersion": "2" }, 322),
        (
            doc! { "serverStatus": 1, "apiVersion": "1", "apiStrict": true },
            323,
        ),
        (doc! { "ping": 1, "readConcern": { "level": "local" } }, 72),
        (doc! { "ping": 1, "writeConcern": { "w": 1 } }, 72),
        (doc! { "ping": 1, "lsid": { "id": 5 } }, 14),
        (doc! { "getMore": 5i64, "collection": "c" }, 43),
        (doc! { "getMore": 5, "collection": "c" }, 14),
        (doc! { "getParameter": 1, "noSuch": 1 }, 72),
        (doc! { "getLog": "none" }, 96),
    ];
    for (command, code) in cases {
        let reply = client.run(&command);
        assert_eq!(
            (reply.get_f64("ok"), reply.get_i32("code")),
            (Some(0.0), Some(code)),
            "{command}: {reply}"
        );
        assert!(reply.get_str("codeName").is_some() && reply.get_str("errmsg").is_some());
    }
    let understood = doc! {
        "ping": 1, "comment": { "any": ["thing"] }, "apiVersion": "1", "maxTimeMS": 1000,
        "$readPreference": { "mode": "primary" }, "bypassEmptyTsReplacement": true, "recordStats": true,
        "lsid": { "id": (Value::binary(4, &[7; 16])) }
    };
    assert_eq!(client.run(&understood).get_f64("ok"), Some(1.0));
}

#[test]
fn the_deepest_filter_fits_the_stack_of_a_connection() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    // The outermost document and the arrays between count too: as deep as validation lets through.
    let mut filter = doc! { "active": true };
    for _ in 0..quarry_bson::DEPTH_MAX / 2 - 2 {
        filter = doc! { "$nor": [(filter)] };
    }
    let mut command = doc! { "currentOp": 1 };
    command.append_element(filter.first().unwrap());
    let reply: Document = client.run(&command);
    assert!(reply.get_f64("ok").is_some(), "{reply}");
    assert_eq!(client.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
}
