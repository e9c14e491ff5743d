//! The histograms of one kind, namespace or shape: one a phase, one for the wall, one for what no phase covered.
//!
//! A picture of them shares what has not changed since the picture before, so that idle rows cost a counter each.
//! Recording touches no shared counter.

use std::sync::Arc;

use crate::entry::Entry;
use crate::histogram::Histogram;
use crate::row::{ROW_COUNT, WALL_ROW, each_ns};
use crate::tally::Combination;
use crate::work::SUMMED_COUNT;

#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: [Option<Box<Row>>; ROW_COUNT],
    work: [u64; SUMMED_COUNT],
}

#[derive(Debug, Default)]
struct Row {
    histogram: Histogram,
    /// The row as the last picture showed it, unless it has changed since.
    shown: Option<Arc<Histogram>>,
}

impl Rows {
    pub fn record(&mut self, entry: &Entry<'_>) {
        let times = entry.times.iter().copied();
        each_ns(entry.head.rows(), times, |row, ns| self.row(row).record(ns));
        for row in entry.head.passed_rows() {
            self.row(row).record(0);
        }
        self.merge_work(entry.amounts);
    }

    fn row(&mut self, row: usize) -> &mut Histogram {
        let row = self.rows[row].get_or_insert_default();
        row.shown = None;
        &mut row.histogram
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
    pub fn add(&mut self, sum: &Combination) {
        sum.each_row(|row, buckets, ns| self.row(row).add(buckets, sum.count, ns));
        for row in sum.head.passed_rows() {
            self.row(row).add_zeros(sum.count);
        }
        self.merge_work(&sum.work);
    }

    fn merge_row(&mut self, row: usize, theirs: &Histogram) {
        if theirs.count > 0 {
            self.row(row).merge(theirs);
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
    /// The values recorded since `earlier`, which is an older picture of these rows.
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
