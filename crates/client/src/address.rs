//! A server's address, as it stands in a URI and in what a set says of its members.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// The port of a server whose address names none.
const PORT_DEFAULT: u16 = 27_017;

/// The connection string of a server that listens at a socket of the file system.
#[must_use]
pub fn uri_of_socket(path: &Path) -> String {
    let path = percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC);
    format!("mongodb://{path}/")
}

/// A host and a port, or a socket of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name, an IPv4 address, an IPv6 address without brackets, or the path of a socket, which begins with `/`.
    pub host: String,
    /// The port, which a socket of the file system has none of.
    pub port: u16,
}

impl Address {
    /// Reads `host`, `host:port`, `[IPv6]:port` or a path whose slashes are written `%2F`; none where the text is no address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Address> {
        if text
            .get(..3)
            .is_some_and(|begin| begin.eq_ignore_ascii_case("%2F"))
        {
            let path = percent_decode_str(text).decode_utf8().ok()?;
            return Some(Address {
                host: path.into_owned(),
                port: PORT_DEFAULT,
            });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (host, behind) = bracketed.split_once(']')?;
                let port = match behind {
                    "" => None,
                    behind => Some(behind.strip_prefix(':')?),
                };
                (host, port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None => PORT_DEFAULT,
        };
        let is_host = !host.is_empty() && !host.contains(['/', '%', '@', ' ']);
        is_host.then(|| Address {
            host: host.to_owned(),
            port,
        })
    }

    /// The socket of the file system that it is; none of a host.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.host.starts_with('/').then(|| Path::new(&self.host))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path() {
            return path.display().fmt(f);
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_or_the_default_one() {
        for (text, shown) in [
            ("localhost", "localhost:27017"),
            ("10.0.0.1:5", "10.0.0.1:5"),
            ("[::1]", "[::1]:27017"),
            ("[fe80::1]:99", "[fe80::1]:99"),
            ("%2Ftmp%2fmongodb-1.sock", "/tmp/mongodb-1.sock"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
        for bad in [
            "", ":1", "a:0", "a:70000", "a:b", "[::1", "[::1]9", "%2F%ff", "a%2Fb", "/tmp/s", "a b",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_socket_is_reached_by_its_uri() {
        let path = Path::new("/tmp/a b@c%/q-1.sock");
        let uri = uri_of_socket(path);
        let host = uri
            .strip_prefix("mongodb://")
            .unwrap()
            .trim_end_matches('/');
        assert_eq!(Address::parse(host).unwrap().path(), Some(path));
    }
}
