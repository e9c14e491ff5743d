//! The sides of a comparison: the servers given as `NAME=URI`, or Quarry on each engine beside the canned replies.

use std::io;
use std::path::PathBuf;

use crate::canned;
use crate::process::{Launch, Server, target_directory};

/// The name of the side that shows the client's own cost.
pub const CANNED: &str = "canned";

/// One server to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name in tables.
    pub name: String,
    /// The address, as drivers take it.
    pub uri: String,
}

impl Peer {
    /// Parses `NAME=URI`.
    pub fn parse(text: &str) -> Result<Peer, String> {
        let Some((name, uri)) = text.split_once('=') else {
            return Err(format!("`{text}` is not NAME=URI"));
        };
        if name.is_empty() || !uri.starts_with("mongodb://") {
            return Err(format!("`{text}` is not NAME=mongodb://..."));
        }
        Ok(Peer {
            name: name.into(),
            uri: uri.into(),
        })
    }

    /// `host:port`, for the raw client.
    pub fn address(&self) -> &str {
        let rest = self.uri.trim_start_matches("mongodb://");
        rest.split(['/', '?']).next().unwrap_or(rest)
    }
}

/// The sides, and the processes that were started for them and end with this value.
pub struct Peers {
    /// The servers, in the order of the columns.
    pub peers: Vec<Peer>,
    servers: Vec<Server>,
    scratch: Option<PathBuf>,
}

impl Peers {
    /// The given ones with the canned server first; without any, Quarry on `engines`.
    pub fn given_or_started(given: &[Peer], engines: &[&str]) -> io::Result<Peers> {
        let mut all = Peers::with_canned()?;
        if !given.is_empty() {
            all.peers.extend_from_slice(given);
            return Ok(all);
        }
        for &engine in engines {
            all.launch(engine, engine, Launch::default())?;
        }
        Ok(all)
    }

    /// Quarry on one engine once for each name, started in different ways, with the canned server first.
    pub fn launched<'n>(
        engine: &str,
        sides: impl IntoIterator<Item = (&'n str, Launch)>,
    ) -> io::Result<Peers> {
        let mut all = Peers::with_canned()?;
        for (name, launch) in sides {
            all.launch(name, engine, launch)?;
        }
        Ok(all)
    }

    /// The servers that were started, by the names of their sides.
    pub fn started(&self) -> impl Iterator<Item = (&Peer, &Server)> {
        // The canned server stands first and is no process.
        self.peers.iter().skip(1).zip(&self.servers)
    }

    fn with_canned() -> io::Result<Peers> {
        let canned = Peer {
            name: CANNED.into(),
            uri: format!("mongodb://127.0.0.1:{}/", canned::spawn()?),
        };
        Ok(Peers {
            peers: vec![canned],
            servers: Vec::new(),
            scratch: None,
        })
    }

    fn launch(&mut self, name: &str, engine: &str, launch: Launch) -> io::Result<()> {
        let scratch = self.scratch.get_or_insert_with(|| {
            target_directory()
                .join("bench/data")
                .join(std::process::id().to_string())
        });
        let server = Server::launch(engine, &scratch.join(name.replace(' ', "_")), launch)?;
        self.peers.push(Peer {
            name: name.into(),
            uri: server.uri(),
        });
        self.servers.push(server);
        Ok(())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.servers.clear();
        if let Some(scratch) = &self.scratch {
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_an_address() {
        let peer = Peer::parse("other=mongodb://db.example:27018/test?w=1").unwrap();
        assert_eq!(
            (peer.name.as_str(), peer.address()),
            ("other", "db.example:27018")
        );
        assert!(Peer::parse("mongodb://x").is_err());
        assert!(Peer::parse("a=http://x").is_err());
    }
}
