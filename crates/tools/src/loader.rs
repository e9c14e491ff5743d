//! Writers: batches of documents go to a server over several connections at once.
//!
//! A batch is a buffer of documents one after the other, which the command carries as it stands. Whoever makes batches waits when every writer has
//! one and the queue is full, so that memory is bounded by the number of writers. Outcomes come in the order in which writers end; a batch's number tells which it
//! was. A buffer comes back with the outcome and is used again.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use quarry_bson::{Document, RawDocument, doc};
use quarry_client::{Connection, ConnectionString, Sequence};

use crate::error::{Error, Result};
use crate::namespaces::Namespace;

/// A batch is sent when it has so many bytes: a few milliseconds of a server's time, so that several writers have work.
pub const BATCH_BYTES: usize = 2 << 20;
/// The most documents that a server takes in one command.
pub const BATCH_DOCUMENTS_MAX: usize = 100_000;
const DUPLICATE_KEY: i32 = 11_000;

/// The command that a batch goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    /// Statements of `update`, each of one document.
    Update,
    /// Statements of `delete`, each of one document.
    Delete,
}

impl Verb {
    fn fields(self) -> (&'static str, &'static str) {
        match self {
            Verb::Insert => ("insert", "documents"),
            Verb::Update => ("update", "updates"),
            Verb::Delete => ("delete", "deletes"),
        }
    }
}

/// Where batches go, and how.
#[derive(Clone, Debug)]
pub struct Target {
    pub namespace: Namespace,
    pub verb: Verb,
    /// Whether the documents of a batch that are behind one that fails are left.
    pub is_ordered: bool,
    /// Whether each batch is written before the next one is sent, so that documents stand in the order in which they come.
    pub is_in_sequence: bool,
    /// Whether a document whose `_id` is there comes back with its failure.
    pub gives_back: bool,
    pub bypasses_validation: bool,
}

/// Documents, or statements, on their way.
#[derive(Debug, Default)]
pub struct Batch {
    pub documents: Vec<u8>,
    /// The place of each document in its file, for messages: a line or a number.
    pub places: Vec<u64>,
    /// A number by which the caller knows the batch again.
    pub number: u64,
}

impl Batch {
    /// Counts a document that was appended to the bytes.
    pub fn note(&mut self, place: u64) {
        self.places.push(place);
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The documents, one after the other.
    fn documents(&self) -> impl Iterator<Item = RawDocument<'_>> {
        let mut rest = self.documents.as_slice();
        std::iter::from_fn(move || {
            let (document, behind) = RawDocument::split_first(rest)?;
            rest = behind;
            Some(document)
        })
    }

    pub fn is_full(&self) -> bool {
        self.documents.len() >= BATCH_BYTES || self.places.len() >= BATCH_DOCUMENTS_MAX
    }

    fn clear(&mut self) {
        self.documents.clear();
        self.places.clear();
    }
}

/// A document that a server has refused.
#[derive(Clone, Debug)]
pub struct Failure {
    pub place: u64,
    pub message: String,
    /// Whether a document of the same `_id` was there.
    pub is_same_id: bool,
    /// The document, if the target wants it back.
    pub document: Option<Document>,
}

/// The end of a batch.
#[derive(Debug)]
pub struct Outcome {
    pub target: Arc<Target>,
    pub number: u64,
    /// Documents that were inserted, matched, upserted or deleted.
    pub done: u64,
    pub failures: Vec<Failure>,
}

/// The writers.
pub struct Loader {
    jobs: Option<SyncSender<(Arc<Target>, Batch)>>,
    outcomes: Receiver<(Result<Outcome>, Batch)>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    spare: Vec<Batch>,
    ready: Vec<Outcome>,
}

impl Loader {
    /// Starts so many writers, each with a connection of its own.
    pub fn start(settings: &Arc<ConnectionString>, writers: usize) -> Result<Loader> {
        let (jobs, taken) = sync_channel::<(Arc<Target>, Batch)>(1);
        let taken = Arc::new(Mutex::new(taken));
        let (sender, outcomes) = channel();
        let mut threads = Vec::new();
        for _ in 0..writers {
            let mut connection = Connection::open(settings).map_err(Error::server(""))?;
            connection.keep_empty_timestamps();
            let (taken, sender) = (Arc::clone(&taken), sender.clone());
            threads.push(thread::spawn(move || {
                loop {
                    // The lock is held for the wait: whoever has it takes the next batch.
                    let job = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((target, batch)) = job else { return };
                    let outcome = write(&mut connection, &target, &batch);
                    if sender.send((outcome, batch)).is_err() {
                        return;
                    }
                }
            }));
        }
        Ok(Loader {
            jobs: Some(jobs),
            outcomes,
            threads,
            in_flight: 0,
            spare: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// An empty batch, with the memory of one that has been written.
    pub fn batch(&mut self) -> Batch {
        self.spare.pop().unwrap_or_default()
    }

    /// Hands a batch to the writers, and waits for one of them if all have work, or until it is written where the target wants an order.
    pub fn send(&mut self, target: &Arc<Target>, batch: Batch) -> Result<()> {
        while let Ok((outcome, batch)) = self.outcomes.try_recv() {
            self.settle(outcome, batch)?;
        }
        let jobs = self.jobs.as_ref();
        let is_taken = jobs.is_some_and(|jobs| jobs.send((Arc::clone(target), batch)).is_ok());
        if !is_taken {
            return Err(Error::Incomplete("the writers have ended".to_owned()));
        }
        self.in_flight += 1;
        match target.is_in_sequence {
            true => self.wait(),
            false => Ok(()),
        }
    }

    /// Waits until every batch that was sent has been written, also behind one that could not be: the outcomes are then all that was done.
    ///
    /// # Errors
    /// The first one.
    pub fn wait(&mut self) -> Result<()> {
        let mut first = Ok(());
        while self.in_flight > 0 {
            let Ok((outcome, batch)) = self.outcomes.recv() else {
                let ended = Error::Incomplete("a writer has ended".to_owned());
                return first.and(Err(ended));
            };
            first = first.and(self.settle(outcome, batch));
        }
        first
    }

    /// The outcomes since the last call.
    pub fn outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.ready)
    }

    fn settle(&mut self, outcome: Result<Outcome>, mut batch: Batch) -> Result<()> {
        self.in_flight -= 1;
        batch.clear();
        self.spare.push(batch);
        self.ready.push(outcome?);
        Ok(())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn write(connection: &mut Connection, target: &Arc<Target>, batch: &Batch) -> Result<Outcome> {
    let (verb, field) = target.verb.fields();
    let Namespace {
        database,
        collection,
    } = &target.namespace;
    let mut command = doc! { (verb): (collection.as_str()), "ordered": (target.is_ordered) };
    if target.bypasses_validation && target.verb != Verb::Delete {
        command.append("bypassDocumentValidation", true);
    }
    let sequence = Sequence {
        identifier: field,
        documents: &batch.documents,
    };
    let reply = connection
        .write(database, &command, sequence, true)
        .map_err(Error::server(format_args!(
            "{verb} into `{}`",
            target.namespace
        )))?;
    let done = reply.get("n").and_then(|n| n.as_i64_exact()).unwrap_or(0);
    Ok(Outcome {
        target: Arc::clone(target),
        number: batch.number,
        done: u64::try_from(done).unwrap_or(0),
        failures: failures(&reply, batch, target.gives_back),
    })
}

fn failures(reply: &Document, batch: &Batch, gives_back: bool) -> Vec<Failure> {
    let errors = reply.get_array("writeErrors");
    let errors = errors.iter().flat_map(quarry_bson::RawArray::iter);
    let mut documents = batch.documents();
    // Documents before this one have been passed; errors come in their order.
    let mut passed = 0;
    let failure = |error: RawDocument<'_>| {
        let index = error.get("index").and_then(|index| index.as_i64_exact());
        let index = index.and_then(|index| usize::try_from(index).ok());
        let place = index.and_then(|index| batch.places.get(index));
        let is_duplicate = error.get_i32("code") == Some(DUPLICATE_KEY);
        let key = error.get_document("keyPattern");
        let is_same_id = is_duplicate && key.is_some_and(|key| key.sole_element("_id").is_some());
        let document = index
            .filter(|index| is_same_id && gives_back && *index >= passed)
            .and_then(|index| {
                let document = documents.nth(index - passed);
                passed = index + 1;
                document
            });
        Failure {
            place: place.copied().unwrap_or(0),
            message: error.get_str("errmsg").unwrap_or("refused").to_owned(),
            is_same_id,
            document: document.map(|document| document.to_owned_document()),
        }
    };
    errors
        .filter_map(|error| error.as_document())
        .map(failure)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_whose_id_is_there_comes_back() {
        let mut batch = Batch::default();
        for n in 0..4 {
            batch
                .documents
                .extend_from_slice(doc! { "_id": n }.as_bytes());
            batch.note(10 + n as u64);
        }
        let same_id = |index: i32| {
            doc! { "index": index, "code": DUPLICATE_KEY, "errmsg": "there", "keyPattern": { "_id": 1 } }
        };
        let other =
            doc! { "index": 2, "code": DUPLICATE_KEY, "errmsg": "a", "keyPattern": { "a": 1 } };
        let reply = doc! { "writeErrors": [(same_id(1)), (other), (same_id(3))] };
        let found = failures(&reply, &batch, true);
        let found: Vec<_> = found
            .into_iter()
            .map(|failure| (failure.place, failure.document))
            .collect();
        let document = |n: i32| Some(doc! { "_id": n });
        assert_eq!(found, [(11, document(1)), (12, None), (13, document(3))]);
        assert!(failures(&reply, &batch, false)[0].document.is_none());
    }
}
