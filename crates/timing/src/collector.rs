//! Finished operations on their way into the histograms.
//!
//! An operation that ends writes a few words into the buffer of the core it runs on, under a lock that no other core
//! takes while it works. [`collect`] moves what the buffers hold into the tables; readers call it first, a background
//! thread calls it ten times a second, and a core whose buffer is full hands it over. So the histograms exist once,
//! however many cores and connections there are, and no operation pays for filling them.
//!
//! Lock order: the tables, then a core or the interners.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::OperationKind;
use crate::clock;
use crate::entry::{self, ENTRY_WORDS_MAX};
use crate::interner::{Interner, Known};
use crate::labels::{Exemplar, Labels};
use crate::live::Live;
use crate::rows::Rows;
use crate::tally::Tally;
use crate::tracked::Tracked;
use crate::uses::Uses;
use crate::windows::{Picture, Window, Windows};

/// Cores beyond this many share buffers.
const CORES_MAX: usize = 64;
/// A buffer of 64 KiB holds some 600 operations.
const BUFFER_WORDS: usize = 8192;
/// Full buffers that wait to be collected; beyond it the operation that fills one collects.
const FULL_MAX: usize = 32;
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
    let mut tables = collector.collected();
    collector.turn_windows(&mut tables, Instant::now());
}

pub(crate) struct Collector {
    cores: Vec<Core>,
    full: Mutex<Vec<Buffer>>,
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
    namespaces: Known,
    shapes: Known,
}

/// Operations one behind the other.
struct Buffer {
    words: Box<[u64]>,
    len: usize,
}

impl Buffer {
    #[cold]
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
    /// Empty between two buffers.
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
            cores: (0..cores).map(|_| Core::default()).collect(),
            full: Mutex::default(),
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

    /// Takes the times of an operation that has just ended.
    pub fn record(&self, kind: OperationKind, live: &Live, wall_ns: u64, labels: &Labels<'_>) {
        if let Some(exemplar) = labels.exemplar {
            self.note_exemplar(kind, exemplar);
        }
        let core = core_of_thread() % self.cores.len();
        let mut waiting = locked(&self.cores[core].0);
        let Waiting {
            buffer,
            namespaces,
            shapes,
        } = &mut *waiting;
        let namespace = self.namespaces.id(namespaces, labels.namespace.as_ref());
        let shape = self.shapes.id(shapes, labels.shape.as_ref());
        let words = buffer.get_or_insert_with(Buffer::new);
        if let Some(room) = words.room() {
            words.len += entry::write(room, kind, live, wall_ns, namespace, shape);
        }
        if words.room().is_none()
            && let Some(full) = buffer.take()
        {
            drop(waiting);
            self.hand_over(full);
        }
    }

    #[cold]
    fn hand_over(&self, buffer: Buffer) {
        let mut full = locked(&self.full);
        full.push(buffer);
        let is_overdue = full.len() >= FULL_MAX;
        drop(full);
        if is_overdue {
            drop(self.collected());
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
        let mut tables = locked(&self.tables);
        let full = std::mem::take(&mut *locked(&self.full));
        for buffer in full {
            self.enter(&mut tables, buffer.words());
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
        let mut tally = std::mem::take(&mut tables.tally);
        while let Some(entry) = entry::read(&mut words) {
            if !tally.record(&entry) {
                let add = |rows: &mut Rows, uses: Option<&mut Uses>| {
                    rows.record(&entry);
                    if let Some(uses) = uses {
                        uses.record(entry.kind, entry.wall_ns);
                    }
                };
                let labels = (entry.namespace, entry.shape);
                self.add(tables, entry.kind, labels, 1, add);
            }
        }
        tally.drain(|sum| {
            let add = |rows: &mut Rows, uses: Option<&mut Uses>| {
                rows.merge_sums(&sum.times, &sum.work);
                if let Some(uses) = uses {
                    uses.merge(&sum.uses);
                }
            };
            self.add(tables, sum.kind, (sum.namespace, sum.shape), sum.count, add);
        });
        tables.tally = tally;
    }

    /// Lets `add` put `count` operations wherever they belong.
    fn add(
        &self,
        tables: &mut Tables,
        kind: OperationKind,
        (namespace, shape): (u32, u32),
        count: u64,
        add: impl Fn(&mut Rows, Option<&mut Uses>),
    ) {
        add(&mut tables.kinds[kind as usize], Some(&mut tables.uses));
        let is_known = || self.namespaces.text(namespace).is_some();
        (tables.namespaces).record(namespace, count, is_known, &add);
        let is_known = || self.shapes.text(shape).is_some();
        tables.shapes.record(shape, count, is_known, &add);
    }

    /// Takes a picture when one is due, and lets labels change places.
    fn turn_windows(&self, tables: &mut Tables, now: Instant) {
        if !tables.windows.is_due(now) {
            return;
        }
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
