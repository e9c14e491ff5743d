//! The crowds: many clients that each stay within their own bounds, or hardly say anything.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use quarry_bson::doc;

use super::DATABASE;
use crate::message::op_msg;
use crate::raw_client::RawClient;

/// One crowd.
pub(super) struct Crowd {
    pub name: &'static str,
    /// The crowd in the words of the report.
    pub what: &'static str,
    /// The unit in which its doings are counted.
    pub unit: &'static str,
    /// Has it come and begin; the connections that it only holds are given back.
    pub gather: for<'scope, 'env> fn(&Meeting<'scope, 'env>) -> io::Result<Vec<TcpStream>>,
}

/// The place where a crowd comes together, and its end.
pub(super) struct Meeting<'scope, 'env> {
    pub scope: &'scope Scope<'scope, 'env>,
    /// The server's.
    pub port: u16,
    /// How many slow clients come.
    pub slow: u32,
    pub is_over: &'env AtomicBool,
    /// Counts what the crowd has done, or the connections that it has lost.
    pub done: &'env AtomicU64,
}

impl Meeting<'_, '_> {
    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) const CROWDS: [Crowd; 5] = [
    Crowd {
        name: "sorts",
        what: "50 clients that sort 40,000 documents of 1 KB each, one sort after the other",
        unit: "sorts",
        gather: sorts,
    },
    Crowd {
        name: "untaken replies",
        what: "150 clients that ask for 15 MB and take none of it",
        unit: "connections",
        gather: untaken_replies,
    },
    Crowd {
        name: "half messages",
        what: "100 clients that have sent as much as is taken of 40 MB, and say no more",
        unit: "connections",
        gather: half_messages,
    },
    Crowd {
        name: "large inserts",
        what: "200 clients that insert documents of 15 MB, one after the other",
        unit: "inserts",
        gather: large_inserts,
    },
    Crowd {
        name: "slow clients",
        what: "clients that send a byte of a message every ten seconds and come again when they are cut off",
        unit: "connections",
        gather: slow_clients,
    },
];

const LARGE_BYTES: usize = 15_000_000;

/// A message is announced to be as long.
const HALF_BYTES: u32 = 40_000_000;

/// A slow client's message, of which it sends a byte at a time.
const SLOW_BYTES: u32 = 4_000;

/// Who cannot connect tries again after it.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The time in which each slow client has its turn once.
const SLOW_ROUND: Duration = Duration::from_secs(10);

/// Slow clients whose turns fall together.
const SLOW_TOGETHER: usize = 10;

/// Inserts the documents that the crowds read.
pub(super) fn prepare(port: u16) -> io::Result<()> {
    let mut client = RawClient::connect(("127.0.0.1", port))?;
    for (collection, bytes) in [("small", 1000), ("large", LARGE_BYTES)] {
        let document = doc! { "_id": 1, "s": ("x".repeat(bytes)) };
        client.command(&doc! { "insert": collection, "documents": [document], "$db": DATABASE })?;
    }
    Ok(())
}

/// Clients that send one message again and again. A server that refuses them, or turns them away, is asked again.
fn again_and_again(meeting: &Meeting<'_, '_>, clients: usize, message: Vec<u8>) {
    let message: Arc<[u8]> = message.into();
    let (port, is_over, done) = (meeting.port, meeting.is_over, meeting.done);
    for _ in 0..clients {
        let message = Arc::clone(&message);
        meeting.scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let Ok(mut client) = RawClient::connect(("127.0.0.1", port)) else {
                    thread::sleep(CONNECT_PAUSE);
                    continue;
                };
                while !is_over.load(Ordering::Relaxed) {
                    match client.round_trip(&message) {
                        Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                        // The reply was an error: the connection stands.
                        Err(error) if error.kind() == ErrorKind::Other => continue,
                        Err(_) => break,
                    };
                }
            }
        });
    }
}

fn sorts(meeting: &Meeting<'_, '_>) -> io::Result<Vec<TcpStream>> {
    let pipeline = vec![
        doc! { "$project": { "s": 1, "n": { "$range": [0, 40_000] } } },
        doc! { "$unwind": "$n" },
        doc! { "$sort": { "n": -1 } },
        doc! { "$skip": 39_999 },
    ];
    let command =
        doc! { "aggregate": "small", "pipeline": pipeline, "cursor": {}, "$db": DATABASE };
    again_and_again(meeting, 50, op_msg(1, 0, &command));
    Ok(Vec::new())
}

fn large_inserts(meeting: &Meeting<'_, '_>) -> io::Result<Vec<TcpStream>> {
    let document = doc! { "s": ("x".repeat(LARGE_BYTES)) };
    let command = doc! { "insert": "many", "documents": [document], "$db": DATABASE };
    again_and_again(meeting, 200, op_msg(1, 0, &command));
    Ok(Vec::new())
}

fn untaken_replies(meeting: &Meeting<'_, '_>) -> io::Result<Vec<TcpStream>> {
    let message = op_msg(1, 0, &doc! { "find": "large", "$db": DATABASE });
    let mut held = Vec::new();
    for _ in 0..150 {
        let mut client = TcpStream::connect(("127.0.0.1", meeting.port))?;
        client.write_all(&message)?;
        held.push(client);
        meeting.count();
    }
    Ok(held)
}

fn half_messages(meeting: &Meeting<'_, '_>) -> io::Result<Vec<TcpStream>> {
    let mut message = header(HALF_BYTES);
    message.resize(HALF_BYTES as usize / 2, 0);
    let mut held = Vec::new();
    for _ in 0..100 {
        let mut client = TcpStream::connect(("127.0.0.1", meeting.port))?;
        client.set_nonblocking(true)?;
        match client.write(&message) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        held.push(client);
        meeting.count();
    }
    Ok(held)
}

/// The header of an OP_MSG of so many bytes.
fn header(bytes: u32) -> Vec<u8> {
    let words = [bytes, 1, 0, crate::message::OP_MSG as u32];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn slow_clients(meeting: &Meeting<'_, '_>) -> io::Result<Vec<TcpStream>> {
    let (port, is_over, done) = (meeting.port, meeting.is_over, meeting.done);
    let connect = move || {
        let mut client = TcpStream::connect(("127.0.0.1", port))?;
        client.write_all(&header(SLOW_BYTES)[..1])?;
        io::Result::Ok((client, 1))
    };
    let mut all = Vec::new();
    for _ in 0..meeting.slow {
        all.push(connect()?);
    }
    let turns = all.len().div_ceil(SLOW_TOGETHER).max(1);
    let pause = SLOW_ROUND / turns as u32;
    meeting.scope.spawn(move || {
        let header = header(SLOW_BYTES);
        while !is_over.load(Ordering::Relaxed) {
            for together in all.chunks_mut(SLOW_TOGETHER) {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                for (client, sent) in together {
                    let byte = header.get(*sent).copied().unwrap_or(0);
                    *sent += 1;
                    if client.write_all(&[byte]).is_err()
                        && let Ok(again) = connect()
                    {
                        (*client, *sent) = again;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                thread::sleep(pause);
            }
        }
    });
    Ok(Vec::new())
}
