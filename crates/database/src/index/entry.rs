//! The bytes of an index entry: what a key and its value say, and how a key that is too long is cut.
//!
//! An engine takes keys of `KEY_BYTES_MAX` bytes. A longer index key stands by its first `CUT_BYTES` and the first 128
//! bits of the SHA-256 of the whole key; the whole key stands in the value (docs/formats/keyspace.md). The first byte
//! of such a value is one that the value of a whole key never begins with.
//!
//! Keeps true: keys order as their first `CUT_BYTES` do, cut or whole, so that a range whose ends are cut there too
//! (`meeting_cut_keys`) misses nothing that belongs to it; what else it meets, the filter drops when the document is
//! fetched. Two keys that differ behind the cut have no order: an index with a cut key is marked and gives none. Keys
//! of a unique index are equal where their hashes are: nobody makes two keys with one SHA-256, and if somebody did,
//! the second would be refused as a duplicate, since no entry is ever put over another document's.

use quarry_keystring::{Direction, prefix_end};
use quarry_storage::{KEY_BYTES_MAX, KeyRange};
use sha2::{Digest, Sha256};

use crate::index::definition::Index;
use crate::keyspace::varint::{read_len, write_len};

const HASH_BYTES: usize = 16;
/// How many bytes of the whole key a cut one keeps.
const CUT_BYTES: usize = KEY_BYTES_MAX - HASH_BYTES;
/// How the values of cut keys begin: of a unique index, a record key of no bytes; of another one, a tag that type bits
/// do not have.
const CUT_UNIQUE: u8 = 0x00;
const CUT: u8 = 0x07;

/// The parts of an entry.
pub struct IndexEntry<'e> {
    /// The KeyString of the fields.
    pub fields: &'e [u8],
    /// The record key without its prefix.
    pub record_key: &'e [u8],
    /// The type bits of the fields and, in a clustered collection, of the `_id` that the record key is.
    pub type_bits: &'e [u8],
}

impl<'e> IndexEntry<'e> {
    /// None if an entry of `index` cannot have these bytes.
    pub fn parse(index: &Index, key: &'e [u8], value: &'e [u8]) -> Option<IndexEntry<'e>> {
        let marker = if index.unique_entries {
            CUT_UNIQUE
        } else {
            CUT
        };
        if let [first, rest @ ..] = value
            && *first == marker
        {
            return parse_cut(rest);
        }
        let rest = key.strip_prefix(index.prefix.as_bytes())?;
        if index.unique_entries {
            let (record_key, type_bits) = split_unique_value(value)?;
            return Some(IndexEntry {
                fields: rest,
                record_key,
                type_bits,
            });
        }
        let mut fields_bytes = 0;
        for field in &index.pattern.fields {
            if field.is_wildcard {
                let rest = rest.get(fields_bytes..)?;
                fields_bytes += quarry_keystring::skip_value(rest, Direction::Ascending).ok()?;
            }
            let rest = rest.get(fields_bytes..)?;
            fields_bytes += quarry_keystring::skip_value(rest, field.direction).ok()?;
        }
        let (fields, record_key) = rest.split_at_checked(fields_bytes)?;
        Some(IndexEntry {
            fields,
            record_key,
            type_bits: value,
        })
    }
}

/// The record key that a unique entry's value names, and the type bits behind it.
pub fn split_unique_value(value: &[u8]) -> Option<(&[u8], &[u8])> {
    if let [CUT_UNIQUE, rest @ ..] = value {
        let entry = parse_cut(rest)?;
        return Some((entry.record_key, entry.type_bits));
    }
    take_sized(value)
}

fn parse_cut(rest: &[u8]) -> Option<IndexEntry<'_>> {
    let (fields, rest) = take_sized(rest)?;
    let (record_key, type_bits) = take_sized(rest)?;
    Some(IndexEntry {
        fields,
        record_key,
        type_bits,
    })
}

fn take_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = read_len(bytes)?;
    rest.split_at_checked(len)
}

/// Cuts the key that `bytes` holds from `start` on, its fields up to `fields` and all of it up to `end`; appends the
/// value, but for the type bits. Returns where the key ends and the value begins.
pub(crate) fn cut(
    bytes: &mut Vec<u8>,
    index: &Index,
    start: usize,
    (fields, end): (usize, usize),
    record_key: &[u8],
) -> usize {
    debug_assert!(
        end - start > KEY_BYTES_MAX,
        "only a key that is too long is cut"
    );
    let hash = Sha256::digest(&bytes[start..end]);
    let fields = bytes[start + index.prefix.as_bytes().len()..fields].to_vec();
    bytes.truncate(start + CUT_BYTES);
    bytes.extend_from_slice(&hash[..HASH_BYTES]);
    let key_end = bytes.len();
    debug_assert!(
        key_end - start == KEY_BYTES_MAX,
        "a cut key is as long as a key may be"
    );
    bytes.push(if index.unique_entries {
        CUT_UNIQUE
    } else {
        CUT
    });
    write_len(bytes, fields.len());
    bytes.extend_from_slice(&fields);
    write_len(bytes, record_key.len());
    bytes.extend_from_slice(record_key);
    key_end
}

/// The range of keys, cut or whole, that holds every entry whose whole key lies in `range`.
pub fn meeting_cut_keys(mut range: KeyRange) -> KeyRange {
    range.start.truncate(CUT_BYTES);
    if range.end.len() > CUT_BYTES {
        range.end = prefix_end(&range.end[..CUT_BYTES]);
    }
    range
}

/// Whether `meeting_cut_keys` widens the range, so that it takes in entries whose whole keys lie outside of it.
pub fn is_widened_by_cut_keys(range: &KeyRange) -> bool {
    range.start.len() > CUT_BYTES || range.end.len() > CUT_BYTES
}

/// Whether a stored key may be a cut one, or stand among cut ones that begin as it does: those are in the order of their hashes, not of
/// their whole keys. Behind any other key come only keys whose whole keys are greater than it.
pub fn may_stand_among_cut_keys(key: &[u8]) -> bool {
    key.len() >= CUT_BYTES
}

/// Whether a range made by `meeting_cut_keys` may hold cut keys.
pub fn may_meet_cut_keys(range: &KeyRange) -> bool {
    range.start.len() >= CUT_BYTES
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::keyspace::ident::Ident;

    fn index(unique: bool) -> Index {
        let spec = doc! { "key": { "a": 1 }, "unique": unique };
        Index::from_spec(spec.as_raw(), Ident(300)).unwrap()
    }

    /// The stored key and value of an index key with these fields.
    fn stored(index: &Index, fields: &[u8], record_key: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut bytes = b"before".to_vec();
        let start = bytes.len();
        bytes.extend_from_slice(index.prefix.as_bytes());
        bytes.extend_from_slice(fields);
        let fields_end = bytes.len();
        if !index.unique_entries {
            bytes.extend_from_slice(record_key);
        }
        let end = bytes.len();
        let key_end = cut(&mut bytes, index, start, (fields_end, end), record_key);
        bytes.extend_from_slice(b"bits");
        (bytes[start..key_end].to_vec(), bytes[key_end..].to_vec())
    }

    #[test]
    fn a_cut_entry_gives_back_its_parts_and_cut_short_is_refused() {
        for unique in [false, true] {
            let index = index(unique);
            let fields = vec![0x48; 5000];
            let (key, value) = stored(&index, &fields, b"record");
            assert_eq!(key.len(), KEY_BYTES_MAX);
            assert_eq!(&key[..2], index.prefix.as_bytes().get(..2).unwrap());
            let entry = IndexEntry::parse(&index, &key, &value).unwrap();
            assert_eq!(entry.fields, fields);
            assert_eq!(entry.record_key, b"record");
            assert_eq!(entry.type_bits, b"bits");
            for short in 0..value.len() - 4 {
                assert!(IndexEntry::parse(&index, &key, &value[..short]).is_none());
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let index = index(true);
        let fields = vec![0x48; 3000];
        let (key, value) = stored(&index, &fields, b"\x36\x02");
        let whole = [index.prefix.as_bytes(), &fields].concat();
        assert_eq!(key[..2006], whole[..2006]);
        assert_eq!(key[2006..], Sha256::digest(&whole)[..16]);
        assert_eq!(value[..3], [0x00, 0xB8, 0x17], "3000 is B8 17");
        assert_eq!(value[3..3003], fields);
        assert_eq!(value[3003..], *b"\x02\x36\x02bits");
    }

    #[test]
    fn ranges_are_widened_behind_the_cut_only() {
        let short = KeyRange::new(vec![1; 10], vec![2; CUT_BYTES]);
        let same = meeting_cut_keys(short.clone());
        assert!(!is_widened_by_cut_keys(&short));
        assert_eq!((same.start, same.end), (short.start, short.end));
        let long = KeyRange::new(vec![1; 3000], vec![1; 3001]);
        assert!(is_widened_by_cut_keys(&long));
        let wide = meeting_cut_keys(long);
        assert_eq!(wide.start, vec![1; CUT_BYTES]);
        assert_eq!(wide.end, [vec![1; CUT_BYTES - 1], vec![2]].concat());
    }
}
