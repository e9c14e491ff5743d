//! Restoring an archive: one pass, with a batch open for each collection whose documents come. The oplog comes behind all of them.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use quarry_bson::RawDocument;

use super::packed_file::{Packing, open};
use super::{Plan, Restorer};
use crate::archive::{Entry, Event, Reader, oplog_name};
use crate::error::{Error, Result};
use crate::metadata;
use crate::namespaces::Namespace;
use crate::progress::Progress;

/// The destination of a block's documents.
#[derive(Clone, Copy)]
enum Place {
    LeftOut,
    /// They are of the collection of the plan.
    Plan(usize),
    /// They are entries that are applied.
    Oplog,
}

/// By the names that blocks have, what becomes of their documents.
type Places = HashMap<Namespace, Place>;

/// A restore of an archive under way.
struct Input<'a, 'o> {
    restorer: Restorer<'o>,
    name: &'a str,
    plans: &'a [Plan],
    places: &'a Places,
    /// The block that is being read, and what becomes of its documents.
    current: Option<(Namespace, Place)>,
    /// The document that has been read, unless it is in its collection's batch.
    scratch: Vec<u8>,
}

/// Restores the archive.
pub fn restore(mut restorer: Restorer<'_>, path: &Path) -> Result<()> {
    let (reader, bytes) = open(path, Packing::ByContent)?;
    let name = path.display().to_string();
    let (mut archive, entries) = Reader::begin(reader, &name)?;
    let (plans, places) = self::plans(&restorer, entries, &name)?;
    restorer.progress = Progress::of_bytes("restore", bytes);
    restorer.make_collections(&plans)?;
    let mut input = Input {
        restorer,
        name: &name,
        plans: &plans,
        places: &places,
        current: None,
        scratch: Vec::new(),
    };
    while input.read(&mut archive)? {}
    let mut restorer = input.restorer;
    if let Some(path) = &restorer.options.oplog_file {
        restorer.apply_file(path)?;
    }
    restorer.finish(&plans)
}

impl<'a> Input<'a, '_> {
    /// Reads on; false at the end.
    fn read(&mut self, archive: &mut Reader<impl Read>) -> Result<bool> {
        // A document is read into its collection's batch: which one it is, the block before it has told.
        let plan = self.plan();
        let (event, start) = match plan {
            Some(plan) => {
                let batch = self.restorer.batch(plan);
                let start = batch.documents.len();
                (archive.next(&mut batch.documents)?, start)
            }
            None => {
                self.scratch.clear();
                (archive.next(&mut self.scratch)?, 0)
            }
        };
        match event {
            Event::Document(namespace) => self.document(namespace, plan, start, archive)?,
            Event::EndOf(namespace) => {
                if let Some(Place::Plan(place)) = self.places.get(&namespace) {
                    self.restorer.send(&self.plans[*place].from)?;
                }
                self.current = None;
            }
            Event::End => return Ok(false),
        }
        Ok(true)
    }

    /// The plan of the block that is being read.
    fn plan(&self) -> Option<&'a Plan> {
        match self.current {
            Some((_, Place::Plan(place))) => Some(&self.plans[place]),
            _ => None,
        }
    }

    /// Takes a document of a block. It stands behind `start` in the batch of the plan of the block before, or in the scratch.
    fn document(
        &mut self,
        namespace: Namespace,
        before: Option<&Plan>,
        start: usize,
        archive: &Reader<impl Read>,
    ) -> Result<()> {
        let is_current = |(current, _): &&(Namespace, Place)| *current == namespace;
        let known = self.current.as_ref().filter(is_current);
        match (known, before) {
            (Some((_, Place::Oplog)), _) => self.apply(archive),
            (Some(_), Some(plan)) => self.restorer.note(plan, start),
            (Some(_), None) => Ok(()),
            (None, before) => {
                let place = place_of(self.places, &namespace, self.name)?;
                self.current = Some((namespace, place));
                self.move_document(before, start, place)?;
                if let Place::Oplog = place {
                    self.apply(archive)?;
                }
                self.restorer.bound_open()
            }
        }
    }

    /// Moves a block's first document, which was read into the batch of the block before, to where it belongs.
    fn move_document(&mut self, before: Option<&Plan>, start: usize, place: Place) -> Result<()> {
        if let Some(before) = before {
            self.scratch.clear();
            let batch = self.restorer.batch(before);
            self.scratch.extend_from_slice(&batch.documents[start..]);
            batch.documents.truncate(start);
        }
        let Place::Plan(place) = place else {
            return Ok(());
        };
        let plan = &self.plans[place];
        let batch = self.restorer.batch(plan);
        let start = batch.documents.len();
        batch.documents.extend_from_slice(&self.scratch);
        self.restorer.note(plan, start)
    }

    /// Applies an entry of the oplog, which must stand behind all documents.
    fn apply(&mut self, archive: &Reader<impl Read>) -> Result<()> {
        let damaged = |what: String| Error::damaged(format_args!("`{}`", self.name), what);
        if let Some(awaited) = archive.awaited(&oplog_name()) {
            return Err(damaged(format!(
                "the oplog stands before the end of `{awaited}`: without --oplogReplay it is left out"
            )));
        }
        let entry = RawDocument::new(&self.scratch).map_err(|error| damaged(error.to_string()))?;
        self.restorer.apply(entry)
    }
}

/// The plans of the prelude's collections.
fn plans(restorer: &Restorer<'_>, entries: Vec<Entry>, name: &str) -> Result<(Vec<Plan>, Places)> {
    let mut plans = Vec::new();
    let mut places = HashMap::new();
    let mut has_oplog = false;
    for entry in entries {
        let name_of_blocks = entry.name_of_blocks();
        if entry.namespace == oplog_name() {
            has_oplog = true;
            let place = match restorer.takes_oplog() {
                true => Place::Oplog,
                false => Place::LeftOut,
            };
            places.insert(name_of_blocks, place);
            continue;
        }
        // What is left out may well be of a kind that cannot be restored.
        if !restorer.takes(&entry.namespace) {
            places.insert(name_of_blocks, Place::LeftOut);
            continue;
        }
        let place = format!("`{name}`: metadata of `{}`", entry.namespace);
        let collection = &entry.namespace.collection;
        let mut definition = metadata::from_text(&entry.metadata, collection, &place)?;
        // The prelude's name is the one that blocks have.
        definition.name.clone_from(collection);
        let plan = restorer.plan(entry.namespace.clone(), definition, None)?;
        let place = match plan {
            Some(_) => Place::Plan(plans.len()),
            None => Place::LeftOut,
        };
        places.insert(name_of_blocks, place);
        plans.extend(plan);
    }
    restorer.check_oplog(has_oplog, name)?;
    Ok((plans, places))
}

fn place_of(places: &Places, namespace: &Namespace, name: &str) -> Result<Place> {
    places.get(namespace).copied().ok_or_else(|| {
        let what = format!("`{namespace}` has documents and stands in no prelude");
        Error::damaged(format_args!("`{name}`"), what)
    })
}
