//! The canned-reply server: accepts connections and answers every message with a fixed valid reply.
//!
//! What a client measures against it is the cost of the client, the kernel and the loopback alone. It stores
//! nothing and checks nothing: an insert of three answers `{n: 3}` only as far as the sections can be counted
//! without looking into documents, and a find answers as many stock documents as its limit asks for.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use quarry_bson::{Document, RawDocument, Value, doc};

use crate::documents;
use crate::message::{
    HEADER_BYTES, MORE_TO_COME, OP_MSG, OP_QUERY, op_code, op_msg, op_msg_body, op_reply,
    read_message, request_id, set_response_to,
};

/// The most stock documents in one reply.
const DOCUMENTS_MAX: i64 = 1000;

/// Starts on a free port and returns it; the threads end with the process.
pub fn spawn() -> io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    thread::Builder::new()
        .name("canned-accept".into())
        .spawn(move || serve(&listener))?;
    Ok(port)
}

/// Serves until the process ends.
pub fn serve(listener: &TcpListener) {
    for socket in listener.incoming() {
        let Ok(socket) = socket else { continue };
        let spawned = thread::Builder::new().name("canned".into()).spawn(move || {
            if let Err(error) = converse(socket) {
                eprintln!("canned: {error}");
            }
        });
        if let Err(error) = spawned {
            eprintln!("canned: no thread for a connection: {error}");
        }
    }
}

/// Which fixed reply a message gets. Built once for each connection, then only the id is patched in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Hello,
    Documents { complex: bool, count: i64 },
    Written { count: i64 },
    FindAndModify,
    Count,
    Plain,
}

fn converse(mut socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut message = Vec::new();
    let mut replies: HashMap<Kind, Vec<u8>> = HashMap::new();
    while read_message(&mut socket, &mut message)? {
        let request = request_id(&message);
        if op_code(&message) == OP_QUERY {
            socket.write_all(&op_reply(request, &hello()))?;
            continue;
        }
        if op_code(&message) != OP_MSG {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("op code {}", op_code(&message)),
            ));
        }
        let (flags, body) = op_msg_body(&message)?;
        if flags & MORE_TO_COME != 0 {
            continue;
        }
        let kind = kind(body, &message);
        let reply = replies
            .entry(kind)
            .or_insert_with(|| op_msg(0, 0, &reply_body(kind)));
        set_response_to(reply, request);
        socket.write_all(reply)?;
    }
    Ok(())
}

fn kind(body: RawDocument<'_>, message: &[u8]) -> Kind {
    let Some(command) = body.first() else {
        return Kind::Plain;
    };
    let target = command.value();
    let complex = target.as_str().is_some_and(|name| name.contains("complex"));
    match command.name().as_bytes() {
        b"hello" | b"isMaster" | b"ismaster" => Kind::Hello,
        b"find" | b"aggregate" => {
            let limit = body
                .get("limit")
                .and_then(|value| value.as_i64_exact())
                .unwrap_or(1);
            Kind::Documents {
                complex,
                count: limit.clamp(1, DOCUMENTS_MAX),
            }
        }
        b"insert" => Kind::Written {
            count: sequence_len(body, message),
        },
        b"update" | b"delete" => Kind::Written { count: 1 },
        b"findAndModify" => Kind::FindAndModify,
        b"count" => Kind::Count,
        _ => Kind::Plain,
    }
}

/// How many documents follow the body as a section of kind 1: their lengths are hopped over, nothing else.
fn sequence_len(body: RawDocument<'_>, message: &[u8]) -> i64 {
    let mut offset = HEADER_BYTES + 5 + body.as_bytes().len();
    if message.get(offset) != Some(&1) {
        return body
            .get("documents")
            .and_then(|value| value.as_array())
            .map_or(1, |array| array.len() as i64);
    }
    offset += 5;
    let Some(name_bytes) = message
        .get(offset..)
        .and_then(|rest| rest.iter().position(|&byte| byte == 0))
    else {
        return 1;
    };
    offset += name_bytes + 1;
    let mut count = 0;
    while let Some(length) = message.get(offset..offset + 4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        offset += length.max(5);
        count += 1;
    }
    count
}

fn reply_body(kind: Kind) -> Document {
    match kind {
        Kind::Hello => hello(),
        Kind::Documents { complex, count } => {
            let stock = |seq: i64| -> Value {
                let document = if complex {
                    documents::complex(seq as u64)
                } else {
                    documents::simple("bench", seq as u64)
                };
                document.into()
            };
            let batch: Vec<Value> = (0..count).map(stock).collect();
            doc! { "cursor": { "firstBatch": (batch), "id": 0_i64, "ns": "bench.canned" }, "ok": 1.0 }
        }
        Kind::Written { count } => {
            doc! { "n": (count as i32), "nModified": (count as i32), "ok": 1.0 }
        }
        Kind::FindAndModify => doc! {
            "lastErrorObject": { "n": 1, "updatedExisting": true },
            "value": (documents::simple("bench", 1)),
            "ok": 1.0
        },
        Kind::Count => doc! { "n": 1, "ok": 1.0 },
        Kind::Plain => doc! { "ok": 1.0 },
    }
}

fn hello() -> Document {
    doc! {
        "helloOk": true, "ismaster": true, "isWritablePrimary": true,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
        "logicalSessionTimeoutMinutes": 30, "connectionId": 1,
        "minWireVersion": 0, "maxWireVersion": 25, "readOnly": false, "ok": 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_client::RawClient;

    #[test]
    fn a_client_gets_a_valid_reply_to_everything() {
        let port = spawn().unwrap();
        let mut client = RawClient::connect(("127.0.0.1", port)).unwrap();
        client
            .command(&doc! { "hello": 1, "$db": "admin" })
            .unwrap();
        client
            .command(
                &doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }], "$db": "bench" },
            )
            .unwrap();
        assert_eq!(client.reply().get("n").unwrap().as_i32(), Some(2));
        client
            .command(&doc! { "find": "complex", "limit": 100, "$db": "bench" })
            .unwrap();
        let batch = client
            .reply()
            .get_path("cursor.firstBatch")
            .unwrap()
            .as_array()
            .unwrap();
        assert_eq!(batch.len(), 100);
        assert!(
            batch
                .get(7)
                .unwrap()
                .as_document()
                .unwrap()
                .get("bn")
                .is_some()
        );
    }
}
