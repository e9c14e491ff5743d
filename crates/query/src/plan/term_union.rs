//! OR of a text index: the records of several terms, one term after the other, each record once.
//!
//! What was met is remembered. A read that can remember no more asks the document itself which of the terms it has: a record is
//! given under the first of them. A change that moves records along the index has to remember all of them, and fails where it
//! cannot.

use quarry_bson::{DocumentBuilder, RawDocument};

use super::node::{Flow, PlanContext, PlanNode, Purpose, Row, Sink};
use super::seen_records::{Met, SEEN_BYTES_MAX, SEEN_BYTES_MAX_OF_UNIONS, SeenRecords};
use super::shown::Shown;
use super::term_scan::{TermScan, only_term, several_terms};
use super::text_match::bound;
use crate::error::Result;
use crate::exec::{memory_exceeded, stored};

/// A union of the scans of terms, which stand in the order of the terms.
pub struct TermUnion {
    inputs: Vec<TermScan>,
    at: usize,
    marked: usize,
    seen: Box<SeenRecords>,
    purpose: Purpose,
    returned: u64,
}

impl TermUnion {
    /// The union of the scans.
    pub fn new(inputs: Vec<TermScan>) -> TermUnion {
        TermUnion {
            inputs,
            at: 0,
            marked: 0,
            seen: Box::default(),
            purpose: Purpose::Read,
            returned: 0,
        }
    }

    fn next_of_input(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let TermUnion {
            inputs,
            at,
            seen,
            purpose,
            returned,
            ..
        } = self;
        let bytes_max = match purpose {
            Purpose::Read => SEEN_BYTES_MAX_OF_UNIONS,
            _ => SEEN_BYTES_MAX,
        };
        let (number, is_one) = (*at, inputs.len() == 1);
        // A term meets a record once, unless that moves meanwhile.
        let remembers = !is_one || *purpose == Purpose::Move;
        inputs[number].read(context, &mut |entry| {
            if remembers {
                match seen.meet(entry.record, bytes_max)? {
                    Met::New => {}
                    Met::Before => return Ok(Flow::Continue),
                    Met::TooMany => match purpose {
                        // What is deleted in pieces is not met in a later one.
                        Purpose::Delete => {
                            seen.forget();
                            seen.meet(entry.record, bytes_max)?;
                        }
                        Purpose::Move => {
                            return Err(memory_exceeded(
                                "a change of what is searched for",
                                bytes_max,
                            ));
                        }
                        Purpose::Read | Purpose::ChangeInPlace => {
                            if !is_first(context, entry.record, number)? {
                                return Ok(Flow::Continue);
                            }
                        }
                    },
                }
            }
            *returned += 1;
            sink(&Row {
                record: entry.record,
                document: None,
            })
        })
    }
}

/// Whether the record's document has the search's term of that number, and none before it.
#[cold]
fn is_first(context: &PlanContext<'_>, record: &[u8], number: usize) -> Result<bool> {
    let search = bound(context)?;
    let mut first = Ok(None);
    context.snapshot.get(record, &mut |bytes| {
        let document = stored(RawDocument::new(bytes));
        first = document.and_then(|document| search.first_key(document));
    })?;
    Ok(first?.is_some_and(|first| {
        search
            .search
            .keys
            .iter()
            .nth(number)
            .is_some_and(|key| key == first)
    }))
}

impl PlanNode for TermUnion {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        if self.purpose == Purpose::Delete {
            self.seen.forget();
        }
        while self.at < self.inputs.len() {
            if self.next_of_input(context, sink)? {
                return Ok(true);
            }
            self.at += 1;
            if let Some(input) = self.inputs.get_mut(self.at) {
                input.mark();
            }
        }
        Ok(false)
    }

    fn mark(&mut self) {
        self.marked = self.at;
        self.seen.mark();
        if let Some(input) = self.inputs.get_mut(self.at) {
            input.mark();
        }
    }

    fn rewind(&mut self) {
        self.seen.rewind();
        // Inputs behind the marked one were marked when they began.
        let end = (self.at + 1).min(self.inputs.len());
        for input in &mut self.inputs[self.marked.min(end)..end] {
            input.rewind();
        }
        self.at = self.marked;
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

    /// The name of a union; a single term has none, and explain shows its scan alone.
    fn name(&self) -> &'static str {
        match self.inputs.len() {
            1 => "",
            _ => "OR",
        }
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned, out);
    }

    fn set_purpose(&mut self, purpose: Purpose) {
        self.purpose = purpose;
    }
}
