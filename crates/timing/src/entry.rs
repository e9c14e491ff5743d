//! One finished operation on its way from the core it ran on to the histograms: as few words as it needs.
//!
//! ```text
//! word 0   touched phases (bits 0..32), kind (32..40), amounts that are not zero (40..56)
//! word 1   namespace (0..32), shape (32..64)
//! words    wall, unattributed, one a touched phase, one an amount
//! ```

use crate::histogram::index;
use crate::rows::{ROW_COUNT, UNATTRIBUTED_ROW, WALL_ROW};
use crate::work::SUMMED_COUNT;
use crate::{Breakdown, OperationKind};

const KIND_SHIFT: u32 = 32;
const WORK_SHIFT: u32 = 40;

/// Words of the longest entry.
pub(crate) const ENTRY_WORDS_MAX: usize = 4 + ROW_COUNT + SUMMED_COUNT;

/// Writes an operation behind what stands in `words`.
#[inline]
pub(crate) fn write(
    words: &mut Vec<u64>,
    kind: OperationKind,
    breakdown: &Breakdown,
    namespace: u32,
    shape: u32,
) {
    let start = words.len();
    let touched = u64::from(breakdown.touched);
    words.push(touched | (kind as u64) << KIND_SHIFT);
    words.push(u64::from(namespace) | u64::from(shape) << 32);
    words.push(breakdown.wall_ns);
    words.push(breakdown.unattributed_ns);
    let mut left = breakdown.touched;
    while left != 0 {
        words.push(breakdown.phases[left.trailing_zeros() as usize]);
        left &= left - 1;
    }
    let mut counted = 0;
    for (place, &amount) in breakdown.work[..SUMMED_COUNT].iter().enumerate() {
        if amount != 0 {
            counted |= 1 << place;
            words.push(amount);
        }
    }
    words[start] |= counted << WORK_SHIFT;
}

/// An operation read back, its times with the buckets that they fall into.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub kind: OperationKind,
    pub namespace: u32,
    pub shape: u32,
    pub wall_ns: u64,
    indexed: [(u8, u16, u64); ROW_COUNT],
    indexed_len: usize,
    work: [(u8, u64); SUMMED_COUNT],
    work_len: usize,
}

impl Entry {
    pub fn indexed(&self) -> &[(u8, u16, u64)] {
        &self.indexed[..self.indexed_len]
    }

    pub fn work(&self) -> &[(u8, u64)] {
        &self.work[..self.work_len]
    }

    fn add(&mut self, row: usize, ns: u64) {
        self.indexed[self.indexed_len] = (row as u8, index(ns) as u16, ns);
        self.indexed_len += 1;
    }
}

/// Takes the first entry off `words`; none at their end.
pub(crate) fn read(words: &mut &[u64]) -> Option<Entry> {
    let mut next = || {
        let (first, rest) = words.split_first()?;
        *words = rest;
        Some(*first)
    };
    let (head, labels, wall_ns, unattributed_ns) = (next()?, next()?, next()?, next()?);
    let mut entry = Entry {
        kind: *OperationKind::ALL.get(usize::from((head >> KIND_SHIFT) as u8))?,
        namespace: labels as u32,
        shape: (labels >> 32) as u32,
        wall_ns,
        indexed: [(0, 0, 0); ROW_COUNT],
        indexed_len: 0,
        work: [(0, 0); SUMMED_COUNT],
        work_len: 0,
    };
    entry.add(WALL_ROW, wall_ns);
    entry.add(UNATTRIBUTED_ROW, unattributed_ns);
    let mut touched = head as u32;
    while touched != 0 {
        entry.add(touched.trailing_zeros() as usize, next()?);
        touched &= touched - 1;
    }
    let mut counted = (head >> WORK_SHIFT) as u16;
    while counted != 0 {
        entry.work[entry.work_len] = (counted.trailing_zeros() as u8, next()?);
        entry.work_len += 1;
        counted &= counted - 1;
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, Work};

    #[test]
    fn what_is_written_is_read() {
        let mut breakdown = Breakdown {
            wall_ns: 1000,
            unattributed_ns: 100,
            ..Breakdown::default()
        };
        breakdown.phases[Phase::Plan as usize] = 600;
        breakdown.phases[Phase::Send as usize] = 300;
        breakdown.touched = Phase::Plan.bit() | Phase::Send.bit();
        breakdown.work[Work::EngineGets as usize] = 3;
        breakdown.work[Work::GroupWriters as usize] = 8;
        breakdown.work[Work::LockHolder as usize] = 77;
        let mut words = Vec::new();
        for shape in 5..7 {
            write(&mut words, OperationKind::Delete, &breakdown, 4, shape);
        }
        assert!(words.len() <= 2 * ENTRY_WORDS_MAX);
        let mut left = &words[..];
        for shape in 5..7 {
            let entry = read(&mut left).unwrap();
            assert_eq!(entry.kind, OperationKind::Delete);
            assert_eq!((entry.namespace, entry.shape), (4, shape));
            let times: Vec<_> = entry.indexed().iter().map(|row| (row.0, row.2)).collect();
            assert_eq!(
                times,
                [
                    (WALL_ROW as u8, 1000),
                    (UNATTRIBUTED_ROW as u8, 100),
                    (Phase::Plan as u8, 600),
                    (Phase::Send as u8, 300)
                ]
            );
            assert_eq!(
                entry.work(),
                [(Work::EngineGets as u8, 3), (Work::GroupWriters as u8, 8)]
            );
        }
        assert!(read(&mut left).is_none());
    }
}
