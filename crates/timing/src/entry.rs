//! One finished operation on its way from the core it ran on to the histograms: copied as it stands in the thread's
//! `Live`, in ticks of the clock, because whoever reads it has the time to make figures of it.
//!
//! ```text
//! word 0   what was touched: phases, and the bit of the time without one (bits 0..32); kind (32..40)
//! word 1   namespace (0..32), shape (32..64)
//! words    the amounts, all of them
//! words    the wall, then the time of everything touched, in the order of its bits
//! ```

use std::sync::atomic::Ordering::Relaxed;

use crate::live::{Live, SLOT_MASK};
use crate::rows::{UNATTRIBUTED_ROW, WALL_ROW};
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
    wall: u64,
    namespace: u32,
    shape: u32,
) -> usize {
    let mut left = live.touched.load(Relaxed);
    room[0] = u64::from(left) | (kind as u64) << KIND_SHIFT;
    room[1] = u64::from(namespace) | u64::from(shape) << 32;
    for (word, amount) in room[AMOUNTS..WALL].iter_mut().zip(&live.work) {
        *word = amount.load(Relaxed);
    }
    room[WALL] = wall;
    let mut len = WALL + 1;
    while left != 0 {
        let slot = left.trailing_zeros() as usize & SLOT_MASK;
        room[len % ENTRY_WORDS_MAX] = live.slots[slot].load(Relaxed);
        live.slots[slot].store(0, Relaxed);
        len += 1;
        left &= left - 1;
    }
    live.touched.store(0, Relaxed);
    len
}

/// What entries have in common that go into the same histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    touched_and_kind: u64,
    labels: u64,
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
        let touched = self.touched_and_kind as u32;
        let slots = (0..=UNATTRIBUTED_ROW).filter(move |slot| touched & (1 << slot) != 0);
        std::iter::once(WALL_ROW).chain(slots)
    }

    fn times_len(self) -> usize {
        1 + (self.touched_and_kind as u32).count_ones() as usize
    }
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

/// Takes the first entry off `words`; none at their end. `like` is what it likely has in common with the one before,
/// and how many times that had.
#[inline]
pub(crate) fn read<'a>(words: &mut &'a [u64], like: Option<(Head, usize)>) -> Option<Entry<'a>> {
    let (&[touched_and_kind, labels], rest) = words.split_first_chunk::<AMOUNTS>()?;
    let (amounts, rest) = rest.split_first_chunk()?;
    let head = Head {
        touched_and_kind,
        labels,
    };
    let times_len = match like {
        Some((like, times_len)) if like == head => times_len,
        _ => head.times_len(),
    };
    let (times, rest) = rest.split_at_checked(times_len)?;
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
            live.work[Work::EngineGets as usize].store(3, Relaxed);
            live.work[Work::GroupWriters as usize].store(8, Relaxed);
            live.work[Work::LockHolder as usize].store(77, Relaxed);
            let mut room = [0; ENTRY_WORDS_MAX];
            let len = write(&mut room, OperationKind::Delete, &live, 1000, 4, shape);
            words.extend_from_slice(&room[..len]);
            assert!(live.slots.iter().all(|slot| slot.load(Relaxed) == 0));
        }
        let mut left = &words[..];
        let mut like = None;
        for shape in 5..7 {
            let entry = read(&mut left, like).unwrap();
            like = Some((entry.head, entry.times.len()));
            assert_eq!(entry.head.kind(), Some(OperationKind::Delete));
            assert_eq!((entry.head.namespace(), entry.head.shape()), (4, shape));
            let rows: Vec<_> = entry.head.rows().collect();
            let (plan, send) = (Phase::Plan as usize, Phase::Send as usize);
            assert_eq!(rows, [WALL_ROW, plan, send, UNATTRIBUTED_ROW]);
            assert_eq!(entry.times, [1000, 600, 300, 100]);
            let mut expected = [0; SUMMED_COUNT];
            expected[Work::EngineGets as usize] = 3;
            expected[Work::GroupWriters as usize] = 8;
            assert_eq!(*entry.amounts, expected);
        }
        assert!(read(&mut left, like).is_none());
    }
}
