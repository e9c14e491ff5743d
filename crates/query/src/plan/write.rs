//! UPDATE and DELETE as explain runs them: the documents are found and, for an update, made, and nothing is written.

use quarry_bson::{DateTime, DocumentBuilder, RawDocument};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Node, PlanNode, Sink, View};
use super::shown::{Shown, number};
use crate::error::Result;
use crate::matcher::MatchDetails;
use crate::update::Update;

/// A write that is not carried out.
pub struct Write {
    input: Node,
    /// None for a delete.
    update: Option<Update>,
    /// Whether all rows are meant, and not only the first.
    is_multi: bool,
    matched: u64,
    would_modify: u64,
}

impl Write {
    /// An update of what `input` gives.
    pub fn update(input: Node, update: Update, is_multi: bool) -> Write {
        Write {
            update: Some(update),
            ..Write::delete(input, is_multi)
        }
    }

    /// A delete of what `input` gives.
    pub fn delete(input: Node, is_multi: bool) -> Write {
        Write {
            input,
            update: None,
            is_multi,
            matched: 0,
            would_modify: 0,
        }
    }
}

/// Whether the update changes the document. Makes the new one, as the write would.
fn changes(update: &Update, view: &View<'_>, document: RawDocument<'_>) -> Result<bool> {
    let _splice = phase(Phase::Splice);
    let details = match update.uses_matched_element() {
        true => view.parsed.matcher.try_match_details(document)?,
        false => None,
    };
    let details = details.unwrap_or_else(MatchDetails::default);
    let mut changed = Vec::new();
    let now = DateTime::now().0;
    let outcome = update.apply(document, &details, false, now, &mut changed)?;
    Ok(outcome.modified)
}

impl PlanNode for Write {
    fn next(&mut self, view: &View<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let Write {
            input,
            update,
            is_multi,
            matched,
            would_modify,
        } = self;
        let more = input.next(view, &mut |row| {
            let document = row.document.unwrap_or(RawDocument::EMPTY);
            if let Some(update) = update {
                *would_modify += u64::from(changes(update, view, document)?);
            }
            *matched += 1;
            match sink(row)? {
                Flow::Continue if *is_multi => Ok(Flow::Continue),
                _ => Ok(Flow::Stop),
            }
        })?;
        Ok(more && self.is_multi)
    }

    fn mark(&mut self) {}

    fn rewind(&mut self) {
        debug_assert!(false, "a write is not taken back");
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        match self.update {
            Some(_) => "UPDATE",
            None => "DELETE",
        }
    }

    fn returned(&self) -> u64 {
        self.matched
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if shown.counts && self.update.is_some() {
            out.append("nMatched", number(self.matched));
            out.append("nWouldModify", number(self.would_modify));
        } else if shown.counts {
            out.append("nWouldDelete", number(self.matched));
        }
        shown.returned(self.returned(), out);
    }
}
