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
    Ssh,
    /// The line by which a proxy tells whose connection it hands on.
    Proxy,
    Redis,
    Postgres,
    /// Anything else.
    Unknown,
}

/// Where a console is for a browser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsoleAddress {
    pub is_encrypted: bool,
    pub address: SocketAddr,
}

/// The methods of HTTP, each as the first bytes of a request, and the beginning of HTTP/2.
const HTTP_METHODS: [&[u8]; 8] = [
    b"PRI * HTTP/2",
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
            [b'S', b'S', b'H', b'-', ..] => ForeignProtocol::Ssh,
            [b'P', b'R', b'O', b'X', b'Y', b' ', ..]
            | [b'\r', b'\n', b'\r', b'\n', 0, b'\r', b'\n', b'Q', ..] => ForeignProtocol::Proxy,
            [b'*', b'0'..=b'9', ..] | [b'P', b'I', b'N', b'G', ..] => ForeignProtocol::Redis,
            // Length and version of a start, or the wish for encryption.
            [0, 0, _, _, 0, 3, 0, 0, ..] | [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f, ..] => {
                ForeignProtocol::Postgres
            }
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
            ForeignProtocol::Ssh => Some("SSH"),
            ForeignProtocol::Proxy => Some(
                "the PROXY protocol, which this server does not take: a proxy must not send it",
            ),
            ForeignProtocol::Redis => Some("a client or a health check of Redis"),
            ForeignProtocol::Postgres => Some("a client or a health check of PostgreSQL"),
            ForeignProtocol::Unknown => None,
        }
    }

    /// The answer for its client: a browser learns where the console is, if there is one.
    pub fn answer(self, console: Option<ConsoleAddress>) -> Option<String> {
        if self != ForeignProtocol::Http {
            return None;
        }
        let mut line = String::from(
            "It looks like you are trying to access MongoDB over HTTP on the native driver port.",
        );
        if let Some(ConsoleAddress {
            is_encrypted,
            address,
        }) = console
        {
            let scheme = if is_encrypted { "https" } else { "http" };
            line.push_str(&format!(" The console is at {scheme}://{address}/"));
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
            (b"PRI * HTTP/2.0\r\n\r\nSM", ForeignProtocol::Http),
            (b"SSH-2.0-OpenSSH_9.2\r\n", ForeignProtocol::Ssh),
            (b"PROXY TCP4 10.0.0.1 10.0.0.2", ForeignProtocol::Proxy),
            (b"\r\n\r\n\0\r\nQUIT\n\x21", ForeignProtocol::Proxy),
            (b"*1\r\n$4\r\nPING\r\n", ForeignProtocol::Redis),
            (b"PING\r\n", ForeignProtocol::Redis),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", ForeignProtocol::Postgres),
            (b"\0\0\0\x29\0\x03\0\0user\0me\0", ForeignProtocol::Postgres),
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
        let console = |is_encrypted| {
            let address = at("0.0.0.0", Some(28_017)).unwrap();
            Some(ConsoleAddress {
                is_encrypted,
                address,
            })
        };
        for (is_encrypted, shown) in [
            (false, " http://10.0.0.1:28017/"),
            (true, " https://10.0.0.1:28017/"),
        ] {
            let answer = ForeignProtocol::Http.answer(console(is_encrypted)).unwrap();
            let (head, line) = answer.split_once("\r\n\r\n").unwrap();
            assert!(line.contains(shown), "{line}");
            assert!(head.contains(&format!("Content-Length: {}", line.len())));
        }
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
        assert_eq!(ForeignProtocol::Tls.answer(console(false)), None);
    }
}
