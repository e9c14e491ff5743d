//! Bytes that are no message of the protocol: what they are instead, for the log, and the one answer that some get.

use std::net::{IpAddr, SocketAddr};

/// The beginning of something that the port does not speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForeignProtocol {
    /// A request of HTTP: a browser, or a monitor that asks the wrong port.
    Http,
    /// A TLS handshake, on a port that has none.
    Tls,
    /// A message without encryption, where TLS is required.
    Unencrypted,
    /// Anything else.
    Unknown,
}

/// The methods of HTTP, each as the first bytes of a request.
const HTTP_METHODS: [&[u8]; 7] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
];

impl ForeignProtocol {
    /// The first byte of a record of a TLS handshake.
    pub const TLS_HANDSHAKE: u8 = 0x16;

    /// Tells what the bytes are, of which the first of a connection are looked at.
    pub fn of(bytes: &[u8]) -> ForeignProtocol {
        if HTTP_METHODS.iter().any(|method| bytes.starts_with(method)) {
            return ForeignProtocol::Http;
        }
        match bytes {
            // A record of a handshake, of SSL 3.0 or later, that holds a client's hello.
            [ForeignProtocol::TLS_HANDSHAKE, 3, _, _, _, 1, ..] => ForeignProtocol::Tls,
            _ => ForeignProtocol::Unknown,
        }
    }

    /// Like `of`, for bytes that came where TLS is required.
    pub fn without_tls(bytes: &[u8]) -> ForeignProtocol {
        match ForeignProtocol::of(bytes) {
            ForeignProtocol::Http => ForeignProtocol::Http,
            _ => ForeignProtocol::Unencrypted,
        }
    }

    /// The words for the log; none where the bytes are nothing known.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            ForeignProtocol::Http => Some("an HTTP request on the port for drivers"),
            ForeignProtocol::Tls => {
                Some("a TLS handshake, and this server has no TLS: see net.tls.mode")
            }
            ForeignProtocol::Unencrypted => Some("the server takes only encrypted connections"),
            ForeignProtocol::Unknown => None,
        }
    }

    /// The answer for its client: a browser learns where the console is. `console` is the address of the admin port.
    pub fn answer(self, console: Option<SocketAddr>) -> Option<String> {
        if self != ForeignProtocol::Http {
            return None;
        }
        let mut line = String::from(
            "It looks like you are trying to access MongoDB over HTTP on the native driver port.",
        );
        if let Some(console) = console {
            line.push_str(&format!(" The console is at http://{console}/"));
        }
        line.push_str("\r\n");
        Some(format!(
            "HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{line}",
            line.len()
        ))
    }
}

/// The address of the console for a client that has connected to `local`: the first that the server listens on, or where
/// that is all of them the one that the client has reached.
pub fn console_address(
    first: Option<&String>,
    local: Option<SocketAddr>,
    admin_port: Option<u16>,
) -> Option<SocketAddr> {
    let listens: Option<IpAddr> = first.and_then(|address| address.parse().ok());
    let listens = listens.filter(|address| !address.is_unspecified());
    let address = listens.or(local.map(|local| local.ip().to_canonical()))?;
    Some(SocketAddr::new(address, admin_port?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wrong_client_says_is_named() {
        for (bytes, named) in [
            (&b"GET / HTTP/1.1\r\n"[..], ForeignProtocol::Http),
            (b"OPTIONS * HTTP/1.0", ForeignProtocol::Http),
            (
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                ForeignProtocol::Tls,
            ),
            (b"GETTING", ForeignProtocol::Unknown),
            (b"\x16\x03", ForeignProtocol::Unknown),
            (b"", ForeignProtocol::Unknown),
        ] {
            assert_eq!(ForeignProtocol::of(bytes), named, "{bytes:?}");
        }
        assert_eq!(
            ForeignProtocol::without_tls(b"GET / "),
            ForeignProtocol::Http
        );
        assert_eq!(
            ForeignProtocol::without_tls(b"\x30\0\0\0"),
            ForeignProtocol::Unencrypted
        );
    }

    #[test]
    fn a_browser_is_told_where_the_console_is() {
        let reached = SocketAddr::from(([10, 0, 0, 1], 27_017));
        let at = |first: &str, port| console_address(Some(&first.to_owned()), Some(reached), port);
        let console = at("0.0.0.0", Some(28_017));
        let answer = ForeignProtocol::Http.answer(console).unwrap();
        let (head, line) = answer.split_once("\r\n\r\n").unwrap();
        assert!(line.contains("http://10.0.0.1:28017/"), "{line}");
        assert!(head.contains(&format!("Content-Length: {}", line.len())));
        assert_eq!(
            at("127.0.0.1", Some(1)),
            Some(SocketAddr::from(([127, 0, 0, 1], 1)))
        );
        // A name stands for an address that the client has reached; without the port there is no console.
        assert_eq!(at("localhost", Some(1)).unwrap().ip(), reached.ip());
        assert_eq!(at("0.0.0.0", None), None);
        assert!(
            !ForeignProtocol::Http
                .answer(None)
                .unwrap()
                .contains("console")
        );
        assert_eq!(ForeignProtocol::Tls.answer(console), None);
    }
}
