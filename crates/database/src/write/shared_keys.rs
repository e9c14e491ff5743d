//! Keys of an index that lets no document take a key which another one has, although the entries of several may stand under it: one
//! with `prepareUnique`, and one that was made unique after its creation.
//!
//! An entry there ends in the record that it names, so that to look for a key is to look through a range. A writer locks the key
//! without the record (`shared_key`), so that two writers who bring it wait for each other, as those of a unique key do.

use quarry_storage::KeyRange;

use crate::error::Result;
use crate::index::definition::Index;
use crate::index::entry::{IndexEntry, meeting_cut_keys};
use crate::keyspace::key_hash::key_hash;
use crate::operation::{STEPS_BETWEEN_CHECKS, check_running};
use crate::snapshot::reads::ReadSnapshot;
use crate::write::latest::Latest;

/// A step of the walk compares so many bytes: a whole key may have megabytes of them.
const BYTES_OF_A_STEP: usize = 4096;

/// The key of an entry of `index` without its record, uncut.
pub(super) fn shared_key(index: &Index, key: &[u8], value: &[u8]) -> Vec<u8> {
    let entry = IndexEntry::parse(index, key, value).expect("the entry was made for this index");
    [index.prefix.as_bytes(), entry.fields].concat()
}

/// Whether a document other than `own` has the key, `passes_over` left out. The caller has locked it and made the snapshot afterwards.
/// All cut keys that begin alike are in the range, which may be very many: fails where the operation on this thread is to end.
pub(super) fn is_of_another(
    latest: Latest<'_>,
    snapshot: &ReadSnapshot,
    index: &Index,
    shared: &[u8],
    own: &[u8],
    passes_over: &dyn Fn(&[u8]) -> bool,
) -> Result<bool> {
    let range = meeting_cut_keys(KeyRange::prefix(shared));
    let mut cursor = latest.entries(snapshot, range, key_hash(shared))?;
    let fields = &shared[index.prefix.as_bytes().len()..];
    let mut steps = 0;
    cursor.first()?;
    while cursor.valid() {
        steps += 1 + cursor.value().len() / BYTES_OF_A_STEP;
        if steps >= STEPS_BETWEEN_CHECKS as usize {
            steps = 0;
            check_running()?;
        }
        let entry = IndexEntry::parse(index, cursor.key(), cursor.value());
        if entry.is_some_and(|entry| entry.fields == fields && entry.record_key != own)
            && !passes_over(cursor.key())
        {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}
