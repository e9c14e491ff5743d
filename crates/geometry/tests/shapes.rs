//! Shapes: distances against known figures, what lies within what, and coverings that miss nothing.

use std::sync::Arc;

use proptest::prelude::*;
use quarry_bson::{Document, RawValue, doc};
use quarry_geometry::{
    CellRange, EARTH_RADIUS_METRES, FlatPoint, FlatShape, GeoHash, Geometry, Ring, SpherePoint,
    cells_of, parse_geometry, parse_stored, ranges_of, ranges_of_ring,
};

fn endless(_: usize) -> bool {
    false
}

fn geometry(geometry: &Document) -> Geometry {
    parse_geometry(geometry.as_raw(), endless).unwrap()
}

fn refusal(geometry: &Document) -> String {
    let parsed = parse_geometry(geometry.as_raw(), endless);
    parsed.map(|_| ()).unwrap_err().to_string()
}

fn at(longitude: f64, latitude: f64) -> SpherePoint {
    SpherePoint::new(longitude, latitude).unwrap()
}

fn hold(ranges: &[CellRange], cell: i64) -> bool {
    ranges
        .iter()
        .any(|range| (range.low..=range.high).contains(&cell))
}

#[test]
fn distances_are_those_of_a_sphere() {
    let quarter = at(0.0, 0.0).radians_to(at(0.0, 90.0));
    assert!((quarter - std::f64::consts::FRAC_PI_2).abs() < 1e-15);
    // From the manual's example of $geoNear.
    let metres = at(-73.99279, 40.719296).radians_to(at(-73.9928, 40.7193)) * EARTH_RADIUS_METRES;
    assert!((metres - 0.953_993_167_636_599_2).abs() < 1e-6, "{metres}");
    let line = geometry(&doc! { "type": "LineString", "coordinates": [[0.0, 0.0], [10.0, 0.0]] });
    let beside = line.radians_from(at(5.0, 3.0), endless).to_degrees();
    assert!((beside - 3.0).abs() < 1e-12, "{beside}");
    let behind = line.radians_from(at(14.0, 0.0), endless).to_degrees();
    assert!((behind - 4.0).abs() < 1e-12, "{behind}");
    let area =
        doc! { "type": "Polygon", "coordinates": [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]] };
    assert_eq!(geometry(&area).radians_from(at(5.0, 5.0), endless), 0.0);
}

#[test]
fn a_border_winds_as_it_likes() {
    let inside = Geometry::of_point(at(5.0, 5.0));
    let outside = Geometry::of_point(at(-5.0, 5.0));
    for border in [
        [[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]],
        [[0, 0], [0, 9], [9, 9], [9, 0], [0, 0]],
    ] {
        let border: Vec<Vec<i32>> = border.iter().map(|corner| corner.to_vec()).collect();
        let area = geometry(&doc! { "type": "Polygon", "coordinates": vec![border] });
        assert!(inside.is_within(&area, endless) && !outside.is_within(&area, endless));
    }
}

#[test]
fn crossing_and_repeated_corners_are_refused() {
    let polygon = |border: &[[i32; 2]]| {
        let border: Vec<Vec<i32>> = border.iter().map(|corner| corner.to_vec()).collect();
        doc! { "type": "Polygon", "coordinates": vec![border] }
    };
    let bow = polygon(&[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]);
    assert!(
        refusal(&bow).contains("Edges 0 and 2 cross"),
        "{}",
        refusal(&bow)
    );
    let touching = polygon(&[[0, 0], [4, 0], [2, 2], [4, 4], [0, 4], [2, 2], [0, 0]]);
    assert!(
        refusal(&touching).contains("Duplicate vertices: 2 and 5"),
        "{}",
        refusal(&touching)
    );
    assert!(
        refusal(&doc! { "type": "MultiPoint", "coordinates": [] }).contains("at least 1 element")
    );
    let nan = doc! { "type": "Point", "coordinates": [f64::NAN, 1.0] };
    assert!(refusal(&nan).contains("finite"));
    assert!(parse_stored(RawValue::Int32(1), endless).is_err());
}

#[test]
fn a_border_of_very_many_corners_is_checked_in_a_moment() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static UNITS: AtomicUsize = AtomicUsize::new(0);
    let count = |units: usize| {
        UNITS.fetch_add(units, Relaxed);
        false
    };
    let corners = 100_000;
    let mut border: Vec<Vec<f64>> = (0..corners)
        .map(|corner| std::f64::consts::TAU * f64::from(corner) / f64::from(corners))
        .map(|turn| vec![20.0 * turn.cos(), 20.0 * turn.sin()])
        .collect();
    border.push(border[0].clone());
    let area = doc! { "type": "Polygon", "coordinates": vec![border] };
    let area = parse_geometry(area.as_raw(), count).unwrap();
    assert!(Geometry::of_point(at(1.0, 1.0)).is_within(&area, count));
    // Every pair of edges would be five thousand million.
    let units = UNITS.load(Relaxed);
    assert!(
        (100_000..50_000_000).contains(&units),
        "{units} units of work"
    );
}

#[test]
fn hashes_are_in_bounds() {
    let hash = GeoHash {
        min: -180.0,
        max: 180.0,
        bits: 26,
    };
    assert!(
        hash.hash(FlatPoint {
            x: 180.0,
            y: -180.0
        })
        .is_some()
    );
    assert!(hash.hash(FlatPoint { x: 180.1, y: 0.0 }).is_none());
    let whole = FlatShape::Box {
        low: FlatPoint {
            x: -200.0,
            y: -200.0,
        },
        high: FlatPoint { x: 200.0, y: 200.0 },
    };
    assert_eq!(hash.ranges_of(&whole).len(), 1);
}

/// The cells are bytes at rest: what changes here has old indexes miss documents, and needs a new version of the index.
/// `UPDATE=1` writes the file anew.
#[test]
fn the_cells_that_an_index_keeps_stay_what_they_are() {
    let kept = |shape: Document| cells_of(geometry(&shape), endless);
    let shapes = [
        doc! { "type": "Point", "coordinates": [-73.97, 40.77] },
        doc! { "type": "LineString", "coordinates": [[0.0, 0.0], [1.0, 0.5], [1.5, 2.0]] },
        doc! { "type": "LineString", "coordinates": [[179.5, 10.0], [-179.5, 10.0]] },
        doc! { "type": "Polygon", "coordinates": [[[0, 0], [3, 0], [3, 2], [0, 2], [0, 0]]] },
        doc! { "type": "Polygon", "coordinates": [
            [[10, 50], [12, 50], [12, 52], [10, 52], [10, 50]],
            [[11, 51], [11.5, 51], [11.5, 51.5], [11, 51.5], [11, 51]],
        ] },
        doc! { "type": "Polygon", "coordinates": [[[-10, 85], [110, 85], [-130, 85], [-10, 85]]] },
    ];
    let shown: String = shapes
        .into_iter()
        .map(|shape| format!("{:x?}\n", kept(shape)))
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cells.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(path).unwrap());
}

#[test]
fn ranges_without_others() {
    let ranges = |bounds: &[(i64, i64)]| -> Vec<CellRange> {
        let ranges = bounds.iter().map(|(low, high)| CellRange {
            low: *low,
            high: *high,
        });
        ranges.collect()
    };
    for (of, without, left) in [
        (&[(1, 9)][..], &[][..], &[(1, 9)][..]),
        (&[(1, 9)], &[(1, 9)], &[]),
        (&[(1, 9)], &[(3, 4), (6, 6)], &[(1, 2), (5, 5), (7, 9)]),
        (&[(1, 3), (5, 9)], &[(2, 6)], &[(1, 1), (7, 9)]),
        (
            &[(1, 3), (5, 9), (20, 21)],
            &[(0, 0), (4, 4), (9, 30)],
            &[(1, 3), (5, 8)],
        ),
        (
            &[(i64::MIN, i64::MAX)],
            &[(i64::MIN, 0), (i64::MAX, i64::MAX)],
            &[(1, i64::MAX - 1)],
        ),
    ] {
        assert_eq!(
            CellRange::without(&ranges(of), &ranges(without)),
            ranges(left)
        );
    }
}

#[test]
fn geometries_of_very_many_parts_count_their_work() {
    use std::cell::Cell;
    thread_local! { static LEFT: Cell<usize> = const { Cell::new(usize::MAX) }; }
    /// Says that the work is to end when so much was done, and how much is counted between.
    fn bounded(units: usize) -> bool {
        assert!(units < 200_000, "{units} units are counted at a time");
        LEFT.set(LEFT.get().saturating_sub(units));
        LEFT.get() == 0
    }
    let points = |from: f64| -> Document {
        let points: Vec<Vec<f64>> = (0..20_000)
            .map(|n| vec![from + f64::from(n) / 1000.0, 1.0])
            .collect();
        doc! { "type": "MultiPoint", "coordinates": points }
    };
    let corner = |x: f64, y: f64| vec![x, y];
    let areas: Vec<Vec<Vec<Vec<f64>>>> = (0..5000)
        .map(|n| f64::from(n) / 100.0 + 60.0)
        .map(|x| {
            vec![vec![
                corner(x, 1.0),
                corner(x + 0.001, 1.0),
                corner(x, 1.001),
                corner(x, 1.0),
            ]]
        })
        .collect();
    let areas = geometry(&doc! { "type": "MultiPolygon", "coordinates": areas });
    let (a, b) = (geometry(&points(0.0)), geometry(&points(60.0005)));
    let covering = |one: &Geometry| ranges_of(&Arc::new(one.clone()), bounded).len();
    let questions: [&dyn Fn() -> usize; 5] = [
        &|| usize::from(a.intersects(&b, bounded)),
        &|| usize::from(a.intersects(&areas, bounded)),
        &|| usize::from(areas.intersects(&a, bounded)),
        &|| usize::from(areas.is_within(&areas, bounded)),
        &|| covering(&a),
    ];
    for question in questions {
        LEFT.set(1_000_000);
        question();
        assert_eq!(LEFT.get(), 0, "more was done than was counted");
    }
}

proptest! {
    #[test]
    fn a_covering_has_every_point(
        (x, y) in (-170.0..170.0_f64, -80.0..80.0_f64),
        corners in proptest::collection::vec((-8.0..8.0_f64, -8.0..8.0_f64), 3),
        (along, across) in (0.0..1.0_f64, 0.0..1.0_f64),
    ) {
        let corner = |(dx, dy): (f64, f64)| vec![x + dx, y + dy];
        let mut border: Vec<Vec<f64>> = corners.iter().copied().map(corner).collect();
        border.push(border[0].clone());
        let triangle = doc! { "type": "Polygon", "coordinates": vec![border] };
        let Ok(triangle) = parse_geometry(triangle.as_raw(), endless) else {
            return Ok(());
        };
        let [a, b, c] = [corners[0], corners[1], corners[2]];
        let mix = |a: f64, b: f64, c: f64| a + (b - a) * along + (c - a) * across;
        // A mix of the corners may lie outside them, and beyond the edge of the map.
        let along_equator = (x + mix(a.0, b.0, c.0)).clamp(-180.0, 180.0);
        let from_equator = (y + mix(a.1, b.1, c.1)).clamp(-90.0, 90.0);
        let point = Geometry::of_point(at(along_equator, from_equator));
        let cell = cells_of(point.clone(), endless)[0];
        let (point, triangle) = (Arc::new(point), Arc::new(triangle));
        let ranges = ranges_of(&triangle, endless);
        if point.intersects(&triangle, endless) {
            prop_assert!(hold(&ranges, cell), "the covering of a query misses a point");
            let kept = cells_of(Geometry::clone(&triangle), endless);
            let asked = ranges_of(&point, endless);
            prop_assert!(kept.iter().any(|cell| hold(&asked, *cell)), "the cells of an index miss a point");
        }
        prop_assert_eq!(point.is_within(&triangle, endless), point.intersects(&triangle, endless));
    }

    #[test]
    fn a_ring_has_every_point(
        (x, y) in (-180.0..180.0_f64, -90.0..90.0_f64),
        (dx, dy) in (-3.0..3.0_f64, -3.0..3.0_f64),
        (inner, width) in (0.0..0.05_f64, 1e-6..0.05_f64),
    ) {
        let center = at(x, y);
        let other = at((x + dx).clamp(-180.0, 180.0), (y + dy).clamp(-90.0, 90.0));
        let ring = Ring { center, inner, outer: inner + width };
        let away = center.radians_to(other);
        if (ring.inner..=ring.outer).contains(&away) {
            let cell = cells_of(Geometry::of_point(other), endless)[0];
            prop_assert!(hold(&ranges_of_ring(ring), cell));
        }
        let hash = GeoHash { min: -180.0, max: 180.0, bits: 26 };
        let point = FlatPoint { x: (x + dx).clamp(-180.0, 180.0), y: (y + dy).clamp(-90.0, 90.0) };
        if away <= ring.outer {
            let ranges = hash.ranges_of_disc_on_sphere(center, ring.outer);
            prop_assert!(hold(&ranges, hash.hash(point).unwrap()));
        }
    }
}
