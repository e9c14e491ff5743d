//! An aggregate that is explained, by `explain` or by its own option.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_query::exec::{Explained, Verbosity};

use super::aggregate::with_request;
use super::{change_stream, query_settings};
use crate::data::Data;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};

/// `aggregate` with `explain: true`.
pub fn explain_instead(
    invocation: &mut Invocation<'_>,
    body: RawDocument<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    explain(invocation, body, Verbosity::QueryPlanner, reply)
}

/// Explains the aggregate that `body` is.
pub fn explain(
    invocation: &mut Invocation<'_>,
    body: RawDocument<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    if change_stream::specification(body).is_some() {
        return Err(CommandError::not_supported("explain of a change stream"));
    }
    with_request(invocation, body, |request| {
        let explained = Explained::Aggregate(request);
        let data = invocation.server.data();
        Ok(data.explain(invocation.operation, explained, verbosity, reply)?)
    })?;
    append_command(invocation, body, reply)
}

/// Appends the command that was explained, the hash of its shape, the server's name, and the bounds of queries.
pub fn append_command(
    invocation: &Invocation<'_>,
    body: RawDocument<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    query_settings::append_hash(invocation.generic.database, body, reply)?;
    reply.append("command", body);
    let mut info = reply.document("serverInfo");
    info.append(
        "host",
        &*rustix::system::uname().nodename().to_string_lossy(),
    );
    info.append("port", i32::from(invocation.server.port()));
    info.append("version", super::build_info::MONGODB_VERSION);
    info.finish();
    let mut parameters = reply.document("serverParameters");
    quarry_query::parameters::append_bounds(&mut parameters);
    parameters.finish();
    Ok(())
}
