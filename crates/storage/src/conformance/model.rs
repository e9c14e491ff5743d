//! Random batches, gets and cursor walks, compared with an ordered map.

use std::collections::BTreeMap;

use super::calls::{get_at, scan};
use crate::{Cursor, Engine, KeyRange, Snapshot, WriteBatch};

const SEED: u64 = 0x5eed_0001;
const ROUNDS: usize = 300;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn random_operations_agree_with_a_map(engine: &dyn Engine) {
    let mut dice = Dice(SEED);
    let mut model = Map::new();
    let mut held: Vec<(Box<dyn Snapshot>, Map)> = Vec::new();
    for round in 0..ROUNDS {
        write_some(engine, &mut model, &mut dice);
        if dice.below(40) == 0 {
            engine.sync().expect("a sync is made");
        }
        let snapshot = engine.snapshot().expect("a snapshot opens");
        walk(snapshot.as_ref(), &model, &mut dice);
        if dice.below(10) == 0 {
            held.push((snapshot, model.clone()));
        }
        if held.len() > 4 {
            let (snapshot, then) = held.swap_remove(dice.below(held.len()));
            let seen = scan(snapshot.as_ref(), KeyRange::all());
            assert!(
                seen.into_iter().eq(then),
                "an old snapshot changed by round {round}"
            );
        }
    }
}

fn write_some(engine: &dyn Engine, model: &mut Map, dice: &mut Dice) {
    let mut batch = WriteBatch::new();
    for _ in 0..dice.below(12) {
        let key = dice.key();
        if dice.below(3) == 0 {
            batch.delete(&key);
            model.remove(&key);
        } else {
            let value = vec![dice.below(256) as u8; dice.below(300)];
            batch.put(&key, &value);
            model.insert(key, value);
        }
    }
    engine.write(&batch).expect("a batch is taken");
}

fn walk(snapshot: &dyn Snapshot, model: &Map, dice: &mut Dice) {
    let key = dice.key();
    assert_eq!(get_at(snapshot, &key).as_ref(), model.get(&key));

    let (start, end) = (dice.key(), dice.key());
    let range = if dice.below(4) == 0 {
        KeyRange::new(start, [])
    } else {
        KeyRange::new(start, end)
    };
    let inside: Vec<_> = model
        .iter()
        .filter(|(key, _)| range.contains(key))
        .collect();
    let mut cursor = snapshot.cursor(range).expect("a cursor opens");
    let mut at = None;
    for _ in 0..20 {
        let key = dice.key();
        let position = inside.partition_point(|(stored, _)| stored.as_slice() < key.as_slice());
        let moved = match dice.below(9) {
            0 => (
                cursor.seek(&key),
                (position < inside.len()).then_some(position),
            ),
            1 => (cursor.seek_before(&key), position.checked_sub(1)),
            2 => (cursor.first(), (!inside.is_empty()).then_some(0)),
            3 => (cursor.last(), inside.len().checked_sub(1)),
            4..=6 => (
                cursor.next(),
                at.map(|at| at + 1).filter(|&at| at < inside.len()),
            ),
            _ => (cursor.prev(), at.and_then(|at: usize| at.checked_sub(1))),
        };
        moved.0.expect("a cursor moves");
        at = moved.1;
        agree(cursor.as_ref(), at.map(|at| inside[at]));
    }
}

fn agree(cursor: &dyn Cursor, expected: Option<(&Vec<u8>, &Vec<u8>)>) {
    let seen = cursor.valid().then(|| (cursor.key(), cursor.value()));
    assert_eq!(
        seen,
        expected.map(|(key, value)| (key.as_slice(), value.as_slice()))
    );
}

/// A small deterministic generator (xorshift64*), so that the suite needs no library.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % bound
    }

    /// One to four bytes of a small alphabet with both ends of the byte range, so that keys
    /// meet; never the reserved key of the applied LSN.
    fn key(&mut self) -> Vec<u8> {
        const ALPHABET: [u8; 5] = [0x00, 0x02, b'k', 0xfe, 0xff];
        let len = 1 + self.below(4);
        (0..len)
            .map(|_| ALPHABET[self.below(ALPHABET.len())])
            .collect()
    }
}
