//! `usersInfo`: tells of users: of one, of several, of a database, or of all.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use quarry_query::ErrorCode;
use quarry_query::matcher::Matcher;

use crate::access::control::mechanisms_of;
use crate::access::name::{Kind, Name};
use crate::access::{privilege_document, roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, object};
use crate::dispatch::privilege::{Action, Requires, Resource};

/// Names of one command, at most.
const NAMES_MAX: usize = 10_000;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("showCredentials"),
        flag("showCustomData"),
        flag("showPrivileges"),
        flag("showAuthenticationRestrictions").ignored(),
        object("filter"),
    ]),
    takes_read_concern: true,
    ..Command::new("usersInfo", "tells of users", Requires::Login, run)
};

/// The users that are asked for.
enum Target {
    All,
    OfDatabase,
    Named(Vec<Name>),
}

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let target = target(invocation)?;
    let shows_privileges = invocation.boolean("showPrivileges")?;
    if shows_privileges && !matches!(target, Target::Named(_)) {
        return Err(CommandError::new(
            ErrorCode::ILLEGAL_OPERATION,
            "Privilege details require exact-match usersInfo queries",
        ));
    }
    let shows_credentials = invocation.boolean("showCredentials")?;
    let hides_custom_data = invocation
        .argument("showCustomData")
        .is_some_and(|shows| !shows.is_absent() && !shows.value().is_truthy());
    let filter = invocation
        .document("filter")?
        .map(Matcher::parse)
        .transpose()?;
    let database = &invocation.server.database;
    let found = match &target {
        Target::All => store::find(database, Kind::User, RawDocument::EMPTY)?,
        Target::OfDatabase => {
            let filter = doc! { "db": (invocation.generic.database) };
            store::find(database, Kind::User, filter.as_raw())?
        }
        Target::Named(names) => {
            let found = names
                .iter()
                .map(|name| store::get(database, Kind::User, name));
            found.filter_map(Result::transpose).collect::<Result<_>>()?
        }
    };
    let mut users = reply.array("users");
    for document in &found {
        invocation.operation.check()?;
        let mut shown = Document::new();
        for element in document {
            let is_shown = match element.name().as_bytes() {
                b"credentials" => shows_credentials,
                b"customData" => !hides_custom_data,
                _ => true,
            };
            if is_shown {
                shown.append_element(element);
            }
        }
        if shows_privileges {
            append_reached(invocation, document, &mut shown)?;
        }
        let mechanisms = match document.get_path("credentials.external") {
            Some(_) => vec!["external"],
            None => mechanisms_of(document),
        };
        shown.append("mechanisms", Value::from(mechanisms));
        if filter
            .as_ref()
            .is_none_or(|filter| filter.matches(shown.as_raw()))
        {
            users.push(&shown);
        }
    }
    users.finish();
    Ok(())
}

fn append_reached(
    invocation: &Invocation<'_>,
    document: &Document,
    shown: &mut Document,
) -> Result<()> {
    let home = document.get_str("db").unwrap_or_default();
    let held = roles::stored_names(document.get_array("roles"), home)?;
    let reached = roles::reach(&invocation.server.database, &held)?;
    shown.append("inheritedRoles", roles::array(&reached.roles));
    shown.append(
        "inheritedPrivileges",
        privilege_document::array(&reached.privileges),
    );
    shown.append("inheritedAuthenticationRestrictions", Value::array());
    Ok(())
}

/// The users asked for; everybody may ask for itself.
fn target(invocation: &Invocation<'_>) -> Result<Target> {
    let home = invocation.generic.database;
    let own = invocation.user.and_then(|user| user.name.as_ref());
    let named = |value| {
        let name = Name::parse(Kind::User, value, home)?;
        if own != Some(&name) {
            invocation.require(Action::ViewUser, Resource::Database(&name.database))?;
        }
        Ok(name)
    };
    match invocation.subject() {
        Some(RawValue::Document(all)) if all.get("forAllDBs") == Some(RawValue::Boolean(true)) => {
            invocation.require(Action::ViewUser, Resource::Cluster)?;
            Ok(Target::All)
        }
        Some(RawValue::Array(list)) if list.len() > NAMES_MAX => Err(CommandError::bad_value(
            format!("at most {NAMES_MAX} users are told of at once"),
        )),
        Some(RawValue::Array(list)) => {
            let names = list.iter().map(named).collect::<Result<_>>()?;
            Ok(Target::Named(names))
        }
        Some(value @ (RawValue::String(_) | RawValue::Document(_))) => {
            Ok(Target::Named(vec![named(value)?]))
        }
        Some(value) if value.as_i64_exact() == Some(1) => {
            invocation.require(Action::ViewUser, Resource::Database(home))?;
            Ok(Target::OfDatabase)
        }
        _ => Err(CommandError::bad_value(
            "User and role names must be either strings or objects",
        )),
    }
}
