//! Changes and deletes: a piece of records that are looked at again under their locks.

use quarry_bson::RawDocument;
use quarry_journal::Until;

use super::modified_keys::ModifiedKeys;
use super::{Piece, Writer};
use crate::error::{Error, Result};
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::locks::record_locks::lock_hash;
use crate::operation::Operation;

/// What a modification of one record comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The latest document no longer matches.
    NoMatch,
    /// It matches and stays as it is.
    Keep,
    /// The new document was written.
    Replace,
    Delete,
}

#[derive(Debug, Default)]
pub struct Modified {
    pub matched: u64,
    pub modified: u64,
    pub deleted: u64,
    /// Why the piece ended early; what came before it is committed.
    pub error: Option<Error>,
    pub lsn: Option<u64>,
}

/// Computes a change from the number of the record key and the latest document.
pub type Compute<'c> = dyn FnMut(usize, RawDocument<'_>, &mut Vec<u8>) -> Result<Change> + 'c;

impl Writer {
    /// Changes or deletes the records of one collection that still stand under `record_keys`, as one piece.
    pub fn modify_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        let _epoch = self.parts.reads.enter_to_write();
        let Some((collection, _hold)) = self
            .parts
            .holds
            .hold_shared(namespace, operation)?
            .filter(|(held, _)| held.ident == expected)
        else {
            return Err(Error::QueryPlanKilled(format!(
                "collection dropped. UUID of `{namespace}` has changed"
            )));
        };
        let detail = self.parts.catalog.detail(&collection)?;
        let hashes = record_keys.iter().map(|key| lock_hash(key)).collect();
        let _records = self.parts.locks.records.lock(hashes, operation)?;
        let mut outcome = Modified::default();
        let staged = self.compute_changes(record_keys, compute, &mut outcome)?;
        let mut keys = ModifiedKeys::default();
        let mut staged = keys.make(&collection, detail, record_keys, staged, &mut outcome);
        let _uniques = keys.lock_uniques(self, detail, operation)?;
        let refused = keys.refuse_taken(self, &collection, detail, &staged, record_keys)?;
        if let Some((position, error)) = refused {
            staged.truncate(position);
            outcome.error = Some(error);
        }
        let news = staged.iter().filter_map(|change| change.new.as_deref());
        let bytes = keys.bytes_len() + news.map(<[u8]>::len).sum::<usize>();
        let _admitted = match collection.is_clustered() {
            true => self.admit(bytes, operation)?,
            false => self.parts.locks.large_batches.admit_under_exclusive_hold(),
        };
        let mut piece = Piece::default();
        for (position, change) in staged.iter().enumerate() {
            let key = &record_keys[change.key];
            outcome.matched += 1;
            match &change.new {
                Some(new) => {
                    piece.put_document(key, new, Some(change.old.len()));
                    outcome.modified += 1;
                }
                None => {
                    piece.delete_document(key, change.old.len());
                    outcome.deleted += 1;
                }
            }
            keys.stage(position, detail, &mut piece);
        }
        if !collection.is_clustered() {
            let deleted = staged.iter().filter(|change| change.new.is_none());
            let deleted = deleted.map(|change| record_keys[change.key].as_slice());
            self.keep_record_id(&collection, deleted, &mut piece)?;
        }
        outcome.lsn = self.commit_piece(operation, &collection, piece, Until::Applied)?;
        Ok(outcome)
    }

    fn compute_changes(
        &self,
        record_keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
        outcome: &mut Modified,
    ) -> Result<Vec<StagedChange>> {
        let mut staged = Vec::with_capacity(record_keys.len());
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (key, record_key) in record_keys.iter().enumerate() {
            old.clear();
            new.clear();
            if !self
                .parts
                .reads
                .get_record(record_key, &mut |bytes| old.extend_from_slice(bytes))?
            {
                continue;
            }
            match compute(key, RawDocument::new(&old)?, &mut new) {
                Ok(Change::NoMatch) => {}
                Ok(Change::Keep) => outcome.matched += 1,
                Ok(Change::Replace) => {
                    staged.push(StagedChange {
                        key,
                        old: std::mem::take(&mut old),
                        new: Some(std::mem::take(&mut new)),
                    });
                }
                Ok(Change::Delete) => staged.push(StagedChange {
                    key,
                    old: std::mem::take(&mut old),
                    new: None,
                }),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        Ok(staged)
    }
}

pub(super) struct StagedChange {
    pub key: usize,
    pub old: Vec<u8>,
    pub new: Option<Vec<u8>>,
}
