//! `connPoolStats`: the connections that a member keeps to others of its cluster. A server alone has none.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command::new(
    "connPoolStats",
    "shows the connections to other members, of which there are none",
    Requires::Each(&[need(Action::ConnPoolStats, On::Cluster)]),
    run,
);

fn run(_: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    for count in [
        "numClientConnections",
        "numAScopedConnections",
        "totalInUse",
        "totalAvailable",
        "totalLeased",
        "totalCreated",
        "totalRefreshing",
    ] {
        reply.append(count, 0);
    }
    reply.document("pools").finish();
    reply.document("hosts").finish();
    reply.document("replicaSets").finish();
    Ok(())
}
