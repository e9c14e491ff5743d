//! `$skip` and `$limit` moved in front of the stages that make one document of each (`$project`, `$addFields`, `$replaceRoot`): what
//! is left out is not made first, a `$sort` before them holds no more than is wanted, and one that comes to the head of the pipeline is a
//! part of the find. Two that come to stand side by side become one. As with MongoDB, an error that a stage would have made of a
//! document left out is not made.

use std::sync::Arc;

use super::stage::{PartOfFind, Stage};
use super::{limit, skip};

/// The stages with their bounds moved forward. Bounds keep their order, and so do the others.
pub(super) fn limits_forward(mut stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    // The stages directly in front that a bound may pass.
    let mut passed = 0;
    for place in 0..stages.len() {
        let stage = &stages[place];
        if is_bound(stage) {
            stages[place - passed..=place].rotate_right(1);
        } else if stage.as_map().is_some() {
            passed += 1;
        } else {
            passed = 0;
        }
    }
    merge_neighbours(stages)
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
