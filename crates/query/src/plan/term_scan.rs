//! IXSCAN of a text index: the keys of one term, those first that are most about it.
//!
//! Gives record keys, and whoever asks for them the entries themselves, which have the scores.

use quarry_bson::DocumentBuilder;
use quarry_database::{KeyRange, index_entry};
use quarry_keystring::{Decoder, Direction};
use quarry_timing::{Phase, phase};

use super::index_access::IndexAccess;
use super::index_scan::find_index;
use super::node::{Flow, Leaf, PlanContext, PlanNode, Row, Sink};
use super::range_walk::RangeWalk;
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::broken_entry;

/// A scan of the keys of one term behind given values of the fields before it.
pub struct TermScan {
    access: IndexAccess,
    walk: RangeWalk,
    /// How the keys of the term begin, behind the prefix of the index, one way for each combination of values before the term.
    beginnings: Vec<Vec<u8>>,
    returned: u64,
    keys_examined: u64,
}

/// A key of a term.
pub struct TermEntry<'e> {
    /// The record's key with its prefix.
    pub record: &'e [u8],
    /// How much the record is about the term.
    pub score: f64,
}

impl TermScan {
    /// A scan of ranges that hold all keys which begin so behind the index's prefix. The ranges ascend and share no key.
    pub fn new(access: IndexAccess, ranges: Vec<KeyRange>, beginnings: Vec<Vec<u8>>) -> TermScan {
        TermScan {
            access,
            walk: RangeWalk::new(ranges, true),
            beginnings,
            returned: 0,
            keys_examined: 0,
        }
    }

    /// Hands over the term's keys until `each` stops it; says whether there may be more.
    pub fn read(
        &mut self,
        context: &PlanContext<'_>,
        each: &mut dyn FnMut(TermEntry<'_>) -> Result<Flow>,
    ) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let index = find_index(context, &self.access)?;
        let collection = &context.snapshot.collection;
        let TermScan {
            walk,
            beginnings,
            returned,
            keys_examined,
            ..
        } = self;
        let before = *keys_examined;
        let mut record = collection.prefix.as_bytes().to_vec();
        let prefix_len = record.len();
        let outcome = walk.walk(context, false, |cursor| {
            *keys_examined += 1;
            let (key, value) = (cursor.key(), cursor.value());
            let entry = index_entry(index, collection, key, value)?;
            // Among cut keys there are those of other terms.
            let mut beginnings = beginnings.iter();
            let behind = beginnings.find_map(|beginning| entry.fields.strip_prefix(&**beginning));
            let Some(behind) = behind else {
                return Ok(Flow::Continue);
            };
            let score = Decoder::new(behind, &[]).next(Direction::Ascending);
            let score = score.map_err(broken_entry)?.as_raw().as_f64_lossy();
            *returned += 1;
            record.truncate(prefix_len);
            record.extend_from_slice(entry.record_key);
            each(TermEntry {
                record: &record,
                score: score.unwrap_or_default(),
            })
        });
        let examined = *keys_examined - before;
        context.operation.count_examined(examined, 0);
        outcome
    }
}

impl PlanNode for TermScan {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        self.read(context, &mut |entry| {
            sink(&Row {
                record: entry.record,
                document: None,
            })
        })
    }

    fn mark(&mut self) {
        self.walk.mark();
    }

    fn rewind(&mut self) {
        self.walk.rewind();
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        None
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        None
    }

    fn name(&self) -> &'static str {
        "IXSCAN"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn idle_steps(&self) -> Option<u64> {
        self.keys_examined.checked_sub(self.returned)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned, out);
        self.access.describe(self.walk.direction(), out);
        if shown.counts {
            out.append("keysExamined", number(self.keys_examined));
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Index(&self.access));
    }
}

/// The node directly below a node over the scans of terms, if that searches for a single term.
pub fn only_term(scans: &[TermScan]) -> Option<&dyn PlanNode> {
    match scans {
        [only] => Some(only),
        _ => None,
    }
}

/// The nodes below a node over the scans of terms, if that searches for several.
pub fn several_terms(scans: &[TermScan]) -> Vec<&dyn PlanNode> {
    match scans {
        [_] => Vec::new(),
        scans => scans.iter().map(|scan| scan as &dyn PlanNode).collect(),
    }
}
