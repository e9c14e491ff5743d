//! TEXT_MATCH: whether documents that have one of the terms of a search have the rest of what it asks: phrases, and no negated
//! terms. The keys of the index know neither phrases nor differences in case and diacritics.

use quarry_bson::{Document, DocumentBuilder, RawDocument};

use super::node::{Flow, Node, PlanContext, PlanNode, Sink};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::matcher::{BoundText, no_text_index};

/// Holds documents against a search.
pub struct TextMatch {
    input: Node,
    /// The search as explain prints it.
    shown: Document,
    returned: u64,
    rejected: u64,
}

impl TextMatch {
    /// Holds what `input` gives against the filter's search. `shown` is what explain prints of that.
    pub fn new(input: Node, shown: Document) -> TextMatch {
        TextMatch {
            input,
            shown,
            returned: 0,
            rejected: 0,
        }
    }
}

/// The search of the filter that a tree is run for.
pub fn bound<'v>(context: &PlanContext<'v>) -> Result<&'v BoundText> {
    let text = context.parsed.matcher.root().text();
    text.and_then(|text| text.bound()).ok_or_else(no_text_index)
}

impl PlanNode for TextMatch {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let search = bound(context)?;
        let (returned, rejected) = (&mut self.returned, &mut self.rejected);
        self.input.next(context, &mut |row| {
            let document = row.document.unwrap_or(RawDocument::EMPTY);
            if !search.takes_found(document)? {
                *rejected += 1;
                return Ok(Flow::Continue);
            }
            *returned += 1;
            sink(row)
        })
    }

    fn mark(&mut self) {
        self.input.mark();
    }

    fn rewind(&mut self) {
        self.input.rewind();
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "TEXT_MATCH"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned, out);
        for element in self.shown.as_raw() {
            out.append_element(element);
        }
        if shown.counts {
            out.append("docsRejected", number(self.rejected));
        }
    }
}
