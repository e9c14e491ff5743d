//! `$sort`: holds its input as sort key and document and hands it out in order; equal keys keep their order.
//! Where a `$limit` follows, only as many documents are held as it takes.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue};

use super::bounded_memory::BoundedMemory;
use super::execution::{Pace, Running, Upstream};
use super::stage::Reads;
use crate::error::{Error, Result};
use crate::sort::SortPattern;

#[derive(Debug)]
pub struct Sort {
    specification: Document,
    pattern: SortPattern,
}

impl Sort {
    pub(super) fn parse(value: RawValue<'_>) -> Result<Sort> {
        let RawValue::Document(specification) = value else {
            return Err(Error::location(
                15973,
                "the $sort key specification must be an object",
            ));
        };
        if specification.is_empty() {
            return Err(Error::location(
                15976,
                "$sort stage must have at least one sort key",
            ));
        }
        Ok(Sort {
            specification: specification.to_owned_document(),
            pattern: SortPattern::parse(specification)?,
        })
    }

    pub fn specification(&self) -> RawDocument<'_> {
        self.specification.as_raw()
    }

    pub fn pattern(&self) -> &SortPattern {
        &self.pattern
    }

    pub(super) fn explain(&self) -> Document {
        Document::build(|out| {
            out.append("sortKey", self.specification());
        })
    }

    pub(super) fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        for element in self.specification() {
            fields.insert(
                element
                    .name()
                    .to_string_lossy()
                    .split('.')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        Reads::Passes
    }

    pub(super) fn start(self: &Arc<Self>, wanted: Option<u64>) -> Box<dyn Running> {
        Box::new(Sorting {
            stage: Arc::clone(self),
            wanted,
            sorted: None,
        })
    }

    /// Reads all input; the rows come back in order.
    fn fill(&self, wanted: Option<u64>, upstream: &mut Upstream<'_, '_>) -> Result<Vec<Row>> {
        let (mut memory, mut pace) = (BoundedMemory::default(), Pace::default());
        let wanted = wanted.map_or(usize::MAX, |wanted| {
            usize::try_from(wanted).unwrap_or(usize::MAX)
        });
        let mut rows: BinaryHeap<Row> = BinaryHeap::new();
        let (mut buffer, mut key) = (Vec::new(), Vec::new());
        let mut sequence = 0;
        while let Some(document) = upstream.read(&mut buffer)? {
            pace.step(upstream)?;
            key.clear();
            self.pattern.key(document, &mut key)?;
            sequence += 1;
            if rows.len() >= wanted {
                // The newest row loses against an equal one: it came later.
                let Some(mut last) = rows.peek_mut() else {
                    break;
                };
                if key.as_slice() >= last.key() {
                    continue;
                }
                let row = Row::new(&key, document, sequence);
                memory.shrink(last.bytes.len());
                memory.grow(row.bytes.len(), "Sort")?;
                *last = row;
                continue;
            }
            let row = Row::new(&key, document, sequence);
            memory.grow(row.bytes.len() + size_of::<Row>(), "Sort")?;
            rows.push(row);
        }
        Ok(rows.into_sorted_vec())
    }
}

struct Sorting {
    stage: Arc<Sort>,
    wanted: Option<u64>,
    sorted: Option<std::vec::IntoIter<Row>>,
}

impl Running for Sorting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if self.sorted.is_none() {
            self.sorted = Some(self.stage.fill(self.wanted, upstream)?.into_iter());
        }
        let Some(row) = self.sorted.as_mut().and_then(Iterator::next) else {
            return Ok(false);
        };
        out.extend_from_slice(row.document());
        Ok(true)
    }
}

/// A sort key followed by its document.
#[derive(Debug)]
struct Row {
    bytes: Box<[u8]>,
    key_bytes: usize,
    sequence: u64,
}

impl Row {
    fn new(key: &[u8], document: RawDocument<'_>, sequence: u64) -> Row {
        Row {
            bytes: [key, document.as_bytes()].concat().into_boxed_slice(),
            key_bytes: key.len(),
            sequence,
        }
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    fn document(&self) -> &[u8] {
        &self.bytes[self.key_bytes..]
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        self.key()
            .cmp(other.key())
            .then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}
