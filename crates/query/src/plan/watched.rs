//! A watch over a plan that rests on a remembered trial. Values that share a shape can lead to a few documents or to half of the
//! collection: where a plan costs far more than the trial did, the choice is given up, and the next query of its shape is tried anew.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::DocumentBuilder;
use quarry_database::PlanChoices;

use super::node::{Node, PlanContext, PlanNode, Sink};
use super::shown::Shown;
use crate::error::Result;

/// The choice that a plan rests on, and the cost at which it is given up.
#[derive(Clone)]
pub struct Watch {
    /// Where the choice stands.
    pub choices: Arc<PlanChoices>,
    /// The shape that it was made for.
    pub shape: u64,
    /// The place of the plan that was chosen.
    pub place: usize,
    /// The keys for one batch, at most.
    pub keys_max: u64,
    /// The rows of a batch, with which a trial ends.
    pub batch: u64,
}

/// Passes on what its input gives, and counts what a first batch costs. Explain does not show it.
pub struct Watched {
    input: Node,
    /// None once it is decided whether the choice stands.
    watch: Option<Watch>,
    keys: u64,
    returned: u64,
}

impl Watched {
    /// Watches over `input`, which gives the documents that are found.
    pub fn new(input: Node, watch: Watch) -> Watched {
        debug_assert!(watch.batch > 0, "a trial ends with a row at least");
        Watched {
            input,
            watch: Some(watch),
            keys: 0,
            returned: 0,
        }
    }

    /// Decides about the choice, once there is enough to tell.
    fn decide(&mut self) {
        let Some(watch) = &self.watch else {
            return;
        };
        let batches = (self.returned / watch.batch).max(1);
        if self.keys > watch.keys_max.saturating_mul(batches) {
            watch.choices.give_up(watch.shape, watch.place);
            self.watch = None;
        } else if self.returned >= watch.batch {
            self.watch = None;
        }
    }
}

impl PlanNode for Watched {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        if self.watch.is_none() || context.is_replay {
            return self.input.next(context, sink);
        }
        let examined = &context.operation.keys_examined;
        let before = examined.load(Relaxed);
        let returned = &mut self.returned;
        let more = self.input.next(context, &mut |row| {
            *returned += 1;
            sink(row)
        });
        self.keys += examined.load(Relaxed).saturating_sub(before);
        self.decide();
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
        self.input.returned()
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        self.input.describe(shown, out);
    }
}
