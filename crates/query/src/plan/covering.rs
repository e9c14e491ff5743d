//! The part of an IXSCAN that gives documents made of its keys, so that records need not be fetched.

use quarry_bson::RawDocument;
use quarry_database::{Index, index_entry, index_record_key};
use quarry_timing::{Phase, phase};

use super::key_document::{KeyBuffer, KeyDocument};
use super::node::{Flow, PlanContext};
use crate::error::Result;
use crate::exec::stored;

/// Makes documents of entries, and asks the filter of them.
pub struct Covering {
    document: KeyDocument,
    /// The keys alone do not say that a document matches.
    asks_filter: bool,
    buffer: KeyBuffer,
    /// Documents that were fetched, because their keys do not tell a null from a missing field.
    docs_examined: u64,
}

impl Covering {
    /// Makes documents that have what is read of them, by the filter, too, if that is to be asked.
    pub fn new(document: KeyDocument, asks_filter: bool) -> Covering {
        Covering {
            document,
            asks_filter,
            buffer: KeyBuffer::default(),
            docs_examined: 0,
        }
    }

    /// Whether nobody looks at the documents: they are only counted.
    pub fn counts(&self) -> bool {
        self.document.is_empty() && !self.asks_filter
    }

    pub fn asks_filter(&self) -> bool {
        self.asks_filter
    }

    pub fn docs_examined(&self) -> u64 {
        self.docs_examined
    }

    /// Gives up its buffers: there may be many cursors that wait.
    pub fn shrink(&mut self) {
        self.buffer = KeyBuffer::default();
    }

    /// Hands over the document of an entry if it matches.
    pub fn give(
        &mut self,
        context: &PlanContext<'_>,
        index: &Index,
        (key, value): (&[u8], &[u8]),
        take: &mut dyn FnMut(RawDocument<'_>) -> Result<Flow>,
    ) -> Result<Flow> {
        if !self.asks_filter && (context.is_replay || self.document.is_empty()) {
            return take(RawDocument::EMPTY);
        }
        // An array that the index has met since it was chosen.
        if self.document.reads_any(index.multikey_components()) {
            return self.fetch(context, index, (key, value), take);
        }
        let entry = index_entry(index, &context.snapshot.collection, key, value)?;
        let Some(made) = self.document.make(&entry, &mut self.buffer)? else {
            return self.fetch(context, index, (key, value), take);
        };
        let document = stored(RawDocument::new(made))?;
        match !self.asks_filter || context.parsed.matches(document)? {
            true => take(document),
            false => Ok(Flow::Continue),
        }
    }

    /// Like `give`, with the record's own document.
    fn fetch(
        &mut self,
        context: &PlanContext<'_>,
        index: &Index,
        (key, value): (&[u8], &[u8]),
        take: &mut dyn FnMut(RawDocument<'_>) -> Result<Flow>,
    ) -> Result<Flow> {
        let record = index_record_key(index, &context.snapshot.collection, key, value)?;
        let mut flow = Ok(Flow::Continue);
        let _scope = phase(Phase::EngineRead);
        let found = context.snapshot.get(&record, &mut |bytes| {
            flow = stored(RawDocument::new(bytes)).and_then(|document| {
                match !self.asks_filter || context.parsed.matches(document)? {
                    true => take(document),
                    false => Ok(Flow::Continue),
                }
            });
        })?;
        self.docs_examined += u64::from(found);
        flow
    }
}
