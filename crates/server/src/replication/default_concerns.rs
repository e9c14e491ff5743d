//! The read and write concern of commands that name none, in a set: MongoDB's `majority` and `local`, or what
//! `setDefaultRWConcern` has set, which is durable before it is in force.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::RwLock;
use quarry_bson::{DateTime, Document, DocumentBuilder, RawDocument, RawValue, Timestamp, doc};
use quarry_database::Database;
use quarry_query::ErrorCode;

use crate::dispatch::concerns::{ReadConcern, ReadLevel, WriteConcern};
use crate::dispatch::error::{CommandError, Result};
use crate::replication::settings;

const COLLECTION: &str = "settings";
const ID: &str = "ReadWriteConcernDefaults";
const READ: &str = "defaultReadConcern";
const WRITE: &str = "defaultWriteConcern";

/// The defaults that are in force.
pub struct DefaultConcerns {
    /// A write waits until it survives a power loss.
    are_writes_durable: AtomicBool,
    /// A read is answered once what it saw survives one.
    are_reads_majority: AtomicBool,
    /// The document that was set; changed by one command at a time.
    set: RwLock<Option<Document>>,
}

impl DefaultConcerns {
    /// Reads what the data directory keeps.
    pub fn open(database: &Database) -> Result<DefaultConcerns> {
        let concerns = DefaultConcerns {
            are_writes_durable: AtomicBool::new(true),
            are_reads_majority: AtomicBool::new(false),
            set: RwLock::default(),
        };
        if let Some(set) = settings::read(database, COLLECTION, ID)? {
            concerns.follow(set.as_raw())?;
            *concerns.set.write() = Some(set);
        }
        Ok(concerns)
    }

    /// Whether a write without a write concern waits for a sync.
    #[inline]
    pub fn are_writes_durable(&self) -> bool {
        self.are_writes_durable.load(Relaxed)
    }

    /// The level of a read without a read concern.
    #[inline]
    pub fn read_level(&self) -> ReadLevel {
        match self.are_reads_majority.load(Relaxed) {
            true => ReadLevel::Majority,
            false => ReadLevel::Local,
        }
    }

    /// Sets one of the defaults, or both; `time` is the cluster time of now.
    ///
    /// # Errors
    /// A default that this set cannot keep, or that MongoDB refuses as one.
    pub fn change(
        &self,
        database: &Database,
        read: Option<RawDocument<'_>>,
        write: Option<RawDocument<'_>>,
        time: Timestamp,
    ) -> Result<()> {
        let mut set = self.set.write();
        let old = set.clone().unwrap_or_default();
        let mut next = doc! { "_id": ID };
        let kept = |name: &str| old.get_document(name);
        // An empty read concern takes the default back; that of writes stays, once it is set.
        let read = read.or_else(|| kept(READ)).filter(|read| !read.is_empty());
        if write.is_some_and(|write| write.is_empty()) {
            let message = "The global default write concern cannot be unset once it is set.";
            return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
        }
        if let Some(read) = read {
            check_read(read)?;
            next.append(READ, read);
        }
        if let Some(write) = write.or_else(|| kept(WRITE)) {
            check_write(write)?;
            next.append(WRITE, write);
        }
        next.append("updateOpTime", RawValue::Timestamp(time));
        next.append("updateWallClockTime", DateTime::now());
        settings::keep(database, COLLECTION, &next)?;
        self.follow(next.as_raw())?;
        *set = Some(next);
        Ok(())
    }

    /// Appends the defaults and where they come from.
    pub fn append(&self, reply: &mut DocumentBuilder<'_>) {
        let set = self.set.read();
        let of = |name: &str| set.as_ref().and_then(|set| set.get_document(name));
        let implicit_read = doc! { "level": "local" };
        let implicit_write = doc! { "w": "majority", "wtimeout": 0 };
        reply.append(READ, of(READ).unwrap_or(implicit_read.as_raw()));
        reply.append(WRITE, of(WRITE).unwrap_or(implicit_write.as_raw()));
        let source = |name: &str| {
            if of(name).is_some() {
                "global"
            } else {
                "implicit"
            }
        };
        reply.append("defaultReadConcernSource", source(READ));
        reply.append("defaultWriteConcernSource", source(WRITE));
        for field in ["updateOpTime", "updateWallClockTime"] {
            if let Some(value) = set.as_ref().and_then(|set| set.get(field)) {
                reply.append(field, value);
            }
        }
        reply.append("localUpdateWallClockTime", DateTime::now());
    }

    fn follow(&self, set: RawDocument<'_>) -> Result<()> {
        let durable = match set.get_document(WRITE) {
            Some(write) => WriteConcern::parse(write)?.is_durable,
            None => true,
        };
        let level = match set.get_document(READ) {
            Some(read) => ReadConcern::parse(read)?.level,
            None => ReadLevel::Local,
        };
        self.are_writes_durable.store(durable, Relaxed);
        self.are_reads_majority
            .store(level == ReadLevel::Majority, Relaxed);
        Ok(())
    }
}

fn check_read(concern: RawDocument<'_>) -> Result<()> {
    let parsed = ReadConcern::parse(concern)?;
    let is_level_alone = concern.len() == 1 && concern.contains("level");
    match parsed.level {
        ReadLevel::Local | ReadLevel::Available | ReadLevel::Majority if is_level_alone => Ok(()),
        _ => Err(CommandError::bad_value(format!(
            "The default read concern must be one of local, available and majority, found {concern}"
        ))),
    }
}

fn check_write(concern: RawDocument<'_>) -> Result<()> {
    let parsed = WriteConcern::parse(concern)?;
    if parsed.is_unacknowledged {
        let message = "Default write concern can not be unacknowledged (w: 0)";
        return Err(CommandError::bad_value(message));
    }
    if parsed.asks_for_others() {
        let message = "Not enough data-bearing nodes for that default write concern";
        return Err(CommandError::new(
            ErrorCode::UNSATISFIABLE_WRITE_CONCERN,
            message,
        ));
    }
    Ok(())
}
