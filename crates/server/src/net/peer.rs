//! The client's end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// Who is at the other end of a connection, as far as its socket tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A client that came by the network, from there.
    Internet(SocketAddr),
    /// A client of this machine that opened this file, which is a socket of the server. It has no address of its own.
    Unix(Arc<Path>),
}

/// The words by which MongoDB calls a client without an address.
const ANONYMOUS: &str = "anonymous unix socket";

impl Peer {
    /// The address that the client counts under where addresses are told apart: whoever opens a file of this machine is on it.
    pub fn ip(&self) -> IpAddr {
        self.internet()
            .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
    }

    /// The address that the client came from by the network; none of one that opened a file.
    pub fn internet(&self) -> Option<SocketAddr> {
        match self {
            Peer::Internet(address) => Some(*address),
            Peer::Unix(_) => None,
        }
    }

    /// The client without its port.
    pub fn host(&self) -> String {
        match self {
            Peer::Internet(address) => address.ip().to_string(),
            Peer::Unix(_) => ANONYMOUS.to_owned(),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer::Internet(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Internet(address) => address.fmt(f),
            Peer::Unix(_) => f.write_str(ANONYMOUS),
        }
    }
}
