//! Whether loops make a polygon: no two edges cross, no vertex is there twice, and holes lie within the outer loop.

use s2::edge_crossings::{Crossing, crossing_sign};

use crate::Pace;
use crate::bounds::Edge;
use crate::polygon::Loop;

/// An edge with the number of its loop, and its own.
struct Numbered<'e> {
    edge: &'e Edge,
    in_loop: usize,
    number: usize,
}

/// Says why the loops make no polygon, if they do not. Only edges whose boxes overlap along one axis are compared, so that many short
/// edges take little time.
pub fn complaint(loops: &[Loop], pace: Pace) -> Option<String> {
    let mut edges: Vec<Numbered<'_>> = Vec::new();
    for (in_loop, one) in loops.iter().enumerate() {
        let numbered = one.edges.iter().enumerate();
        edges.extend(numbered.map(|(number, edge)| Numbered {
            edge,
            in_loop,
            number,
        }));
    }
    edges.sort_by(|a, b| a.edge.bounds.low[0].total_cmp(&b.edge.bounds.low[0]));
    for (place, one) in edges.iter().enumerate() {
        let mut compared = 0;
        let later = edges[place + 1..].iter();
        let beside = later.take_while(|other| other.edge.bounds.low[0] <= one.edge.bounds.high[0]);
        for other in beside {
            compared += 1;
            if one.edge.bounds.meets(&other.edge.bounds)
                && let Some(text) = conflict(one, other, loops)
            {
                return Some(text);
            }
        }
        if pace(compared) {
            return None;
        }
    }
    None
}

fn conflict(one: &Numbered<'_>, other: &Numbered<'_>, loops: &[Loop]) -> Option<String> {
    let len = loops[one.in_loop].edges.len();
    let is_same = one.in_loop == other.in_loop;
    let (first, second) = (one.number.min(other.number), one.number.max(other.number));
    let (a, b) = (one.edge, other.edge);
    if is_same && a.a == b.a {
        return Some(format!("Duplicate vertices: {first} and {second}"));
    }
    let are_neighbours = is_same && (second - first == 1 || second - first == len - 1);
    if are_neighbours {
        return None;
    }
    let crosses = crossing_sign(&a.a, &a.b, &b.a, &b.b) == Crossing::Cross;
    crosses.then(|| match is_same {
        true => format!("Edges {first} and {second} cross"),
        false => format!("Loop {} crosses loop {}", one.in_loop, other.in_loop),
    })
}
