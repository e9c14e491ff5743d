//! Roles, built-in and stored, and what a list of them comes to with all that they inherit.

use quarry_bson::{Document, RawArray, Value};
use quarry_database::Database;
use quarry_query::ErrorCode;

use crate::access::built_in_roles;
use crate::access::name::{Kind, Name};
use crate::access::privilege_document;
use crate::access::resource::Privilege;
use crate::access::store;
use crate::access::user::merge;
use crate::dispatch::error::{CommandError, Result};

/// Roles that one user or role may reach through inheritance.
const REACHED_MAX: usize = 10_000;

/// A role as it is defined, without what it inherits.
pub struct Role {
    /// The name.
    pub name: Name,
    /// The roles that it inherits from.
    pub roles: Vec<Name>,
    /// The privileges that it grants of its own.
    pub privileges: Vec<Privilege>,
    /// One that every database has, and that nobody can change.
    pub is_built_in: bool,
}

/// Everything that a list of roles comes to.
#[derive(Default)]
pub struct Reached {
    /// The roles and those that they inherit, each once.
    pub roles: Vec<Name>,
    /// The privileges of them all.
    pub privileges: Vec<Privilege>,
}

/// The role of that name; none where there is none.
pub fn find(database: &Database, name: &Name) -> Result<Option<Role>> {
    if let Some(privileges) = built_in_roles::privileges(name) {
        return Ok(Some(Role {
            name: name.clone(),
            roles: Vec::new(),
            privileges,
            is_built_in: true,
        }));
    }
    let document = store::get(database, Kind::Role, name)?;
    document.as_ref().map(parse).transpose()
}

/// Reads the document of a role.
pub fn parse(document: &Document) -> Result<Role> {
    let name = store::name_of(Kind::Role, document);
    let name =
        name.ok_or_else(|| CommandError::failed_to_parse("a role's document without a name"))?;
    let privileges = document.get_array("privileges");
    Ok(Role {
        roles: stored_names(document.get_array("roles"), &name.database)?,
        privileges: privileges.map_or(Ok(Vec::new()), privilege_document::parse_all)?,
        is_built_in: false,
        name,
    })
}

/// Reads a list of roles; a plain text is a role of `database`. Each stands in the result once.
pub fn stored_names(array: Option<RawArray<'_>>, database: &str) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    for value in array.into_iter().flatten() {
        let name = Name::parse(Kind::Role, value, database)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Like `stored_names`, for a command: a role that is not there is an error.
pub fn existing_names(data: &Database, array: RawArray<'_>, database: &str) -> Result<Vec<Name>> {
    let names = stored_names(Some(array), database)?;
    for name in &names {
        if find(data, name)?.is_none() {
            return Err(not_found(name));
        }
    }
    Ok(names)
}

/// The error of a role that is not there.
pub fn not_found(name: &Name) -> CommandError {
    CommandError::new(
        ErrorCode::ROLE_NOT_FOUND,
        format!("Could not find role: {name}"),
    )
}

/// Follows inheritance. A role that is not there grants nothing: it was dropped behind a user's back.
pub fn reach(database: &Database, roles: &[Name]) -> Result<Reached> {
    let mut reached = Reached::default();
    let mut open: Vec<Name> = roles.to_vec();
    while let Some(name) = open.pop() {
        if reached.roles.contains(&name) {
            continue;
        }
        if reached.roles.len() == REACHED_MAX {
            let message = format!("more than {REACHED_MAX} roles are inherited");
            return Err(CommandError::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, message));
        }
        if let Some(role) = find(database, &name)? {
            reached.roles.push(name);
            merge(&mut reached.privileges, role.privileges);
            open.extend(role.roles);
        }
    }
    Ok(reached)
}

/// The names as documents hold them: `[{role, db}]`.
pub fn array(names: &[Name]) -> Value {
    let documents: Vec<Document> = names.iter().map(|name| name.document(Kind::Role)).collect();
    Value::from(documents)
}
