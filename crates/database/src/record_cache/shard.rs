//! One shard of the cache: a ring of bytes that records are appended to, and a table of where they stand.
//!
//! ```text
//! ring     units of 16 bytes; a record = group u64 LE | key bytes u32 LE | document bytes u32 LE | key | document
//! table    buckets of one cache line, 8 places each; a place = position (40 bits) | hash (24 bits), 0 = free
//! ```
//! A position counts all units that were ever appended, so that a place whose record was overwritten is known by its age.
//! A record that is found in the older half of the ring is appended again: what is asked for stays. A write touches the
//! end of the ring and one bucket, a read one bucket and the record; nothing is allocated or freed.

/// Two units hold the header of a record and some of its key.
const UNIT_BYTES: usize = 16;
const HEADER_BYTES: usize = 16;
const PLACES: usize = 8;
/// The table has a place for so many bytes of the ring: more than records need, so that few buckets overflow.
const RING_BYTES_A_PLACE: usize = 64;
const HASH_BITS: u32 = 24;
const HASH_MASK: u64 = (1 << HASH_BITS) - 1;
const POSITION_MAX: u64 = 1 << (64 - HASH_BITS);
/// A record that takes a larger part of the ring than this is not kept.
const RING_PARTS: u64 = 4;

pub(super) struct Shard {
    ring: Vec<u8>,
    /// Buckets, one after another.
    table: Vec<u64>,
    /// The position behind the last record. The first lap begins at the length of the ring, so that no position is 0.
    next: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// A record where it stands.
struct Held<'r> {
    group: u64,
    key: &'r [u8],
    document: &'r [u8],
}

impl Shard {
    /// A shard of about so many bytes. The memory is taken as it is used.
    pub(super) fn new(bytes: usize) -> Shard {
        let units = (bytes / UNIT_BYTES).max(1);
        let places = (bytes / RING_BYTES_A_PLACE).max(1);
        let buckets = places.div_ceil(PLACES).next_power_of_two();
        Shard {
            ring: vec![0; units * UNIT_BYTES],
            table: vec![0; buckets * PLACES],
            next: units as u64,
            hits: 0,
            misses: 0,
        }
    }

    /// Appends the document to `copy` and says which group it is of.
    pub(super) fn find(&mut self, hash: u64, key: &[u8], copy: &mut Vec<u8>) -> Option<u64> {
        let place = self.place_of(hash)?;
        let position = self.table[place] >> HASH_BITS;
        let held = self.held(position).filter(|held| held.key == key)?;
        copy.extend_from_slice(held.document);
        let group = held.group;
        if self.next - position > self.units() / 2
            && let Some(position) = self.append(group, key, copy)
        {
            self.table[place] = place_value(position, hash);
        }
        Some(group)
    }

    /// Forgets the record, and with it one whose key has the same hash.
    pub(super) fn forget(&mut self, hash: u64) {
        if let Some(place) = self.place_of(hash) {
            self.table[place] = 0;
        }
    }

    pub(super) fn keep(&mut self, hash: u64, key: &[u8], document: &[u8], group: u64) {
        let place = self.place_for(hash);
        self.table[place] = self
            .append(group, key, document)
            .map_or(0, |position| place_value(position, hash));
    }

    pub(super) fn clear(&mut self) {
        self.table.fill(0);
        self.next = self.units();
    }

    /// Memory of the ring in use.
    pub(super) fn bytes(&self) -> usize {
        let units = (self.next - self.units()).min(self.units());
        units as usize * UNIT_BYTES
    }

    /// The keys and documents held.
    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let places = self.table.iter().filter(|place| **place != 0);
        let held = places.filter_map(|place| self.held(place >> HASH_BITS));
        held.map(|held| (held.key, held.document))
    }

    fn units(&self) -> u64 {
        (self.ring.len() / UNIT_BYTES) as u64
    }

    fn bucket(&self, hash: u64) -> std::ops::Range<usize> {
        let buckets = self.table.len() / PLACES;
        let first = (hash >> HASH_BITS) as usize % buckets * PLACES;
        first..first + PLACES
    }

    fn place_of(&self, hash: u64) -> Option<usize> {
        self.bucket(hash).find(|&place| {
            let value = self.table[place];
            value != 0 && value & HASH_MASK == hash & HASH_MASK
        })
    }

    /// The place of the same hash, else the one whose record is the oldest or none.
    fn place_for(&self, hash: u64) -> usize {
        self.place_of(hash).unwrap_or_else(|| {
            let oldest = self.bucket(hash).min_by_key(|&place| self.table[place]);
            oldest.expect("a bucket has places")
        })
    }

    /// The record at a position, unless it has been overwritten.
    fn held(&self, position: u64) -> Option<Held<'_>> {
        if self.next > position + self.units() {
            return None;
        }
        let at = (position % self.units()) as usize * UNIT_BYTES;
        let (group, rest) = self.ring[at..].split_first_chunk()?;
        let (key_bytes, rest) = rest.split_first_chunk()?;
        let (document_bytes, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_bytes) as usize)?;
        Some(Held {
            group: u64::from_le_bytes(*group),
            key,
            document: rest.get(..u32::from_le_bytes(*document_bytes) as usize)?,
        })
    }

    /// Writes a record behind the last one; none if it is too large.
    fn append(&mut self, group: u64, key: &[u8], document: &[u8]) -> Option<u64> {
        let bytes = HEADER_BYTES + key.len() + document.len();
        let (taken, units) = (bytes.div_ceil(UNIT_BYTES) as u64, self.units());
        if taken > units / RING_PARTS {
            return None;
        }
        // A record is in one piece.
        if self.next % units + taken > units {
            self.next = self.next.next_multiple_of(units);
        }
        if self.next + taken > POSITION_MAX {
            self.clear();
        }
        let position = self.next;
        debug_assert!(
            position >= units && position % units + taken <= units,
            "a record stands in one piece, and no position is 0"
        );
        let at = (position % units) as usize * UNIT_BYTES;
        let (header, rest) = self.ring[at..].split_at_mut(HEADER_BYTES);
        header[..8].copy_from_slice(&group.to_le_bytes());
        header[8..12].copy_from_slice(&u32::try_from(key.len()).ok()?.to_le_bytes());
        header[12..].copy_from_slice(&u32::try_from(document.len()).ok()?.to_le_bytes());
        rest[..key.len()].copy_from_slice(key);
        rest[key.len()..][..document.len()].copy_from_slice(document);
        self.next = position + taken;
        Some(position)
    }
}

fn place_value(position: u64, hash: u64) -> u64 {
    position << HASH_BITS | hash & HASH_MASK
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A shard beside what it was told last of each key: it may have forgotten that, but says nothing else.
    #[test]
    fn whatever_comes_and_goes_a_record_is_whole_and_the_last_one() {
        for bytes in [0, 16, 300, 4_000, 20_000] {
            let mut shard = Shard::new(bytes);
            let mut told: HashMap<Vec<u8>, (u64, u64, Vec<u8>)> = HashMap::new();
            let (mut found, mut random) = (0, 7u64);
            for turn in 0..30_000u64 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let draw = random >> 33;
                let key = vec![(draw % 61) as u8; 1 + (draw % 61) as usize];
                // Few hashes: keys meet in buckets, and some share one hash.
                let hash = (draw % 61 % 40) << 22;
                match draw / 61 % 8 {
                    0 => {
                        shard.forget(hash);
                        told.retain(|_, (other, ..)| *other != hash);
                    }
                    1..=3 => {
                        let document = vec![turn as u8; (draw >> 9) as usize % 400];
                        shard.keep(hash, &key, &document, turn);
                        told.insert(key, (hash, turn, document));
                    }
                    _ => {
                        let mut copy = Vec::new();
                        let group = shard.find(hash, &key, &mut copy);
                        found += u32::from(group.is_some());
                        match (group, told.get(&key)) {
                            (None, _) => assert!(copy.is_empty()),
                            (Some(group), Some((_, turn, document))) => {
                                assert_eq!((group, &copy), (*turn, document));
                            }
                            (Some(group), None) => panic!("group {group} of a forgotten key"),
                        }
                    }
                }
                assert!(shard.bytes() <= bytes.max(UNIT_BYTES));
            }
            assert_eq!(
                found > 1_000,
                bytes >= 4_000,
                "{found} found in {bytes} bytes"
            );
        }
    }

    #[test]
    fn positions_begin_again_before_they_run_out() {
        let mut shard = Shard::new(4_000);
        shard.keep(1, b"old", b"1", 1);
        shard.next = POSITION_MAX - 3;
        shard.keep(2, b"new", b"2", 2);
        let mut copy = Vec::new();
        assert_eq!(shard.find(2, b"new", &mut copy), Some(2));
        assert_eq!(shard.find(1, b"old", &mut Vec::new()), None);
        assert_eq!(copy, b"2");
    }
}
