//! Filters moved to the front of a pipeline, as far as they ask the same there: fewer documents go through the stages behind
//! them, and one that comes to the head of the pipeline is served by an index.
//!
//! The conditions of a filter, those of its `$and`s among them, move one by one. One that asks for a field that a stage has given
//! another name asks for the field by its old name in front of the stage, and so does one that asks for the key of a `$group`. A stage
//! that the condition cannot pass may still take a copy of it (`InFront`): one in front of a `$redact`, one within a `$unionWith`.
//! Filters that meet become one. Nothing else changes its place. As with MongoDB, a filter that has moved may leave out documents of which a stage would have made an
//! error.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::chance::draws_lots;
use super::match_stage::of_filter;
use super::renamed;
use super::stage::{InFront, Modifies, PartOfFind, Stage};
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::interrupts;
use crate::matcher::Matcher;

/// How many stages the conditions of a pipeline are moved past, all together. Those behind that stay where they are: a request
/// may have a thousand stages and very many conditions.
const STEPS_MAX: usize = 100_000;

/// The bytes of conditions that are copied, all together.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// A stage that takes a filter behind it into its own takes none of more conditions: its own is copied for each.
pub(super) const CONDITIONS_MAX: usize = 100;

/// The work of looking past a stage, beside that of comparing the fields.
const UNITS_OF_A_STEP: usize = 10;

/// The stages with their filters moved forward.
pub(super) fn filters_forward(
    stages: Vec<Arc<dyn Stage>>,
    context: &ExpressionContext,
) -> Result<Vec<Arc<dyn Stage>>> {
    // A filter at the head is where it should be; most pipelines have no other one.
    if !stages.iter().skip(1).any(is_filter) {
        return Ok(stages);
    }
    let mut moving = Moving::default();
    for stage in stages {
        moving.add(stage, context)?;
    }
    moving.finish(context)
}

fn is_filter(stage: &Arc<dyn Stage>) -> bool {
    matches!(stage.part_of_find(), PartOfFind::Filter(..))
}

/// The stages that were looked at.
#[derive(Default)]
struct Moving {
    places: Vec<Place>,
    steps: usize,
    copied_bytes: usize,
}

/// A stage, and the conditions that were moved in front of it.
struct Place {
    before: Vec<Document>,
    /// None where there are conditions only.
    stage: Option<Arc<dyn Stage>>,
    /// Conditions for the end of the pipeline that the stage runs by itself.
    within: Vec<Document>,
    /// Asked of the stage once.
    modifies: OnceCell<Modifies>,
}

/// A condition of a filter.
pub(super) struct Condition {
    pub filter: Document,
    /// The fields that it reads; None if it may not be moved.
    pub read: Option<BTreeSet<String>>,
}

impl Condition {
    fn of(filter: Document, context: &ExpressionContext) -> Result<Condition> {
        let mut read = BTreeSet::new();
        let matcher = Matcher::parse_query(filter.as_raw(), context)?;
        let is_known = matcher.add_fields_read(&mut read);
        let may_move = is_known && !draws_lots(RawValue::Document(filter.as_raw()));
        Ok(Condition {
            read: may_move.then_some(read),
            filter,
        })
    }
}

/// A condition where it does not move any further.
struct Stopped {
    filter: Document,
    /// The place that it stands in front of.
    target: usize,
    /// A copy that moves on from a place.
    copy: Option<(Condition, usize)>,
}

/// The way of a condition past one stage.
enum Past {
    Stays,
    /// It passes as it is.
    Unchanged,
    /// It passes as another one.
    Renamed(Condition),
    /// It stays, and this copy passes.
    Copied(Condition),
}

impl Moving {
    fn add(&mut self, stage: Arc<dyn Stage>, context: &ExpressionContext) -> Result<()> {
        let mut conditions = Vec::new();
        match stage.part_of_find() {
            PartOfFind::Filter(filter, _) if !self.places.is_empty() => {
                add_conditions(filter, context, &mut conditions)?;
            }
            _ => {
                self.places.push(Place::new(Vec::new(), Some(stage)));
                return Ok(());
            }
        }
        let (count, mut staying) = (conditions.len(), Vec::new());
        for condition in conditions {
            let mut moving = Some((condition, self.places.len()));
            while let Some((condition, from)) = moving {
                let stopped = self.stop(condition, from, context)?;
                match self.places.get_mut(stopped.target) {
                    Some(place) => place.before.push(stopped.filter),
                    None => staying.push(stopped.filter),
                }
                moving = stopped.copy;
            }
        }
        if staying.len() == count {
            self.places.push(Place::new(Vec::new(), Some(stage)));
        } else if !staying.is_empty() {
            self.places.push(Place::new(staying, None));
        }
        Ok(())
    }

    /// The first place from which on all stages up to `from` let the condition pass, behind the filters that are there already. On its way
    /// there the condition takes the names that fields have in front of the stages.
    fn stop(
        &mut self,
        mut condition: Condition,
        from: usize,
        context: &ExpressionContext,
    ) -> Result<Stopped> {
        let (mut target, mut copy) = (from, None);
        while target > 0
            && self.steps < STEPS_MAX
            && let Some(read) = &condition.read
        {
            let place = &self.places[target - 1];
            interrupts::work(UNITS_OF_A_STEP + place.fields_compared(read))?;
            self.steps += 1;
            if !place.spares(read) {
                match self.past(target - 1, &condition, context)? {
                    Past::Stays => break,
                    Past::Unchanged => {}
                    Past::Renamed(renamed) => condition = renamed,
                    Past::Copied(copied) => {
                        copy = Some((copied, target - 1));
                        break;
                    }
                }
            }
            target -= 1;
        }
        while self.places.get(target).is_some_and(Place::is_filter) {
            target += 1;
        }
        Ok(Stopped {
            filter: condition.filter,
            target,
            copy,
        })
    }

    /// The way of a condition past a stage that changes what it reads.
    fn past(
        &mut self,
        place: usize,
        condition: &Condition,
        context: &ExpressionContext,
    ) -> Result<Past> {
        let place = &mut self.places[place];
        let Some(read) = &condition.read else {
            return Ok(Past::Stays);
        };
        if let Some(renamed) = place.rename(&condition.filter, read)? {
            return Ok(Past::Renamed(renamed));
        }
        let filter = condition.filter.as_raw();
        let in_front = match &place.stage {
            Some(stage) => stage.in_front(filter, context)?,
            None => InFront::Nothing,
        };
        let copied_bytes = self.copied_bytes + filter.len_bytes();
        Ok(match in_front {
            InFront::Nothing => Past::Stays,
            _ if copied_bytes > COPIED_BYTES_MAX => Past::Stays,
            InFront::Moved(moved) => {
                self.copied_bytes = copied_bytes;
                Past::Renamed(Condition::of(moved, context)?)
            }
            InFront::Copied(copy) => {
                self.copied_bytes = copied_bytes;
                Past::Copied(Condition::of(copy, context)?)
            }
            InFront::Both => {
                self.copied_bytes = copied_bytes;
                place.within.push(condition.filter.clone());
                Past::Unchanged
            }
        })
    }

    /// The stages, with what stands side by side of filters made one.
    fn finish(self, context: &ExpressionContext) -> Result<Vec<Arc<dyn Stage>>> {
        let (mut stages, mut filters) = (Vec::new(), Vec::new());
        let others = self
            .places
            .iter()
            .filter(|place| !place.is_filter())
            .count();
        for place in self.places {
            let within = place.within.into_iter().map(Filter::Condition).collect();
            filters.extend(place.before.into_iter().map(Filter::Condition));
            match place.stage {
                Some(filter) if is_filter(&filter) => filters.push(Filter::Stage(filter)),
                Some(stage) => {
                    stages.extend(all_of(std::mem::take(&mut filters), context)?);
                    stages.push(filtered_within(stage, within, context)?);
                }
                None => {}
            }
        }
        stages.extend(all_of(filters, context)?);
        debug_assert_eq!(
            stages.iter().filter(|stage| !is_filter(stage)).count(),
            others,
            "a stage that is no filter came or went"
        );
        Ok(stages)
    }
}

/// The stage with the filters at the end of the pipeline that it runs by itself.
fn filtered_within(
    stage: Arc<dyn Stage>,
    filters: Vec<Filter>,
    context: &ExpressionContext,
) -> Result<Arc<dyn Stage>> {
    let Some(filter) = all_of(filters, context)? else {
        return Ok(stage);
    };
    let PartOfFind::Filter(filter, _) = filter.part_of_find() else {
        return Ok(stage);
    };
    let filtered = stage.with_filter_within(filter, context)?;
    Ok(filtered.expect("a stage takes the filters that it lets pass"))
}

/// A filter, or a condition that was taken out of one.
pub(super) enum Filter {
    Stage(Arc<dyn Stage>),
    Condition(Document),
}

/// One stage for filters that stand side by side.
pub(super) fn all_of(
    mut filters: Vec<Filter>,
    context: &ExpressionContext,
) -> Result<Option<Arc<dyn Stage>>> {
    if filters.len() < 2 {
        return filters
            .pop()
            .map(|only| only.into_stage(context))
            .transpose();
    }
    let all = Document::build(|out| {
        let mut clauses = out.array("$and");
        for filter in &filters {
            clauses.push(filter.as_raw());
        }
        clauses.finish();
    });
    // An `$and` is one level deeper than its clauses, which may be as deep as filters can be. Side by side they are not.
    let merged = of_filter(all, context).or_else(|_| {
        let side_by_side = Document::build(|out| {
            for condition in filters.iter().flat_map(|filter| filter.as_raw().iter()) {
                out.append_element(condition);
            }
        });
        of_filter(side_by_side, context)
    });
    merged.map(Some)
}

impl Filter {
    fn as_raw(&self) -> RawDocument<'_> {
        match self {
            Filter::Condition(filter) => filter.as_raw(),
            Filter::Stage(stage) => match stage.part_of_find() {
                PartOfFind::Filter(filter, _) => filter,
                _ => RawDocument::EMPTY,
            },
        }
    }

    fn into_stage(self, context: &ExpressionContext) -> Result<Arc<dyn Stage>> {
        match self {
            Filter::Stage(stage) => Ok(stage),
            Filter::Condition(filter) => of_filter(filter, context),
        }
    }
}

impl Place {
    fn new(before: Vec<Document>, stage: Option<Arc<dyn Stage>>) -> Place {
        Place {
            before,
            stage,
            within: Vec::new(),
            modifies: OnceCell::new(),
        }
    }

    fn spares(&self, read: &BTreeSet<String>) -> bool {
        let Some(stage) = &self.stage else {
            return true;
        };
        self.modifies.get_or_init(|| stage.modifies()).spares(read)
    }

    /// The condition as it is asked in front of the stage, if the stage has only given other names to the fields that the condition
    /// reads and the stage changes.
    fn rename(&self, filter: &Document, read: &BTreeSet<String>) -> Result<Option<Condition>> {
        let renames = match &self.stage {
            Some(stage) => stage.renames(),
            None => return Ok(None),
        };
        let old_name = |name: &str| renames.iter().find(|(new, _)| *new == name);
        let left: BTreeSet<String> = (read.iter())
            .filter(|name| old_name(name).is_none())
            .cloned()
            .collect();
        interrupts::work(renames.len() * read.len())?;
        if left.len() == read.len() || !self.spares(&left) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut out = DocumentBuilder::new(&mut bytes);
        let rename = |path: &str| {
            let (first, rest) = path.split_at(path.find('.').unwrap_or(path.len()));
            Some(match old_name(first) {
                Some((_, old)) => format!("{old}{rest}"),
                None => path.to_owned(),
            })
        };
        if !renamed::append(filter.as_raw(), &rename, &mut out)? {
            return Ok(None);
        }
        out.finish();
        let renamed = read.iter().map(|name| match old_name(name) {
            Some((_, old)) => (*old).to_owned(),
            None => name.clone(),
        });
        Ok(Some(Condition {
            read: Some(renamed.collect()),
            filter: RawDocument::new(&bytes)?.to_owned_document(),
        }))
    }

    /// How many names `spares` compares.
    fn fields_compared(&self, read: &BTreeSet<String>) -> usize {
        match self.modifies.get() {
            Some(Modifies::Fields(fields) | Modifies::AllBut(fields)) => {
                fields.len().min(read.len())
            }
            _ => 0,
        }
    }

    fn is_filter(&self) -> bool {
        self.stage.as_ref().is_none_or(is_filter)
    }
}

/// Adds the conditions that a filter is the conjunction of. Recursion is as deep as the filter, which was parsed.
pub(super) fn add_conditions(
    filter: RawDocument<'_>,
    context: &ExpressionContext,
    conditions: &mut Vec<Condition>,
) -> Result<()> {
    for element in filter {
        match element.value() {
            RawValue::Array(clauses) if element.name() == "$and" => {
                for clause in clauses.iter().filter_map(|clause| clause.as_document()) {
                    add_conditions(clause, context, conditions)?;
                }
            }
            _ => {
                let condition = Document::build(|out| {
                    out.append_element(element);
                });
                conditions.push(Condition::of(condition, context)?);
            }
        }
    }
    Ok(())
}
