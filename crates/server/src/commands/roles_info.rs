//! `rolesInfo`: tells of roles, built-in ones included.

use quarry_bson::{Document, DocumentBuilder, RawValue, doc};

use crate::access::built_in_roles;
use crate::access::name::{Kind, Name};
use crate::access::{privilege_document, roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, Requires, Resource};

/// Names of one command, at most.
const NAMES_MAX: usize = 10_000;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("showPrivileges"),
        flag("showBuiltinRoles"),
        flag("showAuthenticationRestrictions").ignored(),
    ]),
    takes_read_concern: true,
    ..Command::new("rolesInfo", "tells of roles", Requires::Login, run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let shows_privileges = invocation.boolean("showPrivileges")?;
    let shows_built_in = invocation.boolean("showBuiltinRoles")?;
    let database = &invocation.server.database;
    let names = names(invocation, shows_built_in)?;
    let mut shown = reply.array("roles");
    for name in &names {
        invocation.operation.check()?;
        if let Some(role) = roles::find(database, name)? {
            shown.push(&describe(invocation, &role, shows_privileges)?);
        }
    }
    shown.finish();
    Ok(())
}

fn describe(
    invocation: &Invocation<'_>,
    role: &roles::Role,
    shows_privileges: bool,
) -> Result<Document> {
    let reached = roles::reach(&invocation.server.database, &role.roles)?;
    let mut document = Document::new();
    document.append("_id", role.name.id());
    document.append("role", role.name.name.as_str());
    document.append("db", role.name.database.as_str());
    if shows_privileges {
        document.append("privileges", privilege_document::array(&role.privileges));
    }
    document.append("roles", roles::array(&role.roles));
    document.append("inheritedRoles", roles::array(&reached.roles));
    if shows_privileges {
        let mut all = role.privileges.clone();
        crate::access::user::merge(&mut all, reached.privileges);
        document.append("inheritedPrivileges", privilege_document::array(&all));
    }
    document.append("isBuiltin", role.is_built_in);
    Ok(document)
}

/// The roles that are asked for; everybody may ask for those that it has.
fn names(invocation: &Invocation<'_>, shows_built_in: bool) -> Result<Vec<Name>> {
    let home = invocation.generic.database;
    let named = |value| {
        let name = Name::parse(Kind::Role, value, home)?;
        if !invocation
            .user
            .is_some_and(|user| user.inherited_roles.contains(&name))
        {
            invocation.require(Action::ViewRole, Resource::Database(&name.database))?;
        }
        Ok(name)
    };
    match invocation.subject() {
        Some(RawValue::Array(list)) if list.len() > NAMES_MAX => Err(CommandError::bad_value(
            format!("at most {NAMES_MAX} roles are told of at once"),
        )),
        Some(RawValue::Array(list)) => list.iter().map(named).collect(),
        Some(value @ (RawValue::String(_) | RawValue::Document(_))) => Ok(vec![named(value)?]),
        Some(value) if value.as_i64_exact() == Some(1) => {
            invocation.require(Action::ViewRole, Resource::Database(home))?;
            let filter = doc! { "db": home };
            let stored = store::find(&invocation.server.database, Kind::Role, filter.as_raw())?;
            let stored = stored
                .iter()
                .filter_map(|role| store::name_of(Kind::Role, role));
            let built_in = built_in_roles::names(home).filter(|_| shows_built_in);
            Ok(stored
                .chain(built_in.map(|name| Name::new(name, home)))
                .collect())
        }
        _ => Err(CommandError::bad_value(
            "User and role names must be either strings or objects",
        )),
    }
}
