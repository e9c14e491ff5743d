//! IXSCAN: the keys of an index within ranges, or those of a clustered collection's records by `_id`.
//!
//! Gives record keys; the records' own keys come with the documents that stand beside them. Where an index has all that
//! is read of the documents, it gives documents made of its keys instead (`covering.rs`), and where nothing is read but how many
//! they are, empty ones: one such range is a COUNT_SCAN. Of an index with arrays each record is given once.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::{
    Cursor, Error, Index, KeyRange, index_entry, index_record_key, may_stand_among_cut_keys,
    meeting_cut_keys,
};
use quarry_timing::{Phase, phase};

use super::covering::Covering;
use super::earlier_keys::{OfEntry, has_earlier_key};
use super::index_access::IndexAccess;
use super::key_tests::Tested;
use super::keyed_entries::KeyedEntries;
use super::node::{Flow, Leaf, PlanContext, PlanNode, Purpose, Row, Sink};
use super::range_walk::{RangeWalk, Step, hold};
use super::seen_records::{Met, SEEN_BYTES_MAX, SeenRecords};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::stored;

/// A scan of keys.
pub struct IndexScan {
    access: IndexAccess,
    walk: RangeWalk,
    /// Each range begins with the one key that it can hold, a record's or a unique index's.
    is_of_whole_keys: bool,
    /// Its keys serve in place of documents.
    covering: Option<Box<Covering>>,
    /// Its keys are looked at one by one, or given with the records.
    keyed: Option<Box<KeyedEntries>>,
    repeats: Repeats,
    returned: u64,
    keys_examined: u64,
}

/// The records that a scan may meet again, and whether it cares.
struct Repeats {
    /// It meets a record under several keys, and nobody above knows records again.
    may_be: bool,
    purpose: Purpose,
    seen: Option<Box<SeenRecords>>,
    /// It could remember no more.
    is_full: bool,
    /// The ranges of the scan, and whether it goes through them backwards; set when a scan begins that meets records again.
    ranges: Vec<KeyRange>,
    is_reversed: bool,
}

impl IndexScan {
    /// A scan through ranges, which ascend and share no key.
    pub fn new(
        access: IndexAccess,
        ranges: Vec<KeyRange>,
        is_reversed: bool,
        is_of_whole_keys: bool,
    ) -> IndexScan {
        IndexScan {
            repeats: Repeats {
                may_be: access.is_multikey,
                purpose: Purpose::Read,
                seen: None,
                is_full: false,
                ranges: Vec::new(),
                is_reversed,
            },
            walk: RangeWalk::new(ranges, is_reversed),
            access,
            is_of_whole_keys,
            covering: None,
            keyed: None,
            returned: 0,
            keys_examined: 0,
        }
    }

    /// A scan of the same ranges that has read nothing, and gives every key in them.
    pub fn of_every_key(&self) -> IndexScan {
        let ranges = self.ranges().to_vec();
        let is_reversed = self.walk.is_reversed();
        let access = self.access.clone();
        let mut scan = IndexScan::new(access, ranges, is_reversed, self.is_of_whole_keys);
        scan.repeats.may_be = self.repeats.may_be;
        scan
    }

    /// Has the scan give a record under each of its keys, because it meets none of them again, or because a node above knows
    /// records again.
    pub fn forget_repeats(&mut self) {
        self.repeats.may_be = false;
    }

    /// Has the scan give documents that are made of its keys.
    pub fn covering(mut self: Box<Self>, covering: Covering) -> Box<IndexScan> {
        debug_assert!(
            !self.access.is_of_records || (covering.counts() && !self.is_of_whole_keys),
            "the keys of records do not tell the types of their `_id`s, nor whether they are there"
        );
        self.covering = Some(Box::new(covering));
        self
    }

    /// Has the scan give its keys with the records, or only those within bounds.
    pub fn giving_keys(mut self: Box<Self>, keyed: KeyedEntries) -> Box<IndexScan> {
        debug_assert!(!self.access.is_of_records, "records come whole");
        self.keyed = Some(Box::new(keyed));
        self
    }

    /// The index that it goes through.
    pub fn access(&self) -> &IndexAccess {
        &self.access
    }

    /// Counts rows that somebody else has read through its ranges.
    pub fn count(&mut self, keys_examined: u64, returned: u64) {
        self.keys_examined += keys_examined;
        self.returned += returned;
    }

    /// The keys that were read so far.
    pub fn keys_examined(&self) -> u64 {
        self.keys_examined
    }

    /// Whether it is one range of keys that are only counted.
    fn is_count_scan(&self) -> bool {
        self.ranges_len() == 1 && self.covering.as_ref().is_some_and(|made| made.counts())
    }

    /// The ranges to be walked through.
    pub fn ranges(&self) -> &[KeyRange] {
        self.walk.ranges()
    }

    /// Like `ranges`, but only how many they are.
    pub fn ranges_len(&self) -> usize {
        self.ranges().len()
    }

    fn next_records(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let (keys_examined, returned) = (&mut self.keys_examined, &mut self.returned);
        if self.is_of_whole_keys {
            // The fetch above gets the document, if there is one.
            return self.walk.walk_keys(context, |record| {
                *keys_examined += 1;
                *returned += 1;
                sink(&Row {
                    record,
                    document: None,
                })
            });
        }
        let counts = self.covering.is_some();
        self.walk.walk(context, false, |cursor| {
            *keys_examined += 1;
            *returned += 1;
            let document = match counts {
                true => RawDocument::EMPTY,
                false => stored(RawDocument::new(cursor.value()))?,
            };
            sink(&Row {
                record: cursor.key(),
                document: Some(document),
            })
        })
    }

    /// Like `next_entries`, and gives documents made of the entries in place of record keys.
    fn next_covered(
        &mut self,
        covering: &mut Covering,
        context: &PlanContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let index = find_index(context, &self.access)?;
        let IndexScan {
            walk,
            repeats,
            returned,
            keys_examined,
            ..
        } = self;
        let mut give = |key: &[u8], value: &[u8]| {
            *keys_examined += 1;
            if repeats.may_be {
                let record = index_record_key(index, &context.snapshot.collection, key, value)?;
                match repeats.meet((context, index), (key, &record), &mut |_, _| Ok(true))? {
                    Met::New => {}
                    Met::Before => return Ok(Flow::Continue),
                    Met::TooMany => return Ok(Flow::Stop),
                }
            }
            covering.give(context, index, (key, value), &mut |document| {
                *returned += 1;
                sink(&Row {
                    record: &[],
                    document: Some(document),
                })
            })
        };
        if self.is_of_whole_keys {
            return walk.walk_keys(context, |key| {
                let mut flow = Ok(Flow::Continue);
                context
                    .snapshot
                    .get(key, &mut |value| flow = give(key, value))?;
                flow
            });
        }
        walk.walk(context, false, |cursor| give(cursor.key(), cursor.value()))
    }

    /// Like `next_entries`, and gives each record with its key as a document.
    fn next_keyed(
        &mut self,
        keyed: &mut KeyedEntries,
        context: &PlanContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let index = find_index(context, &self.access)?;
        let IndexScan {
            walk,
            repeats,
            returned,
            keys_examined,
            ..
        } = self;
        let is_reversed = walk.is_reversed();
        let mut give = |key: &[u8], value: &[u8]| {
            *keys_examined += 1;
            let collection = &context.snapshot.collection;
            let entry = index_entry(index, collection, key, value)?;
            match keyed.test(entry.fields)? {
                Tested::Passed => {}
                Tested::FailedUpTo(fields) if !is_reversed && !may_stand_among_cut_keys(key) => {
                    let start = [index.prefix.as_bytes(), &fields].concat();
                    let range = meeting_cut_keys(KeyRange::new(start, Vec::new()));
                    return Ok(Step::Beyond(range.start));
                }
                Tested::Failed | Tested::FailedUpTo(_) => return Ok(Step::Next),
            }
            let record = index_record_key(index, collection, key, value)?;
            let mut passes = |key: &[u8], value: &[u8]| {
                let entry = index_entry(index, collection, key, value)?;
                Ok(keyed.test(entry.fields)? == Tested::Passed)
            };
            match repeats.meet((context, index), (key, &record), &mut passes)? {
                Met::New => {}
                Met::Before => return Ok(Step::Next),
                Met::TooMany => return Ok(Step::Stop),
            }
            *returned += 1;
            let flow = sink(&Row {
                record: &record,
                document: keyed.document(index, &entry)?,
            })?;
            Ok(Step::from(flow))
        };
        if self.is_of_whole_keys {
            return walk.walk_keys(context, |key| {
                let mut step = Ok(Step::Next);
                context
                    .snapshot
                    .get(key, &mut |value| step = give(key, value))?;
                Ok(match step? {
                    Step::Stop => Flow::Stop,
                    Step::Next | Step::Beyond(_) => Flow::Continue,
                })
            });
        }
        walk.walk_steps(context, false, |cursor| give(cursor.key(), cursor.value()))
    }

    fn next_entries(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let index = find_index(context, &self.access)?;
        let IndexScan {
            walk,
            repeats,
            returned,
            keys_examined,
            ..
        } = self;
        let mut give = |key: &[u8], record: &[u8]| {
            *keys_examined += 1;
            match repeats.meet((context, index), (key, record), &mut |_, _| Ok(true))? {
                Met::New => {}
                Met::Before => return Ok(Flow::Continue),
                Met::TooMany => return Ok(Flow::Stop),
            }
            *returned += 1;
            sink(&Row {
                record,
                document: None,
            })
        };
        if self.is_of_whole_keys {
            return walk.walk_keys(context, |key| {
                match record_of_unique(context, index, key)? {
                    Some(record) => give(key, &record),
                    None => Ok(Flow::Continue),
                }
            });
        }
        walk.walk(context, false, |cursor: &dyn Cursor| {
            let (key, value) = (cursor.key(), cursor.value());
            let record = index_record_key(index, &context.snapshot.collection, key, value)?;
            give(key, &record)
        })
    }
}

/// The index that a scan goes through, as the catalog has it now.
pub fn find_index<'v>(context: &PlanContext<'v>, access: &IndexAccess) -> Result<&'v Index> {
    let mut indexes = context.snapshot.index_catalog()?.indexes.iter();
    let index = indexes.find(|index| index.ident == access.ident);
    Ok(index.ok_or_else(|| {
        let text = format!("index '{}' was dropped", access.name);
        Error::QueryPlanKilled(text)
    })?)
}

/// The key of the record whose unique entry stands under `key`, if one does.
fn record_of_unique(
    context: &PlanContext<'_>,
    index: &Index,
    key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let mut record = None;
    context.snapshot.get(key, &mut |value| {
        record = Some(index_record_key(
            index,
            &context.snapshot.collection,
            key,
            value,
        ));
    })?;
    Ok(record.transpose()?)
}

impl Repeats {
    /// Meets the record of a key. `passes` says of another of its keys whether the scan gives it, if it lies in the ranges.
    fn meet(
        &mut self,
        (context, index): (&PlanContext<'_>, &Index),
        (key, record): (&[u8], &[u8]),
        passes: &mut OfEntry<'_>,
    ) -> Result<Met> {
        if !self.may_be {
            return Ok(Met::New);
        }
        let seen = self.seen.get_or_insert_default();
        let met = seen.meet(record, SEEN_BYTES_MAX)?;
        if met != Met::TooMany {
            return Ok(met);
        }
        match self.purpose {
            // The document tells under which of its keys it was met first.
            Purpose::Read => {
                let (ranges, is_reversed) = (&self.ranges, self.is_reversed);
                let mut is_earlier = |other: &[u8], value: &[u8]| -> Result<bool> {
                    let is_before = if is_reversed {
                        other > key
                    } else {
                        other < key
                    };
                    Ok(is_before && hold(ranges, other) && passes(other, value)?)
                };
                Ok(
                    match has_earlier_key(context, index, record, &mut is_earlier)? {
                        true => Met::Before,
                        false => Met::New,
                    },
                )
            }
            // What is deleted in pieces is not met in a later one.
            Purpose::Delete => {
                seen.forget();
                seen.meet(record, SEEN_BYTES_MAX)
            }
            Purpose::Move | Purpose::ChangeInPlace => {
                self.is_full = true;
                Ok(Met::TooMany)
            }
        }
    }
}

impl PlanNode for IndexScan {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        if let (Purpose::Delete, Some(seen)) = (self.repeats.purpose, &mut self.repeats.seen) {
            seen.forget();
        }
        if self.repeats.may_be && self.repeats.ranges.is_empty() {
            self.repeats.ranges = self.walk.ranges().to_vec();
        }
        let before = self.keys_examined;
        let outcome = if self.access.is_of_records {
            self.next_records(context, sink)
        } else if let Some(mut covering) = self.covering.take() {
            let fetched = covering.docs_examined();
            let outcome = self.next_covered(&mut covering, context, sink);
            let fetched = covering.docs_examined() - fetched;
            context.operation.count_examined(0, fetched);
            covering.shrink();
            self.covering = Some(covering);
            outcome
        } else if let Some(mut keyed) = self.keyed.take() {
            let outcome = self.next_keyed(&mut keyed, context, sink);
            self.keyed = Some(keyed);
            outcome
        } else {
            self.next_entries(context, sink)
        };
        let examined = self.keys_examined - before;
        context.operation.count_examined(examined, 0);
        outcome
    }

    fn mark(&mut self) {
        self.walk.mark();
        if let Some(seen) = &mut self.repeats.seen {
            seen.mark();
        }
    }

    fn rewind(&mut self) {
        self.walk.rewind();
        if let Some(seen) = &mut self.repeats.seen {
            seen.rewind();
        }
    }

    fn name(&self) -> &'static str {
        match self.is_count_scan() {
            true => "COUNT_SCAN",
            false => "IXSCAN",
        }
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn idle_steps(&self) -> Option<u64> {
        self.keys_examined.checked_sub(self.returned)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        let access = &self.access;
        let covering = self.covering.as_ref();
        if covering.is_some_and(|covering| covering.asks_filter()) {
            shown.filter(out);
        }
        shown.returned(self.returned(), out);
        access.describe(self.walk.direction(), out);
        if shown.counts {
            out.append("keysExamined", number(self.keys_examined));
            let fetched = covering.map_or(0, |covering| covering.docs_examined());
            if fetched > 0 {
                out.append("docsExamined", number(fetched));
            }
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(match self.is_count_scan() {
            true => Leaf::Count(&self.access),
            false => Leaf::Index(&self.access),
        });
    }

    fn set_purpose(&mut self, purpose: Purpose) {
        self.repeats.purpose = purpose;
        // The keys of records never move.
        self.repeats.may_be |= purpose == Purpose::Move && !self.access.is_of_records;
    }

    fn take_full(&mut self) -> Option<Box<SeenRecords>> {
        self.repeats
            .is_full
            .then(|| self.repeats.seen.take())
            .flatten()
    }
}
