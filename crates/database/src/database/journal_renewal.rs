//! A new journal for an engine whose journal is lost or damaged: looked at first, and begun on request. Nobody else has the
//! engine open.
//!
//! Keeps true: nothing is changed that a start needs before it is decided; an engine gets a new journal only if what it holds is
//! complete by itself. That is what it was at its last durable point, with one exception: an engine may have given back the space
//! of what was dropped later, which the journal alone knows. So every collection is counted.

use std::sync::Arc;

use quarry_journal::renew::{self, Remains, State};
use quarry_journal::{Files, Identity};
use quarry_storage::Engine;

use super::Options;
use super::identity::{identify, knows_journal};
use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::catalog::validation::Validators;
use crate::commit::read_u64;
use crate::definitions::listing;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::counts::{Counts, decode_counts};
use crate::keyspace::layout;
use crate::operation::Operation;
use crate::snapshot::reads::Reads;
use crate::upkeep::validate;

/// A journal that may be begun anew, and what is known of the one that it stands for.
pub struct JournalRenewal {
    identity: Identity,
    /// The engine holds everything up to this record, durably, and nothing of a later one.
    pub applied_lsn: u64,
    /// The last record in the rest of the journal; 0 where nothing is left.
    pub last_lsn: u64,
    /// Why the journal refuses a start; none where there is no journal, or a whole one without records that the engine lacks.
    pub damage: Option<String>,
    remains: Remains,
}

impl JournalRenewal {
    /// Looks at the engine and at the files of the journal, where there are any. Refuses where the engine does not hold all that it
    /// is to go on from, and where the journal is whole and has records that the engine lacks.
    pub fn plan(
        engine: &Arc<dyn Engine>,
        journal: Option<&dyn Files>,
        options: &Options,
    ) -> Result<JournalRenewal> {
        let applied_lsn = durable_position(engine.as_ref())?;
        let identity = Identity {
            database: identify(engine.as_ref())?,
            engine: engine.name().to_owned(),
        };
        let (state, remains) = match journal {
            Some(files) => (
                renew::look(files, &identity, applied_lsn)?,
                Remains::of(files)?,
            ),
            None => (State::Missing, Remains::default()),
        };
        let damage = match state {
            State::Whole { last_lsn } if last_lsn > applied_lsn => {
                return Err(refused(format!(
                    "the journal is whole: a start replays its records {} to {last_lsn}",
                    applied_lsn + 1
                )));
            }
            State::Whole { .. } | State::Missing => None,
            State::Damaged(error) => Some(error.to_string()),
        };
        check_complete(engine, options)?;
        Ok(JournalRenewal {
            identity,
            applied_lsn,
            last_lsn: remains.last_lsn,
            damage,
            remains,
        })
    }

    /// Begins the journal in files that hold none, durably.
    pub fn begin_in(&self, files: Arc<dyn Files>) -> Result<()> {
        let identity = self.identity.clone();
        Ok(renew::begin(
            files,
            identity,
            self.applied_lsn,
            &self.remains,
        )?)
    }
}

fn refused(message: String) -> Error {
    Error::invalid(ErrorCode::ILLEGAL_OPERATION, message)
}

/// The record that the engine goes on behind.
fn durable_position(engine: &dyn Engine) -> Result<u64> {
    if !knows_journal(engine)? {
        let message = "the engine knows of no journal: a start begins one";
        return Err(refused(message.to_owned()));
    }
    let applied_lsn = read_u64(engine, layout::APPLIED_LSN_KEY)?.unwrap_or(0);
    if applied_lsn == 0 {
        let message =
            "the engine holds nothing durably: all that was written was in the journal alone";
        return Err(refused(message.to_owned()));
    }
    let durable_lsn = engine.durable_lsn()?;
    if durable_lsn != applied_lsn {
        return Err(refused(format!(
            "the engine shows records up to {applied_lsn}, and is known to hold those up to {durable_lsn} durably: without its journal \
             nobody can say that it is whole"
        )));
    }
    Ok(applied_lsn)
}

/// Refuses an engine that lacks anything of a collection: documents, by the collection's counters, or entries of its indexes.
fn check_complete(engine: &Arc<dyn Engine>, options: &Options) -> Result<()> {
    let validators = Validators {
        language: Arc::clone(&options.filter_language),
        on_invalid: options.on_invalid,
    };
    let kinds = Arc::clone(&options.index_kinds);
    let catalog = Catalog::new(Arc::clone(engine), validators, kinds)?;
    let reads = Reads::new(Arc::clone(engine), None);
    for database in listing::list_databases(&reads)? {
        for listed in listing::list_collections(&reads, &database)? {
            let Some(collection) = catalog.get(&listed.namespace)? else {
                continue;
            };
            if collection.refuse_view().is_ok() {
                check_collection(engine.as_ref(), &catalog, &reads, &collection)?;
            }
        }
    }
    Ok(())
}

fn check_collection(
    engine: &dyn Engine,
    catalog: &Catalog,
    reads: &Reads,
    collection: &Collection,
) -> Result<()> {
    let mut counts = Counts::default();
    engine.get(&layout::counters_key(collection.ident), &mut |value| {
        counts = decode_counts(value);
    })?;
    let operation = Operation::default();
    let report = validate::check(catalog, reads, collection, counts, false, &operation)?;
    match report.errors.first() {
        None => Ok(()),
        Some(error) => Err(refused(format!(
            "the engine's data is not complete by itself: `{}`: {error}",
            collection.namespace
        ))),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;
    use quarry_journal::SimulatedFiles;
    use quarry_storage::{KeyRange, Memory, WriteBatch};

    use super::*;
    use crate::{Database, Level, Namespace};

    const DOCUMENTS: i32 = 20;

    fn namespace() -> Namespace {
        Namespace::new("db", "c").unwrap()
    }

    /// An engine that holds a collection durably, and the prefix of its documents.
    fn engine_with_documents() -> (Arc<dyn Engine>, Vec<u8>) {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let files = Arc::new(SimulatedFiles::new());
        let database = Database::open_on(Arc::clone(&engine), files, Options::default()).unwrap();
        for number in 0..DOCUMENTS {
            let document = doc! { "_id": number };
            let (operation, documents) = (Operation::default(), [document.as_raw()]);
            let level = Level::Durable;
            (database.insert_piece(&operation, &namespace(), &documents, true, level)).unwrap();
        }
        engine.sync().unwrap();
        let collection = database.collection(&namespace()).unwrap().unwrap();
        let prefix = collection.prefix.as_bytes().to_vec();
        // As after a kill: nothing is closed, so that a second database may open the engine.
        drop(collection);
        drop(database);
        (engine, prefix)
    }

    fn plan(engine: &Arc<dyn Engine>) -> Result<JournalRenewal> {
        JournalRenewal::plan(engine, None, &Options::default())
    }

    #[test]
    fn an_engine_that_is_complete_goes_on_with_a_new_journal() {
        let (engine, _) = engine_with_documents();
        let renewal = plan(&engine).unwrap();
        assert!(renewal.applied_lsn >= DOCUMENTS as u64 && renewal.damage.is_none());
        let files = Arc::new(SimulatedFiles::new());
        renewal.begin_in(Arc::clone(&files) as _).unwrap();
        let database = Database::open_on(engine, files, Options::default()).unwrap();
        let collection = database.collection(&namespace()).unwrap().unwrap();
        assert_eq!(database.count(&collection).unwrap(), DOCUMENTS as u64);
        database.close().unwrap();
    }

    /// As where the engine has given back the space of a collection whose drop only the journal has.
    #[test]
    fn an_engine_that_lacks_documents_of_a_collection_is_refused() {
        let (engine, prefix) = engine_with_documents();
        let mut batch = WriteBatch::new();
        {
            let snapshot = engine.snapshot().unwrap();
            let mut cursor = snapshot.cursor(KeyRange::prefix(&prefix)).unwrap();
            cursor.last().unwrap();
            batch.delete(cursor.key());
        }
        engine.write(&batch).unwrap();
        let refused = plan(&engine).err().unwrap().to_string();
        assert!(
            refused.contains("`db.c`: the counters say 20 documents"),
            "{refused}"
        );
    }

    #[test]
    fn an_engine_that_shows_more_than_it_holds_durably_is_refused() {
        let (engine, _) = engine_with_documents();
        let mut batch = WriteBatch::new();
        batch.put(layout::APPLIED_LSN_KEY, &1_000_u64.to_le_bytes());
        engine.write(&batch).unwrap();
        let refused = plan(&engine).err().unwrap().to_string();
        assert!(refused.contains("shows records up to 1000"), "{refused}");
    }

    #[test]
    fn an_engine_without_records_is_refused() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let refused = plan(&engine).err().unwrap().to_string();
        assert!(refused.contains("knows of no journal"), "{refused}");
        let mut batch = WriteBatch::new();
        batch.put(layout::APPLIED_LSN_KEY, &0_u64.to_le_bytes());
        engine.write(&batch).unwrap();
        let refused = plan(&engine).err().unwrap().to_string();
        assert!(refused.contains("holds nothing durably"), "{refused}");
    }
}
