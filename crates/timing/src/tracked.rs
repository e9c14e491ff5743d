//! The figures of the labels that are kept apart: uses for all of them, histograms by phase for the busiest few.
//!
//! Bounded twice: the least used labels are forgotten when there are too many, and their uses join "other"; a label
//! that has become busy takes the histograms' place of one that is idle, whose figures join those of "other".

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::interner::{NONE, OTHER};
use crate::rows::{Rows, RowsPicture};
use crate::uses::Uses;

/// Labels with histograms of their own.
pub(crate) const BUSIEST_MAX: usize = 32;
/// Places that change hands in one turn.
const CHANGES_MAX: usize = 4;

#[derive(Default)]
pub(crate) struct Tracked {
    /// Uses are kept beside the histograms.
    has_uses: bool,
    labels: FxHashMap<u32, One>,
    with_rows: usize,
    pub other_uses: Uses,
    pub other_rows: Rows,
}

#[derive(Default)]
struct One {
    uses: Uses,
    /// Operations of late: halved at every turn.
    recent: u64,
    rows: Option<Box<Rows>>,
}

impl Tracked {
    pub fn with_uses() -> Tracked {
        Tracked {
            has_uses: true,
            ..Tracked::default()
        }
    }

    /// Lets `add` put `count` operations of a label into its figures, or into those of "other". `is_known` tells
    /// labels from numbers that were taken back meanwhile.
    pub fn record(
        &mut self,
        id: u32,
        count: u64,
        is_known: impl FnOnce() -> bool,
        add: impl Fn(&mut Rows, Option<&mut Uses>),
    ) {
        if id == NONE {
            return;
        }
        let has_uses = self.has_uses;
        let one = match self.labels.entry(id) {
            Entry::Occupied(one) => one.into_mut(),
            Entry::Vacant(free) if id != OTHER && is_known() => free.insert(One::default()),
            Entry::Vacant(_) => {
                let uses = has_uses.then_some(&mut self.other_uses);
                add(&mut self.other_rows, uses);
                return;
            }
        };
        one.recent += count;
        if one.rows.is_none() && self.with_rows < BUSIEST_MAX {
            self.with_rows += 1;
            one.rows = Some(Box::default());
        }
        let uses = has_uses.then_some(&mut one.uses);
        add(
            one.rows.as_deref_mut().unwrap_or(&mut self.other_rows),
            uses,
        );
    }

    /// Gives the histograms of idle labels to busy ones; returns those that lost theirs.
    pub fn turn(&mut self) -> Vec<u32> {
        let mut lost = Vec::new();
        while lost.len() < CHANGES_MAX {
            let with = self.labels.iter().filter(|(_, one)| one.rows.is_some());
            let idlest = with.min_by_key(|(_, one)| one.recent);
            let without = self.labels.iter().filter(|(_, one)| one.rows.is_none());
            let busiest = without.max_by_key(|(_, one)| one.recent);
            let (Some((&idle, idlest)), Some((&busy, busiest))) = (idlest, busiest) else {
                break;
            };
            if self.with_rows < BUSIEST_MAX || busiest.recent <= 2 * idlest.recent {
                break;
            }
            let rows = self.labels.get_mut(&idle).and_then(|one| one.rows.take());
            if let Some(rows) = rows {
                self.other_rows.merge(&rows);
            }
            if let Some(one) = self.labels.get_mut(&busy) {
                one.rows = Some(Box::default());
            }
            lost.push(idle);
        }
        for one in self.labels.values_mut() {
            one.recent /= 2;
        }
        lost
    }

    /// Takes the histograms from every label; returns those that lost theirs.
    pub fn free(&mut self) -> Vec<u32> {
        let mut lost = Vec::new();
        for (id, one) in &mut self.labels {
            one.recent = 0;
            if let Some(rows) = one.rows.take() {
                self.other_rows.merge(&rows);
                lost.push(*id);
            }
        }
        self.with_rows = 0;
        lost
    }

    /// The least used quarter.
    pub fn idlest_quarter(&self) -> Vec<u32> {
        let mut by_use: Vec<(u64, u32)> = self
            .labels
            .iter()
            .map(|(id, one)| (one.recent, *id))
            .collect();
        by_use.sort_unstable();
        by_use.truncate(by_use.len().div_ceil(4));
        by_use.into_iter().map(|(_, id)| id).collect()
    }

    pub fn forget(&mut self, id: u32) {
        let Some(one) = self.labels.remove(&id) else {
            return;
        };
        self.other_uses.merge(&one.uses);
        if let Some(rows) = one.rows {
            self.with_rows -= 1;
            self.other_rows.merge(&rows);
        }
    }

    pub fn uses(&self) -> impl Iterator<Item = (u32, &Uses)> {
        self.labels.iter().map(|(id, one)| (*id, &one.uses))
    }

    pub fn uses_of(&self, id: u32) -> Option<&Uses> {
        self.labels.get(&id).map(|one| &one.uses)
    }

    /// The labels with histograms, and "other".
    pub fn picture(&mut self) -> FxHashMap<u32, RowsPicture> {
        let other = self.other_rows.picture();
        let busiest = self
            .labels
            .iter_mut()
            .filter_map(|(id, one)| Some((*id, one.rows.as_mut()?.picture())));
        let other = (other.count() > 0).then_some((OTHER, other));
        busiest.chain(other).collect()
    }
}
