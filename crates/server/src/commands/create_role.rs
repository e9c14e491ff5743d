//! `createRole`: defines a role of privileges and other roles.

use quarry_bson::{Document, DocumentBuilder, RawArray};
use quarry_database::Database;
use quarry_query::ErrorCode;

use super::create_user::{granted_roles, name, restrictions};
use crate::access::name::{Kind, Name};
use crate::access::resource::{Pattern, Privilege};
use crate::access::{built_in_roles, privilege_document, roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::{Action, On, Requires, Resource, need};

/// MongoDB's code for a role that is there already.
const ROLE_ALREADY_EXISTS: ErrorCode = ErrorCode(51_002);

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("privileges").required(),
        array("roles").required(),
        array("authenticationRestrictions"),
    ]),
    takes_write_concern: true,
    ..Command::new(
        "createRole",
        "defines a role",
        Requires::Each(&[need(Action::CreateRole, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = name(invocation, Kind::Role)?;
    let restrictions = restrictions(invocation)?.unwrap_or_default();
    if built_in_roles::is_built_in(&name) {
        return Err(CommandError::bad_value(
            "Cannot create roles with the same name as a built-in role",
        ));
    }
    let privileges = granted_privileges(
        invocation,
        &name,
        invocation.required("privileges")?.array()?,
    )?;
    let listed = invocation.required("roles")?.array()?;
    let server = invocation.server;
    let inherited = granted_roles(invocation, listed)?;
    let _changes = invocation.lock_changes()?;
    check_inherited(&server.database, &name, &inherited)?;
    let mut document = Document::new();
    document.append("_id", name.id());
    document.append("role", name.name.as_str());
    document.append("db", name.database.as_str());
    document.append("privileges", privilege_document::array(&privileges));
    document.append("roles", roles::array(&inherited));
    if !restrictions.is_empty() {
        document.append("authenticationRestrictions", restrictions.array());
    }
    if !store::insert(&server.database, Kind::Role, &document)? {
        let message = format!("Role \"{name}\" already exists");
        return Err(CommandError::new(ROLE_ALREADY_EXISTS, message));
    }
    server.access.note_change();
    Ok(())
}

/// The stored role that a command is to change. Built-in ones stay as they are.
pub fn changed_role(invocation: &Invocation<'_>) -> Result<roles::Role> {
    let name = name(invocation, Kind::Role)?;
    let role =
        roles::find(&invocation.server.database, &name)?.ok_or_else(|| roles::not_found(&name))?;
    if role.is_built_in {
        return Err(built_in(&name));
    }
    Ok(role)
}

/// The error of a change of a built-in role.
pub fn built_in(name: &Name) -> CommandError {
    let message = format!("{name} is a built-in role and cannot be modified");
    CommandError::new(ErrorCode::INVALID_ROLE_MODIFICATION, message)
}

/// The privileges that a role is to have: the client may grant on each resource, and a role outside of admin keeps to its own
/// database.
pub fn granted_privileges(
    invocation: &Invocation<'_>,
    role: &Name,
    listed: RawArray<'_>,
) -> Result<Vec<Privilege>> {
    let privileges = privilege_document::parse_all(listed)?;
    for privilege in &privileges {
        let database = match &privilege.pattern {
            Pattern::Namespace { database, .. } if !database.is_empty() => database.as_str(),
            _ => "admin",
        };
        if role.database != "admin" && database != role.database {
            let message = format!(
                "Roles on the '{}' database cannot be granted privileges that target other databases or the cluster",
                role.database
            );
            return Err(CommandError::new(
                ErrorCode::INVALID_ROLE_MODIFICATION,
                message,
            ));
        }
        invocation.require(Action::GrantRole, Resource::Database(database))?;
    }
    Ok(privileges)
}

/// Checks the roles that a role is to inherit: none of them leads back to it, a role outside of admin keeps to its own
/// database, and all together stay within the bounds.
pub fn check_inherited(database: &Database, role: &Name, names: &[Name]) -> Result<()> {
    if role.database != "admin" && names.iter().any(|name| name.database != role.database) {
        let message = format!(
            "Roles on the '{}' database cannot be granted roles from other databases",
            role.database
        );
        return Err(CommandError::new(
            ErrorCode::INVALID_ROLE_MODIFICATION,
            message,
        ));
    }
    roles::check_exist(database, names)?;
    let reached = roles::check_within(database, names)?;
    if names.contains(role) || reached.roles.contains(role) {
        let message = format!("Granting roles to {role} would introduce a cycle in the role graph");
        return Err(CommandError::new(
            ErrorCode::INVALID_ROLE_MODIFICATION,
            message,
        ));
    }
    Ok(())
}
