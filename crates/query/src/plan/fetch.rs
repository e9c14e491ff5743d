//! FETCH: the documents of records, and whether they match.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Node, PlanContext, PlanNode, Row, Sink};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::exec::stored;

/// Gets documents that the node below has not read already, and asks the filter of them all.
pub struct Fetch {
    input: Node,
    /// Not everything that the keys lead to matches.
    asks_filter: bool,
    /// The node below has answered each `$text` of the filter.
    trusts_texts: bool,
    returned: u64,
    docs_examined: u64,
}

impl Fetch {
    /// Gets the documents of the records that `input` gives.
    pub fn new(input: Node, asks_filter: bool) -> Fetch {
        Fetch {
            input,
            asks_filter,
            trusts_texts: false,
            returned: 0,
            docs_examined: 0,
        }
    }

    /// Asks of the documents that `input` gives what the filter says beside its `$text`.
    pub fn beside_texts(input: Node) -> Fetch {
        Fetch {
            trusts_texts: true,
            ..Fetch::new(input, true)
        }
    }
}

impl PlanNode for Fetch {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let Fetch {
            input,
            asks_filter,
            trusts_texts,
            returned,
            docs_examined,
        } = self;
        let before = *docs_examined;
        let mut pass = |record: &[u8], document: RawDocument<'_>| {
            let matches = match (*asks_filter, *trusts_texts) {
                (false, _) => true,
                (true, false) => context.parsed.matches(document)?,
                (true, true) => context.parsed.matches_beside_texts(document)?,
            };
            if !matches {
                return Ok(Flow::Continue);
            }
            *returned += 1;
            sink(&Row {
                record,
                document: Some(document),
            })
        };
        let outcome = input.next(context, &mut |row| {
            if let Some(document) = row.document {
                *docs_examined += 1;
                return pass(row.record, document);
            }
            let mut flow = Ok(Flow::Continue);
            let _scope = phase(Phase::EngineRead);
            let found = context.snapshot.get(row.record, &mut |bytes| {
                let document = stored(RawDocument::new(bytes));
                flow = document.and_then(|document| pass(row.record, document));
            })?;
            *docs_examined += u64::from(found);
            flow
        });
        let examined = self.docs_examined - before;
        context.operation.count_examined(0, examined);
        outcome
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "FETCH"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if self.asks_filter {
            shown.filter(out);
        }
        shown.returned(self.returned(), out);
        if shown.counts {
            out.append("docsExamined", number(self.docs_examined));
        }
    }
}
