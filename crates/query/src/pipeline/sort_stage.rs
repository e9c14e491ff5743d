//! `$sort`: holds its input as sort key and document and hands it out in order; equal keys keep their order.
//! Where a `$limit` follows, only as many documents are held as it takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue};

use super::execution::{Buffer, Running, Upstream};
use super::stage::Reads;
use crate::error::{Error, Result};
use crate::sort::SortPattern;
use crate::sorter::{Sorted, Sorter};

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
    fn fill(&self, wanted: Option<u64>, upstream: &mut Upstream<'_, '_>) -> Result<Sorted> {
        let mut sorter = Sorter::new(wanted);
        let (mut buffer, mut key) = (Buffer::default(), Vec::new());
        while let Some(document) = upstream.read(&mut buffer)? {
            key.clear();
            self.pattern.key(document, &mut key)?;
            sorter.push(&key, document.as_bytes())?;
        }
        sorter.finish()
    }
}

struct Sorting {
    stage: Arc<Sort>,
    wanted: Option<u64>,
    sorted: Option<Sorted>,
}

impl Running for Sorting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let sorted = match &mut self.sorted {
            Some(sorted) => sorted,
            none => none.insert(self.stage.fill(self.wanted, upstream)?),
        };
        let Some(row) = sorted.next()? else {
            return Ok(false);
        };
        out.extend_from_slice(row.payload());
        Ok(true)
    }
}
