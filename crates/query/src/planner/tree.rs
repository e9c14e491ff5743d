//! The nodes that stand above the access of a plan: what is done with the documents that it finds.

use super::wanted::Wanted;
use crate::plan::{
    Attach, Covered, KeySource, Limit, Node, ProjectionNode, ReturnKey, Skip, Sort, Subplan,
};

/// A way to the documents that match.
pub struct Solution {
    /// The access.
    pub node: Node,
    /// Documents come out of it in the order that is asked for.
    pub is_sorted: bool,
    /// The filter is an `$or` and nothing else, whose branches were planned one by one.
    pub is_of_branches: bool,
    /// Whether its documents are read, or made of keys.
    pub covered: Covered,
    /// Where the keys are by which the documents were found, for who wants them.
    pub key: KeySource,
}

/// Puts the nodes above the access that the rest of the request asks for: sort, skip, limit, projection.
pub fn above(solution: Solution, wanted: &Wanted<'_>) -> Node {
    let mut node = solution.node;
    if !wanted.metadata.is_empty() {
        node = Box::new(Attach::new(node, solution.key, wanted.metadata));
    }
    if !solution.is_sorted {
        let limit = wanted.limit.map(|limit| limit.saturating_add(wanted.skip));
        // Documents that are made of keys have nothing else.
        let read = wanted.read.filter(|_| solution.covered == Covered::No);
        node = Box::new(Sort::new(node, wanted.kept, limit).of_fields(read));
    }
    if wanted.skip > 0 {
        node = Box::new(Skip::new(node, wanted.skip));
    }
    if let Some(limit) = wanted.limit.filter(|_| !wanted.stops_itself) {
        node = Box::new(Limit::new(node, limit));
    }
    if let Some(projection) = wanted.projection {
        node = Box::new(ProjectionNode::new(node, projection, solution.covered));
    }
    if let Some(returned) = wanted.returned_key {
        node = Box::new(ReturnKey::new(node, returned.sort_keys.clone()));
    }
    if solution.is_of_branches {
        node = Box::new(Subplan::new(node));
    }
    node
}
