//! TEXT_OR: the records that have one of the terms of a search, each once and with its score, which is the sum of what its terms say.
//!
//! All keys of the terms are read before the first record is given, because any of them may add to its score. What is held are the
//! keys of records; the documents are read when they are given, those first that are most about what is searched for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::HashMap;
use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_timing::{Phase, phase};

use super::node::{Flow, PlanContext, PlanNode, Row, Sink};
use super::shown::{Shown, number};
use super::term_scan::{TermScan, only_term, several_terms};
use super::text_match::bound;
use crate::error::Result;
use crate::exec::stored;
use crate::memory::Charge;
use crate::sorter::sort_in_steps;

/// The bytes of a found record beside its key, in the table or in the list, and of the allocator.
const RECORD_BYTES: usize = 96;

/// The score of the row that a TEXT_OR gives, for a node above that attaches it. Rows that another node gives have none, which is kept as
/// what is no number.
#[derive(Debug, Clone, Default)]
pub struct RowScore(Arc<AtomicU64>);

impl RowScore {
    fn set(&self, score: f64) {
        self.0.store(score.to_bits(), Relaxed);
    }

    /// The rows that follow have no score.
    pub fn clear(&self) {
        self.set(f64::NAN);
    }

    /// The score of the row that was given last.
    pub fn get(&self) -> Option<f64> {
        let score = f64::from_bits(self.0.load(Relaxed));
        (!score.is_nan()).then_some(score)
    }
}

impl PartialEq for RowScore {
    fn eq(&self, other: &RowScore) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

struct Found {
    score: f64,
    record: Box<[u8]>,
}

/// A search by scores.
pub struct TextOr {
    inputs: Vec<TermScan>,
    score: RowScore,
    /// The records that were found and not given yet, the best last; none before the keys were read.
    found: Option<Vec<Found>>,
    held: Charge,
    /// The records were found in an earlier call, since which they may have changed.
    is_stale: bool,
    returned: u64,
    docs_examined: u64,
}

impl TextOr {
    /// The records of these scans. `score` has the score of each row while it is given.
    pub fn new(inputs: Vec<TermScan>, score: RowScore) -> TextOr {
        TextOr {
            inputs,
            score,
            found: None,
            held: Charge::default(),
            is_stale: false,
            returned: 0,
            docs_examined: 0,
        }
    }

    fn find(&mut self, context: &PlanContext<'_>) -> Result<Vec<Found>> {
        let mut scores: HashMap<Box<[u8]>, f64> = HashMap::new();
        let held = &mut self.held;
        for input in &mut self.inputs {
            input.read(context, &mut |entry| {
                if let Some(score) = scores.get_mut(entry.record) {
                    *score += entry.score;
                    return Ok(Flow::Continue);
                }
                held.grow(RECORD_BYTES + entry.record.len())?;
                scores.insert(entry.record.into(), entry.score);
                Ok(Flow::Continue)
            })?;
        }
        let found = scores.into_iter();
        let mut found: Vec<Found> = found
            .map(|(record, score)| Found { score, record })
            .collect();
        sort_in_steps(&mut found, |a, b| {
            let by_score = a.score.total_cmp(&b.score);
            by_score.then_with(|| b.record.cmp(&a.record))
        })?;
        Ok(found)
    }

    fn give(
        &mut self,
        context: &PlanContext<'_>,
        found: &Found,
        sink: &mut Sink<'_>,
    ) -> Result<Flow> {
        let (is_stale, docs_examined) = (self.is_stale, &mut self.docs_examined);
        let returned = &mut self.returned;
        let mut flow = Ok(Flow::Continue);
        let _scope = phase(Phase::EngineRead);
        context.snapshot.get(&found.record, &mut |bytes| {
            *docs_examined += 1;
            flow = stored(RawDocument::new(bytes)).and_then(|document| {
                if is_stale && !bound(context)?.takes(document)? {
                    return Ok(Flow::Continue);
                }
                *returned += 1;
                sink(&Row {
                    record: &found.record,
                    document: Some(document),
                })
            });
        })?;
        flow
    }
}

impl PlanNode for TextOr {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let mut list = match self.found.take() {
            Some(list) => list,
            None => self.find(context)?,
        };
        let before = self.docs_examined;
        let mut outcome = Ok(Flow::Continue);
        // A row is taken from the list only where it is still wanted.
        while matches!(outcome, Ok(Flow::Continue)) {
            let Some(found) = list.pop() else {
                break;
            };
            self.held.shrink(RECORD_BYTES + found.record.len());
            self.score.set(found.score);
            outcome = self.give(context, &found, sink);
        }
        let examined = self.docs_examined - before;
        context.operation.count_examined(0, examined);
        self.found = Some(list);
        self.is_stale = true;
        Ok(outcome? == Flow::Stop)
    }

    fn mark(&mut self) {}

    /// A search that has begun stays where it is: whoever read ahead of it keeps the rows.
    fn rewind(&mut self) {
        debug_assert!(self.found.is_none(), "a search does not go back");
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        only_term(&self.inputs)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        None
    }

    fn inputs(&self) -> Vec<&dyn PlanNode> {
        several_terms(&self.inputs)
    }

    fn name(&self) -> &'static str {
        "TEXT_OR"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    /// It takes all rows in before it gives the first one.
    fn idle_steps(&self) -> Option<u64> {
        Some(self.inputs.iter().map(PlanNode::returned).sum())
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned, out);
        if shown.counts {
            out.append("docsExamined", number(self.docs_examined));
        }
    }

    fn holds_rows(&self) -> bool {
        self.found.is_some()
    }
}
