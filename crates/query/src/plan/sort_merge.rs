//! SORT_MERGE: ranges of keys, each of which is in the wanted order by itself, merged into one sequence in that order.
//!
//! The keys of a range begin with values that are the same in all of them, and go on with the fields that are sorted by, so that
//! keys of different ranges, and of different indexes, compare by what stands behind the same values. A range that is read
//! backwards compares by its inverted bytes, because a field's bytes are inverted where it descends.
//!
//! A record of an index with arrays may have keys in several ranges: there the values before the order alone come from arrays, so that
//! what stands behind them is the same, the record's key included, and the keys come one after the other.
//!
//! The branches of an `$or` may share documents. A document is given by the first branch that it matches, so that nothing has to
//! be remembered, for which it is fetched here. Keeps true: one cursor a range and no more than `MERGED_RANGES_MAX`; none is open
//! between two calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::{Cursor, Index, index_record_key};
use quarry_timing::{Phase, phase};

use super::index_scan::{IndexScan, find_index};
use super::node::{Flow, Leaf, PlanContext, PlanNode, Row, Sink};
use super::range_walk::RangeWalk;
use super::shown::Shown;
use crate::error::Result;
use crate::exec::stored;

/// The ranges that are merged at most: each has a cursor while rows are read.
pub const MERGED_RANGES_MAX: usize = 200;

/// A merge of scans.
pub struct SortMerge {
    inputs: Vec<IndexScan>,
    ranges: Vec<MergedRange>,
    /// The inputs are the branches of the filter's `$or`.
    is_of_branches: bool,
    /// The part of the last key that an index with arrays gave by which ranges compare. A record may have keys in several of its
    /// ranges, which are the same there and name the record.
    last: Vec<u8>,
    marked_last: Vec<u8>,
    returned: u64,
}

/// One of the ranges of an input.
pub struct MergedRange {
    /// The number of the input.
    input: usize,
    walk: RangeWalk,
    is_reversed: bool,
    /// The bytes that all its keys begin with, before the values that are sorted by.
    constant_bytes: usize,
}

/// The next key of a range. The least is given first.
type Head = Reverse<(Vec<u8>, usize)>;

impl MergedRange {
    /// A range of the input with this number.
    pub fn new(
        input: usize,
        walk: RangeWalk,
        is_reversed: bool,
        constant_bytes: usize,
    ) -> MergedRange {
        MergedRange {
            input,
            walk,
            is_reversed,
            constant_bytes,
        }
    }

    /// The part of a key that ranges compare by.
    fn head(&self, key: &[u8]) -> Vec<u8> {
        let sorted = key.get(self.constant_bytes..).unwrap_or_default();
        match self.is_reversed {
            true => sorted.iter().map(|byte| !byte).collect(),
            false => sorted.to_vec(),
        }
    }
}

impl SortMerge {
    /// Merges the ranges of one index.
    pub fn of_ranges(input: IndexScan, ranges: Vec<MergedRange>) -> SortMerge {
        SortMerge {
            is_of_branches: false,
            ..SortMerge::of_branches(vec![input], ranges)
        }
    }

    /// Merges the ranges of inputs that are, one each, the branches of the filter's `$or`.
    pub fn of_branches(inputs: Vec<IndexScan>, ranges: Vec<MergedRange>) -> SortMerge {
        debug_assert!(ranges.len() <= MERGED_RANGES_MAX, "a bounded merge");
        SortMerge {
            inputs,
            ranges,
            is_of_branches: true,
            last: Vec::new(),
            marked_last: Vec::new(),
            returned: 0,
        }
    }

    fn merge(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let SortMerge {
            inputs,
            ranges,
            is_of_branches,
            last,
            returned,
            ..
        } = self;
        let mut indexes: Vec<&Index> = Vec::with_capacity(inputs.len());
        for input in &*inputs {
            indexes.push(find_index(context, input.access())?);
        }
        let mut cursors: Vec<Option<Box<dyn Cursor + '_>>> = Vec::with_capacity(ranges.len());
        let mut heads: BinaryHeap<Head> = BinaryHeap::with_capacity(ranges.len());
        for (place, range) in ranges.iter_mut().enumerate() {
            let cursor = range.walk.open(context)?;
            if let Some(cursor) = &cursor {
                heads.push(Reverse((range.head(cursor.key()), place)));
            }
            cursors.push(cursor);
        }
        let mut steps = 0;
        while let Some(Reverse((given, place))) = heads.pop() {
            context.operation.step(&mut steps)?;
            let range = &mut ranges[place];
            let Some(cursor) = &mut cursors[place] else {
                debug_assert!(false, "a range with a head has a cursor");
                continue;
            };
            let (key, value) = (cursor.key(), cursor.value());
            let index = indexes[range.input];
            let record = index_record_key(index, &context.snapshot.collection, key, value)?;
            let mut give = |document: Option<RawDocument<'_>>| {
                *returned += 1;
                sink(&Row {
                    record: &record,
                    document,
                })
            };
            let may_repeat = inputs[range.input].access().is_multikey;
            let mut is_given = !(may_repeat && given == *last);
            let flow = match is_of_branches {
                _ if !is_given => Flow::Continue,
                false => give(None)?,
                true => {
                    let mut flow = Ok(Flow::Continue);
                    let _scope = phase(Phase::EngineRead);
                    context.snapshot.get(&record, &mut |bytes| {
                        flow = stored(RawDocument::new(bytes)).and_then(|document| {
                            let branch = context.parsed.matcher.first_branch(document)?;
                            is_given = branch == Some(range.input);
                            match is_given {
                                true => give(Some(document)),
                                false => Ok(Flow::Continue),
                            }
                        });
                    })?;
                    flow?
                }
            };
            inputs[range.input].count(1, u64::from(is_given));
            if may_repeat && is_given {
                last.clone_from(&given);
            }
            range.walk.remember(cursor.key());
            if flow == Flow::Stop {
                return Ok(true);
            }
            if range.walk.step(&mut **cursor)? {
                let head = range.head(cursor.key());
                debug_assert!(given <= head, "a range is in order by itself");
                heads.push(Reverse((head, place)));
            }
        }
        Ok(false)
    }

    fn keys_examined(&self) -> u64 {
        self.inputs.iter().map(IndexScan::keys_examined).sum()
    }
}

impl PlanNode for SortMerge {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let before = self.keys_examined();
        let outcome = self.merge(context, sink);
        let examined = self.keys_examined() - before;
        context.operation.count_examined(examined, 0);
        outcome
    }

    fn mark(&mut self) {
        self.marked_last.clone_from(&self.last);
        for range in &mut self.ranges {
            range.walk.mark();
        }
    }

    fn rewind(&mut self) {
        self.last = std::mem::take(&mut self.marked_last);
        for range in &mut self.ranges {
            range.walk.rewind();
        }
    }

    fn inputs(&self) -> Vec<&dyn PlanNode> {
        let inputs = self.inputs.iter();
        inputs.map(|input| input as &dyn PlanNode).collect()
    }

    fn name(&self) -> &'static str {
        "SORT_MERGE"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if let Some(sort) = shown.sort {
            out.append("sortPattern", sort);
        }
        shown.returned(self.returned(), out);
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        for input in &self.inputs {
            input.leaves(visit);
        }
    }
}
