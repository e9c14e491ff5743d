//! COLLSCAN: all records of a collection in their own order.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::{Collection, KeyRange};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Leaf, PlanContext, PlanNode, Purpose, Row, Sink, SplitLeaf};
use super::range_walk::RangeWalk;
use super::seen_records::SeenRecords;
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::stored;

/// A scan of a collection, which asks the filter of each document.
pub struct CollectionScan {
    walk: RangeWalk,
    asks_filter: bool,
    /// Records that were met before this scan took over from another node.
    left_out: Option<Box<SeenRecords>>,
    purpose: Purpose,
    returned: u64,
    docs_examined: u64,
}

impl CollectionScan {
    /// A scan that gives what matches the filter.
    pub fn new(collection: &Collection, is_reversed: bool) -> CollectionScan {
        let range = KeyRange::new(collection.prefix.as_bytes(), collection.prefix.end());
        CollectionScan {
            walk: RangeWalk::new(vec![range], is_reversed),
            asks_filter: true,
            left_out: None,
            purpose: Purpose::Read,
            returned: 0,
            docs_examined: 0,
        }
    }

    /// A scan for the records that another node has not met. That node's reader asks the filter.
    pub fn of_others(collection: &Collection, met: Box<SeenRecords>) -> CollectionScan {
        CollectionScan {
            asks_filter: false,
            left_out: Some(met),
            ..CollectionScan::new(collection, false)
        }
    }

    /// Like `of_others`, and gives only what matches the filter.
    pub fn of_other_matches(collection: &Collection, met: Box<SeenRecords>) -> CollectionScan {
        CollectionScan {
            asks_filter: true,
            ..CollectionScan::of_others(collection, met)
        }
    }

    /// A scan that can go on when the collection has grown.
    pub fn following(collection: &Collection) -> CollectionScan {
        let mut scan = CollectionScan::new(collection, false);
        scan.walk.follow();
        scan
    }

    /// Gives back the records that it left out.
    pub fn into_met(self) -> Option<Box<SeenRecords>> {
        self.left_out
    }
}

impl PlanNode for CollectionScan {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let CollectionScan {
            walk,
            asks_filter,
            left_out,
            purpose,
            returned,
            docs_examined,
        } = self;
        // Who changes the records that are read has met the last one himself, and may have deleted it.
        let keeps_place = *purpose == Purpose::Read && context.snapshot.collection.capped.is_some();
        let before = *docs_examined;
        let outcome = walk.walk(context, keeps_place, |cursor| {
            if let Some(left_out) = left_out
                && left_out.contains(cursor.key())
            {
                return Ok(Flow::Continue);
            }
            *docs_examined += 1;
            let document = stored(RawDocument::new(cursor.value()))?;
            if *asks_filter && !context.parsed.matches(document)? {
                return Ok(Flow::Continue);
            }
            *returned += 1;
            sink(&Row {
                record: cursor.key(),
                document: Some(document),
            })
        });
        let examined = self.docs_examined - before;
        context.operation.count_examined(0, examined);
        outcome
    }

    fn mark(&mut self) {
        self.walk.mark();
    }

    fn rewind(&mut self) {
        self.walk.rewind();
    }

    fn name(&self) -> &'static str {
        "COLLSCAN"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn idle_steps(&self) -> Option<u64> {
        self.docs_examined.checked_sub(self.returned)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if self.asks_filter {
            shown.filter(out);
        }
        shown.returned(self.returned(), out);
        out.append("direction", self.walk.direction());
        if shown.counts {
            out.append("docsExamined", number(self.docs_examined));
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Collection);
    }

    fn set_purpose(&mut self, purpose: Purpose) {
        self.purpose = purpose;
    }

    fn take_full(&mut self) -> Option<Box<SeenRecords>> {
        None
    }

    fn resume(&mut self) {
        self.walk.resume();
    }

    fn split_leaf(&mut self) -> Option<&mut dyn SplitLeaf> {
        let is_whole = self.asks_filter && self.left_out.is_none() && self.purpose == Purpose::Read;
        (is_whole && self.walk.is_splittable()).then_some(self)
    }

    /// A collection that is empty when it is first read ends even who follows it.
    fn is_over(&self) -> bool {
        self.walk.was_empty()
    }
}

impl SplitLeaf for CollectionScan {
    fn rest(&self) -> Option<KeyRange> {
        self.walk.rest()
    }

    fn go_to(&mut self, range: KeyRange) {
        self.walk = RangeWalk::new(vec![range], false);
    }

    fn docs_examined(&self) -> u64 {
        self.docs_examined
    }

    fn count(&mut self, docs_examined: u64, returned: u64) {
        self.docs_examined += docs_examined;
        self.returned += returned;
    }
}
