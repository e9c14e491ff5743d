//! The protocol over a socket: malformed bytes, the forms of a message, and the arguments that all commands take.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use quarry_bson::{Document, RawDocument, RawStr, RawValue, Value, doc};
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
    let mut bad_flags = ping.clone();
    bad_flags[16] = 4;
    let mut bad_checksum = message(doc! { "ping": 1 }.as_raw(), CHECKSUM_PRESENT);
    *bad_checksum.last_mut().unwrap() ^= 1;
    let cases = [
        header(-1, 2013),
        header(15, 2013),
        header(48_000_001, 2013),
        [header(20, 9999), vec![0; 4]].concat(),
        cut,
        bad_flags,
        bad_checksum,
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
fn a_browser_gets_a_line_and_the_end_of_its_connection() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    let mut answer = String::new();
    client.stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1."), "{answer}");
    assert!(answer.contains("MongoDB"), "{answer}");
    assert_eq!(server.count_lines("connection ended", 1), 1);
}

#[test]
fn a_message_whose_content_cannot_be_read_is_answered_and_its_connection_goes_on() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let ping = message(doc! { "ping": 1 }.as_raw(), 0);
    let damaged = |at: usize, byte: u8| {
        let mut bytes = ping.clone();
        bytes[at] = byte;
        bytes
    };
    let too_deep = message(nested(201).as_raw(), 0);
    let cases = [
        ("the length of the body", damaged(21, 0xff), 16),
        ("the type of its first element", damaged(25, 0x77), 22),
        ("the kind of the section", damaged(20, 9), 17),
        ("depth", too_deep, 15),
    ];
    for (what, bytes, code) in cases {
        client.send(&bytes);
        let reply = client.reply().document;
        assert_eq!(
            (reply.get_f64("ok"), reply.get_i32("code")),
            (Some(0.0), Some(code)),
            "{what}: {reply}"
        );
        // Nobody waits for an answer to this one.
        let mut unasked = bytes;
        unasked[16] = MORE_TO_COME as u8;
        client.send(&unasked);
        assert_eq!(
            client.run(&doc! { "ping": 1 }).get_f64("ok"),
            Some(1.0),
            "{what}"
        );
    }
}

/// This many documents within each other, the outermost counted.
fn nested(levels: usize) -> Document {
    (1..levels).fold(Document::new(), |inner, _| doc! { "x": inner })
}

#[test]
fn a_document_that_nests_too_deep_is_refused_alone() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let document = |id: i32, levels: usize| {
        let mut document = doc! { "_id": id };
        for element in nested(levels).as_raw() {
            document.append_element(element);
        }
        document
    };
    let insert = doc! {
        "insert": "deep", "ordered": false,
        "documents": [(document(1, 2)), (document(2, 181)), (document(3, 180)), (document(4, 2))]
    };
    let reply = client.run(&insert);
    assert_eq!(reply.get_i32("n"), Some(3), "{reply}");
    let refused = |reply: &Document| {
        let error = reply
            .get_path("writeErrors.0")
            .and_then(|error| error.as_document());
        error.map(|error| (error.get_i32("index"), error.get_i32("code")))
    };
    assert_eq!(refused(&reply), Some((Some(1), Some(15))), "{reply}");
    // A replacement is a document to be stored as well, and so is what an upsert makes of its filter.
    let replace = |levels: usize| {
        doc! {
            "update": "deep", "updates": [
                { "q": { "_id": 1 }, "u": (nested(levels)) },
                { "q": { "_id": 9, "x": (nested(levels - 1)) }, "u": { "$set": { "y": 1 } }, "upsert": true }
            ], "ordered": false
        }
    };
    let reply = client.run(&replace(180));
    assert_eq!(reply.get_i32("n"), Some(2), "{reply}");
    let reply = client.run(&replace(181));
    assert_eq!(refused(&reply), Some((Some(0), Some(15))), "{reply}");
    let reply = client.run(&doc! { "find": "deep", "filter": { "_id": 3 } });
    let found = reply
        .get_path("cursor.firstBatch.0")
        .and_then(|found| found.as_document());
    assert_eq!(
        found.map(|found| found.as_bytes().to_vec()),
        Some(document(3, 180).into_bytes())
    );
    let validated = client.run(&doc! { "validate": "deep", "full": true });
    assert_eq!(validated.get_bool("valid"), Some(true), "{validated}");
}

#[test]
fn text_that_is_not_utf8_is_stored_found_sorted_and_indexed() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let text = |bytes: &'static [u8]| RawValue::String(RawStr::from_bytes(bytes));
    let document = |id: i32, bytes: &'static [u8]| {
        let mut document = doc! { "_id": id };
        document.append("a", text(bytes));
        let mut out = document.into_bytes();
        // A name of two bytes that are no UTF-8 either.
        let end = out.len() - 1;
        out.splice(end..end, *b"\x10\xfe\xff\0\x01\0\0\0");
        let length = u32::try_from(out.len()).unwrap();
        out[..4].copy_from_slice(&length.to_le_bytes());
        Document::from_bytes_any_text(out).unwrap()
    };
    let documents = [
        document(1, b"plain"),
        document(2, b"\xff\xfe"),
        document(3, b"pl\x80n"),
    ];
    let [first, second, third] = documents.clone();
    let insert = doc! { "insert": "bytes", "documents": [(first), (second), (third)] };
    assert_eq!(client.run(&insert).get_i32("n"), Some(3));
    let index = doc! { "createIndexes": "bytes", "indexes": [{ "key": { "a": 1 }, "name": "a" }] };
    assert_eq!(client.run(&index).get_f64("ok"), Some(1.0));
    let found = |client: &mut Client, command: Document| -> Vec<Vec<u8>> {
        let reply = client.run(&command);
        let batch = reply
            .get_path("cursor.firstBatch")
            .and_then(|batch| batch.as_array());
        let batch = batch.unwrap_or_else(|| panic!("{reply}"));
        batch
            .iter()
            .map(|found| found.as_document().unwrap().as_bytes().to_vec())
            .collect()
    };
    let bytes = |positions: &[usize]| -> Vec<Vec<u8>> {
        positions
            .iter()
            .map(|&at| documents[at].as_bytes().to_vec())
            .collect()
    };
    let mut equal = Document::new();
    equal.append("a", text(b"\xff\xfe"));
    for hint in ["a", "_id_"] {
        let find = doc! { "find": "bytes", "filter": (equal.clone()), "hint": hint };
        assert_eq!(found(&mut client, find), bytes(&[1]), "{hint}");
    }
    let sorted = doc! { "find": "bytes", "sort": { "a": 1 } };
    assert_eq!(found(&mut client, sorted), bytes(&[0, 2, 1]));
    let in_memory = doc! { "find": "bytes", "sort": { "a": -1 }, "hint": "_id_" };
    assert_eq!(found(&mut client, in_memory), bytes(&[1, 2, 0]));
    // A key is decoded for a covered plan.
    let covered = doc! { "find": "bytes", "filter": { "a": { "$gt": "q" } }, "projection": { "_id": 0, "a": 1 }, "hint": "a" };
    let mut expected = Document::new();
    expected.append("a", text(b"\xff\xfe"));
    assert_eq!(found(&mut client, covered), [expected.into_bytes()]);
    // Whatever looks into text gets an answer, if only an error.
    let mut named = Document::new();
    named.append_element(documents[0].iter().last().unwrap());
    let asked = [
        doc! { "find": "bytes", "filter": { "a": { "$regex": "^pl" } } },
        doc! { "find": "bytes", "filter": (named) },
        doc! { "find": "bytes", "filter": { "$expr": { "$eq": [{ "$toUpper": "$a" }, "PLAIN"] } } },
        doc! { "aggregate": "bytes", "cursor": {}, "pipeline": [{ "$group": { "_id": "$a" } }] },
        doc! { "aggregate": "bytes", "cursor": {}, "pipeline": [{ "$project": { "b": { "$concat": ["$a", "x"] } } }] },
        doc! { "aggregate": "bytes", "cursor": {}, "pipeline": [{ "$project": { "b": { "$strLenCP": "$a" } } }] },
        doc! { "distinct": "bytes", "key": "a" },
        doc! { "explain": { "find": "bytes", "filter": (equal.clone()) } },
        doc! { "findAndModify": "bytes", "query": (equal.clone()), "update": { "$set": { "b": 1 } }, "new": true },
        doc! { "update": "bytes", "updates": [{ "q": (equal.clone()), "u": { "$push": { "c": "x" } } }] },
        doc! { "listIndexes": "bytes" },
        doc! { "currentOp": 1, "$all": true },
    ];
    for command in asked {
        let reply = client.run(&command);
        assert!(reply.get_f64("ok").is_some(), "{command}: {reply}");
    }
    // Where a name has to be text, it is refused.
    for command in ["find", "drop", "createIndexes", "count", "noSuchCommand"] {
        let mut bad = Document::new();
        bad.append(command, text(b"\xff"));
        let reply = client.run(&bad);
        assert_eq!(reply.get_f64("ok"), Some(0.0), "{command}: {reply}");
    }
    let validated = client.run(&doc! { "validate": "bytes", "full": true });
    assert_eq!(validated.get_bool("valid"), Some(true), "{validated}");
    assert_eq!(server.lines_with("panic"), Vec::<String>::new());
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
        (doc! { "ping": 1, "txnNumber": 1i64 }, 72),
        (doc! { "ping": 1, "apiVersion": "2" }, 322),
        (doc! { "ping": 1, "apiStrict": true }, 4_886_600),
        (
            doc! { "serverStatus": 1, "apiVersion": "1", "apiStrict": true },
            323,
        ),
        (
            doc! { "ping": 1, "readConcern": { "level": "majority" } },
            72,
        ),
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
    for operator in ["$and", "$nor", "$or"] {
        let mut filter = doc! { "active": true };
        for _ in 0..quarry_bson::DEPTH_MAX / 2 - 2 {
            filter = Document::build(|outer| {
                let mut list = outer.array(operator);
                list.push(&filter);
                list.finish();
            });
        }
        let mut command = doc! { "currentOp": 1 };
        command.append_element(filter.first().unwrap());
        let reply: Document = client.run(&command);
        assert_eq!(reply.get_f64("ok"), Some(1.0), "{operator}: {reply}");
        let reply = client.run(&doc! { "find": "c", "filter": (filter) });
        assert_eq!(reply.get_f64("ok"), Some(1.0), "{operator}: {reply}");
    }
    assert_eq!(client.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
}
