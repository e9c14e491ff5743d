//! `updateUser`: changes a user's password, roles or custom data.

use quarry_bson::{Document, DocumentBuilder};
use quarry_query::ErrorCode;

use super::create_user::{check_roles, granted_roles, name, restrictions};
use super::new_password;
use crate::access::control::mechanisms_of;
use crate::access::credentials::Mechanism;
use crate::access::name::{EXTERNAL, Kind, Name};
use crate::access::{roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array, flag, object, text};
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        text("pwd"),
        object("customData"),
        array("roles"),
        flag("digestPassword"),
        array("mechanisms"),
        array("authenticationRestrictions"),
    ]),
    takes_write_concern: true,
    has_secrets: true,
    ..Command::new("updateUser", "changes a user", Requires::Login, run)
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = name(invocation, Kind::User)?;
    let restrictions = restrictions(invocation)?;
    authorize(invocation, &name)?;
    let mechanisms = new_password::mechanisms(invocation)?;
    let mut set = Document::new();
    if name.database == EXTERNAL {
        new_password::of_external(invocation)?;
    }
    let credentials = new_password::credentials(invocation, &name, mechanisms.as_deref())?;
    let has_password = credentials.is_some();
    if let Some(credentials) = credentials {
        set.append("credentials", credentials);
    }
    if let Some(custom_data) = invocation.document("customData")? {
        set.append("customData", custom_data);
    }
    if let Some(restrictions) = restrictions {
        set.append("authenticationRestrictions", restrictions.array());
    }
    let given = invocation.argument("roles");
    let given = given.filter(|argument| !argument.is_absent());
    let listed = given
        .map(|listed| granted_roles(invocation, listed.array()?))
        .transpose()?;
    let server = invocation.server;
    let _changes = invocation.lock_changes()?;
    let there = store::get(&server.database, Kind::User, &name)?.ok_or_else(|| not_found(&name))?;
    if let Some(listed) = listed {
        check_roles(&server.database, &listed)?;
        set.append("roles", roles::array(&listed));
    }
    if let Some(kept) = mechanisms.filter(|_| !has_password) {
        set.append("credentials", only(&there, &kept)?);
    }
    if set.is_empty() {
        return Err(CommandError::bad_value(
            "Must specify at least one field to update in updateUser",
        ));
    }
    let mut update = Document::new();
    update.append("$set", set);
    store::update(&server.database, Kind::User, &name, update)?;
    server.access.note_change();
    Ok(())
}

/// Everybody with the privilege may change a password or custom data; a user may be allowed to change its own.
fn authorize(invocation: &Invocation<'_>, name: &Name) -> Result<()> {
    let database = Resource::Database(&name.database);
    let is_own = invocation
        .user
        .is_some_and(|user| user.name.as_ref() == Some(name));
    let gives = |field: &str| {
        invocation
            .argument(field)
            .is_some_and(|argument| !argument.is_absent())
    };
    if gives("pwd")
        || gives("mechanisms")
        || !gives("customData") && !gives("roles") && !gives("authenticationRestrictions")
    {
        let may_own = is_own && invocation.may(Action::ChangeOwnPassword, database);
        if !may_own {
            invocation.require(Action::ChangePassword, database)?;
        }
    }
    if gives("customData") {
        let may_own = is_own && invocation.may(Action::ChangeOwnCustomData, database);
        if !may_own {
            invocation.require(Action::ChangeCustomData, database)?;
        }
    }
    if gives("roles") {
        // Who sets roles takes others away, wherever they are defined.
        invocation.require(Action::RevokeRole, Resource::Database(""))?;
    }
    Ok(())
}

/// The user's credentials for these mechanisms alone.
fn only(user: &Document, kept: &[Mechanism]) -> Result<Document> {
    let has = mechanisms_of(user);
    if kept
        .iter()
        .any(|mechanism| !has.contains(&mechanism.name()))
    {
        return Err(CommandError::bad_value(
            "mechanisms field must be a subset of previously set mechanisms",
        ));
    }
    let held = user.get_document("credentials").unwrap_or_default();
    let is_kept = |name: &str| kept.iter().any(|mechanism| mechanism.name() == name);
    let elements = held
        .iter()
        .filter(|element| element.name().as_str().is_ok_and(is_kept));
    Ok(Document::build(|credentials| {
        for element in elements {
            credentials.append_element(element);
        }
    }))
}

/// The error of a user who is not there.
pub fn not_found(name: &Name) -> CommandError {
    CommandError::new(ErrorCode::USER_NOT_FOUND, format!("User {name} not found"))
}
