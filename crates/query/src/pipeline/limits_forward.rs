//! `$skip` and `$limit` moved in front of the stages that make one document of each (`$project`, `$addFields`, `$replaceRoot`): what
//! is left out is not made first, a `$sort` before them holds no more than is wanted, and one that comes to the head of the pipeline is a
//! part of the find. As with MongoDB, an error that a stage would have made of a document left out is not made.

use std::sync::Arc;

use super::stage::{PartOfFind, Stage};

/// The stages with their bounds moved forward. Bounds keep their order, and so do the others.
pub(super) fn limits_forward(mut stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    // The stages directly in front that a bound may pass.
    let mut passed = 0;
    for place in 0..stages.len() {
        let stage = &stages[place];
        if matches!(
            stage.part_of_find(),
            PartOfFind::Skip(_) | PartOfFind::Limit(_)
        ) {
            stages[place - passed..=place].rotate_right(1);
        } else if stage.as_map().is_some() {
            passed += 1;
        } else {
            passed = 0;
        }
    }
    stages
}
