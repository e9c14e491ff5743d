//! Connections to servers that step down, vanish and refuse, which a script plays.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use quarry_bson::{Document, ObjectId, doc};
use quarry_client::{Connection, ConnectionString, Error, Sequence};
use quarry_wire::{ReplyBuilder, Request};

/// Commands that the server got, but for hello.
type Seen = Arc<Mutex<Vec<Document>>>;

/// A server that answers each command as the script does; without an answer it closes the connection.
struct Played {
    uri: String,
    seen: Seen,
}

fn play(script: impl FnMut(&Document) -> Option<Document> + Send + 'static) -> Played {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("mongodb://{}/", listener.local_addr().unwrap());
    let seen = Seen::default();
    let (script, noted) = (Arc::new(Mutex::new(script)), Arc::clone(&seen));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (script, noted) = (Arc::clone(&script), Arc::clone(&noted));
            thread::spawn(move || answer(stream.unwrap(), &script, &noted));
        }
    });
    Played { uri, seen }
}

fn answer(
    mut stream: TcpStream,
    script: &Mutex<impl FnMut(&Document) -> Option<Document>>,
    seen: &Seen,
) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        message[..4].copy_from_slice(&length);
        stream.read_exact(&mut message[4..]).unwrap();
        let mut scratch = Vec::new();
        let (header, request) = quarry_wire::parse(&message, &mut scratch).unwrap();
        let Request::Msg(msg) = request else {
            panic!("no OP_MSG")
        };
        let command = msg.body.to_owned_document();
        if !command.contains("hello") {
            seen.lock().unwrap().push(command.clone());
        }
        let Some(reply) = script.lock().unwrap()(&command) else {
            return;
        };
        let mut out = Vec::new();
        let mut builder = ReplyBuilder::new(&mut out, 1, header.request_id);
        builder.body().extend_from_slice(reply.as_bytes());
        builder.finish();
        stream.write_all(&out).unwrap();
    }
}

fn hello(is_primary: bool) -> Document {
    doc! {
        "ok": 1, "isWritablePrimary": is_primary, "secondary": !is_primary, "setName": "rs0",
        "logicalSessionTimeoutMinutes": 30,
    }
}

fn settings(uri: &str) -> Arc<ConnectionString> {
    let mut settings = ConnectionString::parse(uri).unwrap();
    settings.reconnect_time = Duration::from_secs(20);
    Arc::new(settings)
}

fn open(played: &Played, options: &str) -> Connection {
    Connection::open(&settings(&format!("{}{options}", played.uri))).unwrap()
}

/// How often the server got the command.
fn count(played: &Played, name: &str) -> usize {
    let seen = played.seen.lock().unwrap();
    seen.iter().filter(|command| command.contains(name)).count()
}

#[test]
fn a_set_that_has_no_primary_for_a_while_is_waited_for() {
    let mut hellos = 0;
    let mut pings = 0;
    let played = play(move |command| {
        if command.contains("hello") {
            hellos += 1;
            // The first is of the connection that is lost; then there is no primary, and then one again.
            return Some(hello(!(2..5).contains(&hellos)));
        }
        pings += 1;
        (pings > 1).then(|| doc! { "ok": 1 })
    });
    let mut connection = open(&played, "");
    let error = Connection::open(&settings(&played.uri)).err().unwrap();
    assert!(matches!(error, Error::NoPrimary(_)) && error.is_transient());
    connection.read("admin", &doc! { "ping": 1 }).unwrap();
    assert_eq!(count(&played, "ping"), 2);
}

#[test]
fn a_login_that_meets_a_step_down_may_come_again() {
    for (code, is_transient) in [(189, true), (91, true), (18, false)] {
        let played = play(move |command| match command.contains("hello") {
            true => Some(hello(true)),
            false => Some(doc! { "ok": 0, "code": code, "errmsg": "no" }),
        });
        let uri = played.uri.replace("mongodb://", "mongodb://ada:secret@");
        let error = Connection::open(&settings(&uri)).err().unwrap();
        assert_eq!(error.is_transient(), is_transient, "{code}");
        assert_eq!(matches!(error, Error::Login(_)), !is_transient, "{code}");
    }
}

#[test]
fn a_definition_is_sent_once_more_with_the_write_concern() {
    let mut creates = 0;
    let played = play(move |command| {
        if command.contains("hello") {
            return Some(hello(true));
        }
        creates += i32::from(command.contains("create"));
        (creates > 1 || !command.contains("create")).then(|| doc! { "ok": 1 })
    });
    let mut connection = open(&played, "?w=majority");
    connection.define("db", &doc! { "create": "c" }).unwrap();
    let seen = played.seen.lock().unwrap();
    let concerns: Vec<_> = seen
        .iter()
        .filter(|command| command.contains("create"))
        .map(|command| command.get_path("writeConcern.w").and_then(|w| w.as_str()))
        .collect();
    assert_eq!(concerns, [Some("majority"); 2]);
}

#[test]
fn a_connection_that_was_lost_is_made_anew_by_the_next_command() {
    let mut pings = 0;
    let played = play(move |command| {
        if command.contains("hello") {
            return Some(hello(true));
        }
        pings += 1;
        (pings > 1).then(|| doc! { "ok": 1 })
    });
    let mut connection = open(&played, "");
    let ping = doc! { "ping": 1 };
    assert!(connection.run("admin", &ping).unwrap_err().is_transient());
    connection.run("admin", &ping).unwrap();
}

#[test]
fn a_write_concern_that_is_not_reached_is_an_error() {
    let played = play(|command| match command.contains("hello") {
        true => Some(hello(true)),
        false => {
            Some(doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64, "errmsg": "waited" } })
        }
    });
    let mut connection = open(&played, "");
    let error = connection.define("db", &doc! { "drop": "c" }).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Some(64), "waited")
    );
}

#[test]
fn a_server_that_cannot_keep_empty_timestamps_gets_the_write_without() {
    const FIELD: &str = "bypassEmptyTsReplacement";
    let played = play(|command| {
        if command.contains("hello") {
            return Some(hello(true));
        }
        let refusal = format!("BSON field 'insert.{FIELD}' is an unknown field.");
        match command.contains(FIELD) {
            true => Some(doc! { "ok": 0, "code": 40_415, "errmsg": (refusal.as_str()) }),
            false => Some(doc! { "ok": 1, "n": 1 }),
        }
    });
    let mut connection = open(&played, "");
    connection.keep_empty_timestamps();
    let document = doc! { "_id": 1 };
    let documents = Sequence {
        identifier: "documents",
        documents: document.as_bytes(),
    };
    for _ in 0..2 {
        connection
            .write("db", &doc! { "insert": "c" }, documents, true)
            .unwrap();
    }
    assert_eq!((count(&played, "insert"), count(&played, FIELD)), (3, 1));
}

#[test]
fn connections_to_one_server_are_known_as_such() {
    let of_process = |process: ObjectId| {
        play(move |_| {
            let mut hello = doc! { "ok": 1, "isWritablePrimary": true };
            hello.append(
                "topologyVersion",
                doc! { "processId": process, "counter": 0i64 },
            );
            Some(hello)
        })
    };
    let process = ObjectId::generate();
    let (one, same) = (of_process(process), of_process(process));
    let other = of_process(ObjectId::generate());
    assert!(open(&one, "").is_of_the_same_server(&open(&same, "")));
    assert!(!open(&one, "").is_of_the_same_server(&open(&other, "")));
}

#[test]
fn a_secondary_is_taken_where_a_primary_is_preferred_and_there_is_none() {
    let secondary = play(|_| Some(hello(false)));
    let primary = play(|_| Some(hello(true)));
    let both = format!(
        "{},{}/?readPreference=primaryPreferred",
        secondary.uri.trim_end_matches('/'),
        primary
            .uri
            .trim_start_matches("mongodb://")
            .trim_end_matches('/')
    );
    let shown = |connection: Connection| format!("mongodb://{}/", connection.address());
    assert_eq!(
        shown(Connection::open(&settings(&both)).unwrap()),
        primary.uri
    );
    let alone = open(&secondary, "?readPreference=primaryPreferred");
    assert_eq!(shown(alone), secondary.uri);
}
