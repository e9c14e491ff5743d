//! Building indexes on existing data while writes go on.
//!
//! An index is registered as *building* under the exclusive hold; from then on every writer keeps it up to date. The
//! build then walks the collection in pieces: it locks the records of a piece, reads the latest, and puts their entries
//! through the commit path. At the end the index becomes visible to plans. A duplicate fails the build and removes it; when it counts as one is
//! told in `unique_build`. What a crash leaves of a build is dropped after the next start (`builds`).

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, Value};
use quarry_journal::Level;
use quarry_storage::{KeyRange, WriteBatch};

use crate::build::IndexBuilder;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::commit::payload::{ALLOCATED, Header, MARKS, now_ms};
use crate::definitions::builds::{RunningBuilds, stage_mark, unstage_mark};
use crate::definitions::index_changes::stage_index_drop;
use crate::definitions::known_index::{IndexesCreated, Known, known};
use crate::definitions::series_indexes;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{INDEXES_MAX, Index};
use crate::index::key_buffer::KeyBuffer;
use crate::index::keys::Target;
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::operation::{Operation, run_unbound};
use crate::write::unique_check::{Changed, UniqueCheck, lock_hashes};
use crate::write::unit::Latest;

/// The work of a build in MongoDB's words.
const SCANNING: &str = "Index Build: scanning collection";
const BUILD_PIECE_DOCUMENTS: usize = 256;
/// A piece ends behind the document that fills it.
const BUILD_PIECE_BYTES: usize = 1024 * 1024;

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
            match known(&candidate, kept.iter().copied().chain(&new))? {
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

    fn build(&self, namespace: &Namespace, idents: &[Ident], operation: &Operation) -> Result<()> {
        let mut from: Vec<u8> = Vec::new();
        loop {
            operation.check()?;
            let _epoch = self.parts.reads.enter_to_write();
            let Some((collection, _hold)) = self.parts.holds.hold_shared(namespace, operation)?
            else {
                return Err(Error::QueryPlanKilled(format!(
                    "collection `{namespace}` was dropped"
                )));
            };
            let index_catalog = self.parts.catalog.index_catalog(&collection)?;
            check_all_stand(index_catalog, idents)?;
            self.parts.builds.check_noted(idents)?;
            if from.is_empty() {
                let documents = self.parts.commits.counts(collection.ident)?.documents;
                operation.begin_progress(SCANNING, documents);
            }
            let keys = self.next_record_keys(&collection, &from)?;
            let Some(last) = keys.last() else {
                return Ok(());
            };
            from.clone_from(last);
            from.push(0);
            self.build_piece(&collection, index_catalog, idents, &keys, operation)?;
            operation.advance(keys.len() as u64);
        }
    }

    fn next_record_keys(&self, collection: &Arc<Collection>, from: &[u8]) -> Result<Vec<Vec<u8>>> {
        let snapshot = self.parts.reads.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(collection.prefix.as_bytes()))?;
        if from.is_empty() {
            cursor.first()?;
        } else {
            cursor.seek(from)?;
        }
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while cursor.valid() && keys.len() < BUILD_PIECE_DOCUMENTS && bytes < BUILD_PIECE_BYTES {
            bytes += cursor.value().len();
            keys.push(cursor.key().to_vec());
            cursor.next()?;
        }
        Ok(keys)
    }

    fn build_piece(
        &self,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        idents: &[Ident],
        keys: &[Vec<u8>],
        operation: &Operation,
    ) -> Result<()> {
        let _records = self
            .parts
            .locks
            .records
            .lock(keys.iter().map(|key| key_hash(key)).collect(), operation)?;
        let mut buffer = KeyBuffer::default();
        let mut batch = WriteBatch::new();
        let mut flags = 0;
        let mut document = Vec::new();
        for (position, key) in keys.iter().enumerate() {
            document.clear();
            if !self
                .parts
                .reads
                .get_record(key, &mut |bytes| document.extend_from_slice(bytes))?
            {
                continue;
            }
            let raw = RawDocument::new(&document)?;
            let id = if collection.is_clustered() {
                raw.get("_id")
            } else {
                None
            };
            let suffix = &key[collection.prefix.as_bytes().len()..];
            let target = Target {
                document: position as u32,
                record_key: suffix,
                id,
            };
            let found = index_catalog.keys.extract(raw);
            for (number, index) in index_catalog
                .indexes
                .iter()
                .enumerate()
                .filter(|(_, index)| idents.contains(&index.ident))
            {
                let multikey =
                    index_catalog
                        .keys
                        .entries(number, index, &found, target, &mut buffer)?;
                for component in
                    (0..64u8).filter(|component| multikey & !index.marks() & (1 << component) != 0)
                {
                    batch.put(&layout::multikey_key(index.ident, component), &[]);
                    flags = MARKS;
                }
            }
        }
        let hashes = lock_hashes(index_catalog, &[&buffer]);
        let _uniques = self.parts.locks.uniques.lock(hashes, operation)?;
        let left_out = {
            let latest = Latest::of(&self.parts.reads);
            let mut check = UniqueCheck::new(latest, &self.parts.builds, collection, index_catalog);
            for (position, record_key) in keys.iter().enumerate() {
                let changed = Changed {
                    document: position as u32,
                    record_key,
                    old: (&buffer, &[]),
                    new: (&buffer, buffer.of_document(position)),
                };
                if let Some(error) = check.check(&changed)? {
                    return Err(error);
                }
                check.claim(&changed);
            }
            check.into_left_out()
        };
        left_out.take_from(&mut KeyBuffer::default(), &mut buffer);
        for entry in &buffer.entries {
            batch.put(buffer.key(entry), buffer.value(entry));
        }
        if !batch.is_empty() {
            let header = Header {
                flags,
                wall_ms: now_ms(),
                ..Header::PLAIN
            };
            self.parts.commits.commit(&header, &batch)?;
        }
        Ok(())
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

/// Fails when one of the indexes was dropped while it was built.
fn check_all_stand(index_catalog: &IndexCatalog, idents: &[Ident]) -> Result<()> {
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
