//! Reads from serverStatus what a server's engine did in the background, and how far its journal has come.

use std::io;

use quarry_bson::{RawDocument, doc};

use crate::raw_client::RawClient;

/// The background jobs of an engine so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineWork {
    /// Flushes, or steady points.
    pub flushes: i64,
    /// Compactions.
    pub compactions: i64,
}

impl EngineWork {
    /// So far, of the server at `address`.
    pub fn of(address: &str) -> io::Result<EngineWork> {
        let mut client = RawClient::connect(address)?;
        client.command(&doc! { "serverStatus": 1, "$db": "admin" })?;
        let reply = client.reply();
        let counters = find_document(reply, "engineCounters")
            .ok_or_else(|| io::Error::other("serverStatus shows no engine counters"))?;
        let number = |name| {
            let value = counters.get(name).and_then(|value| value.as_f64_lossy());
            value.map_or(0, |value| value as i64)
        };
        Ok(EngineWork {
            flushes: number("flushes"),
            compactions: number("compactions"),
        })
    }
}

impl std::ops::Add for EngineWork {
    type Output = EngineWork;

    fn add(self, other: EngineWork) -> EngineWork {
        EngineWork {
            flushes: self.flushes + other.flushes,
            compactions: self.compactions + other.compactions,
        }
    }
}

impl std::ops::Sub for EngineWork {
    type Output = EngineWork;

    fn sub(self, other: EngineWork) -> EngineWork {
        EngineWork {
            flushes: self.flushes - other.flushes,
            compactions: self.compactions - other.compactions,
        }
    }
}

/// The position of the journal's last record.
pub fn accepted_lsn(client: &mut RawClient) -> io::Result<i64> {
    client.command(&doc! { "serverStatus": 1, "$db": "admin" })?;
    let accepted = client.reply().get_path("quarry.journal.acceptedLsn");
    accepted
        .and_then(|value| value.as_i64_exact())
        .ok_or_else(|| io::Error::other("serverStatus does not tell the journal's position"))
}

/// The first document of this name at any depth that a status has.
fn find_document<'d>(document: RawDocument<'d>, name: &str) -> Option<RawDocument<'d>> {
    document.iter().find_map(|element| {
        let inner = element.value().as_document()?;
        if element.name() == name {
            return Some(inner);
        }
        find_document(inner, name)
    })
}
