//! Empty timestamps: `Timestamp(0, 0)` in a top-level field other than `_id` asks for the time of its storing, in inserts
//! and replacements, as MongoDB's manual says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_bson::{
    Document, DocumentBuilder, ElementType, RawDocument, RawElement, RawValue, Timestamp,
};

/// Whether the element is one that asks.
pub(crate) fn asks(element: RawElement<'_>) -> bool {
    element.element_type() == ElementType::Timestamp
        && element.value() == RawValue::Timestamp(EMPTY)
        && element.name() != "_id"
}

const EMPTY: Timestamp = Timestamp {
    time: 0,
    increment: 0,
};

/// At the end of an empty timestamp.
const ZEROS: usize = 9;
/// Compared at once.
const BLOCK_BYTES: usize = 128;

/// Whether one may stand among these elements, at a small part of the cost of looking at each. It is nine zeros, the end
/// of its name and its value. Four of them begin at a multiple of four: words are compared many at once, and only where
/// one is zero the bytes around it are counted.
pub(crate) fn may_hold_one(elements: &[u8]) -> bool {
    elements
        .chunks(BLOCK_BYTES)
        .enumerate()
        .any(|(block, bytes)| {
            let words = bytes.as_chunks::<4>().0;
            let zeros = words.iter().fold(0, |zeros, word| {
                zeros | u32::from(u32::from_ne_bytes(*word) == 0)
            });
            zeros != 0
                && words.iter().enumerate().any(|(place, word)| {
                    *word == [0; 4]
                        && zeros_around(elements, block * BLOCK_BYTES + place * 4) >= ZEROS
                })
        })
}

/// How many zeros in a row there are around a place, up to `ZEROS` on each side.
fn zeros_around(bytes: &[u8], place: usize) -> usize {
    let is_zero = |byte: &&u8| **byte == 0;
    let (before, from) = bytes.split_at(place);
    before.iter().rev().take(ZEROS).take_while(is_zero).count()
        + from.iter().take(ZEROS).take_while(is_zero).count()
}

/// Appends the element, with the time in it if it asks.
pub(crate) fn append(builder: &mut DocumentBuilder<'_>, element: RawElement<'_>) {
    if asks(element) {
        builder.append(element.name(), RawValue::Timestamp(next()));
    } else {
        builder.append_element(element);
    }
}

/// The document with the time where it asks; None where it does not.
pub(crate) fn filled(document: RawDocument<'_>) -> Option<Document> {
    document.iter().any(asks).then(|| {
        Document::build(|builder| {
            for element in document {
                append(builder, element);
            }
        })
    })
}

/// The time in seconds with a counter: no two are alike, and each is later than those before it.
fn next() -> Timestamp {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let later = |last: u64| (last + 1).max(seconds << 32 | 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(later(last))
    });
    let next = last.map_or(seconds << 32 | 1, later);
    Timestamp {
        time: (next >> 32) as u32,
        increment: next as u32,
    }
}
