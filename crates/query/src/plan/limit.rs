//! LIMIT: gives the first rows of its input and then ends.

use quarry_bson::DocumentBuilder;

use super::node::{Flow, Node, PlanContext, PlanNode, Sink};
use super::shown::{Shown, number};
use crate::error::Result;

/// Gives so many rows at most.
pub struct Limit {
    input: Node,
    amount: u64,
    left: u64,
    marked: u64,
    returned: u64,
}

impl Limit {
    /// Gives the first `amount` rows of `input`.
    pub fn new(input: Node, amount: u64) -> Limit {
        Limit {
            input,
            amount,
            left: amount,
            marked: amount,
            returned: 0,
        }
    }
}

impl PlanNode for Limit {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let (left, returned) = (&mut self.left, &mut self.returned);
        let more = self.input.next(context, &mut |row| {
            *left -= 1;
            *returned += 1;
            match sink(row)? {
                // The input is not moved behind the last row.
                Flow::Continue if *left == 0 => Ok(Flow::Stop),
                flow => Ok(flow),
            }
        })?;
        Ok(more && self.left > 0)
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
        "LIMIT"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    /// The input is not moved behind the last row.
    fn exhausts_inputs(&self) -> bool {
        self.left > 0
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        out.append("limitAmount", number(self.amount));
        shown.returned(self.returned(), out);
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.input.is_over()
    }
}
