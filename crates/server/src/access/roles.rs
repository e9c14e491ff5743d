//! Roles, built-in and stored, and what a list of them comes to with all that they inherit.

use std::collections::VecDeque;

use quarry_bson::{Document, RawArray, Value};
use quarry_database::Database;
use quarry_query::ErrorCode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::built_in_roles;
use crate::access::name::{Kind, Name};
use crate::access::privilege_document;
use crate::access::resource::Privilege;
use crate::access::restrictions::Restrictions;
use crate::access::store;
use crate::dispatch::error::{CommandError, Result};
use crate::observe::log;

/// Roles that one user or role may reach through inheritance.
const REACHED_MAX: usize = 10_000;

/// Roles that a user or a role names itself, and that one command names.
const NAMES_MAX: usize = 1_000;

/// Privileges that one user or role may reach, an entry a resource.
const REACHED_PRIVILEGES_MAX: usize = 10_000;

/// A role as it is defined, without what it inherits.
pub struct Role {
    /// The name.
    pub name: Name,
    /// The roles that it inherits from.
    pub roles: Vec<Name>,
    /// The privileges that it grants of its own.
    pub privileges: Vec<Privilege>,
    /// Where its holders may log in from.
    pub restrictions: Restrictions,
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
    /// The restrictions of them all, an entry a role that has some.
    pub restrictions: Vec<Restrictions>,
    /// A role was left out, because it cannot be read or because there are too many.
    pub is_cut: bool,
}

/// The role of that name; none where there is none.
pub fn find(database: &Database, name: &Name) -> Result<Option<Role>> {
    if let Some(privileges) = built_in_roles::privileges(name) {
        return Ok(Some(Role {
            name: name.clone(),
            roles: Vec::new(),
            privileges,
            restrictions: Restrictions::default(),
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
        restrictions: Restrictions::parse(document.get_array("authenticationRestrictions"))?,
        is_built_in: false,
        name,
    })
}

/// Reads a list of roles; a plain text is a role of `database`. Each stands in the result once.
pub fn stored_names(array: Option<RawArray<'_>>, database: &str) -> Result<Vec<Name>> {
    let (mut names, mut seen) = (Vec::new(), FxHashSet::default());
    for value in array.into_iter().flatten() {
        let name = Name::parse(Kind::Role, value, database)?;
        if seen.insert(name.clone()) {
            names.push(name);
        }
        check_count(names.len())?;
    }
    Ok(names)
}

/// Refuses more roles than one user or role may name.
pub fn check_count(names: usize) -> Result<()> {
    if names <= NAMES_MAX {
        return Ok(());
    }
    let message = format!("at most {NAMES_MAX} roles are named at once");
    Err(CommandError::bad_value(message))
}

/// The roles of a list that can be read: a user's document may come from elsewhere, and the user keeps the rest.
pub fn readable_names(array: Option<RawArray<'_>>, database: &str) -> Vec<Name> {
    let values = array.into_iter().flatten().take(NAMES_MAX);
    let names = values.filter_map(|value| Name::parse(Kind::Role, value, database).ok());
    names.collect()
}

/// Refuses a role that is not there.
pub fn check_exist(data: &Database, names: &[Name]) -> Result<()> {
    for name in names {
        if !built_in_roles::is_built_in(name) && store::get(data, Kind::Role, name)?.is_none() {
            return Err(not_found(name));
        }
    }
    Ok(())
}

/// Refuses a list of roles that one user or role is to have, when together they go beyond the bounds.
pub fn check_within(database: &Database, names: &[Name]) -> Result<Reached> {
    check_count(names.len())?;
    let reached = reach(database, names)?;
    if !reached.is_cut {
        return Ok(reached);
    }
    let message = "a role cannot be read, or the roles grant more than one user or role may have";
    Err(CommandError::bad_value(message))
}

/// The error of a role that is not there.
pub fn not_found(name: &Name) -> CommandError {
    CommandError::new(
        ErrorCode::ROLE_NOT_FOUND,
        format!("Could not find role: {name}"),
    )
}

/// Follows inheritance. A role that is not there grants nothing: it was dropped behind a user's back. Nor does one that
/// cannot be read or that leads beyond the bounds: whoever may change a role must not take from its holders what others
/// gave them. For that reason built-in roles come first, then those of admin, and inherited ones last.
pub fn reach(database: &Database, roles: &[Name]) -> Result<Reached> {
    let mut reached = Reached::default();
    let mut first = roles.to_vec();
    first.sort_by_key(|name| (!built_in_roles::is_built_in(name), name.database != "admin"));
    let mut open = VecDeque::from(first);
    let (mut seen, mut places) = (FxHashSet::default(), FxHashMap::default());
    while let Some(name) = open.pop_front() {
        if seen.contains(&name) {
            continue;
        }
        if seen.len() == REACHED_MAX {
            leave_out(&mut reached, &name, "too many roles are inherited");
            break;
        }
        seen.insert(name.clone());
        let found = match built_in_roles::is_built_in(&name) {
            true => find(database, &name),
            // What cannot be read is told apart from what cannot be understood.
            false => match store::get(database, Kind::Role, &name)? {
                Some(document) => parse(&document).map(Some),
                None => Ok(None),
            },
        };
        let role = match found {
            Ok(Some(role)) => role,
            Ok(None) => continue,
            Err(error) => {
                leave_out(&mut reached, &name, &error.message);
                continue;
            }
        };
        let is_new = |privilege: &&Privilege| !places.contains_key(&privilege.pattern);
        let more = role.privileges.iter().filter(is_new).count();
        if places.len() + more > REACHED_PRIVILEGES_MAX {
            leave_out(&mut reached, &name, "too many privileges are granted");
            continue;
        }
        for privilege in role.privileges {
            let place = *places
                .entry(privilege.pattern.clone())
                .or_insert(reached.privileges.len());
            match reached.privileges.get_mut(place) {
                Some(held) => held.actions = held.actions.and(privilege.actions),
                None => reached.privileges.push(privilege),
            }
        }
        if !role.restrictions.is_empty() {
            reached.restrictions.push(role.restrictions);
        }
        reached.roles.push(name);
        open.extend(role.roles);
    }
    Ok(reached)
}

fn leave_out(reached: &mut Reached, role: &Name, why: &str) {
    reached.is_cut = true;
    let line = [("role", role.to_string().into()), ("reason", why.into())];
    log::warning("access", "a role grants nothing", &line);
}

/// The names as documents hold them: `[{role, db}]`.
pub fn array(names: &[Name]) -> Value {
    let documents: Vec<Document> = names.iter().map(|name| name.document(Kind::Role)).collect();
    Value::from(documents)
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn store_role(database: &Database, name: &Name, resources: usize) {
        let privilege = |number: usize| {
            let resource = doc! { "db": (name.database.as_str()), "collection": (format!("{}{number}", name.name)) };
            doc! { "resource": resource, "actions": ["find"] }
        };
        let privileges: Vec<Document> = (0..resources).map(privilege).collect();
        let role = doc! {
            "_id": (name.id()), "role": (name.name.as_str()), "db": (name.database.as_str()),
            "privileges": (Value::from(privileges)), "roles": [],
        };
        assert!(store::insert(database, Kind::Role, &role).unwrap());
    }

    #[test]
    fn a_role_that_grows_beyond_the_bounds_takes_nothing_from_its_holder() {
        let database = Database::open_in_memory().unwrap();
        let (root, own) = (Name::new("root", "admin"), Name::new("own", "admin"));
        let (full, over) = (Name::new("full", "db"), Name::new("over", "db"));
        store_role(&database, &own, 2);
        store_role(&database, &full, REACHED_PRIVILEGES_MAX - 100);
        store_role(&database, &over, 200);
        let held = [full.clone(), over.clone(), own.clone(), root.clone()];
        let reached = reach(&database, &held).unwrap();
        assert!(reached.is_cut);
        assert_eq!(reached.roles, [root.clone(), own, full]);
        let alone = reach(&database, &[root]).unwrap();
        let has = |privilege: &Privilege| reached.privileges.contains(privilege);
        assert!(!alone.is_cut && alone.privileges.iter().all(has));
        assert!(reached.privileges.len() <= REACHED_PRIVILEGES_MAX);
        assert_eq!(
            check_within(&database, &held).err().map(|error| error.code),
            Some(2)
        );
        assert!(check_within(&database, &[over]).is_ok());
    }
}
