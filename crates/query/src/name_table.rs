//! A table of what a request says of fields, found by name for every element that a walk meets. A few
//! names are compared one by one; more are hashed, so that a request with very many stays linear.

use std::cmp::Ordering;
use std::collections::HashMap;

/// Names that are compared rather than hashed.
const COMPARED_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct NameTable<T> {
    entries: Vec<(Box<str>, T)>,
    /// Filled once there are more than `COMPARED_MAX` entries.
    places: HashMap<Box<[u8]>, usize>,
}

impl<T> Default for NameTable<T> {
    fn default() -> NameTable<T> {
        NameTable {
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<T> NameTable<T> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a name that is not there yet; returns its place.
    pub fn push(&mut self, name: impl Into<Box<str>>, entry: T) -> usize {
        let (name, place) = (name.into(), self.entries.len());
        if place > COMPARED_MAX {
            self.places.insert(name.as_bytes().into(), place);
        }
        self.entries.push((name, entry));
        if place == COMPARED_MAX {
            self.index();
        }
        place
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        if self.entries.len() <= COMPARED_MAX {
            return self
                .entries
                .iter()
                .position(|(known, _)| known.as_bytes() == name);
        }
        self.places.get(name).copied()
    }

    /// `place` is one that `push` or `find` returned since the last `sort_by`.
    pub fn name(&self, place: usize) -> &str {
        &self.entries[place].0
    }

    pub fn get(&self, place: usize) -> &T {
        &self.entries[place].1
    }

    pub fn get_mut(&mut self, place: usize) -> &mut T {
        &mut self.entries[place].1
    }

    /// In the order of adding, or of the last `sort_by`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_ref(), entry))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, entry)| entry)
    }

    pub fn sort_by(&mut self, compare: impl Fn((&str, &T), (&str, &T)) -> Ordering) {
        self.entries
            .sort_by(|(a, left), (b, right)| compare((a, left), (b, right)));
        if self.entries.len() > COMPARED_MAX {
            self.index();
        }
    }

    fn index(&mut self) {
        let names = self.entries.iter().enumerate();
        self.places = names
            .map(|(place, (name, _))| (name.as_bytes().into(), place))
            .collect();
    }
}
