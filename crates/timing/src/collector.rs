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

use crate::clock;
use crate::entry::{self, ENTRY_WORDS_MAX};
use crate::interner::{Interner, Known};
use crate::labels::{Exemplar, Labels};
use crate::rows::Rows;
use crate::tracked::Tracked;
use crate::uses::Uses;
use crate::windows::{Picture, Window, Windows};
use crate::{Breakdown, OperationKind};

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
    full: Mutex<Vec<Vec<u64>>>,
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
    words: Vec<u64>,
    namespaces: Known,
    shapes: Known,
}

/// Everything that is reported.
pub(crate) struct Tables {
    pub kinds: [Rows; OperationKind::COUNT],
    pub uses: Uses,
    pub namespaces: Tracked,
    pub shapes: Tracked,
    pub windows: Windows,
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
                exemplars: FxHashMap::default(),
            }),
        }
    }

    pub fn record(&self, kind: OperationKind, breakdown: &Breakdown, labels: &Labels<'_>) {
        if let Some(exemplar) = labels.exemplar {
            self.note_exemplar(kind, exemplar);
        }
        let core = core_of_thread() % self.cores.len();
        let mut waiting = locked(&self.cores[core].0);
        let Waiting {
            words,
            namespaces,
            shapes,
        } = &mut *waiting;
        let namespace = self.namespaces.id(namespaces, labels.namespace.as_ref());
        let shape = self.shapes.id(shapes, labels.shape.as_ref());
        if words.capacity() == 0 {
            words.reserve_exact(BUFFER_WORDS);
        }
        entry::write(words, kind, breakdown, namespace, shape);
        if words.len() + ENTRY_WORDS_MAX > BUFFER_WORDS {
            let full = std::mem::take(words);
            drop(waiting);
            self.hand_over(full);
        }
    }

    fn hand_over(&self, words: Vec<u64>) {
        let mut full = locked(&self.full);
        full.push(words);
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
        for words in full {
            self.enter(&mut tables, &words);
        }
        for core in &self.cores {
            let mut waiting = locked(&core.0);
            if waiting.words.is_empty() {
                continue;
            }
            let mut words = std::mem::take(&mut waiting.words);
            drop(waiting);
            self.enter(&mut tables, &words);
            words.clear();
            // The buffer goes back unless the core has begun another one.
            let mut waiting = locked(&core.0);
            if waiting.words.capacity() == 0 {
                waiting.words = words;
            }
        }
        tables
    }

    fn enter(&self, tables: &mut Tables, mut words: &[u64]) {
        while let Some(entry) = entry::read(&mut words) {
            tables.kinds[entry.kind as usize].record(&entry);
            tables.uses.record(entry.kind, entry.wall_ns);
            let (namespace, shape) = (entry.namespace, entry.shape);
            tables.namespaces.record(namespace, &entry, || {
                self.namespaces.text(namespace).is_some()
            });
            tables
                .shapes
                .record(shape, &entry, || self.shapes.text(shape).is_some());
        }
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

    fn picture(&mut self) -> Picture {
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
