//! Cursors: both directions, ranges, edges.

use super::calls::put;
use crate::{Cursor, Engine, KEY_BYTES_MAX, KeyRange, Result, WriteBatch};

fn fill(engine: &dyn Engine) {
    for key in ["b", "ba", "bb", "c", "d", "da", "e"] {
        put(engine, key.as_bytes(), key.to_uppercase().as_bytes());
    }
}

fn expect(cursor: &dyn Cursor, moved: Result<()>, key: &str) {
    moved.expect("a cursor moves");
    assert_eq!(String::from_utf8_lossy(cursor.key()), key);
    assert_eq!(cursor.valid(), !key.is_empty());
    assert_eq!(cursor.value(), key.to_uppercase().as_bytes());
}

/// Moves and checks; an empty key stands for an invalid cursor.
macro_rules! check {
    ($cursor:ident . $step:ident ( $($key:expr)? ) => $expected:expr) => {{
        let moved = $cursor.$step($($key.as_ref())?);
        expect($cursor.as_ref(), moved, $expected);
    }};
}

pub fn walk_both_ways(engine: &dyn Engine) {
    fill(engine);
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let mut cursor = snapshot.cursor(KeyRange::all()).expect("a cursor opens");
    assert!(!cursor.valid() && cursor.key().is_empty() && cursor.value().is_empty());
    check!(cursor.first() => "b");
    for key in ["ba", "bb", "c", "d", "da", "e", "", ""] {
        check!(cursor.next() => key);
    }
    check!(cursor.prev() => "");
    check!(cursor.last() => "e");
    for key in ["da", "d", "c", "bb", "ba", "b", "", ""] {
        check!(cursor.prev() => key);
    }
    check!(cursor.next() => "");
    check!(cursor.seek("bb") => "bb");
    check!(cursor.seek("bba") => "c");
    check!(cursor.seek("") => "b");
    check!(cursor.seek("f") => "");
    check!(cursor.seek_before("c") => "bb");
}

pub fn stay_inside_their_range(engine: &dyn Engine) {
    fill(engine);
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let mut cursor = snapshot
        .cursor(KeyRange::new("ba", "da"))
        .expect("a cursor opens");
    check!(cursor.first() => "ba");
    check!(cursor.prev() => "");
    check!(cursor.last() => "d");
    check!(cursor.next() => "");
    check!(cursor.seek("a") => "ba");
    check!(cursor.seek("da") => "");
    check!(cursor.seek("cz") => "d");
    check!(cursor.seek("zz") => "");

    let mut cursor = snapshot
        .cursor(KeyRange::new("bab", "dab"))
        .expect("a cursor opens");
    check!(cursor.first() => "bb");
    check!(cursor.last() => "da");

    let mut cursor = snapshot
        .cursor(KeyRange::prefix(b"d"))
        .expect("a cursor opens");
    check!(cursor.first() => "d");
    check!(cursor.next() => "da");
    check!(cursor.next() => "");

    let mut cursor = snapshot
        .cursor(KeyRange::new("d", ""))
        .expect("a cursor opens");
    check!(cursor.last() => "e");
    check!(cursor.seek_before("e") => "da");
    check!(cursor.prev() => "d");
    check!(cursor.prev() => "");
}

pub fn seek_before_at_the_edges(engine: &dyn Engine) {
    fill(engine);
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let mut cursor = snapshot
        .cursor(KeyRange::new("ba", "da"))
        .expect("a cursor opens");
    check!(cursor.seek_before("ba") => "");
    check!(cursor.seek_before("a") => "");
    check!(cursor.seek_before("") => "");
    check!(cursor.seek_before("baa") => "ba");
    check!(cursor.seek_before("bb") => "ba");
    check!(cursor.seek_before("da") => "d");
    check!(cursor.seek_before("daz") => "d");
    check!(cursor.seek_before("zz") => "d");
    let mut cursor = snapshot.cursor(KeyRange::all()).expect("a cursor opens");
    check!(cursor.seek_before("b") => "");
    check!(cursor.seek_before("e") => "da");
    check!(cursor.seek_before("ee") => "e");
    check!(cursor.seek_before(vec![0xff; 40]) => "e");
}

pub fn turn_round_anywhere(engine: &dyn Engine) {
    fill(engine);
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let mut cursor = snapshot
        .cursor(KeyRange::new("b", "e"))
        .expect("a cursor opens");
    check!(cursor.seek("bb") => "bb");
    check!(cursor.prev() => "ba");
    check!(cursor.next() => "bb");
    check!(cursor.next() => "c");
    check!(cursor.prev() => "bb");
    check!(cursor.prev() => "ba");
    check!(cursor.prev() => "b");
    check!(cursor.next() => "ba");
    check!(cursor.last() => "da");
    check!(cursor.prev() => "d");
    check!(cursor.next() => "da");
    check!(cursor.next() => "");
}

pub fn empty_and_absent_ranges(engine: &dyn Engine) {
    let nothing_stored = engine.snapshot().expect("a snapshot opens");
    fill(engine);
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let empty = [
        KeyRange::new("c", "c"),
        KeyRange::new("d", "b"),
        KeyRange::new("ca", "cz"),
        KeyRange::prefix(b"x"),
    ];
    let cursors = empty.into_iter().map(|range| snapshot.cursor(range));
    for cursor in cursors.chain([nothing_stored.cursor(KeyRange::all())]) {
        let mut cursor = cursor.expect("a cursor opens");
        check!(cursor.first() => "");
        check!(cursor.last() => "");
        check!(cursor.seek("c") => "");
        check!(cursor.seek_before("z") => "");
        check!(cursor.next() => "");
        check!(cursor.prev() => "");
    }
}

/// Bounds come from planners and may be longer than any key that is stored.
pub fn seek_with_keys_longer_than_any(engine: &dyn Engine) {
    let mut batch = WriteBatch::new();
    let longest = [b'm'; KEY_BYTES_MAX];
    batch.put(b"l", b"L");
    batch.put(&longest, b"M");
    batch.put(b"n", b"N");
    engine.write(&batch).expect("a batch is taken");
    let beyond = [b'm'; KEY_BYTES_MAX + 9];
    let snapshot = engine.snapshot().expect("a snapshot opens");
    assert!(!snapshot.get(&beyond, &mut |_| ()).expect("a get answers"));
    for range in [
        KeyRange::all(),
        KeyRange::new("l", "nn"),
        KeyRange::new("", [b'n'; KEY_BYTES_MAX + 5]),
    ] {
        let mut cursor = snapshot.cursor(range).expect("a cursor opens");
        check!(cursor.seek(beyond) => "n");
        cursor.seek_before(&beyond).expect("a cursor moves");
        assert_eq!(cursor.key(), longest);
        check!(cursor.prev() => "l");
    }
    let mut cursor = snapshot
        .cursor(KeyRange::new(beyond, ""))
        .expect("a cursor opens");
    check!(cursor.first() => "n");
    check!(cursor.prev() => "");
    let mut cursor = snapshot
        .cursor(KeyRange::new("", beyond))
        .expect("a cursor opens");
    cursor.last().expect("a cursor moves");
    assert_eq!(cursor.key(), longest);
    check!(cursor.next() => "");
}
