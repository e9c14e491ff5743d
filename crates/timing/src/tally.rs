//! The operations of one buffer, added up before they go into the tables.
//!
//! Most operations of a buffer are alike: one kind, one collection, one shape. Counting them once here and adding the
//! sums to the three tables costs a fraction of counting each of them three times. Those that are not among the few
//! combinations kept go into the tables one by one.

use crate::OperationKind;
use crate::entry::Entry;
use crate::histogram::{Histogram, index};
use crate::rows::ROW_COUNT;
use crate::uses::Uses;
use crate::work::SUMMED_COUNT;

/// Combinations added up at once; each takes about 40 KB.
const COMBINATIONS_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Tally {
    combinations: Vec<Combination>,
    /// The one that the last entry belonged to: likely the next one's as well.
    last: usize,
}

/// Operations of one kind with one namespace and one shape.
pub(crate) struct Combination {
    pub kind: OperationKind,
    pub namespace: u32,
    pub shape: u32,
    pub count: u64,
    /// By row.
    pub times: [Histogram; ROW_COUNT],
    pub work: [u64; SUMMED_COUNT],
    pub uses: Uses,
}

impl Combination {
    fn is_of(&self, entry: &Entry<'_>) -> bool {
        (self.namespace, self.shape, self.kind) == (entry.namespace, entry.shape, entry.kind)
    }
}

impl Tally {
    /// Counts the entry; false when it belongs to a combination that there is no room for.
    #[inline]
    pub fn record(&mut self, entry: &Entry<'_>) -> bool {
        let is_last = (self.combinations.get(self.last)).is_some_and(|last| last.is_of(entry));
        if !is_last && !self.find(entry) {
            return false;
        }
        let combination = &mut self.combinations[self.last];
        combination.count += 1;
        entry.each_row(|row, ns| combination.times[row].record(index(ns), ns));
        entry.each_work(|work, amount| {
            combination.work[work] = combination.work[work].saturating_add(amount);
        });
        combination.uses.record(entry.kind, entry.wall_ns);
        true
    }

    fn find(&mut self, entry: &Entry<'_>) -> bool {
        let found = (self.combinations.iter()).position(|one| one.is_of(entry));
        if found.is_none() && self.combinations.len() == COMBINATIONS_MAX {
            return false;
        }
        self.last = found.unwrap_or(self.combinations.len());
        if found.is_none() {
            self.combinations.push(Combination {
                kind: entry.kind,
                namespace: entry.namespace,
                shape: entry.shape,
                count: 0,
                times: Default::default(),
                work: [0; SUMMED_COUNT],
                uses: Uses::default(),
            });
        }
        true
    }

    /// Gives what was counted to `take` and begins anew. Combinations that nothing was counted for make room.
    pub fn drain(&mut self, mut take: impl FnMut(&Combination)) {
        self.combinations.retain_mut(|one| {
            if one.count == 0 {
                return false;
            }
            take(one);
            one.count = 0;
            for times in &mut one.times {
                times.clear();
            }
            one.work = [0; SUMMED_COUNT];
            one.uses.clear();
            true
        });
    }
}
