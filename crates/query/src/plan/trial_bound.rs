//! The bound of a trial: a node between the keys of an index and their documents that ends a run after so many keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quarry_bson::DocumentBuilder;

use super::node::{Flow, Node, PlanContext, PlanNode, Sink};
use super::shown::Shown;
use crate::error::Result;

/// Passes on what its input gives, as long as its allowance lasts. Stands in trees that are tried, never in those that are run.
pub struct TrialBound {
    input: Node,
    allowance: Arc<AtomicU64>,
    returned: u64,
}

impl TrialBound {
    /// Bounds the rows of `input`. Whoever tries the tree gives the allowance, again and again as it sees fit.
    pub fn new(input: Node, allowance: Arc<AtomicU64>) -> TrialBound {
        TrialBound {
            input,
            allowance,
            returned: 0,
        }
    }
}

impl PlanNode for TrialBound {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let mut left = self.allowance.load(Relaxed);
        if left == 0 {
            return Ok(true);
        }
        let returned = &mut self.returned;
        let more = self.input.next(context, &mut |row| {
            left -= 1;
            *returned += 1;
            match sink(row)? {
                Flow::Continue if left == 0 => Ok(Flow::Stop),
                flow => Ok(flow),
            }
        });
        self.allowance.store(left, Relaxed);
        more
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        ""
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned, out);
    }
}
