//! GEO_NEAR_2DSPHERE and GEO_NEAR_2D: documents in the order of their distances from a point, by a search through rings around it.
//!
//! Each ring begins where the one before it ended. The keys of the cells that may have something in it are read, the distance of
//! each document is measured, and those within the ring that match are given in order before the next ring is searched.
//! A ring is the wider the fewer the one before it had. Cells are coarse, so that a ring's cells have much that lies beyond it: the
//! nearest of these documents are kept for the rings to come, which read only cells that were not read before. What is
//! held are the keys of records, so that a limit costs no more than the rings that it needs, and a document is shown as it is
//! when it is given.
//!
//! Keeps true: a document has one distance, that of its nearest place, and so one ring, however many cells it is kept under.

use hashbrown::HashSet;
use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::{KeyRange, index_record_key};
use quarry_geometry::{CellRange, Ring, ranges_of_ring};
use quarry_timing::{Phase, phase};

use super::geo_scan::GeoScan;
use super::index_scan::find_index;
use super::node::{Flow, Leaf, PlanContext, PlanNode, Purpose, Row, Sink};
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
/// The records beyond the ring that are kept for the next ones at most, and the ranges of cells that are known to be read.
const AHEAD_MAX: usize = if cfg!(test) { 64 } else { 32_768 };
const READ_RANGES_MAX: usize = 8192;

/// A search for the nearest documents.
pub struct GeoNear {
    scan: GeoScan,
    path: FieldPath,
    cells: Cells,
    found: FoundRecords,
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

/// The records that were measured and not given yet.
struct FoundRecords {
    /// The farthest first, once a ring has been searched.
    list: Vec<Found>,
    held: Charge,
    /// Records as far as this may be given; those beyond it wait for their ring.
    given_to: f64,
    /// The records of the list that wait.
    waiting: usize,
    /// Records were added that are not in their places.
    is_unsorted: bool,
    /// The cells that were read, in order and apart. Of their places that match, those nearer than `complete_below` were given or
    /// are in the list.
    read: Vec<CellRange>,
    complete_below: f64,
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
            found: FoundRecords::none(),
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
    fn search(&mut self, context: &PlanContext<'_>, near: &Near) -> Result<()> {
        let Some(rings) = &mut self.rings else {
            return Ok(());
        };
        let inner = rings.inner;
        let outer = self.found.reach((inner + rings.width).min(rings.end));
        let ring = SearchedRing {
            inner,
            has_inner: rings.is_first,
            end: rings.end,
        };
        rings.is_first = false;
        rings.inner = outer;
        rings.is_done = outer >= rings.end;
        self.found.begin_ring(outer);
        let cells = CellRange::joined(self.cells_of(near, inner, outer));
        let unread = CellRange::without(&cells, &self.found.read);
        let ranges = self.scan.ranges(&unread);
        // The cells were cut short where the operation is to end.
        interrupts::work(cells.len() + self.found.read.len())?;
        self.read(context, near, ranges, &ring)?;
        self.found.end_ring(cells)?;
        if let Some(rings) = &mut self.rings {
            match self.found.list.len() - self.found.waiting {
                len if len < FEW => rings.width *= 4.0,
                len if len > MANY => rings.width /= 2.0,
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds the records in ranges of keys that match and were not given.
    fn read(
        &mut self,
        context: &PlanContext<'_>,
        near: &Near,
        ranges: Vec<KeyRange>,
        ring: &SearchedRing,
    ) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let index = find_index(context, &self.scan.access)?;
        let (mut met, mut held): (HashSet<Box<[u8]>>, _) = (HashSet::new(), Charge::default());
        let (path, found) = (&self.path, &mut self.found);
        let (mut keys, mut documents) = (0, 0);
        let outcome = RangeWalk::new(ranges, false).walk(context, false, |cursor| {
            keys += 1;
            let (key, value) = (cursor.key(), cursor.value());
            let record = index_record_key(index, &context.snapshot.collection, key, value)?;
            if !met.insert(record.as_slice().into()) {
                return Ok(Flow::Continue);
            }
            held.grow(record.len() + RECORD_BYTES)?;
            let mut distance = Ok(None);
            context.snapshot.get(&record, &mut |bytes| {
                documents += 1;
                distance = stored(RawDocument::new(bytes)).and_then(|document| {
                    let nearest = nearest(document, path, near)?;
                    let nearest = nearest.map(|nearest| nearest.distance);
                    match nearest {
                        Some(distance)
                            if ring.is_wanted(distance) && context.parsed.matches(document)? =>
                        {
                            Ok(Some(distance))
                        }
                        _ => Ok(None),
                    }
                });
            })?;
            if let Some(distance) = distance? {
                found.add(distance, &record)?;
            }
            Ok(Flow::Continue)
        });
        self.keys_examined += keys;
        self.docs_examined += documents;
        context.operation.count_examined(keys, documents);
        outcome?;
        Ok(())
    }

    /// Gives the records of the ring that was searched; whether the sink wants more.
    fn give(
        &mut self,
        context: &PlanContext<'_>,
        near: &Near,
        sink: &mut Sink<'_>,
    ) -> Result<Flow> {
        let mut extended = Vec::new();
        while let Some(found) = self.found.next() {
            let record = &found.record;
            if let Some(given) = &mut self.given {
                if !given.insert(record.clone()) {
                    continue;
                }
                self.held_given.grow(record.len() + RECORD_BYTES)?;
            }
            let (path, returned) = (&self.path, &mut self.returned);
            let mut flow = Ok(Flow::Continue);
            context.snapshot.get(record, &mut |bytes| {
                flow = stored(RawDocument::new(bytes)).and_then(|document| {
                    // It may have changed since the ring was searched.
                    if !context.parsed.matches(document)? {
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
        Ok(Flow::Continue)
    }
}

/// The distances that a search asks for from the ring on that it is at.
struct SearchedRing {
    /// Nearer records were given.
    inner: f64,
    /// Those just at `inner` were not.
    has_inner: bool,
    end: f64,
}

impl SearchedRing {
    fn is_wanted(&self, distance: f64) -> bool {
        distance <= self.end
            && (distance > self.inner || (self.has_inner && distance >= self.inner))
    }
}

impl FoundRecords {
    fn none() -> FoundRecords {
        FoundRecords {
            list: Vec::new(),
            held: Charge::default(),
            given_to: 0.0,
            waiting: 0,
            is_unsorted: false,
            read: Vec::new(),
            complete_below: f64::INFINITY,
        }
    }

    /// The next record of the ring that was searched last.
    fn next(&mut self) -> Option<Found> {
        let next = self.list.pop_if(|found| found.distance <= self.given_to)?;
        self.held.shrink(next.held_bytes());
        Some(next)
    }

    /// The end of a ring that shall go so far: where not all of it is known, the farthest record that is known, so that what was kept
    /// is given before cells are read again.
    fn reach(&self, outer: f64) -> f64 {
        match self.list.first() {
            Some(farthest) if outer >= self.complete_below => farthest.distance,
            _ => outer,
        }
    }

    /// Begins the search of a ring that goes so far. What was kept is given up where not all of the ring was.
    fn begin_ring(&mut self, outer: f64) {
        if outer >= self.complete_below || self.read.len() > READ_RANGES_MAX {
            self.list.clear();
            self.held = Charge::default();
            self.read.clear();
            self.complete_below = f64::INFINITY;
        }
        self.given_to = outer;
        self.count_waiting();
    }

    /// Counts what waits of a list that is in order.
    fn count_waiting(&mut self) {
        let given_to = self.given_to;
        self.waiting = self.list.partition_point(|found| found.distance > given_to);
    }

    fn add(&mut self, distance: f64, record: &[u8]) -> Result<()> {
        if distance >= self.complete_below {
            return Ok(());
        }
        let found = Found {
            distance,
            record: record.into(),
        };
        self.held.grow(found.held_bytes())?;
        self.list.push(found);
        self.is_unsorted = true;
        if distance > self.given_to {
            self.waiting += 1;
            if self.waiting > AHEAD_MAX {
                self.forget_farthest()?;
            }
        }
        Ok(())
    }

    /// Forgets the farther half of the records that wait. From the nearest of them on the list is not complete.
    fn forget_farthest(&mut self) -> Result<()> {
        interrupts::work(self.list.len())?;
        let waiting = self.list.iter().map(|found| found.distance);
        let mut waiting: Vec<f64> = waiting.filter(|away| *away > self.given_to).collect();
        let (_, middle, _) = waiting.select_nth_unstable_by(AHEAD_MAX / 2, f64::total_cmp);
        self.complete_below = *middle;
        let (mut forgotten_bytes, before, below) = (0, self.list.len(), *middle);
        self.list.retain(|found| {
            let is_kept = found.distance < below;
            forgotten_bytes += if is_kept { 0 } else { found.held_bytes() };
            is_kept
        });
        self.held.shrink(forgotten_bytes);
        self.waiting -= before - self.list.len();
        Ok(())
    }

    /// Puts the list in order after the cells were read. A record that was met in cells of several rings is there once.
    fn end_ring(&mut self, cells: Vec<CellRange>) -> Result<()> {
        let read = std::mem::take(&mut self.read);
        self.read = CellRange::joined([read, cells].concat());
        if std::mem::take(&mut self.is_unsorted) {
            self.sort()?;
        }
        self.count_waiting();
        Ok(())
    }

    fn sort(&mut self) -> Result<()> {
        sort_in_steps(&mut self.list, |a, b| {
            b.distance
                .total_cmp(&a.distance)
                .then_with(|| b.record.cmp(&a.record))
        })?;
        let mut repeated = 0;
        self.list.dedup_by(|later, first| {
            let is_repeated = later.record == first.record;
            repeated += if is_repeated { later.held_bytes() } else { 0 };
            is_repeated
        });
        self.held.shrink(repeated);
        Ok(())
    }
}

impl Found {
    fn held_bytes(&self) -> usize {
        self.record.len() + RECORD_BYTES
    }
}

/// Finds the place of a document that is nearest.
fn nearest<'a>(
    document: RawDocument<'a>,
    path: &FieldPath,
    near: &Near,
) -> Result<Option<Nearest<'a>>> {
    let mut nearest: Option<Nearest<'a>> = None;
    let mut failure = None;
    let mut measure = |place: RawValue<'a>| {
        let distance = match near.distance(place) {
            Ok(Some(distance)) => distance,
            Ok(None) => return false,
            Err(error) => {
                failure = Some(error);
                return true;
            }
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
    match failure {
        None => Ok(nearest),
        Some(error) => Err(error),
    }
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
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let Some(near) = context.parsed.matcher.root().near() else {
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
            if self.give(context, near, sink)? == Flow::Stop {
                return Ok(true);
            }
            if self.rings.as_ref().is_none_or(|rings| rings.is_done) {
                return Ok(false);
            }
            self.search(context, near)?;
        }
    }

    fn mark(&mut self) {}

    /// A ring that was searched stays: what was read ahead of it is kept by whoever has it.
    fn rewind(&mut self) {
        debug_assert!(self.rings.is_none(), "a search does not go back");
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
        out.append("indexName", &*access.name);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches rings of one width whose cells have all of the records, each under two cells. Returns the distances as they were given,
    /// and how often the cells were read.
    fn search(distances: &[f64], width: f64, end: f64) -> (Vec<f64>, usize) {
        let mut found = FoundRecords::none();
        let (mut given, mut reads, mut inner) = (Vec::new(), 0, 0.0);
        let cells = vec![CellRange { low: 1, high: 9 }];
        while inner < end {
            let outer = found.reach((inner + width).min(end));
            let ring = SearchedRing {
                inner,
                has_inner: inner == 0.0,
                end,
            };
            found.begin_ring(outer);
            if !CellRange::without(&cells, &found.read).is_empty() {
                reads += 1;
                for (record, distance) in (0_u32..).zip(distances) {
                    for _cell in 0..2 {
                        if ring.is_wanted(*distance) {
                            found.add(*distance, &record.to_be_bytes()).unwrap();
                        }
                    }
                }
            }
            found.end_ring(cells.clone()).unwrap();
            while let Some(next) = found.next() {
                given.push(next.distance);
            }
            assert!(outer > inner, "the rings do not go on");
            inner = outer;
        }
        assert!(found.list.is_empty());
        assert_eq!(found.held.bytes(), 0);
        (given, reads)
    }

    #[test]
    fn what_lies_beyond_a_ring_is_kept_for_the_next_ones() {
        let few: Vec<f64> = (0..20).map(|n| f64::from(n * 13 % 20)).collect();
        let (given, reads) = search(&few, 1.0, 100.0);
        assert_eq!(given, (0..20).map(f64::from).collect::<Vec<f64>>());
        assert_eq!(reads, 1);
        // More than are kept: the nearest are, and the cells are read again when these were given.
        let many: Vec<f64> = (0..1000).map(|n| f64::from(n * 777 % 1000)).collect();
        let (given, reads) = search(&many, 1.0, 2000.0);
        assert_eq!(given, (0..1000).map(f64::from).collect::<Vec<f64>>());
        assert!(reads < 1000 / (AHEAD_MAX / 4), "{reads} reads");
        // Very many at one distance are no ring's nearest half.
        let mut alike = vec![7.5; 300];
        alike.extend([1.0, 9.0]);
        let (given, reads) = search(&alike, 1.0, 20.0);
        assert_eq!((given.len(), given[0], given[301]), (302, 1.0, 9.0));
        assert!(reads < 20, "{reads} reads");
    }
}
