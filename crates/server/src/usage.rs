//! How often and how long each collection was used: what `top` reports.
//!
//! Bounded: once the table is full, further collections are counted together under one name.

use std::time::Duration;

use parking_lot::Mutex;
use quarry_timing::OperationKind;
use rustc_hash::FxHashMap;

/// Collections counted one by one.
const COLLECTIONS_MAX: usize = 10_000;
const SHARDS: usize = 16;
/// Where the rest is counted.
const OTHERS: &str = "(others)";

#[derive(Clone, Copy, Default, Debug)]
pub struct Use {
    pub time: Duration,
    pub count: u64,
}

/// What was done to one collection, as `top` names it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Uses {
    pub queries: Use,
    pub getmore: Use,
    pub insert: Use,
    pub update: Use,
    pub remove: Use,
    pub commands: Use,
}

impl Uses {
    fn of(&mut self, kind: OperationKind) -> &mut Use {
        match kind {
            OperationKind::Find => &mut self.queries,
            OperationKind::GetMore => &mut self.getmore,
            OperationKind::Insert => &mut self.insert,
            OperationKind::Update => &mut self.update,
            OperationKind::Delete => &mut self.remove,
            _ => &mut self.commands,
        }
    }

    pub fn total(&self) -> Use {
        let all = [
            self.queries,
            self.getmore,
            self.insert,
            self.update,
            self.remove,
            self.commands,
        ];
        Use {
            time: all.iter().map(|part| part.time).sum(),
            count: all.iter().map(|part| part.count).sum(),
        }
    }
}

#[derive(Default)]
pub struct Usage {
    shards: [Mutex<FxHashMap<Box<str>, Uses>>; SHARDS],
}

impl Usage {
    pub fn record(&self, namespace: &str, kind: OperationKind, time: Duration) {
        let mut shard = self.shards[shard_of(namespace)].lock();
        let full = shard.len() >= COLLECTIONS_MAX / SHARDS;
        let uses = match shard.get_mut(namespace) {
            Some(uses) => uses,
            None if full => shard.entry(OTHERS.into()).or_default(),
            None => shard.entry(namespace.into()).or_default(),
        };
        let uses = uses.of(kind);
        uses.count += 1;
        uses.time += time;
    }

    pub fn forget(&self, namespace: &str) {
        self.shards[shard_of(namespace)].lock().remove(namespace);
    }

    pub fn list(&self) -> Vec<(String, Uses)> {
        let mut all: Vec<(String, Uses)> = Vec::new();
        for shard in &self.shards {
            all.extend(
                shard
                    .lock()
                    .iter()
                    .map(|(namespace, uses)| (namespace.to_string(), *uses)),
            );
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

fn shard_of(namespace: &str) -> usize {
    let bytes = namespace.as_bytes();
    let last = bytes.last().copied().unwrap_or(0);
    (bytes.len() + usize::from(last)) % SHARDS
}
