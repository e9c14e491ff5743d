//! `planCacheListFilters`: the index filters of a collection.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::Fields;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[]),
    ..Command::new(
        "planCacheListFilters",
        "lists the index filters of a collection",
        Requires::Each(&[need(Action::PlanCacheIndexFilter, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let collection = invocation.server.catalog().collection(&namespace)?;
    let memory = collection.as_ref().and_then(|it| it.plan_memory.as_ref());
    let mut listed = reply.array("filters");
    for filter in memory.map_or_else(Vec::new, |memory| memory.filters.list()) {
        let mut shown = listed.document();
        for part in filter.query.as_raw() {
            shown.append_element(part);
        }
        let mut indexes = shown.array("indexes");
        for index in &filter.indexes {
            indexes.push(index.as_raw());
        }
        indexes.finish();
        shown.finish();
    }
    listed.finish();
    Ok(())
}
