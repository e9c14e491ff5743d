//! RECORD_STORE_FAST_COUNT: the collection's own count, for a count of everything. `count` asks for it without a plan, so that
//! the node is there for explain alone.

use quarry_bson::DocumentBuilder;

use super::node::{Leaf, PlanNode, Sink, View};
use super::shown::Shown;
use crate::error::Result;

/// A leaf that reads no records.
pub struct RecordStoreCount;

impl PlanNode for RecordStoreCount {
    fn next(&mut self, _: &View<'_>, _: &mut Sink<'_>) -> Result<bool> {
        Ok(false)
    }

    fn mark(&mut self) {}

    fn rewind(&mut self) {}

    fn input(&self) -> Option<&dyn PlanNode> {
        None
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        None
    }

    fn name(&self) -> &'static str {
        "RECORD_STORE_FAST_COUNT"
    }

    fn returned(&self) -> u64 {
        0
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Nothing);
    }
}
