//! Files that stand still for somebody who copies them: `fsync` with `lock: true`.
//!
//! Keeps true: while the lock is held no write is acknowledged or begun, engine and journal have everything on the disk, and neither
//! changes a file: no flush, compaction, checkpoint, steady point, reclaiming, or making and freeing of segments. Reads go on.
//! A lock that fails, takes too long, or is ended by its operation or by a stop of the server leaves nothing locked.

use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use quarry_storage::{Engine, Readiness};

use crate::commit::commits::Commits;
use crate::commit::write_stop::WriteStop;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::locks::hold::INTERRUPT_TICK;
use crate::operation::check_running;

/// A stop of the server waits so long for somebody who is just locking files.
const COUNT_WAIT: Duration = Duration::from_secs(1);

/// The lock of a database's files.
pub(super) struct FilesLock<'d>(pub &'d Commits);

impl FilesLock<'_> {
    /// Locks the files, or locks them once more; how many locks there are. Returns when they stand still, and fails at the
    /// deadline, if there is one.
    pub fn lock(&self, deadline: Option<Instant>) -> Result<u64> {
        let stop = self.stop();
        let count = self.count(deadline)?;
        if *count > 0 {
            return stop.keep(count).map_err(|_| Error::ShuttingDown);
        }
        // Most of the work is done while writes go on.
        self.0.journal().sync()?;
        self.0.late_writes().sync_but_held()?;
        stop.begin();
        if let Err(error) = self.bring_to_rest(deadline) {
            stop.end();
            return Err(error);
        }
        // The server has begun to stop meanwhile, and nobody would give the lock up.
        stop.keep(count).or_else(|_count| {
            let moved = self.let_files_move();
            stop.end();
            moved.and(Err(Error::ShuttingDown))
        })
    }

    /// Gives up one lock; how many are left. None where there was none.
    pub fn unlock(&self) -> Result<Option<u64>> {
        let mut count = self.count(None)?;
        if *count == 0 {
            return Ok(None);
        }
        if *count == 1 {
            // Where that fails the lock stays, and can be given up again.
            self.let_files_move()?;
            self.stop().end();
        }
        *count -= 1;
        Ok(Some(*count))
    }

    /// Whether the files are locked.
    pub fn is_locked(&self) -> bool {
        self.stop().is_on()
    }

    /// Gives up all locks because the server stops, with an error for the writes that wait; whether there were any.
    pub fn end(&self) -> Result<bool> {
        let stop = self.stop();
        stop.begin_to_close();
        let Some(mut count) = stop.try_count(COUNT_WAIT) else {
            // Who has it is just locking, and lets go of everything as soon as the engine and the disk let it.
            stop.close();
            return Ok(false);
        };
        let was_locked = std::mem::take(&mut *count) > 0;
        let moved = match was_locked {
            true => self.0.late_writes().let_files_move(),
            false => Ok(()),
        };
        // The journal closes in any case.
        self.0.journal().let_files_move();
        stop.close();
        moved?;
        Ok(was_locked)
    }

    fn stop(&self) -> &WriteStop {
        self.0.path().write_stop()
    }

    /// The right to begin and end the lock, with the number of those who have it. Waits where somebody else is just locking.
    fn count(&self, deadline: Option<Instant>) -> Result<MutexGuard<'_, u64>> {
        loop {
            self.check_wanted(deadline)?;
            if let Some(count) = self.stop().try_count(INTERRUPT_TICK) {
                return Ok(count);
            }
        }
    }

    /// Fails when the operation that runs here is to end, the server stops, or it takes too long.
    fn check_wanted(&self, deadline: Option<Instant>) -> Result<()> {
        check_running()?;
        if self.stop().is_closing() {
            return Err(Error::ShuttingDown);
        }
        match deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            true => Err(Error::invalid(
                ErrorCode::LOCK_TIMEOUT,
                "Fsync lock timed out",
            )),
            false => Ok(()),
        }
    }

    /// Makes everything durable and has the files stand still. A failure leaves them free.
    fn bring_to_rest(&self, deadline: Option<Instant>) -> Result<()> {
        let (journal, engine) = (self.0.journal(), self.0.late_writes());
        while !self.stop().upkeep_has_ended(INTERRUPT_TICK) {
            self.check_wanted(deadline)?;
        }
        // A group that was led before the stop is written by then.
        journal.wait_out_turn();
        self.hand_over(deadline)?;
        journal.sync()?;
        engine.sync()?;
        self.check_wanted(deadline)?;
        journal.hold_files_still();
        let held = engine.hold_files_still();
        if held.is_err() {
            journal.let_files_move();
        }
        Ok(held?)
    }

    /// Hands the batch over that the engine did not take, if there is one. Waits inside the engine only where it says that it is
    /// ready, as writers do.
    fn hand_over(&self, deadline: Option<Instant>) -> Result<()> {
        let engine = self.0.late_writes();
        loop {
            match engine.caught_up() {
                Readiness::Ready => return Ok(()),
                Readiness::Failed(error) => return Err(error.into()),
                Readiness::Stalled { .. } if engine.catch_up_inside() => return Ok(()),
                Readiness::Stalled { .. } => {}
            }
            self.check_wanted(deadline)?;
            std::thread::sleep(INTERRUPT_TICK);
        }
    }

    /// Where the engine's files cannot be let go of, the journal's stay as well.
    fn let_files_move(&self) -> Result<()> {
        self.0.late_writes().let_files_move()?;
        self.0.journal().let_files_move();
        Ok(())
    }
}
