//! Capped collections: what goes from their front when something comes at their end, and the numbers of their records.
//!
//! A RecordId is never given twice: whoever reads on from the last one that it saw must not miss the document that came
//! next. The newest document holds the highest RecordId; where that one is deleted, a system key keeps it.

use quarry_bson::RawDocument;
use quarry_storage::KeyRange;

use super::Writer;
use super::duplicate::owns_entry;
use super::piece::Piece;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::commit::payload::ChangeKind;
use crate::error::Result;
use crate::index::key_buffer::KeyBuffer;
use crate::index::keys::Target;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::locks::hold::Hold;
use crate::locks::large_batches::{Admitted, HOLD_WAIT, LARGE_BATCH_BYTES};
use crate::operation::Operation;

/// Collections whose last RecordId is kept in memory; beyond it all are forgotten and found again.
const RECORD_IDS_KNOWN_MAX: usize = 65_536;

/// A piece removes so many documents at most, as many as MongoDB does. Only a collection whose bounds were changed has more beyond
/// them; the next inserts remove the rest.
pub(super) const TRIMMED_MAX: i64 = 20_000;

/// A piece removes no further document once it has deletes of so many bytes, which are those of index entries nearly all. The next
/// piece of the same insert goes on.
const TRIMMED_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Writer {
    /// Holds a capped collection exclusively for an insert of so many bytes, and with its turn if they make a large batch
    /// and the collection becomes free soon. Without a turn the caller is still to be admitted.
    pub(super) fn hold_capped(
        &self,
        ident: Ident,
        bytes: usize,
        operation: &Operation,
    ) -> Result<(Hold<'_>, Option<Admitted<'_>>)> {
        let holds = &self.parts.locks.holds;
        if bytes >= LARGE_BATCH_BYTES {
            let admitted = self.admit(bytes, operation)?;
            let hold = holds.exclusive_within(ident, operation, HOLD_WAIT)?;
            if let Some(hold) = hold {
                return Ok((hold, admitted));
            }
            // The collection does not become free soon: the next large batch has the turn meanwhile.
        }
        Ok((holds.exclusive(ident, operation)?, None))
    }

    /// Gives so many RecordIds and returns the one before them. The caller holds the collection exclusively. A number
    /// whose document is not written after all is left out.
    pub(super) fn give_record_ids(&self, collection: &Collection, count: usize) -> Result<u64> {
        let known = self.record_ids.lock().get(&collection.ident).copied();
        let last = match known {
            Some(last) => last,
            None => {
                let kept = self.kept_record_id(collection)?;
                self.newest_record_id(collection)?.max(kept)
            }
        };
        let mut record_ids = self.record_ids.lock();
        if record_ids.len() >= RECORD_IDS_KNOWN_MAX {
            record_ids.clear();
        }
        record_ids.insert(collection.ident, last + count as u64);
        Ok(last)
    }

    fn newest_record_id(&self, collection: &Collection) -> Result<u64> {
        let prefix = collection.prefix.as_bytes();
        let snapshot = self.parts.reads.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(prefix))?;
        cursor.last()?;
        Ok(match cursor.valid() {
            true => record_id_of(collection, cursor.key()),
            false => 0,
        })
    }

    /// Reads the highest RecordId that the system key keeps.
    fn kept_record_id(&self, collection: &Collection) -> Result<u64> {
        let mut kept = 0;
        let key = layout::record_id_key(collection.ident);
        self.parts.reads.get(&key, &mut |value| {
            kept = value.try_into().map_or(0, u64::from_le_bytes);
        })?;
        Ok(kept)
    }

    /// Keeps the highest RecordId if the piece takes its document away. The caller holds the collection exclusively, and
    /// the piece puts no new records.
    pub(super) fn keep_record_id<'k>(
        &self,
        collection: &Collection,
        deleted: impl Iterator<Item = &'k [u8]>,
        piece: &mut Piece,
    ) -> Result<()> {
        let Some(deleted) = deleted.map(|key| record_id_of(collection, key)).max() else {
            return Ok(());
        };
        if deleted >= self.newest_record_id(collection)?
            && deleted > self.kept_record_id(collection)?
        {
            let key = layout::record_id_key(collection.ident);
            piece.puts.put(&key, &deleted.to_le_bytes());
        }
        Ok(())
    }

    /// Removes the oldest documents of a capped collection beyond its bounds, but never the newest, which may be larger
    /// than the bounds by itself. The caller holds the collection exclusively.
    pub(super) fn trim_capped(
        &self,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        capped: crate::catalog::collection::Capped,
        piece: &mut Piece,
    ) -> Result<()> {
        let counts = self.parts.commits.counts(collection.ident)?;
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
        let snapshot = self.parts.reads.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(collection.prefix.as_bytes()))?;
        cursor.first()?;
        let mut keys = KeyBuffer::default();
        let least = piece.documents - TRIMMED_MAX;
        let has_room = |piece: &Piece| {
            piece.documents > least && piece.deletes.bytes_len() < TRIMMED_BYTES_MAX
        };
        while is_over(piece) && cursor.valid() && has_room(piece) {
            keys.clear();
            keys.begin_standing();
            let own = &cursor.key()[collection.prefix.as_bytes().len()..];
            {
                let target = Target {
                    document: 0,
                    record_key: own,
                    id: None,
                };
                let found = index_catalog
                    .keys
                    .extract(RawDocument::new(cursor.value())?);
                for (number, index) in index_catalog.indexes.iter().enumerate() {
                    index_catalog
                        .keys
                        .entries_that_go(number, index, &found, target, &mut keys)?;
                }
            }
            for entry in &keys.entries {
                let (key, index) = (
                    keys.key(entry),
                    &index_catalog.indexes[usize::from(entry.index)],
                );
                if !index.is_unique_build() || owns_entry(&self.parts.reads, key, own)? {
                    piece.deletes.delete(key);
                }
            }
            let old = RawDocument::new(cursor.value())?;
            piece.delete_document(cursor.key(), old, ChangeKind::Trim, false);
            cursor.next()?;
        }
        Ok(())
    }
}

fn record_id_of(collection: &Collection, record_key: &[u8]) -> u64 {
    let suffix = record_key.get(collection.prefix.as_bytes().len()..);
    suffix
        .and_then(|suffix| suffix.try_into().ok())
        .map_or(0, u64::from_be_bytes)
}
