//! IDHACK: the one record of a clustered collection with an `_id`, by a get.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Leaf, PlanContext, PlanNode, Row, Sink};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::stored;

/// A get of one record, whose filter is its `_id` and nothing else.
pub struct IdHack {
    record: Vec<u8>,
    is_done: bool,
    was_done: bool,
    returned: u64,
}

impl IdHack {
    /// Gets the record with this key.
    pub fn new(record: Vec<u8>) -> IdHack {
        IdHack {
            record,
            is_done: false,
            was_done: false,
            returned: 0,
        }
    }
}

impl PlanNode for IdHack {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(false);
        }
        let _scope = phase(Phase::EngineRead);
        let mut outcome = Ok(Flow::Continue);
        let found = context.snapshot.get(&self.record, &mut |bytes| {
            let document = stored(RawDocument::new(bytes));
            outcome = document.and_then(|document| {
                sink(&Row {
                    record: &self.record,
                    document: Some(document),
                })
            });
        })?;
        if found {
            self.returned += 1;
            context.operation.count_examined(1, 1);
        }
        outcome.map(|_| false)
    }

    fn mark(&mut self) {
        self.was_done = self.is_done;
    }

    fn rewind(&mut self) {
        self.is_done = self.was_done;
    }

    fn name(&self) -> &'static str {
        "IDHACK"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn idle_steps(&self) -> Option<u64> {
        Some(0)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
        if shown.counts {
            out.append("keysExamined", number(self.returned));
            out.append("docsExamined", number(self.returned));
        }
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Id);
    }
}
