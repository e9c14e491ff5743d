//! A plan that is chosen to be run counts what it reads, for `$indexStats` and `$collStats`. Reads that the server makes by itself, as of
//! documents that have expired, do not come here and are nobody's accesses, as in MongoDB.

use quarry_database::{CollectionSnapshot, Ident};
use smallvec::SmallVec;

use crate::plan::{Leaf, PlanNode};

/// Counts one access to each index that the plan reads, and a scan if it reads the collection.
pub(super) fn count_plan(snapshot: &CollectionSnapshot, root: &dyn PlanNode, follows: bool) {
    let collection = &*snapshot.collection;
    let mut read = SmallVec::<[Ident; 4]>::new();
    root.leaves(&mut |leaf| match leaf {
        Leaf::Nothing => {}
        Leaf::Id => collection.count_by_id(),
        Leaf::Collection => count_scan(snapshot, follows),
        Leaf::Index(access) | Leaf::Count(access) | Leaf::Distinct(access) => {
            if read.contains(&access.ident) {
                return;
            }
            read.push(access.ident);
            match access.is_of_records {
                true => collection.count_by_id(),
                false => count_index(snapshot, access.ident),
            }
        }
    });
}

fn count_index(snapshot: &CollectionSnapshot, ident: Ident) {
    // The plan was made of it.
    let Ok(index_catalog) = snapshot.index_catalog() else {
        return;
    };
    let mut indexes = index_catalog.indexes.iter();
    let index = indexes.find(|index| index.ident == ident);
    if let Some(counter) = index.and_then(|index| index.accesses.as_ref()) {
        counter.count();
    }
}

fn count_scan(snapshot: &CollectionSnapshot, follows: bool) {
    if let Some(accesses) = &snapshot.collection.plan_memory {
        accesses.scans.count();
        if follows {
            accesses.tailing.count();
        }
    }
}
