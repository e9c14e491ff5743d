//! Explain of a tree: every node prints its name, its own fields and its inputs.

use quarry_bson::DocumentBuilder;

use super::node::PlanNode;
use super::shown::Shown;

/// Appends a node and those below it. A plan is less than ten nodes deep.
pub fn explain_node(node: &dyn PlanNode, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
    // What only attaches metadata, or bounds a trial, is no stage of MongoDB's.
    if let (true, Some(input)) = (node.name().is_empty(), node.input()) {
        return explain_node(input, shown, out);
    }
    out.append("stage", node.name());
    let of_node = Shown {
        idle_steps: node.idle_steps(),
        ..*shown
    };
    node.describe(&of_node, out);
    let is_at_end = |is_at_end| is_at_end && node.exhausts_inputs();
    let shown = &Shown {
        is_at_end: shown.is_at_end.map(is_at_end),
        ..*shown
    };
    if let Some(input) = node.input() {
        let mut below = out.document("inputStage");
        explain_node(input, shown, &mut below);
        below.finish();
    }
    let inputs = node.inputs();
    if !inputs.is_empty() {
        let mut several = out.array("inputStages");
        for input in inputs {
            let mut below = several.document();
            explain_node(input, shown, &mut below);
            below.finish();
        }
        several.finish();
    }
}
