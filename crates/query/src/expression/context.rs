//! The context that all expressions of one command share. The command makes it once and gives it to everything that parses an
//! expression: its filter, its projection, its update, each stage of its pipeline. A stage that runs a pipeline of its own
//! over another collection (`$lookup`) gives that one a context within it, with the variables of the stage's `let`.
//!
//! Keeps true: `$$NOW` is one moment for the whole command, its later batches included, because it and the variables of
//! `let` are constants by the time that an expression is evaluated. All readers of a variable share its value. How long an
//! operation may run and what it may hold are not here: they belong to the thread that runs it (`interrupts`, `memory`), so
//! that loops without a context see them too.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use quarry_bson::{DateTime, Value};

use super::bounds::VALUE_BYTES_MAX;
use crate::Collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::memory::Charge;
use crate::metadata::MetadataKinds;
use crate::query_settings::QuerySettings;
use crate::spilling::DiskUse;

/// Pipelines within each other, as MongoDB bounds them.
const SUB_PIPELINE_DEPTH_MAX: usize = 20;

/// The constants of a command's expressions.
#[derive(Debug, Default)]
pub struct ExpressionContext {
    /// `$$NOW`, looked up by the first that asks for it: most commands never do.
    now_ms: OnceLock<i64>,
    /// The variables of `let`, the later ones in front of earlier namesakes. Expressions that read a value share it, and so
    /// do cursors that outlive the context.
    variables: Vec<(Arc<str>, Bound)>,
    /// The bytes of all values that variables hold, those of the surrounding contexts among them.
    value_bytes: usize,
    /// For the values that this context has bound.
    held: Charge,
    /// How many pipelines are around the one that the context is for.
    sub_pipeline_depth: usize,
    /// How the command compares strings, where it or its collection says so.
    collation: Option<Collation>,
    /// Whether the command's stages may write to disk: `DISK_USE_*`. Whoever reads the command's fields has the context shared.
    disk_use: AtomicU8,
    /// The kinds of metadata that expressions have named since somebody asked last, as bits.
    metadata_named: AtomicU8,
    /// The settings of the queries of the command's shape, where an operator has set some.
    query_settings: Option<Arc<QuerySettings>>,
}

/// The command does not say.
const DISK_USE_BY_DEFAULT: u8 = 0;
const DISK_USE_ALLOWED: u8 = 1;
const DISK_USE_DENIED: u8 = 2;

/// The knowledge of a variable when an expression is parsed.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    /// It has no value: it was bound to a field that is missing.
    Missing,
    /// Its value.
    Value(Arc<Value>),
    /// It will have a value when the pipeline is parsed again to be run: this time the pipeline is only checked.
    Unknown,
}

impl ExpressionContext {
    /// The context of a command that runs at a given moment and has no `let`.
    pub fn at(now_ms: i64) -> ExpressionContext {
        ExpressionContext {
            now_ms: OnceLock::from(now_ms),
            ..ExpressionContext::default()
        }
    }

    /// `$$NOW`, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        *self.now_ms.get_or_init(|| DateTime::now().0)
    }

    /// A context that stands for this one where that one cannot be borrowed: it knows the same variables and shares their
    /// values.
    pub(crate) fn share(&self) -> ExpressionContext {
        ExpressionContext {
            now_ms: OnceLock::from(self.now_ms()),
            variables: self.variables.clone(),
            value_bytes: self.value_bytes,
            held: Charge::default(),
            sub_pipeline_depth: self.sub_pipeline_depth,
            collation: self.collation.clone(),
            disk_use: AtomicU8::new(self.disk_use.load(Relaxed)),
            metadata_named: AtomicU8::default(),
            query_settings: self.query_settings.clone(),
        }
    }

    /// Has all reads of the command planned by these settings.
    pub fn set_query_settings(&mut self, settings: Arc<QuerySettings>) {
        self.query_settings = Some(settings);
    }

    /// The settings of the queries of the command's shape.
    #[inline]
    pub fn query_settings(&self) -> Option<&QuerySettings> {
        self.query_settings.as_deref()
    }

    /// Whether stages that outgrow their memory may write to disk.
    pub fn disk_use(&self) -> DiskUse {
        match self.disk_use.load(Relaxed) {
            DISK_USE_BY_DEFAULT => DiskUse::by_default(),
            DISK_USE_ALLOWED => DiskUse::Allowed,
            _ => DiskUse::Denied,
        }
    }

    /// Takes what the command says in `allowDiskUse`.
    pub fn set_disk_use(&self, is_allowed: bool) {
        let disk_use = match is_allowed {
            true => DISK_USE_ALLOWED,
            false => DISK_USE_DENIED,
        };
        self.disk_use.store(disk_use, Relaxed);
    }

    /// Notes that an expression asks for metadata of these kinds.
    pub(super) fn name_metadata(&self, kinds: MetadataKinds) {
        self.metadata_named.fetch_or(kinds.bits(), Relaxed);
    }

    /// The kinds of metadata that the expressions ask for which were parsed since `take_metadata_named`.
    pub(crate) fn metadata_named(&self) -> MetadataKinds {
        MetadataKinds::of_bits(self.metadata_named.load(Relaxed))
    }

    /// Like `metadata_named`, and forgets them.
    pub(crate) fn take_metadata_named(&self) -> MetadataKinds {
        MetadataKinds::of_bits(self.metadata_named.swap(0, Relaxed))
    }

    /// How the command compares strings: whoever compares for it asks here.
    pub fn collation(&self) -> &Collation {
        static SIMPLE: Collation = Collation::SIMPLE;
        self.collation.as_ref().unwrap_or(&SIMPLE)
    }

    /// Whether it is settled how strings are compared, whatever the collection says: by the command itself, or by the collection
    /// already.
    pub fn has_collation(&self) -> bool {
        self.collation.is_some()
    }

    /// Has everything that the context is given to compare strings so; none leaves it to the collection.
    pub fn set_collation(&mut self, collation: Option<Collation>) {
        self.collation = collation;
    }

    /// A context that stands for this one and compares strings so.
    pub fn with_collation(&self, collation: Collation) -> ExpressionContext {
        ExpressionContext {
            collation: Some(collation),
            ..self.share()
        }
    }

    /// The context of a pipeline within the one that this context is for, which may bind variables of its own.
    pub(crate) fn for_sub_pipeline(&self) -> Result<ExpressionContext> {
        let mut within = self.share();
        within.sub_pipeline_depth += 1;
        if within.sub_pipeline_depth > SUB_PIPELINE_DEPTH_MAX {
            let text = format!(
                "Maximum number of nested sub-pipelines exceeded. Limit is {SUB_PIPELINE_DEPTH_MAX}"
            );
            return Err(Error::new(ErrorCode::MAX_SUB_PIPELINE_DEPTH_EXCEEDED, text));
        }
        Ok(within)
    }

    /// How many variables an expression can see.
    pub(crate) fn variables(&self) -> usize {
        self.variables.len()
    }

    /// A variable of `let`; None if there is no such variable.
    pub(super) fn variable(&self, name: &str) -> Option<&Bound> {
        let bound = self.variables.iter().rev();
        let mut named = bound.filter(|(bound, _)| **bound == *name);
        named.next().map(|(_, bound)| bound)
    }

    /// Says that there will be a variable of that name.
    pub(super) fn declare(&mut self, name: &Arc<str>) {
        self.variables.push((Arc::clone(name), Bound::Unknown));
    }

    /// Fails where all variables together would hold more than one value may: a cursor keeps them as long as it is open.
    pub(super) fn bind(&mut self, name: &Arc<str>, value: Option<Value>) -> Result<()> {
        let bytes = value.as_ref().map_or(0, |value| value.as_bytes().len());
        self.value_bytes += bytes;
        if self.value_bytes > VALUE_BYTES_MAX {
            let text =
                format!("the variables of 'let' would hold more than {VALUE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, text));
        }
        self.held.grow(bytes)?;
        let bound = value.map_or(Bound::Missing, |value| Bound::Value(Arc::new(value)));
        self.variables.push((Arc::clone(name), bound));
        Ok(())
    }
}
