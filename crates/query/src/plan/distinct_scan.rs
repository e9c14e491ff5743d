//! DISTINCT_SCAN: one key of an index for each value of its leading fields, so that the keys between two values are passed
//! over by a seek.
//!
//! Gives documents made of the keys, which have the field whose values are asked for. A key of null may stand for a document
//! without the field, and one of undefined for one with an empty array: those are fetched, one after the other, until one has
//! the value itself. So is one with an array for an element, which would be taken apart. Where the first document of each value is
//! wanted, that is fetched for its key.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::{Index, KeyRange, index_entry, index_record_key};
use quarry_keystring::{Direction, decode_prefix_len, prefix_end};
use quarry_timing::{Phase, phase};
use smallvec::SmallVec;

use super::index_access::IndexAccess;
use super::index_scan::find_index;
use super::key_document::{KeyBuffer, KeyDocument};
use super::node::{Flow, Leaf, PlanContext, PlanNode, Row, Sink};
use super::range_walk::{RangeWalk, Step};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::{broken_entry, stored};
use crate::field_path::FieldPath;

/// A scan of the different values of a field.
pub struct DistinctScan {
    access: IndexAccess,
    walk: RangeWalk,
    /// The directions of the fields that a value is told apart by, its own the last one.
    directions: SmallVec<[Direction; 4]>,
    /// The document of a key: the field alone. None where the first document of each value is wanted.
    document: Option<KeyDocument>,
    path: FieldPath,
    returned: u64,
    keys_examined: u64,
    docs_examined: u64,
}

impl DistinctScan {
    /// A scan of the values at `path`, which is the last of the fields with these directions.
    pub fn new(
        access: IndexAccess,
        ranges: Vec<KeyRange>,
        directions: SmallVec<[Direction; 4]>,
        document: Option<KeyDocument>,
        path: FieldPath,
    ) -> DistinctScan {
        DistinctScan {
            access,
            walk: RangeWalk::new(ranges, false),
            directions,
            document,
            path,
            returned: 0,
            keys_examined: 0,
            docs_examined: 0,
        }
    }
}

/// The keys and documents that one run has read.
#[derive(Default)]
struct Examined {
    keys: u64,
    documents: u64,
}

impl DistinctScan {
    fn scan(
        &mut self,
        context: &PlanContext<'_>,
        examined: &mut Examined,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let index = find_index(context, &self.access)?;
        let DistinctScan {
            walk,
            directions,
            document,
            path,
            returned,
            ..
        } = self;
        let mut buffer = KeyBuffer::default();
        // An array that the index has met since it was chosen for what is no element of one.
        let has_elements = index.multikey_components() != 0 && !self.access.is_multikey;
        let is_first_wanted = document.is_none();
        walk.walk_steps(context, false, |cursor| {
            examined.keys += 1;
            let (key, value) = (cursor.key(), cursor.value());
            let entry = index_entry(index, &context.snapshot.collection, key, value)?;
            let mut give = |document: RawDocument<'_>| {
                *returned += 1;
                sink(&Row {
                    record: &[],
                    document: Some(document),
                })
            };
            let made = match &*document {
                Some(document) => document.make(&entry, &mut buffer)?,
                None => None,
            };
            let made = made.map(RawDocument::new).map(stored).transpose()?;
            let found = made.and_then(|made| value_at(made, path));
            let (flow, is_told) = match (made, found) {
                (Some(made), Some(found)) if is_plain(found) && !has_elements => {
                    (give(made)?, true)
                }
                _ => {
                    let record = index_record_key(index, &context.snapshot.collection, key, value)?;
                    let (mut outcome, mut is_told) = (Ok(Flow::Continue), false);
                    let _scope = phase(Phase::EngineRead);
                    context.snapshot.get(&record, &mut |bytes| {
                        examined.documents += 1;
                        outcome = stored(RawDocument::new(bytes)).and_then(|document| {
                            is_told = is_first_wanted
                                || is_array(found)
                                || is_itself(value_at(document, path));
                            is_told &= !has_elements;
                            give(document)
                        });
                    })?;
                    (outcome?, is_told)
                }
            };
            Ok(match (flow, is_told) {
                (Flow::Stop, _) => Step::Stop,
                (Flow::Continue, false) => Step::Next,
                (Flow::Continue, true) => Step::Beyond(behind(index, key, directions)?),
            })
        })
    }
}

/// Behind all keys that have the same values as `key` in the first fields.
fn behind(index: &Index, key: &[u8], directions: &[Direction]) -> Result<Vec<u8>> {
    let prefix_bytes = index.prefix.as_bytes().len();
    let fields = key.get(prefix_bytes..).unwrap_or_default();
    let len = decode_prefix_len(fields, directions.len(), directions).map_err(broken_entry)?;
    Ok(prefix_end(&key[..prefix_bytes + len]))
}

/// The value that a path leads to through documents alone.
fn value_at<'d>(document: RawDocument<'d>, path: &FieldPath) -> Option<RawValue<'d>> {
    let mut value = RawValue::Document(document);
    for part in path.parts() {
        value = value.as_document()?.get(part.name())?;
    }
    Some(value)
}

fn is_plain(value: RawValue<'_>) -> bool {
    !matches!(
        value,
        RawValue::Array(_) | RawValue::Null | RawValue::Undefined
    )
}

fn is_array(value: Option<RawValue<'_>>) -> bool {
    matches!(value, Some(RawValue::Array(_)))
}

/// Whether a document that was fetched for a key of null or undefined has that value.
fn is_itself(value: Option<RawValue<'_>>) -> bool {
    matches!(value, Some(RawValue::Null | RawValue::Undefined))
}

impl PlanNode for DistinctScan {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let _scope = phase(Phase::EngineScan);
        let mut examined = Examined::default();
        let outcome = self.scan(context, &mut examined, sink);
        self.keys_examined += examined.keys;
        self.docs_examined += examined.documents;
        (context.operation).count_examined(examined.keys, examined.documents);
        outcome
    }

    fn mark(&mut self) {
        self.walk.mark();
    }

    fn rewind(&mut self) {
        self.walk.rewind();
    }

    fn name(&self) -> &'static str {
        "DISTINCT_SCAN"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn idle_steps(&self) -> Option<u64> {
        self.keys_examined.checked_sub(self.returned)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
        self.access.describe(self.walk.direction(), out);
        if shown.counts {
            out.append("keysExamined", number(self.keys_examined));
            if self.docs_examined > 0 {
                out.append("docsExamined", number(self.docs_examined));
            }
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Distinct(&self.access));
    }
}
