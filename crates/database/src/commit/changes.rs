//! The changes of documents in a journal record: which operations of its batch they are, and what the batch does not tell.
//!
//! ```text
//! change: kind and flags u8 | [number of the collection varint, if the record has several] | position varint
//!         | [document key: length varint, document] | [update description: length varint, bytes]
//!         | [pre-image: length varint, document]
//! ```
//! The position is that of the document's put or delete in the batch, so that key and document are written once: an insert
//! needs two bytes here. The key of a deleted document is written as BSON, because the record's key does not tell 1 from 1.0;
//! that of a document that is put stands in the document. Changes stand in the order in which they were made.

use smallvec::SmallVec;

use crate::keyspace::varint::{read_len, write_len};

/// The bits of a change's first byte that are its kind.
const KIND: u8 = 0x0F;
const HAS_KEY: u8 = 0x10;
const HAS_DESCRIPTION: u8 = 0x20;
const HAS_PRE_IMAGE: u8 = 0x40;

/// Room for the length of a part, which has few bytes or is that of a document.
const LEN_BYTES: usize = 4;

/// The fate of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ChangeKind {
    /// It is new.
    Insert = 1,
    /// Operators changed it. A record of version 1 says so of a replacement, too.
    Update = 2,
    /// It has gone.
    Delete = 3,
    /// Another document with the same `_id` stands in its place.
    Replace = 4,
    /// It made room in its capped collection. Nobody asked for that, and no event tells of it.
    Trim = 5,
}

impl ChangeKind {
    /// The kind that a record's byte stands for.
    fn of(byte: u8) -> Option<ChangeKind> {
        Some(match byte {
            1 => ChangeKind::Insert,
            2 => ChangeKind::Update,
            3 => ChangeKind::Delete,
            4 => ChangeKind::Replace,
            5 => ChangeKind::Trim,
            _ => return None,
        })
    }

    /// Whether the batch deletes the document.
    pub fn is_delete(self) -> bool {
        matches!(self, ChangeKind::Delete | ChangeKind::Trim)
    }
}

/// The parts of a change beside its kind and position. Each may be missing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ChangeDetails<'a> {
    /// A document with the `_id` of a document that has gone.
    pub key: Option<&'a [u8]>,
    /// Which fields an update has changed.
    pub description: Option<&'a [u8]>,
    /// The document as it was before.
    pub pre_image: Option<&'a [u8]>,
}

impl ChangeDetails<'_> {
    fn flags(&self) -> u8 {
        let flag = |part: Option<&[u8]>, flag: u8| if part.is_some() { flag } else { 0 };
        flag(self.key, HAS_KEY)
            | flag(self.description, HAS_DESCRIPTION)
            | flag(self.pre_image, HAS_PRE_IMAGE)
    }

    fn write(&self, out: &mut Vec<u8>) {
        for part in [self.key, self.description, self.pre_image] {
            let Some(part) = part else { continue };
            out.reserve(LEN_BYTES + part.len());
            write_len(out, part.len());
            out.extend_from_slice(part);
        }
    }
}

/// Changes on their way into a record, in the order in which they were made.
#[derive(Clone, Default, Debug)]
pub struct Changes {
    staged: SmallVec<[StagedChange; 1]>,
    /// Details of all changes, as they stand in the record.
    details: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct StagedChange {
    kind: ChangeKind,
    flags: u8,
    collection: u16,
    position: u32,
    /// Where its details end in those of all.
    details_end: u32,
}

impl Changes {
    /// About the bytes that the record has for these changes, beside its batch.
    pub fn bytes_len(&self) -> usize {
        const CHANGE_BYTES: usize = 16;
        self.details.len() + self.staged.len() * CHANGE_BYTES
    }

    /// Makes room for so many changes of two details each, which have `detail_bytes` together.
    pub fn reserve(&mut self, changes: usize, detail_bytes: usize) {
        self.staged.reserve(changes);
        self.details.reserve(2 * changes * LEN_BYTES + detail_bytes);
    }

    /// Adds a change whose put or delete has that position among its like.
    #[inline]
    pub fn push(&mut self, kind: ChangeKind, position: usize) {
        self.push_with(kind, 0, position, &ChangeDetails::default());
    }

    /// Like `push`, for a change of the record's collection with that number, and with what else is to be said of it.
    pub fn push_with(
        &mut self,
        kind: ChangeKind,
        collection: usize,
        position: usize,
        details: &ChangeDetails<'_>,
    ) {
        details.write(&mut self.details);
        self.staged.push(StagedChange {
            kind,
            flags: details.flags(),
            collection: u16::try_from(collection).expect("a record has few collections"),
            position: u32::try_from(position).expect("a batch has less than 2^32 operations"),
            details_end: u32::try_from(self.details.len()).expect("a record has less than 4 GiB"),
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.staged.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// The changes in order, with their positions among their like.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut from = 0;
        self.staged.iter().map(move |staged| {
            let to = staged.details_end as usize;
            let details = read_details(staged.flags, &self.details[from..to]);
            from = to;
            Change {
                kind: staged.kind,
                collection: staged.collection.into(),
                position: Some(staged.position as usize),
                details: details.expect("they were written by `push_with`").0,
            }
        })
    }

    /// The puts come behind so many deletes.
    pub fn put_behind(&mut self, deletes: usize) {
        if deletes == 0 {
            return;
        }
        let deletes = u32::try_from(deletes).expect("a batch has less than 2^32 operations");
        for change in &mut self.staged {
            if !change.kind.is_delete() {
                change.position += deletes;
            }
        }
    }

    /// Appends the changes as a record has them. The number of the collection is left out where there is one.
    pub(super) fn write(&self, has_several_collections: bool, out: &mut Vec<u8>) {
        let mut from = 0;
        for change in &self.staged {
            out.push(change.kind as u8 | change.flags);
            if has_several_collections {
                write_len(out, usize::from(change.collection));
            }
            write_len(out, change.position as usize);
            let to = change.details_end as usize;
            out.extend_from_slice(&self.details[from..to]);
            from = to;
        }
    }
}

/// A change as a record has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The fate of the document.
    pub kind: ChangeKind,
    /// The number of its collection in the record.
    pub collection: usize,
    /// Which operation of the batch puts or deletes it. A record of version 1 does not say.
    pub position: Option<usize>,
    /// Its other parts.
    pub details: ChangeDetails<'a>,
}

/// Whether the first of a record's changes is an insert, in any version.
#[inline]
pub(super) fn begins_with_insert(bytes: &[u8]) -> bool {
    (bytes.first()).is_some_and(|head| head & KIND == ChangeKind::Insert as u8)
}

/// Reads one change; returns it and what follows. None if it is broken.
pub(super) fn read_change(
    bytes: &[u8],
    has_several_collections: bool,
) -> Option<(Change<'_>, &[u8])> {
    let (&head, rest) = bytes.split_first()?;
    let (collection, rest) = match has_several_collections {
        true => read_len(rest)?,
        false => (0, rest),
    };
    let (position, rest) = read_len(rest)?;
    if head & !(KIND | HAS_KEY | HAS_DESCRIPTION | HAS_PRE_IMAGE) != 0 {
        return None;
    }
    let (details, rest) = read_details(head, rest)?;
    let change = Change {
        kind: ChangeKind::of(head & KIND)?,
        collection,
        position: Some(position),
        details,
    };
    Some((change, rest))
}

fn read_details(flags: u8, bytes: &[u8]) -> Option<(ChangeDetails<'_>, &[u8])> {
    let mut rest = bytes;
    let mut part = |flag: u8| {
        if flags & flag == 0 {
            return Some(None);
        }
        let (len, behind) = read_len(rest)?;
        let (part, behind) = behind.split_at_checked(len)?;
        rest = behind;
        Some(Some(part))
    };
    let details = ChangeDetails {
        key: part(HAS_KEY)?,
        description: part(HAS_DESCRIPTION)?,
        pre_image: part(HAS_PRE_IMAGE)?,
    };
    Some((details, rest))
}

/// Reads a change of version 1, which is its kind alone.
pub(super) fn read_change_v1(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let change = Change {
        kind: ChangeKind::of(kind)?,
        collection: 0,
        position: None,
        details: ChangeDetails::default(),
    };
    Some((change, rest))
}
