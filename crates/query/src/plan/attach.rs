//! Attaches metadata to documents, between the access that knows it and the nodes that sort and project (`crate::metadata`).
//!
//! Where the keys of an index are wanted, the scan below gives them in place of documents, and this node is the FETCH, too. Otherwise explain
//! does not print it.

use quarry_bson::{Document, DocumentBuilder, RawDocument};
use quarry_database::{CLUSTERED_INDEX, Collection};
use quarry_timing::{Phase, phase};

use super::node::{Flow, Node, PlanContext, PlanNode, Row, Sink};
use super::parsed::Parsed;
use super::shown::{Shown, number};
use super::text_or::RowScore;
use crate::error::Result;
use crate::exec::stored;
use crate::interrupts;
use crate::memory;
use crate::metadata::{self, INDEX_KEY, MetadataKinds, RECORD_ID, SORT_KEY, TEXT_SCORE};

/// Where the keys are by which documents were found.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySource {
    /// There are none: the documents were not found by one index.
    Nothing,
    /// The documents were found by `_id` among their records, which stand in its order.
    Id,
    /// The rows below have keys in place of documents, which are fetched.
    Rows {
        /// Not everything that the keys lead to matches.
        asks_filter: bool,
    },
    /// There are none, but rows that were found by a search for words have a score.
    Score(RowScore),
    /// Like `Rows`, but nobody reads the documents, and all of them match.
    KeysAlone,
}

/// Attaches metadata to the documents of its input.
pub struct Attach {
    input: Node,
    key: KeySource,
    kinds: MetadataKinds,
    attached: Vec<u8>,
    returned: u64,
    docs_examined: u64,
}

impl Attach {
    /// Attaches metadata of these kinds.
    pub fn new(input: Node, key: KeySource, kinds: MetadataKinds) -> Attach {
        Attach {
            input,
            key,
            kinds,
            attached: Vec::new(),
            returned: 0,
            docs_examined: 0,
        }
    }
}

/// The metadata of one document, to be appended.
struct Known<'k> {
    collection: &'k Collection,
    parsed: &'k Parsed,
    kinds: MetadataKinds,
    record: &'k [u8],
    key: Option<RawDocument<'k>>,
    score: Option<f64>,
}

impl Known<'_> {
    fn append(&self, document: RawDocument<'_>, out: &mut DocumentBuilder<'_>) -> Result<()> {
        if self.kinds.has(MetadataKinds::RECORD_ID) {
            let record = self.record.get(self.collection.prefix.as_bytes().len()..);
            out.append(
                RECORD_ID,
                self.collection.record_id(record.unwrap_or_default()),
            );
        }
        if let Some(key) = self.key {
            out.append(INDEX_KEY, key);
        }
        if let Some(score) = self.score {
            out.append(TEXT_SCORE, score);
        }
        if let (true, Some(sort)) = (self.kinds.has(MetadataKinds::SORT_KEY), &self.parsed.sort) {
            let values = sort.values(document)?;
            let mut shown = out.array(SORT_KEY);
            for (field, value) in sort.fields().iter().zip(values) {
                match self.score.filter(|_| field.is_score) {
                    Some(score) => shown.push(score),
                    None => shown.push(value),
                };
            }
            shown.finish();
        }
        Ok(())
    }
}

/// The key `{_id: ..}` of a document, which only a collection has that was not asked to be clustered.
fn id_key(collection: &Collection, document: RawDocument<'_>) -> Option<Document> {
    let is_shown_as_index = collection.options().get(CLUSTERED_INDEX).is_none();
    let id = document.get_element("_id").filter(|_| is_shown_as_index)?;
    Some(Document::build(|out| {
        out.append_element(id);
    }))
}

impl PlanNode for Attach {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let collection = &*context.snapshot.collection;
        let Attach {
            input,
            key,
            kinds,
            attached,
            returned,
            docs_examined,
        } = self;
        let key = &*key;
        let before = *docs_examined;
        let score = match key {
            KeySource::Score(score) => Some(score),
            _ => None,
        };
        let mut pass = |document: RawDocument<'_>, record: &[u8], key: Option<RawDocument<'_>>| {
            *returned += 1;
            interrupts::work_on_bytes(document.len_bytes())?;
            attached.clear();
            let known = Known {
                collection,
                parsed: context.parsed,
                kinds: *kinds,
                record,
                key,
                score: score.and_then(RowScore::get),
            };
            metadata::attach(document, attached, |out| known.append(document, out))?;
            memory::check()?;
            sink(&Row {
                record,
                document: Some(stored(RawDocument::new(attached))?),
            })
        };
        let outcome = input.next(context, &mut |row| {
            let found = row.document.unwrap_or(RawDocument::EMPTY);
            match key {
                KeySource::KeysAlone => pass(RawDocument::EMPTY, row.record, Some(found)),
                KeySource::Nothing | KeySource::Score(_) => pass(found, row.record, None),
                KeySource::Id => {
                    let key = id_key(collection, found);
                    pass(found, row.record, key.as_ref().map(Document::as_raw))
                }
                KeySource::Rows { asks_filter } => {
                    let mut flow = Ok(Flow::Continue);
                    let _scope = phase(Phase::EngineRead);
                    let is_there =
                        context.snapshot.get(row.record, &mut |bytes| {
                            flow = stored(RawDocument::new(bytes)).and_then(|document| {
                                match !*asks_filter || context.parsed.matches(document)? {
                                    true => pass(document, row.record, Some(found)),
                                    false => Ok(Flow::Continue),
                                }
                            });
                        })?;
                    *docs_examined += u64::from(is_there);
                    flow
                }
            }
        });
        self.attached = Vec::new();
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
        match self.key {
            KeySource::Rows { .. } => "FETCH",
            _ => "",
        }
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if self.key == (KeySource::Rows { asks_filter: true }) {
            shown.filter(out);
        }
        shown.returned(self.returned(), out);
        if shown.counts {
            out.append("docsExamined", number(self.docs_examined));
        }
    }
}
