//! A list of puts and deletes that an engine applies as one.
//!
//! The bytes are the form that goes into the journal:
//!
//! ```text
//! put     0x01  varint key length  key  varint value length  value
//! delete  0x00  varint key length  key
//! ```
//!
//! Lengths are unsigned LEB128 of at most five bytes. Operations count in order: a later one on
//! the same key wins. A batch in memory is always well formed; bytes from elsewhere pass through
//! [`WriteBatch::from_bytes`] or [`WriteBatch::extend_from_bytes`], which check every length.
//!
//! The batch notes on the way what an engine asks of it before a write: how many operations it has,
//! its longest key, and the applied LSN that it carries.

use crate::{APPLIED_LSN_KEY, Error, KEY_BYTES_MAX, Result};

const TAG_DELETE: u8 = 0x00;
const TAG_PUT: u8 = 0x01;
const VARINT_BYTES_MAX: usize = 5;
/// The most bytes that an operation takes beside its key and value.
const OP_BYTES_MAX: usize = 1 + 2 * VARINT_BYTES_MAX;

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'b> {
    /// Puts the value, which comes second, under the key.
    Put(&'b [u8], &'b [u8]),
    /// Deletes the key, if it is there.
    Delete(&'b [u8]),
}

impl<'b> Op<'b> {
    /// The key that is put or deleted.
    #[must_use]
    pub fn key(&self) -> &'b [u8] {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }
}

/// Puts and deletes, applied atomically and in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    op_count: usize,
    applied_lsn: Option<u64>,
    /// A key whose length no engine takes, kept so that the write can name it.
    bad_key_bytes: Option<usize>,
}

impl WriteBatch {
    /// A batch without operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Like `new`, with room for this many bytes of operations.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// A batch from its byte form, fully checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut batch = Self::new();
        batch.extend_from_bytes(bytes)?;
        Ok(batch)
    }

    /// Makes room for so many operations, their keys and values of `bytes` together.
    #[inline]
    pub fn reserve(&mut self, operations: usize, bytes: usize) {
        self.bytes.reserve(operations * OP_BYTES_MAX + bytes);
    }

    /// Appends a put. A key that no engine takes fails the write of the batch.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        Self::append_put(&mut self.bytes, key, value);
        self.note(Op::Put(key, value));
    }

    /// Appends a put to a batch that stands in its byte form elsewhere, such as in a record that is being written.
    #[inline]
    pub fn append_put(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        bytes.reserve(OP_BYTES_MAX + key.len() + value.len());
        push_head(bytes, TAG_PUT, key);
        push_slice(bytes, value);
    }

    /// Appends a delete. A key that no engine takes fails the write of the batch.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        push_head(&mut self.bytes, TAG_DELETE, key);
        self.note(Op::Delete(key));
    }

    /// Puts the applied LSN under its reserved key.
    pub fn put_applied_lsn(&mut self, lsn: u64) {
        self.put(APPLIED_LSN_KEY, &lsn.to_le_bytes());
    }

    /// Adds the operations of another batch after its own.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.op_count += other.op_count;
        self.applied_lsn = other.applied_lsn.or(self.applied_lsn);
        self.bad_key_bytes = self.bad_key_bytes.or(other.bad_key_bytes);
    }

    /// Adds operations in byte form. On an error the batch is as it was.
    pub fn extend_from_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let (op_count, applied_lsn, bad_key_bytes) =
            (self.op_count, self.applied_lsn, self.bad_key_bytes);
        let mut at = 0;
        while at < bytes.len() {
            let offset = at;
            let Some(op) = read_op(bytes, &mut at) else {
                (self.op_count, self.applied_lsn, self.bad_key_bytes) =
                    (op_count, applied_lsn, bad_key_bytes);
                return Err(Error::MalformedBatch { offset });
            };
            self.note(op);
        }
        // With room for the applied LSN: a buffer of megabytes that is doubled for it is copied once more.
        self.bytes
            .reserve(bytes.len() + OP_BYTES_MAX + APPLIED_LSN_KEY.len() + size_of::<u64>());
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The operations of a batch in its byte form, without making the batch. They end at the first that is broken.
    pub fn ops_in(bytes: &[u8]) -> impl Iterator<Item = Op<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || (at < bytes.len()).then(|| read_op(bytes, &mut at))?)
    }

    /// The operations in order.
    #[must_use]
    pub fn iter(&self) -> Ops<'_> {
        Ops {
            bytes: &self.bytes,
            at: 0,
            left: self.op_count,
        }
    }

    /// The batch in its byte form, as the journal keeps it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Like `as_bytes`, but gives the memory away.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Forgets the operations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.op_count = 0;
        self.applied_lsn = None;
        self.bad_key_bytes = None;
    }

    /// Operations in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.op_count
    }

    /// Whether there is no operation in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.op_count == 0
    }

    /// The length of its byte form.
    #[must_use]
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The applied LSN that the batch puts, if it does.
    #[must_use]
    pub fn applied_lsn(&self) -> Option<u64> {
        self.applied_lsn
    }

    /// Refuses keys that no engine takes; every engine asks before it writes anything.
    pub fn check_keys(&self) -> Result<()> {
        match self.bad_key_bytes {
            Some(key_bytes) => Err(Error::KeyLength { key_bytes }),
            None => Ok(()),
        }
    }

    #[inline]
    fn note(&mut self, op: Op<'_>) {
        self.op_count += 1;
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            self.bad_key_bytes = self.bad_key_bytes.or(Some(key.len()));
        }
        if let Op::Put(key, value) = op
            && key == APPLIED_LSN_KEY
            && let Ok(lsn) = value.try_into()
        {
            self.applied_lsn = Some(u64::from_le_bytes(lsn));
        }
    }
}

impl<'b> IntoIterator for &'b WriteBatch {
    type Item = Op<'b>;
    type IntoIter = Ops<'b>;

    fn into_iter(self) -> Ops<'b> {
        self.iter()
    }
}

/// The operations of a batch, in order.
#[derive(Clone, Debug)]
pub struct Ops<'b> {
    bytes: &'b [u8],
    at: usize,
    left: usize,
}

impl<'b> Iterator for Ops<'b> {
    type Item = Op<'b>;

    #[inline]
    fn next(&mut self) -> Option<Op<'b>> {
        self.left = self.left.checked_sub(1)?;
        let op = read_op(self.bytes, &mut self.at);
        debug_assert!(
            op.is_some(),
            "a batch in memory is well formed by construction"
        );
        op
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Ops<'_> {}

#[inline]
fn push_head(out: &mut Vec<u8>, tag: u8, key: &[u8]) {
    if key.len() < 0x80 {
        out.extend_from_slice(&[tag, key.len() as u8]);
    } else {
        out.push(tag);
        push_long_len(out, key.len());
    }
    out.extend_from_slice(key);
}

#[inline]
fn push_slice(out: &mut Vec<u8>, slice: &[u8]) {
    if slice.len() < 0x80 {
        out.push(slice.len() as u8);
    } else {
        push_long_len(out, slice.len());
    }
    out.extend_from_slice(slice);
}

fn push_long_len(out: &mut Vec<u8>, len: usize) {
    let mut len = u32::try_from(len).expect("keys and values stay far below 4 GiB");
    while len >= 0x80 {
        out.push((len as u8) | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

/// Nothing when no whole operation begins at `at`, which is then anywhere.
#[inline]
fn read_op<'b>(bytes: &'b [u8], at: &mut usize) -> Option<Op<'b>> {
    let tag = *bytes.get(*at)?;
    *at += 1;
    let key = read_slice(bytes, at)?;
    match tag {
        TAG_PUT => Some(Op::Put(key, read_slice(bytes, at)?)),
        TAG_DELETE => Some(Op::Delete(key)),
        _ => None,
    }
}

#[inline]
fn read_slice<'b>(bytes: &'b [u8], at: &mut usize) -> Option<&'b [u8]> {
    let len = read_varint(bytes, at)? as usize;
    let slice = bytes.get(*at..)?.get(..len)?;
    *at += len;
    Some(slice)
}

#[inline]
fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u32::from(first));
    }
    read_long_varint(bytes, at, first)
}

fn read_long_varint(bytes: &[u8], at: &mut usize, first: u8) -> Option<u32> {
    let mut value = u64::from(first & 0x7f);
    for place in 1..VARINT_BYTES_MAX {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(b"k1", &[7; 300]);
        batch.delete(b"k2");
        batch.put_applied_lsn(42);
        batch
    }

    #[test]
    fn bytes_are_the_documented_ones() {
        let mut batch = WriteBatch::new();
        batch.put(b"ab", &[9; 129]);
        batch.delete(b"c");
        let mut expected = vec![1, 2, b'a', b'b', 0x81, 0x01];
        expected.extend([9; 129]);
        expected.extend([0, 1, b'c']);
        assert_eq!(batch.as_bytes(), expected);
    }

    #[test]
    fn a_batch_survives_its_byte_form() {
        let batch = sample();
        let again = WriteBatch::from_bytes(batch.as_bytes()).unwrap();
        assert_eq!(again, batch);
        assert_eq!(again.applied_lsn(), Some(42));
        let ops: Vec<_> = again.iter().collect();
        assert_eq!(
            ops,
            [
                Op::Put(b"k1", &[7; 300]),
                Op::Delete(b"k2"),
                Op::Put(APPLIED_LSN_KEY, &42u64.to_le_bytes())
            ]
        );
    }

    #[test]
    fn every_cut_is_refused_and_leaves_the_batch_alone() {
        let bytes = sample().into_bytes();
        let boundaries: Vec<usize> = {
            let mut at = 0;
            let mut list = vec![0];
            while at < bytes.len() {
                read_op(&bytes, &mut at).unwrap();
                list.push(at);
            }
            list
        };
        for cut in 0..bytes.len() {
            let mut batch = sample();
            let outcome = batch.extend_from_bytes(&bytes[..cut]);
            if boundaries.contains(&cut) {
                outcome.unwrap();
            } else {
                assert!(
                    matches!(outcome, Err(Error::MalformedBatch { .. })),
                    "cut at {cut}"
                );
                assert_eq!(batch, sample());
            }
        }
    }

    #[test]
    fn foreign_tags_and_endless_lengths_are_refused() {
        assert_eq!(
            WriteBatch::from_bytes(&[9, 0]),
            Err(Error::MalformedBatch { offset: 0 })
        );
        assert!(WriteBatch::from_bytes(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).is_err());
        assert!(WriteBatch::from_bytes(&[0, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
    }

    #[test]
    fn appended_batches_keep_order_and_the_last_lsn() {
        let mut batch = sample();
        let mut other = WriteBatch::new();
        other.put_applied_lsn(43);
        batch.append(&other);
        assert_eq!(batch.len(), 4);
        assert_eq!(batch.applied_lsn(), Some(43));
        assert_eq!(batch.iter().len(), 4);
    }

    #[test]
    fn bad_keys_are_named() {
        let mut batch = sample();
        batch.check_keys().unwrap();
        batch.put(&vec![1; KEY_BYTES_MAX + 1], b"");
        assert_eq!(
            batch.check_keys(),
            Err(Error::KeyLength {
                key_bytes: KEY_BYTES_MAX + 1
            })
        );
        batch.clear();
        batch.delete(b"");
        assert_eq!(batch.check_keys(), Err(Error::KeyLength { key_bytes: 0 }));
    }
}
