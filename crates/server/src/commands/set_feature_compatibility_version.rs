//! `setFeatureCompatibilityVersion`: the version whose features the data may have. There is one, so that an upgrade's last
//! step is acknowledged and every other version is refused.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::process::parameters::FEATURE_COMPATIBILITY_VERSION as OWN;

/// The versions that MongoDB 8.0 knows beside its own.
const OLDER: [&str; 2] = ["7.0", "7.3"];
const NAME: &str = "setFeatureCompatibilityVersion";

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("confirm")]),
    is_admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        NAME,
        "sets the version whose features the data may have",
        Requires::Each(&[need(Action::SetFeatureCompatibilityVersion, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let version = invocation.subject();
    let Some(version) = version.and_then(|version| version.as_str()) else {
        let found = version.map_or("missing", |value| value.element_type().alias());
        return Err(CommandError::field_type(NAME, NAME, found, "string"));
    };
    if version != OWN && !OLDER.contains(&version) {
        return Err(unknown(version));
    }
    // MongoDB asks this of a version that is set already, too, and calls that a downgrade.
    if !invocation.boolean("confirm")? {
        return Err(CommandError::new(
            ErrorCode(7_369_100),
            "Once you have downgraded the FCV, if you choose to downgrade the binary version, it will require support \
             assistance. Please re-run this command with 'confirm: true' to acknowledge this and continue with the \
             FCV downgrade.",
        ));
    }
    if version != OWN {
        let message = format!(
            "cannot set featureCompatibilityVersion to '{version}': the data has the features of {OWN}, and no older version is served"
        );
        return Err(CommandError::new(ErrorCode::CANNOT_DOWNGRADE, message));
    }
    Ok(())
}

fn unknown(version: &str) -> CommandError {
    let [first, second] = OLDER;
    let message = format!(
        "Invalid feature compatibility version value '{version}'; expected '{first}' or '{second}' or '{OWN}'. See \
         https://docs.mongodb.com/master/release-notes/{first}-compatibility/#feature-compatibility."
    );
    CommandError::new(ErrorCode(4_926_900), message)
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    #[test]
    fn the_servers_own_version_is_acknowledged_and_no_other_is() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        let code = |mut command: Document| {
            command.append("$db", "admin");
            answer(server, &command).get_i32("code")
        };
        let set = |version: &str| doc! { "setFeatureCompatibilityVersion": version };
        let confirmed = |version: &str| {
            let mut command = set(version);
            command.append("confirm", true);
            command
        };
        assert_eq!(code(confirmed("8.0")), None);
        assert_eq!(code(set("8.0")), Some(7_369_100));
        assert_eq!(code(set("7.0")), Some(7_369_100));
        assert_eq!(code(confirmed("7.0")), Some(332));
        assert_eq!(code(confirmed("6.0")), Some(4_926_900));
        assert_eq!(code(confirmed("8.1")), Some(4_926_900));
        assert_eq!(
            code(doc! { "setFeatureCompatibilityVersion": 8, "confirm": true }),
            Some(14)
        );
        let elsewhere =
            doc! { "setFeatureCompatibilityVersion": "8.0", "confirm": true, "$db": "db" };
        assert_eq!(answer(server, &elsewhere).get_i32("code"), Some(13));
        let shown = answer(
            server,
            &doc! { "getParameter": 1, "featureCompatibilityVersion": 1, "$db": "admin" },
        );
        let version = shown.get_path("featureCompatibilityVersion.version");
        assert_eq!(version.and_then(|version| version.as_str()), Some("8.0"));
    }
}
