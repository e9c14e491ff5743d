//! The options of a collection that can be changed (collMod): pre-images, the validator, the bounds of a capped collection, when documents go, the definition of a view.

use quarry_bson::{Document, RawArray, RawDocument, RawValue};
use quarry_journal::Level;
use quarry_storage::WriteBatch;

use crate::catalog::collection::{
    CLUSTERED_INDEX, COLLATION, Collection, EXPIRE_AFTER, PRE_IMAGES,
};
use crate::catalog::time_series::{TIME_SERIES, with_granularity};
use crate::catalog::validation::VALIDATOR;
use crate::catalog::view::{VIEW_ON, VIEW_PIPELINE};
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::definitions::changes::{Definitions, not_found};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;

impl Definitions {
    /// Has the journal keep each changed or deleted document of a collection as it was before, or not any more; returns
    /// whether it did.
    pub fn set_pre_images(
        &self,
        namespace: &Namespace,
        enabled: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<bool> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        refuse_on_series(&collection, PRE_IMAGES)?;
        let was = collection.keeps_pre_images;
        if was == enabled {
            drop((hold, ddl));
            self.commits().settle(None, level)?;
            return Ok(was);
        }
        let shown = |enabled: bool| quarry_bson::doc! { (PRE_IMAGES): { "enabled": enabled } };
        let lsn = self.put_options(&collection, &shown(enabled), &shown(was))?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)?;
        Ok(was)
    }

    /// Gives a collection another validator, validation level or action: those of `changed`, the others stay.
    pub fn set_validation(
        &self,
        namespace: &Namespace,
        changed: &Document,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.check_validator(namespace, changed.as_raw())?;
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        if let Some(option) = changed.iter().next() {
            refuse_on_series(&collection, &option.name().to_string_lossy())?;
        }
        let mut was = Document::new();
        for option in collection.options() {
            if changed.contains(option.name().as_bytes()) {
                was.append_element(option);
            }
        }
        let lsn = self.put_options(&collection, changed, &was)?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)
    }

    /// Has documents of a clustered collection go so many seconds after the date in their `_id`, and those of a time series after their
    /// time, or stay.
    pub fn set_expire_after(
        &self,
        namespace: &Namespace,
        seconds: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        if !collection.options().contains(CLUSTERED_INDEX) && collection.series.is_none() {
            let text =
                "'expireAfterSeconds' option is only supported on collections clustered by _id";
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, text));
        }
        let option = |seconds: Option<i64>| {
            Document::build(|out| {
                out.append(
                    EXPIRE_AFTER,
                    seconds.map_or(RawValue::Null, RawValue::Int64),
                );
            })
        };
        let was = collection.expire_after_s();
        if was == seconds {
            drop((hold, ddl));
            return self.commits().settle(None, level);
        }
        let lsn = self.put_options(&collection, &option(seconds), &option(was))?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)
    }

    /// Gives a time series a granularity that is one step greater. It rules nothing here, and is shown.
    pub fn set_granularity(
        &self,
        namespace: &Namespace,
        granularity: &str,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        let Some(series) = collection.options().get_document(TIME_SERIES) else {
            let text = "option only supported on a time-series collection: timeseries";
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, text));
        };
        let Some(changed) = with_granularity(series, granularity)? else {
            drop((hold, ddl));
            return self.commits().settle(None, level);
        };
        let option = |series: RawDocument<'_>| {
            Document::build(|out| {
                out.append(TIME_SERIES, series);
            })
        };
        let lsn = self.put_options(&collection, &option(changed.as_raw()), &option(series))?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)
    }

    /// Gives a capped collection other bounds; one that is not given stays. The next insert removes what is beyond them.
    pub fn resize_capped(
        &self,
        namespace: &Namespace,
        size_bytes: Option<i64>,
        documents_max: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        if collection.capped.is_none() {
            let text = "Collection must be capped.";
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, text));
        }
        let (mut changed, mut told, mut was) = (Document::new(), Document::new(), Document::new());
        for (option, name, value) in [
            ("size", "cappedSize", size_bytes),
            ("max", "cappedMax", documents_max),
        ] {
            let Some(value) = value else {
                continue;
            };
            changed.append(option, value);
            told.append(name, value);
            let before = collection.options().get(option);
            was.append(name, before.unwrap_or(RawValue::Null));
        }
        let lsn = self.put_options_told(&collection, &changed, (&told, &was))?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)
    }

    /// Commits the entry of a collection with other values of some options, and tells change streams of both.
    fn put_options(
        &self,
        collection: &Collection,
        changed: &Document,
        was: &Document,
    ) -> Result<u64> {
        self.put_options_told(collection, changed, (changed, was))
    }

    /// Like `put_options`, but the event calls the options otherwise.
    fn put_options_told(
        &self,
        collection: &Collection,
        changed: &Document,
        (told, was): (&Document, &Document),
    ) -> Result<u64> {
        let mut options = Document::new();
        for option in collection.options() {
            if !changed.contains(option.name().as_bytes()) {
                options.append_element(option);
            }
        }
        // An empty validator is none, and Null is an option that goes.
        let is_none = |value: RawValue<'_>| value.as_document().is_some_and(|it| it.is_empty());
        for option in changed {
            let is_validator = option.name() == VALIDATOR;
            if (is_validator && is_none(option.value())) || option.value().is_nullish() {
                continue;
            }
            options.append_element(option);
        }
        let namespace = collection.told_name();
        let kind = DefinitionKind::Modify;
        let event = DefinitionEvent::new(kind, namespace, Some(collection.uuid));
        let event = event.with("o", told.as_raw()).with("was", was.as_raw());
        let indexes = &self.catalog().index_catalog(collection)?.indexes;
        let indexes: Vec<&Index> = indexes.iter().collect();
        let mut batch = WriteBatch::new();
        if collection.expire_after_s().is_some() && !options.contains(EXPIRE_AFTER) {
            batch.delete(&layout::expiring_key(collection.ident));
        } else if collection.expire_after_s().is_none() && options.contains(EXPIRE_AFTER) {
            let namespace = collection.namespace.as_str().as_bytes();
            batch.put(&layout::expiring_key(collection.ident), namespace);
        }
        self.put_entry_with(collection, options.as_raw(), &indexes, 0, &[event], batch)
    }

    /// Refuses options whose validator cannot be compiled, or that stand where there can be none.
    pub(crate) fn check_validator(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
    ) -> Result<()> {
        let Some(filter) = options.get_document(VALIDATOR) else {
            return Ok(());
        };
        let database = namespace.database();
        if matches!(database, "admin" | "local" | "config") {
            let message = format!(
                "Document validators are not allowed on collection {namespace} in the {database} internal database"
            );
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
        }
        if namespace.collection().starts_with("system.") {
            let message =
                format!("Document validators are not allowed on system collection {namespace}");
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
        }
        self.catalog().validators.check(filter)
    }

    /// Tells change streams that a collection was modified, and changes nothing of it, as MongoDB does for a collMod without
    /// options.
    pub fn modify_nothing(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let kind = DefinitionKind::Modify;
        let event = DefinitionEvent::new(kind, collection.told_name(), Some(collection.uuid));
        let event = event
            .with("o", Document::new())
            .with("was", Document::new());
        let lsn = self.commit_definitions(0, &[event], &WriteBatch::new())?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)
    }

    /// Gives a view another definition.
    pub fn modify_view(
        &self,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        if collection.view.is_none() {
            return Err(Error::invalid(
                ErrorCode::INVALID_OPTIONS,
                "option only supported on a view: viewOn",
            ));
        }
        let mut options = Document::new();
        options.append(VIEW_ON, on);
        options.append(VIEW_PIPELINE, pipeline);
        if let Some(collation) = collection.options().get_element(COLLATION) {
            options.append_element(collation);
        }
        let event = DefinitionEvent::new(
            DefinitionKind::Modify,
            namespace.as_str(),
            Some(collection.uuid),
        );
        let event = event
            .with("o", options.as_raw())
            .with("was", collection.options());
        let batch = WriteBatch::new();
        let lsn = self.put_entry_with(&collection, options.as_raw(), &[], 0, &[event], batch)?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)
    }
}

/// Refuses an option that a time series cannot have.
fn refuse_on_series(collection: &Collection, option: &str) -> Result<()> {
    match collection.series {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            ErrorCode::INVALID_OPTIONS,
            format!("option not supported on a time-series collection: {option}"),
        )),
    }
}
