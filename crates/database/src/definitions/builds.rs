//! Index builds that are running, and those that a crash cut off.
//!
//! A build that runs has a mark in the system range for each of its indexes, `0x00 0x15 ident`, with the collection and
//! the index's name. The mark comes and goes with the catalog entry that says *building*: registered with it, renamed
//! with it, and deleted by the commit that finishes or drops the index. So an open database that reads this one small
//! range knows every build that nobody will finish. Nobody was told that such an index exists: a thread drops it, as
//! dropIndexes would, while the database already serves; writers keep it up to date until then.
//!
//! RunningBuilds builds are known in memory too. createIndexes with a definition that another one builds waits for it, and
//! with one that nobody builds (the cleaner has not come to it, or a failed build could not be taken back because
//! writes were refused) replaces it.

use parking_lot::{Condvar, Mutex};
use quarry_storage::{Engine, KeyRange, WriteBatch};
use rustc_hash::FxHashMap;

use crate::definitions::noted::Noted;
use crate::error::{Error, Result};
use crate::index::definition::Index;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::locks::hold::INTERRUPT_TICK;
use crate::operation::Operation;

/// An index whose build a crash cut off; it is dropped in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedBuild {
    /// The collection that the index was to be of.
    pub namespace: Namespace,
    /// The index's name.
    pub index: String,
    pub(crate) ident: Ident,
}

/// The builds that run in this process.
#[derive(Default)]
pub struct Builds {
    running: Mutex<FxHashMap<Ident, Noted>>,
    ended: Condvar,
}

/// The indexes of one createIndexes, running until dropped.
pub struct RunningBuilds<'b> {
    builds: &'b Builds,
    idents: Vec<Ident>,
}

impl Builds {
    pub fn start(&self, idents: Vec<Ident>) -> RunningBuilds<'_> {
        let new = idents.iter().map(|ident| (*ident, Noted::default()));
        self.running.lock().extend(new);
        RunningBuilds {
            builds: self,
            idents,
        }
    }

    pub fn is_running(&self, ident: Ident) -> bool {
        self.running.lock().contains_key(&ident)
    }

    /// Waits until nobody builds `ident` any more.
    pub fn wait(&self, ident: Ident, operation: &Operation) -> Result<()> {
        let mut running = self.running.lock();
        while running.contains_key(&ident) {
            self.ended.wait_for(&mut running, INTERRUPT_TICK);
            operation.check()?;
        }
        Ok(())
    }

    /// Notes a document for `unique_build`. Nobody needs the notes of an index that nobody builds.
    pub fn note(&self, ident: Ident, record_key: &[u8], duplicate: impl FnOnce() -> Error) {
        if let Some(noted) = self.running.lock().get_mut(&ident) {
            noted.add(record_key, duplicate);
        }
    }

    /// Fails when one of the builds has noted too much.
    pub fn check_noted(&self, idents: &[Ident]) -> Result<()> {
        let running = self.running.lock();
        let mut noted = idents.iter().filter_map(|ident| running.get(ident));
        noted.try_for_each(Noted::check)
    }

    /// The record keys that were noted; an error if there were too many.
    pub fn noted(&self, ident: Ident) -> Result<Vec<Box<[u8]>>> {
        let running = self.running.lock();
        let Some(noted) = running.get(&ident) else {
            return Ok(Vec::new());
        };
        noted.check()?;
        Ok(noted.record_keys())
    }
}

impl RunningBuilds<'_> {
    pub fn idents(&self) -> &[Ident] {
        &self.idents
    }
}

impl Drop for RunningBuilds<'_> {
    fn drop(&mut self) {
        let mut running = self.builds.running.lock();
        for ident in &self.idents {
            running.remove(ident);
        }
        drop(running);
        self.builds.ended.notify_all();
    }
}

/// Marks `index` as being built in `namespace`.
pub fn stage_mark(index: &Index, namespace: &Namespace, batch: &mut WriteBatch) {
    let value = [namespace.database(), namespace.collection(), &*index.name].join("\0");
    batch.put(&layout::building_key(index.ident), value.as_bytes());
}

pub fn unstage_mark(ident: Ident, batch: &mut WriteBatch) {
    batch.delete(&layout::building_key(ident));
}

/// The marks that stand: before the first operation, those of builds that were cut off.
pub fn interrupted(engine: &dyn Engine) -> Result<Vec<InterruptedBuild>> {
    let snapshot = engine.snapshot()?;
    let mut cursor = snapshot.cursor(KeyRange::prefix(layout::BUILDING))?;
    cursor.first()?;
    let mut builds = Vec::new();
    while cursor.valid() {
        let ident = layout::split_ident(layout::BUILDING, cursor.key());
        let (ident, _) = ident.ok_or_else(broken_mark)?;
        builds.push(parse_mark(ident, cursor.value())?);
        cursor.next()?;
    }
    Ok(builds)
}

/// Reads the mark of the build of `ident`.
pub fn parse_mark(ident: Ident, value: &[u8]) -> Result<InterruptedBuild> {
    let text = std::str::from_utf8(value).map_err(|_| broken_mark())?;
    let mut parts = text.splitn(3, '\0');
    let (Some(database), Some(collection), Some(index)) =
        (parts.next(), parts.next(), parts.next())
    else {
        return Err(broken_mark());
    };
    Ok(InterruptedBuild {
        namespace: Namespace::new(database, collection)?,
        index: index.to_owned(),
        ident,
    })
}

fn broken_mark() -> Error {
    Error::Corrupt("the mark of an index build is broken".to_owned())
}
