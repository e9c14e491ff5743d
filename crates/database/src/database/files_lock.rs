//! Files that stand still for somebody who copies them: `fsync` with `lock: true`.
//!
//! Keeps true: while the lock is held no write is acknowledged or begun, engine and journal have everything on the disk, and neither
//! changes a file: no flush, compaction, checkpoint, steady point, reclaiming, or making and freeing of segments. Reads go on.

use quarry_storage::Engine;

use crate::commit::commits::Commits;
use crate::error::Result;

/// The lock of a database's files.
pub(super) struct FilesLock<'d>(pub &'d Commits);

impl FilesLock<'_> {
    /// Locks the files, or locks them once more; how many locks there are. Returns when they stand still.
    pub fn lock(&self) -> Result<u64> {
        let stop = self.0.path().write_stop();
        let mut count = stop.count();
        if *count == 0 {
            stop.begin();
            if let Err(error) = self.bring_to_rest() {
                self.0.journal().let_files_move();
                stop.end();
                return Err(error);
            }
        }
        *count += 1;
        Ok(*count)
    }

    /// Gives up one lock; how many are left. None where there was none.
    pub fn unlock(&self) -> Result<Option<u64>> {
        let stop = self.0.path().write_stop();
        let mut count = stop.count();
        if *count == 0 {
            return Ok(None);
        }
        if *count == 1 {
            // Where that fails the lock stays, and can be given up again.
            self.0.late_writes().let_files_move()?;
            self.0.journal().let_files_move();
            stop.end();
        }
        *count -= 1;
        Ok(Some(*count))
    }

    /// Whether the files are locked.
    pub fn is_locked(&self) -> bool {
        self.0.path().write_stop().is_on()
    }

    /// Gives up all locks because the server stops, with an error for the writes that wait; whether there were any.
    pub fn end(&self) -> Result<bool> {
        let stop = self.0.path().write_stop();
        let Some(mut count) = stop.try_count() else {
            stop.close();
            return Ok(false);
        };
        let was_locked = std::mem::take(&mut *count) > 0;
        let moved = match was_locked {
            true => self.0.late_writes().let_files_move(),
            false => Ok(()),
        };
        self.0.journal().let_files_move();
        stop.close();
        moved?;
        Ok(was_locked)
    }

    fn bring_to_rest(&self) -> Result<()> {
        let (journal, engine) = (self.0.journal(), self.0.late_writes());
        // A group that was led before the stop is written by then.
        journal.wait_out_turn();
        engine.catch_up()?;
        journal.sync()?;
        engine.sync()?;
        journal.hold_files_still();
        Ok(engine.hold_files_still()?)
    }
}
