//! A user with all that its roles grant: what a command is held against.

use crate::access::action::{Action, ActionSet};
use crate::access::name::Name;
use crate::access::resource::{Need, Pattern, Privilege, Resource};
use crate::access::restrictions::{Ends, Restrictions};
use crate::sessions::owner::SessionOwner;

/// Who a client is, and what it may do.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// The user that the client has proven to be; none for one that has not logged in.
    pub name: Option<Name>,
    /// The digest that its sessions belong to; none for one that has not logged in.
    pub session_owner: Option<SessionOwner>,
    /// The `userId` of the user's document: one that is dropped and made again is another user.
    pub id: Option<[u8; 16]>,
    /// The roles that the user's document names and those that they inherit.
    pub inherited_roles: Vec<Name>,
    /// The privileges of them all.
    pub privileges: Vec<Privilege>,
    /// Where it may log in from: its own restrictions and those of its roles, all of which are to be met.
    pub restrictions: Vec<Restrictions>,
    /// Commands that need a user and no privilege are open: there is no user yet who could log in, and the client is on this
    /// machine.
    pub is_bootstrap: bool,
}

impl User {
    /// A client that has not logged in.
    pub fn nobody() -> User {
        User::default()
    }

    /// A client on this machine as long as there is no user: it may make the first one.
    pub fn bootstrap() -> User {
        User {
            privileges: vec![Privilege {
                pattern: Pattern::of("admin", ""),
                actions: ActionSet::of(&[Action::CreateUser, Action::GrantRole]),
            }],
            is_bootstrap: true,
            ..User::default()
        }
    }

    /// Whether a connection with these ends may be the user's.
    pub fn may_come_by(&self, ends: Ends) -> bool {
        self.restrictions
            .iter()
            .all(|restrictions| restrictions.are_met(ends))
    }

    /// Whether it may run commands that need a user and no privilege.
    pub fn is_known(&self) -> bool {
        self.name.is_some() || self.is_bootstrap
    }

    /// Whether the user may do this.
    #[inline]
    pub fn may(&self, action: Action, resource: Resource<'_>) -> bool {
        let mut privileges = self.privileges.iter();
        privileges.any(|privilege| {
            privilege.actions.contains(action) && privilege.pattern.covers(resource)
        })
    }

    /// Whether the user may do all of this.
    pub fn may_all(&self, needs: &[Need]) -> bool {
        needs
            .iter()
            .all(|need| self.may(need.action(), need.resource()))
    }

    /// Whether the user may do anything at all within the database.
    pub fn sees_database(&self, database: &str) -> bool {
        let mut privileges = self.privileges.iter();
        privileges.any(|privilege| privilege.pattern.touches(database))
    }

    /// Whether the user may do anything at all to the collection.
    pub fn sees_collection(&self, database: &str, collection: &str) -> bool {
        let resource = Resource::Collection(database, collection);
        let mut privileges = self.privileges.iter();
        privileges.any(|privilege| privilege.pattern.covers(resource))
    }
}

/// Adds the privileges to those that are there, one entry a pattern.
pub fn merge(into: &mut Vec<Privilege>, more: Vec<Privilege>) {
    for privilege in more {
        match into
            .iter_mut()
            .find(|held| held.pattern == privilege.pattern)
        {
            Some(held) => held.actions = held.actions.and(privilege.actions),
            None => into.push(privilege),
        }
    }
}
