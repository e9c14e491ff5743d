//! Capped collections: what goes from their front when something comes at their end.

use quarry_bson::RawDocument;
use quarry_storage::KeyRange;

use super::Piece;
use crate::collection::{Collection, Detail};
use crate::database::Database;
use crate::error::Result;
use crate::index_keys::Target;
use crate::key_buffer::KeyBuffer;

impl Database {
    /// Removes the oldest documents of a capped collection beyond its bounds, but never the newest, which may be larger
    /// than the bounds by itself. The caller holds the collection exclusively.
    pub(super) fn trim_capped(
        &self,
        collection: &Collection,
        detail: &Detail,
        capped: crate::collection::Capped,
        piece: &mut Piece,
    ) -> Result<()> {
        let counts = self.counts(collection)?;
        let is_over = |piece: &Piece| {
            let documents = counts.documents.saturating_add_signed(piece.documents);
            let bytes = counts.bytes.saturating_add_signed(piece.bytes);
            let is_over = bytes > capped.size_bytes
                || capped.documents_max.is_some_and(|max| documents > max);
            is_over && documents > 1
        };
        if !is_over(piece) {
            return Ok(());
        }
        let snapshot = self.reads.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(collection.prefix.as_bytes()))?;
        cursor.first()?;
        let mut keys = KeyBuffer::default();
        while is_over(piece) && cursor.valid() {
            keys.clear();
            {
                let target = Target {
                    document: 0,
                    record_key: &cursor.key()[collection.prefix.as_bytes().len()..],
                    id: None,
                };
                let found = detail.keys.extract(RawDocument::new(cursor.value())?);
                for (number, index) in detail.indexes.iter().enumerate() {
                    detail
                        .keys
                        .entries(number, index, &found, target, &mut keys)?;
                }
            }
            for entry in &keys.entries {
                let (key, index) = (keys.key(entry), &detail.indexes[usize::from(entry.index)]);
                let own = &cursor.key()[collection.prefix.as_bytes().len()..];
                if !index.is_unique_build() || self.owns_entry(key, own)? {
                    piece.deletes.delete(key);
                }
            }
            piece.delete_document(cursor.key(), cursor.value().len());
            cursor.next()?;
        }
        Ok(())
    }
}
