//! A connection to a running server, as a client: one command, one reply.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quarry_bson::{Document, DocumentBuilder};
use quarry_wire::{HEADER_BYTES, Header, ReplyBuilder, Request};

/// How long `quarry top` waits for a picture.
pub const REPLY_TIME_MAX: Duration = Duration::from_secs(10);

pub struct Link {
    stream: TcpStream,
    request_id: i32,
}

impl Link {
    /// A server that says nothing for `reply_time_max` is taken for gone.
    pub fn open(host: &str, port: u16, reply_time_max: Duration) -> io::Result<Link> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_read_timeout(Some(reply_time_max))?;
        stream.set_nodelay(true)?;
        Ok(Link {
            stream,
            request_id: 0,
        })
    }

    /// Runs a command on `admin`; an error reply is an error.
    pub fn run(&mut self, command: &Document) -> io::Result<Document> {
        self.run_on("admin", command)
    }

    /// Like `run`, on another database.
    pub fn run_on(&mut self, database: &str, command: &Document) -> io::Result<Document> {
        self.request_id += 1;
        self.stream
            .write_all(&message(command, database, self.request_id))?;
        let reply = self.reply()?;
        if reply.get_f64("ok") == Some(1.0) {
            return Ok(reply);
        }
        let message = reply.get_str("errmsg").unwrap_or("the server refused");
        Err(io::Error::other(message.to_owned()))
    }

    fn reply(&mut self) -> io::Result<Document> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes)?;
        let header = bytes.first_chunk().map(Header::parse);
        let Some(Ok(header)) = header else {
            return Err(io::Error::other("the reply is no message"));
        };
        bytes.resize(header.message_bytes, 0);
        self.stream.read_exact(&mut bytes[HEADER_BYTES..])?;
        let mut scratch = Vec::new();
        match quarry_wire::parse(&bytes, &mut scratch) {
            Ok((_, Request::Msg(msg))) => Ok(msg.body.to_owned_document()),
            Ok(_) => Err(io::Error::other("the reply is no OP_MSG")),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}

fn message(command: &Document, database: &str, request_id: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = ReplyBuilder::new(&mut bytes, request_id, 0);
    let mut body = DocumentBuilder::new(message.body());
    for element in command {
        body.append_element(element);
    }
    body.append("$db", database);
    body.finish();
    message.finish();
    bytes
}
