//! Where one walk over a document puts the top-level fields that a filter names, and which predicate asks which.
//! Made when the filter meets its first document: many a filter is answered by an index alone.

use std::collections::HashMap;

use quarry_bson::FieldSet;
use smallvec::SmallVec;

use super::expression::{FieldPredicate, MatchExpression};

/// Names that are compared one by one; more are hashed, so that a filter with very many stays linear.
const COMPARED_MAX: usize = 32;

/// Names that are found by a set that compares them.
const SET_NAMES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Slots {
    /// For each predicate, by its number, the slot of its first field.
    of_predicates: SmallVec<[u32; 16]>,
    /// How many slots there are: names without duplicates.
    pub len: usize,
    pub finder: Finder,
}

/// How the fields are found in a document.
#[derive(Debug)]
pub(super) enum Finder {
    None,
    One(Box<str>),
    /// In one walk.
    Several(FieldSet),
    /// In one walk too, each name looked up: a set of so many would walk once for every part of it.
    Many(HashMap<Box<[u8]>, u32>),
}

impl Slots {
    pub fn new(root: &MatchExpression) -> Slots {
        let mut names = Names::default();
        let mut of_predicates = SmallVec::new();
        for_each_predicate(root, &mut |predicate| {
            of_predicates.push(names.slot(predicate.path.first()));
        });
        let finder = match names.list.as_slice() {
            [] => Finder::None,
            [only] => Finder::One((*only).into()),
            several if several.len() <= SET_NAMES_MAX => {
                Finder::Several(FieldSet::new(several.iter().copied()))
            }
            many => {
                let names = many.iter().map(|name| name.as_bytes().into());
                Finder::Many(names.zip(0..).collect())
            }
        };
        Slots {
            of_predicates,
            len: names.list.len(),
            finder,
        }
    }

    #[inline]
    pub fn of(&self, predicate: &FieldPredicate) -> usize {
        self.of_predicates[predicate.number] as usize
    }
}

/// The top-level fields of the root's paths, without duplicates.
pub(super) fn names(root: &MatchExpression) -> Vec<&str> {
    let mut names = Names::default();
    for_each_predicate(root, &mut |predicate| {
        names.slot(predicate.path.first());
    });
    names.list
}

/// Numbers the predicates; those inside `$elemMatch` have numbers of their own. Returns how many `$text` there are.
pub(super) fn number_predicates(root: &mut MatchExpression) -> usize {
    let (mut next, mut texts) = (0, 0);
    number_from(root, &mut next, &mut texts);
    texts
}

fn number_from(expression: &mut MatchExpression, next: &mut usize, texts: &mut usize) {
    match expression {
        MatchExpression::AlwaysTrue
        | MatchExpression::AlwaysFalse
        | MatchExpression::Expr(_)
        | MatchExpression::Schema(_)
        | MatchExpression::Near(_) => {}
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => {
            for child in children {
                number_from(child, next, texts);
            }
        }
        MatchExpression::Not(child) => number_from(child, next, texts),
        MatchExpression::Text(_) => *texts += 1,
        MatchExpression::Field(field) => {
            field.number = *next;
            *next += 1;
        }
    }
}

/// In the order of their numbers.
fn for_each_predicate<'m>(
    expression: &'m MatchExpression,
    visit: &mut dyn FnMut(&'m FieldPredicate),
) {
    match expression {
        MatchExpression::AlwaysTrue
        | MatchExpression::AlwaysFalse
        | MatchExpression::Expr(_)
        | MatchExpression::Schema(_)
        | MatchExpression::Near(_)
        | MatchExpression::Text(_) => {}
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => {
            for child in children {
                for_each_predicate(child, visit);
            }
        }
        MatchExpression::Not(child) => for_each_predicate(child, visit),
        MatchExpression::Field(field) => visit(field),
    }
}

#[derive(Default)]
struct Names<'m> {
    list: Vec<&'m str>,
    /// Filled once there are more than `COMPARED_MAX`.
    places: HashMap<&'m str, u32>,
}

impl<'m> Names<'m> {
    /// The place of a name, which it is given if it has none.
    fn slot(&mut self, name: &'m str) -> u32 {
        let known = if self.list.len() <= COMPARED_MAX {
            let place = self.list.iter().position(|known| *known == name);
            place.map(|place| place as u32)
        } else {
            self.places.get(name).copied()
        };
        known.unwrap_or_else(|| self.push(name))
    }

    fn push(&mut self, name: &'m str) -> u32 {
        let place = self.list.len() as u32;
        self.list.push(name);
        if self.list.len() == COMPARED_MAX + 1 {
            self.places = self.list.iter().copied().zip(0..).collect();
        } else if self.list.len() > COMPARED_MAX {
            self.places.insert(name, place);
        }
        place
    }
}
