//! The validator of a collection: what the documents that are written to it have to suit, and what becomes of one that does not.
//!
//! Stands in the collection's options as MongoDB's `validator`, `validationLevel` and `validationAction`. Compiled with the
//! first write, by the language that the database was opened with. A collection without one, or with the level `off`, has
//! nothing of this.

use std::fmt;
use std::sync::{Arc, OnceLock};

use quarry_bson::{Document, RawDocument};
use quarry_collation::Collation;

use crate::error::{Error, Result};
use crate::index::document_filter::{DocumentValidator, FilterLanguage};
use crate::keyspace::namespace::Namespace;

/// The options that say how documents are validated, as `create` and `collMod` take them.
pub const VALIDATION_OPTIONS: [&str; 3] = [VALIDATOR, LEVEL, ACTION];

pub(crate) const VALIDATOR: &str = "validator";
const LEVEL: &str = "validationLevel";
const ACTION: &str = "validationAction";

/// Is told of each document that is written although it does not suit a validator whose action is `warn`.
pub type OnInvalid = fn(&Namespace, &Document);

/// The validator of one collection.
pub struct Validation {
    filter: Document,
    /// A document that did not suit before it was changed need not suit afterwards.
    is_moderate: bool,
    /// A document that does not suit is written all the same, and told of.
    only_warns: bool,
    /// How the filter compares strings.
    collation: Collation,
    /// Set once compiling has succeeded; what failed, because its operation was to end for example, is tried again.
    compiled: OnceLock<Arc<dyn DocumentValidator>>,
}

/// Who validates: the language, and who is told of documents that are written all the same.
pub(crate) struct Validators {
    pub language: Arc<dyn FilterLanguage>,
    pub on_invalid: OnInvalid,
}

impl Validation {
    /// The validator that the options of a collection ask for.
    pub(crate) fn of(options: RawDocument<'_>, collation: &Collation) -> Option<Box<Validation>> {
        let filter = options.get_document(VALIDATOR)?;
        let is = |name: &str, wanted: &str| options.get_str(name) == Some(wanted);
        if filter.is_empty() || is(LEVEL, "off") {
            return None;
        }
        Some(Box::new(Validation {
            filter: filter.to_owned_document(),
            is_moderate: is(LEVEL, "moderate"),
            only_warns: is(ACTION, "warn"),
            collation: collation.clone(),
            compiled: OnceLock::new(),
        }))
    }

    fn validator(&self, language: &dyn FilterLanguage) -> Result<&dyn DocumentValidator> {
        if let Some(validator) = self.compiled.get() {
            return Ok(validator.as_ref());
        }
        let compiled = language.compile_validator(self.filter.as_raw(), &self.collation)?;
        Ok(self.compiled.get_or_init(|| compiled).as_ref())
    }

    /// Whether the document suits the validator, whatever its level and action. A document on which the validator fails, with an
    /// expression that divides by zero for example, does not suit it, as in MongoDB.
    pub(crate) fn accepts(
        &self,
        language: &dyn FilterLanguage,
        document: RawDocument<'_>,
    ) -> Result<bool> {
        suits(self.validator(language)?, document)
    }
}

impl Validators {
    /// Refuses a filter that no validator can be made of.
    pub fn check(&self, filter: RawDocument<'_>) -> Result<()> {
        let collation = Collation::SIMPLE;
        self.language
            .compile_validator(filter, &collation)
            .map(drop)
    }

    /// Refuses a document that may not be written to the collection: one that is inserted, or one that takes the place of `old`.
    #[cold]
    #[inline(never)]
    pub fn refuse(
        &self,
        validation: &Validation,
        namespace: &Namespace,
        old: Option<RawDocument<'_>>,
        new: RawDocument<'_>,
    ) -> Result<()> {
        let validator = validation.validator(self.language.as_ref())?;
        if suits(validator, new)? {
            return Ok(());
        }
        if let Some(old) = old.filter(|_| validation.is_moderate)
            && !suits(validator, old)?
        {
            return Ok(());
        }
        let mut info = Document::new();
        if let Some(id) = new.get_element("_id") {
            info.append("failingDocumentId", quarry_bson::Value::from(id.value()));
        }
        info.append("details", validator.failure(new)?);
        if validation.only_warns {
            (self.on_invalid)(namespace, &info);
            return Ok(());
        }
        Err(Error::InvalidDocument(Box::new(info)))
    }
}

/// Whether the validator accepts the document. An error is a no, but for one that ends the operation.
fn suits(validator: &dyn DocumentValidator, document: RawDocument<'_>) -> Result<bool> {
    match validator.accepts(document) {
        Err(error) if !error.ends_operation() => Ok(false),
        answer => answer,
    }
}

impl fmt::Debug for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.filter)
    }
}
