//! The seam between the nodes of a plan: what a node does, and what is handed from one to the next.

use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument};
use quarry_database::{CollectionSnapshot, KeyRange, Operation, PlanSummary};
use smallvec::SmallVec;

use super::index_access::IndexAccess;
use super::parsed::Parsed;
use super::seen_records::SeenRecords;
use super::shown::Shown;
use crate::error::Result;

/// A tree of nodes, by its root.
pub type Node = Box<dyn PlanNode>;

/// The collection, the operation and the query that a tree is run for. It lives for one call: a cursor has another snapshot for each of its batches.
pub struct PlanContext<'v> {
    /// The collection in a snapshot.
    pub snapshot: &'v CollectionSnapshot,
    /// The operation, which may end the run and counts what was examined.
    pub operation: &'v Operation,
    /// The filter, the order and the projection that nodes ask for.
    pub parsed: &'v Parsed,
    /// The tree passes over rows that it gave before, to stand behind them: nobody looks at their documents.
    pub is_replay: bool,
}

/// A record on its way through a tree.
pub struct Row<'r> {
    /// The record's key with its prefix; empty behind a node that keeps documents alone.
    pub record: &'r [u8],
    /// None before the document was fetched.
    pub document: Option<RawDocument<'r>>,
}

/// Whether a run goes on behind a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next row is wanted.
    Continue,
    /// The row was taken, and the run ends.
    Stop,
}

/// Takes the rows of a node.
pub type Sink<'s> = dyn FnMut(&Row<'_>) -> Result<Flow> + 's;

/// The fate of the records between two runs of a tree, which says which of them its leaves have to know again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing. An index with arrays holds a record under several keys.
    Read,
    /// They go away. A record is not met in a later run; within one run it may be met again.
    Delete,
    /// They are changed, and may move along the index.
    Move,
    /// They are changed, and stay where they are in the index.
    ChangeInPlace,
}

/// A leaf as those see it who ask what a tree reads.
#[derive(Clone, Copy)]
pub enum Leaf<'l> {
    /// Nothing.
    Nothing,
    /// The whole collection.
    Collection,
    /// One record by its `_id`.
    Id,
    /// Keys of an index, or of the records by `_id`.
    Index(&'l IndexAccess),
    /// Keys that are only counted.
    Count(&'l IndexAccess),
    /// One key of an index for each value.
    Distinct(&'l IndexAccess),
}

/// A leaf that reads the records of one range of keys from the first to the last, and so can read parts of the range, each by
/// itself, while other threads read the others.
pub trait SplitLeaf {
    /// The keys behind the last row; None where the leaf has come to its end.
    fn rest(&self) -> Option<KeyRange>;

    /// Goes on with the keys of this range alone, whatever it has read.
    fn go_to(&mut self, range: KeyRange);

    /// The documents that it has looked at.
    fn docs_examined(&self) -> u64;

    /// Counts the rows and the documents of a part of its range that another thread has read.
    fn count(&mut self, docs_examined: u64, returned: u64);
}

/// A node of a plan.
pub trait PlanNode: Send {
    /// Hands rows to `sink` until it stops the run or there are no more; says whether there may be more. The next call goes
    /// on behind the last row.
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool>;

    /// The node's name as explain prints it.
    fn name(&self) -> &'static str;

    /// The rows that the node has given.
    fn returned(&self) -> u64;

    /// Appends the fields that explain prints of this node between its name and its inputs.
    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>);

    /// The steps of the node that gave no row: keys, documents and rows that it looked at or took in and did not hand on. None for a node
    /// that does not count them.
    fn idle_steps(&self) -> Option<u64> {
        let below = match self.input() {
            Some(input) => input.returned(),
            None => {
                let rows = self.inputs().into_iter().map(PlanNode::returned);
                rows.reduce(|sum, rows| sum + rows)?
            }
        };
        below.checked_sub(self.returned())
    }

    /// Whether the node, when it comes to its end, has read what stands below it to the end.
    fn exhausts_inputs(&self) -> bool {
        true
    }

    /// The node directly below, if there is exactly one. What stands behind this in the trait is forwarded to it.
    fn input(&self) -> Option<&dyn PlanNode> {
        None
    }

    /// Like `input`, for whoever changes it. A node that has the one has the other.
    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        None
    }

    /// Remembers where the node stands, for `rewind`. A node that counts or holds rows says what that is; a leaf without a place has nothing
    /// to remember.
    fn mark(&mut self) {
        if let Some(input) = self.input_mut() {
            input.mark();
        }
    }

    /// Goes back to where the node was marked. In the same snapshot it then gives the rows again that it gave since.
    fn rewind(&mut self) {
        if let Some(input) = self.input_mut() {
            input.rewind();
        }
    }

    /// The nodes below, where there may be several.
    fn inputs(&self) -> Vec<&dyn PlanNode> {
        Vec::new()
    }

    /// Shows the leaves from the first to the last.
    fn leaves<'l>(&'l self, visit: &mut dyn FnMut(Leaf<'l>)) {
        match self.input() {
            Some(input) => input.leaves(visit),
            None => (self.inputs().into_iter()).for_each(|input| input.leaves(visit)),
        }
    }

    /// Says what is done with the records between two runs.
    fn set_purpose(&mut self, purpose: Purpose) {
        if let Some(input) = self.input_mut() {
            input.set_purpose(purpose);
        }
    }

    /// The records that were met, once the node has stopped because it can remember no more of them, which it does only
    /// for who changes them: the others have to be found in the whole collection.
    fn take_full(&mut self) -> Option<Box<SeenRecords>> {
        self.input_mut()?.take_full()
    }

    /// Whether the node holds rows that it cannot read again alone, so that it cannot go back.
    fn holds_rows(&self) -> bool {
        self.input().is_some_and(PlanNode::holds_rows)
    }

    /// Has the node look again behind its last row: for collections that grow at their end.
    fn resume(&mut self) {
        if let Some(input) = self.input_mut() {
            input.resume();
        }
    }

    /// The node as a leaf that gives all documents that match, if it is nothing else and its range can be read in parts.
    fn split_leaf(&mut self) -> Option<&mut dyn SplitLeaf> {
        None
    }

    /// Whether the node gives no more rows, not even those that come later.
    fn is_over(&self) -> bool {
        self.input().is_some_and(PlanNode::is_over)
    }
}

/// Runs a tree: its access is told to the operation, which the log and `$currentOp` show.
pub fn run(
    node: &mut dyn PlanNode,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<bool> {
    context.operation.plan.get_or_init(|| summary(node));
    node.next(context, sink)
}

/// The access of a tree in the words of log lines.
pub fn summary(node: &dyn PlanNode) -> PlanSummary {
    let mut patterns: SmallVec<[&Arc<Document>; 2]> = SmallVec::new();
    let mut other = None;
    node.leaves(&mut |leaf| match leaf {
        Leaf::Nothing => other = Some(PlanSummary::Nothing),
        Leaf::Collection => other = Some(PlanSummary::CollectionScan),
        Leaf::Id => other = Some(PlanSummary::IdHack),
        Leaf::Distinct(access) => {
            other = Some(PlanSummary::DistinctScan(Arc::clone(&access.pattern)));
        }
        Leaf::Count(access) => other = Some(PlanSummary::CountScan(Arc::clone(&access.pattern))),
        Leaf::Index(access) => {
            if !patterns.contains(&&access.pattern) {
                patterns.push(&access.pattern);
            }
        }
    });
    match (other, patterns.as_slice()) {
        (_, [only]) => PlanSummary::IndexScan(Arc::clone(only)),
        (Some(other), _) => other,
        (None, several) => PlanSummary::IndexScans(several.iter().map(|p| Arc::clone(p)).collect()),
    }
}
