//! OR: the records of several inputs, one input after the other, each record once.
//!
//! What was met is remembered. A read that can remember no more goes on over the whole collection for what it has not met;
//! its rows then come with their documents, and the FETCH above asks the filter of them.

use quarry_bson::DocumentBuilder;

use super::collection_scan::CollectionScan;
use super::node::{Flow, Node, PlanContext, PlanNode, Purpose, Row, Sink};
use super::seen_records::{Met, SEEN_BYTES_MAX, SEEN_BYTES_MAX_OF_UNIONS, SeenRecords};
use super::shown::Shown;
use super::text_or::RowScore;
use crate::error::Result;
use crate::exec::memory_exceeded;

/// A union of inputs, which may give records again.
pub struct Or {
    inputs: Vec<Node>,
    /// The input that is read.
    at: usize,
    marked: usize,
    seen: Box<SeenRecords>,
    purpose: Purpose,
    /// It could remember no more, and who changes what it gives has to look at the whole collection.
    is_full: bool,
    /// Reads what was not met, once no more can be remembered, and holds what was.
    others: Option<Box<CollectionScan>>,
    was_at_others: bool,
    /// The score of the rows of the first input; the others' have none.
    score: Option<RowScore>,
    returned: u64,
}

impl Or {
    /// The union of the inputs.
    pub fn new(inputs: Vec<Node>) -> Or {
        Or {
            inputs,
            at: 0,
            marked: 0,
            seen: Box::default(),
            purpose: Purpose::Read,
            is_full: false,
            others: None,
            was_at_others: false,
            score: None,
            returned: 0,
        }
    }

    /// Like `new`, where the first input gives its rows scores, and no other input does.
    pub fn by_scores(inputs: Vec<Node>, score: RowScore) -> Or {
        Or {
            score: Some(score),
            ..Or::new(inputs)
        }
    }

    /// Reads on in the input that is read; says whether there may be more in it.
    fn next_of_input(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let Or {
            inputs,
            at,
            seen,
            purpose,
            is_full,
            score,
            returned,
            ..
        } = self;
        let has_scores = score.is_some() && *at == 0;
        if let Some(score) = score.as_ref().filter(|_| !has_scores) {
            score.clear();
        }
        let bytes_max = match purpose {
            Purpose::Read => SEEN_BYTES_MAX_OF_UNIONS,
            _ => SEEN_BYTES_MAX,
        };
        inputs[*at].next(context, &mut |row: &Row<'_>| {
            let met = match seen.meet(row.record, bytes_max)? {
                // What is deleted in pieces is not met in a later one.
                Met::TooMany if *purpose == Purpose::Delete => {
                    seen.forget();
                    seen.meet(row.record, bytes_max)?
                }
                met => met,
            };
            match met {
                Met::New => {
                    *returned += 1;
                    sink(row)
                }
                Met::Before => Ok(Flow::Continue),
                // The whole collection has the rows that are left, without their scores.
                Met::TooMany if has_scores => Err(memory_exceeded(
                    "a $text by scores within an $or",
                    bytes_max,
                )),
                Met::TooMany => {
                    *is_full = true;
                    Ok(Flow::Stop)
                }
            }
        })
    }
}

impl PlanNode for Or {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        if self.purpose == Purpose::Delete {
            self.seen.forget();
        }
        while self.others.is_none() {
            if self.at == self.inputs.len() {
                return Ok(false);
            }
            let more = self.next_of_input(context, sink)?;
            if self.is_full && self.purpose == Purpose::Read {
                let met = std::mem::take(&mut self.seen);
                let others = CollectionScan::of_others(&context.snapshot.collection, met);
                self.others = Some(Box::new(others));
                break;
            }
            if more {
                return Ok(true);
            }
            self.at += 1;
            if let Some(input) = self.inputs.get_mut(self.at) {
                input.mark();
            }
        }
        let Some(others) = &mut self.others else {
            return Ok(false);
        };
        if let Some(score) = &self.score {
            score.clear();
        }
        let returned = &mut self.returned;
        others.next(context, &mut |row| {
            *returned += 1;
            sink(row)
        })
    }

    fn mark(&mut self) {
        self.was_at_others = self.others.is_some();
        if let Some(others) = &mut self.others {
            others.mark();
            return;
        }
        self.marked = self.at;
        self.seen.mark();
        if let Some(input) = self.inputs.get_mut(self.at) {
            input.mark();
        }
    }

    fn rewind(&mut self) {
        if self.was_at_others {
            if let Some(others) = &mut self.others {
                others.rewind();
            }
            return;
        }
        if let Some(met) = self.others.take().and_then(|others| others.into_met()) {
            self.seen = met;
            self.is_full = false;
        }
        self.seen.rewind();
        // Inputs behind the marked one were marked when they began.
        let last = self.at.min(self.inputs.len().saturating_sub(1));
        for input in &mut self.inputs[self.marked..=last] {
            input.rewind();
        }
        self.at = self.marked;
    }

    fn inputs(&self) -> Vec<&dyn PlanNode> {
        self.inputs
            .iter()
            .map(|input| &**input as &dyn PlanNode)
            .collect()
    }

    fn name(&self) -> &'static str {
        "OR"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
    }

    fn set_purpose(&mut self, purpose: Purpose) {
        self.purpose = purpose;
    }

    fn holds_rows(&self) -> bool {
        self.inputs.iter().any(|input| input.holds_rows())
    }

    fn take_full(&mut self) -> Option<Box<SeenRecords>> {
        self.is_full.then(|| std::mem::take(&mut self.seen))
    }
}
