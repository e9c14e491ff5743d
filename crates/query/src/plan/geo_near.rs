//! GEO_NEAR_2DSPHERE and GEO_NEAR_2D: documents in the order of their distances from a point, by a search through rings around it.
//!
//! Each ring begins where the one before it ended. The keys of the cells that may have something in it are read, the distance of
//! each document is measured, and those within the ring that match are given in order before the next ring is searched.
//! A ring is the wider the fewer the one before it had. What a ring holds are the keys of its records, so that a
//! limit costs no more than the rings that it needs, and a document is shown as it is when it is given.
//!
//! Keeps true: a document has one distance, that of its nearest place, and so one ring, however many cells it is kept under.

use std::sync::atomic::Ordering::Relaxed;

use hashbrown::HashSet;
use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::{KeyRange, index_record_key};
use quarry_geometry::{CellRange, Ring, ranges_of_ring};
use quarry_timing::{Phase, phase};

use super::geo_scan::GeoScan;
use super::index_scan::find_index;
use super::node::{Flow, Leaf, PlanNode, Purpose, Row, Sink, View};
use super::range_walk::RangeWalk;
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::stored;
use crate::field_path::FieldPath;
use crate::geo_index::{Cells, each_value};
use crate::interrupts;
use crate::matcher::{From, Near};
use crate::memory::Charge;
use crate::pipeline::nested_field;
use crate::sorter::sort_in_steps;

/// The width of the first ring on the sphere: about a hundred metres.
const FIRST_WIDTH_RADIANS: f64 = 1.6e-5;
/// The first ring in the plane has this part of the index's extent.
const FIRST_PART: f64 = 1.0 / 16_384.0;
/// The next ring is four times as wide after one with fewer documents, and half as wide after one with more.
const FEW: usize = 16;
const MANY: usize = 512;
/// The bytes of a found record beside its key: in the list, in the set of those that were met, and of the allocator.
const RECORD_BYTES: usize = 96;

/// A search for the nearest documents.
pub struct GeoNear {
    scan: GeoScan,
    path: FieldPath,
    cells: Cells,
    /// The records of the ring that was searched, the farthest first.
    found: Vec<Found>,
    held: Charge,
    /// The records that were given, where they may be moved into a ring that is still to come.
    given: Option<HashSet<Box<[u8]>>>,
    held_given: Charge,
    rings: Option<Rings>,
    returned: u64,
    keys_examined: u64,
    docs_examined: u64,
}

struct Found {
    distance: f64,
    record: Box<[u8]>,
}

/// The rings that are still to be searched, in radians or in the units of the plane.
struct Rings {
    inner: f64,
    width: f64,
    end: f64,
    /// The first ring has what lies just at `inner`.
    is_first: bool,
    is_done: bool,
}

/// The nearest place of a document.
struct Nearest<'a> {
    distance: f64,
    place: RawValue<'a>,
}

impl GeoNear {
    /// A search at a path of documents, through the cells of an index.
    pub fn new(scan: GeoScan, path: FieldPath, cells: Cells) -> GeoNear {
        GeoNear {
            scan,
            path,
            cells,
            found: Vec::new(),
            held: Charge::default(),
            given: None,
            held_given: Charge::default(),
            rings: None,
            returned: 0,
            keys_examined: 0,
            docs_examined: 0,
        }
    }

    fn rings(&self, near: &Near) -> Rings {
        let units = near.units_a_radian();
        let (width, end) = match (self.cells, near.from) {
            (Cells::Plane(hash), From::Flat(from)) => {
                let away = |at: f64| (at - hash.min).abs().max((hash.max - at).abs());
                let extent = hash.max - hash.min;
                (
                    extent * FIRST_PART,
                    away(from.x).hypot(away(from.y)) * 1.001,
                )
            }
            _ => (FIRST_WIDTH_RADIANS, std::f64::consts::PI),
        };
        let (min, max) = (near.min / units, near.max / units);
        Rings {
            inner: min,
            width,
            end: max.min(end),
            is_first: true,
            is_done: min > max.min(end),
        }
    }

    /// The cells that may have places in a ring.
    fn cells_of(&self, near: &Near, inner: f64, outer: f64) -> Vec<CellRange> {
        match (self.cells, near.from) {
            (Cells::Plane(hash), From::Flat(from)) => hash.ranges_of_ring(from, inner, outer),
            (Cells::Plane(hash), From::Sphere { center, .. }) => {
                hash.ranges_of_disc_on_sphere(center, outer)
            }
            (Cells::Sphere, From::Sphere { center, .. }) => ranges_of_ring(Ring {
                center,
                inner,
                outer,
            }),
            (Cells::Sphere, From::Flat(_)) => Vec::new(),
        }
    }

    /// Searches the next ring.
    fn search(&mut self, view: &View<'_>, near: &Near) -> Result<()> {
        let Some(rings) = &mut self.rings else {
            return Ok(());
        };
        let (inner, outer) = (rings.inner, (rings.inner + rings.width).min(rings.end));
        let is_in_ring = {
            let is_first = rings.is_first;
            move |distance: f64| {
                distance <= outer && (distance > inner || (is_first && distance >= inner))
            }
        };
        rings.is_first = false;
        rings.inner = outer;
        rings.is_done = outer >= rings.end;
        let ranges = self.scan.ranges(&self.cells_of(near, inner, outer));
        // The cells were cut short where the operation is to end.
        interrupts::work(1)?;
        self.read(view, near, ranges, &is_in_ring)?;
        if let Some(rings) = &mut self.rings {
            match self.found.len() {
                len if len < FEW => rings.width *= 4.0,
                len if len > MANY => rings.width /= 2.0,
                _ => {}
            }
        }
        sort_in_steps(&mut self.found, |a, b| {
            b.distance
                .total_cmp(&a.distance)
                .then_with(|| b.record.cmp(&a.record))
        })
    }

    /// Finds the records in ranges of keys that are in the ring and match.
    fn read(
        &mut self,
        view: &View<'_>,
        near: &Near,
        ranges: Vec<KeyRange>,
        is_in_ring: &dyn Fn(f64) -> bool,
    ) -> Result<()> {
        let index = find_index(view, &self.scan.access)?;
        let mut met: HashSet<Box<[u8]>> = HashSet::new();
        let (path, found, held) = (&self.path, &mut self.found, &mut self.held);
        let (mut keys, mut documents) = (0, 0);
        let outcome = RangeWalk::new(ranges, false).walk(view, false, |cursor| {
            keys += 1;
            let (key, value) = (cursor.key(), cursor.value());
            let record = index_record_key(index, &view.snapshot.collection, key, value)?;
            if !met.insert(record.as_slice().into()) {
                return Ok(Flow::Continue);
            }
            held.grow(record.len() + RECORD_BYTES)?;
            let mut distance = Ok(None);
            view.snapshot.get(&record, &mut |bytes| {
                documents += 1;
                distance = stored(RawDocument::new(bytes)).and_then(|document| {
                    let nearest = nearest(document, path, near)?;
                    let nearest = nearest.filter(|nearest| is_in_ring(nearest.distance));
                    match nearest {
                        Some(nearest) if view.parsed.matches(document)? => {
                            Ok(Some(nearest.distance))
                        }
                        _ => Ok(None),
                    }
                });
            })?;
            if let Some(distance) = distance? {
                found.push(Found {
                    distance,
                    record: record.as_slice().into(),
                });
            }
            Ok(Flow::Continue)
        });
        self.keys_examined += keys;
        self.docs_examined += documents;
        view.operation.keys_examined.fetch_add(keys, Relaxed);
        view.operation.docs_examined.fetch_add(documents, Relaxed);
        outcome?;
        Ok(())
    }

    /// Gives the records of the ring that was searched; whether the sink wants more.
    fn give(&mut self, view: &View<'_>, near: &Near, sink: &mut Sink<'_>) -> Result<Flow> {
        let mut extended = Vec::new();
        while let Some(found) = self.found.pop() {
            let record = &found.record;
            if let Some(given) = &mut self.given {
                if !given.insert(record.clone()) {
                    continue;
                }
                self.held_given.grow(record.len() + RECORD_BYTES)?;
            }
            let (path, returned) = (&self.path, &mut self.returned);
            let mut flow = Ok(Flow::Continue);
            view.snapshot.get(record, &mut |bytes| {
                flow = stored(RawDocument::new(bytes)).and_then(|document| {
                    // It may have changed since the ring was searched.
                    if !view.parsed.matches(document)? {
                        return Ok(Flow::Continue);
                    }
                    let document = match &near.adds {
                        None => document,
                        Some(_) => match nearest(document, path, near)? {
                            None => return Ok(Flow::Continue),
                            Some(nearest) => {
                                extend(document, &nearest, near, &mut extended);
                                stored(RawDocument::new(&extended))?
                            }
                        },
                    };
                    *returned += 1;
                    sink(&Row {
                        record,
                        document: Some(document),
                    })
                });
            })?;
            if flow? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        self.held = Charge::default();
        Ok(Flow::Continue)
    }
}

/// Finds the place of a document that is nearest.
fn nearest<'a>(
    document: RawDocument<'a>,
    path: &FieldPath,
    near: &Near,
) -> Result<Option<Nearest<'a>>> {
    let mut nearest: Option<Nearest<'a>> = None;
    let mut measure = |place: RawValue<'a>| {
        let Some(distance) = near.distance(place) else {
            return false;
        };
        if nearest.as_ref().is_none_or(|held| distance < held.distance) {
            nearest = Some(Nearest { distance, place });
        }
        true
    };
    each_value(document, path.parts(), &mut |value| {
        if !measure(value)
            && let RawValue::Array(array) = value
        {
            for element in array {
                measure(element);
            }
        }
    });
    interrupts::work(1)?;
    Ok(nearest)
}

/// Makes the document with the fields that `$geoNear` adds.
fn extend(document: RawDocument<'_>, nearest: &Nearest<'_>, near: &Near, out: &mut Vec<u8>) {
    let Some(adds) = &near.adds else {
        return;
    };
    out.clear();
    out.extend_from_slice(document.as_bytes());
    let distance = nearest.distance * near.units_a_radian() * adds.factor;
    let fields = [
        (&adds.distance, RawValue::Double(distance)),
        (&adds.place, nearest.place),
    ];
    for (path, value) in fields {
        if let Some(path) = path {
            let before = std::mem::take(out);
            let before = RawDocument::new(&before).unwrap_or(RawDocument::EMPTY);
            nested_field::set(before, path.parts(), Some(value), out);
        }
    }
}

impl PlanNode for GeoNear {
    fn next(&mut self, view: &View<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let Some(near) = view.parsed.matcher.root().near() else {
            debug_assert!(
                false,
                "a search by distance is planned for a filter that asks for one"
            );
            return Ok(false);
        };
        if self.rings.is_none() {
            self.rings = Some(self.rings(near));
        }
        loop {
            if self.give(view, near, sink)? == Flow::Stop {
                return Ok(true);
            }
            if self.rings.as_ref().is_none_or(|rings| rings.is_done) {
                return Ok(false);
            }
            self.search(view, near)?;
        }
    }

    fn mark(&mut self) {}

    /// A ring that was searched stays: what was read ahead of it is kept by whoever has it.
    fn rewind(&mut self) {
        debug_assert!(self.rings.is_none(), "a search does not go back");
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        None
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        None
    }

    fn name(&self) -> &'static str {
        match self.cells {
            Cells::Sphere => "GEO_NEAR_2DSPHERE",
            Cells::Plane(_) => "GEO_NEAR_2D",
        }
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.filter(out);
        shown.returned(self.returned, out);
        let access = &self.scan.access;
        out.append("keyPattern", access.pattern.as_raw());
        out.append("indexName", access.name.as_str());
        out.append("indexVersion", 2);
        if shown.counts {
            out.append("keysExamined", number(self.keys_examined));
            out.append("docsExamined", number(self.docs_examined));
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Index(&self.scan.access));
    }

    fn set_purpose(&mut self, purpose: Purpose) {
        if purpose == Purpose::Move {
            self.given.get_or_insert_default();
        }
    }

    fn holds_rows(&self) -> bool {
        self.rings.is_some()
    }
}
