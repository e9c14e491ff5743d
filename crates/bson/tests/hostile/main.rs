//! Damaged documents and text, from a fixed seed, through everything that reads them: a short run of what the
//! fuzz targets do for longer.

mod entries;

use quarry_bson::{
    Decimal128, Document, ObjectId, RawCodeWithScope, RawDbPointer, RawDocument, RawRegex,
    RawValue, Timestamp, Value, doc,
};

const ROUNDS: usize = 6_000;

#[test]
fn damaged_documents_harm_nothing() {
    let sound = seeds();
    let mut random = Random(7);
    for round in 0..ROUNDS {
        let seed = &sound[round % sound.len()];
        let damaged = random.damage(seed.as_bytes());
        entries::decode(&damaged);
        entries::iterate(&damaged);
        entries::validate(&damaged);
        entries::field_set(&damaged);
        entries::differential(&damaged);
        entries::order(seed.as_bytes(), &damaged);
    }
}

#[test]
fn damaged_text_harms_nothing() {
    let texts: Vec<String> = seeds()
        .iter()
        .flat_map(|d| {
            [
                quarry_bson::extjson::canonical(d.as_raw()),
                quarry_bson::extjson::relaxed(d.as_raw()),
                d.to_string(),
            ]
        })
        .collect();
    let mut random = Random(11);
    for round in 0..ROUNDS {
        let damaged = random.damage(texts[round % texts.len()].as_bytes());
        entries::extended_json(&String::from_utf8_lossy(&damaged));
    }
}

fn seeds() -> Vec<Document> {
    let id = ObjectId::from_bytes([7; 12]);
    let all = doc! {
        "double": 1.5, "string": "text äöü", "a": { "b": { "c": [1, 2] } }, "l": [1, "two", [3.0]],
        "binary": Value::binary(0, b"abc"), "old binary": Value::binary(2, &[1, 0, 0, 0, 9]), "undefined": Value::undefined(),
        "id": id, "bool": true, "date": Value::date_time(1), "null": null,
        "regex": RawRegex { pattern: "a.b".into(), options: "im".into() },
        "pointer": RawValue::DbPointer(RawDbPointer { namespace: "db.c".into(), id }),
        "code": RawValue::JavaScript("x".into()), "symbol": RawValue::Symbol("s".into()),
        "scoped": RawValue::JavaScriptWithScope(RawCodeWithScope { code: "y".into(), scope: RawDocument::EMPTY }),
        "int": 7, "timestamp": Timestamp { time: 1, increment: 2 }, "long": 1i64 << 40,
        "decimal": Decimal128::parse("1.50").unwrap(), "min": Value::min_key(), "max": Value::max_key(),
    };
    vec![
        all,
        doc! {},
        doc! { "a": 1, "b": "x", "a": 2 },
        doc! { "numbers": [1, 1.0, 1i64, 0.1, (f64::NAN)], "nested": { "a": { "a": { "a": {} } } } },
        doc! { "a name of more than eight bytes": "text", "another name of many bytes": 1, "eightlen": null },
    ]
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) as usize % limit.max(1)
    }

    /// Bytes changed, cut out, doubled or cut off; half the time the length header is made to fit again.
    fn damage(&mut self, sound: &[u8]) -> Vec<u8> {
        const TELLING: [u8; 12] = [0, 1, 2, 3, 4, 5, 0x0b, 0x0f, 0x7f, 0x80, 0xff, b'$'];
        let mut bytes = sound.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 | 1 => bytes[at] = TELLING[self.below(TELLING.len())],
                2 => bytes[at] = bytes[at].wrapping_add(1),
                3 => bytes[at] ^= 1 << self.below(8),
                4 => drop(bytes.drain(at..bytes.len().min(at + 1 + self.below(9)))),
                _ => {
                    let piece = bytes[at..bytes.len().min(at + 1 + self.below(30))].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
            if bytes.is_empty() {
                return bytes;
            }
        }
        if self.below(2) == 0 && bytes.len() >= 5 {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
        }
        bytes
    }
}
