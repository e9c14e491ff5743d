//! What one document has for the indexes of its collection: a slot for each first path component that any of them
//! names, and the texts among them, encoded once where most slots are fields of several indexes.

use std::ops::Range;

use quarry_bson::{ElementType, RawElement, RawValue};
use quarry_keystring::{Direction, TypeBits, encode_value};
use smallvec::SmallVec;

use crate::index_keys::VALUE_BYTES;

/// The values of the first path components that indexes name, as found in one document.
pub type Slots<'a> = SmallVec<[Option<RawElement<'a>>; 16]>;

pub struct Found<'a> {
    pub slots: Slots<'a>,
    texts: Texts,
}

/// What an entry has for one field.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    Value(Option<RawValue<'a>>),
    /// A text as `encode_value` appends it, ascending.
    Text(&'a [u8]),
}

/// By slot; one without a text has an empty range, and so have all that lie behind the last.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ranges: SmallVec<[Range<u32>; 32]>,
}

impl<'a> Found<'a> {
    pub fn new(slots: Slots<'a>) -> Found<'a> {
        Found {
            slots,
            texts: Texts::default(),
        }
    }

    /// The same with its texts encoded.
    pub fn with_texts(self) -> Found<'a> {
        Found {
            texts: Texts::of(&self.slots),
            slots: self.slots,
        }
    }

    /// What a field stands for that is the whole of its slot.
    #[inline]
    pub fn part(&self, slot: usize) -> Part<'_> {
        match self.texts.get(slot) {
            Some(text) => Part::Text(text),
            None => Part::Value(self.slots[slot].map(|element| element.value())),
        }
    }
}

impl Texts {
    fn of(slots: &Slots<'_>) -> Texts {
        let mut texts = Texts {
            bytes: Vec::with_capacity(slots.len() * VALUE_BYTES),
            ranges: SmallVec::new(),
        };
        let mut bits = TypeBits::new();
        for found in slots {
            let start = texts.end();
            if let Some(element) = found
                && element.element_type() == ElementType::String
            {
                let (value, direction) = (element.value(), Direction::Ascending);
                encode_value(&mut texts.bytes, &mut bits, value, direction);
            }
            let end = texts.end();
            texts.ranges.push(start..end);
        }
        texts
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("the texts of one document, escaped")
    }

    #[inline]
    fn get(&self, slot: usize) -> Option<&[u8]> {
        let range = self.ranges.get(slot).filter(|range| !range.is_empty())?;
        Some(&self.bytes[range.start as usize..range.end as usize])
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use crate::ident::Ident;
    use crate::index::Index;
    use crate::index_keys::{KeyBuffer, KeyGenerator, Target};

    /// Texts with escapes, empty ones, numbers between them (whose types are counted), arrays, missing fields.
    #[test]
    fn texts_encoded_once_make_the_same_entries() {
        let keys = [
            doc! { "a": 1, "b": -1, "c": 1 },
            doc! { "c": -1, "b": 1, "a": -1 },
            doc! { "b": 1, "a": 1 },
            doc! { "a": 1, "c": 1, "d.e": 1 },
            doc! { "d": 1, "a": -1 },
        ];
        let indexes: Vec<Index> = (300..)
            .zip(keys)
            .map(|(ident, key)| {
                let spec = doc! { "key": key, "unique": (ident == 302) };
                Index::from_spec(spec.as_raw(), Ident(ident)).unwrap()
            })
            .collect();
        let generator = KeyGenerator::new(&indexes);
        for document in [
            doc! { "_id": 1, "a": "text", "b": "zero \0 one \u{1}", "c": "" },
            doc! { "_id": 2, "a": 1.5, "b": "b", "c": 7_i64, "d": { "e": "deep" } },
            doc! { "_id": 3, "a": ["x", "y"], "b": "b", "d": "plain" },
            doc! { "_id": 4, "b": "only" },
        ] {
            let target = Target {
                document: 0,
                record_key: b"key",
                id: document.as_raw().get("_id"),
            };
            let [one, all] = [
                generator.extract(document.as_raw()),
                generator.extract_for_all(document.as_raw()),
            ]
            .map(|found| {
                let mut buffer = KeyBuffer::default();
                for (number, index) in indexes.iter().enumerate() {
                    generator
                        .entries(number, index, &found, target, &mut buffer)
                        .unwrap();
                }
                let entry = |entry| (buffer.key(entry).to_vec(), buffer.value(entry).to_vec());
                buffer.entries.iter().map(entry).collect::<Vec<_>>()
            });
            assert!(one.len() >= indexes.len(), "{document}");
            assert_eq!(one, all, "{document}");
        }
    }
}
