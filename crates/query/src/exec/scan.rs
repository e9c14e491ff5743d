//! A plan at work: reads its ranges from where it last stopped and hands over documents with their record keys.
//!
//! Keeps true: every document once, even where an index holds it under several keys; nothing is held between two
//! runs but the position. What was written behind the position between two runs may or may not be met.
//!
//! The branches of a union are read one after the other, and what was met is remembered. A union that can remember no more
//! ends, and the whole collection is read for what it has not met.
//!
//! Whoever puts documents aside and does not use them all can have the scan go back to where its last run began
//! (`Scan::rewind`), before the snapshot is given up.

use std::sync::atomic::Ordering::Relaxed;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexSet;
use quarry_bson::RawDocument;
use quarry_database::{CollectionSnapshot, Cursor, Index, KeyRange, Operation, index_record_key};
use quarry_timing::{Phase, phase};

use super::error::{memory_exceeded, stored};
use crate::error::Result;
use crate::error_code::ErrorCode;
use crate::memory::Charge;
use crate::planner::{Access, Plan};

/// The bytes that a scan may hold to know documents again.
const SEEN_BYTES_MAX: usize = if cfg!(test) {
    24 * 1024
} else {
    192 * 1024 * 1024
};
/// The bytes that a read of a union may hold: it keeps them as long as its cursor is open, and can do with less.
const SEEN_BYTES_MAX_OF_UNIONS: usize = if cfg!(test) {
    SEEN_BYTES_MAX
} else {
    16 * 1024 * 1024
};
/// The bytes that one record key takes beyond its own: in a list and a table of which half may be empty, and of the allocator.
const SEEN_ENTRY_BYTES: usize = 88;

/// Whether the scan goes on behind a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Stop,
}

/// Where a scan stood at one moment.
#[derive(Debug, Clone, Default)]
struct Position {
    /// Counts the plan's branches.
    branch: usize,
    /// Counts from the first range to be read.
    range: usize,
    /// Where in the range the scan stands.
    last_key: Option<Vec<u8>>,
    is_done: bool,
    /// How many documents it knew again.
    seen: usize,
}

/// The fate of documents between two runs of a scan, which says which of them it has to know again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing. An index with arrays holds a document under several keys.
    Read,
    /// They go away. A document is not met in a later run; within one run whoever asked for it may be shown it again.
    Delete,
    /// They are changed, and may move along the index.
    Move,
    /// They are changed, and stay where they are in the index.
    ChangeInPlace,
}

pub struct Scan {
    plan: Plan,
    /// Which of the plan's branches is read.
    branch: usize,
    /// Counts from the first range to be read.
    range: usize,
    /// Where in the range the scan stands.
    last_key: Option<Vec<u8>>,
    is_done: bool,
    /// Where the last run began.
    before: Position,
    /// In the order in which they were met.
    seen: IndexSet<Box<[u8]>, DefaultHashBuilder>,
    /// For what was met.
    held: Charge,
    purpose: Purpose,
    /// It could remember no more.
    is_full: bool,
    /// The plan at the beginning of the last run, if that run has put another in its place. It is seldom there, and a scan is
    /// made for every find.
    replaced: Option<Box<Plan>>,
    pub keys_examined: u64,
    pub docs_examined: u64,
}

/// Takes a record key and its document.
pub type Visit<'v> = dyn FnMut(&[u8], RawDocument<'_>) -> Result<Flow> + 'v;

impl Scan {
    pub fn new(plan: Plan) -> Scan {
        Scan {
            plan,
            branch: 0,
            range: 0,
            last_key: None,
            is_done: false,
            before: Position::default(),
            seen: IndexSet::default(),
            held: Charge::default(),
            purpose: Purpose::Read,
            is_full: false,
            replaced: None,
            keys_examined: 0,
            docs_examined: 0,
        }
    }

    /// For a scan whose documents are changed between its runs.
    pub fn with_purpose(mut self, purpose: Purpose) -> Scan {
        self.purpose = purpose;
        self
    }

    /// Whether a run has stopped because a change of many documents can remember no more of them: it has to go on over
    /// the collection. A read of a union goes on by itself.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Goes through the whole collection, where no document moves, for those that were not met so far.
    pub fn go_on_over_collection(&mut self, plan: Plan) {
        debug_assert!(matches!(plan.access, Access::Collection));
        self.plan = plan;
        self.branch = 0;
        self.range = 0;
        self.last_key = None;
        self.is_done = false;
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn has_started(&self) -> bool {
        self.last_key.is_some()
    }

    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Looks again behind the last key: for collections that grow at their end.
    pub fn resume(&mut self) {
        self.is_done = false;
        self.range = self
            .range
            .min(self.current().ranges.len().saturating_sub(1));
    }

    /// Goes back to where the last run began. In the same snapshot the next one meets the same documents.
    pub fn rewind(&mut self) {
        let before = std::mem::take(&mut self.before);
        if let Some(plan) = self.replaced.take() {
            self.plan = *plan;
            self.is_full = false;
        }
        self.branch = before.branch;
        self.range = before.range;
        self.last_key = before.last_key;
        self.is_done = before.is_done;
        for forgotten in self.seen.drain(before.seen..) {
            self.held.shrink(forgotten.len() + SEEN_ENTRY_BYTES);
        }
    }

    /// Hands over documents until `visit` stops it or there are no more; says whether there may be more.
    pub fn run(
        &mut self,
        snapshot: &CollectionSnapshot,
        operation: &Operation,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        let (keys, docs) = (self.keys_examined, self.docs_examined);
        if self.purpose == Purpose::Delete {
            self.forget();
        }
        operation.plan.get_or_init(|| self.plan.summary());
        self.replaced = None;
        self.before = Position {
            branch: self.branch,
            range: self.range,
            last_key: self.last_key.clone(),
            is_done: self.is_done,
            seen: self.seen.len(),
        };
        let _scope = phase(Phase::EngineScan);
        let outcome = self.run_branches(snapshot, operation, visit);
        operation
            .keys_examined
            .fetch_add(self.keys_examined - keys, Relaxed);
        operation
            .docs_examined
            .fetch_add(self.docs_examined - docs, Relaxed);
        outcome
    }

    fn run_branches(
        &mut self,
        snapshot: &CollectionSnapshot,
        operation: &Operation,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        loop {
            if self.run_ranges(snapshot, operation, visit)? {
                if self.is_full && self.is_union() && self.purpose == Purpose::Read {
                    // Whoever sorts what the union gives sorts what the collection gives, too.
                    let whole = Plan {
                        is_sorted: self.plan.is_sorted,
                        ..Plan::of_collection(&snapshot.collection)
                    };
                    self.replaced =
                        Some(Box::new(std::mem::replace(&mut self.plan, whole.clone())));
                    self.go_on_over_collection(whole);
                    continue;
                }
                return Ok(true);
            }
            if self.branch + 1 == self.plan.branches().len() {
                return Ok(false);
            }
            self.branch += 1;
            self.range = 0;
            self.last_key = None;
            self.is_done = false;
        }
    }

    /// The plan, or the branch of it that is read.
    fn current(&self) -> &Plan {
        &self.plan.branches()[self.branch]
    }

    fn is_union(&self) -> bool {
        matches!(self.plan.access, Access::Or(_))
    }

    /// Whether a document can be met more than once.
    fn meets_again(&self, index: Option<&Index>) -> bool {
        self.is_union()
            || index.is_some_and(|index| index.is_multikey() || self.purpose == Purpose::Move)
    }

    fn run_ranges(
        &mut self,
        snapshot: &CollectionSnapshot,
        operation: &Operation,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        let index = match &self.current().access {
            Access::Index(access) => {
                let mut indexes = snapshot.index_catalog()?.indexes.iter();
                let index = indexes.find(|index| index.ident == access.ident);
                Some(index.ok_or_else(|| {
                    let text = format!("index '{}' was dropped", access.name);
                    quarry_database::Error::QueryPlanKilled(text)
                })?)
            }
            _ => None,
        };
        if self.current().is_of_whole_keys {
            return self.run_keys(snapshot, operation, index, visit);
        }
        let Some(all) = self.outer_range() else {
            self.is_done = true;
            return Ok(false);
        };
        // One cursor for all ranges: making one costs more than moving it.
        let mut cursor = snapshot.cursor(all)?;
        let mut steps = 0;
        while !self.is_done {
            operation.step(&mut steps)?;
            let Some(range) = self.current_range() else {
                self.is_done = true;
                break;
            };
            self.enter(snapshot, &mut *cursor, range)?;
            while cursor.valid() && self.is_inside(cursor.key()) {
                operation.step(&mut steps)?;
                let flow = match index {
                    None => self.visit_record(&*cursor, visit)?,
                    Some(index) => {
                        let (key, value) = (cursor.key(), cursor.value());
                        let record = index_record_key(index, &snapshot.collection, key, value)?;
                        self.visit_entry(snapshot, index, &record, visit)?
                    }
                };
                if flow == Flow::Stop {
                    self.remember(cursor.key());
                    return Ok(true);
                }
                if self.range + 1 == self.current().ranges.len() {
                    self.remember(cursor.key());
                }
                if self.current().is_reversed {
                    stored(cursor.prev())?;
                } else {
                    stored(cursor.next())?;
                }
            }
            if self.range + 1 < self.current().ranges.len() {
                self.last_key = None;
            }
            self.range += 1;
        }
        Ok(false)
    }

    /// Ranges of one key each, a record's or a unique index's: gets, without a cursor.
    fn run_keys(
        &mut self,
        snapshot: &CollectionSnapshot,
        operation: &Operation,
        index: Option<&Index>,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        let mut steps = 0;
        while let Some(range) = self.current_range() {
            operation.step(&mut steps)?;
            let key = range.start.clone();
            self.range += 1;
            let flow = match index {
                None => {
                    self.keys_examined += 1;
                    match self.meet_if_needed(None, &key)? {
                        Met::New => self.fetch(snapshot, &key, visit)?,
                        Met::Before => Flow::Continue,
                        Met::TooMany => Flow::Stop,
                    }
                }
                Some(index) => self.get_entry(snapshot, index, &key, visit)?,
            };
            if flow == Flow::Stop {
                self.remember(&key);
                return Ok(true);
            }
        }
        self.is_done = true;
        Ok(false)
    }

    /// The document of the unique entry that stands under `key`, if one does.
    fn get_entry(
        &mut self,
        snapshot: &CollectionSnapshot,
        index: &Index,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        let mut record = None;
        snapshot.get(key, &mut |value| {
            record = Some(index_record_key(index, &snapshot.collection, key, value));
        })?;
        match record.transpose()? {
            None => Ok(Flow::Continue),
            Some(record) => self.visit_entry(snapshot, index, &record, visit),
        }
    }

    /// From the first range to the last.
    fn outer_range(&self) -> Option<KeyRange> {
        let ranges = &self.current().ranges;
        let (first, last) = (ranges.first()?, ranges.last()?);
        Some(KeyRange::new(first.start.clone(), last.end.clone()))
    }

    fn remember(&mut self, key: &[u8]) {
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
    }

    /// Whether the key belongs to the current range; the cursor comes from the side that the scan begins at.
    fn is_inside(&self, key: &[u8]) -> bool {
        self.current_range().is_some_and(|range| {
            if self.current().is_reversed {
                key >= range.start.as_slice()
            } else {
                range.end.is_empty() || key < range.end.as_slice()
            }
        })
    }

    fn current_range(&self) -> Option<&KeyRange> {
        let current = self.current();
        let ranges = &current.ranges;
        if current.is_reversed {
            ranges
                .len()
                .checked_sub(self.range + 1)
                .map(|at| &ranges[at])
        } else {
            ranges.get(self.range)
        }
    }

    /// Goes to the first key of the range that was not read.
    fn enter(
        &self,
        snapshot: &CollectionSnapshot,
        cursor: &mut dyn Cursor,
        range: &KeyRange,
    ) -> Result<()> {
        if let Some(last) = &self.last_key
            && self.has_lost(snapshot, cursor, last)?
        {
            let text = "CollectionScan died due to position in capped collection being deleted";
            return Err(crate::Error::new(ErrorCode::CAPPED_POSITION_LOST, text));
        }
        match (&self.last_key, self.current().is_reversed) {
            (None, false) => stored(cursor.seek(&range.start))?,
            (None, true) if range.end.is_empty() => stored(cursor.last())?,
            (None, true) => stored(cursor.seek_before(&range.end))?,
            (Some(last), true) => stored(cursor.seek_before(last))?,
            (Some(last), false) => {
                stored(cursor.seek(last))?;
                if cursor.valid() && cursor.key() == last.as_slice() {
                    stored(cursor.next())?;
                }
            }
        }
        Ok(())
    }

    /// Whether what comes behind the last key may be gone: of a capped collection the oldest documents make room for new
    /// ones, and a reader that was overtaken has to hear of it. One that changes what it reads looks for itself.
    fn has_lost(
        &self,
        snapshot: &CollectionSnapshot,
        cursor: &mut dyn Cursor,
        last: &[u8],
    ) -> Result<bool> {
        let is_of_records = matches!(self.plan.access, Access::Collection);
        if snapshot.collection.is_clustered() || !is_of_records || self.purpose != Purpose::Read {
            return Ok(false);
        }
        stored(cursor.seek(last))?;
        Ok(!cursor.valid() || cursor.key() != last)
    }

    fn visit_record(&mut self, cursor: &dyn Cursor, visit: &mut Visit<'_>) -> Result<Flow> {
        if matches!(self.current().access, Access::Records(_)) {
            self.keys_examined += 1;
        }
        if self.is_full && self.seen.contains(cursor.key()) {
            return Ok(Flow::Continue);
        }
        match self.meet_if_needed(None, cursor.key())? {
            Met::New => {}
            Met::Before => return Ok(Flow::Continue),
            Met::TooMany => return Ok(Flow::Stop),
        }
        self.docs_examined += 1;
        visit(cursor.key(), stored(RawDocument::new(cursor.value()))?)
    }

    fn visit_entry(
        &mut self,
        snapshot: &CollectionSnapshot,
        index: &Index,
        record: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        self.keys_examined += 1;
        match self.meet_if_needed(Some(index), record)? {
            Met::New => {}
            Met::Before => return Ok(Flow::Continue),
            Met::TooMany => return Ok(Flow::Stop),
        }
        self.fetch(snapshot, record, visit)
    }

    fn fetch(
        &mut self,
        snapshot: &CollectionSnapshot,
        record: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        let mut outcome = Ok(Flow::Continue);
        let _scope = phase(Phase::EngineRead);
        let found = snapshot.get(record, &mut |bytes| {
            let document = stored(RawDocument::new(bytes));
            outcome = document.and_then(|document| visit(record, document));
        })?;
        self.docs_examined += u64::from(found);
        outcome
    }

    /// Like `meet`, where a document can be met again at all.
    fn meet_if_needed(&mut self, index: Option<&Index>, record: &[u8]) -> Result<Met> {
        if self.meets_again(index) {
            self.meet(record)
        } else {
            Ok(Met::New)
        }
    }

    /// Remembers a record.
    fn meet(&mut self, record: &[u8]) -> Result<Met> {
        if self.seen.contains(record) {
            return Ok(Met::Before);
        }
        let bytes = record.len() + SEEN_ENTRY_BYTES;
        let bytes_max = match self.purpose {
            Purpose::Read if self.is_union() => SEEN_BYTES_MAX_OF_UNIONS,
            _ => SEEN_BYTES_MAX,
        };
        if self.held.bytes() + bytes > bytes_max {
            match self.purpose {
                Purpose::Read if !self.is_union() => {
                    return Err(memory_exceeded("Index scan", SEEN_BYTES_MAX));
                }
                Purpose::Delete => self.forget(),
                Purpose::Read | Purpose::Move | Purpose::ChangeInPlace => {
                    self.is_full = true;
                    return Ok(Met::TooMany);
                }
            }
        }
        self.held.grow(bytes)?;
        self.seen.insert(record.into());
        Ok(Met::New)
    }

    fn forget(&mut self) {
        self.seen.clear();
        self.held = Charge::default();
    }
}

/// Whether the scan has met a record before.
enum Met {
    New,
    Before,
    /// It may have, and cannot remember this one.
    TooMany,
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;

    use super::*;

    #[test]
    fn what_a_scan_remembers_is_charged() {
        let plan = Plan {
            access: Access::Collection,
            ranges: Vec::new(),
            is_of_whole_keys: false,
            answers_filter: false,
            is_reversed: false,
            is_sorted: true,
        };
        for keys in [1u64, 7, 8, 57, 113, 180] {
            let mut scan = Scan::new(plan.clone());
            let taken = measure(|| {
                for key in 0..keys {
                    let key = [&key.to_be_bytes()[..], &[7; 6]].concat();
                    assert!(matches!(scan.meet(&key), Ok(Met::New)));
                }
            });
            let taken = usize::try_from(taken.bytes_current).unwrap();
            let charged = scan.held.bytes();
            // The smallest table has room for a few.
            assert!(
                taken <= charged + 512,
                "{keys} keys take {taken} bytes, {charged} are charged"
            );
        }
    }
}
