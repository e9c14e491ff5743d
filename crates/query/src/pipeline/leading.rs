//! The head of a pipeline, as a find of its collection, so that an index can serve it: the stages that a find does
//! as well, and the fields that anything reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::RawDocument;

use super::fields_read::fields_read;
use super::parsed::Pipeline;
use super::stage::{PartOfFind, Reads, Stage};
use super::stages::metadata_not_here;
use crate::error::Result;
use crate::field_path::FieldPath;
use crate::matcher::Matcher;
use crate::metadata::{MetadataKinds, not_available};
use crate::sort::SortPattern;

/// The head of a pipeline as a find: `$match`, `$sort`, `$skip`, `$limit`, each at most once and in this order.
/// Run the rest with `Pipeline::start_at(leading.stages)`.
#[derive(Debug, Default)]
pub struct Leading<'p> {
    /// The filter as it was given.
    pub filter: Option<RawDocument<'p>>,
    /// The filter, parsed.
    pub matcher: Option<&'p Matcher>,
    /// The order that is asked for.
    pub sort: Option<&'p SortPattern>,
    /// The sort as it was given.
    pub sort_specification: Option<RawDocument<'p>>,
    /// Documents to leave out.
    pub skip: Option<u64>,
    /// Documents at most.
    pub limit: Option<u64>,
    /// How many stages are told here.
    pub stages: usize,
}

impl Pipeline {
    /// Looks how many of the first stages a find does as well.
    pub fn leading(&self) -> Leading<'_> {
        let mut leading = Leading::default();
        for stage in &self.stages {
            let bounded = leading.skip.is_some() || leading.limit.is_some();
            match stage.part_of_find() {
                PartOfFind::Filter(filter, matcher) | PartOfFind::Near(filter, matcher)
                    if leading.stages == 0 =>
                {
                    leading.filter = Some(filter);
                    leading.matcher = Some(matcher);
                }
                PartOfFind::Sort(specification, pattern) if leading.sort.is_none() && !bounded => {
                    leading.sort = Some(pattern);
                    leading.sort_specification = Some(specification);
                }
                PartOfFind::Skip(count) if !bounded => leading.skip = Some(count),
                PartOfFind::Limit(count) if leading.limit.is_none() => leading.limit = Some(count),
                _ => break,
            }
            leading.stages += 1;
        }
        leading
    }

    /// The path of whose values, behind the stages that a find does, nothing is asked but which ones there are, or, where these stages
    /// sort, nothing but the first document of each.
    pub fn values_grouped(&self, leading: &Leading<'_>) -> Option<&FieldPath> {
        let is_all = leading.skip.is_none() && leading.limit.is_none();
        let next = self.stages.get(leading.stages).filter(|_| is_all)?;
        match leading.sort {
            None => next.values_grouped(),
            Some(_) => next.firsts_grouped(),
        }
    }

    /// The metadata that the documents must come with, behind the stages that a find does. Fails where a stage wants some that it
    /// does not get: another stage has made the document, or has read its metadata already.
    pub fn metadata_wanted(&self, leading: &Leading<'_>) -> Result<MetadataKinds> {
        let asks_score = |stage: &Arc<dyn Stage>| stage.metadata().has(MetadataKinds::TEXT_SCORE);
        let is_search = leading.matcher.is_some_and(|matcher| matcher.texts() > 0);
        if !is_search && self.stages.iter().any(asks_score) {
            return Err(not_available("text score"));
        }
        let rest = self.stages.get(leading.stages..).unwrap_or_default();
        let reads_some = |stage: &Arc<dyn Stage>| !stage.metadata().is_empty();
        let Some(reader) = rest.iter().position(reads_some) else {
            return Ok(MetadataKinds::NONE);
        };
        let wanted = rest[reader].metadata();
        let is_passed_on = rest[..reader]
            .iter()
            .all(|stage| passes_metadata(stage, wanted));
        match is_passed_on && !rest[reader + 1..].iter().any(reads_some) {
            true => Ok(wanted),
            false => Err(metadata_not_here()),
        }
    }

    /// Like `required_fields`, as paths.
    pub fn paths_read(&self, first: usize) -> Option<Vec<FieldPath>> {
        let fields = self.required_fields(first)?;
        let paths = fields.iter().map(|field| FieldPath::parse(field).ok());
        paths.collect()
    }

    /// The top-level fields of its input that the pipeline needs from stage `first` on; None if it needs all.
    pub fn required_fields(&self, first: usize) -> Option<BTreeSet<String>> {
        fields_read(self.stages.get(first..)?)
    }
}

/// Whether the documents that come out of a stage have the metadata with which they went in, and the stage has seen nothing of it.
/// Filters and bounds come to stand in front of a stage that reads metadata when they are moved there, too.
fn passes_metadata(stage: &Arc<dyn Stage>, wanted: MetadataKinds) -> bool {
    match stage.part_of_find() {
        PartOfFind::Skip(_) | PartOfFind::Limit(_) => true,
        // Metadata is attached to the document, where a filter on all of the document would meet it.
        PartOfFind::Filter(..) => stage.add_fields_read(&mut BTreeSet::new()) == Reads::Passes,
        // The key by which a document was sorted is then another one than the plan has attached.
        PartOfFind::Sort(..) => !wanted.has(MetadataKinds::SORT_KEY),
        PartOfFind::Near(..) | PartOfFind::None => false,
    }
}
