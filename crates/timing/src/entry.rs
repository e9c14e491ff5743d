//! One finished operation on its way from the core it ran on to the histograms, when it is of no combination that the
//! core adds up: copied as it stands in the thread's `Live`, in ticks of the clock, because whoever reads it has the
//! time to make figures of it.
//!
//! ```text
//! word 0   what was touched and what was passed, as `Live` has it (bits 0..32); kind (32..40)
//! word 1   namespace (0..32), shape (32..64)
//! words    the amounts, all of them
//! words    the wall, then the time of everything touched, in the order of its bits
//! ```

use std::sync::atomic::Ordering::Relaxed;

use crate::live::Live;
use crate::phase::{passed, touched};
use crate::row::{UNATTRIBUTED_ROW, WALL_ROW};
use crate::work::SUMMED_COUNT;
use crate::{OperationKind, PHASE_COUNT};

const KIND_SHIFT: u32 = 32;
const AMOUNTS: usize = 2;
const WALL: usize = AMOUNTS + SUMMED_COUNT;

/// Room that holds the longest entry; a power of two, so that a place in it needs no check.
pub(crate) const ENTRY_WORDS_MAX: usize = 64;
const _: () =
    assert!(WALL + 1 + PHASE_COUNT < ENTRY_WORDS_MAX && ENTRY_WORDS_MAX.is_power_of_two());

/// Moves an operation into `room`, and says how many words it took.
#[inline]
pub(crate) fn write(
    room: &mut [u64; ENTRY_WORDS_MAX],
    kind: OperationKind,
    live: &Live,
    namespace: u32,
    shape: u32,
) -> usize {
    let mut left = touched(live.touched.load(Relaxed));
    room[0] = touched_and_kind(kind, live);
    room[1] = u64::from(namespace) | u64::from(shape) << 32;
    room[AMOUNTS..WALL].copy_from_slice(&live.take_work()[..SUMMED_COUNT]);
    room[WALL] = live.take_slot(WALL_ROW);
    let mut len = WALL + 1;
    while left != 0 {
        room[len % ENTRY_WORDS_MAX] = live.take_slot(left.trailing_zeros() as usize);
        len += 1;
        left &= left - 1;
    }
    live.touched.store(0, Relaxed);
    len
}

/// The key of a histogram: entries that share it go into the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Head {
    pub touched_and_kind: u64,
    labels: u64,
}

/// The first word of an entry.
#[inline]
pub(crate) fn touched_and_kind(kind: OperationKind, live: &Live) -> u64 {
    u64::from(live.touched.load(Relaxed)) | (kind as u64) << KIND_SHIFT
}

impl Head {
    /// None where the words are no entry.
    pub fn kind(self) -> Option<OperationKind> {
        let place = (self.touched_and_kind >> KIND_SHIFT) as usize;
        OperationKind::ALL.get(place).copied()
    }

    pub fn namespace(self) -> u32 {
        self.labels as u32
    }

    pub fn shape(self) -> u32 {
        (self.labels >> 32) as u32
    }

    /// The rows of the entry's times, in their order.
    pub fn rows(self) -> impl Iterator<Item = usize> {
        let touched = touched(self.touched_and_kind as u32);
        std::iter::once(WALL_ROW).chain(rows_of(touched))
    }

    /// The rows that took no time.
    pub fn passed_rows(self) -> impl Iterator<Item = usize> {
        rows_of(passed(self.touched_and_kind as u32))
    }

    fn times_len(self) -> usize {
        1 + touched(self.touched_and_kind as u32).count_ones() as usize
    }
}

fn rows_of(bits: u32) -> impl Iterator<Item = usize> {
    (0..=UNATTRIBUTED_ROW).filter(move |row| bits & (1 << row) != 0)
}

/// An operation read back; times in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub head: Head,
    pub amounts: &'a [u64; SUMMED_COUNT],
    /// By row of [`Head::rows`]: the wall, then its parts.
    pub times: &'a [u64],
}

impl Entry<'_> {
    pub fn wall(&self) -> u64 {
        self.times.first().copied().unwrap_or(0)
    }
}

/// Takes the first entry off `words`; none at their end.
pub(crate) fn read<'a>(words: &mut &'a [u64]) -> Option<Entry<'a>> {
    let (&[touched_and_kind, labels], rest) = words.split_first_chunk::<AMOUNTS>()?;
    let (amounts, rest) = rest.split_first_chunk()?;
    let head = Head {
        touched_and_kind,
        labels,
    };
    let (times, rest) = rest.split_at_checked(head.times_len())?;
    *words = rest;
    Some(Entry {
        head,
        amounts,
        times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, Work};

    #[test]
    fn what_is_written_is_read() {
        let mut words = Vec::new();
        for shape in 5..7 {
            let live = Live::with_ticks(&[(Phase::Plan, 600), (Phase::Send, 300)], 1000);
            live.touched.fetch_or(Phase::Read.passed_bit(), Relaxed);
            live.work[Work::EngineGets as usize].store(3, Relaxed);
            live.work[Work::GroupWriters as usize].store(8, Relaxed);
            live.work[Work::LockHolder as usize].store(77, Relaxed);
            let mut room = [0; ENTRY_WORDS_MAX];
            let len = write(&mut room, OperationKind::Delete, &live, 4, shape);
            words.extend_from_slice(&room[..len]);
            assert!(live.slots.iter().all(|slot| slot.load(Relaxed) == 0));
        }
        let mut left = &words[..];
        for shape in 5..7 {
            let entry = read(&mut left).unwrap();
            assert_eq!(entry.head.kind(), Some(OperationKind::Delete));
            assert_eq!((entry.head.namespace(), entry.head.shape()), (4, shape));
            let rows: Vec<_> = entry.head.rows().collect();
            let (plan, send) = (Phase::Plan as usize, Phase::Send as usize);
            assert_eq!(rows, [WALL_ROW, plan, send, UNATTRIBUTED_ROW]);
            assert_eq!(entry.times, [1000, 600, 300, 100]);
            let passed: Vec<_> = entry.head.passed_rows().collect();
            assert_eq!(passed, [Phase::Read as usize]);
            let mut expected = [0; SUMMED_COUNT];
            expected[Work::EngineGets as usize] = 3;
            expected[Work::GroupWriters as usize] = 8;
            assert_eq!(*entry.amounts, expected);
        }
        assert!(read(&mut left).is_none());
    }
}
