//! The options of the engine, and how they become RocksDB's.

use quarry_seal::DataKey;
use quarry_storage::Result;
use rust_rocksdb::{BlockBasedOptions, Cache, DBCompressionType, DataBlockIndexType, LogLevel};

use crate::{failure::from_rocksdb, ffi::sealed_env::sealed_env, write_ahead::Listener};

const MIB: u64 = 1 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const BLOCK_BYTES: usize = 4 << 10;
/// Whole keys within a block, every so many entries: from one of them a seek reads on entry by entry.
const ENTRIES_A_RESTART: i32 = 4;
/// A get finds its entry in a block by hash.
const HASH_INDEX_RATIO: f64 = 0.75;
/// The share of a memtable that a filter over its keys takes. Most gets look for a key that is in no memtable.
const MEMTABLE_BLOOM_RATIO: f64 = 0.05;
/// Flushes and compactions put the blocks that they write into the cache (`kFlushAndCompaction`), so that the first get
/// of a block costs no read and no decompression. Blocks of compactions go first when room is short.
const CACHE_WHAT_IS_WRITTEN: i32 = 2;
/// A memtable remembers for each of the first two bytes of keys where the last key went, and looks from there on for
/// the place of the next: these bytes tell collections and indexes apart, or a few hundred of them from the others.
const INSERT_HINTS: &str = "memtable_insert_with_hint_prefix_extractor=fixed:2";
/// Blocks of a file that a compaction has replaced are taken out of the cache. Otherwise they stay until the
/// cache is full: reclaiming what a dropDatabase left made a cache of 512 MiB for 6 MB of files. With 300 RocksDB looks for
/// further blocks of a file as long as it expects to find one in twenty; its authors name this as a future default.
const UNCACHE: &str = "uncache_aggressiveness=300";
const SYNC_EVERY_BYTES: u64 = MIB;
const RATE_REFILL_US: i64 = 20_000;
const RATE_FAIRNESS: i32 = 10;
const LOG_FILES_KEPT: usize = 4;
const LOG_FILE_BYTES: usize = 4 << 20;
/// All tables are kept open from this bound on ...
const ALL_OPEN_MIN: u32 = 4_096;
/// ... as long as there are so many times fewer when the store is opened: it grows until it is opened again.
const GROWTH: usize = 4;
/// A file with this many deletes among so many neighbours is compacted early.
const DELETES_WINDOW: usize = 256;
const DELETES_TRIGGER: usize = 192;

/// Tuning of the engine. The defaults suit one machine with a few GiB of memory.
#[derive(Clone, Debug)]
pub struct Options {
    /// Block cache, filters and indexes included.
    pub cache_bytes: usize,
    /// One memtable. Gets look into each: bigger ones slow them down.
    pub write_buffer_bytes: usize,
    /// Memtables waiting for their flush before writes stall; times their size is what a restart
    /// replays at most.
    pub write_buffers_max: u32,
    /// One table file that a compaction writes. A dropped range gives back at once the files that hold nothing else.
    pub file_bytes: u64,
    /// Flushes and compactions together write no faster than this, so that they do not stand in
    /// the way of the journal's syncs. 0 = unlimited.
    pub background_bytes_per_s: u64,
    /// Table files that may be open at once; `None`: any number. A store of few beside this bound keeps all open, which makes
    /// reads quicker; of a larger one the rest is opened when it is read.
    pub open_files_max: Option<u32>,
    /// Writes are refused while less is free on the device.
    pub free_bytes_min: u64,
    /// Compactions wait until [`Engine::end_replay`](quarry_storage::Engine::end_replay): those that a kill has interrupted would take a
    /// processor and the disk from the replay, which a client waits for.
    pub opens_for_replay: bool,
    /// Every file is encrypted with keys derived from this one. A store is made and opened with the same key, or always without.
    pub key: Option<DataKey>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 512 << 20,
            write_buffer_bytes: 32 << 20,
            write_buffers_max: 4,
            file_bytes: 64 * MIB,
            background_bytes_per_s: 128 * MIB,
            open_files_max: None,
            free_bytes_min: 256 * MIB,
            opens_for_replay: false,
            key: None,
        }
    }
}

impl Options {
    /// RocksDB's option, for a store of so many tables now: -1 keeps all open.
    fn max_open_files(&self, tables: usize) -> i32 {
        match self.open_files_max {
            Some(max) if max < ALL_OPEN_MIN || tables > max as usize / GROWTH => {
                i32::try_from(max).unwrap_or(i32::MAX)
            }
            _ => -1,
        }
    }

    pub(crate) fn to_rocksdb(
        &self,
        cache: &Cache,
        tables: usize,
        listener: Listener,
    ) -> Result<rust_rocksdb::Options> {
        // The binding knows these by their texts only.
        let mut options = rust_rocksdb::Options::default()
            .get_options_from_string(INSERT_HINTS)
            .and_then(|mut options| options.get_options_from_string(UNCACHE))
            .map_err(from_rocksdb)?;
        options.create_if_missing(true);
        if let Some(key) = &self.key {
            options.set_env(&sealed_env(key));
        }
        options.set_block_based_table_factory(&table_options(cache));
        options.set_compression_type(DBCompressionType::Lz4);

        options.set_write_buffer_size(self.write_buffer_bytes);
        options.set_max_write_buffer_number(self.write_buffers_max as i32);
        options.set_target_file_size_base(self.file_bytes);
        options.set_max_open_files(self.max_open_files(tables));
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO);
        options.set_max_background_jobs(background_jobs());
        options.set_bytes_per_sync(SYNC_EVERY_BYTES);
        options.set_strict_bytes_per_sync(true);
        if let Ok(rate @ 1..) = i64::try_from(self.background_bytes_per_s) {
            options.set_ratelimiter(rate, RATE_REFILL_US, RATE_FAIRNESS);
        }
        options.add_compact_on_deletion_collector_factory(DELETES_WINDOW, DELETES_TRIGGER, 0.5);

        // Errors stay until the commit path has applied the refused group again; a memtable whose
        // LSNs the journal refused must not slip out with the shutdown.
        options.set_max_bgerror_resume_count(0);
        options.set_avoid_flush_during_shutdown(true);
        options.add_event_listener(listener);

        // Start-up reads no more than it must, and no thread wakes for statistics. RocksDB's own are off: a get bumped a
        // dozen of them, each of which asks for its core; what is reported comes from its threads' counts and events.
        options.set_skip_stats_update_on_db_open(true);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(LOG_FILES_KEPT);
        options.set_max_log_file_size(LOG_FILE_BYTES);
        Ok(options)
    }
}

fn table_options(cache: &Cache) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(BLOCK_BYTES);
    table.set_block_restart_interval(ENTRIES_A_RESTART);
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    table.set_whole_key_filtering(true);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_data_block_hash_ratio(HASH_INDEX_RATIO);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_prepopulate_block_cache(CACHE_WHAT_IS_WRITTEN);
    table
}

fn background_jobs() -> i32 {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    cores.clamp(2, 8) as i32
}
