//! The first bytes of a connection to a server that has TLS: whether they begin a handshake or a message, and the handshake.
//!
//! It runs on the connection's own thread, outside of any lock, and within `HANDSHAKE_TIME` where TLS is required or has
//! begun. Where TLS is allowed a client may be silent before its first byte for as long as it likes; it is then parked as any
//! silent one is. A server without TLS does not come here: what a wrong client sends it is named where it cannot be read
//! (`foreign`).

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use quarry_wire::{HEADER_BYTES, Header, OpCode};

use crate::net::certificates::Certificates;
use crate::net::foreign::ForeignProtocol;
use crate::net::tls_stream::{HANDSHAKE_TIME, HandshakeError};
use crate::net::transport::Transport;

/// Why a connection is not served.
pub enum Refusal {
    /// The handshake came to nothing, for that reason.
    Handshake(String),
    /// Its client speaks something else, or does not encrypt where it has to.
    ForeignProtocol(ForeignProtocol),
    /// Its client has closed it without a byte.
    Closed,
}

/// How a connection is begun, as its first bytes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Greeting {
    /// The client has shaken hands.
    Encrypted,
    /// It goes on without encryption.
    Plain,
    /// It has said nothing within the patience, and may begin with either. `greet` is called again.
    Nothing,
}

/// Encrypts the connection if its client begins so. Waits for `patience` where the client need not begin at once.
///
/// It is not part of its caller, which lasts as long as the connection: the room for a handshake, some KiB of the stack, would
/// stay touched under everything that the connection does.
#[cold]
#[inline(never)]
pub fn greet(
    certificates: &Certificates,
    transport: &Transport,
    patience: Duration,
) -> Result<Greeting, Refusal> {
    if !certificates.is_required() && !transport.has_input_within(patience) {
        return Ok(Greeting::Nothing);
    }
    let deadline = Instant::now() + HANDSHAKE_TIME;
    let begins_tls = match certificates.is_required() {
        true => has_hello_before(transport, deadline)?,
        false => begins_with_hello(transport)?,
    };
    if !begins_tls {
        return Ok(Greeting::Plain);
    }
    let shaken = transport.encrypt(certificates.for_clients(), deadline);
    certificates.note(shaken.is_ok(), transport.tls());
    shaken.map(|()| Greeting::Encrypted).map_err(|error| {
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
        _ if first[0] == ForeignProtocol::TLS_HANDSHAKE => Ok(true),
        _ => {
            // So much of it as has come says what it is. Taken from the stream, so that an answer reaches the client.
            let mut begun = [0; 1024];
            let bytes = transport.read(&mut begun).unwrap_or(0);
            Err(Refusal::ForeignProtocol(ForeignProtocol::without_tls(
                &begun[..bytes],
            )))
        }
    }
}

/// Where TLS is allowed: a header's worth of bytes tells a message from a hello, whose bytes there are random. A client that
/// does not send as many in time has begun the one or the other by its first.
fn begins_with_hello(transport: &Transport) -> Result<bool, Refusal> {
    let failed = |error: io::Error| Refusal::Handshake(error.to_string());
    let mut first = [0; HEADER_BYTES];
    transport
        .set_read_timeout(Some(HANDSHAKE_TIME))
        .map_err(failed)?;
    let bytes = look(transport, &mut first)?;
    transport.set_read_timeout(None).map_err(failed)?;
    let is_message = bytes == HEADER_BYTES
        && Header::parse(&first).is_ok_and(|header| OpCode::from_number(header.op_code).is_some());
    Ok(!is_message && bytes > 0 && first[0] == ForeignProtocol::TLS_HANDSHAKE)
}

fn look(transport: &Transport, first: &mut [u8]) -> Result<usize, Refusal> {
    transport
        .look_ahead(first)
        .map_err(|error| match error.kind() {
            ErrorKind::ConnectionReset => Refusal::Closed,
            _ => Refusal::Handshake(error.to_string()),
        })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::server::Server;

    /// A server's certificates in that mode, which go with the process.
    fn certificates(mode: &str) -> Certificates {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let made = params.self_signed(&key).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), made.pem() + &key.serialize_pem()).unwrap();
        let path = file.path().to_str().unwrap();
        let flags = ["--tlsMode", mode, "--tlsCertificateKeyFile", path];
        let options = Server::in_memory_with(&flags).config.tls.unwrap();
        Certificates::load(options).unwrap_or_else(|why| panic!("{why}"))
    }

    fn pair() -> (TcpStream, Transport) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Transport::plain(server).unwrap())
    }

    fn greeted(certificates: &Certificates, server: &Transport) -> String {
        refused(greet(certificates, server, HANDSHAKE_TIME))
    }

    fn refused(greeted: Result<Greeting, Refusal>) -> String {
        match greeted {
            Err(Refusal::Handshake(why)) => why,
            Err(Refusal::ForeignProtocol(foreign)) => format!("{foreign:?}"),
            Err(Refusal::Closed) => "closed".into(),
            Ok(greeting) => format!("goes on: {greeting:?}"),
        }
    }

    #[test]
    fn a_handshake_that_is_begun_and_not_gone_on_with_ends() {
        for mode in ["allowTLS", "requireTLS"] {
            let certificates = certificates(mode);
            for begun in [
                &b"\x16"[..],
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\0\0\0\0\0\0",
            ] {
                let (mut client, server) = pair();
                client.write_all(begun).unwrap();
                let why = greeted(&certificates, &server);
                assert_eq!(why, "it took too long", "{mode} {begun:?}");
            }
            assert_eq!(
                certificates
                    .failed
                    .load(std::sync::atomic::Ordering::Relaxed),
                2
            );
        }
        let (_client, server) = pair();
        let why = greeted(&certificates("requireTLS"), &server);
        assert_eq!(why, "the client sent nothing");
    }

    #[test]
    fn a_message_goes_on_where_it_may_and_stays_in_the_stream() {
        let header = Header {
            // Its first bytes are those of a record.
            message_bytes: 0x0316,
            request_id: 1,
            response_to: 0,
            op_code: OpCode::Msg.number(),
        };
        let (mut client, server) = pair();
        client.write_all(&header.to_bytes()).unwrap();
        let allows = certificates("allowTLS");
        assert_eq!(greeted(&allows, &server), "goes on: Plain");
        let mut came = [0; 64];
        assert_eq!(server.read(&mut came).unwrap(), HEADER_BYTES);
        let requires = certificates("requireTLS");
        for (bytes, named) in [
            (&b"GET / HTTP/1.0\r\n"[..], "Http"),
            (b"0123", "Unencrypted"),
        ] {
            let (mut client, server) = pair();
            client.write_all(bytes).unwrap();
            assert_eq!(greeted(&requires, &server), named);
            drop(server);
            // Nothing is left unread that would cut off an answer.
            assert_eq!(client.read(&mut came).unwrap(), 0);
        }
        let (client, server) = pair();
        drop(client);
        assert_eq!(greeted(&requires, &server), "closed");
    }

    #[test]
    fn a_silent_client_is_asked_again_where_it_may_be_any() {
        let allows = certificates("allowTLS");
        let (mut client, server) = pair();
        for _ in 0..2 {
            let greeting = greet(&allows, &server, Duration::from_millis(1));
            assert_eq!(refused(greeting), "goes on: Nothing");
        }
        client.write_all(&[0x30; HEADER_BYTES]).unwrap();
        assert_eq!(greeted(&allows, &server), "goes on: Plain");
    }
}
