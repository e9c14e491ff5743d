//! UPDATE and DELETE as explain runs them: the documents are found and, for an update, made, and nothing is written.

use quarry_bson::{DateTime, DocumentBuilder, RawDocument};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Node, PlanContext, PlanNode, Sink};
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
    /// Whether the document is given to whoever reads, as findAndModify does.
    gives_document: bool,
    /// Whether a document is inserted where none matches.
    is_upsert: bool,
    matched: u64,
    would_modify: u64,
    would_upsert: u64,
    returned: u64,
}

impl Write {
    /// An update of what `input` gives.
    pub fn update(input: Node, update: Update, is_multi: bool, is_upsert: bool) -> Write {
        Write {
            update: Some(update),
            is_upsert,
            ..Write::delete(input, is_multi)
        }
    }

    /// Has the node give the documents, too.
    pub fn giving_documents(mut self, gives_document: bool) -> Write {
        self.gives_document = gives_document;
        self
    }

    /// A delete of what `input` gives.
    pub fn delete(input: Node, is_multi: bool) -> Write {
        Write {
            input,
            update: None,
            is_multi,
            gives_document: false,
            is_upsert: false,
            matched: 0,
            would_modify: 0,
            would_upsert: 0,
            returned: 0,
        }
    }
}

/// Whether the update changes the document. Makes the new one, as the write would.
fn changes(update: &Update, context: &PlanContext<'_>, document: RawDocument<'_>) -> Result<bool> {
    let _splice = phase(Phase::Splice);
    let details = match update.uses_matched_element() {
        true => context.parsed.matcher.try_match_details(document)?,
        false => None,
    };
    let details = details.unwrap_or_else(MatchDetails::default);
    let mut changed = Vec::new();
    let now = DateTime::now().0;
    let outcome = update.apply(document, &details, false, now, &mut changed)?;
    Ok(outcome.modified)
}

impl PlanNode for Write {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let Write {
            input,
            update,
            is_multi,
            gives_document,
            is_upsert,
            matched,
            would_modify,
            would_upsert,
            returned,
        } = self;
        let more = input.next(context, &mut |row| {
            let document = row.document.unwrap_or(RawDocument::EMPTY);
            if let Some(update) = update {
                *would_modify += u64::from(changes(update, context, document)?);
            }
            *matched += 1;
            let flow = match *gives_document {
                true => {
                    *returned += 1;
                    sink(row)?
                }
                false => Flow::Continue,
            };
            match flow {
                Flow::Continue if *is_multi => Ok(Flow::Continue),
                _ => Ok(Flow::Stop),
            }
        })?;
        if *is_upsert && *matched == 0 && !more {
            *would_upsert = 1;
        }
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
        self.returned
    }

    fn exhausts_inputs(&self) -> bool {
        self.is_multi || self.matched == 0
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
        if shown.counts && self.update.is_some() {
            out.append("nMatched", number(self.matched));
            out.append("nWouldModify", number(self.would_modify));
            out.append("nWouldUpsert", number(self.would_upsert));
        } else if shown.counts {
            out.append("nWouldDelete", number(self.matched));
        }
    }
}
