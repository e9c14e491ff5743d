//! SORT_MERGE: ranges of keys, each of which is in the wanted order by itself, merged into one sequence in that order.
//!
//! The keys of a range begin with values that are the same in all of them, and go on with the fields that are sorted by, so that
//! keys of different ranges, and of different indexes, compare by what stands behind the same values. A range that is read
//! backwards compares by its inverted bytes, because a field's bytes are inverted where it descends.
//!
//! A record of an index with arrays may have several keys in its ranges. Where the values before the order alone come from arrays,
//! what stands behind them is the same, the record's key included, and the keys come one after the other; else the records that were given are
//! remembered.
//!
//! Where the keys of the one index have all that is read of the documents, it gives documents made of them (`covering.rs`).
//!
//! The branches of an `$or` may share documents. A document is given by the first branch that it matches, so that nothing has to
//! be remembered, for which it is fetched here. Keeps true: one cursor a range and no more than `MERGED_RANGES_MAX`; none is open
//! between two calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::{Cursor, Index, index_record_key};
use quarry_timing::{Phase, phase};

use super::covering::Covering;
use super::earlier_keys::has_earlier_key;
use super::index_scan::{IndexScan, find_index};
use super::node::{Flow, Leaf, PlanContext, PlanNode, Row, Sink};
use super::range_walk::RangeWalk;
use super::seen_records::{SEEN_BYTES_MAX, SeenRecords};
use super::shown::{Shown, number};
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
    /// The keys of the one input serve in place of documents.
    covering: Option<Box<Covering>>,
    /// The part of the key by which ranges compare, of the last record that a range gave whose records repeat in a row.
    last: Vec<u8>,
    marked_last: Vec<u8>,
    /// The records that were given of ranges whose records may repeat anywhere.
    seen: Box<SeenRecords>,
    /// The keys that a trial may read yet; None where the merge is run.
    allowance: Option<Arc<AtomicU64>>,
    returned: u64,
    /// Documents that were read here and that no FETCH above counts: of branches which do not give them, or because keys did not tell enough.
    docs_examined: u64,
}

/// One of the ranges of an input.
pub struct MergedRange {
    /// The number of the input.
    input: usize,
    walk: RangeWalk,
    is_reversed: bool,
    /// The bytes that all its keys begin with, before the values that are sorted by.
    constant_bytes: usize,
    may_repeat: MayRepeat,
}

/// Where the other keys of a record may come in a merge.
#[derive(Clone, Copy)]
pub enum MayRepeat {
    /// It has one key in each of the ranges of its input.
    Never,
    /// Right behind the first, and the same in all by which ranges compare.
    InARow,
    /// Anywhere behind the first, by which the record is sorted.
    Anywhere,
}

/// The next key of a range. The least is given first.
type Head = Reverse<(Vec<u8>, usize)>;

/// Takes a key from what a trial may read; false if nothing is left.
fn take_key(allowance: Option<&AtomicU64>) -> bool {
    let Some(allowance) = allowance else {
        return true;
    };
    let left = allowance.load(Relaxed).checked_sub(1);
    if let Some(left) = left {
        allowance.store(left, Relaxed);
    }
    left.is_some()
}

impl MergedRange {
    /// A range of the input with this number.
    pub fn new(
        input: usize,
        walk: RangeWalk,
        constant_bytes: usize,
        may_repeat: MayRepeat,
    ) -> MergedRange {
        MergedRange {
            input,
            is_reversed: walk.is_reversed(),
            walk,
            constant_bytes,
            may_repeat,
        }
    }

    /// A copy of the range, of which nothing was read.
    pub fn begun_anew(&self) -> MergedRange {
        MergedRange {
            walk: RangeWalk::new(self.walk.ranges().to_vec(), self.is_reversed),
            ..*self
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
            covering: None,
            last: Vec::new(),
            marked_last: Vec::new(),
            seen: Box::default(),
            allowance: None,
            returned: 0,
            docs_examined: 0,
        }
    }

    /// Bounds the keys that are read. Whoever tries the merge gives the allowance, again and again as it sees fit.
    pub fn within(mut self, allowance: Arc<AtomicU64>) -> SortMerge {
        self.allowance = Some(allowance);
        self
    }

    /// Has the merge give documents that are made of keys.
    pub fn covering(mut self, covering: Covering) -> SortMerge {
        debug_assert!(!self.is_of_branches, "the keys are those of one index");
        self.covering = Some(Box::new(covering));
        self
    }

    fn merge(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let mut cursors: Vec<Option<Box<dyn Cursor + '_>>> = Vec::with_capacity(self.ranges.len());
        let mut heads: BinaryHeap<Head> = BinaryHeap::with_capacity(self.ranges.len());
        for (place, range) in self.ranges.iter_mut().enumerate() {
            let cursor = range.walk.open(context)?;
            if let Some(cursor) = &cursor {
                heads.push(Reverse((range.head(cursor.key()), place)));
            }
            cursors.push(cursor);
        }
        let mut indexes: Vec<&Index> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            indexes.push(find_index(context, input.access())?);
        }
        let mut steps = 0;
        while let Some(Reverse((given, place))) = heads.pop() {
            context.operation.step(&mut steps)?;
            if !take_key(self.allowance.as_deref()) {
                return Ok(true);
            }
            let Some(cursor) = &mut cursors[place] else {
                debug_assert!(false, "a range with a head has a cursor");
                continue;
            };
            let (key, value) = (cursor.key(), cursor.value());
            let index = indexes[self.ranges[place].input];
            let record = index_record_key(index, &context.snapshot.collection, key, value)?;
            let entry = (key, value);
            let flow = self.give((context, index), place, (&given, &record), entry, sink)?;
            let range = &mut self.ranges[place];
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

    /// Hands on the record of a key of the range at `place`, unless it was given under another key or another branch gives it.
    fn give(
        &mut self,
        (context, index): (&PlanContext<'_>, &Index),
        place: usize,
        (head, record): (&[u8], &[u8]),
        entry: (&[u8], &[u8]),
        sink: &mut Sink<'_>,
    ) -> Result<Flow> {
        let MergedRange {
            input, may_repeat, ..
        } = self.ranges[place];
        let is_repeated = match may_repeat {
            MayRepeat::Never => false,
            MayRepeat::InARow => self.last == head,
            MayRepeat::Anywhere => self.was_given((context, index), (head, place), record)?,
        };
        self.inputs[input].count(1, u64::from(!is_repeated));
        if is_repeated {
            return Ok(Flow::Continue);
        }
        if !self.is_of_branches {
            self.note_given(may_repeat, head, record)?;
            let Some(covering) = &mut self.covering else {
                self.returned += 1;
                return sink(&Row {
                    record,
                    document: None,
                });
            };
            let fetched = covering.docs_examined();
            let flow = covering.give(context, index, entry, &mut |document| {
                self.returned += 1;
                sink(&Row {
                    record: &[],
                    document: Some(document),
                })
            })?;
            self.docs_examined += covering.docs_examined() - fetched;
            return Ok(flow);
        }
        let (mut flow, mut is_given) = (Ok(Flow::Continue), false);
        let _scope = phase(Phase::EngineRead);
        let is_there = context.snapshot.get(record, &mut |bytes| {
            flow = stored(RawDocument::new(bytes)).and_then(|document| {
                let branch = context.parsed.matcher.first_branch(document)?;
                is_given = branch == Some(input);
                if !is_given {
                    return Ok(Flow::Continue);
                }
                self.note_given(may_repeat, head, record)?;
                self.returned += 1;
                sink(&Row {
                    record,
                    document: Some(document),
                })
            });
        })?;
        // Those that are given are counted by the FETCH above.
        self.docs_examined += u64::from(is_there && !is_given);
        flow
    }

    fn note_given(&mut self, may_repeat: MayRepeat, head: &[u8], record: &[u8]) -> Result<()> {
        match may_repeat {
            MayRepeat::Never => {}
            MayRepeat::InARow => {
                self.last.clear();
                self.last.extend_from_slice(head);
            }
            // Those that are too many are told by their keys.
            MayRepeat::Anywhere => _ = self.seen.meet(record, SEEN_BYTES_MAX)?,
        }
        Ok(())
    }

    /// Whether a record was given under another key in the ranges of its input.
    fn was_given(
        &self,
        (context, index): (&PlanContext<'_>, &Index),
        at: (&[u8], usize),
        record: &[u8],
    ) -> Result<bool> {
        if self.seen.contains(record) || !self.seen.is_full(record, SEEN_BYTES_MAX) {
            return Ok(self.seen.contains(record));
        }
        let input = self.ranges[at.1].input;
        let ranges = || {
            let ranges = self.ranges.iter().enumerate();
            ranges.filter(move |(_, range)| range.input == input)
        };
        has_earlier_key(context, index, record, &mut |key, _| {
            let holds = |(_, range): &(usize, &MergedRange)| range.walk.holds(key);
            let of_key = ranges().find(holds);
            Ok(of_key.is_some_and(|(place, range)| (range.head(key).as_slice(), place) < at))
        })
    }

    fn keys_examined(&self) -> u64 {
        self.inputs.iter().map(IndexScan::keys_examined).sum()
    }
}

impl PlanNode for SortMerge {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let (keys, documents) = (self.keys_examined(), self.docs_examined);
        let outcome = self.merge(context, sink);
        if let Some(covering) = &mut self.covering {
            covering.shrink();
        }
        let documents = self.docs_examined - documents;
        let keys = self.keys_examined() - keys;
        context.operation.count_examined(keys, documents);
        outcome
    }

    fn mark(&mut self) {
        self.marked_last.clone_from(&self.last);
        self.seen.mark();
        for range in &mut self.ranges {
            range.walk.mark();
        }
    }

    fn rewind(&mut self) {
        self.last = std::mem::take(&mut self.marked_last);
        self.seen.rewind();
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
        let covering = self.covering.as_ref();
        if covering.is_some_and(|covering| covering.asks_filter()) {
            shown.filter(out);
        }
        shown.returned(self.returned(), out);
        if shown.counts {
            let tested: u64 = self.inputs.iter().map(PlanNode::returned).sum();
            // The inputs of other merges give each record once; what is missing of them the filter has taken.
            let dropped = match self.is_of_branches {
                true => tested - self.returned,
                false => 0,
            };
            out.append("dupsTested", number(tested));
            out.append("dupsDropped", number(dropped));
            if self.docs_examined > 0 {
                out.append("docsExamined", number(self.docs_examined));
            }
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        for input in &self.inputs {
            input.leaves(visit);
        }
    }
}
