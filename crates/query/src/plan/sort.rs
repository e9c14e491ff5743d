//! SORT: all rows of its input, held in memory or in files and given in an order.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Node, PlanContext, PlanNode, Row, Sink};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::stored;
use crate::field_path::FieldPath;
use crate::fields_kept::FieldsKept;
use crate::interrupts::{self, units_of_search};
use crate::sorter::{Sorted, Sorter, UNITS_OF_A_ROW};
use crate::spilling::SORTS;

/// The part of a row that is held while it waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The document, for who reads it.
    Document,
    /// The record's key, for who changes the record.
    Record,
}

/// A sort in memory by the order that is asked for.
pub struct Sort {
    input: Node,
    kept: Kept,
    /// The first so many rows are wanted.
    limit: Option<u64>,
    /// The fields of the documents that are read above, if that is not all.
    fields: Option<FieldsKept>,
    sorted: Option<Sorted>,
    returned: u64,
}

impl Sort {
    /// Sorts what `input` gives.
    pub fn new(input: Node, kept: Kept, limit: Option<u64>) -> Sort {
        Sort {
            input,
            kept,
            limit,
            fields: None,
            sorted: None,
            returned: 0,
        }
    }

    /// Has it hold no other fields than those that these paths begin with, if they are given.
    pub fn of_fields(mut self, read: Option<&[FieldPath]>) -> Sort {
        self.fields = read.map(|paths| FieldsKept::new(paths.iter().map(FieldPath::first)));
        self
    }

    fn sort(&mut self, context: &PlanContext<'_>) -> Result<Sorted> {
        let mut sorter = Sorter::new(&SORTS, self.limit, context.parsed.disk_use);
        let (mut key, mut part) = (Vec::new(), Vec::new());
        let (kept, fields) = (self.kept, self.fields.as_ref());
        self.input.next(context, &mut |row| {
            let _scope = phase(Phase::Sort);
            let document = row.document.unwrap_or(RawDocument::EMPTY);
            key.clear();
            if let Some(sort) = &context.parsed.sort {
                sort.key(document, &mut key)?;
            }
            if !sorter.takes(&key) {
                interrupts::work(UNITS_OF_A_ROW)?;
                return Ok(Flow::Continue);
            }
            let payload = match (kept, fields) {
                (Kept::Record, _) => row.record,
                (Kept::Document, None) => document.as_bytes(),
                (Kept::Document, Some(fields)) => {
                    interrupts::work(units_of_search(document))?;
                    part.clear();
                    fields.keep(document, &mut part);
                    &part
                }
            };
            sorter.push(&key, payload)?;
            Ok(Flow::Continue)
        })?;
        let _scope = phase(Phase::Sort);
        sorter.finish()
    }
}

impl PlanNode for Sort {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        if self.sorted.is_none() {
            self.sorted = Some(self.sort(context)?);
        }
        let Some(sorted) = &mut self.sorted else {
            return Ok(false);
        };
        while let Some(held) = sorted.next()? {
            let row = match self.kept {
                Kept::Document => Row {
                    record: &[],
                    document: Some(stored(RawDocument::new(held.payload()))?),
                },
                Kept::Record => Row {
                    record: held.payload(),
                    document: None,
                },
            };
            self.returned += 1;
            if sink(&row)? == Flow::Stop {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mark(&mut self) {
        debug_assert!(self.sorted.is_none() || self.holds_rows());
    }

    /// Rows that were given are gone: who holds a tree with sorted rows keeps what it was given.
    fn rewind(&mut self) {
        debug_assert!(self.sorted.is_none(), "sorted rows cannot be given again");
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "SORT"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    /// It takes all rows in before it gives the first one.
    fn idle_steps(&self) -> Option<u64> {
        Some(self.input.returned())
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if let Some(sort) = shown.sort {
            out.append("sortPattern", sort);
        }
        out.append("memLimit", SORTS.memory.get());
        if let Some(limit) = self.limit {
            out.append("limitAmount", number(limit));
        }
        shown.returned(self.returned(), out);
        if shown.counts {
            let spilled = self.sorted.as_ref().and_then(Sorted::spilled);
            let counts = spilled.copied().unwrap_or_default();
            out.append("usedDisk", spilled.is_some());
            out.append("spills", number(counts.spills));
            out.append("spilledRecords", number(counts.records));
            out.append("spilledBytes", number(counts.bytes));
            out.append("spilledDataStorageSize", number(counts.stored_bytes));
        }
    }

    fn holds_rows(&self) -> bool {
        self.sorted.is_some()
    }
}
