//! `planCacheSetFilter`: has plans for the queries of one shape use the indexes that it names, and no others. A hint of such a query counts
//! for nothing, and where none of the indexes serves it the collection is scanned, as in MongoDB. A filter is in memory: it ends
//! with the server.

use quarry_bson::{DocumentBuilder, RawValue, Value};
use quarry_query::exec::PlanCacheChange;

use super::query_shape_arguments::{context, find, named_query};
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array, object};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("query"),
        object("sort"),
        object("projection"),
        object("collation"),
        array("indexes"),
    ]),
    ..Command::new(
        "planCacheSetFilter",
        "sets the indexes that queries of a shape may use",
        Requires::Each(&[need(Action::PlanCacheIndexFilter, On::Collection)]),
        run,
    )
};

/// The indexes that one filter names, which no collection has more of.
const INDEXES_MAX: usize = 64;

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let Some(query) = named_query(invocation)? else {
        return Err(CommandError::bad_value("required field query missing"));
    };
    let indexes = indexes(invocation)?;
    let context = context(invocation, COMMAND.name)?;
    let request = find(invocation, &namespace, query, &context);
    let (data, change) = (invocation.data(), PlanCacheChange::SetFilter(indexes));
    data.change_plan_cache(invocation.operation, &request, change)?;
    Ok(())
}

/// The names and key patterns of the indexes.
fn indexes(invocation: &Invocation<'_>) -> Result<Vec<Value>> {
    let Some(named) = invocation.body.get_array("indexes") else {
        return Err(CommandError::bad_value("required field indexes missing"));
    };
    let mut indexes = Vec::new();
    for index in named {
        match index {
            RawValue::String(name) if name.is_empty() => {
                let message = "Index name cannot be empty";
                return Err(CommandError::bad_value(message));
            }
            RawValue::Document(pattern) if pattern.is_empty() => {
                let message = "index specification cannot be empty";
                return Err(CommandError::bad_value(message));
            }
            RawValue::String(_) | RawValue::Document(_) => indexes.push(index.to_value()),
            _ => {
                let message = "each item in indexes must be either a string or an object";
                return Err(CommandError::bad_value(message));
            }
        }
        if indexes.len() > INDEXES_MAX {
            let message = format!("an index filter names at most {INDEXES_MAX} indexes");
            return Err(CommandError::bad_value(message));
        }
    }
    match indexes.is_empty() {
        true => Err(CommandError::bad_value(
            "required field indexes must contain at least one index",
        )),
        false => Ok(indexes),
    }
}
