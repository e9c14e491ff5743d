//! COUNT: counts the rows of its input and gives none.

use quarry_bson::DocumentBuilder;

use super::node::{Flow, Node, PlanContext, PlanNode, Sink};
use super::shown::{Shown, number};
use crate::error::Result;

/// Counts behind the first rows, up to a limit.
pub struct Count {
    input: Node,
    skip: u64,
    limit: u64,
    found: u64,
}

impl Count {
    /// Counts what `input` gives.
    pub fn new(input: Node, skip: u64, limit: Option<u64>) -> Count {
        Count {
            input,
            skip,
            limit: limit.unwrap_or(u64::MAX),
            found: 0,
        }
    }

    /// How many rows there were behind those left out.
    pub fn counted(&self) -> u64 {
        self.found.saturating_sub(self.skip)
    }
}

impl PlanNode for Count {
    fn next(&mut self, context: &PlanContext<'_>, _: &mut Sink<'_>) -> Result<bool> {
        let enough = self.skip.saturating_add(self.limit);
        let found = &mut self.found;
        self.input.next(context, &mut |_| {
            *found += 1;
            Ok(match *found >= enough {
                true => Flow::Stop,
                false => Flow::Continue,
            })
        })?;
        Ok(false)
    }

    fn mark(&mut self) {}

    fn rewind(&mut self) {
        debug_assert!(false, "a count is not given in parts");
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "COUNT"
    }

    fn returned(&self) -> u64 {
        0
    }

    fn exhausts_inputs(&self) -> bool {
        self.found < self.skip.saturating_add(self.limit)
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
        if shown.counts {
            out.append("nCounted", number(self.counted()));
            out.append("nSkipped", number(self.found.min(self.skip)));
        }
    }
}
