//! The documents of the workloads: *simple* (about 150 bytes) and *complex* (about 800 bytes, eleven indexes).
//!
//! The same shapes stand in `crud.py`, which sends them; the canned replies and the compiled clients use these.

use quarry_bson::{Document, Value, doc};

const DATA: &str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv";

/// `{_id: "prefix_seq", seq, data: 100 characters}`.
pub fn simple(prefix: &str, seq: u64) -> Document {
    doc! { "_id": (simple_id(prefix, seq)), "seq": (seq as i64), "data": DATA }
}

/// The `_id` of the document with this number.
pub fn simple_id(prefix: &str, seq: u64) -> String {
    format!("{prefix}_{seq}")
}

/// A document of the complex workload: a unique triple and thirty-odd fields that compound indexes name.
pub fn complex(seq: u64) -> Document {
    let mut document = Document::new();
    document.append("_id", format!("c_{seq}"));
    document.append("bn", format!("branch-{:03}", seq % 100));
    document.append("on", seq as i64);
    document.append("vi", (seq % 7) as i32);
    for field in 0..30_u64 {
        document.append(
            format!("f{field:02}"),
            format!("v{:08}", seq.wrapping_mul(field + 31) % 1_000_003),
        );
    }
    document.append("amount", seq as f64 * 1.25);
    document.append("note", "a note that no index ever names ".repeat(4));
    document
}

/// The definitions of ten indexes over the fields of a complex document, three fields each.
pub fn ten_indexes() -> Vec<Value> {
    (0..10)
        .map(|index| {
            let mut key = Document::new();
            for field in [index * 3, index * 3 + 1, index * 3 + 2] {
                key.append(format!("f{field:02}"), 1);
            }
            doc! { "key": key, "name": format!("index{index}") }.into()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_the_workloads_name() {
        assert!((130..=170).contains(&simple("bench", 123_456).as_bytes().len()));
        assert!(
            (750..=900).contains(&complex(123_456).as_bytes().len()),
            "{}",
            complex(1).as_bytes().len()
        );
    }
}
