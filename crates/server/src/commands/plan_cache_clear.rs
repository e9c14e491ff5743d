//! `planCacheClear`: forgets which indexes trials of plans have chosen for a collection, so that the next queries try them anew.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, object};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("query"),
        object("sort"),
        object("projection"),
        object("collation"),
    ]),
    ..Command::new(
        "planCacheClear",
        "forgets the plans chosen for a collection",
        Requires::Each(&[need(Action::PlanCacheWrite, On::Collection)]),
        run,
    )
};

/// The choices of all shapes go where one is named: they are made again with the next trials, and answers do not depend on them.
fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let names_part = ["sort", "projection", "collation"];
    if invocation.get("query").is_none()
        && names_part.iter().any(|name| invocation.get(name).is_some())
    {
        let message = "sort or projection provided without query";
        return Err(CommandError::new(ErrorCode::BAD_VALUE, message));
    }
    if let Some(collection) = invocation.server.catalog().collection(&namespace)? {
        collection.refuse_view()?;
        collection.forget_plan_choices();
    }
    Ok(())
}
