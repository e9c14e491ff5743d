//! The histograms of one kind, namespace or shape: one a phase, one for the wall, one for what no phase covered.
//!
//! Rows are shared until they change, so that a picture of all of them costs a counter each.

use std::sync::Arc;

use crate::PHASE_COUNT;
use crate::entry::Entry;
use crate::histogram::Histogram;
use crate::work::SUMMED_COUNT;

/// The row of the wall time, behind those of the phases.
pub(crate) const WALL_ROW: usize = PHASE_COUNT;
/// The row of the time that no phase covered.
pub(crate) const UNATTRIBUTED_ROW: usize = PHASE_COUNT + 1;
pub(crate) const ROW_COUNT: usize = PHASE_COUNT + 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    rows: [Option<Arc<Histogram>>; ROW_COUNT],
    pub work: [u64; SUMMED_COUNT],
}

impl Rows {
    pub fn record(&mut self, entry: &Entry) {
        for &(row, index, ns) in entry.indexed() {
            let row = self.rows[row as usize].get_or_insert_default();
            Arc::make_mut(row).record(index as usize, ns);
        }
        for &(work, amount) in entry.work() {
            self.work[work as usize] = self.work[work as usize].saturating_add(amount);
        }
    }

    pub fn merge(&mut self, other: &Rows) {
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            let Some(theirs) = theirs else { continue };
            match mine {
                Some(mine) => Arc::make_mut(mine).merge(theirs),
                None => *mine = Some(Arc::clone(theirs)),
            }
        }
        for (mine, theirs) in self.work.iter_mut().zip(&other.work) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// What was recorded since `earlier`, an older state of these rows.
    pub fn since(&self, earlier: &Rows) -> Rows {
        let mut rest = Rows::default();
        for (row, (now, then)) in self.rows.iter().zip(&earlier.rows).enumerate() {
            rest.rows[row] = match (now, then) {
                (Some(now), Some(then)) if Arc::ptr_eq(now, then) => None,
                (Some(now), Some(then)) => Some(Arc::new(now.since(then))),
                (now, _) => now.clone(),
            }
            .filter(|row| row.count > 0);
        }
        for (place, work) in rest.work.iter_mut().enumerate() {
            *work = self.work[place].saturating_sub(earlier.work[place]);
        }
        rest
    }

    pub fn row(&self, row: usize) -> Option<&Arc<Histogram>> {
        self.rows[row].as_ref()
    }

    /// Operations recorded.
    pub fn count(&self) -> u64 {
        self.row(WALL_ROW).map_or(0, |wall| wall.count)
    }
}
