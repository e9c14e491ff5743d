//! The address under which clients reach the member of a set: a host and a port, as drivers compare them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The port of an address that names none, as with mongod.
const PORT_DEFAULT: u16 = 27_017;
/// A longer name is no name of a host (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// `host:port`, in lower case, because drivers compare addresses without regard to case; an IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// Parses `HOST`, `HOST:PORT` or `[IPV6]:PORT`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Address, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (format!("[{host}]"), None),
            Some((host, port)) => (format!("[{host}]"), Some(port.trim_start_matches(':'))),
            None => match text.split_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port)),
                None => (text.to_owned(), None),
            },
        };
        let is_named = host.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':')
        });
        if host.trim_matches(['[', ']']).is_empty() || host.len() > HOST_BYTES_MAX || !is_named {
            return Err(format!("`{text}` names no host"));
        }
        let port = match port {
            None => PORT_DEFAULT,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| format!("`{text}` names no port from 1 to 65535"))?,
        };
        Ok(Address(format!("{}:{port}", host.to_ascii_lowercase())))
    }

    /// The address of a socket's own end. An IPv4 address within IPv6 is written as the IPv4 address that it is.
    pub fn of(socket: SocketAddr) -> Address {
        let port = socket.port();
        Address(match socket.ip().to_canonical() {
            IpAddr::V4(ip) => format!("{ip}:{port}"),
            IpAddr::V6(ip) => format!("[{ip}]:{port}"),
        })
    }

    /// `host:port`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_drivers_compare_them() {
        let parsed = |text: &str| Address::parse(text).map(|address| address.0);
        assert_eq!(parsed("DB.example").unwrap(), "db.example:27017");
        assert_eq!(parsed("db:4000").unwrap(), "db:4000");
        assert_eq!(parsed("[::1]:4000").unwrap(), "[::1]:4000");
        assert_eq!(parsed("[::1]").unwrap(), "[::1]:27017");
        for bad in [
            "", ":1", "db:", "db:0", "db:70000", "a b:1", "a,b:1", "a/b:1", "[]:1",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sockets_address_is_written_as_clients_write_it() {
        let of = |text: &str| Address::of(text.parse().unwrap()).0;
        assert_eq!(of("127.0.0.1:27017"), "127.0.0.1:27017");
        assert_eq!(of("[::1]:27017"), "[::1]:27017");
        assert_eq!(of("[::ffff:10.0.0.1]:1"), "10.0.0.1:1");
    }
}
