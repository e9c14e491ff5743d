//! `planCacheClear`: forgets which indexes trials of plans have chosen for a collection, or for the queries of one shape, so that the
//! next queries try them anew.

use quarry_bson::DocumentBuilder;
use quarry_query::exec::PlanCacheChange;

use super::query_shape_arguments::{context, find, named_query};
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
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

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    if let Some(query) = named_query(invocation)? {
        let context = context(invocation, COMMAND.name)?;
        let request = find(invocation, &namespace, query, &context);
        let data = invocation.data();
        data.change_plan_cache(invocation.operation, &request, PlanCacheChange::ForgetPlans)?;
        return Ok(());
    }
    if let Some(collection) = invocation.server.catalog().collection(&namespace)? {
        collection.refuse_view()?;
        collection.forget_plan_choices();
    }
    Ok(())
}
