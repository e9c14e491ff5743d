//! Which storage engines this build has, and how each is opened.

use std::path::Path;
use std::sync::Arc;

use quarry_bson::Document;
use quarry_database::Namespace;
use quarry_seal::DataKey;
use quarry_storage::{Engine, Memory};

use crate::observe::log::{self, Attribute};
#[cfg(feature = "mdbx")]
use crate::process::config::MdbxSync;
use crate::process::config::{Config, Durability, EngineName};
use crate::process::encryption;
use crate::process::parameters::Parameters;

/// The journal's directory within the data directory. Each engine's is called as the engine is.
pub const JOURNAL: &str = "journal";

/// The engines of this build.
pub fn available() -> impl Iterator<Item = EngineName> {
    let all = [
        (EngineName::Rocksdb, cfg!(feature = "rocksdb")),
        (EngineName::Mdbx, cfg!(feature = "mdbx")),
        (EngineName::Memory, true),
    ];
    all.into_iter()
        .filter(|(_, built)| *built)
        .map(|(name, _)| name)
}

/// The parts of the memory budget that the engine's cache, where nobody says how large it is to be, and one of its write buffers take at
/// most: what requests and operations may hold fits beside them.
#[cfg(feature = "rocksdb")]
const CACHE_SHARE: usize = 8;
#[cfg(feature = "rocksdb")]
const WRITE_BUFFER_SHARE: usize = 32;

/// Opens the engine with its files under the data directory, at most `tables_max` of them at once, encrypted if there is a key. The process
/// is to keep to `memory_budget` bytes.
pub fn open(
    config: &Config,
    memory_budget: usize,
    tables_max: u32,
    key: Option<&DataKey>,
) -> Result<Arc<dyn Engine>, String> {
    let directory: &Path = &config.data_directory;
    match config.engine {
        EngineName::Memory => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "rocksdb")]
        EngineName::Rocksdb => {
            let path = directory.join(config.engine.as_str());
            let options = quarry_storage_rocksdb::Options {
                open_files_max: Some(tables_max),
                opens_for_replay: true,
                key: key.cloned(),
                ..rocksdb_within(memory_budget, config.cache_bytes)
            };
            let engine = quarry_storage_rocksdb::RocksDb::open(&path, &options);
            Ok(Arc::new(engine.map_err(|error| error.to_string())?))
        }
        #[cfg(feature = "mdbx")]
        EngineName::Mdbx => {
            let path = directory.join(config.engine.as_str());
            let options = quarry_storage_mdbx::Options {
                sync_mode: sync_mode(config),
                readers_max: readers_max(config.connections_max),
                ..Default::default()
            };
            let engine = quarry_storage_mdbx::Mdbx::open(&path, &options);
            Ok(Arc::new(engine.map_err(|error| error.to_string())?))
        }
        #[allow(unreachable_patterns)]
        other => {
            let _ = (directory, memory_budget, tables_max, key);
            Err(format!("this build has no engine `{}`", other.as_str()))
        }
    }
}

/// The options of RocksDB for a process that keeps to `memory_budget` bytes, with a cache of the size that is asked for, if one is.
#[cfg(feature = "rocksdb")]
fn rocksdb_within(
    memory_budget: usize,
    cache_bytes: Option<usize>,
) -> quarry_storage_rocksdb::Options {
    let by_default = quarry_storage_rocksdb::Options::default();
    let shared = by_default.cache_bytes.min(memory_budget / CACHE_SHARE);
    let write_buffer = by_default.write_buffer_bytes;
    quarry_storage_rocksdb::Options {
        cache_bytes: cache_bytes.unwrap_or(shared),
        write_buffer_bytes: write_buffer.min(memory_budget / WRITE_BUFFER_SHARE),
        ..by_default
    }
}

/// Slots for readers: a view and a read beside it for each connection, and some for transactions and what runs in the
/// background, as far as libmdbx has them.
#[cfg(feature = "mdbx")]
fn readers_max(connections_max: usize) -> u32 {
    const OTHERS: usize = 4_096;
    let wanted = connections_max.saturating_mul(2).saturating_add(OTHERS);
    wanted.min(quarry_storage_mdbx::READERS_MAX as usize) as u32
}

#[cfg(feature = "mdbx")]
fn sync_mode(config: &Config) -> quarry_storage_mdbx::SyncMode {
    use quarry_storage_mdbx::SyncMode;
    match config.mdbx_sync {
        Some(MdbxSync::Durable) => SyncMode::Durable,
        Some(MdbxSync::NoMetaSync) => SyncMode::NoMetaSync,
        Some(MdbxSync::SafeNoSync) | None => SyncMode::SafeNoSync,
        Some(MdbxSync::UtterlyNoSync) => SyncMode::UtterlyNoSync,
    }
}

/// The window of a journal in memory, which the process holds as long as it is not told how much.
const WINDOW_BYTES_IN_MEMORY: u64 = 16 << 20;

/// The bytes that the journal may take with what it keeps for its window alone.
fn journal_bytes_max(config: &Config) -> u64 {
    let asked = &config.journal;
    let is_asked_for = asked.retention_mb.is_some() || asked.retention_hours.is_some();
    match config.engine {
        EngineName::Memory if !is_asked_for => WINDOW_BYTES_IN_MEMORY,
        _ => {
            // A device that does not say how much is free has room for nothing but the need.
            let free_bytes = quarry_storage::free_bytes(&config.data_directory).unwrap_or(0);
            asked.retain_bytes_max(free_bytes)
        }
    }
}

/// How the database is opened: where its journal lives, and how often that is synced in the background.
pub fn database_options(
    config: &Config,
    parameters: &Parameters,
    key: Option<&DataKey>,
) -> quarry_database::Options {
    quarry_database::Options {
        journal_directory: match config.engine {
            EngineName::Memory => None,
            EngineName::Rocksdb | EngineName::Mdbx => Some(config.data_directory.join(JOURNAL)),
        },
        commit_interval_ms: match config.durability {
            Durability::Journaled | Durability::Strict => {
                parameters.commit_interval_ms.unsigned_abs()
            }
            Durability::Relaxed => 0,
        },
        journal_segment_bytes: None,
        journal_retain_ms: config.journal.retain_ms(),
        journal_retain_bytes_max: journal_bytes_max(config),
        journal_archive_hold_bytes: config.journal_archive.hold_bytes(),
        journal_compress_above_bytes: config.journal.compress_above_bytes,
        journal_seal: key.map(encryption::journal_seal),
        record_cache_bytes: parameters.record_cache_mb << 20,
        shortcuts: parameters.shortcuts,
        filter_language: quarry_query::filter_language(),
        index_kinds: quarry_query::index_kinds(),
        on_invalid: warn_of_invalid,
        ..quarry_database::Options::default()
    }
}

/// Logs a document that was written although it does not suit its collection's validator, whose action is `warn`.
fn warn_of_invalid(namespace: &Namespace, info: &Document) {
    log::warning(
        "storage",
        "Document would fail validation",
        &[
            ("namespace", namespace.as_str().into()),
            ("errInfo", Attribute::Owned(info.to_string())),
        ],
    );
}

#[cfg(all(test, feature = "rocksdb"))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_engine_leaves_room_for_operations_in_a_small_budget() {
        let by_default = quarry_storage_rocksdb::Options::default();
        let large = rocksdb_within(64 << 30, None);
        assert_eq!(large.cache_bytes, by_default.cache_bytes);
        assert_eq!(large.write_buffer_bytes, by_default.write_buffer_bytes);
        let small = rocksdb_within(256 * MIB, None);
        assert_eq!(
            (small.cache_bytes, small.write_buffer_bytes),
            (32 * MIB, 8 * MIB)
        );
        let asked = rocksdb_within(256 * MIB, Some(300 * MIB));
        assert_eq!(asked.cache_bytes, 300 * MIB);
    }
}
