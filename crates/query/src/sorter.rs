//! Sorting: rows of a sort key and a payload, handed out in order, no more of them than are wanted.
//!
//! No step of it takes long, so that an operation can be ended at any time: rows are sorted in short runs, as they come,
//! and the runs are merged as rows are asked for. Rows with equal keys stay in the order in which they came. A row's
//! memory is given back when it leaves, or soon behind it (`held_run`).
//!
//! Rows that outgrow the memory of their stage go into a file as one run (`spilling`), which is merged with the others; where
//! many runs have gathered, they become one of the next generation. So a sort holds a block and a row of each of a few dozen runs, however much it sorts; where
//! rows are large, or little memory is left, fewer runs are merged at a time. The runs of a generation stand in one file, which goes
//! when they are merged: a million runs take four files, or twenty where only two can be merged at a time.

mod filed_run;
mod held_run;
mod row;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem;

use self::filed_run::{FiledRun, RunFile, RunWriter};
use self::held_run::{Filling, HeldRun, ROW_BYTES_MAX};
pub(crate) use self::row::Row;
use crate::error::Result;
use crate::interrupts::{self, units_of_bytes};
use crate::memory::{self, Charge};
use crate::spilling::{BLOCK_BYTES, DiskUse, SpillSpace, Spilled, SpillingKind};

/// Rows, or elements of a list, that are sorted at once.
const RUN_ROWS: usize = 4096;

/// The work of finding a row's place in its run.
pub(crate) const UNITS_OF_A_ROW: usize = 40;

/// The blocks and rows of the files that are merged at a time, if they are more than two.
const MERGE_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Rows for which less memory is left than their stage may take go to disk only where they are so many.
const SPILLED_BYTES_MIN: usize = BLOCK_BYTES;

/// Runs of one generation that become one of the next.
const RUNS_MERGED: usize = if cfg!(test) { 3 } else { 32 };

pub(crate) struct Sorter {
    kept: Kept,
    /// For the rows.
    memory: Charge,
    /// For the buffers of those that came last, who are copied from there.
    buffers: Charge,
    sequence: u64,
    /// The bytes that the rows held may take.
    memory_bytes_max: usize,
    kind: &'static SpillingKind,
    disk_use: DiskUse,
    files: Option<Box<Files>>,
}

enum Kept {
    /// Everything is wanted: runs that are sorted, and the one that fills.
    All { runs: Vec<Run>, filling: Filling },
    /// The least so many rows, the greatest of them on top.
    Least {
        wanted: usize,
        rows: BinaryHeap<Row>,
    },
}

/// The runs in files, the oldest rows first.
#[derive(Default)]
struct Files {
    /// Each with its generation: how often its rows were merged.
    runs: Vec<(usize, FiledRun)>,
    /// The file of each generation that has runs.
    of_generations: Vec<Option<RunFile>>,
    spilled: Spilled,
}

/// A sorted run.
enum Run {
    /// In memory.
    Held(HeldRun),
    /// Rows of the least, or a large one.
    Rows(std::vec::IntoIter<Row>),
    /// In a file.
    Filed(Box<FiledRun>),
}

impl Run {
    fn next(&mut self) -> Result<Option<Row>> {
        match self {
            Run::Held(run) => Ok(run.next()),
            Run::Rows(rows) => Ok(rows.next()),
            Run::Filed(run) => run.next(),
        }
    }
}

impl Sorter {
    /// A sort of the first `wanted` rows, or of all, for a stage of the kind.
    pub fn new(kind: &'static SpillingKind, wanted: Option<u64>, disk_use: DiskUse) -> Sorter {
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        Sorter {
            kept: Kept::none(wanted),
            memory: Charge::default(),
            buffers: Charge::default(),
            sequence: 0,
            memory_bytes_max: kind.memory.bytes(),
            kind,
            disk_use,
            files: None,
        }
    }

    /// Has the rows held take no more than this.
    pub fn with_memory(mut self, bytes_max: usize) -> Sorter {
        self.memory_bytes_max = bytes_max;
        self
    }

    /// Whether a row with this key may be among those that are wanted, as far as is known now.
    #[inline]
    pub fn takes(&self, key: &[u8]) -> bool {
        match &self.kept {
            Kept::All { .. } => true,
            // The newest row loses against an equal one: it came later.
            Kept::Least { wanted, rows } => {
                rows.len() < *wanted || rows.peek().is_some_and(|last| key < last.key())
            }
        }
    }

    /// Fails when the rows kept outgrow their memory and may not be spilled.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        interrupts::work(UNITS_OF_A_ROW + units_of_bytes(key.len() + payload.len()))?;
        if !self.takes(key) {
            return Ok(());
        }
        if let Kept::Least { wanted, rows } = &mut self.kept
            && rows.len() >= *wanted
            && let Some(last) = rows.pop()
        {
            self.memory.shrink(last.held_bytes());
        }
        self.sequence += 1;
        let bytes = Row::held_bytes_of(key.len() + payload.len());
        if self.memory.bytes() + bytes > self.memory_bytes_max || self.gives_way(bytes) {
            self.spill()?;
        }
        self.memory.grow(bytes)?;
        let sequence = self.sequence;
        match &mut self.kept {
            Kept::Least { rows, .. } => rows.push(Row::new(key, payload, sequence)),
            Kept::All { runs, .. } if key.len() + payload.len() > ROW_BYTES_MAX => {
                let row = Row::new(key, payload, sequence);
                runs.push(Run::Rows(vec![row].into_iter()));
            }
            Kept::All { runs, filling } => {
                filling.push(key, payload, sequence)?;
                let more = filling.buffer_bytes().saturating_sub(self.buffers.bytes());
                if more > 0 {
                    self.buffers.grow(more)?;
                }
                if filling.is_full() {
                    runs.push(Run::Held(filling.sort()?));
                }
            }
        }
        Ok(())
    }

    /// Whether the rows are to go to disk because so little is left of the memory of all operations. A sort that may not use the
    /// disk waits for memory as everybody does.
    #[inline]
    fn gives_way(&self, bytes: usize) -> bool {
        !memory::has_room(bytes)
            && self.memory.bytes() >= SPILLED_BYTES_MIN
            && self.kind.space(self.disk_use).is_ok()
    }

    /// Writes the rows held into a file.
    #[cold]
    fn spill(&mut self) -> Result<()> {
        let space = self.kind.space(self.disk_use)?;
        let wanted = self.kept.wanted();
        let held = std::mem::replace(&mut self.kept, Kept::none(wanted));
        self.buffers = Charge::default();
        let mut rows = Sorted::merge(held.into_runs()?, wanted)?;
        if rows.heads.is_empty() {
            // One row is larger than the memory: it is held all the same.
            return Ok(());
        }
        let files = self.files.get_or_insert_default();
        let mut writer = RunWriter::begin(files.of_generation(0, space)?);
        while let Some(row) = rows.next()? {
            self.memory.shrink(row.held_bytes());
            writer.push(&row)?;
        }
        let (run, written) = writer.finish()?;
        self.kind.count(written);
        files.spilled.add(written);
        files.runs.push((0, run));
        files.merge_generations(space, wanted)
    }

    /// The rows in order.
    pub fn finish(self) -> Result<Sorted> {
        let wanted = self.kept.wanted();
        let held = self.kept.into_runs()?;
        let Some(mut files) = self.files else {
            let mut sorted = Sorted::merge(held, wanted)?;
            sorted.memory = self.memory;
            return Ok(sorted);
        };
        files.become_few(self.kind.space(self.disk_use)?, wanted)?;
        let filed = files.runs.into_iter();
        let filed = filed.map(|(_, run)| Run::Filed(Box::new(run)));
        let mut sorted = Sorted::merge(filed.chain(held).collect(), wanted)?;
        sorted.memory = self.memory;
        sorted.spilled = Some(Box::new(files.spilled));
        Ok(sorted)
    }
}

impl Kept {
    fn none(wanted: Option<usize>) -> Kept {
        match wanted {
            None => Kept::All {
                runs: Vec::new(),
                filling: Filling::default(),
            },
            Some(wanted) => Kept::Least {
                wanted,
                rows: BinaryHeap::new(),
            },
        }
    }

    fn wanted(&self) -> Option<usize> {
        match self {
            Kept::All { .. } => None,
            Kept::Least { wanted, .. } => Some(*wanted),
        }
    }

    fn into_runs(self) -> Result<Vec<Run>> {
        match self {
            Kept::All {
                mut runs,
                mut filling,
            } => {
                if !filling.is_empty() {
                    runs.push(Run::Held(filling.sort()?));
                }
                Ok(runs)
            }
            Kept::Least { rows, .. } => {
                let (mut runs, mut left) = (Vec::new(), rows.into_vec());
                while !left.is_empty() {
                    let mut run = left.split_off(left.len().saturating_sub(RUN_ROWS));
                    interrupts::work(run.len() * UNITS_OF_A_ROW)?;
                    run.sort_unstable();
                    runs.push(Run::Rows(run.into_iter()));
                }
                Ok(runs)
            }
        }
    }
}

impl Files {
    /// The file of a generation, at the end of which the next of its runs goes.
    fn of_generation(&mut self, generation: usize, space: &dyn SpillSpace) -> Result<RunFile> {
        if self.of_generations.len() <= generation {
            self.of_generations.resize(generation + 1, None);
        }
        if let Some(file) = &self.of_generations[generation] {
            return Ok(file.clone());
        }
        let file = RunFile::create(space)?;
        Ok(self.of_generations[generation].insert(file).clone())
    }

    /// Has the last runs become one where there are many of their generation, or they are all that can be merged at a time.
    fn merge_generations(&mut self, space: &dyn SpillSpace, wanted: Option<usize>) -> Result<()> {
        while let Some((generation, _)) = self.runs.last() {
            let generation = *generation;
            let alike = self.runs.iter().rev();
            let alike = alike.take_while(|(of, _)| *of == generation);
            let (alike, bytes) = alike.fold((0, 0), |(count, bytes), (_, run)| {
                (count + 1, bytes + run.merge_bytes())
            });
            if alike < RUNS_MERGED && (alike < 2 || can_merge(bytes)) {
                break;
            }
            let merged = self.runs.split_off(self.runs.len() - alike);
            let merged = merged.into_iter().map(|(_, run)| run).collect();
            // It has no run but these.
            self.of_generations[generation] = None;
            let file = self.of_generation(generation + 1, space)?;
            let run = merge_into_one(merged, file, wanted)?;
            self.runs.push((generation + 1, run));
        }
        Ok(())
    }

    /// Has runs become one, as many as can be merged at a time and two at least, until all that are left can be.
    fn become_few(&mut self, space: &dyn SpillSpace, wanted: Option<usize>) -> Result<()> {
        while self.runs.len() > 2 {
            let bytes = self.runs.iter().map(|(_, run)| run.merge_bytes());
            if can_merge(bytes.sum()) {
                break;
            }
            self.of_generations.clear();
            let file = RunFile::create(space)?;
            let mut left = std::mem::take(&mut self.runs).into_iter().peekable();
            while let Some((generation, first)) = left.next() {
                let mut bytes = first.merge_bytes();
                let mut group = vec![first];
                while let Some((_, next)) = left
                    .next_if(|(_, next)| group.len() < 2 || can_merge(bytes + next.merge_bytes()))
                {
                    bytes += next.merge_bytes();
                    group.push(next);
                }
                // A lone one at the end is copied: it would keep the file of those before it.
                let run = merge_into_one(group, file.clone(), wanted)?;
                self.runs.push((generation, run));
            }
        }
        Ok(())
    }
}

/// Whether runs that take so many bytes can be merged at a time.
fn can_merge(bytes: usize) -> bool {
    bytes <= MERGE_BYTES_MAX && memory::has_room(bytes)
}

/// Writes the first `wanted` rows of some runs as one, at the end of the file.
fn merge_into_one(runs: Vec<FiledRun>, file: RunFile, wanted: Option<usize>) -> Result<FiledRun> {
    let runs = runs.into_iter().map(|run| Run::Filed(Box::new(run)));
    let mut rows = Sorted::merge(runs.collect(), wanted)?;
    let mut writer = RunWriter::begin(file);
    while let Some(row) = rows.next()? {
        writer.push(&row)?;
    }
    let (run, _) = writer.finish()?;
    Ok(run)
}

pub(crate) struct Sorted {
    runs: Vec<Run>,
    /// The least row of each run, with the run's number.
    heads: BinaryHeap<Reverse<(Row, usize)>>,
    /// For the rows that are held.
    memory: Charge,
    /// How many rows are still wanted.
    left: usize,
    spilled: Option<Box<Spilled>>,
}

impl Sorted {
    /// The first `wanted` rows of the runs, or all.
    fn merge(mut runs: Vec<Run>, wanted: Option<usize>) -> Result<Sorted> {
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|row| Reverse((row, number))));
        }
        Ok(Sorted {
            runs,
            heads,
            memory: Charge::default(),
            left: wanted.unwrap_or(usize::MAX),
            spilled: None,
        })
    }

    /// The next row, None at the end.
    pub fn next(&mut self) -> Result<Option<Row>> {
        interrupts::work(UNITS_OF_A_ROW)?;
        if self.left == 0 {
            return Ok(None);
        }
        let Some(mut first) = self.heads.peek_mut() else {
            return Ok(None);
        };
        self.left -= 1;
        let number = first.0.1;
        let run = &mut self.runs[number];
        // The row behind it takes its place, from which it sinks to its own.
        let Reverse((row, _)) = match run.next()? {
            Some(following) => {
                let row = mem::replace(&mut *first, Reverse((following, number)));
                drop(first);
                row
            }
            None => {
                let ended = PeekMut::pop(first);
                // A file goes with the last of its runs.
                *run = Run::Rows(Vec::new().into_iter());
                ended
            }
        };
        // The rows of a file are counted by its run.
        if !matches!(run, Run::Filed(_)) {
            self.memory.shrink(row.held_bytes());
        }
        debug_assert!(
            self.heads
                .peek()
                .is_none_or(|Reverse((following, _))| row <= *following),
            "rows come out of order"
        );
        Ok(Some(row))
    }

    /// The counts of the rows that were written to disk, if any were.
    pub fn spilled(&self) -> Option<&Spilled> {
        self.spilled.as_deref()
    }
}

/// Sorts a list as `sort_by` does, in steps between which the operation can be ended.
pub(crate) fn sort_in_steps<T>(
    list: &mut Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<()> {
    let mut runs: Vec<std::vec::IntoIter<T>> = Vec::new();
    if list.len() <= RUN_ROWS {
        interrupts::work(list.len() * UNITS_OF_A_ROW)?;
        list.sort_by(compare);
        return Ok(());
    }
    let mut left = std::mem::take(list).into_iter();
    loop {
        let mut run: Vec<T> = left.by_ref().take(RUN_ROWS).collect();
        if run.is_empty() {
            break;
        }
        interrupts::work(run.len() * UNITS_OF_A_ROW)?;
        run.sort_by(&compare);
        runs.push(run.into_iter());
    }
    // Neighbours are merged until one run is left; of equal elements the left one comes first.
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(first) = pairs.next() {
            merged.push(match pairs.next() {
                None => first,
                Some(second) => merge(first, second, &compare)?,
            });
        }
        runs = merged;
    }
    *list = runs.pop().map_or_else(Vec::new, Iterator::collect);
    Ok(())
}

fn merge<T>(
    first: std::vec::IntoIter<T>,
    second: std::vec::IntoIter<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<std::vec::IntoIter<T>> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.peekable(), second.peekable());
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        interrupts::work(UNITS_OF_A_MERGE)?;
        if compare(a, b).is_le() {
            merged.extend(first.next());
        } else {
            merged.extend(second.next());
        }
    }
    merged.extend(first);
    merged.extend(second);
    Ok(merged.into_iter())
}

/// The work of one step of a merge.
const UNITS_OF_A_MERGE: usize = 5;
