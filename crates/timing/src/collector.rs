//! Finished operations on their way into the histograms.
//!
//! An operation that ends is added up on the core it ran on, under a lock that no other core takes while it works: its
//! times go into the sums and buckets of its combination, if the core keeps that one, else as a few words into a
//! buffer. [`collect`] empties the buffers; a background thread calls it ten times a second, and a core whose buffer is
//! full hands it over. A combination that is met often there is kept by the core from then on. Sums go into the tables
//! when somebody reads them and when a picture is due. So the large histograms exist once, however many cores and
//! connections there are, and no operation pays for making them.
//!
//! Lock order: the tables, then a core, then the interners or the buffers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use crate::OperationKind;
use crate::clock;
use crate::entry::{self, ENTRY_WORDS_MAX, Entry, Head, touched_and_kind};
use crate::interner::{Interner, Known};
use crate::labels::{Exemplar, LabelTexts, Labels};
use crate::live::Live;
use crate::rows::Rows;
use crate::tally::{Combination, Key, Tally};
use crate::tracked::Tracked;
use crate::uses::Uses;
use crate::windows::{Picture, Window, Windows};
use crate::work::Work;

/// Cores beyond this many share buffers.
const CORES_MAX: usize = 64;
/// A buffer of 64 KiB holds some 350 operations.
const BUFFER_WORDS: usize = 8192;
/// Full buffers that wait to be collected; beyond it the operation that fills one collects.
const FULL_MAX: usize = 48;
const SPARE_MAX: usize = 8;
/// A combination met so often in one buffer is kept; one met less often since the last picture makes room.
const MET_MIN: u32 = 16;
/// Labels kept apart. Beyond the busiest few, a namespace takes about 1 KiB.
pub(crate) const NAMESPACES_MAX: usize = 10_000;
pub(crate) const SHAPES_MAX: usize = 1_000;

#[inline]
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
    collector.set_rate();
    let mut tables = collector.tables.lock();
    let now = Instant::now();
    let is_due = tables.windows.is_due(now);
    if is_due {
        collector.enter_sums(&mut tables);
    }
    collector.enter_buffers(&mut tables);
    if is_due {
        collector.turn_windows(&mut tables, now);
    }
}

pub(crate) struct Collector {
    cores: Vec<Core>,
    /// Microseconds a tick of the clock: the bits of an f64.
    rate: AtomicU64,
    buffers: Mutex<Buffers>,
    pub namespaces: Interner,
    pub shapes: Interner,
    tables: Mutex<Tables>,
}

/// Cache lines come in pairs to the prefetcher, hence 128.
#[derive(Default)]
#[repr(align(128))]
struct Core(Mutex<Waiting>);

/// Operations that are not in the tables yet.
#[derive(Default)]
struct Waiting {
    tally: Tally,
    /// None while its words are collected.
    buffer: Option<Buffer>,
    namespaces: Known,
    shapes: Known,
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
    core: usize,
    words: Box<[u64]>,
    len: usize,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer {
            core: 0,
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
    /// The last exemplar of each kind and power of two of microseconds.
    pub exemplars: FxHashMap<(OperationKind, u32), Exemplar>,
}

impl Collector {
    pub fn new(cores: usize) -> Collector {
        let collector = Collector {
            // A power of two, so that finding one's own takes no division.
            cores: (0..cores.next_power_of_two())
                .map(|_| Core::default())
                .collect(),
            rate: AtomicU64::default(),
            buffers: Mutex::default(),
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
        };
        collector.set_rate();
        collector
    }

    fn set_rate(&self) {
        let micros = clock::rate() / 1000.0;
        self.rate.store(micros.to_bits(), Relaxed);
    }

    /// Takes the times of an operation that has just ended off its thread, and its amounts. In line, so that the places
    /// of the amounts are known where it is compiled: 180 instructions less.
    #[inline(always)]
    pub fn record<const N: usize, T: LabelTexts>(
        &self,
        kind: OperationKind,
        live: &Live,
        amounts: [(Work, u64); N],
        labels: Labels,
        texts: impl FnOnce() -> T,
    ) {
        let key = Key {
            touched_and_kind: touched_and_kind(kind, live),
            labels,
        };
        let rate = f64::from_bits(self.rate.load(Relaxed));
        let core = live.core.get() & (self.cores.len() - 1);
        let mut waiting = self.cores[core].0.lock();
        if !(waiting.tally).record(&key, live, amounts, rate) {
            live.count(amounts);
            self.record_alone(core, waiting, kind, live, labels, &texts());
        }
    }

    #[inline(never)]
    fn record_alone(
        &self,
        core: usize,
        mut waiting: MutexGuard<'_, Waiting>,
        kind: OperationKind,
        live: &Live,
        labels: Labels,
        texts: &dyn LabelTexts,
    ) {
        let Waiting {
            buffer,
            namespaces,
            shapes,
            ..
        } = &mut *waiting;
        let namespace = (self.namespaces).id(namespaces, labels.namespace, || texts.namespace());
        let shape = self.shapes.id(shapes, labels.shape, || texts.shape());
        let words = buffer.get_or_insert_with(|| self.empty_buffer());
        words.core = core;
        if let Some(room) = words.room() {
            words.len += entry::write(room, kind, live, namespace, shape);
        }
        if words.len + ENTRY_WORDS_MAX > BUFFER_WORDS
            && let Some(full) = buffer.take()
        {
            drop(waiting);
            self.hand_over(full);
        }
    }

    #[cold]
    fn empty_buffer(&self) -> Buffer {
        let spare = self.buffers.lock().spare.pop();
        spare.unwrap_or_else(Buffer::new)
    }

    #[cold]
    fn hand_over(&self, buffer: Buffer) {
        let mut buffers = self.buffers.lock();
        buffers.full.push(buffer);
        let is_overdue = buffers.full.len() >= FULL_MAX;
        drop(buffers);
        if is_overdue {
            self.enter_buffers(&mut self.tables.lock());
        }
    }

    #[cold]
    pub fn note_exemplar(&self, kind: OperationKind, exemplar: Exemplar) {
        let power = u64::BITS - (exemplar.wall_ns / 1000).leading_zeros();
        (self.tables.lock().exemplars).insert((kind, power), exemplar);
    }

    /// The tables with every operation in them that has ended.
    pub fn collected(&self) -> MutexGuard<'_, Tables> {
        let mut tables = self.tables.lock();
        self.enter_sums(&mut tables);
        self.enter_buffers(&mut tables);
        tables
    }

    /// Puts into the tables what the cores have added up.
    fn enter_sums(&self, tables: &mut Tables) {
        for core in &self.cores {
            // What ends meanwhile goes into the core's buffer.
            let mut combinations = core.0.lock().tally.take_if(|_| true);
            for sum in &combinations {
                self.enter_sum(tables, sum);
            }
            combinations.retain_mut(|sum| {
                let is_kept = sum.count >= u64::from(MET_MIN);
                sum.clear();
                is_kept
            });
            core.0.lock().tally.keep(combinations);
        }
    }

    fn enter_sum(&self, tables: &mut Tables, sum: &Combination) {
        self.add(tables, sum.head, sum.count, |kind, rows, uses| {
            rows.add(sum);
            if let Some(uses) = uses {
                uses.add(kind, sum.used(), &sum.latencies());
            }
        });
    }

    /// Puts into the tables what is in the buffers.
    fn enter_buffers(&self, tables: &mut Tables) {
        let full = std::mem::take(&mut self.buffers.lock().full);
        for mut buffer in full {
            self.enter(tables, &buffer);
            buffer.len = 0;
            let mut buffers = self.buffers.lock();
            if buffers.spare.len() < SPARE_MAX {
                buffers.spare.push(buffer);
            }
        }
        for core in &self.cores {
            let buffer = (core.0.lock().buffer).take_if(|buffer| buffer.len > 0);
            let Some(mut buffer) = buffer else { continue };
            self.enter(tables, &buffer);
            buffer.len = 0;
            // It goes back unless the core has begun another one.
            core.0.lock().buffer.get_or_insert(buffer);
        }
    }

    fn enter(&self, tables: &mut Tables, buffer: &Buffer) {
        let mut words = buffer.words();
        let mut met = FxHashMap::<Head, u32>::default();
        while let Some(entry) = entry::read(&mut words) {
            self.enter_alone(tables, &entry);
            *met.entry(entry.head).or_default() += 1;
        }
        for (head, count) in met {
            if count >= MET_MIN {
                self.keep(buffer.core, head);
            }
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

    /// Has the core add up operations of this combination from now on, unless their labels have no figures of their
    /// own: those ask again whether there is a place.
    fn keep(&self, core: usize, head: Head) {
        let hashes = (
            self.namespaces.hash_of_id(head.namespace()),
            self.shapes.hash_of_id(head.shape()),
        );
        let (Some(namespace), Some(shape)) = hashes else {
            return;
        };
        let key = Key {
            touched_and_kind: head.touched_and_kind,
            labels: Labels { namespace, shape },
        };
        let combination = Combination::new(key, head);
        let mut waiting = self.cores[core].0.lock();
        if !waiting.tally.keeps(&key) {
            waiting.tally.keep([combination]);
        }
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
        self.make_room(tables);
        for id in tables.namespaces.turn() {
            tables.windows.forget_namespace(id);
        }
        for id in tables.shapes.turn() {
            tables.windows.forget_shape(id);
        }
        let picture = tables.picture();
        tables.windows.add(now, picture);
    }

    /// Lets new labels in where there was no place for one.
    fn make_room(&self, tables: &mut Tables) {
        if self.namespaces.is_full() {
            let idle = tables.namespaces.idlest_quarter();
            self.forget_namespaces(tables, &idle);
        }
        if self.shapes.is_full() {
            let idle = tables.shapes.idlest_quarter();
            self.forget_shapes(tables, &idle);
        }
    }

    fn forget_namespaces(&self, tables: &mut Tables, ids: &[u32]) {
        self.namespaces.forget(ids);
        self.end_combinations(tables, |head| ids.contains(&head.namespace()));
        for &id in ids {
            tables.namespaces.forget(id);
            tables.windows.forget_namespace(id);
        }
    }

    fn forget_shapes(&self, tables: &mut Tables, ids: &[u32]) {
        self.shapes.forget(ids);
        self.end_combinations(tables, |head| ids.contains(&head.shape()));
        for &id in ids {
            tables.shapes.forget(id);
            tables.windows.forget_shape(id);
        }
    }

    fn end_combinations(&self, tables: &mut Tables, is_meant: impl Fn(Head) -> bool) {
        for core in &self.cores {
            let ended = core.0.lock().tally.take_if(&is_meant);
            for sum in &ended {
                self.enter_sum(tables, sum);
            }
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
            self.make_room(&mut tables);
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

    /// The figures that were recorded in the window.
    pub fn in_window(&mut self, window: Window) -> Picture {
        let picture = self.picture();
        self.windows.of(window, picture)
    }
}

/// The distribution of one row; shared with the tables until they change.
#[derive(Clone, Debug)]
pub struct Distribution(pub(crate) Arc<crate::histogram::Histogram>);
