//! dropDatabase: one commit, then pieces.
//!
//! The commit is a mark, `0x00 0x16 database`, with an ident that is given out for it. Idents only count up, so a
//! collection of that database went with it exactly if its ident is below the mark's. The catalog answers so from the
//! moment the mark is applied, and a namesake made later, with a higher ident, lives beside what is left of the old
//! ones. A second drop raises the mark.
//!
//! The entries themselves go in pieces of bounded size, each one commit under the database's DDL mutex: the collections
//! of the piece are dropped as drop would, their spaces come back as after any drop, and the piece that finds no more
//! deletes the mark. The first piece runs before dropDatabase answers, so that a small database is gone whole; the
//! others in a thread (`database_cleaner`), which starts again with the database. A piece takes each collection's exclusive hold for a
//! moment: a writer that held the collection before the mark has ended then, and no other one can have come, since
//! the catalog does not show it any more. A unit of several pieces holds the database as well, so that the drop waits for it
//! and does not come between two of its collections. Any other such a writer counts as having come before the drop. A piece ends before a
//! collection whose writers do not end soon, so that the mutex does not wait for them.
//!
//! Change streams are told that each collection is dropped, and then the database, all by the record of the mark. A database
//! whose collections are too many for that (`DROPS_BYTES_MAX`) is told of as a whole, which a stream of one of them takes for its drop.
//!
//! Who needs a name that a dropped collection still has an entry under (create, rename) drops that one in the same
//! commit. A collection that is renamed into the database from another one may have a low ident: the rename cleans up
//! first.

use std::time::Duration;

use parking_lot::MutexGuard;
use quarry_storage::WriteBatch;

use crate::catalog::collection::Collection;
use crate::commit::definition_event::{DROPS_FIELD, DefinitionEvent, DefinitionKind};
use crate::commit::payload::{ALLOCATED, Header};
use crate::definitions::changes::{Definitions, drop_of};
use crate::definitions::listing::{Entries, is_there};
use crate::error::Result;
use crate::keyspace::layout;
use crate::keyspace::namespace::{Namespace, check_database};
use crate::operation::Operation;
use crate::snapshot::reads::ReadSnapshot;

/// Collections that one commit drops.
const PIECE_COLLECTIONS: usize = 256;
/// Entries that one piece looks at under the DDL mutex.
const PIECE_ENTRIES: usize = 4096;
/// So long a piece waits for the writers of a collection under the DDL mutex. Then it ends before that collection.
const WRITERS_WAIT: Duration = Duration::from_millis(100);

/// The bytes that the drops of a database's collections may have in the record of its drop: some 150,000 of them.
const DROPS_BYTES_MAX: usize = if cfg!(test) { 512 } else { 16 << 20 };

/// A database that was dropped, at this LSN.
pub struct DroppedDatabase {
    pub lsn: u64,
    /// Nothing of it is left for the cleaner.
    pub is_clean: bool,
}

/// How far the pieces have come in a database: the collection looked at last.
#[derive(Default)]
pub(crate) struct Cleaned {
    behind: Option<String>,
}

impl Definitions {
    /// Drops every collection of a database.
    pub fn drop_database(
        &self,
        name: &str,
        operation: &Operation,
    ) -> Result<Option<DroppedDatabase>> {
        check_database(name)?;
        // Nobody waits for the transactions that work in a database that is not there.
        if !is_there(&self.reads().snapshot()?, name)? {
            return Ok(None);
        }
        // A unit of several pieces that has written to one of the collections comes before the drop with all that it writes.
        let (_ddl, units) = self.holds().lock_database(name, operation)?;
        if !is_there(&self.reads().snapshot()?, name)? {
            return Ok(None);
        }
        operation.check()?;
        let lsn = self.mark_dropped(name, operation)?;
        drop(units);
        // The database is dropped: what keeps a piece from going through is no error of this operation.
        let is_clean = self.clean_piece(name, &mut Cleaned::default(), operation);
        Ok(Some(DroppedDatabase {
            lsn,
            is_clean: matches!(is_clean, Ok(true)),
        }))
    }

    /// Drops the database, but for what is left of it. The caller has its DDL mutex.
    pub(crate) fn mark_dropped(&self, name: &str, operation: &Operation) -> Result<u64> {
        let mut event = DefinitionEvent::new(DefinitionKind::DropDatabase, name, None);
        let mut events = self.drops(name, operation)?.unwrap_or_default();
        if !events.is_empty() {
            event = event.with(DROPS_FIELD, events.len() as i64);
        }
        events.push(event);
        let mark = self.commits().allocate_ident();
        let mut batch = WriteBatch::new();
        batch.put(&layout::dropped_database_key(name), &mark.0.to_le_bytes());
        self.commit_definitions(ALLOCATED, &events, &batch)
    }

    /// The events of the collections that go with a database; none where they are too many.
    fn drops(&self, name: &str, operation: &Operation) -> Result<Option<Vec<DefinitionEvent>>> {
        let snapshot = self.reads().snapshot()?;
        if are_too_many(&snapshot, name, operation)? {
            return Ok(None);
        }
        let mut entries = Entries::open(&snapshot, name, None)?;
        let (mut events, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        while let Some((collection, is_dead)) = entries.next()? {
            looked_at += 1;
            if looked_at % PIECE_ENTRIES == 0 {
                operation.check()?;
            }
            if is_dead {
                continue;
            }
            let event = drop_of(&collection);
            bytes += event.body.as_bytes().len();
            if bytes > DROPS_BYTES_MAX {
                return Ok(None);
            }
            events.push(event);
        }
        Ok(Some(events))
    }

    /// The dropped databases of which something is left.
    pub fn dropping(&self) -> Vec<String> {
        self.catalog().dropping()
    }

    /// Drops what is left in `name` of databases dropped before. The caller has its DDL mutex.
    pub(crate) fn clean_database(&self, name: &str, operation: &Operation) -> Result<()> {
        let mut cleaned = Cleaned::default();
        while !self.clean_piece(name, &mut cleaned, operation)? {
            operation.check()?;
        }
        Ok(())
    }

    /// Stages the drop of a collection that went with its database and still has its entry under `namespace`.
    pub(crate) fn stage_dead(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        match self.catalog().dead(namespace)? {
            Some(dead) => self.stage_dead_drop(&dead, operation, batch),
            None => Ok(()),
        }
    }

    /// One piece, under the DDL mutex; true if nothing is left.
    fn clean_piece(
        &self,
        name: &str,
        cleaned: &mut Cleaned,
        operation: &Operation,
    ) -> Result<bool> {
        if !self.catalog().is_dropping(name) {
            return Ok(true);
        }
        operation.check()?;
        let mut batch = WriteBatch::new();
        let mut last = cleaned.behind.clone();
        let (dead, mut is_end) = self.next_dead(name, cleaned)?;
        for collection in &dead {
            let ended =
                self.holds()
                    .wait_for_writers_within(collection, operation, WRITERS_WAIT)?;
            if !ended {
                // The next piece begins with it, and somebody else has the mutex in between.
                is_end = false;
                cleaned.behind = last;
                break;
            }
            self.stage_drop(collection, &mut batch)?;
            last = Some(collection.namespace.collection().to_owned());
        }
        if is_end {
            batch.delete(&layout::dropped_database_key(name));
        }
        if !batch.is_empty() {
            self.commits().commit(&Header::CATALOG_ONLY, &batch)?;
        }
        Ok(is_end)
    }

    /// The next dead collections, and whether there are no more. Nobody makes new ones meanwhile.
    fn next_dead(&self, name: &str, cleaned: &mut Cleaned) -> Result<(Vec<Collection>, bool)> {
        let snapshot = self.reads().snapshot()?;
        let mut entries = Entries::open(&snapshot, name, cleaned.behind.as_deref())?;
        let mut dead = Vec::new();
        for _ in 0..PIECE_ENTRIES {
            let Some((collection, is_dead)) = entries.next()? else {
                return Ok((dead, true));
            };
            cleaned.behind = Some(collection.namespace.collection().to_owned());
            if is_dead {
                dead.push(collection);
            }
            if dead.len() == PIECE_COLLECTIONS {
                break;
            }
        }
        Ok((dead, false))
    }

    fn stage_dead_drop(
        &self,
        collection: &Collection,
        operation: &Operation,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        self.holds().wait_for_writers(collection, operation)?;
        self.stage_drop(collection, batch).map(drop)
    }

    /// Drops what is left in `name`; lets other changes of the catalog in between two pieces.
    pub fn clean_in_turns(&self, name: &str, operation: &Operation) -> Result<()> {
        let mut cleaned = Cleaned::default();
        loop {
            let ddl = self.holds().lock_ddl(name, operation)?;
            if self.clean_piece(name, &mut cleaned, operation)? {
                return Ok(());
            }
            // This thread would have it again before anybody who waits for it has woken.
            MutexGuard::unlock_fair(ddl);
        }
    }
}

/// Whether the events of a database's drops are too large for one record even if each is as short as its name allows. That takes
/// a look at names alone, where the events of the collections that fit would be made for nothing.
fn are_too_many(snapshot: &ReadSnapshot, name: &str, operation: &Operation) -> Result<bool> {
    let shortest = DefinitionEvent::new(DefinitionKind::Drop, &format!("{name}."), Some([0; 16]));
    let shortest_bytes = shortest.body.as_bytes().len();
    let mut entries = Entries::open(snapshot, name, None)?;
    let (mut bytes, mut steps) = (0, 0);
    while let Some(entry) = entries.peek()? {
        operation.step(&mut steps)?;
        if !entry.is_dead {
            bytes += shortest_bytes + entry.name_bytes();
        }
        if bytes > DROPS_BYTES_MAX {
            return Ok(true);
        }
        entries.advance()?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::time::Instant;

    use quarry_bson::{RawDocument, doc};
    use quarry_journal::Level;

    use super::*;
    use crate::database::Database;
    use crate::events::change_event::ChangeBody;
    use crate::events::change_reader::{ChangeScope, ChangesFrom};
    use crate::keyspace::ident::Ident;

    fn namespace(text: &str) -> Namespace {
        Namespace::parse(text).unwrap()
    }

    fn insert(database: &Database, into: &str) -> Ident {
        let document = doc! { "_id": 1, "in": into };
        let raw: [RawDocument<'_>; 1] = [document.as_raw()];
        let operation = Operation::default();
        let done = database.insert_piece(&operation, &namespace(into), &raw, true, Level::Written);
        assert_eq!(done.unwrap().inserted, 1, "{into}");
        let collection = database.collection(&namespace(into)).unwrap();
        collection.unwrap().ident
    }

    #[test]
    fn a_drop_of_very_many_collections_stands_for_them() {
        let database = Database::open_in_memory().unwrap();
        for number in 0..1 + DROPS_BYTES_MAX / 40 {
            insert(&database, &format!("db.c{number}"));
        }
        let kinds = |scope: ChangeScope| {
            let mut reader = database.read_changes(scope, ChangesFrom::Now).unwrap();
            move |_: &Database| {
                let mut kinds = Vec::new();
                let read = reader.read(&mut |event| {
                    if let ChangeBody::Definition { kind, .. } = event.body {
                        kinds.push(kind);
                    }
                    Ok(ControlFlow::Continue(()))
                });
                read.map(|_| kinds).unwrap()
            }
        };
        let mut of_collection = kinds(ChangeScope::Collection(namespace("db.c1")));
        let mut of_database = kinds(ChangeScope::Database("db".to_owned()));
        (database.drop_database("db", &Operation::default(), Level::Written)).unwrap();
        // Its stream shows it as a drop of the collection.
        assert_eq!(of_collection(&database), [DefinitionKind::DropDatabase]);
        assert_eq!(of_database(&database), [DefinitionKind::DropDatabase]);
    }

    /// A database whose `db` was dropped, with nothing of it cleaned up.
    fn dropped() -> (Database, [Ident; 2]) {
        let database = Database::open_in_memory().unwrap();
        let idents = [insert(&database, "db.a"), insert(&database, "db.b")];
        database
            .definitions()
            .mark_dropped("db", &Operation::default())
            .unwrap();
        (database, idents)
    }

    fn names(database: &Database, name: &str) -> Vec<String> {
        let listed = database.list_collections(name).unwrap();
        let names = listed
            .iter()
            .map(|found| found.namespace.collection().to_owned());
        names.collect()
    }

    fn is_marked(database: &Database, ident: Ident) -> bool {
        let mark = layout::dropped_key(ident);
        database.engine().get(&mark, &mut |_| {}).unwrap()
    }

    #[test]
    fn the_mark_alone_makes_a_database_not_be_there() {
        let (database, idents) = dropped();
        insert(&database, "dba.a");
        assert_eq!(database.list_databases().unwrap(), ["dba"]);
        assert_eq!(names(&database, "db"), Vec::<String>::new());
        assert!(database.collection(&namespace("db.a")).unwrap().is_none());
        assert!(database.snapshot(&namespace("db.a")).unwrap().is_none());
        assert!(
            !database
                .drop_database("db", &Operation::default(), Level::Written)
                .unwrap()
        );
        database
            .definitions()
            .clean_database("db", &Operation::default())
            .unwrap();
        assert!(idents.iter().all(|ident| is_marked(&database, *ident)));
        assert_eq!(names(&database, "dba"), ["a"]);
    }

    #[test]
    fn a_namesake_takes_the_place_of_a_dead_entry_and_outlives_the_clean_up() {
        let (database, [old, other]) = dropped();
        let new = insert(&database, "db.a");
        assert!(is_marked(&database, old), "its space would be lost");
        assert!(!is_marked(&database, other));
        insert(&database, "db.c");
        let (from, to) = (namespace("db.c"), namespace("db.b"));
        let operation = Operation::default();
        database
            .rename_collection(&from, &to, false, &operation, Level::Written)
            .unwrap();
        assert!(is_marked(&database, other));
        database
            .definitions()
            .clean_database("db", &operation)
            .unwrap();
        assert_eq!(names(&database, "db"), ["a", "b"]);
        let found = database.collection(&namespace("db.a")).unwrap().unwrap();
        assert_eq!(found.ident, new);
        for name in ["db.a", "db.b"] {
            let report = database.validate(&namespace(name), true, &operation);
            assert_eq!(report.unwrap().errors, Vec::<String>::new());
        }
    }

    #[test]
    fn a_writer_that_does_not_end_keeps_nobody_from_the_ddl_mutex() {
        let (database, [first, second]) = dropped();
        let free = Operation::default();
        let holds = database.definitions().holds().holds();
        let writer = holds.shared(first, &free).unwrap();
        std::thread::scope(|scope| {
            let cleans = scope.spawn(|| {
                database
                    .definitions()
                    .clean_in_turns("db", &Operation::default())
            });
            // The cleaner has come to the collection.
            let now = Some(Duration::ZERO);
            let free = Operation::default();
            while holds.shared_within(first, &free, now).unwrap().is_some() {
                std::thread::yield_now();
            }
            let deadline = Instant::now() + Duration::from_secs(20);
            let limited = Operation::new(Some(deadline));
            let made = namespace("db.new");
            database.collection_or_create(&made, &limited).unwrap();
            assert!(!cleans.is_finished());
            drop(writer);
            cleans.join().unwrap().unwrap();
        });
        assert!(is_marked(&database, first) && is_marked(&database, second));
        assert!(!database.definitions().catalog().is_dropping("db"));
        assert_eq!(names(&database, "db"), ["new"]);
    }

    #[test]
    fn an_old_collection_can_move_into_a_dropped_database() {
        let database = Database::open_in_memory().unwrap();
        insert(&database, "elsewhere.old");
        insert(&database, "db.a");
        database
            .definitions()
            .mark_dropped("db", &Operation::default())
            .unwrap();
        let (from, to) = (namespace("elsewhere.old"), namespace("db.a"));
        let operation = Operation::default();
        database
            .rename_collection(&from, &to, false, &operation, Level::Written)
            .unwrap();
        assert_eq!(names(&database, "db"), ["a"]);
        assert_eq!(database.list_databases().unwrap(), ["db"]);
    }

    #[test]
    fn a_database_can_be_dropped_again_before_it_is_cleaned_up() {
        let (database, idents) = dropped();
        let again = insert(&database, "db.c");
        assert_eq!(names(&database, "db"), ["c"]);
        let operation = Operation::default();
        let was_there = database.drop_database("db", &operation, Level::Written);
        assert!(was_there.unwrap());
        assert!(database.list_databases().unwrap().is_empty());
        for ident in idents.into_iter().chain([again]) {
            assert!(is_marked(&database, ident));
        }
        assert!(!database.definitions().catalog().is_dropping("db"));
    }
}
