//! The segment files of an open journal: how one is made, reused and freed, and which hold which LSNs.
//!
//! Kept true: a file gets a segment's name only after its header and zeros are synced, and the directory
//! is synced before the first group goes in, so that appending never depends on a directory entry; freed
//! files leave oldest first, one directory sync each, and the next one only once that has succeeded, so that a gap in the
//! sequence is always damage. What fails here has touched no record: it is answered, and tried again.

mod making;

use making::Haste;
pub(crate) use making::Room;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::files::{Files, sync_file};
use crate::options::{Identity, Options};
use crate::segment::{IncarnationStart, OpenSegment, SEGMENT_SUFFIX, Segment};
use crate::segment_header::SEGMENT_HEADER_BYTES;

/// A freed segment kept for reuse; its content means nothing.
const FREE_SUFFIX: &str = ".free";
/// A segment under construction.
const NEW_SUFFIX: &str = ".new";

/// The first segment of a life is no longer than this unless a spare is ready: an open must not wait for
/// a whole segment of zeros.
const BEGIN_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The full segments that a journal keeps until its archive has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingForArchive {
    /// Their bytes.
    pub bytes: u64,
    /// Beyond this the oldest ones are freed without.
    pub bytes_max: u64,
    /// The number of segments that were freed so, since the journal was opened.
    pub given_up: u64,
    /// Their bytes.
    pub given_up_bytes: u64,
}

/// All segments of an open journal. Lock order: `making`, then `table` or `unprepared`.
pub(crate) struct Segments {
    files: Arc<dyn Files>,
    identity: Identity,
    options: Options,
    incarnation: u64,
    /// Held while a segment is made, so that sequence numbers are given in order of use.
    making: Mutex<()>,
    /// A leader waits for the segment being made, or soon will: what has no zeros yet is only reserved.
    urgent: AtomicBool,
    /// Files stand still: none is made ahead of need, and no index is written. Changed with `making` held.
    is_still: AtomicBool,
    /// The journal closes or soon will: a segment being made ahead of need is given up, and no other is begun.
    closing: AtomicBool,
    /// Why no segment could be made ahead of need, when that was tried last.
    unprepared: Mutex<Option<String>>,
    table: Mutex<Table>,
}

struct Table {
    live: Vec<Arc<Segment>>,
    /// The segment that was the oldest one and is being freed. No reader begins there. If its file stays, so does it.
    leaving: Option<Arc<Segment>>,
    /// Open, so that going on in it needs no descriptor. Its file has the segment's name, durably.
    prepared: Option<OpenSegment>,
    /// A prepared segment that was too short and is being freed. Its name may be gone already, so nothing is written into
    /// it any more, and no segment is made before it is freed: its sequence is given to the next one.
    given_up: Option<Arc<Segment>>,
    /// Each name once.
    spare: Vec<String>,
    next_sequence: u64,
    checkpointed_lsn: u64,
    /// Segments that end at one of these LSNs or behind it stay, once for each copy that is being made.
    pinned: Vec<u64>,
    /// The segments that stay for an archive, where one is kept.
    hold: Option<ArchiveHold>,
}

/// The segments that wait for the archive.
#[derive(Clone, Copy, Default)]
struct ArchiveHold {
    /// Segments up to this sequence are in the archive; none until it has been looked into. All of them wait until then.
    sequence: Option<u64>,
    /// As long as those that wait take no more than this, they stay.
    bytes_max: u64,
    /// Segments that were freed without, and their bytes.
    given_up: u64,
    given_up_bytes: u64,
}

impl Table {
    /// Whether the oldest segment holds nothing above `lsn` and nothing that is pinned or waits for the archive, and a start
    /// without it knows where the journal goes on, of which all up to `durable_lsn` is durable.
    fn holds_unneeded(&self, lsn: u64, durable_lsn: u64) -> bool {
        self.holds_unneeded_but_for_archive(lsn, durable_lsn)
            && !self.waits_for_archive(&self.live[0])
    }

    /// Like `holds_unneeded`, for whoever takes space from the archive's hold.
    fn holds_unneeded_but_for_archive(&self, lsn: u64, durable_lsn: u64) -> bool {
        let [oldest, next, ..] = &self.live[..] else {
            return false;
        };
        let before_pins = self.pinned.iter().map(|pinned| pinned.saturating_sub(1));
        let lsn = before_pins.fold(lsn, u64::min);
        // Segments without groups end where the next one begins.
        oldest.last_lsn.load(Ordering::Acquire) <= lsn && says_where_it_begins(next, durable_lsn)
    }

    /// Whether the segment stays because the archive does not have it yet.
    fn waits_for_archive(&self, segment: &Segment) -> bool {
        self.hold.is_some_and(|hold| {
            let is_missing = segment.header.sequence > hold.sequence.unwrap_or(0);
            is_missing && self.waiting_bytes() <= hold.bytes_max
        })
    }

    /// Bytes of the full segments that the archive does not have, as far as is known.
    fn waiting_bytes(&self) -> u64 {
        let Some(hold) = self.hold else {
            return 0;
        };
        let sequence = hold.sequence.unwrap_or(0);
        let full = self.live.len().saturating_sub(1);
        let waiting = self.live[..full].iter();
        let waiting = waiting.filter(|segment| segment.header.sequence > sequence);
        waiting.map(|segment| segment.bytes).sum()
    }

    /// Notes that the segment is freed, which the archive may miss.
    fn note_freed(&mut self, segment: &Segment) {
        if let Some(hold) = &mut self.hold
            && hold
                .sequence
                .is_none_or(|sequence| segment.header.sequence > sequence)
        {
            hold.given_up += 1;
            hold.given_up_bytes += segment.bytes;
        }
    }
}

/// Whether a start that finds this segment first knows the place in the history that the journal has come to, whatever a power
/// loss has taken. A segment that continues an incarnation says so by its first group: there is none where its first write met
/// a full disk, and one that is not durable may be gone while the first one of the segment behind it is there.
fn says_where_it_begins(segment: &Segment, durable_lsn: u64) -> bool {
    let first_lsn = segment.first_lsn.load(Ordering::Acquire);
    segment.header.begins_incarnation() || first_lsn != 0 && first_lsn <= durable_lsn
}

impl Segments {
    pub fn new(
        files: Arc<dyn Files>,
        identity: Identity,
        options: Options,
        incarnation: u64,
        live: Vec<Arc<Segment>>,
        next_sequence: u64,
    ) -> Result<Self> {
        let spare = collect_spares(&*files, &options)?;
        let table = Table {
            live,
            leaving: None,
            prepared: None,
            given_up: None,
            spare,
            next_sequence,
            checkpointed_lsn: 0,
            pinned: Vec::new(),
            hold: options.archive_hold_bytes.map(|bytes_max| ArchiveHold {
                bytes_max,
                ..ArchiveHold::default()
            }),
        };
        Ok(Segments {
            files,
            identity,
            options,
            incarnation,
            making: Mutex::new(()),
            urgent: AtomicBool::new(false),
            is_still: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            unprepared: Mutex::new(None),
            table: Mutex::new(table),
        })
    }

    /// Room for the first segment of this incarnation, on the disk: what takes time of `begin`, and needs not know yet where
    /// the incarnation begins. None where a spare gives the room.
    pub fn make_room_to_begin(&self) -> Result<Option<Room>> {
        let _making = self.making.lock();
        if !self.table.lock().spare.is_empty() {
            return Ok(None);
        }
        let sequence = self.table.lock().next_sequence;
        let bytes = self.options.segment_bytes.min(BEGIN_BYTES_MAX);
        let room = self.make_room(sequence, bytes, Haste::Start)?;
        sync_file(&*room.file).map_err(|e| Error::io("sync", &room.name, &e))?;
        Ok(Some(room))
    }

    /// The first segment of this incarnation, synced, ready for the first group.
    pub fn begin(
        &self,
        start: IncarnationStart,
        room: Option<Room>,
        unix_ms: u64,
    ) -> Result<OpenSegment> {
        let _making = self.making.lock();
        let is_short = room.is_some() || self.table.lock().spare.is_empty();
        let bytes = match is_short {
            true => self.options.segment_bytes.min(BEGIN_BYTES_MAX),
            false => self.options.segment_bytes,
        };
        let segment = self.make(start, room, bytes, unix_ms, Haste::Start)?;
        self.table.lock().live.push(Arc::clone(&segment.segment));
        Ok(segment)
    }

    /// The segment after the current one, with room for a group of `group_bytes`.
    pub fn advance(&self, group_bytes: u64, unix_ms: u64) -> Result<OpenSegment> {
        self.urgent.store(true, Ordering::Relaxed);
        let result = self.advance_made(group_bytes, unix_ms);
        self.urgent.store(false, Ordering::Relaxed);
        result
    }

    fn advance_made(&self, group_bytes: u64, unix_ms: u64) -> Result<OpenSegment> {
        let _making = self.making.lock();
        let needed = SEGMENT_HEADER_BYTES as u64 + group_bytes;
        let segment = match self.take_prepared(needed) {
            Some(segment) => segment,
            None => {
                self.free_given_up()?;
                let bytes = self.options.segment_bytes.max(needed);
                self.make(
                    IncarnationStart::default(),
                    None,
                    bytes,
                    unix_ms,
                    Haste::Late,
                )?
            }
        };
        self.table.lock().live.push(Arc::clone(&segment.segment));
        Ok(segment)
    }

    /// The current segment is half full: if the next one is being made just now, that takes no time any more.
    pub fn hurry(&self) {
        if self.making.is_locked() {
            self.urgent.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the next segment ahead of need. Called by the space thread.
    pub fn prepare(&self, unix_ms: u64) -> Result<()> {
        let prepared = self.prepare_made(unix_ms);
        *self.unprepared.lock() = match &prepared {
            Ok(()) | Err(Error::Closed) => None,
            Err(error) => Some(error.to_string()),
        };
        prepared
    }

    /// Writes the indexes of the segments that are full and durable and have none; with `all`, because the journal is durable
    /// and closes, that of the last one too. Holds `making`, so that no segment is freed meanwhile and gets the index of
    /// another.
    pub fn write_indexes(&self, durable_lsn: u64, all: bool) {
        let _making = self.making.lock();
        if self.is_still.load(Ordering::Relaxed) {
            return;
        }
        let wanting: Vec<Arc<Segment>> = {
            let table = self.table.lock();
            let ended = table.live.len() - usize::from(!all && !table.live.is_empty());
            let segments = table.live[..ended].iter();
            let wanting = segments.filter(|segment| {
                segment.last_lsn.load(Ordering::Acquire) <= durable_lsn && segment.wants_index()
            });
            wanting.map(Arc::clone).collect()
        };
        for segment in wanting {
            // One that cannot be opened goes without: whoever looks into it reads more.
            if let Ok(open) = OpenSegment::open(&segment, &*self.files) {
                open.write_index();
            }
        }
    }

    /// Why no segment could be made ahead of need, if that has failed and not succeeded since.
    pub fn unprepared(&self) -> Option<String> {
        self.unprepared.lock().clone()
    }

    fn prepare_made(&self, unix_ms: u64) -> Result<()> {
        let _making = self.making.lock();
        // Whoever hurried before was in a hurry for another segment, or met somebody who freed one.
        self.urgent.store(false, Ordering::Relaxed);
        let is_over = self.is_still.load(Ordering::Relaxed) || self.closing.load(Ordering::Relaxed);
        if is_over || self.table.lock().prepared.is_some() {
            return Ok(());
        }
        self.free_given_up()?;
        let segment = self.make(
            IncarnationStart::default(),
            None,
            self.options.segment_bytes,
            unix_ms,
            Haste::Ahead,
        )?;
        self.table.lock().prepared = Some(segment);
        Ok(())
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Has files stand still. Returns when no segment is being made.
    pub fn hold_still(&self) {
        let _making = self.making.lock();
        self.is_still.store(true, Ordering::Relaxed);
    }

    /// Lets files change again.
    pub fn let_move(&self) {
        let _making = self.making.lock();
        self.is_still.store(false, Ordering::Relaxed);
    }

    /// Ends `prepare`, with what it has made so far given up, and has every later one do nothing.
    pub fn stop_preparing(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// The segment made ahead of need, if it is as long as needed. One that is shorter is given up.
    fn take_prepared(&self, needed: u64) -> Option<OpenSegment> {
        let mut table = self.table.lock();
        let prepared = table.prepared.take()?;
        if prepared.bytes >= needed {
            return Some(prepared);
        }
        table.given_up = Some(prepared.segment);
        None
    }

    /// Frees the segment that was given up, if there is one. Called before a segment is made, with `making` held; if it
    /// fails, the next call tries again.
    fn free_given_up(&self) -> Result<()> {
        let Some(segment) = self.table.lock().given_up.clone() else {
            return Ok(());
        };
        self.free_file(&segment.name, segment.bytes, false)?;
        let mut table = self.table.lock();
        table.given_up = None;
        table.next_sequence = segment.header.sequence;
        Ok(())
    }

    /// Frees segments that hold nothing above `lsn` and lie outside the retention window, where all up to `durable_lsn` is
    /// durable. Returns the bytes freed.
    pub fn free_through(&self, lsn: u64, durable_lsn: u64, now_unix_ms: u64) -> Result<u64> {
        let _making = self.making.lock();
        self.table.lock().checkpointed_lsn = lsn;
        let mut freed = 0;
        while let Some(segment) = self.next_to_free(lsn, durable_lsn, now_unix_ms) {
            freed += self.free_leaving(&segment)?;
        }
        Ok(freed)
    }

    /// Keeps segments that end at `lsn` or behind it, until `unpin`.
    pub fn pin(&self, lsn: u64) {
        self.table.lock().pinned.push(lsn);
    }

    /// Gives up one pin at `lsn`.
    pub fn unpin(&self, lsn: u64) {
        let mut table = self.table.lock();
        let position = table.pinned.iter().position(|&pinned| pinned == lsn);
        table
            .pinned
            .swap_remove(position.expect("it was pinned before"));
    }

    /// The live segments, oldest first.
    pub fn live(&self) -> Vec<Arc<Segment>> {
        self.table.lock().live.clone()
    }

    /// The archive has every segment up to this sequence.
    pub fn note_archived(&self, sequence: u64) {
        if let Some(hold) = &mut self.table.lock().hold {
            hold.sequence = Some(sequence);
        }
    }

    /// The segments that wait for the archive, where one is kept.
    pub fn waiting_for_archive(&self) -> Option<WaitingForArchive> {
        let table = self.table.lock();
        table.hold.map(|hold| WaitingForArchive {
            bytes: table.waiting_bytes(),
            bytes_max: hold.bytes_max,
            given_up: hold.given_up,
            given_up_bytes: hold.given_up_bytes,
        })
    }

    /// Whether the archive, which has been looked into, lacks more than is held for it.
    pub fn overruns_hold(&self) -> bool {
        let table = self.table.lock();
        let is_known = |hold: &ArchiveHold| hold.sequence.is_some();
        let hold = table.hold.filter(is_known);
        hold.is_some_and(|hold| table.waiting_bytes() > hold.bytes_max)
    }

    /// The segment that could not be freed before, or the oldest one if it is not needed any more.
    fn next_to_free(&self, lsn: u64, durable_lsn: u64, now_unix_ms: u64) -> Option<Arc<Segment>> {
        let mut table = self.table.lock();
        if table.leaving.is_none() && table.holds_unneeded(lsn, durable_lsn) {
            let oldest = self.take_freeable(&mut table, now_unix_ms);
            table.leaving = oldest;
        }
        table.leaving.clone()
    }

    /// Takes the oldest segment, which nothing needs, unless it is kept.
    fn take_freeable(&self, table: &mut Table, now_unix_ms: u64) -> Option<Arc<Segment>> {
        if self.is_in_window(table, now_unix_ms) {
            return None;
        }
        let oldest = table.live.remove(0);
        table.note_freed(&oldest);
        Some(oldest)
    }

    /// Whether the oldest segment is kept though nothing needs it: it is young, and there is room for it.
    fn is_in_window(&self, table: &Table, now_unix_ms: u64) -> bool {
        let Some(oldest) = table.live.first() else {
            return false;
        };
        let age_ms = now_unix_ms.saturating_sub(oldest.last_unix_ms.load(Ordering::Relaxed));
        let is_young = age_ms < self.options.retain_ms;
        let live_bytes = || table.live.iter().map(|segment| segment.bytes).sum::<u64>();
        is_young && live_bytes() <= self.options.retain_bytes_max
    }

    /// Frees the oldest segment that is kept for the window or for the archive alone. Returns the bytes freed.
    pub fn free_oldest(&self, durable_lsn: u64) -> Result<u64> {
        let _making = self.making.lock();
        let oldest = {
            let mut table = self.table.lock();
            let lsn = table.checkpointed_lsn;
            let is_unneeded = table.holds_unneeded_but_for_archive(lsn, durable_lsn);
            if table.leaving.is_none() && is_unneeded {
                let oldest = table.live.remove(0);
                table.note_freed(&oldest);
                table.leaving = Some(oldest);
            }
            table.leaving.clone()
        };
        oldest.map_or(Ok(0), |segment| self.free_leaving(&segment))
    }

    /// Frees the segment that `leaving` names, with `making` held.
    fn free_leaving(&self, segment: &Arc<Segment>) -> Result<u64> {
        // Besides the table's and the caller's there is a reader's: the file must be unlinked, not overwritten under it.
        let is_read = Arc::strong_count(segment) > 2;
        self.free_file(&segment.name, segment.bytes, is_read)?;
        self.table.lock().leaving = None;
        Ok(segment.bytes)
    }

    /// Keeps the file for reuse if there is use for it, else removes it. May be called again after it has failed: the name
    /// may be gone by then, and the directory has yet to be synced.
    fn free_file(&self, name: &str, bytes: u64, is_read: bool) -> Result<()> {
        let free_name = name.replace(SEGMENT_SUFFIX, FREE_SUFFIX);
        let keep = !is_read && bytes == self.options.segment_bytes && self.keeps(&free_name);
        let freed = match keep {
            true => self.files.rename(name, &free_name),
            false => self.files.remove(name),
        };
        if let Err(error) = freed
            && error.kind() != io::ErrorKind::NotFound
        {
            let action = if keep { "rename" } else { "remove" };
            return Err(Error::io(action, name, &error));
        }
        self.files
            .sync_directory()
            .map_err(|e| Error::io("sync directory of", name, &e))?;
        self.table.lock().spare.extend(keep.then_some(free_name));
        Ok(())
    }

    /// Whether one more spare is kept under this name. Where there is one already, a segment made ahead of need was given up
    /// and its sequence used again: a rename would replace that spare and list the file twice.
    fn keeps(&self, free_name: &str) -> bool {
        let spare = &self.table.lock().spare;
        spare.len() < self.options.spare_segments_max && spare.iter().all(|name| name != free_name)
    }

    /// Opens a segment for a reader. It may have been freed since the reader found it.
    pub fn open(&self, segment: &Arc<Segment>) -> Result<OpenSegment> {
        match self.files.open(&segment.name) {
            Ok(file) => Ok(OpenSegment {
                segment: Arc::clone(segment),
                file,
                seal: self.files.seal(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::HistoryMissing {
                needed_lsn: segment.first_lsn.load(Ordering::Acquire),
                first_lsn: self.first_lsn(),
            }),
            Err(error) => Err(Error::io("open", &segment.name, &error)),
        }
    }

    /// The live segments that may hold `lsn` or later ones, oldest first.
    pub fn holding(&self, lsn: u64) -> Vec<Arc<Segment>> {
        let table = self.table.lock();
        let begins_after = |segment: &Arc<Segment>| {
            let first_lsn = segment.first_lsn.load(Ordering::Acquire);
            first_lsn == 0 || first_lsn > lsn
        };
        let start = table
            .live
            .iter()
            .rposition(|segment| !begins_after(segment))
            .unwrap_or(0);
        table.live[start..].to_vec()
    }

    /// The live segments that may hold a record with that cluster time or a later one, oldest first. Fails where records as
    /// late as that may have been freed, or have no cluster time because an earlier version wrote them.
    pub fn since(&self, cluster_time: u64) -> Result<Vec<Arc<Segment>>> {
        let table = self.table.lock();
        let begins_before = |segment: &Arc<Segment>| {
            let first = segment.first_cluster_time.load(Ordering::Relaxed);
            first != 0 && first <= cluster_time
        };
        let start = table.live.iter().rposition(begins_before);
        let first_lsn = table.live.first().map(|segment| {
            let begins = segment.first_lsn.load(Ordering::Acquire);
            begins.max(segment.header.first_lsn)
        });
        match (start, first_lsn) {
            (Some(start), _) => Ok(table.live[start..].to_vec()),
            (None, None | Some(1)) => Ok(table.live.clone()),
            (None, Some(first_lsn)) => Err(Error::HistoryMissing {
                needed_lsn: first_lsn.saturating_sub(1),
                first_lsn,
            }),
        }
    }

    /// The segment that follows `sequence` in the journal, if it is in use.
    pub fn after(&self, sequence: u64) -> Option<Arc<Segment>> {
        let table = self.table.lock();
        table
            .live
            .iter()
            .find(|segment| segment.header.sequence > sequence)
            .map(Arc::clone)
    }

    /// The first LSN that the journal still holds; 0 if it holds none.
    pub fn first_lsn(&self) -> u64 {
        let table = self.table.lock();
        let mut lsns = table
            .live
            .iter()
            .map(|segment| segment.first_lsn.load(Ordering::Acquire));
        // Oldest first: the first one that holds something holds the lowest.
        lsns.find(|&lsn| lsn != 0).unwrap_or(0)
    }

    /// Bytes of the live segments that hold something above `lsn`, the one that is written into included. The window
    /// that is kept for its own sake does not count.
    pub fn bytes_needed_after(&self, lsn: u64) -> u64 {
        let table = self.table.lock();
        let written = table.live.len().saturating_sub(1);
        let is_needed = |(index, segment): &(usize, &Arc<Segment>)| {
            *index >= written || segment.last_lsn.load(Ordering::Acquire) > lsn
        };
        let needed = table.live.iter().enumerate().filter(is_needed);
        needed.map(|(_, segment)| segment.bytes).sum()
    }

    /// Whether the oldest segment was kept for the window alone, and is outside of it by now.
    pub fn has_outlived(&self, durable_lsn: u64, now_unix_ms: u64) -> bool {
        let table = self.table.lock();
        let is_unneeded = table.holds_unneeded(table.checkpointed_lsn, durable_lsn);
        is_unneeded && !self.is_in_window(&table, now_unix_ms)
    }

    /// Bytes of the live segments that nothing needs: they are kept for the window alone.
    pub fn window_bytes(&self) -> u64 {
        let table = self.table.lock();
        let needed_from = table.live.len().saturating_sub(1);
        let segments = table.live[..needed_from].iter();
        let lsn = table.checkpointed_lsn;
        let unneeded =
            segments.take_while(|segment| segment.last_lsn.load(Ordering::Acquire) <= lsn);
        unneeded.map(|segment| segment.bytes).sum()
    }

    /// Bytes of the live segments.
    pub fn live_bytes(&self) -> u64 {
        let table = self.table.lock();
        let segments = table.live.iter().chain(&table.leaving);
        segments.map(|segment| segment.bytes).sum()
    }
}

/// Freed files of the right length are kept; what is left of unfinished ones goes.
fn collect_spares(files: &dyn Files, options: &Options) -> Result<Vec<String>> {
    let mut spares = Vec::new();
    for entry in files.list().map_err(|e| Error::io("list", "journal", &e))? {
        let is_free = entry.name.ends_with(FREE_SUFFIX);
        if !is_free && !entry.name.ends_with(NEW_SUFFIX) {
            continue;
        }
        if is_free
            && entry.bytes == options.segment_bytes
            && spares.len() < options.spare_segments_max
        {
            spares.push(entry.name);
        } else {
            files
                .remove(&entry.name)
                .map_err(|e| Error::io("remove", &entry.name, &e))?;
        }
    }
    // A spare is overwritten later: its old name must be gone for good before.
    files
        .sync_directory()
        .map_err(|e| Error::io("sync directory of", "journal", &e))?;
    Ok(spares)
}

/// Takes a segment out of the journal at open: what it held is not part of the log.
pub(crate) fn discard(files: &dyn Files, name: &str) -> Result<()> {
    let free_name = name.replace(SEGMENT_SUFFIX, FREE_SUFFIX);
    files
        .rename(name, &free_name)
        .map_err(|e| Error::io("rename", name, &e))?;
    files
        .sync_directory()
        .map_err(|e| Error::io("sync directory of", name, &e))
}
