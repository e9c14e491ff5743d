//! `listCommands`: the command table.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command =
    Command::new("listCommands", "lists the commands", Requires::Nothing, run);

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let mut commands = reply.document("commands");
    let is_test_mode = invocation.server.parameters.are_test_commands_enabled;
    let served = super::COMMANDS
        .iter()
        .filter(|command| is_test_mode || !command.is_for_tests);
    for command in served {
        let mut entry = commands.document(command.name);
        entry.append("help", command.help);
        entry.append(
            "requiresAuth",
            !matches!(command.requires, Requires::Nothing),
        );
        entry.append("secondaryOk", false);
        entry.append("adminOnly", command.is_admin_only);
        let mut versions = entry.array("apiVersions");
        if command.is_in_api_1 {
            versions.push("1");
        }
        if command.is_in_api_2 {
            versions.push("2");
        }
        versions.finish();
        let mut versions = entry.array("deprecatedApiVersions");
        if command.is_deprecated_in_api_1 {
            versions.push("1");
        }
        if command.is_deprecated_in_api_2 {
            versions.push("2");
        }
        versions.finish();
        entry.finish();
    }
    commands.finish();
    Ok(())
}
