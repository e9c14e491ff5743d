//! From BSON to geometries: GeoJSON, legacy points, and the shapes of the plane. The texts of refusals are MongoDB's.

use std::fmt;

use quarry_bson::{RawArray, RawDocument, RawValue};
use s2::point::Point;

use crate::Pace;
use crate::flat::{FlatPoint, FlatShape};
use crate::geometry::{Geometry, Line, Stored};
use crate::polygon::{Loop, Polygon};
use crate::shown::Shown;
use crate::sphere::{SpherePoint, point};
use crate::validity::complaint;

/// The coordinate system whose polygons have what lies to the left of their borders inside, however large it is.
const STRICT_WINDING: &str = "urn:x-mongodb:crs:strictwinding:EPSG:4326";
const PLAIN_SYSTEMS: [&str; 2] = ["urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326"];

/// The work of reading one position.
const UNITS_OF_A_POSITION: usize = 20;

/// Why a value is no geometry, in MongoDB's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(pub String);

type Result<T> = std::result::Result<T, Invalid>;

impl fmt::Display for Invalid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn invalid<T>(text: impl Into<String>) -> Result<T> {
    Err(Invalid(text.into()))
}

/// Reads what a document has in a field, or a filter under `$geometry`: a legacy point, which is an array, or a document whose first
/// field is a number, whatever its other fields are; else GeoJSON.
pub fn parse_stored(value: RawValue<'_>, pace: Pace) -> Result<Stored> {
    let document = match value {
        RawValue::Document(document) if !begins_with_number(document) => document,
        RawValue::Document(_) | RawValue::Array(_) => {
            let flat = parse_flat_point(value)?;
            return Ok(Stored {
                on_sphere: SpherePoint::new(flat.x, flat.y).map(Geometry::of_point),
                flat: Some(flat),
            });
        }
        _ => {
            return invalid(format!(
                "geo element must be an array or object: {}",
                Shown(value)
            ));
        }
    };
    let System::Plain = system_of(document)? else {
        return invalid(format!(
            "a geometry that is stored cannot have the CRS {STRICT_WINDING}"
        ));
    };
    let flat = match document.get("type").and_then(|name| name.as_str()) {
        Some("Point") => document
            .get("coordinates")
            .map(parse_flat_point)
            .transpose()?,
        _ => None,
    };
    Ok(Stored {
        on_sphere: Some(parse_geometry(document, pace)?),
        flat,
    })
}

fn begins_with_number(document: RawDocument<'_>) -> bool {
    let first = document.first();
    first.is_some_and(|first| first.value().is_number())
}

/// Reads a point of two numbers, in an array or in a document, which may have more.
pub fn parse_flat_point(value: RawValue<'_>) -> Result<FlatPoint> {
    let coordinates = match value {
        RawValue::Array(array) => array.as_document(),
        RawValue::Document(document) => document,
        _ => {
            return invalid(format!(
                "Point must be an array or object, instead got type {}",
                type_name(value)
            ));
        }
    };
    let mut coordinates = coordinates.iter();
    let mut next = || {
        let value = coordinates.next().map(|element| element.value());
        match value
            .filter(RawValue::is_number)
            .and_then(|value| value.as_f64_lossy())
        {
            Some(number) => Ok(number),
            None => invalid(format!(
                "Point must only contain numeric elements, instead got type {}",
                value.map_or("missing", type_name)
            )),
        }
    };
    let (x, y) = (next()?, next()?);
    match x.is_finite() && y.is_finite() {
        true => Ok(FlatPoint { x, y }),
        false => invalid("Point coordinates must be finite numbers"),
    }
}

fn type_name(value: RawValue<'_>) -> &'static str {
    value.element_type().alias()
}

/// How the loops of a geometry mean their insides.
#[derive(PartialEq, Eq, Clone, Copy)]
enum System {
    Plain,
    StrictWinding,
}

fn system_of(geometry: RawDocument<'_>) -> Result<System> {
    let Some(crs) = geometry.get("crs") else {
        return Ok(System::Plain);
    };
    let Some(crs) = crs.as_document() else {
        return invalid("GeoJSON CRS must be an object");
    };
    if crs.get("type").and_then(|value| value.as_str()) != Some("name") {
        return invalid(format!(
            "GeoJSON CRS must have field \"type\": \"name\": {}",
            Shown(crs)
        ));
    }
    let properties = crs.get("properties").and_then(|value| value.as_document());
    let Some(name) = properties.and_then(|properties| properties.get("name")) else {
        return invalid(
            "CRS must have field \"properties\" which is an object with the field \"name\"",
        );
    };
    match name.as_str() {
        Some(STRICT_WINDING) => Ok(System::StrictWinding),
        Some(name) if PLAIN_SYSTEMS.contains(&name) => Ok(System::Plain),
        _ => invalid(format!("Unknown CRS name: {}", Shown(name))),
    }
}

/// Reads a GeoJSON geometry.
pub fn parse_geometry(geometry: RawDocument<'_>, pace: Pace) -> Result<Geometry> {
    let Some(name) = geometry.get("type").and_then(|name| name.as_str()) else {
        return invalid(format!("unknown GeoJSON type: {}", Shown(geometry)));
    };
    let system = system_of(geometry)?;
    if system == System::StrictWinding && name != "Polygon" {
        return invalid(format!(
            "Strict winding order is only supported by polygon: {}",
            Shown(geometry)
        ));
    }
    if name == "GeometryCollection" {
        return collection(geometry, pace);
    }
    let Some(read) = reader_of(name) else {
        return invalid(format!("unknown GeoJSON type: {}", Shown(geometry)));
    };
    let Some(coordinates) = geometry.get("coordinates") else {
        return invalid(format!("{name} must have coordinates: {}", Shown(geometry)));
    };
    read(coordinates, Reading { name, system, pace })
}

#[derive(Clone, Copy)]
struct Reading<'r> {
    name: &'r str,
    system: System,
    pace: Pace,
}

type Read = fn(RawValue<'_>, Reading<'_>) -> Result<Geometry>;

fn reader_of(name: &str) -> Option<Read> {
    let read: Read = match name {
        "Point" => |coordinates, reading| {
            Ok(Geometry {
                points: vec![position(coordinates, reading)?],
                ..Geometry::default()
            })
        },
        "LineString" => |coordinates, reading| {
            Ok(Geometry {
                lines: vec![line(coordinates, reading)?],
                ..Geometry::default()
            })
        },
        "Polygon" => |coordinates, reading| {
            Ok(Geometry {
                polygons: vec![polygon(coordinates, reading)?],
                ..Geometry::default()
            })
        },
        "MultiPoint" => |coordinates, reading| {
            Ok(Geometry {
                points: several(coordinates, reading, position)?,
                ..Geometry::default()
            })
        },
        "MultiLineString" => |coordinates, reading| {
            Ok(Geometry {
                lines: several(coordinates, reading, line)?,
                ..Geometry::default()
            })
        },
        "MultiPolygon" => |coordinates, reading| {
            Ok(Geometry {
                polygons: several(coordinates, reading, polygon)?,
                ..Geometry::default()
            })
        },
        _ => return None,
    };
    Some(read)
}

fn collection(geometry: RawDocument<'_>, pace: Pace) -> Result<Geometry> {
    let Some(RawValue::Array(members)) = geometry.get("geometries") else {
        return invalid("GeometryCollection geometries must be an array");
    };
    let mut all = Geometry::default();
    for (number, member) in members.iter().enumerate() {
        let Some(member) = member.as_document() else {
            return invalid(format!(
                "Element {number} of \"geometries\" is not an object"
            ));
        };
        if member.get("type").and_then(|name| name.as_str()) == Some("GeometryCollection") {
            return invalid(format!(
                "GeometryCollections cannot be nested: {}",
                Shown(member)
            ));
        }
        all.add(parse_geometry(member, pace)?);
    }
    match all.is_empty() {
        true => invalid("GeometryCollection geometries must have at least 1 element"),
        false => Ok(all),
    }
}

fn several<T>(
    coordinates: RawValue<'_>,
    reading: Reading<'_>,
    read: fn(RawValue<'_>, Reading<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let members = array(coordinates, reading)?;
    let members = members.iter().map(|member| read(member, reading));
    let members = members.collect::<Result<Vec<T>>>()?;
    match members.is_empty() {
        true => invalid(format!(
            "{} coordinates must have at least 1 element",
            reading.name
        )),
        false => Ok(members),
    }
}

fn array<'a>(value: RawValue<'a>, reading: Reading<'_>) -> Result<RawArray<'a>> {
    match value {
        RawValue::Array(array) => Ok(array),
        _ => invalid(format!(
            "{} coordinates must be an array, instead got type {}",
            reading.name,
            type_name(value)
        )),
    }
}

fn position(value: RawValue<'_>, reading: Reading<'_>) -> Result<Point> {
    if (reading.pace)(UNITS_OF_A_POSITION) {
        return invalid("the operation has ended");
    }
    let flat = parse_flat_point(value)?;
    match SpherePoint::new(flat.x, flat.y) {
        Some(_) => Ok(point(flat.x, flat.y)),
        None => invalid(format!(
            "Longitude/latitude is out of bounds, lng: {} lat: {}",
            flat.x, flat.y
        )),
    }
}

/// The vertices of a chain, each once where it is repeated.
fn vertices(value: RawValue<'_>, reading: Reading<'_>) -> Result<Vec<Point>> {
    let mut vertices = Vec::new();
    for vertex in array(value, reading)? {
        let vertex = position(vertex, reading)?;
        if vertices.last() != Some(&vertex) {
            vertices.push(vertex);
        }
    }
    if let Some(pair) = vertices
        .windows(2)
        .find(|pair| (pair[0] + pair[1]).norm() < 1e-12)
    {
        return invalid(format!(
            "Vertices are antipodal: {:?} {:?}",
            pair[0].0, pair[1].0
        ));
    }
    Ok(vertices)
}

fn line(value: RawValue<'_>, reading: Reading<'_>) -> Result<Line> {
    let vertices = vertices(value, reading)?;
    match vertices.len() < 2 {
        true => invalid(format!(
            "GeoJSON LineString must have at least 2 vertices: {}",
            Shown(value)
        )),
        false => Ok(Line::new(&vertices)),
    }
}

fn polygon(value: RawValue<'_>, reading: Reading<'_>) -> Result<Polygon> {
    let members = array(value, reading)?;
    let loops = members.iter().map(|member| border(member, reading));
    let loops = loops.collect::<Result<Vec<Loop>>>()?;
    let is_strict = reading.system == System::StrictWinding;
    if is_strict && loops.len() > 1 {
        return invalid(format!(
            "Only one simple loop is allowed in a big polygon: {}",
            Shown(value)
        ));
    }
    if let Some(complaint) = complaint(&loops, reading.pace) {
        return invalid(format!("Loop is not valid: {} {complaint}", Shown(value)));
    }
    let mut loops = loops.into_iter();
    let Some(outer) = loops.next() else {
        return invalid(format!("Polygon has no loops: {}", Shown(value)));
    };
    if is_strict {
        return Ok(Polygon::of_any_size(outer));
    }
    let mut area = Polygon::new(vec![outer]);
    let holes: Vec<Loop> = loops.collect();
    for hole in &holes {
        let mut corners = hole.edges.iter().map(|edge| &edge.a);
        if !corners.all(|corner| area.covers(corner, reading.pace)) {
            return invalid(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be holes: {}",
                Shown(value)
            ));
        }
    }
    area.loops.extend(holes);
    Ok(area)
}

fn border(value: RawValue<'_>, reading: Reading<'_>) -> Result<Loop> {
    let mut vertices = vertices(value, reading)?;
    let (Some(first), Some(last)) = (vertices.first(), vertices.last()) else {
        return invalid(format!("Loop has no vertices: {}", Shown(value)));
    };
    if first != last {
        return invalid(format!(
            "Loop is not closed, first vertex does not equal last vertex: {}",
            Shown(value)
        ));
    }
    vertices.pop();
    if vertices.len() < 3 {
        return invalid(format!(
            "Loop must have at least 3 different vertices: {}",
            Shown(value)
        ));
    }
    Ok(match reading.system {
        System::Plain => Loop::around_smaller(vertices, reading.pace),
        System::StrictWinding => Loop::to_the_left(vertices, reading.pace),
    })
}

impl FlatShape {
    /// Reads the operand of `$box`, `$center` or `$polygon`; none under another name.
    pub fn parse(name: &str, operand: RawValue<'_>, pace: Pace) -> Result<Option<FlatShape>> {
        let members = || match operand {
            RawValue::Array(array) => Ok(array.as_document()),
            RawValue::Document(document) => Ok(document),
            _ => invalid(format!(
                "{name} must be an array or object: {}",
                Shown(operand)
            )),
        };
        Ok(Some(match name {
            "$box" => {
                let mut corners = members()?
                    .into_iter()
                    .map(|corner| parse_flat_point(corner.value()));
                let (Some(a), Some(b)) = (corners.next(), corners.next()) else {
                    return invalid(format!("$box needs two corners: {}", Shown(operand)));
                };
                let (a, b) = (a?, b?);
                FlatShape::Box {
                    low: FlatPoint {
                        x: a.x.min(b.x),
                        y: a.y.min(b.y),
                    },
                    high: FlatPoint {
                        x: a.x.max(b.x),
                        y: a.y.max(b.y),
                    },
                }
            }
            "$center" => {
                let (center, radius) = parse_disc(operand)?;
                FlatShape::Disc { center, radius }
            }
            "$polygon" => {
                let mut corners = Vec::new();
                for corner in members()? {
                    if pace(UNITS_OF_A_POSITION) {
                        break;
                    }
                    corners.push(parse_flat_point(corner.value())?);
                }
                if corners.len() < 3 {
                    return invalid("Polygon must have at least 3 points");
                }
                FlatShape::Polygon(corners)
            }
            _ => return Ok(None),
        }))
    }

    /// Reads a center and a radius, the operand of `$center` and `$centerSphere`.
    pub fn parse_disc(operand: RawValue<'_>) -> Result<(FlatPoint, f64)> {
        parse_disc(operand)
    }
}

fn parse_disc(operand: RawValue<'_>) -> Result<(FlatPoint, f64)> {
    let RawValue::Array(members) = operand else {
        return invalid(format!(
            "a circle must be an array of a center and a radius: {}",
            Shown(operand)
        ));
    };
    let mut members = members.iter();
    let Some(center) = members.next() else {
        return invalid("Point must be an array or object, instead got type missing");
    };
    let center = parse_flat_point(center)?;
    let radius = members.next().filter(RawValue::is_number);
    let radius = radius.and_then(|radius| radius.as_f64_lossy());
    let Some(radius) = radius.filter(|radius| *radius >= 0.0) else {
        return invalid("radius must be a non-negative number");
    };
    match members.next() {
        Some(_) => invalid("Only 2 fields allowed for circular region"),
        None => Ok((center, radius)),
    }
}
