//! `$sort`: holds its input as sort key and document, on disk where memory is short, and hands it out in order; equal keys keep
//! their order.
//! Where a `$limit` follows, only as many documents are held as it takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};
use quarry_timing::{Phase, phase};

use super::execution::{RunningStage, Show, Upstream};
use super::fields_read::fields_kept_for;
use super::limit::results_wanted;
use super::stage::{Modifies, PartOfFind, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::fields_kept::FieldsKept;
use crate::metadata::{self, MetadataKinds};
use crate::sort::SortPattern;
use crate::sorter::{Sorted, Sorter};
use crate::spilling::{DiskUse, SORTS};

#[derive(Debug)]
struct Sort {
    specification: Document,
    pattern: SortPattern,
    disk_use: DiskUse,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let context = specification.context;
    let disk_use = context.disk_use();
    let RawValue::Document(specification) = specification.value else {
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
    Ok(one(Sort {
        specification: specification.to_owned_document(),
        pattern: SortPattern::parse_in(specification, context.collation())?,
        disk_use,
    }))
}

impl Stage for Sort {
    fn name(&self) -> &'static str {
        "$sort"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.document(self.name())
            .append("sortKey", self.specification.as_raw());
    }

    fn explain_limited(&self, wanted: u64, out: &mut DocumentBuilder<'_>) {
        let mut options = out.document(self.name());
        options.append("sortKey", self.specification.as_raw());
        options.append("limit", i64::try_from(wanted).unwrap_or(i64::MAX));
        options.finish();
    }

    fn modifies(&self) -> Modifies {
        Modifies::Nothing
    }

    fn metadata(&self) -> MetadataKinds {
        match self.pattern.is_by_score() {
            true => MetadataKinds::TEXT_SCORE,
            false => MetadataKinds::NONE,
        }
    }

    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::Sort(self.specification.as_raw(), &self.pattern)
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        for element in self.specification.as_raw() {
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

    fn start(self: Arc<Self>, following: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        let is_by_score = self.pattern.is_by_score();
        Box::new(Sorting {
            stage: self,
            wanted: results_wanted(following),
            // What comes with a score is attached to the document, beside its fields.
            kept: fields_kept_for(following).filter(|_| !is_by_score),
            sorted: None,
        })
    }
}

impl Sort {
    /// Reads all input; the rows come back in order, with the fields that are kept.
    fn fill(
        &self,
        wanted: Option<u64>,
        kept: Option<&FieldsKept>,
        upstream: &mut Upstream<'_, '_>,
    ) -> Result<Sorted> {
        let mut sorter = Sorter::new(&SORTS, wanted, self.disk_use);
        let (mut key, mut part) = (Vec::new(), Vec::new());
        let _scope = phase(Phase::Sort);
        upstream.each(&mut |document| {
            key.clear();
            self.pattern.key(document, &mut key)?;
            let Some(fields) = kept.filter(|_| sorter.takes(&key)) else {
                return sorter.push(&key, document.as_bytes());
            };
            part.clear();
            fields.keep(document, &mut part);
            sorter.push(&key, &part)
        })?;
        sorter.finish()
    }
}

struct Sorting {
    stage: Arc<Sort>,
    wanted: Option<u64>,
    /// The fields that the stages behind it read, if that is not all.
    kept: Option<FieldsKept>,
    sorted: Option<Sorted>,
}

impl Sorting {
    /// The rows, all of which are there once the first is asked for.
    fn rows(&mut self, upstream: &mut Upstream<'_, '_>) -> Result<&mut Sorted> {
        Ok(match &mut self.sorted {
            Some(sorted) => sorted,
            none => {
                let rows = self.stage.fill(self.wanted, self.kept.as_ref(), upstream)?;
                none.insert(rows)
            }
        })
    }
}

impl RunningStage for Sorting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(row) = self.rows(upstream)?.next()? else {
            return Ok(false);
        };
        match self.stage.pattern.is_by_score() {
            false => out.extend_from_slice(row.payload()),
            // Nobody else reads the score.
            true => {
                metadata::split(RawDocument::new(row.payload())?, out);
            }
        }
        Ok(true)
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        let is_by_score = self.stage.pattern.is_by_score();
        let sorted = self.rows(upstream)?;
        let mut document = Vec::new();
        while let Some(row) = sorted.next()? {
            let row = RawDocument::new(row.payload())?;
            if is_by_score {
                document.clear();
                metadata::split(row, &mut document);
                show(RawDocument::new(&document)?)?;
            } else {
                show(row)?;
            }
        }
        Ok(())
    }
}
