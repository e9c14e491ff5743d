//! Building indexes on existing data while writes go on.
//!
//! An index is registered as *building* under the exclusive hold; from then on every writer keeps it up to date. The
//! build then walks the records that are there in pieces (`piece`): it makes the entries of a piece from a snapshot, perhaps on
//! another processor (`read_ahead`), locks the records, makes anew what somebody has changed since, and puts the entries through
//! the commit path. How large pieces are, and when the build gives way to others, is told in `pace`. At the end the index
//! becomes visible to plans. A duplicate fails the build and removes it; when it counts as one is told in `unique_build`. So does a
//! document that the index cannot have entries of, if it still stands when the build comes to it. What a crash leaves of a build is
//! dropped after the next start (`builds`).

use std::thread;

use quarry_bson::{Document, Value};
use quarry_journal::Level;
use quarry_storage::{KeyRange, WriteBatch};

use crate::build::IndexBuilder;
use crate::build::pace::{Offers, Pace};
use crate::build::piece::{Piece, Source};
use crate::build::read_ahead::ReadAhead;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::catalog::collection_holds::HeldCollection;
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::commit::payload::{ALLOCATED, Header, MARKS, now_ms};
use crate::definitions::builds::{RunningBuilds, stage_mark, unstage_mark};
use crate::definitions::index_changes::stage_index_drop;
use crate::definitions::known_index::{IndexesCreated, Known, known};
use crate::definitions::series_indexes;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{INDEXES_MAX, Index};
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::operation::{Operation, run_unbound};

/// The work of a build in MongoDB's words.
const SCANNING: &str = "Index Build: scanning collection";

/// The outcome of registering the indexes.
enum Register<'b> {
    Done(Registered<'b>),
    /// Another createIndexes builds this one of the indexes.
    IsBuilt(Ident),
}

struct Registered<'b> {
    before: usize,
    created: usize,
    lsn: Option<u64>,
    /// The indexes that have to be built.
    running: Option<RunningBuilds<'b>>,
}

impl IndexBuilder {
    pub fn create_indexes(
        &self,
        namespace: &Namespace,
        specs: &[Document],
        operation: &Operation,
        level: Level,
    ) -> Result<IndexesCreated> {
        let created_collection = self.parts.catalog.get(namespace)?.is_none();
        // Parsed before the collection is created, so that a bad index leaves nothing behind.
        let specs = specs.iter().map(|spec| self.parts.catalog.checked(spec));
        let specs = &specs.collect::<Result<Vec<Document>>>()?;
        self.parts
            .definitions
            .collection_or_create(namespace, operation)?;
        let registered = loop {
            match self.register(namespace, specs, operation)? {
                Register::Done(registered) => break registered,
                Register::IsBuilt(ident) => self.parts.builds.wait(ident, operation)?,
            }
        };
        let mut lsn = registered.lsn;
        if let Some(running) = &registered.running {
            let idents = running.idents();
            let built = self
                .build(namespace, idents, operation)
                .and_then(|()| self.finish(namespace, idents, operation));
            match built {
                Ok(finished) => lsn = Some(finished),
                Err(error) => {
                    // Where writes are refused it stays until the next createIndexes, dropIndexes or start.
                    let unbound = Operation::default();
                    let _ = run_unbound(|| self.drop_builds(idents, &unbound));
                    return Err(error);
                }
            }
        }
        self.parts.commits.settle(lsn, level)?;
        Ok(IndexesCreated {
            before: registered.before,
            after: registered.before + registered.created,
            created_collection,
        })
    }

    /// Puts the new indexes into the catalog; on an empty collection they are ready at once.
    fn register(
        &self,
        namespace: &Namespace,
        specs: &[Document],
        operation: &Operation,
    ) -> Result<Register<'_>> {
        let (_ddl, held) = self.parts.holds.lock_collection(namespace, operation)?;
        let Some((collection, _hold)) = held else {
            return Err(Error::QueryPlanKilled(format!(
                "collection `{namespace}` was dropped"
            )));
        };
        collection.refuse_view()?;
        let index_catalog = self.parts.catalog.index_catalog(&collection)?;
        // What nobody builds any more makes room.
        let is_left = |index: &&Index| index.building && !self.parts.builds.is_running(index.ident);
        let kept: Vec<&Index> = index_catalog
            .indexes
            .iter()
            .filter(|index| !is_left(index))
            .collect();
        let before = kept.len() + usize::from(collection.is_clustered());
        let is_empty = self.parts.commits.counts(collection.ident)?.documents == 0;
        let mut new: Vec<Index> = Vec::new();
        for spec in specs {
            if let Some(series) = &collection.series {
                series_indexes::check(series, spec.as_raw())?;
            }
            let spec = collection.spec_of_index(spec);
            let candidate = Index::from_spec(spec.as_raw(), Ident(0))?;
            match known(&candidate, &collection, kept.iter().copied().chain(&new))? {
                None => {}
                Some(Known::Index(index)) if self.parts.builds.is_running(index.ident) => {
                    return Ok(Register::IsBuilt(index.ident));
                }
                Some(_) => continue,
            }
            let mut index = Index::from_spec(spec.as_raw(), self.parts.commits.allocate_ident())?;
            index.building = !is_empty;
            new.push(index);
        }
        if new.is_empty() {
            return Ok(Register::Done(Registered {
                before,
                created: 0,
                lsn: None,
                running: None,
            }));
        }
        if before + new.len() > INDEXES_MAX {
            return Err(Error::invalid(
                ErrorCode::CANNOT_CREATE_INDEX,
                format!("add index fails, too many indexes for `{namespace}`"),
            ));
        }
        let mut batch = WriteBatch::new();
        for index in index_catalog.indexes.iter().filter(is_left) {
            stage_index_drop(index, &mut batch);
        }
        for index in new.iter().filter(|index| index.building) {
            stage_mark(index, namespace, &mut batch);
        }
        // Before the commit shows the indexes to anybody else.
        let running = (!is_empty).then(|| {
            let idents = new.iter().map(|index| index.ident).collect();
            self.parts.builds.start(idents)
        });
        // Of those that are still to be built the end of the build tells.
        let events = match is_empty {
            true => vec![created(&collection, new.iter())],
            false => Vec::new(),
        };
        let all: Vec<&Index> = kept.into_iter().chain(&new).collect();
        let lsn = self
            .parts
            .definitions
            .put_entry(&collection, &all, ALLOCATED, &events, batch)?;
        Ok(Register::Done(Registered {
            before,
            created: new.len(),
            lsn: Some(lsn),
            running,
        }))
    }

    pub(super) fn build(
        &self,
        namespace: &Namespace,
        idents: &[Ident],
        operation: &Operation,
    ) -> Result<()> {
        let source = Source {
            parts: &self.parts,
            namespace,
            idents,
        };
        thread::scope(|scope| {
            self.build_pieces(source, &mut ReadAhead::new(scope, source), operation)
        })
    }

    fn build_pieces<'s>(
        &self,
        source: Source<'s>,
        ahead: &mut ReadAhead<'_, 's>,
        operation: &Operation,
    ) -> Result<()> {
        let (mut pace, mut offers) = (Pace::default(), Offers::begin());
        let mut left: Option<KeyRange> = None;
        loop {
            operation.check()?;
            offers.offer();
            let bounds = pace.next_piece(self.parts.commits.path().applied_lsn());
            let _epoch = self.parts.reads.enter_to_write();
            let (collection, _hold) = self.hold(source, operation)?;
            let is_shared = collection.capped.is_none();
            let left = match &mut left {
                Some(left) => left,
                None => {
                    let documents = self.parts.commits.counts(collection.ident)?.documents;
                    operation.begin_progress(SCANNING, documents);
                    left.insert(self.records_of(&collection)?)
                }
            };
            let gathered = ahead.take().filter(|piece| piece.is_of(&collection));
            let piece = match gathered {
                Some(piece) => piece,
                None => {
                    let offers = is_shared.then_some(&mut offers);
                    Piece::gather(source, &collection, left, bounds, offers)?
                }
            };
            let Some(last) = piece.last_record_key() else {
                return Ok(());
            };
            left.start = behind(last);
            if is_shared {
                if let Some(bounds) = pace.piece_ahead() {
                    ahead.ask(left, bounds);
                }
                offers.offer();
            }
            let documents = piece.documents_len();
            if let Some(lsn) = self.commit_piece(piece, operation)? {
                pace.committed(lsn);
            }
            operation.advance(documents as u64);
        }
    }

    /// Holds the collection, if the indexes are still to be built.
    fn hold(&self, source: Source<'_>, operation: &Operation) -> Result<HeldCollection<'_>> {
        let held = (self.parts.holds).hold_shared(source.namespace, operation)?;
        let Some((collection, hold)) = held else {
            let namespace = source.namespace;
            let message = format!("collection `{namespace}` was dropped");
            return Err(Error::QueryPlanKilled(message));
        };
        let index_catalog = self.parts.catalog.index_catalog(&collection)?;
        check_all_stand(index_catalog, source.idents)?;
        self.parts.builds.check_noted(source.idents)?;
        Ok((collection, hold))
    }

    /// From the first record to the last one that is there now. Those that come later have their entries from their writers, and a
    /// build goes after none that come behind the last one faster than it gets there.
    fn records_of(&self, collection: &Collection) -> Result<KeyRange> {
        let mut records = KeyRange::prefix(collection.prefix.as_bytes());
        let snapshot = self.parts.reads.snapshot()?;
        let mut cursor = snapshot.cursor(records.clone())?;
        cursor.last()?;
        records.end = match cursor.valid() {
            true => behind(cursor.key()),
            false => records.start.clone(),
        };
        Ok(records)
    }

    /// Commits the entries of the piece's documents as they are under their locks; none if there is nothing to commit.
    fn commit_piece(&self, mut piece: Piece<'_>, operation: &Operation) -> Result<Option<u64>> {
        let locks = &self.parts.locks;
        let _records = locks.records.lock(piece.record_hashes(), operation)?;
        piece.settle()?;
        let hashes = piece.unique_hashes();
        let has_uniques = !hashes.is_empty();
        let _uniques = locks.uniques.lock(hashes, operation)?;
        if has_uniques {
            piece.leave_out_taken()?;
        }
        let (batch, has_marks) = piece.batch();
        if batch.is_empty() {
            return Ok(None);
        }
        let header = Header {
            flags: if has_marks { MARKS } else { 0 },
            wall_ms: now_ms(),
            ..Header::PLAIN
        };
        self.parts.commits.commit(&header, &batch).map(Some)
    }

    /// Shows built indexes to plans.
    fn finish(
        &self,
        namespace: &Namespace,
        idents: &[Ident],
        operation: &Operation,
    ) -> Result<u64> {
        let (_ddl, held) = self.parts.holds.lock_collection(namespace, operation)?;
        let Some((collection, _hold)) = held else {
            return Err(Error::QueryPlanKilled(format!(
                "collection `{namespace}` was dropped"
            )));
        };
        let index_catalog = self.parts.catalog.index_catalog(&collection)?;
        check_all_stand(index_catalog, idents)?;
        let (mut indexes, mut batch) = (Vec::new(), WriteBatch::new());
        for ident in idents {
            self.settle_noted(&collection, index_catalog, *ident, &mut batch)?;
            unstage_mark(*ident, &mut batch);
        }
        for index in &index_catalog.indexes {
            let mut copy = index.copy()?;
            copy.building = index.building && !idents.contains(&index.ident);
            indexes.push(copy);
        }
        let built = indexes.iter().filter(|index| idents.contains(&index.ident));
        let event = created(&collection, built);
        let indexes: Vec<&Index> = indexes.iter().collect();
        self.parts
            .definitions
            .put_entry(&collection, &indexes, 0, &[event], batch)
    }
}

/// The event of indexes that are used from now on.
fn created<'i>(
    collection: &Collection,
    indexes: impl Iterator<Item = &'i Index>,
) -> DefinitionEvent {
    let specs: Vec<Value> = indexes.map(|index| index.spec.clone().into()).collect();
    DefinitionEvent::new(
        DefinitionKind::CreateIndexes,
        collection.told_name(),
        Some(collection.uuid),
    )
    .with("indexes", specs)
}

/// The key directly behind another one.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Fails when one of the indexes was dropped while it was built.
pub(super) fn check_all_stand(index_catalog: &IndexCatalog, idents: &[Ident]) -> Result<()> {
    let stands = |ident: &Ident| {
        index_catalog
            .indexes
            .iter()
            .any(|index| index.ident == *ident)
    };
    if idents.iter().all(stands) {
        return Ok(());
    }
    let message = "the index build was aborted: an index was dropped while it was built";
    Err(Error::invalid(ErrorCode::INDEX_BUILD_ABORTED, message))
}
