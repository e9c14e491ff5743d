//! The little of the wire protocol that a bench needs: whole messages over a blocking socket.
//!
//! Deliberately not the server's own codec, so that a fault there cannot hide behind the same fault here.

use std::io::{self, Read, Write};

use quarry_bson::{Document, RawDocument};

/// The length of a message's header.
pub const HEADER_BYTES: usize = 16;
/// The number of OP_REPLY.
pub const OP_REPLY: i32 = 1;
/// The number of OP_QUERY.
pub const OP_QUERY: i32 = 2004;
/// The number of OP_MSG.
pub const OP_MSG: i32 = 2013;

/// The flag of an OP_MSG that wants no reply.
pub const MORE_TO_COME: u32 = 1 << 1;

/// The largest message read, a little over the protocol's 48,000,000.
const MESSAGE_BYTES_MAX: usize = 48_016_384;

/// The offset of the body in an OP_MSG whose first section is of kind 0: header, flags, kind.
const BODY_OFFSET: usize = HEADER_BYTES + 4 + 1;

/// Reads one whole message into `message`; false at a clean end of the stream.
pub fn read_message(socket: &mut impl Read, message: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    let total = u32::from_le_bytes(length) as usize;
    if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&total) {
        return Err(invalid(format!("a message of {total} bytes")));
    }
    message.resize(total, 0);
    message[..4].copy_from_slice(&length);
    socket.read_exact(&mut message[4..])?;
    Ok(true)
}

/// The request id, or in a reply the id of the reply itself.
pub fn request_id(message: &[u8]) -> i32 {
    read_i32(message, 4)
}

/// The number of a message's operation.
pub fn op_code(message: &[u8]) -> i32 {
    read_i32(message, 12)
}

/// The body of an OP_MSG whose first section is of kind 0, which is what every driver sends.
pub fn op_msg_body(message: &[u8]) -> io::Result<(u32, RawDocument<'_>)> {
    if message.len() < BODY_OFFSET || message[BODY_OFFSET - 1] != 0 {
        return Err(invalid(
            "an OP_MSG that does not begin with its body".into(),
        ));
    }
    let flags = read_i32(message, HEADER_BYTES) as u32;
    let rest = &message[BODY_OFFSET..];
    if rest.len() < 5 {
        return Err(invalid("an OP_MSG without a body".into()));
    }
    let length = read_i32(rest, 0) as usize;
    let Some(body) = rest.get(..length) else {
        return Err(invalid(format!(
            "a body of {length} bytes in {}",
            rest.len()
        )));
    };
    let body = RawDocument::new(body).map_err(|error| invalid(error.to_string()))?;
    Ok((flags, body))
}

/// An OP_MSG with a body alone.
pub fn op_msg(request_id: i32, response_to: i32, body: &Document) -> Vec<u8> {
    let body = body.as_bytes();
    let mut message = header(BODY_OFFSET + body.len(), request_id, response_to, OP_MSG);
    message.extend_from_slice(&0_u32.to_le_bytes());
    message.push(0);
    message.extend_from_slice(body);
    message
}

/// An OP_MSG with a body and one document sequence beside it, as drivers send inserts, updates and deletes.
pub fn op_msg_with_documents(
    request_id: i32,
    body: &Document,
    identifier: &str,
    documents: &[Document],
) -> Vec<u8> {
    let bytes: usize = documents
        .iter()
        .map(|document| document.as_bytes().len())
        .sum();
    let section = 4 + identifier.len() + 1 + bytes;
    let total = BODY_OFFSET + body.as_bytes().len() + 1 + section;
    let mut message = header(total, request_id, 0, OP_MSG);
    message.extend_from_slice(&0_u32.to_le_bytes());
    message.push(0);
    message.extend_from_slice(body.as_bytes());
    message.push(1);
    message.extend_from_slice(&(section as u32).to_le_bytes());
    message.extend_from_slice(identifier.as_bytes());
    message.push(0);
    for document in documents {
        message.extend_from_slice(document.as_bytes());
    }
    message
}

/// The reply to the legacy OP_QUERY that opens a connection.
pub fn op_reply(response_to: i32, body: &Document) -> Vec<u8> {
    let body = body.as_bytes();
    let mut message = header(HEADER_BYTES + 20 + body.len(), 0, response_to, OP_REPLY);
    message.extend_from_slice(&8_u32.to_le_bytes());
    message.extend_from_slice(&0_u64.to_le_bytes());
    message.extend_from_slice(&0_u32.to_le_bytes());
    message.extend_from_slice(&1_u32.to_le_bytes());
    message.extend_from_slice(body);
    message
}

/// Makes a prepared reply answer this request.
pub fn set_response_to(message: &mut [u8], request_id: i32) {
    message[8..12].copy_from_slice(&request_id.to_le_bytes());
}

/// Sends one command and returns its reply's body; `{ok: 0}` is an error.
pub fn round_trip(
    socket: &mut (impl Read + Write),
    request: &[u8],
    reply: &mut Vec<u8>,
) -> io::Result<()> {
    socket.write_all(request)?;
    read_reply(socket, reply)
}

/// Reads the reply to a command that was sent; `{ok: 0}` is an error.
pub fn read_reply(socket: &mut impl Read, reply: &mut Vec<u8>) -> io::Result<()> {
    if !read_message(socket, reply)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (_, body) = op_msg_body(reply)?;
    let ok = body.get("ok").and_then(|value| value.as_f64_lossy());
    let refused = body.get("writeErrors").is_some();
    if ok != Some(1.0) || refused {
        return Err(invalid(format!(
            "the server answered {}",
            body.to_owned_document()
        )));
    }
    Ok(())
}

fn header(total: usize, request_id: i32, response_to: i32, op_code: i32) -> Vec<u8> {
    let mut message = Vec::with_capacity(total);
    message.extend_from_slice(&(total as u32).to_le_bytes());
    message.extend_from_slice(&request_id.to_le_bytes());
    message.extend_from_slice(&response_to.to_le_bytes());
    message.extend_from_slice(&op_code.to_le_bytes());
    message
}

fn read_i32(bytes: &[u8], offset: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    i32::from_le_bytes(word)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::doc;

    #[test]
    fn a_message_carries_its_body_and_ids() {
        let mut message = op_msg(7, 3, &doc! { "ping": 1 });
        assert_eq!(request_id(&message), 7);
        assert_eq!(op_code(&message), OP_MSG);
        set_response_to(&mut message, 99);
        assert_eq!(read_i32(&message, 8), 99);
        let (flags, body) = op_msg_body(&message).unwrap();
        assert_eq!(flags, 0);
        assert_eq!(body.get("ping").unwrap().as_i32(), Some(1));
    }

    #[test]
    fn a_body_longer_than_its_message_is_refused() {
        let mut message = op_msg(1, 0, &doc! { "ping": 1 });
        message[BODY_OFFSET] = 200;
        assert!(op_msg_body(&message).is_err());
    }
}
