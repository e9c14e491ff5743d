//! The fields of one document that the indexes of its collection need: a slot for each first path component that any of them
//! names, and the texts among them, encoded once where most slots are fields of several indexes.

use quarry_bson::{ElementType, RawDocument, RawElement, RawValue};
use quarry_keystring::encode_text;
use smallvec::SmallVec;

/// The bytes that the key of one field is taken to need when room is made for it.
pub const VALUE_BYTES: usize = 12;

/// The values of the first path components that indexes name, as found in one document.
pub type Slots<'a> = SmallVec<[Option<RawElement<'a>>; 16]>;

/// Large with its slots: whoever makes one makes it in its place and does not move it.
#[derive(Default)]
pub struct Found<'a> {
    pub slots: Slots<'a>,
    /// The document, which partial indexes ask their filters of; none before it was walked.
    pub document: Option<RawDocument<'a>>,
    texts: Option<Box<Texts>>,
}

/// By slot where its text begins and how many bytes it takes: none where there is no text.
struct Texts {
    bytes: Vec<u8>,
    places: SmallVec<[(u32, u32); 32]>,
}

impl<'a> Found<'a> {
    /// Encodes its texts, once for all indexes.
    pub fn encode_texts(&mut self) {
        self.texts = Some(Box::new(Texts::of(&self.slots)));
    }

    /// The text of a slot as `encode_text` appends it, at the begin of these bytes, and how many it takes.
    #[inline]
    pub fn encoded_text(&self, slot: usize) -> Option<(&[u8], usize)> {
        let texts = self.texts.as_ref()?;
        let &(start, key_bytes) = texts.places.get(slot)?;
        if key_bytes == 0 {
            return None;
        }
        Some((&texts.bytes[start as usize..], key_bytes as usize))
    }
}

impl Texts {
    fn of(slots: &Slots<'_>) -> Texts {
        let mut bytes = Vec::with_capacity(slots.len() * VALUE_BYTES);
        let mut places = SmallVec::with_capacity(slots.len());
        let mut start = 0;
        for found in slots {
            if let Some(element) = found
                && element.element_type() == ElementType::String
                && let RawValue::String(text) = element.value()
            {
                encode_text(&mut bytes, text);
            }
            let end = u32::try_from(bytes.len()).expect("the texts of one document, escaped");
            places.push((start, end - start));
            start = end;
        }
        Texts { bytes, places }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{ObjectId, Value, doc};
    use quarry_keystring::{Direction, TypeBits, encode_id, encode_value};

    use super::Found;
    use crate::index::definition::Index;
    use crate::index::key_buffer::KeyBuffer;
    use crate::index::keys::{KeyGenerator, Target};
    use crate::keyspace::ident::Ident;

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
            doc! { "_id": "text", "a": "sixteen with key", "b": "one more than that", "c": "fourteen bytes" },
        ] {
            let target = Target {
                document: 0,
                record_key: b"key",
                id: document.as_raw().get("_id"),
            };
            let mut for_all = Found::default();
            generator.extract_for_all(document.as_raw(), &mut for_all);
            let [one, all] = [generator.extract(document.as_raw()), for_all].map(|found| {
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

    /// Whatever type the `_id` has, and whether its type bits are worked out or known to be none.
    #[test]
    fn an_entry_ends_in_the_record_key_and_keeps_the_types_of_field_and_id() {
        let spec = doc! { "key": { "a": 1 } };
        let index = Index::from_spec(spec.as_raw(), Ident(300)).unwrap();
        let generator = KeyGenerator::new(std::slice::from_ref(&index));
        let ids: [Value; 6] = [
            7.into(),
            7_i64.into(),
            7.5.into(),
            "a text".into(),
            doc! { "x": 1_i64, "y": "text" }.into(),
            ObjectId::from_bytes([9; 12]).into(),
        ];
        for id in ids {
            let document = doc! { "_id": id, "a": 2.0 };
            let id = document.as_raw().get("_id").unwrap();
            let (mut record_key, mut buffer) = (Vec::new(), KeyBuffer::default());
            encode_id(&mut record_key, id);
            let target = Target {
                document: 0,
                record_key: &record_key,
                id: Some(id),
            };
            let mut found = Found::default();
            generator.extract_for_all(document.as_raw(), &mut found);
            generator
                .entries(0, &index, &found, target, &mut buffer)
                .unwrap();
            let (mut key, mut bits) = (index.prefix.as_bytes().to_vec(), TypeBits::new());
            for name in ["a", "_id"] {
                let value = document.as_raw().get(name).unwrap();
                encode_value(&mut key, &mut bits, value, Direction::Ascending);
            }
            let entry = &buffer.entries[0];
            assert_eq!(buffer.key(entry), key, "{document}");
            assert_eq!(buffer.value(entry), bits.as_bytes(), "{document}");
            assert!(key.ends_with(&record_key), "{document}");
        }
    }
}
