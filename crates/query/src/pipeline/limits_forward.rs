//! `$skip`, `$limit` and `$sort` moved in front of the stages that make one document of each (`$project`, `$addFields`, `$lookup`): what
//! is left out is not made first, a `$sort` before them holds no more than is wanted, and one that comes to the head of the pipeline is a
//! part of the find, which an index can serve. Two bounds that come to stand side by side become one. As with MongoDB, an error that a stage
//! would have made of a document left out is not made.
//!
//! A `$sort` passes the stages that spare what it orders by: all of them where a `$limit` follows it, because few documents go through
//! them then; otherwise only those that look up documents, as in MongoDB. Equal documents keep their order behind a sort, so that
//! nobody sees whether it has moved.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::limit::results_wanted;
use super::stage::{Modifies, PartOfFind, Stage};
use super::{limit, skip};
use crate::error::Result;
use crate::interrupts;

/// The stages that all sorts of a pipeline look past together. A request may have a thousand stages.
const STEPS_MAX: usize = 10_000;

/// The work of looking past a stage.
const UNITS_OF_A_STEP: usize = 20;

/// A sort of more results would hold what the stages that it passes take out of the documents.
const MAPPED_RESULTS_MAX: u64 = 100;

/// The stages with their bounds and sorts moved forward. Bounds keep their order, and so do sorts and the others.
pub(super) fn limits_forward(stages: Vec<Arc<dyn Stage>>) -> Result<Vec<Arc<dyn Stage>>> {
    let mut stages = bounds_forward(stages);
    if sorts_forward(&mut stages)? {
        stages = bounds_forward(stages);
    }
    Ok(merge_neighbours(stages))
}

fn bounds_forward(mut stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    // The stages directly in front that a bound may pass.
    let mut passed = 0;
    for place in 0..stages.len() {
        let stage = &stages[place];
        if is_bound(stage) {
            stages[place - passed..=place].rotate_right(1);
        } else if stage.is_one_to_one() {
            passed += 1;
        } else {
            passed = 0;
        }
    }
    stages
}

/// Moves the sorts; false if none has moved.
fn sorts_forward(stages: &mut [Arc<dyn Stage>]) -> Result<bool> {
    let is_sort = |stage: &Arc<dyn Stage>| matches!(stage.part_of_find(), PartOfFind::Sort(..));
    if !stages.iter().skip(1).any(is_sort) {
        return Ok(false);
    }
    // What each stage modifies, asked of it once; a stage takes it along.
    let mut modifies: Vec<OnceCell<Modifies>> = stages.iter().map(|_| OnceCell::new()).collect();
    let (mut has_moved, mut steps) = (false, 0);
    for place in 1..stages.len() {
        let (before, following) = stages.split_at(place);
        let Some(read) = order_of(&following[0]) else {
            continue;
        };
        let is_limited =
            results_wanted(&following[1..]).is_some_and(|wanted| wanted <= MAPPED_RESULTS_MAX);
        let passes = |(stage, modifies): &(&Arc<dyn Stage>, &OnceCell<Modifies>)| {
            steps += 1;
            let is_passable = is_limited || stage.as_map().is_none();
            steps < STEPS_MAX
                && is_passable
                && stage.is_one_to_one()
                && stage.metadata().is_empty()
                && modifies.get_or_init(|| stage.modifies()).spares(&read)
        };
        let in_front = before.iter().rev().zip(modifies[..place].iter().rev());
        let passed = in_front.take_while(passes).count();
        interrupts::work(UNITS_OF_A_STEP * (1 + passed))?;
        stages[place - passed..=place].rotate_right(1);
        modifies[place - passed..=place].rotate_right(1);
        has_moved |= passed > 0;
    }
    Ok(has_moved)
}

/// The top-level fields that a sort orders by; None of another stage, and of an order by what is no field.
fn order_of(stage: &Arc<dyn Stage>) -> Option<BTreeSet<String>> {
    let PartOfFind::Sort(_, pattern) = stage.part_of_find() else {
        return None;
    };
    let is_by_fields = stage.metadata().is_empty() && !pattern.fields().is_empty();
    let fields = pattern.fields().iter();
    is_by_fields.then(|| fields.map(|field| field.path.first().to_owned()).collect())
}

fn is_bound(stage: &Arc<dyn Stage>) -> bool {
    let part = stage.part_of_find();
    matches!(part, PartOfFind::Skip(_) | PartOfFind::Limit(_))
}

/// The least of the limits that stand side by side, and the sum of such skips.
fn merge_neighbours(stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    let mut merged: Vec<Arc<dyn Stage>> = Vec::with_capacity(stages.len());
    for stage in stages {
        let before = merged.last().map(|before| before.part_of_find());
        let both: Option<Arc<dyn Stage>> = match (before, stage.part_of_find()) {
            (Some(PartOfFind::Limit(before)), PartOfFind::Limit(count)) => {
                Some(limit::of(before.min(count)))
            }
            (Some(PartOfFind::Skip(before)), PartOfFind::Skip(count)) => {
                Some(skip::of(before.saturating_add(count)))
            }
            _ => None,
        };
        match both {
            Some(both) => {
                merged.pop();
                merged.push(both);
            }
            None => merged.push(stage),
        }
    }
    merged
}
