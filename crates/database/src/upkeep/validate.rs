//! Checks a collection: its documents, its counters, and with `full` every index both ways.
//!
//! Runs under the exclusive hold, on one snapshot. Every entry that a document asks for must stand with the value it
//! asks for, and an index may hold no entry beyond those, which their number shows. Where the numbers differ an index is
//! looked at in full even if that was not asked for, so that the report tells which entries those are. What the cache of
//! records holds must be what the engine holds.

use quarry_bson::{RawDocument, RawValue};
use quarry_storage::KeyRange;

use crate::catalog::cache::Catalog;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::catalog::collection_holds::CollectionHolds;
use crate::commit::commits::Commits;
use crate::error::{Error, Result};
use crate::index::document_filter::FilterLanguage;
use crate::index::entry::IndexEntry;
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::index::keys::Target;
use crate::keyspace::counts::Counts;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::record_cache::RecordCache;
use crate::snapshot::reads::{ReadSnapshot, Reads};
use crate::upkeep::findings::{Findings, entry_document, record_document};

/// Errors that one report lists at most.
const ERRORS_MAX: usize = 100;

/// The findings of `validate` on one collection.
#[derive(Debug, Default)]
pub struct ValidateReport {
    /// The number of documents.
    pub documents: u64,
    /// The number of documents that are not valid BSON or lie under a wrong key.
    pub invalid_documents: u64,
    /// The number of documents that do not suit the collection's validator.
    pub noncompliant_documents: u64,
    /// The findings on each index.
    pub indexes: Vec<IndexReport>,
    /// The errors as texts; none: the collection is valid.
    pub errors: Vec<String>,
    /// The entries that documents ask for and indexes do not have.
    pub missing_entries: Findings,
    /// The entries that no document asks for.
    pub extra_entries: Findings,
    /// The records of the invalid documents.
    pub corrupt_records: Findings,
}

/// The findings on one index.
#[derive(Debug)]
pub struct IndexReport {
    /// The index's name.
    pub name: String,
    /// The number of its entries.
    pub keys: u64,
    /// Whether every entry belongs to a document, and none is missing.
    pub valid: bool,
}

/// Checks one collection.
pub fn validate(
    holds: &CollectionHolds,
    catalog: &Catalog,
    reads: &Reads,
    commits: &Commits,
    namespace: &Namespace,
    full: bool,
    operation: &Operation,
) -> Result<ValidateReport> {
    let Some((collection, _hold)) = holds.hold_exclusive(namespace, operation)? else {
        return Err(Error::NamespaceNotFound(format!(
            "collection `{namespace}` does not exist to validate."
        )));
    };
    collection.refuse_view()?;
    let counts = commits.counts(collection.ident)?;
    check(catalog, reads, &collection, counts, full, operation)
}

/// Checks a collection that nobody writes meanwhile, and of which the counters say `counts`.
pub(crate) fn check(
    catalog: &Catalog,
    reads: &Reads,
    collection: &Collection,
    counts: Counts,
    full: bool,
    operation: &Operation,
) -> Result<ValidateReport> {
    let index_catalog = catalog.index_catalog(collection)?;
    let snapshot = reads.snapshot()?;
    let begin = || Check {
        collection,
        language: catalog.validators.language.as_ref(),
        index_catalog,
        snapshot: &snapshot,
        operation,
        report: ValidateReport::default(),
        expected: vec![0; index_catalog.indexes.len()],
        missing: vec![0; index_catalog.indexes.len()],
        valid: vec![true; index_catalog.indexes.len()],
        data_bytes: 0,
    };
    let mut check = begin();
    check.all(full)?;
    if !full && check.valid.contains(&false) {
        // An index that is wrong is worth the look that tells where.
        check = begin();
        check.all(true)?;
    }
    if let Some(records) = reads.records().filter(|_| full) {
        check.cached(records)?;
    }
    if counts.documents != check.report.documents || counts.bytes != check.data_bytes {
        let message = format!(
            "the counters say {} documents of {} bytes, there are {} of {}",
            counts.documents, counts.bytes, check.report.documents, check.data_bytes
        );
        check.error(message);
    }
    Ok(check.report)
}

struct Check<'c> {
    collection: &'c Collection,
    language: &'c dyn FilterLanguage,
    index_catalog: &'c IndexCatalog,
    snapshot: &'c ReadSnapshot,
    operation: &'c Operation,
    report: ValidateReport,
    /// Entries that the documents ask for, by index.
    expected: Vec<u64>,
    /// Those of them that were looked for in vain.
    missing: Vec<u64>,
    valid: Vec<bool>,
    data_bytes: u64,
}

impl Check<'_> {
    fn all(&mut self, full: bool) -> Result<()> {
        self.documents(full)?;
        self.indexes(full)
    }

    fn documents(&mut self, full: bool) -> Result<()> {
        let mut cursor = self
            .snapshot
            .cursor(KeyRange::prefix(self.collection.prefix.as_bytes()))?;
        cursor.first()?;
        let (mut buffer, mut steps) = (KeyBuffer::default(), 0);
        while cursor.valid() {
            self.operation.step(&mut steps)?;
            self.report.documents += 1;
            self.data_bytes += cursor.value().len() as u64;
            match RawDocument::validated_any_text(cursor.value()) {
                Ok(document) => self.document(cursor.key(), document, full, &mut buffer)?,
                Err(error) => {
                    let key = cursor.key();
                    let message = format!("the document at {key:02x?} is broken: {error}");
                    self.invalid(key, message);
                }
            }
            cursor.next()?;
        }
        Ok(())
    }

    fn document(
        &mut self,
        key: &[u8],
        document: RawDocument<'_>,
        full: bool,
        buffer: &mut KeyBuffer,
    ) -> Result<()> {
        let Some(id) = document.get("_id") else {
            self.invalid(key, format!("the document at {key:02x?} has no _id"));
            return Ok(());
        };
        self.own(key, id, document)?;
        buffer.clear();
        let found = self.index_catalog.keys.extract(document);
        let target = self.target(key, id);
        let indexes = self.index_catalog.indexes.iter().enumerate();
        for (number, index) in indexes.filter(|(_, index)| !index.building) {
            let multikey = self
                .index_catalog
                .keys
                .standing_entries(number, index, &found, target, buffer)?;
            if multikey & !index.marks() != 0 {
                self.index_error(
                    number,
                    format!(
                        "index `{}` lacks a mark, of arrays or of cut keys, for the document with _id {id}",
                        index.name
                    ),
                );
            }
        }
        self.entries(id, full, buffer)
    }

    /// The record whose entries are made.
    fn target<'t>(&self, key: &'t [u8], id: RawValue<'t>) -> Target<'t> {
        Target {
            document: 0,
            record_key: &key[self.collection.prefix.as_bytes().len()..],
            id: self.collection.is_clustered().then_some(id),
        }
    }

    /// Looks at what a document is by itself: whether it stands under the key of its `_id` or its time and suits the validator.
    fn own(&mut self, key: &[u8], id: RawValue<'_>, document: RawDocument<'_>) -> Result<()> {
        if self.collection.is_clustered() {
            let mut expected = Vec::new();
            self.collection.append_record_key(&mut expected, id)?;
            if expected != key {
                let message = format!("the document with _id {id} stands under another key");
                self.invalid(key, message);
            }
        }
        if let Some(series) = &self.collection.series {
            let begin = series
                .time_of(document)
                .map(|ms| self.collection.date_key(ms));
            if !begin.is_ok_and(|begin| key.starts_with(&begin)) {
                let message = format!("the measurement with _id {id} stands under another time");
                self.invalid(key, message);
            }
        }
        if let Some(validation) = &self.collection.validation
            && !validation.accepts(self.language, document)?
        {
            self.report.noncompliant_documents += 1;
        }
        Ok(())
    }

    /// Looks for the entries that the document of that `_id` asks for.
    fn entries(&mut self, id: RawValue<'_>, full: bool, buffer: &KeyBuffer) -> Result<()> {
        for entry in &buffer.entries {
            let number = usize::from(entry.index);
            self.expected[number] += 1;
            if !full {
                continue;
            }
            let mut right = false;
            self.snapshot.get(buffer.key(entry), &mut |value| {
                right = value == buffer.value(entry);
            })?;
            let index = &self.index_catalog.indexes[number];
            if !right {
                self.missing[number] += 1;
                let bytes = (buffer.key(entry), buffer.value(entry));
                let found = || entry_document(self.collection, index, bytes, Some(id));
                self.report.missing_entries.note(found);
                let name = &index.name;
                self.index_error(
                    number,
                    format!("index `{name}` misses the entry of the document with _id {id}"),
                );
            }
        }
        Ok(())
    }

    fn indexes(&mut self, full: bool) -> Result<()> {
        if self.collection.is_clustered() {
            let keys = self.report.documents;
            self.report.indexes.push(IndexReport {
                name: self.collection.id_index_name().to_owned(),
                keys,
                valid: self.report.invalid_documents == 0,
            });
        }
        for (number, index) in self.index_catalog.indexes.iter().enumerate() {
            let mut cursor = self
                .snapshot
                .cursor(KeyRange::prefix(index.prefix.as_bytes()))?;
            cursor.first()?;
            let (mut keys, mut steps) = (0, 0);
            while cursor.valid() {
                self.operation.step(&mut steps)?;
                keys += 1;
                cursor.next()?;
            }
            drop(cursor);
            let expected = self.expected[number];
            if full && keys != expected - self.missing[number] && !index.building {
                self.extra_entries(number)?;
            }
            if keys != expected && !index.building {
                self.index_error(
                    number,
                    format!(
                        "index `{}` has {keys} entries, its documents ask for {expected}",
                        index.name
                    ),
                );
            }
            self.report.indexes.push(IndexReport {
                name: index.name.to_string(),
                keys,
                valid: self.valid[number],
            });
        }
        Ok(())
    }

    /// Lists the entries of an index that no document asks for.
    fn extra_entries(&mut self, number: usize) -> Result<()> {
        let index = &self.index_catalog.indexes[number];
        let range = KeyRange::prefix(index.prefix.as_bytes());
        let mut cursor = self.snapshot.cursor(range)?;
        cursor.first()?;
        let (mut buffer, mut steps) = (KeyBuffer::default(), 0);
        while cursor.valid() {
            self.operation.step(&mut steps)?;
            let bytes = (cursor.key(), cursor.value());
            if !self.is_asked_for(number, bytes, &mut buffer)? {
                let found = || entry_document(self.collection, index, bytes, None);
                self.report.extra_entries.note(found);
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Whether the document that an entry names asks for it.
    fn is_asked_for(
        &self,
        number: usize,
        (key, value): (&[u8], &[u8]),
        buffer: &mut KeyBuffer,
    ) -> Result<bool> {
        let index = &self.index_catalog.indexes[number];
        let Some(entry) = IndexEntry::parse(index, key, value) else {
            return Ok(false);
        };
        let record = [self.collection.prefix.as_bytes(), entry.record_key].concat();
        buffer.clear();
        let mut made = Ok(0);
        self.snapshot.get(&record, &mut |bytes| {
            let document = RawDocument::validated_any_text(bytes);
            let Some((document, id)) = document.ok().and_then(|it| Some((it, it.get("_id")?)))
            else {
                return;
            };
            let keys = &self.index_catalog.keys;
            let target = self.target(&record, id);
            made = keys.standing_entries(number, index, &keys.extract(document), target, buffer);
        })?;
        made?;
        let is_it = |made: &Entry| buffer.key(made) == key && buffer.value(made) == value;
        Ok(buffer.entries.iter().any(is_it))
    }

    fn cached(&mut self, records: &RecordCache) -> Result<()> {
        let prefix = self.collection.prefix;
        records.visit_under(prefix.as_bytes(), |key, document| {
            let mut is_stored = false;
            self.snapshot
                .get(key, &mut |stored| is_stored = stored == document)?;
            if !is_stored {
                self.error(format!(
                    "the cache of records disagrees with the document at {key:02x?}"
                ));
            }
            Ok(())
        })
    }

    fn invalid(&mut self, key: &[u8], message: String) {
        self.report.invalid_documents += 1;
        let found = || record_document(self.collection, key);
        self.report.corrupt_records.note(found);
        self.error(message);
    }

    fn index_error(&mut self, number: usize, message: String) {
        self.valid[number] = false;
        self.error(message);
    }

    fn error(&mut self, message: String) {
        if self.report.errors.len() < ERRORS_MAX {
            self.report.errors.push(message);
        }
    }
}
