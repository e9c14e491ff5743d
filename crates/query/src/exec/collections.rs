//! The collections that a pipeline reads beside its own, and the reads that are open on them.
//!
//! A batch of the pipeline sees one snapshot of each collection, taken when the batch begins. A read that a stage leaves open
//! behind a batch goes on from the next batch's snapshot, as the pipeline's own read does.

use indexmap::IndexMap;
use quarry_database::{CollectionSnapshot, Ident, Namespace, Operation, Scope};

use super::executor::Reading;
use super::find::plan;
use crate::error::Result;
use crate::interrupts;
use crate::pipeline::{Collections, ReadId, SubFind};
use crate::plan::Parsed;
use crate::planner::Wanted;

/// The work of taking a snapshot.
const UNITS_OF_A_SNAPSHOT: usize = 200;

#[derive(Default)]
pub(super) struct OtherCollections {
    /// By name. Those that do not exist have no snapshot.
    collections: IndexMap<Box<str>, Other>,
    /// By number; a place is empty when its read is closed.
    reads: Vec<Option<OpenRead>>,
    /// The places of `reads` that are empty.
    free: Vec<usize>,
}

struct Other {
    namespace: Namespace,
    snapshot: Option<CollectionSnapshot>,
}

/// A read of one of the collections.
enum OpenRead {
    /// There is no such collection.
    OfNothing,
    Of {
        /// The place of the collection.
        collection: usize,
        ident: Ident,
        reading: Box<Reading>,
    },
}

/// The collections as one request lends them to the stages.
pub(super) struct Lent<'l> {
    others: &'l mut OtherCollections,
    operation: &'l Operation,
}

impl OtherCollections {
    pub fn open<'n>(
        scope: Scope<'_>,
        operation: &Operation,
        database_name: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<OtherCollections> {
        let mut others = OtherCollections::default();
        for name in names {
            if others.collections.contains_key(name) {
                continue;
            }
            interrupts::work(UNITS_OF_A_SNAPSHOT)?;
            let namespace = Namespace::new(database_name, name)?;
            let snapshot = scope.snapshot(&namespace, operation)?;
            let other = Other {
                namespace,
                snapshot,
            };
            others.collections.insert(name.into(), other);
        }
        Ok(others)
    }

    /// Gives up the snapshots, and what open reads have read ahead from them.
    pub fn save(&mut self, operation: &Operation) -> Result<()> {
        let OtherCollections {
            collections, reads, ..
        } = self;
        for read in reads.iter_mut().flatten() {
            if let OpenRead::Of {
                collection,
                reading,
                ..
            } = read
                && let Some(snapshot) = &collections[*collection].snapshot
            {
                reading.give_back(snapshot, operation)?;
                reading.shrink();
            }
        }
        for other in collections.values_mut() {
            other.snapshot = None;
        }
        Ok(())
    }

    /// Takes new snapshots. Fails if a collection has gone that a read is open on.
    pub fn restore(&mut self, scope: Scope<'_>, operation: &Operation) -> Result<()> {
        for other in self.collections.values_mut() {
            other.snapshot = scope.snapshot(&other.namespace, operation)?;
        }
        for read in self.reads.iter_mut().flatten() {
            if let OpenRead::Of {
                collection,
                ident,
                reading,
            } = read
            {
                let Other {
                    namespace,
                    snapshot,
                } = &self.collections[*collection];
                let known = snapshot.as_ref().map(|snapshot| snapshot.collection.ident);
                if known != Some(*ident) {
                    return Err(super::executor::dropped(namespace));
                }
                reading.begin_small();
            }
        }
        Ok(())
    }

    pub fn lend<'l>(&'l mut self, operation: &'l Operation) -> Lent<'l> {
        Lent {
            others: self,
            operation,
        }
    }

    fn begin(&self, name: &str, find: SubFind<'_>) -> Result<OpenRead> {
        let Some((collection, _, other)) = self.collections.get_full(name) else {
            debug_assert!(false, "a pipeline reads a collection that it has not named");
            return Ok(OpenRead::OfNothing);
        };
        let parsed = Parsed::parse(find.filter, find.sort, None, find.context)?;
        let Some(snapshot) = &other.snapshot else {
            return Ok(OpenRead::OfNothing);
        };
        let wanted = Wanted {
            skip: find.skip,
            limit: find.limit,
            ..Wanted::default()
        };
        let root = plan(snapshot, &parsed, None, wanted)?;
        let mut reading = Box::new(Reading::new(root, parsed));
        reading.begin_small();
        Ok(OpenRead::Of {
            collection,
            ident: snapshot.collection.ident,
            reading,
        })
    }
}

impl Collections for Lent<'_> {
    fn open(&mut self, collection: &str, find: SubFind<'_>) -> crate::Result<ReadId> {
        let read = Some(self.others.begin(collection, find)?);
        let OtherCollections { reads, free, .. } = &mut *self.others;
        let place = match free.pop() {
            Some(place) => {
                reads[place] = read;
                place
            }
            None => {
                reads.push(read);
                reads.len() - 1
            }
        };
        debug_assert_eq!(
            free.len(),
            reads.iter().filter(|read| read.is_none()).count(),
            "the empty places are not those that are known as free"
        );
        Ok(ReadId(place))
    }

    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> crate::Result<bool> {
        let OtherCollections {
            collections, reads, ..
        } = &mut *self.others;
        let Some(Some(OpenRead::Of {
            collection,
            reading,
            ..
        })) = reads.get_mut(read.0)
        else {
            debug_assert!(
                reads.get(read.0).is_some_and(Option::is_some),
                "a stage reads what it has closed"
            );
            return Ok(false);
        };
        let snapshot = collections[*collection].snapshot.as_ref();
        reading.next(snapshot, self.operation, out)
    }

    fn close(&mut self, read: ReadId) {
        let OtherCollections { reads, free, .. } = &mut *self.others;
        if let Some(open) = reads.get_mut(read.0)
            && open.take().is_some()
        {
            free.push(read.0);
        }
    }
}
