//! Single keys, batches, sizes and counters.

use super::calls::{delete, get, put};
use crate::{Engine, Error, KEY_BYTES_MAX, KeyRange, WriteBatch};

pub fn gets_puts_and_deletes(engine: &dyn Engine) {
    assert_eq!(engine.key_bytes_max(), KEY_BYTES_MAX);
    assert_eq!(get(engine, b"a"), None);
    put(engine, b"a", b"1");
    put(engine, b"b", b"");
    assert_eq!(get(engine, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(
        get(engine, b"b").as_deref(),
        Some(&b""[..]),
        "an empty value is a value"
    );
    put(engine, b"a", b"2");
    assert_eq!(get(engine, b"a").as_deref(), Some(&b"2"[..]));
    delete(engine, b"a");
    delete(engine, b"a");
    assert_eq!(get(engine, b"a"), None);
    assert_eq!(get(engine, b"b").as_deref(), Some(&b""[..]));
    for byte in 0..=255u8 {
        put(engine, &[0x20, byte], &[byte]);
    }
    for byte in 0..=255u8 {
        assert_eq!(get(engine, &[0x20, byte]), Some(vec![byte]));
    }
    engine
        .write(&WriteBatch::new())
        .expect("an empty batch is taken");
}

/// Present and absent keys, in order and not, repeated, of the edges' lengths, on both sides of a sync.
pub fn present_keys_are_found_by_their_positions(engine: &dyn Engine) {
    let key = |number: u16| [b"present".as_slice(), &number.to_be_bytes()].concat();
    for number in (0..300).step_by(3) {
        put(engine, &key(number), &[7; 5]);
    }
    engine.sync().expect("a sync succeeds");
    for number in (1..300).step_by(30) {
        put(engine, &key(number), b"");
        delete(engine, &key(number + 2));
    }
    let is_present = |number: u16| match number % 30 {
        1 => true,
        3 => false,
        rest => rest % 3 == 0,
    };
    let orders: [Vec<u16>; 5] = [
        vec![],
        vec![1],
        (0..300).collect(),
        (0..300).rev().collect(),
        vec![299, 0, 0, 1, 31, 3, 0, 6, 299],
    ];
    for order in orders {
        let keys: Vec<Vec<u8>> = order.iter().map(|number| key(*number)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let before = engine.counters();
        let mut found = Vec::new();
        engine
            .find_present(&keys, &mut |position| found.push(position))
            .expect("a readable engine");
        let places = (0..).zip(&order);
        let expected = places.filter_map(|(place, &number)| is_present(number).then_some(place));
        assert_eq!(found, expected.collect::<Vec<usize>>(), "{order:?}");
        let after = engine.counters();
        assert_eq!(after.gets - before.gets, keys.len() as u64);
        let values = found
            .iter()
            .map(|&place| if order[place] % 30 == 1 { 0 } else { 5 });
        assert_eq!(after.bytes_read - before.bytes_read, values.sum::<u64>());
    }
    let wrong = vec![7; KEY_BYTES_MAX + 1];
    let keys: [&[u8]; 3] = [&[], &key(0), &wrong];
    let mut found = Vec::new();
    engine
        .find_present(&keys, &mut |position| found.push(position))
        .expect("keys that cannot be stored are absent");
    assert_eq!(found, [1]);
}

pub fn batches_apply_in_order_and_as_one(engine: &dyn Engine) {
    put(engine, b"old", b"0");
    let mut batch = WriteBatch::new();
    batch.put(b"x", b"1");
    batch.put(b"x", b"2");
    batch.put(b"y", b"1");
    batch.delete(b"y");
    batch.delete(b"z");
    batch.put(b"z", b"3");
    batch.delete(b"old");
    engine.write(&batch).expect("a batch is taken");
    assert_eq!(get(engine, b"x").as_deref(), Some(&b"2"[..]));
    assert_eq!(get(engine, b"y"), None);
    assert_eq!(get(engine, b"z").as_deref(), Some(&b"3"[..]));
    assert_eq!(get(engine, b"old"), None);
}

pub fn long_keys_and_values(engine: &dyn Engine) {
    let key = vec![0xee; KEY_BYTES_MAX];
    let mut next = key.clone();
    next[KEY_BYTES_MAX - 1] = 0xef;
    for value_bytes in [1_000, 2_000, 4_000, 70_000, 1 << 20, 17 << 20] {
        let value: Vec<u8> = (0..value_bytes)
            .map(|at: usize| (at.wrapping_mul(2_654_435_761) >> 7) as u8)
            .collect();
        put(engine, &key, &value);
        assert!(
            get(engine, &key).as_ref() == Some(&value),
            "value of {value_bytes} bytes came back changed"
        );
        put(engine, &next, b"n");
        let snapshot = engine.snapshot().expect("a snapshot opens");
        let mut cursor = snapshot.cursor(KeyRange::all()).expect("a cursor opens");
        cursor.seek(&key).expect("a cursor moves");
        assert!(
            cursor.key() == key && cursor.value() == value,
            "cursor on {value_bytes} bytes"
        );
        cursor.next().expect("a cursor moves");
        assert!(cursor.key() == next && cursor.value() == b"n");
    }
}

pub fn keys_of_a_wrong_length_write_nothing(engine: &dyn Engine) {
    for bad in [vec![], vec![7; KEY_BYTES_MAX + 1]] {
        let mut batch = WriteBatch::new();
        batch.put(b"good", b"1");
        batch.put(&bad, b"1");
        assert_eq!(
            engine.write(&batch),
            Err(Error::KeyLength {
                key_bytes: bad.len()
            })
        );
        assert_eq!(get(engine, b"good"), None, "a refused batch left something");
        assert_eq!(get(engine, &bad), None, "no such key can be stored");
    }
}

pub fn counters_count(engine: &dyn Engine) {
    for number in 0..10u8 {
        put(engine, &[b'c', number], &[0; 10]);
    }
    let before = engine.counters();
    assert_eq!(before.writes, 10);
    assert!(before.bytes_written >= 120);
    get(engine, &[b'c', 1]);
    get(engine, b"absent");
    let snapshot = engine.snapshot().expect("a snapshot opens");
    assert_eq!(
        super::calls::scan(snapshot.as_ref(), KeyRange::prefix(b"c")).len(),
        10
    );
    let after = engine.counters();
    assert_eq!(after.gets - before.gets, 2);
    assert_eq!(after.seeks - before.seeks, 1);
    assert_eq!(after.nexts - before.nexts, 10);
    assert_eq!(after.bytes_read - before.bytes_read, 10 + 120);
}
