//! The index entries of one piece of documents: their keys and values in one buffer, and the order to write them in.

use std::ops::Range;

use quarry_keystring::TypeBits;
use smallvec::SmallVec;

/// One entry: where its key and value lie in `KeyBuffer::bytes`.
#[derive(Debug, Clone)]
pub struct Entry {
    pub index: u16,
    /// Which document of a piece it belongs to.
    pub document: u32,
    pub key: Range<u32>,
    pub value: Range<u32>,
}

/// The bytes that the entries of a document that comes may take, those of all indexes together. A compound index with arrays can
/// ask for far more than the document has. With this bound a record of the journal holds what goes and what comes of one
/// change, and its documents.
const COMING_BYTES_MAX: usize = 80 * 1024 * 1024;
/// A document that is stored has a bound of its own, so that whatever an index was built over can go again: indexes that are
/// built see to it (`build::piece`), and the rest of a record is room for what stands beside each entry.
const STANDING_BYTES_MAX: usize = 192 * 1024 * 1024;

/// Entries of one piece, in a buffer that is kept between pieces.
pub struct KeyBuffer {
    pub bytes: Vec<u8>,
    pub entries: Vec<Entry>,
    pub(crate) bits: TypeBits,
    /// The document whose entries are made may fill `bytes` up to here.
    pub(super) bytes_max: usize,
}

impl Default for KeyBuffer {
    fn default() -> KeyBuffer {
        KeyBuffer {
            bytes: Vec::new(),
            entries: Vec::new(),
            bits: TypeBits::default(),
            bytes_max: COMING_BYTES_MAX,
        }
    }
}

impl KeyBuffer {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.bytes_max = COMING_BYTES_MAX;
    }

    /// From here on the entries are those of another document, which comes.
    #[inline]
    pub fn begin_coming(&mut self) {
        self.bytes_max = self.bytes.len() + COMING_BYTES_MAX;
    }

    /// Like `begin_coming`, of a document that has so many bytes of entries elsewhere.
    pub fn begin_coming_beside(&mut self, elsewhere: usize) {
        self.bytes_max = self.bytes.len() + COMING_BYTES_MAX.saturating_sub(elsewhere);
    }

    /// From here on the entries are those of another document, which is stored.
    #[inline]
    pub fn begin_standing(&mut self) {
        self.bytes_max = self.bytes.len() + STANDING_BYTES_MAX;
    }

    pub fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.key.start as usize..entry.key.end as usize]
    }

    pub fn value(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.value.start as usize..entry.value.end as usize]
    }

    /// The entries of one document of a piece whose entries were made in the order of its documents.
    pub fn of_document(&self, document: usize) -> &[Entry] {
        let number = |entry: &Entry| entry.document as usize;
        let begin = self
            .entries
            .partition_point(|entry| number(entry) < document);
        let rest = &self.entries[begin..];
        &rest[..rest.partition_point(|entry| number(entry) == document)]
    }

    /// The places of the entries, index by index, and those of one index by the first bytes of their keys: an engine
    /// finds where a key goes next to where its neighbour went, and need not have them in order to the last byte.
    pub fn places_by_index(&self) -> Vec<u32> {
        let mut ends: SmallVec<[usize; 64]> = SmallVec::new();
        for entry in &self.entries {
            let number = usize::from(entry.index);
            if number >= ends.len() {
                ends.resize(number + 1, 0);
            }
            ends[number] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        let mut places = vec![(0, 0); self.entries.len()];
        for (place, entry) in (0..).zip(&self.entries) {
            let end = &mut ends[usize::from(entry.index)];
            places[*end] = (first_bytes(&self.bytes[entry.key.start as usize..]), place);
            *end += 1;
        }
        let mut begin = 0;
        for end in ends {
            places[begin..end].sort_unstable();
            begin = end;
        }
        places.into_iter().map(|(_, place)| place).collect()
    }
}

/// The first bytes of a key and, where it is shorter, of what follows it.
fn first_bytes(bytes: &[u8]) -> u128 {
    bytes
        .first_chunk()
        .map_or(0, |first| u128::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_index_by_index_and_by_the_first_bytes_of_keys() {
        let mut buffer = KeyBuffer::default();
        let padding = [0; 16];
        for (index, key) in [
            (0, "a3"),
            (3, "d2"),
            (3, "d1"),
            (0, "a1"),
            (1, "b1"),
            (0, "a2"),
            (3, "d3"),
        ] {
            let start = buffer.bytes.len() as u32;
            buffer.bytes.extend_from_slice(key.as_bytes());
            buffer.bytes.extend_from_slice(&padding);
            let end = start + 2;
            buffer.entries.push(Entry {
                index,
                document: 0,
                key: start..end,
                value: end..end,
            });
        }
        let keys = |buffer: &KeyBuffer| -> Vec<String> {
            let places = buffer.places_by_index();
            let entries = places.iter().map(|&place| &buffer.entries[place as usize]);
            let key = |entry| String::from_utf8(buffer.key(entry).to_vec()).unwrap();
            entries.map(key).collect()
        };
        assert_eq!(keys(&buffer), ["a1", "a2", "a3", "b1", "d1", "d2", "d3"]);
        // The last key ends with the buffer: it is there all the same.
        buffer.bytes.truncate(buffer.bytes.len() - padding.len());
        let mut sorted = keys(&buffer);
        sorted.sort();
        assert_eq!(sorted, ["a1", "a2", "a3", "b1", "d1", "d2", "d3"]);
        buffer.clear();
        assert_eq!(buffer.places_by_index(), Vec::<u32>::new());
    }
}
