//! The sizes of a database: what its collections sum up to.
//!
//! Nothing is kept for it: one walk reads the catalog entries of the database, a second one the counters, in the order of
//! the idents, and beside the sums stay 16 bytes a collection and 8 an index. The counts are exact. The engine's estimates
//! cost several microseconds each; beyond `ESTIMATED_MAX` collections they are asked for the largest collections, and for
//! some of the others, spread evenly over the order in which they were made, that stand for the rest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quarry_bson::{RawArray, RawDocument, RawValue};
use quarry_storage::KeyRange;

use crate::catalog::time_series::TIME_SERIES;
use crate::catalog::view::VIEW_ON;
use crate::definitions::collection_stats::Sizes;
use crate::definitions::listing::Entries;
use crate::error::{Error, Result};
use crate::keyspace::counts::decode_counts;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::operation::Operation;
use crate::snapshot::reads::ReadSnapshot;

/// A database with more collections has some of them estimated for all.
const ESTIMATED_MAX: usize = if cfg!(test) { 24 } else { 1024 };
/// How many of the estimated collections are those with the most bytes of documents.
const LARGEST_MAX: usize = ESTIMATED_MAX / 4;
/// A counter that is further away than so many others is looked up instead of walked to.
const STEPS_TO_COUNTER: u32 = 16;

/// The counts and sizes of one database.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct DbStats {
    /// The number of collections, without views.
    pub collections: u64,
    /// The number of views.
    pub views: u64,
    /// The exact number of documents.
    pub documents: u64,
    /// The exact bytes of documents.
    pub data_bytes: u64,
    /// The bytes of the records on disk, roughly.
    pub storage_bytes: u64,
    /// The number of indexes, `_id_` counted.
    pub indexes: u64,
    /// The bytes of index entries on disk, roughly.
    pub index_bytes: u64,
}

impl Sizes {
    pub fn db_stats(&self, database: &str, operation: &Operation) -> Result<DbStats> {
        let snapshot = self.reads().snapshot()?;
        let members = Members::read(&snapshot, database, operation)?;
        let mut sum = DbStats {
            collections: members.collections.len() as u64,
            views: members.views,
            indexes: members.id_indexes + members.indexes.len() as u64,
            ..DbStats::default()
        };
        let largest = members.read_counts(&snapshot, operation, &mut sum)?;
        // The estimates are asked of the engine as it is: nothing of the past is held for them.
        drop(snapshot);
        let (mut storage_bytes, mut index_bytes) = (0.0, 0.0);
        for (position, stands_for) in members.estimated(&largest) {
            operation.check()?;
            let member = &members.collections[position];
            storage_bytes += self.size_of(member.ident)? as f64 * stands_for;
            for ident in members.indexes_of(member) {
                index_bytes += self.size_of(*ident)? as f64 * stands_for;
            }
        }
        sum.storage_bytes = storage_bytes as u64;
        sum.index_bytes = index_bytes as u64;
        Ok(sum)
    }

    /// The engine's estimate of what a database takes.
    pub fn database_size_bytes(&self, database: &str, operation: &Operation) -> Result<u64> {
        let stats = self.db_stats(database, operation)?;
        Ok(stats.storage_bytes + stats.index_bytes)
    }
}

/// The collections of a database by ident, which is the order in which they were made.
struct Members {
    collections: Vec<Member>,
    /// The indexes of a collection stand together.
    indexes: Vec<Ident>,
    /// Indexes over `_id` that are the records themselves.
    id_indexes: u64,
    views: u64,
}

struct Member {
    ident: Ident,
    /// Position in `Members::indexes`, and how many from there on.
    first_index: u32,
    index_count: u32,
}

impl Members {
    fn read(snapshot: &ReadSnapshot, database: &str, operation: &Operation) -> Result<Members> {
        let mut members = Members {
            collections: Vec::new(),
            indexes: Vec::new(),
            id_indexes: 0,
            views: 0,
        };
        let mut entries = Entries::open(snapshot, database, None)?;
        let mut steps = 0;
        while let Some(entry) = entries.peek()? {
            operation.step(&mut steps)?;
            if !entry.is_dead {
                members.add(entry.ident, entry.document)?;
            }
            entries.advance()?;
        }
        members
            .collections
            .sort_unstable_by_key(|member| member.ident);
        Ok(members)
    }

    fn add(&mut self, ident: Ident, entry: RawDocument<'_>) -> Result<()> {
        let broken = || Error::Corrupt("a catalog entry is broken".to_owned());
        let options = entry.get_document("options");
        if options.is_some_and(|options| options.contains(VIEW_ON)) {
            self.views += 1;
            return Ok(());
        }
        let first_index = self.indexes.len();
        let listed = entry.get("indexes").and_then(|value| value.as_array());
        for index in listed.iter().flat_map(RawArray::iter) {
            match index.as_document().and_then(|index| index.get("ident")) {
                Some(RawValue::Int64(number)) => {
                    let number = u64::try_from(number).map_err(|_| broken())?;
                    self.indexes.push(Ident(number));
                }
                _ => return Err(broken()),
            }
        }
        let is_capped = options
            .and_then(|options| options.get("capped"))
            .is_some_and(|value| value.is_truthy());
        let is_series = options.is_some_and(|options| options.contains(TIME_SERIES));
        self.id_indexes += u64::from(!is_capped && !is_series);
        let position = |number: usize| u32::try_from(number).map_err(|_| broken());
        self.collections.push(Member {
            ident,
            first_index: position(first_index)?,
            index_count: position(self.indexes.len() - first_index)?,
        });
        Ok(())
    }

    fn indexes_of(&self, member: &Member) -> &[Ident] {
        let first = member.first_index as usize;
        &self.indexes[first..first + member.index_count as usize]
    }

    /// Adds up the counters; returns the positions of the collections with the most data, in order.
    fn read_counts(
        &self,
        snapshot: &ReadSnapshot,
        operation: &Operation,
        sum: &mut DbStats,
    ) -> Result<Vec<usize>> {
        let mut cursor = snapshot.cursor(KeyRange::prefix(layout::COUNTERS))?;
        cursor.first()?;
        let mut largest = BinaryHeap::with_capacity(LARGEST_MAX + 1);
        let mut steps = 0;
        for (position, member) in self.collections.iter().enumerate() {
            operation.step(&mut steps)?;
            let mut walked = 0;
            // A collection that was never written to has no counters.
            let found = loop {
                let key = layout::split_ident(layout::COUNTERS, cursor.key());
                let Some((ident, _)) = key.filter(|_| cursor.valid()) else {
                    break false;
                };
                if ident >= member.ident {
                    break ident == member.ident;
                }
                walked += 1;
                match walked < STEPS_TO_COUNTER {
                    true => cursor.next()?,
                    false => cursor.seek(&layout::counters_key(member.ident))?,
                }
            };
            if found {
                let counts = decode_counts(cursor.value());
                sum.documents += counts.documents;
                sum.data_bytes += counts.bytes;
                largest.push((Reverse(counts.bytes), position));
                if largest.len() > LARGEST_MAX {
                    largest.pop();
                }
            }
        }
        let mut positions: Vec<usize> = largest.into_iter().map(|(_, at)| at).collect();
        positions.sort_unstable();
        Ok(positions)
    }

    /// Which collections to estimate, and for how many each stands.
    fn estimated(&self, largest: &[usize]) -> Vec<(usize, f64)> {
        let count = self.collections.len();
        if count <= ESTIMATED_MAX {
            return (0..count).map(|position| (position, 1.0)).collect();
        }
        let rest: Vec<usize> = (0..count)
            .filter(|position| largest.binary_search(position).is_err())
            .collect();
        let wanted = ESTIMATED_MAX - largest.len();
        let step = rest.len().div_ceil(wanted).max(1);
        let some: Vec<usize> = rest.iter().copied().step_by(step).collect();
        let stands_for = rest.len() as f64 / some.len() as f64;
        let exact = largest.iter().map(|position| (*position, 1.0));
        exact
            .chain(some.into_iter().map(|position| (position, stands_for)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::database::Database;
    use crate::keyspace::namespace::Namespace;
    use quarry_journal::Level;

    fn insert(database: &Database, namespace: &str, documents: i32, filler: usize) {
        let namespace = Namespace::parse(namespace).unwrap();
        for id in 0..documents {
            let document = doc! { "_id": id, "filler": "x".repeat(filler) };
            let operation = Operation::default();
            (database.insert_piece(
                &operation,
                &namespace,
                &[document.as_raw()],
                true,
                Level::Written,
            ))
            .unwrap();
        }
    }

    /// The sums that collStats of every collection gives.
    fn one_by_one(database: &Database, name: &str) -> DbStats {
        let mut sum = DbStats::default();
        for collection in database.list_collections(name).unwrap() {
            if collection.view.is_some() {
                sum.views += 1;
                continue;
            }
            let stats = database.coll_stats(&collection.namespace).unwrap().unwrap();
            sum.collections += 1;
            sum.documents += stats.documents;
            sum.data_bytes += stats.data_bytes;
            sum.storage_bytes += stats.storage_bytes;
            sum.indexes += stats.indexes.len() as u64;
            sum.index_bytes += stats.indexes.iter().map(|index| index.bytes).sum::<u64>();
        }
        sum
    }

    #[test]
    fn a_database_is_the_sum_of_its_collections() {
        let database = Database::open_in_memory().unwrap();
        // Between those of `db`, so that counters of others are walked and jumped over; some have none.
        for number in 0..ESTIMATED_MAX / 2 {
            insert(
                &database,
                &format!("db.c{number}"),
                1 + number as i32 % 3,
                100,
            );
            for other in 0..(number * 2) {
                insert(&database, &format!("other.c{number}_{other}"), 1, 10);
            }
        }
        let operation = Operation::default();
        let empty = Namespace::parse("db.empty").unwrap();
        let view = Namespace::parse("db.view").unwrap();
        for (namespace, options) in [
            (&empty, doc! {}),
            (&view, doc! { "viewOn": "empty", "pipeline": [] }),
        ] {
            let options = options.as_raw();
            (database.create_collection(namespace, options, &operation, crate::Level::Written))
                .unwrap();
        }
        for name in ["db", "nothing"] {
            let sums = database.db_stats(name, &operation).unwrap();
            assert_eq!(sums, one_by_one(&database, name), "{name}");
            assert_eq!(sums.views, u64::from(name == "db"));
        }
    }

    #[test]
    fn a_sample_stands_for_many_collections_and_counts_stay_exact() {
        let database = Database::open_in_memory().unwrap();
        for number in 0..ESTIMATED_MAX * 4 {
            insert(&database, &format!("db.c{number}"), 1, 1000);
        }
        // One of them holds more than all others together.
        insert(&database, "db.large", 300, 1000);
        let sums = database.db_stats("db", &Operation::default()).unwrap();
        let exact = one_by_one(&database, "db");
        assert_eq!(
            (
                sums.collections,
                sums.documents,
                sums.data_bytes,
                sums.indexes
            ),
            (
                exact.collections,
                exact.documents,
                exact.data_bytes,
                exact.indexes
            )
        );
        let error = sums.storage_bytes.abs_diff(exact.storage_bytes);
        assert!(error * 20 < exact.storage_bytes, "{sums:?} {exact:?}");
    }

    #[test]
    fn a_database_that_was_dropped_has_no_sizes() {
        let database = Database::open_in_memory().unwrap();
        insert(&database, "db.c", 3, 10);
        let operation = Operation::default();
        (database.drop_database("db", &operation, crate::Level::Written)).unwrap();
        let sums = database.db_stats("db", &operation).unwrap();
        assert_eq!(sums, DbStats::default());
    }
}
