//! The histograms of one kind, namespace or shape: one a phase, one for the wall, one for what no phase covered.
//!
//! A picture of them shares what has not changed since the picture before, so that idle rows cost a counter each.
//! Recording touches no shared counter.

use std::sync::Arc;

use crate::PHASE_COUNT;
use crate::entry::Entry;
use crate::histogram::{Histogram, index};
use crate::work::SUMMED_COUNT;

/// The row of the wall time, behind those of the phases.
pub(crate) const WALL_ROW: usize = PHASE_COUNT;
/// The row of the time that no phase covered.
pub(crate) const UNATTRIBUTED_ROW: usize = PHASE_COUNT + 1;
pub(crate) const ROW_COUNT: usize = PHASE_COUNT + 2;

#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: [Option<Box<Row>>; ROW_COUNT],
    work: [u64; SUMMED_COUNT],
}

#[derive(Debug, Default)]
struct Row {
    histogram: Histogram,
    /// What the last picture showed, unless the row has changed since.
    shown: Option<Arc<Histogram>>,
}

impl Rows {
    pub fn record(&mut self, entry: &Entry<'_>) {
        entry.each_row(|row, ns| {
            let row = self.rows[row].get_or_insert_default();
            row.shown = None;
            row.histogram.record(index(ns), ns);
        });
        entry.each_work(|work, amount| self.work[work] = self.work[work].saturating_add(amount));
    }

    pub fn merge(&mut self, other: &Rows) {
        for (row, theirs) in other.rows.iter().enumerate() {
            if let Some(theirs) = theirs {
                self.merge_row(row, &theirs.histogram);
            }
        }
        self.merge_work(&other.work);
    }

    /// Takes what was added up elsewhere.
    pub fn merge_sums(&mut self, times: &[Histogram; ROW_COUNT], work: &[u64; SUMMED_COUNT]) {
        for (row, theirs) in times.iter().enumerate() {
            self.merge_row(row, theirs);
        }
        self.merge_work(work);
    }

    fn merge_row(&mut self, row: usize, theirs: &Histogram) {
        if theirs.count > 0 {
            let mine = self.rows[row].get_or_insert_default();
            mine.shown = None;
            mine.histogram.merge(theirs);
        }
    }

    fn merge_work(&mut self, theirs: &[u64; SUMMED_COUNT]) {
        for (mine, theirs) in self.work.iter_mut().zip(theirs) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// The rows as they are now.
    pub fn picture(&mut self) -> RowsPicture {
        let mut picture = RowsPicture {
            work: self.work,
            ..RowsPicture::default()
        };
        for (shown, row) in picture.rows.iter_mut().zip(&mut self.rows) {
            let Some(row) = row else { continue };
            let histogram = &row.histogram;
            let now = row.shown.get_or_insert_with(|| Arc::new(histogram.clone()));
            *shown = Some(Arc::clone(now));
        }
        picture
    }
}

/// Rows at one moment, or what was recorded between two.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsPicture {
    rows: [Option<Arc<Histogram>>; ROW_COUNT],
    pub work: [u64; SUMMED_COUNT],
}

impl RowsPicture {
    /// What was recorded since `earlier`, an older picture of the same rows.
    pub fn since(&self, earlier: &RowsPicture) -> RowsPicture {
        let mut rest = RowsPicture::default();
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

    pub fn merge(&mut self, other: &RowsPicture) {
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => Arc::make_mut(mine).merge(theirs),
                (mine @ None, theirs) => mine.clone_from(theirs),
                (Some(_), None) => {}
            }
        }
        for (mine, theirs) in self.work.iter_mut().zip(&other.work) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    pub fn row(&self, row: usize) -> Option<&Arc<Histogram>> {
        self.rows[row].as_ref()
    }

    /// Operations recorded.
    pub fn count(&self) -> u64 {
        self.row(WALL_ROW).map_or(0, |wall| wall.count)
    }
}
