//! One finished operation on its way from the core it ran on to the histograms: as few words as it needs.
//!
//! ```text
//! word 0   touched phases (bits 0..32), kind (32..40), amounts that are not zero (40..56)
//! word 1   namespace (0..32), shape (32..64)
//! words    wall, unattributed, one a touched phase, one an amount
//! ```

use std::sync::atomic::Ordering::Relaxed;

use crate::OperationKind;
use crate::live::Live;
use crate::rows::{ROW_COUNT, UNATTRIBUTED_ROW, WALL_ROW};
use crate::work::SUMMED_COUNT;

const KIND_SHIFT: u32 = 32;
const WORK_SHIFT: u32 = 40;

/// Words of the longest entry.
pub(crate) const ENTRY_WORDS_MAX: usize = 4 + ROW_COUNT + SUMMED_COUNT;

/// Writes an operation into `room`, and says how many words it took.
#[inline]
pub(crate) fn write(
    room: &mut [u64; ENTRY_WORDS_MAX],
    kind: OperationKind,
    live: &Live,
    wall_ns: u64,
    namespace: u32,
    shape: u32,
) -> usize {
    let mut len = 4;
    let unattributed_ns = live.split(wall_ns, |_, ns| {
        room[len] = ns;
        len += 1;
    });
    let mut counted = 0;
    for (place, amount) in live.work[..SUMMED_COUNT].iter().enumerate() {
        let amount = amount.load(Relaxed);
        if amount != 0 {
            counted |= 1 << place;
            room[len] = amount;
            len += 1;
        }
    }
    let touched = u64::from(live.touched.load(Relaxed));
    room[0] = touched | (kind as u64) << KIND_SHIFT | counted << WORK_SHIFT;
    room[1] = u64::from(namespace) | u64::from(shape) << 32;
    room[2] = wall_ns;
    room[3] = unattributed_ns;
    len
}

/// An operation read back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub kind: OperationKind,
    pub namespace: u32,
    pub shape: u32,
    pub wall_ns: u64,
    unattributed_ns: u64,
    touched: u32,
    counted: u16,
    /// The times of the touched phases, then the amounts.
    values: &'a [u64],
}

impl Entry<'_> {
    /// Calls `each` with the rows that it belongs into, and its times.
    #[inline]
    pub fn each_row(&self, mut each: impl FnMut(usize, u64)) {
        each(WALL_ROW, self.wall_ns);
        each(UNATTRIBUTED_ROW, self.unattributed_ns);
        let mut left = self.touched;
        for &ns in &self.values[..self.touched.count_ones() as usize] {
            each(left.trailing_zeros() as usize, ns);
            left &= left.wrapping_sub(1);
        }
    }

    /// Calls `each` with the places of the amounts that are not zero, and the amounts.
    #[inline]
    pub fn each_work(&self, mut each: impl FnMut(usize, u64)) {
        let mut left = self.counted;
        for &amount in &self.values[self.touched.count_ones() as usize..] {
            each(left.trailing_zeros() as usize, amount);
            left &= left.wrapping_sub(1);
        }
    }
}

/// Takes the first entry off `words`; none at their end.
#[inline]
pub(crate) fn read<'a>(words: &mut &'a [u64]) -> Option<Entry<'a>> {
    let (&[head, labels, wall_ns, unattributed_ns], rest) = words.split_first_chunk()?;
    let (touched, counted) = (head as u32, (head >> WORK_SHIFT) as u16);
    let (values, rest) =
        rest.split_at_checked((touched.count_ones() + counted.count_ones()) as usize)?;
    *words = rest;
    Some(Entry {
        kind: *OperationKind::ALL.get(usize::from((head >> KIND_SHIFT) as u8))?,
        namespace: labels as u32,
        shape: (labels >> 32) as u32,
        wall_ns,
        unattributed_ns,
        touched,
        counted,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, Work};

    #[test]
    fn what_is_written_is_read() {
        let live = Live::with_times(&[(Phase::Plan, 600), (Phase::Send, 300)]);
        live.work[Work::EngineGets as usize].store(3, Relaxed);
        live.work[Work::GroupWriters as usize].store(8, Relaxed);
        live.work[Work::LockHolder as usize].store(77, Relaxed);
        let mut words = Vec::new();
        for shape in 5..7 {
            let mut room = [0; ENTRY_WORDS_MAX];
            let len = write(&mut room, OperationKind::Delete, &live, 1000, 4, shape);
            words.extend_from_slice(&room[..len]);
        }
        let mut left = &words[..];
        for shape in 5..7 {
            let entry = read(&mut left).unwrap();
            assert_eq!(entry.kind, OperationKind::Delete);
            assert_eq!((entry.namespace, entry.shape), (4, shape));
            let (mut times, mut work) = (Vec::new(), Vec::new());
            entry.each_row(|row, ns| times.push((row, ns)));
            entry.each_work(|place, amount| work.push((place, amount)));
            let places: Vec<_> = times.iter().map(|time| time.0).collect();
            let (plan, send) = (Phase::Plan as usize, Phase::Send as usize);
            assert_eq!(places, [WALL_ROW, UNATTRIBUTED_ROW, plan, send]);
            assert_eq!(times[0].1, 1000);
            assert_eq!(times[1..].iter().map(|time| time.1).sum::<u64>(), 1000);
            assert!(times[2].1.abs_diff(600) <= 1 && times[3].1.abs_diff(300) <= 1);
            let (gets, writers) = (Work::EngineGets as usize, Work::GroupWriters as usize);
            assert_eq!(work, [(gets, 3), (writers, 8)]);
        }
        assert!(read(&mut left).is_none());
    }
}
