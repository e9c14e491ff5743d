//! The options of the engine, and what each sync mode survives.

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// As many slots for readers as libmdbx can have.
pub const READERS_MAX: u32 = 32_767;

/// How far libmdbx takes a commit by itself. The journal above replays what the engine lost, as
/// long as the file itself is whole; only the last mode puts that at risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Data and meta page are synced at every commit.
    Durable,
    /// Data is synced at every commit, the meta page with the next: a power loss may take back the
    /// last commit.
    NoMetaSync,
    /// Nothing is synced at a commit: an end without a close takes the file back to the last steady point.
    #[default]
    SafeNoSync,
    /// As above, and steady points are overwritten: a power loss may leave a damaged file.
    UtterlyNoSync,
}

/// Tuning of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which of a commit's writes are synced with it.
    pub sync_mode: SyncMode,
    /// The file grows to this at most; so much address space is reserved.
    pub size_bytes_max: u64,
    /// The file grows in such steps. It never shrinks: freed pages are used again.
    pub growth_bytes: u64,
    /// A steady point is made when so much is unsynced: freed pages are not used again before one.
    pub steady_after_bytes: u64,
    /// Snapshots that may be open at once, over all threads; at most [`READERS_MAX`]. One more is refused with an error that
    /// says to try again.
    pub readers_max: u32,
    /// Writes are refused while less is free on the device.
    pub free_bytes_min: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync_mode: SyncMode::default(),
            size_bytes_max: TIB,
            growth_bytes: 64 * MIB,
            steady_after_bytes: 128 * MIB,
            readers_max: 4_096,
            free_bytes_min: 256 * MIB,
        }
    }
}
