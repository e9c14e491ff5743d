//! Writing the result of a pipeline: `$out` and `$merge`.
//!
//! `$out` fills a temporary collection with the indexes of the one that it replaces, and then has it take that one's place and
//! options in one commit: a reader sees the old documents or the new ones, and an error or a crash leaves the old ones. `$merge`
//! writes document by document, as the update and insert commands do: what it has written before an error stays. Both read
//! from the snapshot that they began with, so that none meets a document that it has written itself.

use quarry_bson::{Document, DocumentBuilder, ObjectId, RawDocument, RawValue, Value, doc};
use quarry_database::{
    COLLATION, CollectionDefinition, Error as DatabaseError, Level, Namespace, Operation, Scope,
    TIME_SERIES, Temporary, complete_time_series,
};

use super::executor::Executor;
use super::insert::insert;
use super::request::{InsertRequest, UpdateRequest};
use super::update::{UPSERT_ATTEMPTS_MAX, update};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::memory::Charge;
use crate::pipeline::{
    Merge, Out, ResultWritten, SpecialCodes, WhenMatched, WhenNotMatched, WriteTarget,
};
use crate::turns::without_turns;

/// The documents, and the bytes, that are inserted with one call.
const BATCH_DOCUMENTS_MAX: usize = 1000;
const BATCH_BYTES_MAX: usize = 1 << 20;

const CODES_OF_OUT: SpecialCodes = SpecialCodes {
    collection: 17385,
    database: 31321,
};
const CODES_OF_MERGE: SpecialCodes = SpecialCodes {
    collection: 31319,
    database: 31320,
};

/// Who writes the result of a pipeline.
pub(super) struct ResultWriter<'w> {
    pub scope: Scope<'w>,
    pub operation: &'w Operation,
    /// The database of the command.
    pub own_database: &'w str,
    /// The level that all that is written has reached when the command ends.
    pub level: Level,
}

/// Documents on their way into a collection.
#[derive(Default)]
struct Batch {
    documents: Vec<Vec<u8>>,
    held: Charge,
}

impl Batch {
    fn push(&mut self, document: &[u8]) -> Result<()> {
        self.documents.push(document.to_vec());
        self.held.grow(document.len())
    }

    fn is_full(&self) -> bool {
        self.documents.len() >= BATCH_DOCUMENTS_MAX || self.held.bytes() >= BATCH_BYTES_MAX
    }
}

impl ResultWriter<'_> {
    /// Writes all documents that the executor gives.
    pub fn write(&self, written: ResultWritten<'_>, documents: Executor) -> Result<()> {
        // What it writes is locked while it is made.
        let _no_turns = without_turns();
        match written {
            ResultWritten::Out(out) => self.write_out(out, documents),
            ResultWritten::Merge(merge) => self.write_merge(merge, documents),
        }
    }

    fn namespace(
        &self,
        target: &WriteTarget,
        stage: &str,
        codes: SpecialCodes,
    ) -> Result<Namespace> {
        target.check(self.own_database, stage, codes)?;
        let database = target.database_or(self.own_database);
        Ok(Namespace::new(database, &target.collection)?)
    }

    fn write_out(&self, out: &Out, documents: Executor) -> Result<()> {
        let target = self.namespace(&out.target, "$out", CODES_OF_OUT)?;
        let database = self.scope.outside_transactions()?;
        let replaced = database.definition(&target)?;
        if replaced.as_ref().is_some_and(|replaced| replaced.is_capped) {
            let text = format!("namespace '{target}' is capped so it can't be used for $out");
            return Err(Error::location(17152, text));
        }
        let options = options_of(out, &target, replaced.as_ref())?;
        let options = options.as_raw();
        let temporary = database.create_temporary(target.database(), options, self.operation)?;
        let indexes = replaced.as_ref().map(indexes_as_they_are);
        let filled = self.fill(&temporary, indexes.as_deref(), documents);
        let done = filled.and_then(|()| {
            let (operation, level) = (self.operation, self.level);
            database.replace_collection(
                &temporary,
                &target,
                replaced.as_ref(),
                operation,
                level,
            )?;
            Ok(())
        });
        if done.is_err() {
            // After the next start it would go, too.
            let _ = database.drop_temporary(&temporary);
        }
        done
    }

    /// Fills an empty collection that nobody else means.
    fn fill(
        &self,
        temporary: &Temporary,
        indexes: Option<&[quarry_bson::Document]>,
        mut documents: Executor,
    ) -> Result<()> {
        if let Some(indexes) = indexes.filter(|indexes| !indexes.is_empty()) {
            let (scope, operation) = (self.scope, self.operation);
            scope.create_indexes(&temporary.namespace, indexes, operation, Level::Written)?;
        }
        let (mut batch, mut bytes) = (Batch::default(), Vec::new());
        loop {
            bytes.clear();
            let more = documents.next(self.operation, &mut bytes)?;
            if more {
                batch.push(&bytes)?;
            }
            if batch.is_full() || !more {
                let full = std::mem::take(&mut batch);
                let refused = self.insert(&temporary.namespace, Some(temporary), &full, true)?;
                if let Some((_, error)) = refused.into_iter().next() {
                    return Err(error);
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Inserts a batch; returns the documents that were refused, by position, each with its error.
    fn insert(
        &self,
        namespace: &Namespace,
        into: Option<&Temporary>,
        batch: &Batch,
        is_ordered: bool,
    ) -> Result<Vec<(usize, Error)>> {
        let raw = batch.documents.iter();
        let raw: Vec<RawDocument<'_>> = raw
            .map(|bytes| Ok(RawDocument::new(bytes)?))
            .collect::<Result<_>>()?;
        if raw.is_empty() {
            return Ok(Vec::new());
        }
        let request = InsertRequest {
            is_ordered,
            into,
            ..InsertRequest::new(namespace, &raw)
        };
        let outcome = insert(self.scope, self.operation, request, Level::Written)?;
        Ok(outcome.errors)
    }

    fn write_merge(&self, merge: &Merge, mut documents: Executor) -> Result<()> {
        let target = self.namespace(&merge.target, "$merge", CODES_OF_MERGE)?;
        self.scope.outside_transactions()?;
        let collection = self.scope.collection(&target, self.operation)?;
        if collection.is_some_and(|collection| collection.series.is_some()) {
            let text = format!("Cannot $merge to time-series collection {target}");
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, text));
        }
        let mut merging = Merging {
            writer: self,
            accepts_null: self.check_on(merge, &target)?,
            context: ExpressionContext::default().with_collation(merge.collation_of_on().clone()),
            merge,
            target,
            batch: Batch::default(),
        };
        let result = merging.run(&mut documents);
        // What was written before an error is as durable as what is acknowledged.
        self.scope.settle(None, self.level)?;
        result
    }

    /// Fails where the fields of `on` may have the same values in several documents. Answers whether they may be null.
    fn check_on(&self, merge: &Merge, target: &Namespace) -> Result<bool> {
        if merge.is_on_id() {
            return Ok(true);
        }
        let snapshot = self.scope.snapshot(target, self.operation)?;
        let index = match &snapshot {
            None => None,
            Some(snapshot) => {
                let mut indexes = snapshot.index_catalog()?.indexes.iter();
                indexes.find(|index| {
                    let is_whole = index.spec.get("partialFilterExpression").is_none();
                    let fields = index.pattern.document.iter();
                    let named = fields.map(|field| field.name().to_string_lossy().into_owned());
                    // Texts are told apart as the pipeline compares them.
                    let is_alike = merge.collation == index.collation;
                    let is_usable = index.unique && !index.building && is_whole && is_alike;
                    is_usable && names(&merge.on, named)
                })
            }
        };
        index.map(|index| !index.sparse).ok_or_else(|| {
            let text = "Cannot find index to verify that join fields will be unique";
            Error::location(51183, text)
        })
    }
}

/// The options of the collection that `$out` fills: those of the one that it replaces, or those of a new time series.
fn options_of(
    out: &Out,
    target: &Namespace,
    replaced: Option<&CollectionDefinition>,
) -> Result<Document> {
    let series = out.series.as_ref().map(|given| {
        let given = given.as_raw();
        complete_time_series(target, given)
    });
    let (series, replaced) = match (series.transpose()?, replaced) {
        (None, None) => return Ok(Document::new()),
        (None, Some(replaced)) => return Ok(replaced.options.clone()),
        (Some(series), None) => return Ok(doc! { (TIME_SERIES): series }),
        (Some(series), Some(replaced)) => (series, replaced),
    };
    match replaced.options.as_raw().get_document(TIME_SERIES) {
        Some(known) if known.as_bytes() == series.as_raw().as_bytes() => {
            Ok(replaced.options.clone())
        }
        Some(known) => Err(Error::location(
            7_406_103,
            format!(
                "Time series options inputted must match the existing time series collection. Received: {series} Found: {known}"
            ),
        )),
        None => Err(Error::location(
            7_268_700,
            "Cannot create a time series collection from a non time series collection or view.",
        )),
    }
}

/// The specifications of a collection's indexes, each with its collation: the simple one, too, where the collection has another.
fn indexes_as_they_are(definition: &CollectionDefinition) -> Vec<Document> {
    let mut indexes = definition.indexes.clone();
    if definition.options.contains(COLLATION) {
        for index in indexes
            .iter_mut()
            .filter(|index| !index.contains(COLLATION))
        {
            index.append(COLLATION, doc! { "locale": "simple" });
        }
    }
    indexes
}

/// Whether the names are those of the paths, in any order.
fn names(on: &[FieldPath], named: impl Iterator<Item = String>) -> bool {
    let mut found = 0;
    for name in named {
        if !on.iter().any(|path| path.as_str() == name) {
            return false;
        }
        found += 1;
    }
    found == on.len()
}

/// A `$merge` at work.
struct Merging<'m> {
    writer: &'m ResultWriter<'m>,
    merge: &'m Merge,
    target: Namespace,
    /// Fields of `on` may be null or missing.
    accepts_null: bool,
    /// The context of the updates: how the fields of `on` are compared.
    context: ExpressionContext,
    /// Documents for which there was none when they were looked for.
    batch: Batch,
}

impl Merging<'_> {
    fn run(&mut self, documents: &mut Executor) -> Result<()> {
        let (mut bytes, mut with_id) = (Vec::new(), Vec::new());
        loop {
            bytes.clear();
            if !documents.next(self.writer.operation, &mut bytes)? {
                return self.insert_batch();
            }
            let document = self.with_id(RawDocument::new(&bytes)?, &mut with_id)?;
            self.take(document)?;
            if self.batch.is_full() {
                self.insert_batch()?;
            }
        }
    }

    /// The document, with an `_id` if it is told by its `_id` and has none.
    fn with_id<'d>(
        &self,
        document: RawDocument<'d>,
        made: &'d mut Vec<u8>,
    ) -> Result<RawDocument<'d>> {
        let is_asked = self.merge.on.iter().any(|path| path.as_str() == "_id");
        if !is_asked || document.contains("_id") {
            return Ok(document);
        }
        made.clear();
        let mut builder = DocumentBuilder::new(made);
        builder.append("_id", ObjectId::generate());
        for element in document {
            builder.append_element(element);
        }
        builder.finish();
        Ok(RawDocument::new(made)?)
    }

    fn take(&mut self, document: RawDocument<'_>) -> Result<()> {
        let filter = self.filter_of(document)?;
        let inserts_first = matches!(
            self.merge.when_matched,
            WhenMatched::KeepExisting | WhenMatched::Fail
        );
        if inserts_first || !self.change(document, &filter)? {
            match self.merge.when_not_matched {
                WhenNotMatched::Insert => self.batch.push(document.as_bytes())?,
                WhenNotMatched::Discard => {}
                WhenNotMatched::Fail => {
                    let text = "$merge could not find a matching document in the target collection for at least one document in the source collection";
                    let code = ErrorCode::MERGE_STAGE_NO_MATCHING_DOCUMENT;
                    return Err(Error::new(code, text));
                }
            }
        }
        Ok(())
    }

    /// Inserts the documents that wait for it. One whose place was taken meanwhile, by another client or by one before it in the
    /// batch, is merged.
    fn insert_batch(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        for (position, error) in self.writer.insert(&self.target, None, &batch, false)? {
            let document = RawDocument::new(&batch.documents[position])?;
            self.merge_refused(document, error)?;
        }
        Ok(())
    }

    fn merge_refused(&self, document: RawDocument<'_>, mut error: Error) -> Result<()> {
        let filter = self.filter_of(document)?;
        for _ in 0..UPSERT_ATTEMPTS_MAX {
            if !self.is_met(&error) {
                return Err(error);
            }
            match self.merge.when_matched {
                WhenMatched::KeepExisting => return Ok(()),
                WhenMatched::Fail => {
                    return Err(error.in_context(
                        "$merge with whenMatched: fail found an existing document with the same values for the 'on' fields",
                    ));
                }
                _ if self.change(document, &filter)? => return Ok(()),
                _ => {}
            }
            let alone = Batch {
                documents: vec![document.as_bytes().to_vec()],
                held: Charge::default(),
            };
            match self.writer.insert(&self.target, None, &alone, true)?.pop() {
                None => return Ok(()),
                Some((_, again)) => error = again,
            }
        }
        Err(error)
    }

    /// Whether an insert was refused because there is a document with the same values of the fields of `on`.
    fn is_met(&self, error: &Error) -> bool {
        let Some(DatabaseError::DuplicateKey(key)) = error.cause() else {
            return false;
        };
        let fields = key.key_pattern.iter();
        let named = fields.map(|field| field.name().to_string_lossy().into_owned());
        names(&self.merge.on, named)
    }

    /// Merges the document into the one that is there; false if there is none.
    fn change(&self, document: RawDocument<'_>, filter: &[u8]) -> Result<bool> {
        let (bound, stages);
        let mut context = &self.context;
        let update_with = match &self.merge.when_matched {
            WhenMatched::KeepExisting | WhenMatched::Fail => return Ok(false),
            WhenMatched::Replace if has_plain_names(document) => RawValue::Document(document),
            WhenMatched::Replace => {
                stages = Value::from(
                    doc! { "p": [{ "$replaceWith": { "$literal": (document.to_owned_document()) } }] },
                );
                stages_in(&stages)
            }
            WhenMatched::Merge if has_plain_names(document) => {
                stages = Value::from(doc! { "$set": (document.to_owned_document()) });
                stages.as_raw()
            }
            WhenMatched::Merge => {
                stages = Value::from(doc! { "p": [{ "$replaceWith": { "$mergeObjects": [
                    "$$ROOT", { "$literal": (document.to_owned_document()) }
                ] } }] });
                stages_in(&stages)
            }
            WhenMatched::Pipeline(pipeline) => {
                bound = pipeline.context_for(document)?;
                context = &bound;
                pipeline.stages.as_raw()
            }
        };
        let filter = RawDocument::new(filter)?;
        self.update(filter, update_with, context)
    }

    fn update(
        &self,
        filter: RawDocument<'_>,
        update_with: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<bool> {
        let request = UpdateRequest {
            namespace: &self.target,
            context: Some(context),
            collation: None,
            filter,
            update: update_with,
            is_upsert: false,
            is_multi: false,
            hint: None,
            sort: None,
            array_filters: None,
            constants: None,
            keeps_empty_timestamps: false,
        };
        let ResultWriter {
            scope, operation, ..
        } = self.writer;
        let outcome = update(*scope, operation, request, Level::Written).map_err(|error| {
            if error.code != ErrorCode::IMMUTABLE_FIELD {
                return error;
            }
            error.in_context(
                "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?",
            )
        })?;
        Ok(outcome.matched > 0)
    }

    /// The filter of the documents that have the same values of the fields of `on`: one at most, because they are unique.
    fn filter_of(&self, document: RawDocument<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut filter = DocumentBuilder::new(&mut bytes);
        for path in &self.merge.on {
            let value = value_at(document, path)?;
            if value.is_nullish() && !self.accepts_null {
                let text = format!(
                    "$merge write error: 'on' field '{}' cannot be missing, null or undefined if supporting index is sparse",
                    path.as_str()
                );
                return Err(Error::location(51132, text));
            }
            match value {
                // These would be read as operators, as patterns, or as what a missing field equals as well.
                RawValue::Document(_) | RawValue::Regex(_) | RawValue::Undefined => {
                    filter.document(path.as_str()).append("$eq", value);
                }
                plain => {
                    filter.append(path.as_str(), plain);
                }
            }
        }
        filter.finish();
        Ok(bytes)
    }
}

/// The value of a field of `on`; arrays are not spread.
fn value_at<'d>(document: RawDocument<'d>, path: &FieldPath) -> Result<RawValue<'d>> {
    let mut value = RawValue::Document(document);
    for part in path.parts() {
        value = match value {
            RawValue::Document(within) => within.get(part.name()).unwrap_or(RawValue::Null),
            RawValue::Array(_) => break,
            _ => RawValue::Null,
        };
    }
    if let RawValue::Array(_) = value {
        let text = format!(
            "$merge write error: 'on' field '{}' cannot be an array",
            path.as_str()
        );
        return Err(Error::location(51185, text));
    }
    Ok(value)
}

/// Whether an update takes the names as those of top-level fields.
fn has_plain_names(document: RawDocument<'_>) -> bool {
    let is_plain =
        |name: &[u8]| !name.is_empty() && !name.starts_with(b"$") && !name.contains(&b'.');
    document
        .iter()
        .all(|field| is_plain(field.name().as_bytes()))
}

fn stages_in(document: &Value) -> RawValue<'_> {
    let holder = document.as_raw().as_document();
    holder
        .and_then(|holder| holder.get("p"))
        .unwrap_or(RawValue::Null)
}
