//! `planCacheClearFilters`: takes away the index filters of a collection, or the one for the queries of one shape.

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
        "planCacheClearFilters",
        "takes away index filters of a collection",
        Requires::Each(&[need(Action::PlanCacheIndexFilter, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    if let Some(query) = named_query(invocation)? {
        let context = context(invocation, COMMAND.name)?;
        let request = find(invocation, &namespace, query, &context);
        let (data, change) = (invocation.data(), PlanCacheChange::ClearFilter);
        data.change_plan_cache(invocation.operation, &request, change)?;
        return Ok(());
    }
    let collection = invocation.server.catalog().collection(&namespace)?;
    if let Some(collection) = &collection
        && let Some(memory) = &collection.plan_memory
    {
        memory.filters.clear();
        collection.forget_plan_choices();
    }
    Ok(())
}
