//! `$lookup` with the `$unwind` of its array, and the `$match` of what it has found: a document for each of the other collection's
//! documents as they come, without an array of them. Conditions on these documents are a part of what the other collection is asked, so
//! that an index serves them.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawValue};

use super::equality::both;
use super::execution::{Buffer, Collections, RunningStage, Upstream};
use super::held_prefix::HeldResults;
use super::lookup::Lookup;
use super::nested_field;
use super::read_figures::ReadFigures;
use super::renamed;
use super::reorder::{CONDITIONS_MAX, Filter, add_conditions, all_of};
use super::stage::{Modifies, PartOfFind, Reads, Stage, Stages, Unwound, own_field};
use super::sub_pipeline::OpenPipeline;
use crate::error::Result;
use crate::expression::{ExpressionContext, bounds};
use crate::field_path::FieldPath;

#[derive(Debug)]
pub(super) struct UnwoundLookup {
    lookup: Arc<Lookup>,
    index: Option<FieldPath>,
    preserve: bool,
    /// The conditions on the documents of the other collection.
    matching: Option<Document>,
}

impl UnwoundLookup {
    /// The lookup, whose array is unwound.
    pub fn new(lookup: &Arc<Lookup>, unwound: Unwound<'_>) -> UnwoundLookup {
        debug_assert!(*unwound.path == lookup.output);
        UnwoundLookup {
            lookup: Arc::clone(lookup),
            index: unwound.index.cloned(),
            preserve: unwound.preserve,
            matching: None,
        }
    }

    /// A condition as it is asked of the documents of the other collection, if it asks for their fields alone.
    fn within(&self, condition: RawDocument<'_>) -> Result<Option<Document>> {
        let (mut bytes, output) = (Vec::new(), self.lookup.output.as_str());
        let mut out = DocumentBuilder::new(&mut bytes);
        let inner = |path: &str| {
            let rest = path.strip_prefix(output)?.strip_prefix('.')?;
            Some(rest.to_owned())
        };
        let is_inner = renamed::append(condition, &inner, &mut out)?;
        out.finish();
        match is_inner {
            true => Ok(Some(RawDocument::new(&bytes)?.to_owned_document())),
            false => Ok(None),
        }
    }

    /// The stage that asks these conditions, too.
    fn with_matching(&self, matching: &Document) -> UnwoundLookup {
        let before = self.matching.as_ref().map(Document::as_raw);
        UnwoundLookup {
            lookup: Arc::clone(&self.lookup),
            index: self.index.clone(),
            preserve: self.preserve,
            matching: Some(both(before, Some(matching.as_raw()))),
        }
    }

    /// Appends the document with one of the other collection's, or without any.
    fn write(
        &self,
        document: RawDocument<'_>,
        (found, position): (Option<RawDocument<'_>>, i64),
        scratch: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let output = self.lookup.output.parts();
        let set = |bytes: &mut Vec<u8>| match found {
            Some(found) => nested_field::set(document, output, Some(found.into()), bytes),
            None => without(document, output, bytes),
        };
        let Some(index) = &self.index else {
            set(out);
            return Ok(());
        };
        let position = match found {
            Some(_) => RawValue::Int64(position),
            None => RawValue::Null,
        };
        let unwound = scratch.fill(set)?;
        nested_field::set(unwound, index.parts(), Some(position), out);
        scratch.empty();
        Ok(())
    }
}

/// Appends the document as one whose array is empty is left by `$unwind`: the documents around the array are there.
fn without(document: RawDocument<'_>, output: &[crate::field_path::PathPart], out: &mut Vec<u8>) {
    let mut looked_up = Vec::new();
    let nothing = RawValue::Array(RawArray::from_document(RawDocument::EMPTY));
    nested_field::set(document, output, Some(nothing), &mut looked_up);
    let looked_up = RawDocument::new(&looked_up).unwrap_or(document);
    nested_field::set(looked_up, output, None, out);
}

impl Stage for UnwoundLookup {
    fn name(&self) -> &'static str {
        self.lookup.name()
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        let mut options = out.document(self.name());
        self.lookup.append_options(&mut options);
        if let Some(matching) = &self.matching {
            options.append("let", RawDocument::EMPTY);
            let mut pipeline = options.array("pipeline");
            pipeline.document().append("$match", matching.as_raw());
            pipeline.finish();
        }
        let mut unwinding = options.document("unwinding");
        unwinding.append("preserveNullAndEmptyArrays", self.preserve);
        if let Some(index) = &self.index {
            unwinding.append("includeArrayIndex", index.as_str());
        }
        unwinding.finish();
        options.finish();
    }

    fn depth_within(&self) -> usize {
        self.lookup.depth_within()
    }

    fn add_collections<'s>(&'s self, collections: &mut Vec<&'s str>) {
        self.lookup.add_collections(collections);
    }

    fn modifies(&self) -> Modifies {
        let mut changed = BTreeSet::from([self.lookup.output.first().to_owned()]);
        changed.extend(self.index.as_ref().map(|index| index.first().to_owned()));
        Modifies::Fields(changed)
    }

    fn add_fields_made(&self, fields: &mut BTreeSet<String>) {
        fields.extend(own_field(&self.lookup.output));
        fields.extend(self.index.as_ref().and_then(own_field));
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        self.lookup.add_fields_read(fields)
    }

    /// A filter behind it becomes a part of what the other collection is asked, as far as it asks for that collection's fields, and
    /// leaves out nothing else: a document that stays without one, or the positions of those that are found.
    fn fused(
        self: Arc<Self>,
        next: &dyn Stage,
        context: &ExpressionContext,
    ) -> Result<Option<Stages>> {
        let PartOfFind::Filter(filter, _) = next.part_of_find() else {
            return Ok(None);
        };
        if self.preserve || self.index.is_some() || !self.lookup.is_by_equality() {
            return Ok(None);
        }
        let (mut conditions, mut matching, mut left) = (Vec::new(), Document::new(), Vec::new());
        add_conditions(filter, context, &mut conditions)?;
        if conditions.len() > CONDITIONS_MAX {
            return Ok(None);
        }
        for condition in conditions {
            match self.within(condition.filter.as_raw())? {
                Some(inner) => matching = both(Some(matching.as_raw()), Some(inner.as_raw())),
                None => left.push(Filter::Condition(condition.filter)),
            }
        }
        if matching.is_empty() {
            return Ok(None);
        }
        let mut stages: Stages = vec![Arc::new(self.with_matching(&matching))];
        stages.extend(all_of(left, context)?);
        Ok(Some(stages))
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(LookingUp {
            stage: self,
            document: Buffer::default(),
            opened: None,
            held: HeldResults::default(),
            one: Buffer::default(),
            found: 0,
            scratch: Buffer::default(),
            figures: None,
        })
    }
}

struct LookingUp {
    stage: Arc<UnwoundLookup>,
    /// The document that others are looked up for.
    document: Buffer,
    /// The read of those.
    opened: Option<OpenPipeline>,
    held: HeldResults,
    /// The one that was found last.
    one: Buffer,
    /// How many were found.
    found: i64,
    scratch: Buffer,
    /// Where what it reads is counted.
    figures: Option<Arc<ReadFigures>>,
}

impl RunningStage for LookingUp {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let LookingUp {
            stage,
            document,
            opened,
            held,
            one,
            found,
            scratch,
            figures,
        } = self;
        loop {
            if let Some(read) = opened {
                let other = upstream.counted(figures.as_ref(), |upstream| {
                    one.read(|bytes| read.next(upstream, bytes))
                })?;
                let input = RawDocument::new(document.bytes())?;
                if let Some(other) = other {
                    let depth = stage.lookup.output.parts().len();
                    bounds::check_depth(RawValue::Document(other), depth)?;
                    stage.write(input, (Some(other), *found), scratch, out)?;
                    *found += 1;
                    one.empty();
                    return Ok(true);
                }
                if let Some(read) = opened.take() {
                    read.close(upstream.collections());
                }
                if stage.preserve && *found == 0 {
                    stage.write(input, (None, 0), scratch, out)?;
                    document.empty();
                    return Ok(true);
                }
                document.empty();
            }
            let Some(input) = upstream.read(document)? else {
                return Ok(false);
            };
            *found = 0;
            let matching = stage.matching.as_ref().map(Document::as_raw);
            let read = upstream.counted(figures.as_ref(), |upstream| {
                stage.lookup.open(input, matching, held, upstream)
            });
            *opened = Some(read?);
        }
    }

    fn count_reads(&mut self) -> Option<Arc<ReadFigures>> {
        Some(Arc::clone(self.figures.get_or_insert_default()))
    }

    fn close(&mut self, collections: &mut dyn Collections) {
        if let Some(read) = self.opened.take() {
            read.close(collections);
        }
    }
}
