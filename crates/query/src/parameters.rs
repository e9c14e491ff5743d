//! The parameters of queries: numbers that an administrator changes while the server runs, under MongoDB's names.
//!
//! A new one is a static here and an entry of `ALL`; the server shows and sets whatever is in the list. They hold for the
//! process. Each is read when a stage begins, never for a document.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use quarry_bson::DocumentBuilder;

use crate::expression::bounds::VALUE_BYTES_MAX;
use crate::stage_memory::MEMORY_BYTES_MAX;

/// A parameter with its value now.
#[derive(Debug)]
pub struct Parameter {
    /// MongoDB's name for it.
    pub name: &'static str,
    /// Whether it is on or off, and no number.
    pub is_flag: bool,
    /// The least value that is taken.
    pub least: i64,
    value: AtomicI64,
}

/// Whether a stage may write to disk where the command does not say.
pub static ALLOW_DISK_USE_BY_DEFAULT: Parameter = Parameter {
    is_flag: true,
    ..Parameter::number("allowDiskUseByDefault", 0, 1)
};
/// The bytes that a sort holds in memory, whether it is a stage of a pipeline or the sort of a find.
pub static SORT_MEMORY_BYTES: Parameter = Parameter::number(
    "internalQueryMaxBlockingSortMemoryUsageBytes",
    1,
    MEMORY_BYTES_MAX as i64,
);
/// The bytes that a `$group` holds in memory.
pub static GROUP_MEMORY_BYTES: Parameter = Parameter::number(
    "internalDocumentSourceGroupMaxMemoryBytes",
    1,
    MEMORY_BYTES_MAX as i64,
);
/// The bytes that a disk keeps free: a stage that would take more of it fails.
pub static SPILLING_DISK_BYTES_FREE: Parameter = Parameter::number(
    "internalQuerySpillingMinAvailableDiskSpaceBytes",
    0,
    500 * 1024 * 1024,
);

/// The documents that one `$densify` makes.
pub static DENSIFY_DOCUMENTS: Parameter =
    Parameter::number("internalQueryMaxAllowedDensifyDocs", 0, 500_000);

/// The threads that may work on one pipeline at the same time, its own among them. Whoever runs a server sets it to the processors
/// that there are.
pub static PIPELINE_THREADS: Parameter = Parameter::number("internalQueryPipelineThreadsMax", 1, 1);

/// How many queries a second `$queryStats` counts: none where it is 0, all where it is -1.
pub static QUERY_STATS_RATE_LIMIT: Parameter =
    Parameter::number("internalQueryStatsRateLimit", -1, 0);

/// Appends the bounds by which a query is planned and run, under the names that explain has for them.
pub fn append_bounds(out: &mut DocumentBuilder<'_>) {
    let stage = MEMORY_BYTES_MAX as i64;
    for (name, value) in [
        ("internalQueryFacetBufferSizeBytes", stage),
        (
            "internalQueryFacetMaxOutputDocSizeBytes",
            VALUE_BYTES_MAX as i64,
        ),
        ("internalLookupStageIntermediateDocumentMaxSizeBytes", stage),
        (GROUP_MEMORY_BYTES.name, GROUP_MEMORY_BYTES.get()),
        (SORT_MEMORY_BYTES.name, SORT_MEMORY_BYTES.get()),
        // There is no other server to merge on.
        ("internalQueryProhibitBlockingMergeOnMongoS", 0),
        ("internalDocumentSourceSetWindowFieldsMaxMemoryBytes", stage),
    ] {
        match i32::try_from(value) {
            Ok(value) => out.append(name, value),
            Err(_) => out.append(name, value),
        };
    }
    // There is one engine, and no other one that could be tried.
    out.append("internalQueryFrameworkControl", "forceClassicEngine");
}

/// All of them, by name.
pub static ALL: &[&Parameter] = &[
    &ALLOW_DISK_USE_BY_DEFAULT,
    &GROUP_MEMORY_BYTES,
    &DENSIFY_DOCUMENTS,
    &SORT_MEMORY_BYTES,
    &PIPELINE_THREADS,
    &SPILLING_DISK_BYTES_FREE,
    &QUERY_STATS_RATE_LIMIT,
];

impl Parameter {
    const fn number(name: &'static str, least: i64, value: i64) -> Parameter {
        Parameter {
            name,
            is_flag: false,
            least,
            value: AtomicI64::new(value),
        }
    }

    /// The parameter of that name.
    pub fn find(name: &str) -> Option<&'static Parameter> {
        ALL.iter().copied().find(|parameter| parameter.name == name)
    }

    /// The value; 0 or 1 of one that is on or off.
    pub fn get(&self) -> i64 {
        self.value.load(Relaxed)
    }

    /// Changes the value, which is at least `least`.
    pub fn set(&self, value: i64) {
        assert!(value >= self.least, "{} below its least value", self.name);
        self.value.store(value, Relaxed);
    }

    /// The value as a number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.get()).unwrap_or(usize::MAX)
    }
}
