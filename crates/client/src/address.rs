//! A server's address, as it stands in a URI and in what a set says of its members.

use std::fmt;

/// The port of a server whose address names none.
const PORT_DEFAULT: u16 = 27_017;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Reads `host`, `host:port` or `[IPv6]:port`; none where the text is no address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Address> {
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
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
        for bad in [
            "", ":1", "a:0", "a:70000", "a:b", "[::1", "[::1]9", "%2Ftmp", "a b",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }
}
