//! SUBPLAN: stands above the plan of a filter that is an `$or`, whose branches were planned one by one. It hands on what its
//! input gives.

use quarry_bson::DocumentBuilder;

use super::node::{Node, PlanContext, PlanNode, Sink};
use super::shown::Shown;
use crate::error::Result;

/// The sign that branches were planned one by one.
pub struct Subplan {
    input: Node,
}

impl Subplan {
    /// Stands above `input`.
    pub fn new(input: Node) -> Subplan {
        Subplan { input }
    }
}

impl PlanNode for Subplan {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        self.input.next(context, sink)
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "SUBPLAN"
    }

    fn returned(&self) -> u64 {
        self.input.returned()
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
    }
}
