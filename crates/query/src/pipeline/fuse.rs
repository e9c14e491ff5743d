//! Stages that stand side by side and are one: a `$lookup` with the `$unwind` of its array and a `$match` of what it has found. Which
//! stages these are the stages say (`Stage::fused`).

use std::sync::Arc;

use super::stage::Stage;
use crate::error::Result;
use crate::expression::ExpressionContext;

/// The stages with those made one that can be.
pub(super) fn fuse(
    stages: Vec<Arc<dyn Stage>>,
    context: &ExpressionContext,
) -> Result<Vec<Arc<dyn Stage>>> {
    let mut fused: Vec<Arc<dyn Stage>> = Vec::with_capacity(stages.len());
    for stage in stages {
        let both = match fused.last() {
            Some(before) => Arc::clone(before).fused(&*stage, context)?,
            None => None,
        };
        match both {
            Some(both) => {
                fused.pop();
                fused.extend(both);
            }
            None => fused.push(stage),
        }
    }
    Ok(fused)
}
