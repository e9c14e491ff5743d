//! Where each collection of the source stands on the destination, by the number that it keeps when it is renamed.
//!
//! A copy is newer than the changes that are applied behind it: a collection may have been renamed between the first change and the copy, and its name may
//! have gone to another one. A name alone would bring an old change into the wrong collection, a number does not.

use std::collections::HashMap;

use crate::definition::Uuid;
use crate::error::{Error, Result};
use crate::namespaces::Namespace;

/// The names of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The name on the source, as of the last change that was applied.
    pub from: Namespace,
    /// The name on the destination.
    pub to: Namespace,
}

/// The collections that are on the destination.
#[derive(Clone, Debug, Default)]
pub struct Places {
    by_uuid: HashMap<Uuid, Place>,
    by_name: HashMap<Namespace, Uuid>,
}

/// The effect of a rename.
#[derive(Debug, PartialEq)]
pub enum Rename {
    /// It has been made: the change is older than the copy, or comes twice.
    IsMade,
    /// It is to be made.
    IsDue,
    /// It is to be made, and removes the collection that has the name.
    Replaces(Uuid),
}

impl Places {
    /// The place of a collection; none where it is not on the destination.
    pub fn get(&self, uuid: &Uuid) -> Option<&Place> {
        self.by_uuid.get(uuid)
    }

    /// The collection that has the name on the destination.
    pub fn holder(&self, to: &Namespace) -> Option<Uuid> {
        self.by_name.get(to).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Uuid, &Place)> {
        self.by_uuid.iter()
    }

    /// Notes a collection that is new on the destination, or has a new name there.
    pub fn put(&mut self, uuid: Uuid, place: Place) {
        self.remove(&uuid);
        self.by_name.insert(place.to.clone(), uuid);
        self.by_uuid.insert(uuid, place);
    }

    /// Notes that a collection is on the destination no more; where it was.
    pub fn remove(&mut self, uuid: &Uuid) -> Option<Place> {
        let place = self.by_uuid.remove(uuid)?;
        self.by_name.remove(&place.to);
        Some(place)
    }

    /// Whether a collection that is created is to be made. It is not where it stands already, or where a later collection has its name: it was
    /// dropped or renamed before the copy.
    pub fn is_to_be_made(&self, uuid: &Uuid, place: &Place) -> Result<bool> {
        if self.by_uuid.contains_key(uuid) {
            return Ok(false);
        }
        let Some(holder) = self.holder(&place.to).and_then(|holder| self.get(&holder)) else {
            return Ok(true);
        };
        match holder.from == place.from {
            true => Ok(false),
            false => Err(Error::usage(format!(
                "`{}` and `{}` would both be named `{}`",
                holder.from, place.from, place.to
            ))),
        }
    }

    /// The effect of a rename of the collection, which said that it removed another one or none.
    pub fn rename(
        &self,
        uuid: &Uuid,
        from: &Namespace,
        new: &Place,
        removed: Option<Uuid>,
    ) -> Rename {
        let is_here = self.get(uuid).is_some_and(|place| place.from == *from);
        if !is_here || from == &new.from {
            return Rename::IsMade;
        }
        match self.holder(&new.to) {
            None => Rename::IsDue,
            Some(holder) if removed == Some(holder) => Rename::Replaces(holder),
            // It got the name later, so that this collection has left it again by the time of the copy.
            Some(_) => Rename::IsMade,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = [1; 16];
    const B: Uuid = [2; 16];

    fn named(name: &str) -> Namespace {
        Namespace::new("db", name)
    }

    fn place(name: &str) -> Place {
        Place {
            from: named(name),
            to: named(&format!("of_{name}")),
        }
    }

    fn places(all: &[(Uuid, &str)]) -> Places {
        let mut places = Places::default();
        for (uuid, name) in all {
            places.put(*uuid, place(name));
        }
        places
    }

    fn rename(places: &Places, uuid: Uuid, from: &str, to: &str, removed: Option<Uuid>) -> Rename {
        places.rename(&uuid, &named(from), &place(to), removed)
    }

    #[test]
    fn a_rename_that_was_made_before_the_copy_is_not_made_again() {
        // It was renamed from x to y, then copied as y.
        let copied = places(&[(A, "y")]);
        assert_eq!(rename(&copied, A, "x", "y", None), Rename::IsMade);
        assert_eq!(rename(&copied, A, "y", "z", None), Rename::IsDue);
        // It has been dropped since.
        assert_eq!(rename(&copied, B, "x", "y", None), Rename::IsMade);
    }

    #[test]
    fn a_name_that_another_one_has_got_since_is_not_taken_from_it() {
        // a went from x to y and back to x, then b was made as y.
        let copied = places(&[(A, "x"), (B, "y")]);
        assert_eq!(rename(&copied, A, "x", "y", None), Rename::IsMade);
        assert_eq!(rename(&copied, A, "y", "x", None), Rename::IsMade);
        assert_eq!(
            rename(&copied, A, "x", "y", Some(B)),
            Rename::Replaces(B),
            "the source says that b has gone"
        );
    }

    #[test]
    fn a_collection_that_has_gone_before_the_copy_is_not_made() {
        let copied = places(&[(A, "x")]);
        assert!(!copied.is_to_be_made(&A, &place("other")).unwrap());
        assert!(!copied.is_to_be_made(&B, &place("x")).unwrap());
        assert!(copied.is_to_be_made(&B, &place("y")).unwrap());
        let collides = Place {
            from: named("other"),
            to: named("of_x"),
        };
        assert!(copied.is_to_be_made(&B, &collides).is_err());
    }

    #[test]
    fn names_follow_their_collections() {
        let mut places = places(&[(A, "x")]);
        places.put(A, place("y"));
        assert_eq!(places.holder(&named("of_x")), None);
        assert_eq!(places.holder(&named("of_y")), Some(A));
        assert_eq!(places.remove(&A), Some(place("y")));
        assert_eq!(places.holder(&named("of_y")), None);
        assert_eq!(places.iter().count(), 0);
    }
}
