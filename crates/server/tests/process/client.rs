//! A client that sends exactly the bytes it is told to.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quarry_bson::{Document, DocumentBuilder, RawDocument};
use quarry_wire::{Compressor, ReplyBuilder, Request};

const READ_TIME: Duration = Duration::from_secs(10);

/// Flags of OP_MSG.
pub const CHECKSUM_PRESENT: u32 = 1;
pub const MORE_TO_COME: u32 = 1 << 1;
pub const EXHAUST_ALLOWED: u32 = 1 << 16;

pub struct Client {
    pub stream: TcpStream,
}

/// One reply message.
pub struct Reply {
    pub document: Document,
    pub has_checksum: bool,
    pub is_more_to_come: bool,
    pub compressor: Option<Compressor>,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(READ_TIME)).unwrap();
        Client { stream }
    }

    /// None where the server does not take the connection.
    pub fn try_connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(READ_TIME)).ok()?;
        Some(Client { stream })
    }

    /// None where the server has closed the connection.
    pub fn try_run(&mut self, command: &Document) -> Option<Document> {
        self.stream.write_all(&message(command.as_raw(), 0)).ok()?;
        let bytes = self.read_message()?;
        let mut scratch = Vec::new();
        let (_, request) = quarry_wire::parse(&bytes, &mut scratch).ok()?;
        let Request::Msg(msg) = request else {
            return None;
        };
        Some(msg.body.to_owned_document())
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a command to `admin` and returns its reply.
    pub fn run(&mut self, command: &Document) -> Document {
        self.send(&message(command.as_raw(), 0));
        self.reply().document
    }

    pub fn reply(&mut self) -> Reply {
        let bytes = self.read_message().expect("a reply");
        let mut scratch = Vec::new();
        let (_, request) = quarry_wire::parse(&bytes, &mut scratch).unwrap();
        let Request::Msg(msg) = request else {
            panic!("the reply is no OP_MSG")
        };
        Reply {
            document: msg.body.to_owned_document(),
            has_checksum: msg.has_checksum(),
            is_more_to_come: msg.is_more_to_come(),
            compressor: msg.compressor,
        }
    }

    /// One whole message, or none at the end of the stream.
    pub fn read_message(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 4];
        self.stream.read_exact(&mut bytes).ok()?;
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        bytes.resize(length, 0);
        self.stream.read_exact(&mut bytes[4..]).unwrap();
        Some(bytes)
    }

    /// Whether the server has closed the connection without another byte.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

/// An OP_MSG with a command for `admin`.
pub fn message(command: RawDocument<'_>, flags: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut framed = ReplyBuilder::new(&mut bytes, 7, 0);
    let mut body = DocumentBuilder::new(framed.body());
    for element in command {
        body.append_element(element);
    }
    body.append("$db", "admin");
    body.finish();
    if flags & CHECKSUM_PRESENT != 0 {
        framed.set_checksum();
    }
    framed.finish();
    if flags & CHECKSUM_PRESENT == 0 {
        bytes[16..20].copy_from_slice(&flags.to_le_bytes());
    }
    bytes
}
