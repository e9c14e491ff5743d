//! A piece of one collection's changes, as an insert, a change or a delete stages it.

use quarry_bson::RawDocument;
use quarry_storage::WriteBatch;
use smallvec::SmallVec;

use crate::commit::changes::{ChangeDetails, ChangeKind, Changes};
use crate::index::definition::Index;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;

/// The changes that one piece of one collection will commit. Deletes come before puts.
#[derive(Default)]
pub(super) struct Piece {
    pub deletes: WriteBatch,
    pub puts: WriteBatch,
    pub documents: i64,
    pub bytes: i64,
    /// The changes of documents; their positions are those among the deletes or the puts.
    pub changes: Changes,
    pub marks: SmallVec<[(Ident, u8); 2]>,
}

impl Piece {
    pub fn mark_multikey(&mut self, index: &Index, components: u64) {
        let new = components & !index.marks();
        for component in 0..64u8 {
            if new & (1 << component) != 0 {
                self.puts
                    .put(&layout::multikey_key(index.ident, component), &[]);
                self.marks.push((index.ident, component));
            }
        }
    }

    #[inline]
    pub fn insert_document(&mut self, key: &[u8], document: &[u8]) {
        self.changes.push(ChangeKind::Insert, self.puts.len());
        self.puts.put(key, document);
        self.bytes += signed(document.len());
        self.documents += 1;
    }

    /// Puts a document in the place of `old`.
    pub fn change_document(
        &mut self,
        key: &[u8],
        old: &[u8],
        new: &[u8],
        kind: ChangeKind,
        details: &ChangeDetails<'_>,
    ) {
        self.changes.push_with(kind, 0, self.puts.len(), details);
        self.puts.put(key, new);
        self.bytes += signed(new.len()) - signed(old.len());
    }

    /// Deletes `old`; what comes after it can tell its `_id` by the record alone.
    pub fn delete_document(
        &mut self,
        key: &[u8],
        old: RawDocument<'_>,
        kind: ChangeKind,
        keeps_pre_image: bool,
    ) {
        let document_key = document_key(old);
        let details = ChangeDetails {
            key: Some(&document_key),
            pre_image: keeps_pre_image.then_some(old.as_bytes()),
            ..ChangeDetails::default()
        };
        (self.changes).push_with(kind, 0, self.deletes.len(), &details);
        self.deletes.delete(key);
        self.documents -= 1;
        self.bytes -= signed(old.as_bytes().len());
    }
}

/// The bytes of the document with the `_id` alone: its length, the element as it stands, a NUL.
fn document_key(document: RawDocument<'_>) -> SmallVec<[u8; 48]> {
    let id = document.get_element("_id");
    let element = id.as_ref().map_or(&[][..], |id| id.as_bytes());
    let bytes = i32::try_from(4 + element.len() + 1).expect("it is no longer than its document");
    let mut key = SmallVec::new();
    key.extend_from_slice(&bytes.to_le_bytes());
    key.extend_from_slice(element);
    key.push(0);
    key
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("documents are at most 16 MiB")
}
