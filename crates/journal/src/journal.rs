//! The journal as its owner holds it.
//!
//! Threads: writers do the work themselves. `journal-sync` syncs every `commit_interval_ms` what nobody
//! waits for, and serves writers that went on without waiting; `journal-space` makes the next segment
//! ahead of need.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::archive::{Archive, Archived, Round, Settled};
use crate::backlog::Backlog;
use crate::copy::Pin;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::hooks::Hooks;
use crate::latch::Latch;
use crate::log::Log;
use crate::log::local::LocalLog;
use crate::options::{Identity, Options};
use crate::pipeline::Pipeline;
use crate::reader::Reader;
use crate::recovery::{Recovered, recover};
use crate::segment_header::SEGMENT_BYTES_MIN;
use crate::segments::{Room, Segments, WaitingForArchive};
use crate::sync::SyncCounters;
use crate::ticket::{Committed, Level, Pending, Ticket, Until};
use crate::wakeups::Wakeups;

/// When a segment that could not be made ahead of need is tried again.
const PREPARE_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });

/// How far ahead of this machine's clock a cluster time may be that it takes over. MongoDB's bound is a year, for times that
/// the cluster has signed; these are not signed, so that any client can make one up, and differ by what two machines' clocks
/// may differ by.
pub(crate) const CLUSTER_TIME_AHEAD_MAX_SECS: u64 = 300;

/// An open write-ahead log. Dropping it closes it.
pub struct Journal {
    pipeline: Arc<Pipeline>,
    backlog: Arc<Backlog>,
    /// The log if it is files of this journal's own: with segments to free and syncs to count.
    local: Option<Arc<LocalLog>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    replayed: u64,
    read_time: Duration,
    /// The first segment of this life is shorter than others.
    begins_short: bool,
}

/// The part of a journal that is kept though no checkpoint needs it, for those who read what was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// A segment is kept so long after its last write.
    pub ms_max: u64,
    /// As long as the journal's files take no more bytes than this.
    pub bytes_max: u64,
    /// The bytes that are kept so now.
    pub bytes: u64,
}

impl Journal {
    /// Opens or creates the journal in `files` and hands every record above `applied_lsn` to
    /// `hooks.apply`, whole groups in order. Refuses damage, a foreign journal, and missing history.
    pub fn open(
        files: Arc<dyn Files>,
        options: Options,
        identity: Identity,
        applied_lsn: u64,
        hooks: Arc<dyn Hooks>,
    ) -> Result<Journal> {
        identity.check()?;
        let mut options = options;
        options.segment_bytes = options.segment_bytes.max(SEGMENT_BYTES_MIN);
        let now_unix_ms = unix_ms();
        let begun = Instant::now();
        let must_exist = options.must_exist;
        let recovered = recover(
            &*files,
            &identity,
            must_exist,
            applied_lsn,
            &*hooks,
            now_unix_ms,
        )?;
        let read_time = begun.elapsed();
        let incarnation = u64::from(recovered.incarnation_number) << 32 | u64::from(salt());
        let segments = Segments::new(
            Arc::clone(&files),
            identity,
            options.clone(),
            incarnation,
            recovered.segments.clone(),
            recovered.next_sequence,
        )?;
        let (replayed, room) = match options.background && recovered.has_more() {
            true => replay_beside(&recovered, &*files, &*hooks, &segments)?,
            false => (recovered.replay(&*files, &*hooks)?, None),
        };
        let segment = segments.begin(recovered.start, room, unix_ms())?;
        let is_short = segment.bytes < options.segment_bytes;
        let next_lsn = recovered.start.first_lsn;
        let latch = Arc::new(Latch::default());
        let wakeups = Arc::new(Wakeups::new(next_lsn - 1));
        let local = Arc::new(LocalLog::new(
            segments,
            segment,
            next_lsn,
            recovered.start.stamp,
            Arc::clone(&latch),
            Arc::clone(&wakeups),
        ));
        let log: Arc<dyn Log> = local.clone();
        let stamp = recovered.start.stamp;
        let pipeline = Pipeline::new(options, hooks, log, latch, wakeups, next_lsn, stamp);
        pipeline.begin_at_cluster_time(recovered.start.cluster_time_min);
        let mut journal = Journal::run(pipeline, Some(local), replayed)?;
        journal.read_time = read_time;
        journal.begins_short = is_short;
        // What was replayed goes to the engine's disk first.
        if replayed == 0 {
            journal.request_segment();
        }
        Ok(journal)
    }

    /// Like `open`, over another log: hands every group above `applied_lsn` to `hooks.apply`, then goes on at
    /// the log's end. Nothing else may append to the log meanwhile: if something does, the next write is
    /// answered with `PositionMoved` and the journal latches.
    pub fn open_on(
        log: Arc<dyn Log>,
        options: Options,
        applied_lsn: u64,
        hooks: Arc<dyn Hooks>,
    ) -> Result<Journal> {
        let mut next_lsn = applied_lsn + 1;
        let mut groups = log.read(next_lsn)?;
        while let Some(payloads) = groups.next_group()? {
            hooks
                .apply(payloads.first_lsn(), &payloads)
                .map_err(Error::Unapplied)?;
            next_lsn = payloads.last_lsn() + 1;
        }
        let latch = Arc::new(Latch::default());
        let wakeups = Arc::new(Wakeups::new(next_lsn - 1));
        let stamp = log.stamp()?;
        let pipeline = Pipeline::new(options, hooks, log, latch, wakeups, next_lsn, stamp);
        Journal::run(pipeline, None, next_lsn - 1 - applied_lsn)
    }

    fn run(pipeline: Pipeline, local: Option<Arc<LocalLog>>, replayed: u64) -> Result<Journal> {
        let pipeline = Arc::new(pipeline);
        let backlog = Arc::new(Backlog::new(Arc::clone(&pipeline)));
        let threads = match pipeline.options.background {
            true => spawn_threads(&pipeline, &backlog, local.as_ref())?,
            false => Vec::new(),
        };
        Ok(Journal {
            pipeline,
            backlog,
            local,
            threads: Mutex::new(threads),
            replayed,
            read_time: Duration::ZERO,
            begins_short: false,
        })
    }

    /// The log under this journal, to read from. A group submitted to it directly has not been applied.
    pub fn log(&self) -> Arc<dyn Log> {
        Arc::clone(&self.pipeline.log)
    }

    /// Accepts and applies a record; returns before it is durable. Locks may go after this.
    pub fn submit(&self, payload: &[u8]) -> Result<Ticket> {
        self.backlog.go_first();
        self.pipeline.submit(payload)
    }

    /// Like `submit`, for a record whose writer calls `wait_durable` next: its sync may begin while it is being applied.
    /// Returns when the record is applied and `until` is reached. `wait_durable` is to be called in either case: it alone
    /// tells that the sync has succeeded.
    pub fn submit_syncing(&self, payload: &[u8], until: Until) -> Result<Ticket> {
        self.backlog.go_first();
        self.pipeline.submit_syncing(payload, until)
    }

    /// Accepts, applies and acknowledges a record at `level`.
    pub fn commit(&self, payload: &[u8], level: Level) -> Result<Committed> {
        self.backlog.go_first();
        let ticket = match level {
            Level::Written => self.pipeline.submit(payload)?,
            Level::Durable => self.pipeline.commit_durable(payload)?,
        };
        Ok(ticket.acknowledged())
    }

    /// Queues a record and goes on. It is accepted at the latest by `wait`, `flush`, a later submission
    /// or the background interval.
    pub fn submit_async(&self, payload: &[u8], level: Level) -> Result<Pending> {
        self.backlog.submit(payload, level)
    }

    /// Acknowledges a queued record at the level it was submitted with.
    pub fn wait(&self, pending: &Pending) -> Result<Committed> {
        self.backlog.wait(&pending.place)?;
        let ticket = self.pipeline.ticket_at(&pending.place, pending.level)?;
        Ok(ticket.acknowledged())
    }

    /// Whether `wait` would return at once, with a receipt or with an error.
    pub fn is_acknowledged(&self, pending: &Pending) -> bool {
        let place = &pending.place;
        let is_over = || {
            let is_failed = place.group.outcome().is_err();
            is_failed || self.durable_lsn() >= place.lsn() || self.pipeline.latch.is_thrown()
        };
        place.group.is_done() && (pending.level == Level::Written || is_over())
    }

    /// Accepts everything queued without waiting.
    pub fn flush(&self) {
        self.backlog.flush();
    }

    /// Returns when everything up to `lsn` is durable. One sync serves all who wait.
    /// Safe to call from the engine's threads: it takes no part in the commit path.
    pub fn wait_durable(&self, lsn: u64) -> Result<()> {
        let accepted_lsn = self.pipeline.accepted_lsn();
        if lsn > accepted_lsn {
            return Err(Error::PositionMoved {
                expected_lsn: lsn,
                next_lsn: accepted_lsn + 1,
            });
        }
        self.pipeline.wait_durable(lsn)
    }

    /// Makes everything accepted so far durable and returns up to which LSN that is.
    pub fn sync(&self) -> Result<u64> {
        let lsn = self.pipeline.accepted_lsn();
        self.wait_durable(lsn)?;
        Ok(lsn)
    }

    /// The highest LSN that is known to survive a power loss.
    pub fn durable_lsn(&self) -> u64 {
        self.pipeline.log.durable_lsn()
    }

    /// The last record that is accepted; it is applied, or will be before any later one.
    pub fn accepted_lsn(&self) -> u64 {
        self.pipeline.accepted_lsn()
    }

    /// The last record that is accepted and applied.
    pub fn last_lsn(&self) -> u64 {
        self.pipeline.wakeups.applied_lsn()
    }

    /// The first record that the journal still holds; 0 if it holds none.
    pub fn first_lsn(&self) -> u64 {
        self.pipeline.log.first_lsn()
    }

    /// The cluster time of the last record that was applied: whoever was answered for a record sees its time or a later one.
    /// Seconds since 1970 in the high half, a counter in the low half; 0 before the first record.
    pub fn cluster_time(&self) -> u64 {
        self.pipeline.cluster_time()
    }

    /// Every record from here on has a later cluster time than `beyond`, which a client may have from another node. False,
    /// and nothing changes, where that is further ahead of this machine's clock than `CLUSTER_TIME_AHEAD_MAX_SECS`. A time that
    /// this journal has given a record or has taken over already is never too far, wherever the machine's clock was set since.
    pub fn advance_cluster_time(&self, beyond: u64) -> bool {
        if beyond <= self.pipeline.cluster_time() || beyond < self.pipeline.cluster_time_min() {
            return true;
        }
        let now_secs = self.pipeline.clock.now_unix_ms() / 1000;
        let is_near = beyond >> 32 <= now_secs + CLUSTER_TIME_AHEAD_MAX_SECS;
        if is_near {
            self.pipeline.advance_cluster_time(beyond);
        }
        is_near
    }

    /// The first record of the first accepted group whose time, which is that of its last record, is that cluster time or a
    /// later one; `None` if there is none yet. Costs a look into a table, an index and some hundred KiB of groups, or once through a whole segment where a killed life left no index. Fails
    /// with `HistoryMissing` where records as late as that may be gone, or have no cluster time because an earlier version wrote
    /// them.
    pub fn first_since(&self, cluster_time: u64) -> Result<Option<u64>> {
        self.pipeline.log.first_since(cluster_time)
    }

    /// The life of this journal, which is in each group that it writes; 0 over another log than its own files.
    pub fn incarnation(&self) -> u64 {
        self.local
            .as_ref()
            .map_or(0, |local| local.segments.incarnation())
    }

    /// Records that `open` applied.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// How long `open` took before it applied anything: to read what the engine may miss, and to cut and sync the end.
    pub fn read_time(&self) -> Duration {
        self.read_time
    }

    /// Has the next segment made in the background if the first one is short. `open` asks for it itself unless it has replayed
    /// something: its zeros would go to the disk beside what the engine was given. Without this call the first segment asks
    /// when it is half full.
    pub fn request_segment(&self) {
        if self.begins_short {
            self.pipeline.wakeups.request_space();
        }
    }

    /// Reads from `from_lsn` on, while writing goes on.
    pub fn read(&self, from_lsn: u64) -> Result<Reader> {
        Reader::new(Arc::clone(&self.pipeline), from_lsn)
    }

    /// Returns when the segment after the current one is made. The thread `journal-space` makes it in any case; who does
    /// not want zeros written beside the first records waits for it here.
    pub fn prepare_segment(&self) -> Result<()> {
        match &self.local {
            Some(local) => local.segments.prepare(self.pipeline.clock.now_unix_ms()),
            None => Ok(()),
        }
    }

    /// The engine holds everything up to `lsn` durably: frees segments outside of the window.
    /// Returns the bytes freed. Another log than the local one keeps what it keeps.
    pub fn checkpointed(&self, lsn: u64) -> Result<u64> {
        let Some(local) = &self.local else {
            return Ok(0);
        };
        let lsn = lsn.min(self.last_lsn());
        let durable_lsn = local.syncer.durable_lsn();
        let now_unix_ms = self.pipeline.clock.now_unix_ms();
        local.segments.free_through(lsn, durable_lsn, now_unix_ms)
    }

    /// Keeps what comes after `lsn`, which the engine holds durably, until the pin is dropped: whatever the engine makes durable
    /// meanwhile.
    pub fn pin(&self, lsn: u64) -> Pin {
        let segments = self.local.as_ref().map(|local| &local.segments);
        Pin::new(segments.map(Arc::clone), lsn)
    }

    /// Makes what is accepted durable, and writes all of it that is pinned into `target`, whose files are those of a journal
    /// then, for an engine that holds what was applied when the pin was made. Returns the last LSN.
    pub fn copy_pinned(&self, pin: &Pin, target: &dyn Files) -> Result<u64> {
        let durable_lsn = self.sync()?;
        pin.copy(durable_lsn, target)?;
        Ok(durable_lsn)
    }

    /// Looks at what the archive has already, so that segments that it has do not wait for it. Called when the archive was opened.
    pub fn begin_archive(&self, archive: &Archive) {
        if let Some(local) = &self.local {
            let whole = archive.whole_through(&local.segments.live());
            local.segments.note_archived(whole);
        }
    }

    /// Brings the archive up to what is durable. With `syncs` everything accepted is made durable first, and the archive says
    /// up to which moment it has everything. Writers wait for nothing of it. One archive at a time is kept.
    pub fn archive(&self, archive: &mut Archive, syncs: bool) -> Result<Archived> {
        self.archive_unless(archive, syncs, &|| false)
    }

    /// Like `archive`, but ends with `Interrupted` soon after `is_over` says so. The next call goes on from there.
    pub fn archive_unless(
        &self,
        archive: &mut Archive,
        syncs: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Archived> {
        let Some(local) = &self.local else {
            return Err(not_in_files("archive"));
        };
        let settled = self.settled();
        let durable_lsn = match syncs {
            true => self.sync()?,
            false => self.durable_lsn(),
        };
        let round = Round {
            durable_lsn,
            settled,
            says_so: syncs,
            is_over,
        };
        let archived = archive.catch_up(&local.segments, &round);
        let whole = match &archived {
            Ok(archived) => archived.sequence,
            // What came into the archive before the failure is there.
            Err(_) => archive.whole_through(&local.segments.live()),
        };
        local.segments.note_archived(whole);
        archived
    }

    /// A place behind which every record has a later time than everything before it: the clock's second is over for those that
    /// come.
    fn settled(&self) -> Settled {
        let unix_ms = self.pipeline.clock.now_unix_ms();
        let second = (unix_ms / 1000).min(u64::from(u32::MAX)) << 32;
        self.pipeline.advance_cluster_time(second);
        // A group that got its time before that is accepted when its turn is over.
        self.pipeline.wait_out_turn();
        // Asked for before the last record: one that comes in between has a later time than what the archive claims to have.
        let cluster_time = second.max(self.cluster_time());
        Settled {
            lsn: self.accepted_lsn(),
            cluster_time,
            unix_ms,
        }
    }

    /// The segments that wait for the archive; `None` where none is kept.
    pub fn waiting_for_archive(&self) -> Option<WaitingForArchive> {
        self.local.as_ref()?.segments.waiting_for_archive()
    }

    /// The database and the engine that the journal belongs to; `None` where the log is not in files of the journal.
    pub fn identity(&self) -> Option<&Identity> {
        Some(self.local.as_ref()?.segments.identity())
    }

    /// Returns when no group is on its way that was begun before the call. For an owner that has its hooks refuse every group.
    pub fn wait_out_turn(&self) {
        self.pipeline.wait_out_turn();
    }

    /// Makes no segment and writes no index from now on, so that files stand still while nobody commits; the owner frees none.
    pub fn hold_files_still(&self) {
        if let Some(local) = &self.local {
            local.segments.hold_still();
        }
    }

    /// Ends `hold_files_still`.
    pub fn let_files_move(&self) {
        if let Some(local) = &self.local {
            local.segments.let_move();
            self.pipeline.wakeups.request_space();
        }
    }

    /// Why the next segment could not be made ahead of need, if that has failed and not succeeded since, or that too much waits
    /// for the archive. No write is refused for it before it needs that segment.
    pub fn trouble(&self) -> Option<String> {
        let segments = &self.local.as_ref()?.segments;
        let overruns = || {
            segments.overruns_hold().then(|| {
                "more waits for the archive than is held for it: the oldest segments are freed without, and the archive has a gap"
                    .to_owned()
            })
        };
        segments.unprepared().or_else(overruns)
    }

    /// Frees segments that were kept for the window alone and are outside of it by now: nothing needs to be written for it.
    /// Returns the bytes freed. Costs one short lock where there is nothing to free.
    pub fn free_outlived(&self, checkpointed_lsn: u64) -> Result<u64> {
        let Some(local) = &self.local else {
            return Ok(0);
        };
        let durable_lsn = local.syncer.durable_lsn();
        let now_unix_ms = self.pipeline.clock.now_unix_ms();
        match local.segments.has_outlived(durable_lsn, now_unix_ms) {
            true => self.checkpointed(checkpointed_lsn),
            false => Ok(0),
        }
    }

    /// Frees the oldest segment that is kept for the window alone, because something else needs its space more. Returns the
    /// bytes freed; 0 where there is none.
    pub fn free_oldest_of_window(&self) -> Result<u64> {
        let Some(local) = &self.local else {
            return Ok(0);
        };
        local.segments.free_oldest(local.syncer.durable_lsn())
    }

    /// How much is kept that no checkpoint needs, and how much may be.
    pub fn window(&self) -> Window {
        let options = &self.pipeline.options;
        let segments = self.local.as_ref().map(|local| &local.segments);
        Window {
            ms_max: options.retain_ms,
            bytes_max: options.retain_bytes_max,
            bytes: segments.map_or(0, |segments| segments.window_bytes()),
        }
    }

    /// Bytes of the files that hold what comes after `lsn`: what a start on an engine that is durable up to there reads. 0 if
    /// the log is not in files of this journal.
    pub fn bytes_needed_after(&self, lsn: u64) -> u64 {
        self.local
            .as_ref()
            .map_or(0, |local| local.segments.bytes_needed_after(lsn))
    }

    /// Bytes of the files that hold the log; 0 if it is not in files of this journal.
    pub fn live_bytes(&self) -> u64 {
        self.local
            .as_ref()
            .map_or(0, |local| local.segments.live_bytes())
    }

    /// The number and the cost of the syncs since the journal was opened.
    pub fn sync_counters(&self) -> SyncCounters {
        self.local
            .as_ref()
            .map_or_else(SyncCounters::default, |local| local.syncer.counters())
    }

    /// Whether writes are refused until a restart: the disk failed, or a group could not be applied.
    pub fn is_latched(&self) -> bool {
        self.pipeline.latch.is_thrown()
    }

    /// Gives up the segment that is being made ahead of need, and has no other made: the journal is about to be closed. Whoever
    /// frees segments until then would wait for one that nobody will need, for as long as a slow disk takes for all its zeros.
    pub fn stop_preparing(&self) {
        if let Some(local) = &self.local {
            local.segments.stop_preparing();
        }
    }

    /// Accepts what is queued, syncs it, leaves a durable mark behind, and ends the threads.
    pub fn close(&self) -> Result<()> {
        self.backlog.flush();
        self.pipeline.close();
        // What came in between is refused, so that it has an answer.
        self.backlog.flush();
        self.pipeline.wakeups.close();
        self.stop_preparing();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // The threads catch their own failures; a panic there was printed.
            let _ = thread.join();
        }
        if self.pipeline.latch.is_thrown() {
            return self.pipeline.latch.check();
        }
        self.sync()?;
        match &self.local {
            Some(local) => {
                local.segments.write_indexes(u64::MAX, true);
                local.mark(self.pipeline.clock.now_unix_ms())
            }
            None => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.pipeline.wakeups.is_closing() {
            // Whoever wants to see the error closes first.
            let _ = self.close();
        }
    }
}

fn not_in_files(action: &'static str) -> Error {
    let reason = std::io::Error::other("the log is not in files");
    Error::io(action, "journal", &reason)
}

fn spawn_threads(
    pipeline: &Arc<Pipeline>,
    backlog: &Arc<Backlog>,
    local: Option<&Arc<LocalLog>>,
) -> Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &'static str, run: Box<dyn FnOnce() + Send>| {
        let latch = Arc::clone(&pipeline.latch);
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder
            .spawn(move || run_or_latch(name, &latch, run))
            .map_err(|e| Error::io("start thread", name, &e))
    };
    let (shared, gathering) = (Arc::clone(pipeline), Arc::clone(backlog));
    let run = move || run_sync(&shared, &gathering);
    let mut threads = vec![spawn("journal-sync", Box::new(run))?];
    if let Some(local) = local {
        let (shared, local) = (Arc::clone(pipeline), Arc::clone(local));
        let run = move || run_space(&shared, &local);
        threads.push(spawn("journal-space", Box::new(run))?);
    }
    Ok(threads)
}

/// A journal without one of its threads would break its promises unseen: nothing would be synced at intervals, or no
/// segment made. So a panic there latches it: writes are refused, with the reason, until a restart.
fn run_or_latch(name: &str, latch: &Latch, run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        latch.throw(&format!("the thread `{name}` panicked"));
    }
}

fn run_sync(pipeline: &Pipeline, backlog: &Backlog) {
    let interval_ms = pipeline.options.commit_interval_ms;
    let interval = (interval_ms > 0).then(|| Duration::from_millis(interval_ms));
    while pipeline.wakeups.wait_sync(interval) {
        pipeline.clock.adjust(SystemTime::now());
        backlog.flush_if_idle();
        // A failure latches; every writer is told, so there is nothing to do with it here.
        let _ = pipeline.wait_durable(pipeline.accepted_lsn());
    }
}

fn run_space(pipeline: &Pipeline, local: &LocalLog) {
    let mut interval = None;
    while pipeline.wakeups.wait_space(interval) {
        // The segment before the current one is full by now.
        (local.segments).write_indexes(local.syncer.durable_lsn(), false);
        // A segment that cannot be made ahead of need holds no record, so nothing is refused for it. On a full disk the next
        // leader makes it, should there be space by then: filling it up again and again would help nobody.
        interval = match local.segments.prepare(pipeline.clock.now_unix_ms()) {
            Ok(()) | Err(Error::Closed | Error::NoSpace { .. }) => None,
            Err(_) => Some(PREPARE_AGAIN),
        };
    }
}

/// Replays while another thread makes room for the first segment, which has zeros to write and to sync.
fn replay_beside(
    recovered: &Recovered,
    files: &dyn Files,
    hooks: &dyn Hooks,
    segments: &Segments,
) -> Result<(u64, Option<Room>)> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("journal-begin".to_owned());
        let room = thread.spawn_scoped(scope, || segments.make_room_to_begin());
        let replayed = recovered.replay(files, hooks);
        let room = match room {
            Ok(room) => room.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // Without a thread `begin` makes it.
            Err(_) => Ok(None),
        };
        Ok((replayed?, room?))
    })
}

/// Tells two lives apart even if both were given the same number.
pub(crate) fn salt() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(unix_ms()) as u32
}

fn unix_ms() -> u64 {
    let unix = SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    unix.unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::files::simulated::{Crash, SimulatedFiles};
    use crate::hooks::tests::NoOwner;

    fn open(files: &SimulatedFiles) -> Journal {
        let options = Options {
            segment_bytes: 16 * 1024,
            group_bytes_max: 4096,
            background: false,
            ..Options::default()
        };
        let identity = Identity {
            database: [1; 16],
            engine: "memory".to_owned(),
        };
        Journal::open(
            Arc::new(files.clone()),
            options,
            identity,
            0,
            Arc::new(NoOwner),
        )
        .unwrap()
    }

    /// The next start reads all that was committed while the clock was wrong, and since.
    #[test]
    fn a_clock_far_in_the_future_destroys_nothing() {
        let mut files = SimulatedFiles::new();
        let mut written = 0;
        for year in [2200, 2023, 2500] {
            let journal = open(&files);
            assert_eq!(journal.last_lsn(), written);
            let years = Duration::from_secs((year - 1970) * 365 * 86_400);
            journal.pipeline.clock.adjust(UNIX_EPOCH + years);
            for _ in 0..3 {
                journal.commit(b"record", Level::Durable).unwrap();
            }
            written += 3;
            files = files.crash(Crash::Kill, year);
        }
        assert_eq!(open(&files).last_lsn(), written);
    }

    /// Clients bring back what they were told.
    #[test]
    fn a_time_that_was_told_is_never_too_far_ahead() {
        let journal = open(&SimulatedFiles::new());
        // As far ahead as where the clock was set back by a lifetime since.
        let ahead_secs = 130 * 365 * 86_400;
        journal.pipeline.advance_cluster_time(ahead_secs << 32);
        journal.commit(b"record", Level::Durable).unwrap();
        let told = journal.cluster_time();
        assert!(told >> 32 >= ahead_secs);
        assert!(!journal.advance_cluster_time(told + (1 << 32)));
        assert!(journal.advance_cluster_time(told));
        let taken_over = told + (5 << 32);
        journal.pipeline.advance_cluster_time(taken_over);
        assert!(journal.advance_cluster_time(taken_over));
        assert!(!journal.advance_cluster_time(taken_over + 1));
    }

    #[test]
    fn times_are_taken_over_within_the_bound_alone() {
        let journal = open(&SimulatedFiles::new());
        let now_secs = journal.pipeline.clock.now_unix_ms() / 1000;
        let within = (now_secs + CLUSTER_TIME_AHEAD_MAX_SECS) << 32;
        // Room for a test that is held up for a minute.
        let beyond = (now_secs + CLUSTER_TIME_AHEAD_MAX_SECS + 60) << 32;
        assert!(!journal.advance_cluster_time(beyond));
        assert!(journal.advance_cluster_time(within));
        journal.commit(b"record", Level::Durable).unwrap();
        assert!(journal.cluster_time() > within && journal.cluster_time() < beyond);
    }

    #[test]
    fn a_thread_that_panics_latches_the_journal() {
        let latch = Latch::default();
        run_or_latch("journal-sync", &latch, || {});
        assert!(!latch.is_thrown());
        run_or_latch("journal-sync", &latch, || panic!("printed by this test"));
        assert_eq!(
            latch.cause().as_deref(),
            Some("the thread `journal-sync` panicked")
        );
    }
}
