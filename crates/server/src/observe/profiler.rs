//! The profiler: which operations are logged as slow, and which leave a document in their database's `system.profile`.
//!
//! As in MongoDB the level and the filter belong to a database, `slowms` and `sampleRate` to the server, and none
//! outlives it. While no database is profiled and an operation is fast, it looks at one flag here and no more.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use quarry_bson::{Document, DocumentBuilder, RawDocument, doc};
use quarry_database::{Database, Level, Namespace, Operation};
use quarry_query::exec::{self, InsertRequest};
use quarry_query::matcher::Matcher;
use rustc_hash::FxHashMap;

use crate::dispatch::error::{CommandError, Result};
use crate::observe::ended::Ended;
use crate::observe::slow_operations::SlowOperations;
use crate::observe::{log, profile_document, slow_log};

const COLLECTION: &str = "system.profile";
/// Sets what this file keeps, and is never profiled itself.
const COMMAND: &str = "profile";
/// MongoDB's size of a new `system.profile`.
const COLLECTION_BYTES: i64 = 1 << 20;
/// Databases with settings of their own.
const DATABASES_MAX: usize = 1024;

/// The settings that `profile` makes for one database.
#[derive(Clone, Default)]
pub struct Settings {
    pub level: ProfileLevel,
    pub filter: Option<Arc<Filter>>,
}

/// Chooses operations by their profile documents, in place of their slowness.
pub struct Filter {
    pub document: Document,
    matcher: Matcher,
}

impl Filter {
    pub fn parse(document: RawDocument<'_>) -> Result<Filter> {
        Ok(Filter {
            matcher: Matcher::parse(document)?,
            document: document.to_owned_document(),
        })
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProfileLevel {
    #[default]
    Off = 0,
    Slow = 1,
    All = 2,
}

impl ProfileLevel {
    pub fn parse(level: i64) -> Option<ProfileLevel> {
        match level {
            0 => Some(ProfileLevel::Off),
            1 => Some(ProfileLevel::Slow),
            2 => Some(ProfileLevel::All),
            _ => None,
        }
    }
}

pub struct Profiler {
    /// Some database has settings.
    is_on: AtomicBool,
    databases: RwLock<FxHashMap<String, Settings>>,
    /// The bits of a number from 0 to 1: how many of the slow operations are taken.
    sample_rate: AtomicU64,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler {
            is_on: AtomicBool::new(false),
            databases: RwLock::default(),
            sample_rate: AtomicU64::new(1f64.to_bits()),
        }
    }
}

impl Profiler {
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Relaxed))
    }

    pub fn set_sample_rate(&self, rate: f64) {
        self.sample_rate.store(rate.to_bits(), Relaxed);
    }

    pub fn settings(&self, database: &str) -> Settings {
        self.databases
            .read()
            .get(database)
            .cloned()
            .unwrap_or_default()
    }

    /// Sets a database's level and filter; a level above 0 makes its `system.profile`.
    pub fn set(&self, data: &Database, database: &str, settings: Settings) -> Result<()> {
        if settings.level > ProfileLevel::Off {
            make_collection(data, database)?;
        }
        let mut databases = self.databases.write();
        if settings.level == ProfileLevel::Off && settings.filter.is_none() {
            databases.remove(database);
        } else {
            if databases.len() >= DATABASES_MAX && !databases.contains_key(database) {
                let message = format!("at most {DATABASES_MAX} databases are profiled");
                return Err(CommandError::bad_value(message));
            }
            databases.insert(database.to_owned(), settings);
        }
        self.is_on.store(!databases.is_empty(), Relaxed);
        Ok(())
    }

    /// Logs and profiles the operation as its database's settings say.
    pub fn note(
        &self,
        data: &Database,
        slow_operations: &SlowOperations,
        ended: &Ended<'_>,
        is_slow: bool,
    ) {
        let settings = self.settings(ended.outcome.database);
        // Built once for all who ask for it.
        let built = OnceCell::new();
        let document = || built.get_or_init(|| profile_document::build(ended));
        let is_meant = match &settings.filter {
            Some(filter) => filter.matcher.matches(document().as_raw()),
            None => is_slow && self.is_sampled(),
        };
        if is_meant {
            slow_log::write(ended);
            slow_operations.note(document(), ended);
        }
        let is_profiled = match settings.level {
            ProfileLevel::Off => false,
            ProfileLevel::Slow => is_meant,
            ProfileLevel::All => true,
        };
        // Clients count operations by the profile: they reckon with those that read it, not with the one that begins it.
        if is_profiled && ended.outcome.command_name != COMMAND {
            store(data, ended.outcome.database, document());
        }
    }

    /// Writes what `profile` answers: the settings as they are.
    pub fn append_settings(
        &self,
        settings: &Settings,
        slow_ms: i64,
        reply: &mut DocumentBuilder<'_>,
    ) {
        reply.append("was", settings.level as i32);
        reply.append("slowms", i32::try_from(slow_ms).unwrap_or(i32::MAX));
        reply.append("sampleRate", self.sample_rate());
        if let Some(filter) = &settings.filter {
            reply.append("filter", &filter.document);
            reply.append(
            "note",
            "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines.",
        );
        }
    }

    fn is_sampled(&self) -> bool {
        let rate = self.sample_rate();
        if rate >= 1.0 {
            return true;
        }
        // Without random bytes nothing is left out.
        let random = getrandom::u32().unwrap_or(0);
        f64::from(random) < rate * f64::from(u32::MAX)
    }
}

fn make_collection(data: &Database, database: &str) -> Result<()> {
    let namespace = Namespace::new(database, COLLECTION)?;
    if data.collection(&namespace)?.is_some() {
        return Ok(());
    }
    let options = doc! { "capped": true, "size": COLLECTION_BYTES };
    let operation = Operation::default();
    data.create_collection(&namespace, options.as_raw(), &operation, Level::Written)?;
    Ok(())
}

/// A document that cannot be stored is worth a line, not the client's connection.
fn store(data: &Database, database: &str, document: &Document) {
    let stored = Namespace::new(database, COLLECTION)
        .map_err(CommandError::from)
        .and_then(|namespace| {
            let documents = [document.as_raw()];
            let operation = Operation::default();
            let level = Level::Written;
            let request = InsertRequest::new(&namespace, &documents);
            Ok(exec::insert(data.into(), &operation, request, level)?)
        });
    let failure = match stored {
        Ok(outcome) => outcome
            .errors
            .into_iter()
            .next()
            .map(|(_, error)| error.to_string()),
        Err(error) => Some(error.message),
    };
    if let Some(failure) = failure {
        log::warning(
            "command",
            "profile document not stored",
            &[("db", database.into()), ("error", failure.into())],
        );
    }
}
