//! The leaves that give no rows: EOF, where bounds or a filter leave nothing to be found and where there is no collection, and
//! RECORD_STORE_FAST_COUNT, the collection's own count. `count` asks for that without a plan, so that it is there for explain
//! alone.

use quarry_bson::DocumentBuilder;

use super::node::{Leaf, PlanContext, PlanNode, Sink};
use super::shown::Shown;
use crate::error::Result;

/// A leaf without rows, by the name that explain prints.
pub struct NoRows(&'static str);

impl NoRows {
    /// Nothing can be found.
    pub const EOF: NoRows = NoRows("EOF");
    /// The collection knows its count.
    pub const RECORD_STORE_FAST_COUNT: NoRows = NoRows("RECORD_STORE_FAST_COUNT");
}

impl PlanNode for NoRows {
    fn next(&mut self, _: &PlanContext<'_>, _: &mut Sink<'_>) -> Result<bool> {
        Ok(false)
    }

    fn name(&self) -> &'static str {
        self.0
    }

    fn returned(&self) -> u64 {
        0
    }

    fn idle_steps(&self) -> Option<u64> {
        Some(0)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
    }

    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        visit(Leaf::Nothing);
    }
}
