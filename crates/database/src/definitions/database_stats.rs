//! The sizes of a database: what its collections sum up to.
//!
//! One walk reads the catalog entries of the database, views among them, a second one the counters, in the order of
//! the idents; meanwhile 16 bytes are held for a collection and 8 for an index. The counts are exact. The engine's estimates
//! cost several microseconds each; beyond `ESTIMATED_MAX` collections they are asked for the largest collections, and for
//! some of the others, spread evenly over the order in which they were made, that stand for the rest. Of very large databases
//! the sums are remembered (`remembered_sums`), and the next question reads what has changed since.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use quarry_bson::{RawArray, RawDocument, RawValue};
use quarry_storage::KeyRange;

use crate::catalog::time_series::TIME_SERIES;
use crate::catalog::view::VIEW_ON;
use crate::definitions::collection_stats::Sizes;
use crate::definitions::listing::{Entries, broken_entry, ident_of};
use crate::definitions::remembered_sums::COLLECTIONS_MIN;
use crate::error::Result;
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

/// The counts of a database as of one commit, and the collections of which the engine is asked what they take.
#[derive(Clone)]
pub(super) struct Sums {
    pub lsn: u64,
    /// Without the bytes on disk.
    pub stats: DbStats,
    sample: Arc<[Sampled]>,
    /// By so many bytes documents have grown and shrunk since the sample was taken.
    pub changed_bytes: u64,
}

/// A collection that stands for itself, or for several like it.
struct Sampled {
    ident: Ident,
    indexes: Box<[Ident]>,
    stands_for: f64,
}

impl Sizes {
    pub fn db_stats(&self, database: &str, operation: &Operation) -> Result<DbStats> {
        let sums = self.sums(database, operation)?;
        let (mut storage_bytes, mut index_bytes) = (0.0, 0.0);
        for sampled in &*sums.sample {
            operation.check()?;
            storage_bytes += self.size_of(sampled.ident)? as f64 * sampled.stands_for;
            for ident in &sampled.indexes {
                index_bytes += self.size_of(*ident)? as f64 * sampled.stands_for;
            }
        }
        Ok(DbStats {
            storage_bytes: storage_bytes as u64,
            index_bytes: index_bytes as u64,
            ..sums.stats
        })
    }

    /// The figures that can be counted. The estimates are asked of the engine as it is: no snapshot is held for them.
    fn sums(&self, database: &str, operation: &Operation) -> Result<Sums> {
        let snapshot = self.reads().snapshot()?;
        let mut lsn = None;
        snapshot.get(layout::APPLIED_LSN_KEY, &mut |value| {
            lsn = value.try_into().ok().map(u64::from_le_bytes);
        })?;
        let lsn = lsn.unwrap_or(0);
        if let Some(sums) = self.remembered().at(database, lsn, self.commits()) {
            return Ok(sums);
        }
        let members = Members::read(&snapshot, database, operation)?;
        let mut stats = DbStats {
            collections: members.collections.len() as u64,
            views: members.views,
            indexes: members.id_indexes + members.indexes.len() as u64,
            ..DbStats::default()
        };
        let largest = members.read_counts(&snapshot, operation, &mut stats)?;
        let sums = Sums {
            lsn,
            stats,
            sample: members.sample(&largest),
            changed_bytes: 0,
        };
        if members.collections.len() >= COLLECTIONS_MIN && !members.are_left_of_a_drop {
            self.remembered().keep(database, &sums);
        }
        Ok(sums)
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
    /// The database was dropped, and is not cleaned up yet: beside these there may be collections that went.
    are_left_of_a_drop: bool,
}

/// The index on `_id` that a catalog entry means.
enum IdIndex {
    /// The name means a view, which has no documents.
    OfNothing,
    /// The records themselves.
    Records,
    /// One among the indexes of the entry, if there is one at all: of capped collections and time series.
    Listed,
}

impl IdIndex {
    fn of(options: RawDocument<'_>) -> IdIndex {
        let mut id_index = IdIndex::Records;
        for option in options {
            let name = option.name().as_bytes();
            if name == VIEW_ON.as_bytes() {
                return IdIndex::OfNothing;
            }
            let is_capped = name == b"capped" && option.value().is_truthy();
            if is_capped || name == TIME_SERIES.as_bytes() {
                id_index = IdIndex::Listed;
            }
        }
        id_index
    }
}

struct Member {
    ident: Ident,
    /// Position in `Members::indexes`, and how many from there on.
    first_index: u32,
    index_count: u32,
}

impl Members {
    fn read(snapshot: &ReadSnapshot, database: &str, operation: &Operation) -> Result<Members> {
        let mut entries = Entries::open(snapshot, database, None)?;
        let mut members = Members {
            collections: Vec::new(),
            indexes: Vec::new(),
            id_indexes: 0,
            views: 0,
            are_left_of_a_drop: entries.are_left_of_a_drop(),
        };
        let mut steps = 0;
        while let Some(entry) = entries.peek()? {
            operation.step(&mut steps)?;
            if !entry.is_dead {
                members.add(entry.document)?;
            }
            entries.advance()?;
        }
        members
            .collections
            .sort_unstable_by_key(|member| member.ident);
        Ok(members)
    }

    /// Reads an entry in one pass: of a million of them the passes are most of the time.
    fn add(&mut self, entry: RawDocument<'_>) -> Result<()> {
        let (mut ident, mut options, mut listed) = (None, RawDocument::EMPTY, RawArray::EMPTY);
        for element in entry {
            match (element.name().as_bytes(), element.value()) {
                (b"ident", value) => ident = Some(value),
                (b"options", RawValue::Document(document)) => options = document,
                (b"indexes", RawValue::Array(array)) => listed = array,
                _ => {}
            }
        }
        match IdIndex::of(options) {
            IdIndex::OfNothing => {
                self.views += 1;
                return Ok(());
            }
            IdIndex::Records => self.id_indexes += 1,
            IdIndex::Listed => {}
        }
        let first_index = self.indexes.len();
        for index in &listed {
            let index = index.as_document().ok_or_else(broken_entry)?;
            self.indexes.push(ident_of(index.get("ident"))?);
        }
        let position = |number: usize| u32::try_from(number).map_err(|_| broken_entry());
        self.collections.push(Member {
            ident: ident_of(ident)?,
            first_index: position(first_index)?,
            index_count: position(self.indexes.len() - first_index)?,
        });
        Ok(())
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
        let mut largest = Largest::default();
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
                largest.offer(counts.bytes, position);
            }
        }
        Ok(largest.into_positions())
    }

    /// Which collections to estimate, and for how many each stands.
    fn sample(&self, largest: &[usize]) -> Arc<[Sampled]> {
        let count = self.collections.len();
        if count <= ESTIMATED_MAX {
            return (0..count).map(|at| self.sampled(at, 1.0)).collect();
        }
        let rest: Vec<usize> = (0..count)
            .filter(|position| largest.binary_search(position).is_err())
            .collect();
        let wanted = ESTIMATED_MAX - largest.len();
        let step = rest.len().div_ceil(wanted).max(1);
        let some: Vec<usize> = rest.iter().copied().step_by(step).collect();
        let stands_for = rest.len() as f64 / some.len() as f64;
        let exact = largest.iter().map(|at| self.sampled(*at, 1.0));
        exact
            .chain(some.into_iter().map(|at| self.sampled(at, stands_for)))
            .collect()
    }

    fn sampled(&self, position: usize, stands_for: f64) -> Sampled {
        let member = &self.collections[position];
        let first = member.first_index as usize;
        Sampled {
            ident: member.ident,
            indexes: self.indexes[first..first + member.index_count as usize].into(),
            stands_for,
        }
    }
}

/// The collections with the most bytes of documents, of those that were offered.
#[derive(Default)]
struct Largest(BinaryHeap<Reverse<(u64, usize)>>);

impl Largest {
    fn offer(&mut self, bytes: u64, position: usize) {
        if self.0.len() < LARGEST_MAX {
            self.0.push(Reverse((bytes, position)));
            return;
        }
        // Most are smaller than the smallest that is kept, and take one comparison.
        if let Some(mut smallest) = self.0.peek_mut()
            && smallest.0.0 < bytes
        {
            *smallest = Reverse((bytes, position));
        }
    }

    fn into_positions(self) -> Vec<usize> {
        let positions = self.0.into_iter().map(|Reverse((_, position))| position);
        let mut positions: Vec<usize> = positions.collect();
        positions.sort_unstable();
        positions
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::database::Database;
    use crate::definitions::random_sizes::one_by_one;
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
