//! What a filter says about the paths that a collection's indexes name: intervals, made when a candidate first asks
//! for a path and kept for the others, by the path's number.

use quarry_database::PathNumbers;
use smallvec::SmallVec;

use super::bounds::{self, Conjuncts};
use super::interval::Interval;
use crate::matcher::{FieldPredicate, Matcher};

/// The intervals of each path that a candidate asked for: candidates share fields.
pub struct FilterBounds<'m> {
    is_equalities: bool,
    /// With the numbers of their paths; what no index names is left out.
    conjuncts: SmallVec<[(u16, &'m FieldPredicate); 12]>,
    /// By the number of a path, what is known of it where no arrays are on it.
    paths: SmallVec<[PathState; 64]>,
    known: SmallVec<[Known<'m>; 12]>,
}

#[derive(Clone, Copy)]
enum PathState {
    NotAsked,
    /// There is a predicate of it.
    Asked,
    /// Its place in `known`.
    Known(u16),
}

/// Of one path, with arrays on it or without; None if it is not bounded.
struct Known<'m> {
    path: u16,
    is_multikey: bool,
    intervals: Option<Vec<Interval<'m>>>,
}

impl<'m> FilterBounds<'m> {
    pub fn new(matcher: &'m Matcher, paths: &PathNumbers) -> FilterBounds<'m> {
        let Conjuncts {
            predicates,
            are_all,
        } = Conjuncts::of(matcher.root());
        let mut bounds = FilterBounds {
            is_equalities: are_all,
            conjuncts: SmallVec::new(),
            paths: SmallVec::from_elem(PathState::NotAsked, paths.end()),
            known: SmallVec::new(),
        };
        for field in predicates {
            let Some(path) = paths.get(field.path.as_str()) else {
                bounds.is_equalities = false;
                continue;
            };
            let state = &mut bounds.paths[usize::from(path)];
            bounds.is_equalities &= matches!(state, PathState::NotAsked) && field.is_equality();
            *state = PathState::Asked;
            bounds.conjuncts.push((path, field));
        }
        bounds
    }

    /// The place of the intervals of a path, if it is bounded.
    #[inline]
    pub fn of(&mut self, path: u16, name: &str, is_multikey: bool) -> Option<u16> {
        let place = match self.paths[usize::from(path)] {
            PathState::NotAsked => return None,
            PathState::Known(place) if !is_multikey => place,
            PathState::Asked if !is_multikey => {
                let place = self.learn(path, name, false);
                self.paths[usize::from(path)] = PathState::Known(place);
                place
            }
            _ => self.multikey(path, name),
        };
        let is_bounded = self.known[usize::from(place)].intervals.is_some();
        is_bounded.then_some(place)
    }

    /// Whether the filter is nothing but equalities, each of another path that an index names.
    pub fn are_equalities(&self) -> bool {
        self.is_equalities
    }

    /// Of paths that an index names.
    pub fn predicates_len(&self) -> usize {
        self.conjuncts.len()
    }

    fn multikey(&mut self, path: u16, name: &str) -> u16 {
        let mut known = self.known.iter();
        let place = known.position(|known| known.path == path && known.is_multikey);
        place.map_or_else(|| self.learn(path, name, true), |place| place as u16)
    }

    fn learn(&mut self, path: u16, name: &str, is_multikey: bool) -> u16 {
        let predicates = self.conjuncts.iter().filter(|(of, _)| *of == path);
        let predicates = predicates.map(|(_, field)| *field);
        self.known.push(Known {
            path,
            is_multikey,
            intervals: bounds::of_path(predicates, name, is_multikey),
        });
        u16::try_from(self.known.len() - 1).expect("a place for each indexed path, twice at most")
    }

    /// `place` is one that `of` gave.
    pub fn get(&self, place: u16) -> &[Interval<'m>] {
        self.known[usize::from(place)]
            .intervals
            .as_deref()
            .unwrap_or_default()
    }
}
