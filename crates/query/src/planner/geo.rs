//! Plans over geospatial indexes: the cells that a filter's geometry may meet become ranges of keys, and an order by distance
//! becomes a search through growing rings.
//!
//! The fields of the index that stand before the geospatial one must have single values by the filter, because cells of
//! different values do not lie beside each other. Whatever a range finds is held against the whole filter, since cells say no more than
//! that two geometries may meet.

use std::sync::Arc;

use quarry_database::{Collection, Index, IndexCatalog};
use quarry_geometry::{CellRange, Ring, ranges_of, ranges_of_ring};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::filter_bounds::{Bounds, FilterBounds};
use super::key_ranges::{are_combined, compose};
use super::tree::Solution;
use super::wanted::Wanted;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::FieldPath;
use crate::geo_index::{Cells, GeoKeys};
use crate::interrupts;
use crate::matcher::{FieldPredicate, From, GeoQuestion, MatchExpression, Near, Predicate};
use crate::plan::{Covered, Fetch, GeoNear, GeoScan, IndexAccess, KeySource};

/// The plan of a filter with a wish for an order by distance. Fails where no index gives it.
pub fn near_solution(
    index_catalog: &IndexCatalog,
    collection: &Collection,
    near: &Near,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<Solution> {
    let mut usable = Vec::new();
    for candidate in candidates(index_catalog, wanted) {
        let is_of_field = match &near.path {
            Some(path) => candidate.path() == path.as_str(),
            None => true,
        };
        let serves = match near.from {
            From::Flat(_) => !candidate.keys.is_sphere(),
            From::Sphere {
                is_in_metres: true, ..
            } => candidate.keys.is_sphere(),
            From::Sphere { .. } => true,
        };
        if is_of_field
            && serves
            && let Some(starts) = candidate.starts(bounds)
        {
            usable.push((candidate, starts));
        }
    }
    let Some(place) = chosen(&usable, near, collection)? else {
        return Err(no_index(near, collection));
    };
    let (candidate, starts) = usable.swap_remove(place);
    let path = FieldPath::parse(candidate.path())?;
    let scan = candidate.scan(starts, wanted);
    let node = GeoNear::new(scan, path, candidate.keys.cells);
    Ok(Solution {
        node: Box::new(node),
        is_sorted: wanted.sort.is_none(),
        is_of_branches: false,
        covered: Covered::No,
        key: KeySource::Nothing,
    })
}

/// The index that serves a wish best: one of the sphere for a distance on it. `$geoNear` without a key must leave no choice.
fn chosen(
    usable: &[(GeoCandidate<'_>, Vec<Vec<u8>>)],
    near: &Near,
    collection: &Collection,
) -> Result<Option<usize>> {
    let is_sphere = |place: &usize| usable[*place].0.keys.is_sphere();
    let places = || 0..usable.len();
    if near.path.is_some() {
        return Ok(places().find(is_sphere).or_else(|| places().next()));
    }
    for (kind, of_sphere) in [("2d", false), ("2dsphere", true)] {
        let mut of_kind = places().filter(|place| is_sphere(place) == of_sphere);
        match (of_kind.next(), of_kind.next()) {
            (None, _) => {}
            (only, None) => return Ok(only),
            _ => {
                let text = format!(
                    "There is more than one {kind} index on {}; unsure which to use for $geoNear",
                    collection.namespace
                );
                return Err(Error::new(ErrorCode::INDEX_NOT_FOUND, text));
            }
        }
    }
    Ok(None)
}

fn no_index(near: &Near, collection: &Collection) -> Error {
    if near.path.is_none() {
        let text = "$geoNear requires a 2d or 2dsphere index, but none were found";
        return Error::new(ErrorCode::INDEX_NOT_FOUND, text);
    }
    let text = format!(
        "error processing query: ns={} planner returned error :: caused by :: unable to find index for $geoNear query",
        collection.namespace
    );
    Error::new(ErrorCode::NO_QUERY_EXECUTION_PLANS, text)
}

/// The plan that finds what a filter asks with a geometry, if an index serves it. An equality of `_id` finds one document at most
/// and is left to others.
pub fn solution(
    index_catalog: &IndexCatalog,
    filter: &MatchExpression,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Option<Solution> {
    let conjuncts = match filter {
        MatchExpression::And(children) => children.as_slice(),
        other => std::slice::from_ref(other),
    };
    let is_id = |field: &FieldPredicate| field.path.as_str() == "_id" && field.is_equality();
    let fields = || {
        conjuncts.iter().filter_map(|conjunct| match conjunct {
            MatchExpression::Field(field) => Some(field),
            _ => None,
        })
    };
    if wanted.follows || fields().any(is_id) {
        return None;
    }
    for field in fields() {
        let Predicate::Test(test) = &field.predicate else {
            continue;
        };
        let Some(question) = test.as_geo() else {
            continue;
        };
        for candidate in candidates(index_catalog, wanted) {
            if candidate.path() != field.path.as_str() || !candidate.holds_all(question) {
                continue;
            }
            let Some(starts) = candidate.starts(bounds) else {
                continue;
            };
            let cells = candidate.cells(question);
            let scan = candidate.scan(starts, wanted);
            return Some(Solution {
                node: Box::new(Fetch::new(Box::new(scan.of_cells(&cells)), true)),
                is_sorted: wanted.sort.is_none(),
                is_of_branches: false,
                covered: Covered::No,
                key: KeySource::Nothing,
            });
        }
    }
    None
}

/// A geospatial index that plans may use.
struct GeoCandidate<'c> {
    index: &'c Index,
    keys: &'c GeoKeys,
    paths: &'c [u16],
    /// The number of its geospatial field.
    place: usize,
}

/// An index with several geospatial fields is a candidate by its first one.
fn candidates<'c>(
    index_catalog: &'c IndexCatalog,
    wanted: &Wanted<'_>,
) -> impl Iterator<Item = GeoCandidate<'c>> {
    let (hint, allowed) = (wanted.hint, wanted.allowed);
    let indexes = index_catalog.indexes.iter().enumerate();
    let indexes = indexes
        .filter(|(_, index)| !index.building && !index.hidden && index.filter.is_none())
        .filter(|(_, index)| !index.is_outdated())
        .filter(move |(_, index)| allowed.is_none_or(|filter| filter.allows_index(index)));
    let candidates = indexes.filter_map(|(position, index)| {
        Some(GeoCandidate {
            keys: GeoKeys::of(index)?,
            paths: index_catalog.paths.of_index(position),
            place: index
                .pattern
                .fields
                .iter()
                .position(|field| field.is_special)?,
            index,
        })
    });
    candidates.filter(move |candidate| hint.is_none_or(|hint| candidate.index.is_meant(hint)))
}

impl GeoCandidate<'_> {
    fn path(&self) -> &str {
        &self.index.pattern.fields[self.place].path
    }

    /// Whether it has every document that may match: an index in the plane has those within its bounds alone, which is all
    /// that it takes; it has no lines and polygons.
    fn holds_all(&self, question: &GeoQuestion) -> bool {
        match (self.keys.cells, question) {
            (Cells::Sphere, GeoQuestion::WithinFlat(_)) => false,
            (Cells::Sphere, _) => true,
            (Cells::Plane(_), GeoQuestion::WithinFlat(_) | GeoQuestion::WithinDisc(..)) => true,
            (Cells::Plane(_), _) => false,
        }
    }

    /// The beginnings of the keys that the filter's values of the fields before the geospatial one have; none if it does not say
    /// single values, or says more than are combined: a beginning without the last field has the cells of other values
    /// between.
    fn starts(&self, bounds: &mut FilterBounds<'_>) -> Option<Vec<Vec<u8>>> {
        let leading = self.index.pattern.fields[..self.place]
            .iter()
            .zip(self.paths);
        let multikey = self.index.multikey_components();
        let collation = &self.index.collation;
        let mut bounded = SmallVec::<[_; 4]>::new();
        for (number, (field, path)) in leading.enumerate() {
            let bound = bounds.of(*path, &field.path, multikey & (1 << number) != 0, collation)?;
            if !bounds.get(bound).are_points() {
                return None;
            }
            bounded.push((bound, field.direction));
        }
        let bounded: SmallVec<[(Bounds<'_, '_>, Direction); 4]> = bounded
            .iter()
            .map(|(bound, direction)| (bounds.get(*bound), *direction))
            .collect();
        if !are_combined(&bounded) {
            return None;
        }
        let ranges = compose(self.index.prefix.as_bytes(), &bounded);
        Some(ranges.into_iter().map(|range| range.start).collect())
    }

    fn cells(&self, question: &GeoQuestion) -> Vec<CellRange> {
        let pace = interrupts::is_over;
        match (self.keys.cells, question) {
            (Cells::Plane(hash), GeoQuestion::WithinFlat(shape)) => hash.ranges_of(shape),
            (Cells::Plane(hash), GeoQuestion::WithinDisc(_, center, radius)) => {
                hash.ranges_of_disc_on_sphere(*center, *radius)
            }
            (_, GeoQuestion::WithinDisc(_, center, radius)) => ranges_of_ring(Ring {
                center: *center,
                inner: 0.0,
                outer: *radius,
            }),
            (_, GeoQuestion::WithinArea(area) | GeoQuestion::Intersects(area)) => {
                ranges_of(area, pace)
            }
            (_, GeoQuestion::WithinFlat(_)) => Vec::new(),
        }
    }

    fn scan(&self, starts: Vec<Vec<u8>>, wanted: &Wanted<'_>) -> GeoScan {
        let index = self.index;
        let access = IndexAccess {
            name: Arc::clone(&index.name),
            ident: index.ident,
            is_of_records: false,
            pattern: Arc::clone(&index.pattern.document),
            is_multikey: index.is_multikey(),
            is_unique: index.unique,
            is_sparse: index.sparse,
            collation: index.collation.specification().cloned(),
            is_partial: false,
            bounds: Vec::new(),
        };
        GeoScan {
            access,
            starts,
            geo_field: wanted.shows_bounds.then(|| self.path().to_owned()),
        }
    }
}
