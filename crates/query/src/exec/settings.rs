//! Plans by the settings that an operator has given the queries of a shape (`query_settings`).

use quarry_database::CollectionSnapshot;

use crate::error::Result;
use crate::plan::{Leaf, PlanNode};
use crate::planner::Wanted;

/// The plan with the indexes that the query's settings allow, whatever its own hint. None where they name none for the collection, and
/// where no allowed index serves it and no scan is allowed: the query is then planned as if it had no settings.
pub(super) fn by_settings<'w, P>(
    snapshot: &CollectionSnapshot,
    wanted: Wanted<'w>,
    choose: impl Fn(Wanted<'w>) -> Result<P>,
    root: impl Fn(&P) -> &dyn PlanNode,
) -> Result<Option<P>> {
    let namespace = &snapshot.collection.namespace;
    let hints = wanted.settings.and_then(|it| it.hints_for(namespace));
    let Some(hints) = hints else {
        return Ok(None);
    };
    let wanted = Wanted {
        allowed: Some(&hints.allowed),
        hint: None,
        ..wanted
    };
    match choose(wanted) {
        Ok(plan) if !scans_collection(root(&plan)) => return Ok(Some(plan)),
        Err(error) if error.ends_operation() => return Err(error),
        _ => {}
    }
    let Some(natural) = hints.natural() else {
        return Ok(None);
    };
    let hint = Some(natural);
    match choose(Wanted { hint, ..wanted }) {
        Err(error) if error.ends_operation() => Err(error),
        // What is wrong with the query itself is told when it is planned without settings.
        planned => Ok(planned.ok()),
    }
}

fn scans_collection(root: &dyn PlanNode) -> bool {
    let mut scans = false;
    root.leaves(&mut |leaf| scans |= matches!(leaf, Leaf::Collection));
    scans
}
