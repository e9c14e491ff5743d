//! The first bytes of a connection to a server that has TLS: whether they begin a handshake or a message, and the handshake.
//!
//! It runs on the connection's own thread, outside of any lock, and within `HANDSHAKE_TIME` where TLS is required or has
//! begun. A server without TLS does not come here: what a wrong client sends it is named where it cannot be read
//! (`foreign`).

use std::io::ErrorKind;
use std::time::Instant;

use quarry_wire::{HEADER_BYTES, Header, OpCode};

use crate::net::certificates::Certificates;
use crate::net::foreign::Foreign;
use crate::net::tls_stream::{HANDSHAKE_TIME, HandshakeError};
use crate::net::transport::Transport;

/// Why a connection is not served.
pub enum Refusal {
    /// The handshake came to nothing, for that reason.
    Handshake(String),
    /// Its client speaks something else, or does not encrypt where it has to.
    Foreign(Foreign),
    /// Its client has closed it without a byte.
    Closed,
}

/// Encrypts the connection if its client begins so. False for a connection that goes on without encryption.
pub fn greet(certificates: &Certificates, transport: &Transport) -> Result<bool, Refusal> {
    let deadline = Instant::now() + HANDSHAKE_TIME;
    let begins_tls = match certificates.is_required() {
        true => has_hello_before(transport, deadline)?,
        false => begins_with_hello(transport)?,
    };
    if !begins_tls {
        return Ok(false);
    }
    let shaken = transport.encrypt(certificates.for_clients(), deadline);
    certificates.note(shaken.is_ok(), transport.tls());
    shaken.map(|()| true).map_err(|error| {
        Refusal::Handshake(match error {
            HandshakeError::TimedOut => "it took too long".into(),
            HandshakeError::Ended => "the client ended the connection".into(),
            HandshakeError::Refused(error) => error.to_string(),
            HandshakeError::Failed(error) => error.to_string(),
        })
    })
}

/// Where TLS is required: waits for the first byte, but not for ever. Anything but a hello is refused.
fn has_hello_before(transport: &Transport, deadline: Instant) -> Result<bool, Refusal> {
    let left = deadline.saturating_duration_since(Instant::now());
    if !transport.has_input_within(left) {
        return Err(Refusal::Handshake("the client sent nothing".into()));
    }
    let mut first = [0; 1];
    match look(transport, &mut first)? {
        0 => Err(Refusal::Closed),
        _ if first[0] == Foreign::TLS_HANDSHAKE => Ok(true),
        _ => {
            // So much of it as has come says what it is. Taken from the stream, so that an answer reaches the client.
            let mut begun = [0; 1024];
            let bytes = transport.read(&mut begun).unwrap_or(0);
            Err(Refusal::Foreign(Foreign::without_tls(&begun[..bytes])))
        }
    }
}

/// Where TLS is allowed: a header's worth of bytes tells a message from a hello, whose bytes there are random.
fn begins_with_hello(transport: &Transport) -> Result<bool, Refusal> {
    let mut first = [0; HEADER_BYTES];
    let bytes = look(transport, &mut first)?;
    let is_message = bytes == HEADER_BYTES
        && Header::parse(&first).is_ok_and(|header| OpCode::from_number(header.op_code).is_some());
    Ok(!is_message && bytes > 0 && first[0] == Foreign::TLS_HANDSHAKE)
}

fn look(transport: &Transport, first: &mut [u8]) -> Result<usize, Refusal> {
    transport
        .look_ahead(first)
        .map_err(|error| match error.kind() {
            ErrorKind::ConnectionReset => Refusal::Closed,
            _ => Refusal::Handshake(error.to_string()),
        })
}
