//! One message, taken apart.

use crate::compression;
use crate::error::{Error, Result};
use crate::header::{HEADER_BYTES, Header, OpCode};
use crate::{OpMsg, OpQuery, Refused};

/// A message from a client, by its opcode.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// A command.
    Msg(OpMsg<'a>),
    /// An OP_MSG whose content cannot be read.
    Refused(Refused),
    /// A legacy query.
    Query(OpQuery<'a>),
}

/// Parses one whole message. A compressed one is unpacked into `scratch`, whose content is replaced;
/// what is returned borrows from one or the other. The header is the one on the wire, except that
/// its operation is the one inside a compressed message.
///
/// # Errors
/// Anything after which the connection it came from cannot go on; see [`Error::is_answerable`] for the rest.
pub fn parse<'a>(message: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<(Header, Request<'a>)> {
    let Some(header) = message.first_chunk::<HEADER_BYTES>() else {
        return Err(Error::malformed(message.len(), "a header of 16 bytes"));
    };
    let mut header = Header::parse(header)?;
    if header.message_bytes != message.len() {
        return Err(Error::Length {
            offset: 0,
            length: header.message_bytes as i64,
            expected: "the number of bytes of the message",
        });
    }
    let (mut message, mut compressor) = (message, None);
    if header.op_code == OpCode::Compressed.number() {
        let (op_code, used) = compression::unpack(message, &header, scratch)?;
        header.op_code = op_code;
        compressor = Some(used);
        message = scratch;
    }
    let request = match OpCode::from_number(header.op_code) {
        Some(OpCode::Msg) => match OpMsg::parse(message, &header, compressor) {
            Ok(msg) => Request::Msg(msg),
            Err(error) if error.is_answerable() => {
                Request::Refused(Refused::new(message, error, compressor))
            }
            Err(error) => return Err(error),
        },
        Some(OpCode::Query) => Request::Query(OpQuery::parse(message)?),
        Some(OpCode::Reply | OpCode::Compressed) | None => {
            return Err(Error::OpCode(header.op_code));
        }
    };
    Ok((header, request))
}
