//! `removeQuerySettings`: takes away the settings of the queries of a shape, if they have some.

use quarry_bson::{DocumentBuilder, Timestamp};

use super::named_shape::{NamedShape, settings_of};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "removeQuerySettings",
        "takes away the settings of the queries of a shape",
        Requires::Each(&[need(Action::QuerySettings, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let table = settings_of(invocation)?;
    let shape = NamedShape::read(invocation)?;
    if !table.all().contains_key(&shape.hash) {
        return Ok(());
    }
    let database = &invocation.server.database;
    let time = Timestamp::from_u64(database.cluster_time());
    table.change(database, time, |by_shape| {
        by_shape.remove(&shape.hash);
        Ok(())
    })
}
