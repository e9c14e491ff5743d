//! EOF: gives nothing, where bounds or a filter leave nothing to be found, and where there is no collection.

use quarry_bson::DocumentBuilder;

use super::node::{Leaf, PlanNode, Sink, View};
use super::shown::Shown;
use crate::error::Result;

/// A leaf without rows.
pub struct Eof;

impl PlanNode for Eof {
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
        "EOF"
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
