//! `buildInfo`: the version that drivers look at, and Quarry's own in a document beside it.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

/// The MongoDB version whose behaviour is announced.
pub const MONGODB_VERSION: &str = "8.0.0";
const MONGODB_VERSION_PARTS: [i32; 4] = [8, 0, 0, 0];

pub static COMMAND: Command = Command {
    aliases: &["buildinfo"],
    ..Command::new(
        "buildInfo",
        "names the versions of the server",
        Requires::Nothing,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    reply.append("version", MONGODB_VERSION);
    let mut modules = reply.array("modules");
    modules.push("quarry");
    modules.finish();
    let mut parts = reply.array("versionArray");
    for part in MONGODB_VERSION_PARTS {
        parts.push(part);
    }
    parts.finish();
    reply.append("bits", i32::try_from(usize::BITS).unwrap_or(64));
    reply.append("debug", cfg!(debug_assertions));
    reply.append("maxBsonObjectSize", quarry_bson::DOCUMENT_BYTES_MAX as i32);
    let mut engines = reply.array("storageEngines");
    for engine in crate::process::engine::available() {
        engines.push(engine.as_str());
    }
    engines.finish();
    let mut quarry = reply.document("quarry");
    quarry.append("version", env!("CARGO_PKG_VERSION"));
    quarry.append("engine", invocation.server.config.engine.as_str());
    quarry.finish();
    Ok(())
}
