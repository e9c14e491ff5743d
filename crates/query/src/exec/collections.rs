//! The collections that a pipeline reads beside its own, and the reads that are open on them.
//!
//! A batch of the pipeline sees one snapshot of each collection, taken when the batch begins. A read that a stage leaves open
//! behind a batch goes on from the next batch's snapshot, as the pipeline's own read does.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use indexmap::IndexMap;
use quarry_bson::{RawArray, RawDocument};
use quarry_database::{
    Collation, Collection, CollectionSnapshot, ID_INDEX_NAME, Ident, Namespace, Operation, Scope,
    View,
};

use super::collation::other_collation;
use super::find::plan;
use super::reading::Reading;
use super::view_stages::{VIEWS_MAX, stages_of_sub_find};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::pipeline::{
    Collections, Execution, Pipeline, ReadFigures, ReadId, Run, SubFind, collections_named,
    metadata_not_here,
};
use crate::plan::{Leaf, Parsed, PlanNode};
use crate::planner::Wanted;
use crate::query_shape::QueryParts;

/// The work of taking a snapshot.
const UNITS_OF_A_SNAPSHOT: usize = 200;

/// The depth of the pipelines of views that are read within each other, all together. Each stage of theirs stands on the
/// stack of the operation.
const VIEWS_DEPTH_MAX: usize = 200;

#[derive(Default)]
pub(super) struct OtherCollections {
    /// By name. Those that do not exist have no snapshot.
    collections: IndexMap<Box<str>, Other>,
    /// By number; a place is empty when its read is closed.
    reads: Vec<Option<OpenRead>>,
    /// The places of `reads` that are empty.
    free: Vec<usize>,
    /// The views that are being read within each other now, and the depth of their pipelines together.
    running: usize,
    depth: usize,
    /// Where what is read is counted, for explain.
    figures: Option<Arc<ReadFigures>>,
}

struct Other {
    namespace: Namespace,
    snapshot: Option<CollectionSnapshot>,
}

/// A read of one of the collections.
enum OpenRead {
    /// There is no such collection.
    OfNothing,
    Of {
        /// The place of the collection.
        collection: usize,
        ident: Ident,
        reading: Box<Reading>,
    },
    /// There is a view: its stages, and those of the read, over a read of what it is on.
    OfView {
        input: ReadId,
        execution: Execution,
        depth: usize,
    },
}

/// The collections as one request lends them to the stages.
pub(super) struct Lent<'l> {
    others: &'l mut OtherCollections,
    operation: &'l Operation,
}

impl OtherCollections {
    pub fn open<'n>(
        scope: Scope<'_>,
        operation: &Operation,
        database_name: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<OtherCollections> {
        let mut others = OtherCollections::default();
        let mut names: Vec<Cow<'n, str>> = names.into_iter().map(Cow::Borrowed).collect();
        names.reverse();
        while let Some(name) = names.pop() {
            let name = &*name;
            if others.collections.contains_key(name) {
                continue;
            }
            interrupts::work(UNITS_OF_A_SNAPSHOT)?;
            let namespace = Namespace::new(database_name, name)?;
            let snapshot = scope.snapshot(&namespace, operation)?;
            // What a view reads is read with it.
            if let Some(view) = snapshot.as_ref().and_then(view_of) {
                names.extend(read_by(view).map(|name| Cow::Owned(name.to_owned())));
            }
            let other = Other {
                namespace,
                snapshot,
            };
            others.collections.insert(name.into(), other);
        }
        Ok(others)
    }

    /// Fails if one of them is a view that compares strings otherwise than the pipeline.
    pub fn refuse_other_collations(&self, collation: &Collation) -> Result<()> {
        for other in self.collections.values() {
            if let Some(snapshot) = &other.snapshot
                && snapshot.collection.view.is_some()
                && snapshot.collection.collation != *collation
            {
                return Err(other_collation(&snapshot.collection));
            }
        }
        Ok(())
    }

    /// Gives up the snapshots, and what open reads have read ahead from them.
    pub fn save(&mut self, operation: &Operation) -> Result<()> {
        let OtherCollections {
            collections, reads, ..
        } = self;
        for read in reads.iter_mut().flatten() {
            if let OpenRead::Of {
                collection,
                reading,
                ..
            } = read
                && let Some(snapshot) = &collections[*collection].snapshot
            {
                reading.give_back(snapshot, operation)?;
                reading.shrink();
            }
        }
        for other in collections.values_mut() {
            other.snapshot = None;
        }
        Ok(())
    }

    /// Takes new snapshots. Fails if a collection has gone that a read is open on.
    pub fn restore(&mut self, scope: Scope<'_>, operation: &Operation) -> Result<()> {
        for other in self.collections.values_mut() {
            other.snapshot = scope.snapshot(&other.namespace, operation)?;
        }
        self.check_views()?;
        for read in self.reads.iter_mut().flatten() {
            if let OpenRead::Of {
                collection,
                ident,
                reading,
            } = read
            {
                let Other {
                    namespace,
                    snapshot,
                } = &self.collections[*collection];
                let known = snapshot.as_ref().map(|snapshot| snapshot.collection.ident);
                if known != Some(*ident) {
                    return Err(super::reading::dropped(namespace));
                }
                reading.begin_small();
            }
        }
        Ok(())
    }

    /// Fails if a view has changed meanwhile and reads what was not named when the pipeline began.
    fn check_views(&self) -> Result<()> {
        for other in self.collections.values() {
            let Some(view) = other.snapshot.as_ref().and_then(view_of) else {
                continue;
            };
            if !read_by(view).all(|name| self.collections.contains_key(name)) {
                let text = format!("the view {} was changed", other.namespace);
                return Err(quarry_database::Error::QueryPlanKilled(text).into());
            }
        }
        Ok(())
    }

    pub fn lend<'l>(&'l mut self, operation: &'l Operation) -> Lent<'l> {
        Lent {
            others: self,
            operation,
        }
    }

    fn enter_view(&mut self, depth: usize) {
        self.running += 1;
        self.depth += depth;
    }

    fn leave_view(&mut self, depth: usize) {
        self.running -= 1;
        self.depth -= depth;
    }

    /// The view that the name means, if it means one.
    fn view(&self, name: &str) -> Option<Arc<Collection>> {
        let other = self.collections.get(name)?;
        let collection = &other.snapshot.as_ref()?.collection;
        collection.view.is_some().then(|| Arc::clone(collection))
    }

    fn begin(&self, name: &str, find: SubFind<'_>) -> Result<OpenRead> {
        let Some((collection, _, other)) = self.collections.get_full(name) else {
            debug_assert!(false, "a pipeline reads a collection that it has not named");
            return Ok(OpenRead::OfNothing);
        };
        let parsed = Parsed::parse(find.filter, find.sort, None, find.context)?;
        let Some(snapshot) = &other.snapshot else {
            return Ok(OpenRead::OfNothing);
        };
        let asked = QueryParts {
            sort: find.sort,
            ..QueryParts::of(find.filter, find.context.collation())
        };
        let wanted = Wanted {
            asked: Some(&asked),
            settings: find.context.query_settings(),
            skip: find.skip,
            limit: find.limit,
            ..Wanted::default()
        };
        let root = plan(snapshot, &parsed, None, wanted)?;
        if let Some(figures) = &self.figures {
            add_leaves(&*root, figures);
        }
        let mut reading = Box::new(Reading::new(root, Some(Arc::new(parsed))));
        reading.begin_small();
        Ok(OpenRead::Of {
            collection,
            ident: snapshot.collection.ident,
            reading,
        })
    }
}

/// Adds what the plan of a read goes through.
fn add_leaves(root: &dyn PlanNode, figures: &ReadFigures) {
    root.leaves(&mut |leaf| match leaf {
        Leaf::Nothing => {}
        Leaf::Collection => figures.add_collection_scan(),
        Leaf::Id => figures.add_index(ID_INDEX_NAME),
        Leaf::Index(access) | Leaf::Count(access) | Leaf::Distinct(access) => {
            figures.add_index(&access.name);
        }
    });
}

/// The view that the collection of a snapshot is, if it is one.
fn view_of(snapshot: &CollectionSnapshot) -> Option<&View> {
    snapshot.collection.view.as_ref()
}

/// The collections that a view reads: the one that it is on, and those that its stages name.
fn read_by(view: &View) -> impl Iterator<Item = &str> {
    let named = collections_named(view.pipeline()).into_iter();
    named.chain([&*view.on])
}

impl Lent<'_> {
    /// Runs a step of a read, with what it examines counted if that is wanted.
    fn counted<R>(&mut self, step: impl FnOnce(&mut Self) -> R) -> R {
        let Some(figures) = self.others.figures.clone() else {
            return step(self);
        };
        let examined = |operation: &Operation| {
            let (docs, keys) = (&operation.docs_examined, &operation.keys_examined);
            (docs.load(Relaxed), keys.load(Relaxed))
        };
        let (docs, keys) = examined(self.operation);
        let result = step(self);
        let (docs_after, keys_after) = examined(self.operation);
        figures.add_examined(docs_after - docs, keys_after - keys);
        result
    }

    /// Begins a read of a view: a run of its stages, with those of the find behind them, over a read of what it is on.
    fn begin_view(&mut self, collection: &Collection, find: SubFind<'_>) -> Result<OpenRead> {
        if *find.context.collation() != collection.collation {
            return Err(other_collation(collection));
        }
        let Some(view) = &collection.view else {
            return Ok(OpenRead::OfNothing);
        };
        interrupts::work(UNITS_OF_A_SNAPSHOT)?;
        let stages = stages_of_sub_find(view.pipeline(), find)?;
        let stages = RawArray::from_document(RawDocument::new(&stages)?);
        let pipeline = Pipeline::parse(stages, find.context)?;
        let depth = pipeline.depth();
        if self.others.running == VIEWS_MAX || self.others.depth + depth > VIEWS_DEPTH_MAX {
            let text = "View depth too deep: too many views are read within each other, or their pipelines have too many stages";
            return Err(Error::new(ErrorCode::VIEW_DEPTH_LIMIT_EXCEEDED, text));
        }
        let leading = pipeline.leading();
        // What is read of the collection beneath comes without.
        if !pipeline.metadata_wanted(&leading)?.is_empty() {
            return Err(metadata_not_here());
        }
        let beneath = SubFind {
            filter: leading.filter.unwrap_or(RawDocument::EMPTY),
            sort: leading.sort_specification,
            skip: leading.skip.unwrap_or(0),
            limit: leading.limit,
            context: find.context,
        };
        self.others.enter_view(depth);
        let input = self.open(&view.on, beneath);
        self.others.leave_view(depth);
        Ok(OpenRead::OfView {
            input: input?,
            execution: pipeline.start_at(leading.stages),
            depth,
        })
    }

    fn next_of_collection(&mut self, read: ReadId, out: &mut Vec<u8>) -> Result<bool> {
        let OtherCollections {
            collections, reads, ..
        } = &mut *self.others;
        let Some(Some(OpenRead::Of {
            collection,
            reading,
            ..
        })) = reads.get_mut(read.0)
        else {
            debug_assert!(
                reads.get(read.0).is_some_and(Option::is_some),
                "a stage reads what it has closed"
            );
            return Ok(false);
        };
        let snapshot = collections[*collection].snapshot.as_ref();
        reading.next(snapshot, self.operation, out)
    }

    /// Runs the stages of a view until they give a document. The read is taken out of its place meanwhile, because the stages
    /// open and close others.
    fn next_of_view(&mut self, read: ReadId, out: &mut Vec<u8>) -> Result<bool> {
        let place = self.others.reads.get_mut(read.0);
        let Some(slot) = place else {
            return Ok(false);
        };
        let mut view = slot.replace(OpenRead::OfNothing);
        let mut found = Ok(false);
        if let Some(OpenRead::OfView {
            input,
            execution,
            depth,
        }) = &mut view
        {
            self.others.enter_view(*depth);
            found = execution.next(&mut Run::of_read(*input, self), out);
            self.others.leave_view(*depth);
        }
        self.others.reads[read.0] = view;
        found
    }
}

impl Collections for Lent<'_> {
    fn count_into(&mut self, figures: Option<Arc<ReadFigures>>) -> Option<Arc<ReadFigures>> {
        std::mem::replace(&mut self.others.figures, figures)
    }

    fn open(&mut self, collection: &str, find: SubFind<'_>) -> crate::Result<ReadId> {
        let read = Some(match self.others.view(collection) {
            Some(collection) => self.begin_view(&collection, find)?,
            None => self.counted(|lent| lent.others.begin(collection, find))?,
        });
        let OtherCollections { reads, free, .. } = &mut *self.others;
        let place = match free.pop() {
            Some(place) => {
                reads[place] = read;
                place
            }
            None => {
                reads.push(read);
                reads.len() - 1
            }
        };
        debug_assert_eq!(
            free.len(),
            reads.iter().filter(|read| read.is_none()).count(),
            "the empty places are not those that are known as free"
        );
        Ok(ReadId(place))
    }

    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> crate::Result<bool> {
        if let Some(Some(OpenRead::OfView { .. })) = self.others.reads.get(read.0) {
            return self.next_of_view(read, out);
        }
        self.counted(|lent| lent.next_of_collection(read, out))
    }

    fn close(&mut self, read: ReadId) {
        let OtherCollections { reads, free, .. } = &mut *self.others;
        let Some(open) = reads.get_mut(read.0).and_then(Option::take) else {
            return;
        };
        free.push(read.0);
        if let OpenRead::OfView {
            input,
            mut execution,
            ..
        } = open
        {
            execution.close(self);
            self.close(input);
        }
    }
}
