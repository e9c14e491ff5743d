//! Finished operations on their way into the histograms.
//!
//! An operation that ends writes a few words into the buffer of the core it runs on, under a lock that no other core
//! takes while it works. [`collect`] adds up what the buffers hold; a background thread calls it ten times a second, and
//! a core whose buffer is full hands it over. Sums go into the tables when somebody reads them and when a picture is
//! due. So the histograms exist once, however many cores and connections there are, and no operation pays for filling
//! them.
//!
//! Lock order: the tables, then a core, then the interners or the buffers.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::OperationKind;
use crate::clock;
use crate::entry::{self, ENTRY_WORDS_MAX, Entry, Head};
use crate::interner::{Interner, Known, OTHER};
use crate::labels::{Exemplar, Labels};
use crate::live::Live;
use crate::rows::Rows;
use crate::tally::Tally;
use crate::tracked::Tracked;
use crate::uses::Uses;
use crate::windows::{Picture, Window, Windows};

/// Cores beyond this many share buffers.
const CORES_MAX: usize = 64;
/// A buffer of 64 KiB holds some 350 operations.
const BUFFER_WORDS: usize = 8192;
/// Full buffers that wait to be collected; beyond it the operation that fills one collects.
const FULL_MAX: usize = 48;
const SPARE_MAX: usize = 8;
/// A thread asks for its core once in so many operations.
const OPERATIONS_A_LOOK: u32 = 32;
/// Labels kept apart. Beyond the busiest few, a namespace takes about 1 KiB.
pub(crate) const NAMESPACES_MAX: usize = 10_000;
pub(crate) const SHAPES_MAX: usize = 1_000;

pub(crate) fn global() -> &'static Collector {
    static GLOBAL: OnceLock<Collector> = OnceLock::new();
    GLOBAL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Collector::new(cores.min(CORES_MAX))
    })
}

/// Moves finished operations into the histograms, and keeps the windows. Called by a background thread about ten
/// times a second; without one, full buffers and readers do the work.
pub fn collect() {
    clock::refine();
    let collector = global();
    let mut tables = collector.added_up();
    let now = Instant::now();
    if tables.windows.is_due(now) {
        collector.enter_sums(&mut tables);
        collector.turn_windows(&mut tables, now);
    }
}

pub(crate) struct Collector {
    cores: Vec<Core>,
    buffers: Mutex<Buffers>,
    pub namespaces: Interner,
    pub shapes: Interner,
    tables: Mutex<Tables>,
}

/// Cache lines come in pairs to the prefetcher, hence 128.
#[derive(Default)]
#[repr(align(128))]
struct Core(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// None while its words are collected.
    buffer: Option<Buffer>,
    last: Resolved,
    namespaces: Known,
    shapes: Known,
}

/// The labels of the last operation, by hash and by number: likely the next one's as well.
#[derive(Default)]
struct Resolved {
    namespace_hash: u64,
    shape_hash: u64,
    namespaces_epoch: u64,
    shapes_epoch: u64,
    namespace: u32,
    shape: u32,
}

/// Buffers that no core writes to.
#[derive(Default)]
struct Buffers {
    full: Vec<Buffer>,
    /// Collected, for the next core that needs one: a new one would have to be zeroed.
    spare: Vec<Buffer>,
}

/// Operations one behind the other.
struct Buffer {
    words: Box<[u64]>,
    len: usize,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer {
            words: vec![0; BUFFER_WORDS].into(),
            len: 0,
        }
    }

    fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }

    /// Where the next operation goes; none when the buffer is full.
    #[inline]
    fn room(&mut self) -> Option<&mut [u64; ENTRY_WORDS_MAX]> {
        self.words.get_mut(self.len..)?.first_chunk_mut()
    }
}

/// Everything that is reported.
pub(crate) struct Tables {
    pub kinds: [Rows; OperationKind::COUNT],
    pub uses: Uses,
    pub namespaces: Tracked,
    pub shapes: Tracked,
    pub windows: Windows,
    /// What is not in the tables yet.
    tally: Tally,
    /// The last exemplar of each kind and power of two of nanoseconds.
    pub exemplars: FxHashMap<(OperationKind, u32), Exemplar>,
}

/// The core that this thread runs on, or ran on a few operations ago: a thread that has just moved shares a buffer for
/// as long, which costs no more than asking every time.
fn core_of_thread() -> usize {
    thread_local! {
        static CORE: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
    }
    let (core, left) = CORE.get();
    if let Some(left) = left.checked_sub(1) {
        CORE.set((core, left));
        return core;
    }
    let core = rustix::thread::sched_getcpu();
    CORE.set((core, OPERATIONS_A_LOOK));
    core
}

/// A panic while recording leaves at worst a value out: what the lock guards stays in use.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    pub fn new(cores: usize) -> Collector {
        Collector {
            // A power of two, so that finding one's own takes no division.
            cores: (0..cores.next_power_of_two())
                .map(|_| Core::default())
                .collect(),
            buffers: Mutex::default(),
            namespaces: Interner::new(NAMESPACES_MAX),
            shapes: Interner::new(SHAPES_MAX),
            tables: Mutex::new(Tables {
                kinds: Default::default(),
                uses: Uses::default(),
                namespaces: Tracked::with_uses(),
                shapes: Tracked::default(),
                windows: Windows::new(Instant::now()),
                tally: Tally::default(),
                exemplars: FxHashMap::default(),
            }),
        }
    }

    /// Takes the times of an operation that has just ended off its thread.
    #[inline]
    pub fn record(&self, kind: OperationKind, live: &Live, wall: u64, labels: &Labels<'_>) {
        if let Some(exemplar) = labels.exemplar {
            self.note_exemplar(kind, exemplar);
        }
        let core = core_of_thread() & (self.cores.len() - 1);
        let mut waiting = locked(&self.cores[core].0);
        if !self.is_current(&waiting.last, labels) {
            self.resolve(&mut waiting, labels);
        }
        let Waiting { buffer, last, .. } = &mut *waiting;
        let words = buffer.get_or_insert_with(|| self.empty_buffer());
        if let Some(room) = words.room() {
            words.len += entry::write(room, kind, live, wall, last.namespace, last.shape);
        }
        if words.len + ENTRY_WORDS_MAX > BUFFER_WORDS
            && let Some(full) = buffer.take()
        {
            drop(waiting);
            self.hand_over(full);
        }
    }

    #[inline]
    fn is_current(&self, last: &Resolved, labels: &Labels<'_>) -> bool {
        (last.namespace_hash, last.shape_hash) == (labels.namespace, labels.shape)
            && last.namespaces_epoch == self.namespaces.epoch()
            && last.shapes_epoch == self.shapes.epoch()
    }

    #[inline(never)]
    fn resolve(&self, waiting: &mut Waiting, labels: &Labels<'_>) {
        let (namespaces_epoch, shapes_epoch) = (self.namespaces.epoch(), self.shapes.epoch());
        let (namespaces, shapes) = (&mut waiting.namespaces, &mut waiting.shapes);
        let texts = labels.texts;
        let namespace = (self.namespaces).id(namespaces, labels.namespace, || texts.namespace());
        let shape = self.shapes.id(shapes, labels.shape, || texts.shape());
        waiting.last = Resolved {
            namespace_hash: labels.namespace,
            shape_hash: labels.shape,
            // A label that found no place asks again.
            namespaces_epoch: if namespace == OTHER {
                u64::MAX
            } else {
                namespaces_epoch
            },
            shapes_epoch: if shape == OTHER {
                u64::MAX
            } else {
                shapes_epoch
            },
            namespace,
            shape,
        };
    }

    #[cold]
    fn empty_buffer(&self) -> Buffer {
        let spare = locked(&self.buffers).spare.pop();
        spare.unwrap_or_else(Buffer::new)
    }

    #[cold]
    fn hand_over(&self, buffer: Buffer) {
        let mut buffers = locked(&self.buffers);
        buffers.full.push(buffer);
        let is_overdue = buffers.full.len() >= FULL_MAX;
        drop(buffers);
        if is_overdue {
            drop(self.added_up());
        }
    }

    fn note_exemplar(&self, kind: OperationKind, exemplar: Exemplar) {
        let power = u64::BITS - exemplar.wall_ns.leading_zeros();
        locked(&self.tables)
            .exemplars
            .insert((kind, power), exemplar);
    }

    /// The tables with every operation in them that has ended.
    pub fn collected(&self) -> MutexGuard<'_, Tables> {
        let mut tables = self.added_up();
        self.enter_sums(&mut tables);
        tables
    }

    /// The tables, and in their tally every operation that has ended.
    fn added_up(&self) -> MutexGuard<'_, Tables> {
        let mut tables = locked(&self.tables);
        let full = std::mem::take(&mut locked(&self.buffers).full);
        for mut buffer in full {
            self.enter(&mut tables, buffer.words());
            buffer.len = 0;
            let mut buffers = locked(&self.buffers);
            if buffers.spare.len() < SPARE_MAX {
                buffers.spare.push(buffer);
            }
        }
        for core in &self.cores {
            let mut waiting = locked(&core.0);
            let Some(mut buffer) = waiting.buffer.take_if(|buffer| buffer.len > 0) else {
                continue;
            };
            drop(waiting);
            self.enter(&mut tables, buffer.words());
            buffer.len = 0;
            // It goes back unless the core has begun another one.
            locked(&core.0).buffer.get_or_insert(buffer);
        }
        tables
    }

    fn enter(&self, tables: &mut Tables, mut words: &[u64]) {
        let rate = clock::rate();
        while let Some(entry) = entry::read(&mut words, tables.tally.last()) {
            if !tables.tally.record(&entry, rate) {
                self.enter_alone(tables, &entry);
            }
        }
        if tables.tally.is_overdue() {
            self.enter_sums(tables);
        }
    }

    fn enter_alone(&self, tables: &mut Tables, entry: &Entry<'_>) {
        self.add(tables, entry.head, 1, |kind, rows, uses| {
            rows.record(entry);
            if let Some(uses) = uses {
                uses.record(kind, clock::ns(entry.wall()));
            }
        });
    }

    fn enter_sums(&self, tables: &mut Tables) {
        let mut tally = std::mem::take(&mut tables.tally);
        tally.drain(|sum| {
            self.add(tables, sum.head, sum.count, |kind, rows, uses| {
                rows.add(sum);
                if let Some(uses) = uses {
                    uses.add(kind, sum.used(), &sum.latencies);
                }
            });
        });
        tables.tally = tally;
    }

    /// Lets `add` put `count` operations wherever they belong.
    fn add(
        &self,
        tables: &mut Tables,
        head: Head,
        count: u64,
        add: impl Fn(OperationKind, &mut Rows, Option<&mut Uses>),
    ) {
        let Some(kind) = head.kind() else { return };
        let (namespace, shape) = (head.namespace(), head.shape());
        let add = |rows: &mut Rows, uses: Option<&mut Uses>| add(kind, rows, uses);
        add(&mut tables.kinds[kind as usize], Some(&mut tables.uses));
        let is_known = || self.namespaces.text(namespace).is_some();
        (tables.namespaces).record(namespace, count, is_known, add);
        let is_known = || self.shapes.text(shape).is_some();
        tables.shapes.record(shape, count, is_known, add);
    }

    /// Takes a picture, and lets labels change places.
    fn turn_windows(&self, tables: &mut Tables, now: Instant) {
        if self.namespaces.is_full() {
            let idle = tables.namespaces.idlest_quarter();
            self.forget_namespaces(tables, &idle);
        }
        if self.shapes.is_full() {
            let idle = tables.shapes.idlest_quarter();
            self.forget_shapes(tables, &idle);
        }
        for id in tables.namespaces.turn() {
            tables.windows.forget_namespace(id);
        }
        for id in tables.shapes.turn() {
            tables.windows.forget_shape(id);
        }
        let picture = tables.picture();
        tables.windows.add(now, picture);
    }

    fn forget_namespaces(&self, tables: &mut Tables, ids: &[u32]) {
        self.namespaces.forget(ids);
        for &id in ids {
            tables.namespaces.forget(id);
            tables.windows.forget_namespace(id);
        }
    }

    fn forget_shapes(&self, tables: &mut Tables, ids: &[u32]) {
        self.shapes.forget(ids);
        for &id in ids {
            tables.shapes.forget(id);
            tables.windows.forget_shape(id);
        }
    }

    /// The namespace is gone: its figures join those of "other".
    pub fn forget_namespace(&self, hash: u64) {
        let mut tables = self.collected();
        if let Some(id) = self.namespaces.id_of_hash(hash) {
            self.forget_namespaces(&mut tables, &[id]);
        }
    }

    pub fn reset(&self, kind: Option<OperationKind>) {
        let mut tables = self.collected();
        // First, so that what the labels had is among the others before the window begins.
        if kind.is_none() {
            tables.free_histograms();
        }
        let (picture, now) = (tables.picture(), Instant::now());
        match kind {
            Some(kind) => tables.windows.reset_kind(kind, now, &picture),
            None => tables.windows.reset(now, picture),
        }
    }
}

impl Tables {
    /// Who resets wants to see what runs from now on: its labels find places, however busy others were before.
    fn free_histograms(&mut self) {
        for id in self.namespaces.free() {
            self.windows.forget_namespace(id);
        }
        for id in self.shapes.free() {
            self.windows.forget_shape(id);
        }
    }

    pub fn picture(&mut self) -> Picture {
        Picture {
            kinds: self.kinds.each_mut().map(Rows::picture),
            namespaces: self.namespaces.picture(),
            shapes: self.shapes.picture(),
        }
    }

    /// What was recorded in the window.
    pub fn in_window(&mut self, window: Window) -> Picture {
        let picture = self.picture();
        self.windows.of(window, picture)
    }
}

/// The distribution of one row; shared with the tables until they change.
#[derive(Clone, Debug)]
pub struct Distribution(pub(crate) Arc<crate::histogram::Histogram>);
