//! Sorting in memory: rows of a sort key and a payload, handed out in order, no more of them than are wanted.
//!
//! No step of it takes long, so that an operation can be ended at any time: rows are sorted in short runs, as they come,
//! and the runs are merged as rows are asked for. Rows with equal keys stay in the order in which they came. A row's
//! memory is given back when it leaves.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::interrupts::{self, units_of_bytes};
use crate::stage_memory::BoundedMemory;

/// Rows that are sorted at once.
const RUN_ROWS: usize = 4096;

/// The work of finding a row's place in its run.
const UNITS_OF_A_ROW: usize = 40;

pub(crate) struct Sorter {
    kept: Kept,
    memory: BoundedMemory,
    sequence: u64,
}

enum Kept {
    /// Everything is wanted: runs that are sorted, and the one that fills.
    All { runs: Vec<Run>, filling: Vec<Row> },
    /// The least so many rows, the greatest of them on top.
    Least {
        wanted: usize,
        rows: BinaryHeap<Row>,
    },
}

type Run = std::vec::IntoIter<Row>;

pub(crate) struct Row {
    /// The key and behind it the payload.
    bytes: Box<[u8]>,
    key_bytes: usize,
    sequence: u64,
}

impl Sorter {
    pub fn new(wanted: Option<u64>) -> Sorter {
        let kept = match wanted.and_then(|wanted| usize::try_from(wanted).ok()) {
            None => Kept::All {
                runs: Vec::new(),
                filling: Vec::new(),
            },
            Some(wanted) => Kept::Least {
                wanted,
                rows: BinaryHeap::new(),
            },
        };
        Sorter {
            kept,
            memory: BoundedMemory::default(),
            sequence: 0,
        }
    }

    /// Fails when the rows kept outgrow `MEMORY_BYTES_MAX`.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        interrupts::work(UNITS_OF_A_ROW + units_of_bytes(key.len() + payload.len()))?;
        if let Kept::Least { wanted, rows } = &mut self.kept
            && rows.len() >= *wanted
        {
            // The newest row loses against an equal one: it came later.
            if rows.peek().is_none_or(|last| key >= last.key()) {
                return Ok(());
            }
            if let Some(last) = rows.pop() {
                self.memory.shrink(last.held_bytes());
            }
        }
        self.sequence += 1;
        let row = Row {
            bytes: [key, payload].concat().into_boxed_slice(),
            key_bytes: key.len(),
            sequence: self.sequence,
        };
        self.memory.grow(row.held_bytes(), "Sort")?;
        match &mut self.kept {
            Kept::Least { rows, .. } => rows.push(row),
            Kept::All { runs, filling } => {
                filling.push(row);
                if filling.len() == RUN_ROWS {
                    runs.push(sorted_run(std::mem::take(filling))?);
                }
            }
        }
        Ok(())
    }

    /// The rows in order.
    pub fn finish(self) -> Result<Sorted> {
        let (mut runs, mut left) = match self.kept {
            Kept::All { runs, filling } => (runs, filling),
            Kept::Least { rows, .. } => (Vec::new(), rows.into_vec()),
        };
        while !left.is_empty() {
            let run = left.split_off(left.len().saturating_sub(RUN_ROWS));
            runs.push(sorted_run(run)?);
        }
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next().map(|row| Reverse((row, number))));
        }
        Ok(Sorted {
            runs,
            heads,
            memory: self.memory,
        })
    }
}

fn sorted_run(mut rows: Vec<Row>) -> Result<Run> {
    interrupts::work(rows.len() * UNITS_OF_A_ROW)?;
    rows.sort_unstable();
    Ok(rows.into_iter())
}

pub(crate) struct Sorted {
    runs: Vec<Run>,
    /// The least row of each run, with the run's number.
    heads: BinaryHeap<Reverse<(Row, usize)>>,
    memory: BoundedMemory,
}

impl Sorted {
    /// The next row, None at the end.
    pub fn next(&mut self) -> Result<Option<Row>> {
        interrupts::work(UNITS_OF_A_ROW)?;
        let Some(Reverse((row, number))) = self.heads.pop() else {
            return Ok(None);
        };
        if let Some(following) = self.runs[number].next() {
            self.heads.push(Reverse((following, number)));
        }
        debug_assert!(
            self.heads
                .peek()
                .is_none_or(|Reverse((following, _))| row <= *following),
            "rows come out of order"
        );
        self.memory.shrink(row.held_bytes());
        Ok(Some(row))
    }
}

impl Row {
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.key_bytes..]
    }

    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + size_of::<Row>()
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        self.key()
            .cmp(other.key())
            .then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

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
