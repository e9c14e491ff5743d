//! From the intervals of an index's fields to ranges of its keys, in key order and apart from each other.

use quarry_database::KeyRange;
use quarry_keystring::{Direction, TypeBits, encode_value, prefix_end};
use smallvec::{SmallVec, smallvec};

use super::filter_bounds::Bounds;
use super::interval::{Interval, UNITS_OF_AN_INTERVAL};
use crate::interrupts;

/// Points of leading fields are combined up to this many ranges; beyond it the last field bounds no more.
const COMBINATIONS_MAX: usize = 4096;

/// The bytes that one value usually takes of a key.
const VALUE_BYTES: usize = 16;

/// The bounds of each field with its direction. Fields behind the first one that is not made of points are
/// left to the filter.
pub fn compose(prefix: &[u8], fields: &[(Bounds<'_, '_>, Direction)]) -> Vec<KeyRange> {
    let mut starts: SmallVec<[Vec<u8>; 1]> = smallvec![with_room(prefix, fields.len())];
    for (bounds, direction) in fields {
        let intervals = match bounds {
            Bounds::Point(value) => {
                for start in &mut starts {
                    encode_value(start, &mut TypeBits::new(), *value, *direction);
                }
                continue;
            }
            Bounds::Intervals(intervals) => *intervals,
        };
        if let ([point], [start]) = (intervals, starts.as_mut_slice())
            && point.is_point
        {
            point.append_low(*direction, start);
            continue;
        }
        let cuts = cuts(intervals, *direction);
        let combinations = starts.len().saturating_mul(cuts.len());
        if starts.len() > 1 && combinations > COMBINATIONS_MAX {
            break;
        }
        let all_points = intervals.iter().all(|interval| interval.is_point);
        if !all_points {
            return pairs(&starts, &cuts)
                .map(|(start, (low, high))| {
                    KeyRange::new([start, low].concat(), [start, high].concat())
                })
                .collect();
        }
        starts = pairs(&starts, &cuts)
            .map(|(start, (low, _))| [start, low.as_slice()].concat())
            .collect();
    }
    starts
        .into_iter()
        .take_while(|_| !interrupts::is_over(UNITS_OF_AN_INTERVAL))
        .map(|start| {
            let end = prefix_end(&start);
            KeyRange::new(start, end)
        })
        .collect()
}

/// The first bytes and the end of each interval, in the order of the keys.
pub fn cuts(intervals: &[Interval<'_>], direction: Direction) -> Vec<Cuts> {
    let mut cuts: Vec<Cuts> = intervals
        .iter()
        .take_while(|_| !interrupts::is_over(UNITS_OF_AN_INTERVAL))
        .map(|interval| interval.cuts(direction))
        .collect();
    if direction == Direction::Descending {
        cuts.reverse();
    }
    cuts
}

/// Whether `compose` bounds the last of these fields too, all of which are points. The values of one field alone are never
/// too many.
pub fn are_combined(fields: &[(Bounds<'_, '_>, Direction)]) -> bool {
    let mut counts = fields.iter().map(|(bounds, _)| bounds.intervals_len());
    let mut combinations = 1_usize;
    counts.all(|count| {
        let is_alone = combinations <= 1;
        combinations = combinations.saturating_mul(count);
        is_alone || combinations <= COMBINATIONS_MAX
    })
}

/// Joins those of the ranges, which are in key order, that share keys.
pub fn apart(ranges: impl Iterator<Item = KeyRange>) -> Vec<KeyRange> {
    let mut joined: Vec<KeyRange> = Vec::new();
    for range in ranges.filter(|range| !range.is_empty()) {
        if interrupts::is_over(UNITS_OF_AN_INTERVAL) {
            break;
        }
        debug_assert!(
            joined.last().is_none_or(|last| last.start <= range.start),
            "ranges come in the order of their keys"
        );
        match joined.last_mut() {
            Some(last) if range.start < last.end => {
                if range.end > last.end {
                    last.end = range.end;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

fn with_room(prefix: &[u8], fields_len: usize) -> Vec<u8> {
    let mut start = Vec::with_capacity(prefix.len() + fields_len * VALUE_BYTES);
    start.extend_from_slice(prefix);
    start
}

type Cuts = (Vec<u8>, Vec<u8>);

fn pairs<'r>(
    starts: &'r [Vec<u8>],
    cuts: &'r [Cuts],
) -> impl Iterator<Item = (&'r [u8], &'r Cuts)> {
    starts
        .iter()
        .flat_map(move |start| cuts.iter().map(move |cut| (start.as_slice(), cut)))
        .take_while(|_| !interrupts::is_over(UNITS_OF_AN_INTERVAL))
}
