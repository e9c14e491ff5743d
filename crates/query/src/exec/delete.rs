//! `delete`: one statement.

use quarry_database::{Change, Level, Operation, Scope, StatementKind};

use super::collation::{Outcome, run_collated, statement_context};
use super::modify::{Effect, Target};
use super::recorded;
use super::request::DeleteRequest;
use crate::error::Result;

/// Removes the first document that matches, or all; says how many.
pub fn delete(
    scope: Scope<'_>,
    operation: &Operation,
    request: DeleteRequest<'_>,
    level: Level,
) -> Result<u64> {
    let own = statement_context(request.context, request.collation)?;
    run_collated(own.as_ref().or(request.context), |context| {
        delete_in(
            scope,
            operation,
            DeleteRequest { context, ..request },
            level,
        )
    })
}

/// Runs the statement in its context.
fn delete_in(
    scope: Scope<'_>,
    operation: &Operation,
    request: DeleteRequest<'_>,
    level: Level,
) -> Result<Outcome<u64>> {
    let target = Target::new(
        scope,
        operation,
        level,
        request.namespace,
        request.filter,
        request.hint,
        request.context,
    );
    target.check()?;
    recorded::note(operation, StatementKind::Delete);
    let mut totals = if request.is_multi {
        target.modify_all(Effect::Delete, &mut |_, _, _| Ok(Change::Delete))?
    } else {
        target.modify_one(Effect::Delete, &mut |_, _, _| Ok(Change::Delete))?
    };
    totals.settle(scope, level)?;
    Ok(match target.take_imposed() {
        Some(collation) => Outcome::Imposed(collation),
        None => Outcome::Done(totals.deleted),
    })
}
