//! Room on disk for what stages cannot hold in memory: the seam through which they get it, and the counts of what they wrote.
//!
//! A sort and a `$group` that outgrow their memory write sorted runs into files (`sorter`). Nothing in this crate names a file:
//! whoever owns the data directory installs a `SpillSpace`, and a process without one refuses with MongoDB's error instead.
//! A file belongs to one sort and is gone when it is dropped. The runs of
//! a sort share a few files, one behind the other (`sorter`), because descriptors are few where many sort at once; an idle cursor holds the
//! files of the runs that it has not handed out. A command says with `allowDiskUse` whether it may use disk, and all of its
//! stages ask the one expression context about it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::parameters::Parameter;

/// The bytes of a block, which the last one of a run may fall short of.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// Where a block of a file begins, and its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockPlace {
    /// Counted from 0.
    pub number: u32,
    /// In bytes.
    pub position: u64,
}

/// A place that gives files.
pub trait SpillSpace: Send + Sync {
    /// Makes an empty file that nobody else can open and that does not outlive the process.
    fn create(&self) -> Result<Box<dyn SpillFile>>;
}

/// A file of blocks that are appended, and read from any of them on.
pub trait SpillFile: Send {
    /// The place of the block that is appended next.
    fn end(&self) -> BlockPlace;

    /// Appends a block of at most `BLOCK_BYTES`; answers how many bytes it takes on disk.
    fn append(&mut self, block: &[u8]) -> Result<u64>;

    /// Appends the block at the place to `out`; the place becomes that of the one behind it. Fails for a block that is not what was written.
    fn read_block(&mut self, place: &mut BlockPlace, out: &mut Vec<u8>) -> Result<()>;
}

static SPACE: OnceLock<Box<dyn SpillSpace>> = OnceLock::new();

/// Gives the process its room on disk. The first one stays.
pub fn install(space: Box<dyn SpillSpace>) {
    let _ = SPACE.set(space);
}

/// Whether the stages of a command may write to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// They may.
    Allowed,
    /// They fail where they outgrow their memory.
    Denied,
}

/// The counts of all stages of one kind since the process started.
#[derive(Debug, Default)]
pub struct SpillCounts {
    /// Runs that were written because memory was full.
    pub spills: AtomicU64,
    /// Rows in them.
    pub records: AtomicU64,
    /// The bytes of these rows.
    pub bytes: AtomicU64,
    /// The bytes that they took on disk.
    pub stored_bytes: AtomicU64,
}

/// The counts of what one stage has written.
#[derive(Debug, Default, Clone, Copy)]
pub struct Spilled {
    /// Runs that were written because memory was full.
    pub spills: u64,
    /// Rows in them.
    pub records: u64,
    /// The bytes of these rows.
    pub bytes: u64,
    /// The bytes that they took on disk.
    pub stored_bytes: u64,
}

/// A kind of stage that spills: the name that errors give it, its bound and its counts.
#[derive(Debug)]
pub struct SpillingKind {
    name: &'static str,
    /// The parameter that bounds its memory.
    pub(crate) memory: &'static Parameter,
    /// The counts of all stages of the kind.
    pub counts: SpillCounts,
}

/// Sorts: those of a find, `$sort`, `$sample`, `$bucketAuto`, and the one in front of the windows of `$setWindowFields`.
pub static SORTS: SpillingKind = SpillingKind::new("Sort", &crate::parameters::SORT_MEMORY_BYTES);
/// `$group`.
pub static GROUPS: SpillingKind =
    SpillingKind::new("$group", &crate::parameters::GROUP_MEMORY_BYTES);

impl SpillingKind {
    const fn new(name: &'static str, memory: &'static Parameter) -> SpillingKind {
        SpillingKind {
            name,
            memory,
            counts: SpillCounts {
                spills: AtomicU64::new(0),
                records: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                stored_bytes: AtomicU64::new(0),
            },
        }
    }

    /// The room on disk, for a stage whose memory is full. Fails where it may not use it or there is none.
    #[cold]
    pub(crate) fn space(&self, disk_use: DiskUse) -> Result<&'static dyn SpillSpace> {
        let why = match (disk_use, SPACE.get()) {
            (DiskUse::Allowed, Some(space)) => return Ok(&**space),
            (DiskUse::Allowed, None) => "and this server has no directory to spill to",
            (DiskUse::Denied, _) => {
                "but did not opt in to external sorting. Pass allowDiskUse:true to opt in"
            }
        };
        let text = format!(
            "{} exceeded memory limit of {} bytes, {why}",
            self.name,
            self.memory.get()
        );
        Err(Error::new(
            ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
            text,
        ))
    }

    pub(crate) fn count(&self, spilled: Spilled) {
        let counts = &self.counts;
        for (counter, amount) in [
            (&counts.spills, spilled.spills),
            (&counts.records, spilled.records),
            (&counts.bytes, spilled.bytes),
            (&counts.stored_bytes, spilled.stored_bytes),
        ] {
            counter.fetch_add(amount, Relaxed);
        }
    }
}

impl Spilled {
    pub(crate) fn add(&mut self, other: Spilled) {
        self.spills += other.spills;
        self.records += other.records;
        self.bytes += other.bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

impl DiskUse {
    /// The use that a command may make of the disk if it does not say.
    pub(crate) fn by_default() -> DiskUse {
        match crate::parameters::ALLOW_DISK_USE_BY_DEFAULT.get() {
            0 => DiskUse::Denied,
            _ => DiskUse::Allowed,
        }
    }
}
