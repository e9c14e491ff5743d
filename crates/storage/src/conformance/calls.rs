//! Calls of an engine that the checks make again and again. One that the engine refuses ends the check.

use crate::{Engine, KeyRange, Snapshot, WriteBatch};

pub(super) fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    engine.write(&batch).expect("a put is taken");
}

pub(super) fn delete(engine: &dyn Engine, key: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.delete(key);
    engine.write(&batch).expect("a delete is taken");
}

pub(super) fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let found = engine.get(key, &mut |bytes| value = Some(bytes.to_vec()));
    assert_eq!(
        found.expect("a get answers"),
        value.is_some(),
        "get said found and called back differently"
    );
    value
}

pub(super) fn get_at(snapshot: &dyn Snapshot, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let found = snapshot.get(key, &mut |bytes| value = Some(bytes.to_vec()));
    assert_eq!(
        found.expect("a get answers"),
        value.is_some(),
        "get said found and called back differently"
    );
    value
}

pub(super) fn scan(snapshot: &dyn Snapshot, range: KeyRange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = snapshot.cursor(range).expect("a cursor opens");
    let mut entries = Vec::new();
    cursor.first().expect("a cursor moves");
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().expect("a cursor moves");
    }
    entries
}

/// Bytes that no engine compresses, the same in each run.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut next = || {
            self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
            (self.0 >> 56) as u8
        };
        (0..count).map(|_| next()).collect()
    }
}
