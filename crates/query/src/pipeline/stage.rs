//! The traits of a stage, and the row that each has in the table of stages. The stages themselves have a file each; `stages.rs` is the
//! table.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue};

use super::execution::RunningStage;
use super::parsed::Pipeline;
use super::written::{CollectionWritten, ResultWritten};
use crate::error::Result;
use crate::expression::{Expression, ExpressionContext};
use crate::field_path::FieldPath;
use crate::matcher::Matcher;
use crate::metadata::MetadataKinds;
use crate::sort::SortPattern;

/// A stage as it was parsed. The runs of a pipeline share it.
pub trait Stage: fmt::Debug + Send + Sync {
    /// The name under which explain prints it.
    fn name(&self) -> &'static str;

    /// Appends the specification under the stage's name, as explain prints it.
    fn explain(&self, out: &mut DocumentBuilder<'_>);

    /// Like `explain`, of a stage that gives no more than `wanted` documents, as a `$limit` behind it asks.
    fn explain_limited(&self, _wanted: u64, out: &mut DocumentBuilder<'_>) {
        self.explain(out);
    }

    /// The running form; `following` are the stages after this one.
    fn start(self: Arc<Self>, following: &[Arc<dyn Stage>]) -> Box<dyn RunningStage>;

    /// Adds the top-level fields of its input that the stage reads or lets through.
    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads;

    /// Adds the top-level fields that come out with values, or without one, to which the fields of these names that went in have added
    /// nothing but what `add_fields_read` tells.
    fn add_fields_made(&self, _fields: &mut BTreeSet<String>) {}

    /// The fields that the stage takes of its input, where it passes on no others and what it computes of them is told apart.
    fn picks(&self) -> Option<Picks> {
        None
    }

    /// The way of the order of a document's fields through the stage.
    fn order_of_fields(&self) -> FieldOrder {
        FieldOrder::Passes
    }

    /// The difference that the stage makes to the documents that pass it. A filter behind it that does not see the
    /// difference may stand before it.
    fn modifies(&self) -> Modifies {
        Modifies::Everything
    }

    /// The top-level fields of the documents that come out which are fields of those that went in, by another name: the new names and
    /// the old ones. A filter on the new name asks for the old one in front of the stage.
    fn renames(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    /// How a filter behind the stage that sees what it changes can be asked of the stage's input.
    fn in_front(&self, _filter: RawDocument<'_>, _: &ExpressionContext) -> Result<InFront> {
        Ok(InFront::Nothing)
    }

    /// The stage with a filter at the end of the pipeline that it runs by itself, if it takes one (`InFront::Both`).
    fn with_filter_within(
        &self,
        _filter: RawDocument<'_>,
        _: &ExpressionContext,
    ) -> Result<Option<Arc<dyn Stage>>> {
        Ok(None)
    }

    /// The part of a find that the stage is, so that an index can serve it.
    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::None
    }

    /// The path whose different values are all that the stage makes of its input, a missing one counted as null: one document
    /// for each of them is input enough.
    fn values_grouped(&self) -> Option<&FieldPath> {
        None
    }

    /// Like `values_grouped`, and the stage may ask for more of a document, of the first one with each value.
    fn firsts_grouped(&self) -> Option<&FieldPath> {
        self.values_grouped()
    }

    /// Adds the collections of the same database that the stage reads beside its input, those of the pipelines within it
    /// among them.
    fn add_collections<'s>(&'s self, _: &mut Vec<&'s str>) {}

    /// The stages that do what this one and the next do, if one can do a part of the other's work.
    fn fused(self: Arc<Self>, _next: &dyn Stage, _: &ExpressionContext) -> Result<Option<Stages>> {
        Ok(None)
    }

    /// The array that the stage makes one document for each element of, if that is what it does.
    fn unwinds(&self) -> Option<Unwound<'_>> {
        None
    }

    /// The depth of the deepest pipeline within the stage.
    fn depth_within(&self) -> usize {
        0
    }

    /// Where a pipeline that begins with this stage has its documents from.
    fn input(&self) -> Input {
        Input::Documents
    }

    /// The metadata that has to be attached to the documents of its input.
    fn metadata(&self) -> MetadataKinds {
        MetadataKinds::NONE
    }

    /// The stage as one that writes what comes to it, where it is one: it stands last and passes its input through.
    fn written(&self) -> Option<ResultWritten<'_>> {
        None
    }

    /// The stage as a function of one document, where it is nothing more. An update may consist of such stages.
    fn as_map(&self) -> Option<&dyn DocumentMap> {
        None
    }

    /// Whether one document comes out for each that goes in, in their order.
    fn is_one_to_one(&self) -> bool {
        self.as_map().is_some()
    }
}

/// The options of `$unwind`.
#[derive(Debug, Clone, Copy)]
pub struct Unwound<'s> {
    /// The array.
    pub path: &'s FieldPath,
    /// The field that is given the element's position.
    pub index: Option<&'s FieldPath>,
    /// A document without elements stays.
    pub preserve: bool,
}

/// A function that makes one document of another.
pub trait DocumentMap {
    /// Appends the document that is made to `out`.
    fn map(&self, document: RawDocument<'_>, out: &mut Vec<u8>) -> Result<()>;
}

/// Stages one after the other.
pub type Stages = Vec<Arc<dyn Stage>>;

/// A row of the table of stages.
pub struct StageKind {
    pub name: &'static str,
    /// Where in a pipeline the stage may stand.
    pub position: Position,
    /// Whether it may stand in a pipeline of a `$facet`.
    pub in_facets: bool,
    /// Whether it may stand in an update: each stage that it stands for is a function of one document.
    pub in_updates: bool,
    /// Parses one element of a pipeline, which may stand for several stages.
    pub parse: fn(Specification<'_>) -> Result<Stages>,
    /// Names the collections of the same database that a specification of the stage reads beside its input, and the pipelines
    /// within it, without parsing it. They are at least those that `Stage::add_collections` tells of what is parsed.
    pub name_collections: for<'v> fn(RawValue<'v>, &mut Named<'v>),
    /// Like `name_collections`, for the collections that the stage writes into.
    pub name_written: for<'v> fn(RawValue<'v>) -> Vec<CollectionWritten<'v>>,
}

/// The collections and the pipelines that specifications name.
#[derive(Default)]
pub struct Named<'v> {
    pub collections: Vec<&'v str>,
    pub pipelines: Vec<RawArray<'v>>,
}

/// A first stage that the owner of a pipeline adds to those of the table, because only the owner can make its documents.
pub struct AddedSource<'s> {
    /// The stage's name, `$` included.
    pub name: &'static str,
    /// Makes the stage of its specification.
    pub parse: &'s dyn Fn(Specification<'_>) -> Result<Arc<dyn Stage>>,
}

/// Where in a pipeline a stage may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// In any place.
    Anywhere,
    /// It makes the documents of its pipeline.
    First,
    /// It writes the documents of the pipeline of a command.
    Last,
}

/// Where the documents of a pipeline come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// They are those of the collection.
    Documents,
    /// The first stage makes them, and says something of the collection with them.
    MadeOfCollection,
    /// The first stage makes them, and there is no collection.
    MadeOfNothing,
}

/// One element of a pipeline: `{<name>: <value>}`.
#[derive(Clone, Copy)]
pub struct Specification<'s> {
    /// As the table has it.
    pub name: &'static str,
    /// The specification.
    pub value: RawValue<'s>,
    /// The context that the command's expressions share.
    pub context: &'s ExpressionContext,
    /// Parses the pipelines within the specification.
    pub(super) parse_within: ParseWithin,
}

/// Parses a pipeline that a stage runs by itself. The table of stages cannot be named by the stages that are in it.
pub(super) type ParseWithin = fn(RawArray<'_>, &ExpressionContext, Within) -> Result<Pipeline>;

/// Where a pipeline stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// It is the pipeline of a command.
    Command,
    /// It is an update.
    Update,
    /// It is one of the pipelines of `$facet`.
    Facet,
    /// The stage of this name runs it over another collection.
    Collection(&'static str),
}

/// The things that all stages of one pipeline are parsed with.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'s> {
    pub context: &'s ExpressionContext,
    pub within: Within,
    pub added: &'s [AddedSource<'s>],
    pub parse_within: ParseWithin,
}

impl Specification<'_> {
    /// An expression within the specification.
    pub fn expression(&self, value: RawValue<'_>) -> Result<Expression> {
        Expression::parse(value, self.context)
    }
}

/// The use of a filter behind a stage for the documents in front of it.
#[derive(Debug)]
pub enum InFront {
    /// There is none.
    Nothing,
    /// It may stand in front, in these words, and not behind.
    Moved(Document),
    /// This filter, which is a weaker one, may stand in front as well.
    Copied(Document),
    /// It may stand in front, if it also stands at the end of the pipeline that the stage runs by itself.
    Both,
}

/// The part of a find that a stage is.
pub enum PartOfFind<'s> {
    /// Nothing that a find does.
    None,
    /// The filter as it was given, and parsed.
    Filter(RawDocument<'s>, &'s Matcher),
    /// A filter with a wish for an order by distance, as it was given, and parsed. It is no condition that could stand
    /// beside others: what comes of it are other documents, in an order of their own.
    Near(RawDocument<'s>, &'s Matcher),
    /// The pattern as it was given, and parsed.
    Sort(RawDocument<'s>, &'s SortPattern),
    /// The number of documents to leave out.
    Skip(u64),
    /// The number of documents at most.
    Limit(u64),
}

/// The difference that a stage makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modifies {
    /// The documents stay as they are. There may be fewer, and their order may change.
    Nothing,
    /// Only these top-level fields change. Of one document there may come several, or none.
    Fields(BTreeSet<String>),
    /// All top-level fields but these may change.
    AllBut(BTreeSet<String>),
    /// Other documents come out, or which ones come out depends on how many there are.
    Everything,
}

impl Modifies {
    /// Whether a filter that reads these fields asks the same before the stage as behind it.
    pub(super) fn spares(&self, read: &BTreeSet<String>) -> bool {
        match self {
            Modifies::Nothing => true,
            Modifies::Fields(changed) => changed.is_disjoint(read),
            Modifies::AllBut(kept) => read.is_subset(kept),
            Modifies::Everything => false,
        }
    }
}

/// The part of its input that a stage needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// The fields added, and nothing else of the input reaches later stages.
    Only,
    /// The fields added, and later stages may see the rest.
    Passes,
    /// The whole document.
    Everything,
}

/// The top-level fields of which a stage makes documents.
#[derive(Debug)]
pub struct Picks {
    /// Those that come out under their names, whole or in part.
    pub taken: BTreeSet<String>,
    /// Those that others are computed of.
    pub read: BTreeSet<String>,
}

/// The order in which fields stand in what goes into a stage, as it is seen in what comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOrder {
    /// Documents that come out may have it; values that are made do not, unless the stage reads everything.
    Passes,
    /// Nothing that comes out has it.
    Hidden,
    /// Values that are made may have it.
    Shown,
}

/// The field that a path sets as a whole.
pub(super) fn own_field(path: &FieldPath) -> Option<String> {
    path.is_top_level().then(|| path.first().to_owned())
}

/// The list that one stage is.
pub(super) fn one(stage: impl Stage + 'static) -> Stages {
    vec![Arc::new(stage)]
}
