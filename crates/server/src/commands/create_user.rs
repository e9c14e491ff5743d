//! `createUser`: defines a user.

use quarry_bson::{DocumentBuilder, RawArray};
use quarry_database::Database;
use quarry_query::ErrorCode;

use super::new_password;
use crate::access::name::{EXTERNAL, Kind, Name};
use crate::access::restrictions::Restrictions;
use crate::access::{new_user, roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array, flag, object, text};
use crate::dispatch::privilege::{Action, On, Requires, Resource, need};

/// MongoDB's code for a user who is there already.
const USER_ALREADY_EXISTS: ErrorCode = ErrorCode(51_003);

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        text("pwd"),
        object("customData"),
        array("roles").required(),
        flag("digestPassword"),
        array("mechanisms"),
        array("authenticationRestrictions"),
    ]),
    takes_write_concern: true,
    has_secrets: true,
    ..Command::new(
        "createUser",
        "defines a user",
        Requires::Each(&[need(Action::CreateUser, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = name(invocation, Kind::User)?;
    let restrictions = restrictions(invocation)?.unwrap_or_default();
    let mechanisms = new_password::mechanisms(invocation)?;
    let credentials = match name.database == EXTERNAL {
        true => Some(new_password::of_external(invocation)?),
        false => new_password::credentials(invocation, &name, mechanisms.as_deref())?,
    };
    let credentials = credentials.ok_or_else(|| {
        CommandError::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
        )
    })?;
    let custom_data = invocation.document("customData")?;
    let listed = invocation.required("roles")?.array()?;
    let server = invocation.server;
    let roles = granted_roles(invocation, listed)?;
    let _changes = invocation.lock_changes()?;
    check_roles(&server.database, &roles)?;
    let document = new_user::document(&name, &credentials, custom_data, &roles, &restrictions);
    if !store::insert(&server.database, Kind::User, &document)? {
        let message = format!("User \"{name}\" already exists");
        return Err(CommandError::new(USER_ALREADY_EXISTS, message));
    }
    server.access.note_change();
    Ok(())
}

/// The user or role that the command names first, of the command's own database.
pub fn name(invocation: &Invocation<'_>, kind: Kind) -> Result<Name> {
    let command = invocation.command.name;
    let database = invocation.generic.database;
    let subject = invocation
        .subject()
        .filter(|value| value.as_str().is_some());
    let subject =
        subject.ok_or_else(|| CommandError::field_type(command, command, "object", "string"))?;
    if database == "local" {
        return Err(CommandError::bad_value(
            "Cannot create users in the local database",
        ));
    }
    if database == EXTERNAL && kind == Kind::Role {
        return Err(CommandError::bad_value(
            "Cannot create roles in the $external database",
        ));
    }
    Name::parse(kind, subject, database)
}

/// The restrictions that the command gives, of where a user or role may log in from; none where it gives no list.
pub fn restrictions(invocation: &Invocation<'_>) -> Result<Option<Restrictions>> {
    let given = invocation.argument("authenticationRestrictions");
    let Some(given) = given.filter(|argument| !argument.is_absent()) else {
        return Ok(None);
    };
    let restrictions = Restrictions::parse(Some(given.array()?))?;
    let database = Resource::Database(invocation.generic.database);
    if !restrictions.is_empty() || invocation.command.name.starts_with("update") {
        invocation.require(Action::SetAuthenticationRestriction, database)?;
    }
    Ok(Some(restrictions))
}

/// The roles that are to be given to somebody: the client may give each. This comes before the lock, which a client who may
/// not must not hold; `check_roles` comes behind it.
pub fn granted_roles(invocation: &Invocation<'_>, listed: RawArray<'_>) -> Result<Vec<Name>> {
    let database = invocation.generic.database;
    let names = roles::stored_names(Some(listed), database)?;
    for role in &names {
        invocation.require(Action::GrantRole, Resource::Database(&role.database))?;
    }
    Ok(names)
}

/// Refuses a list of roles that one user or role is to have: each must be there, and all together stay within the bounds.
pub fn check_roles(database: &Database, names: &[Name]) -> Result<()> {
    roles::check_exist(database, names)?;
    roles::check_within(database, names)?;
    Ok(())
}
