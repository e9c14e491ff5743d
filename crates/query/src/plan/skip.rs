//! SKIP: leaves out the first rows of its input.

use quarry_bson::DocumentBuilder;

use super::node::{Flow, Node, PlanContext, PlanNode, Sink};
use super::shown::{Shown, number};
use crate::error::Result;

/// Leaves out so many rows.
pub struct Skip {
    input: Node,
    amount: u64,
    left: u64,
    marked: u64,
    returned: u64,
}

impl Skip {
    /// Leaves out the first `amount` rows of `input`.
    pub fn new(input: Node, amount: u64) -> Skip {
        Skip {
            input,
            amount,
            left: amount,
            marked: amount,
            returned: 0,
        }
    }
}

impl PlanNode for Skip {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let (left, returned) = (&mut self.left, &mut self.returned);
        self.input.next(context, &mut |row| {
            if *left > 0 {
                *left -= 1;
                return Ok(Flow::Continue);
            }
            *returned += 1;
            sink(row)
        })
    }

    fn mark(&mut self) {
        self.marked = self.left;
        self.input.mark();
    }

    fn rewind(&mut self) {
        self.left = self.marked;
        self.input.rewind();
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "SKIP"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        out.append("skipAmount", number(self.amount));
        shown.returned(self.returned(), out);
    }
}
