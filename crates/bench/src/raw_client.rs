//! The bench's own client: one blocking socket, commands as bytes, replies left as bytes.
//!
//! It shows what a server can give when the client costs next to nothing.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};

use quarry_bson::{Document, RawDocument, Value, doc};

use crate::message::{op_msg, op_msg_body, read_reply, round_trip};

/// Documents that are inserted together, where many are.
const BATCH: usize = 1000;

/// One connection.
pub struct RawClient {
    socket: TcpStream,
    reply: Vec<u8>,
}

impl RawClient {
    /// Opens one connection.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<RawClient> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(RawClient {
            socket,
            reply: Vec::new(),
        })
    }

    /// Sends one command and waits for its reply; anything but `{ok: 1}` without write errors is an error.
    pub fn command(&mut self, body: &Document) -> io::Result<()> {
        round_trip(&mut self.socket, &op_msg(1, 0, body), &mut self.reply)
    }

    /// Inserts documents in batches of a thousand.
    pub fn insert_all(
        &mut self,
        database: &str,
        collection: &str,
        documents: impl IntoIterator<Item = Document>,
    ) -> io::Result<()> {
        let mut documents = documents.into_iter();
        loop {
            let batch: Vec<Value> = documents.by_ref().take(BATCH).map(Value::from).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.command(
                &doc! { "insert": collection, "documents": batch, "ordered": false, "$db": database },
            )?;
        }
    }

    /// The port of the client's end, which tells connections apart.
    pub fn local_port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Sends one command, whose reply is left to `receive`.
    pub fn send(&mut self, body: &Document) -> io::Result<()> {
        self.socket.write_all(&op_msg(1, 0, body))
    }

    /// Waits for the reply to the command that was sent.
    pub fn receive(&mut self) -> io::Result<()> {
        read_reply(&mut self.socket, &mut self.reply)
    }

    /// Like `command`, for a message that is made already.
    pub fn round_trip(&mut self, message: &[u8]) -> io::Result<()> {
        round_trip(&mut self.socket, message, &mut self.reply)
    }

    /// The body of the last reply.
    pub fn reply(&self) -> RawDocument<'_> {
        op_msg_body(&self.reply).map_or(RawDocument::EMPTY, |(_, body)| body)
    }
}
