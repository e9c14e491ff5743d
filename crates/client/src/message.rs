//! Requests as bytes, and replies off a socket.

use std::io::{self, Read};

use quarry_bson::{Document, DocumentBuilder, FRAME_BYTES};
use quarry_wire::{
    Compressor, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, ReplyBuilder, Request, compress,
};

use crate::{Error, Result, Sequence};

const SECTION_SEQUENCE: u8 = 1;
/// Room for the header, the flags and what stands before a sequence.
const FRAMING_BYTES: usize = 512;

/// Writes an OP_MSG into `out`: the command, the fields that every command carries, and the documents beside it.
pub fn write(
    out: &mut Vec<u8>,
    request_id: i32,
    command: &Document,
    carried: &Document,
    sequence: Option<&Sequence<'_>>,
) -> Result<()> {
    let beside = sequence.map_or(0, |sequence| sequence.documents.len());
    if command.len_bytes() + carried.len_bytes() + beside + FRAMING_BYTES > MESSAGE_BYTES_MAX {
        return Err(Error::Protocol(format!(
            "a command of more than {MESSAGE_BYTES_MAX} bytes"
        )));
    }
    out.clear();
    let mut message = ReplyBuilder::new(out, request_id, 0);
    let mut body = DocumentBuilder::new(message.body());
    for element in command.iter().chain(carried) {
        body.append_element(element);
    }
    body.finish();
    if let Some(sequence) = sequence {
        let out = message.body();
        out.push(SECTION_SEQUENCE);
        let bytes = 4 + sequence.identifier.len() + 1 + sequence.documents.len();
        // Far below 48 MB, as was looked at above.
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        out.extend_from_slice(sequence.identifier.as_bytes());
        out.push(0);
        out.extend_from_slice(sequence.documents);
    }
    message.finish();
    Ok(())
}

/// Packs a message.
pub fn pack(message: &[u8], compressor: Compressor, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    compress(message, compressor, out).map_err(|error| Error::Protocol(error.to_string()))
}

fn cut_off(why: io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::UnexpectedEof => Error::Lost(io::Error::other("the server has closed it")),
        _ => Error::Lost(why),
    }
}

/// Reads one message, and gives the document of the reply that it is.
pub fn read(stream: &mut impl Read, request_id: i32, bytes: &mut Vec<u8>) -> Result<Document> {
    bytes.resize(HEADER_BYTES, 0);
    stream.read_exact(bytes).map_err(cut_off)?;
    let header = bytes.first_chunk().map(Header::parse);
    let Some(Ok(header)) = header else {
        return Err(Error::Protocol(
            "the server's reply is no message".to_owned(),
        ));
    };
    if header.message_bytes < HEADER_BYTES + FRAME_BYTES || header.response_to != request_id {
        return Err(Error::Protocol(
            "the server's message is not the reply to the command".to_owned(),
        ));
    }
    bytes.resize(header.message_bytes, 0);
    stream
        .read_exact(&mut bytes[HEADER_BYTES..])
        .map_err(cut_off)?;
    let mut scratch = Vec::new();
    match quarry_wire::parse(bytes, &mut scratch) {
        Ok((_, Request::Msg(msg))) => Ok(msg.body.to_owned_document()),
        Ok(_) => Err(Error::Protocol(
            "the server's reply is no OP_MSG".to_owned(),
        )),
        Err(error) => Err(Error::Protocol(format!("the server's reply: {error}"))),
    }
}
