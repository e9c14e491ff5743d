//! Restoring an archive: one pass, with a batch open for each collection whose documents come.

use std::collections::HashMap;
use std::path::Path;

use super::packed_file::{Packing, open};
use super::{Plan, Restorer};
use crate::archive::{Entry, Event, Reader, TIME_SERIES};
use crate::error::{Error, Result};
use crate::metadata;
use crate::namespaces::Namespace;
use crate::progress::Progress;

/// The collection without a database that has the changes made during a dump.
const OPLOG: &str = "oplog";
const BUCKETS: &str = "system.buckets.";

/// Restores the archive.
pub fn restore(mut restorer: Restorer<'_>, path: &Path) -> Result<()> {
    let (reader, bytes) = open(path, Packing::ByContent)?;
    let name = path.display().to_string();
    let (mut archive, entries) = Reader::begin(reader, &name)?;
    let (plans, places) = self::plans(&restorer, entries, &name)?;
    restorer.progress = Progress::of_bytes("restore", bytes);
    restorer.make_collections(&plans)?;
    let mut left_out = Vec::new();
    let mut current: Option<(Namespace, Option<usize>)> = None;
    loop {
        // A document is read into its collection's batch: which one it is, the block before it has told.
        let plan = current
            .as_ref()
            .and_then(|(_, place)| *place)
            .map(|place| &plans[place]);
        let (event, start) = match plan {
            Some(plan) => {
                let batch = restorer.batch(plan);
                let start = batch.documents.len();
                (archive.next(&mut batch.documents)?, start)
            }
            None => {
                left_out.clear();
                (archive.next(&mut left_out)?, 0)
            }
        };
        match event {
            Event::Document(namespace) => {
                let is_current = current
                    .as_ref()
                    .is_some_and(|(current, _)| *current == namespace);
                if is_current {
                    if let Some(plan) = plan {
                        restorer.note(plan, start)?;
                    }
                    continue;
                }
                let place = places.get(&namespace).copied().ok_or_else(|| {
                    let what = format!("`{namespace}` has documents and stands in no prelude");
                    Error::damaged(format_args!("`{name}`"), what)
                })?;
                move_document(&mut restorer, &plans, plan, start, place, &mut left_out)?;
                current = Some((namespace, place));
                restorer.bound_open()?;
            }
            Event::EndOf(namespace) => {
                restorer.send(&namespace)?;
                current = None;
            }
            Event::End => return restorer.finish(&plans),
        }
    }
}

/// By the names of the dump's collections, the places of their plans; none for one that is left out.
type Places = HashMap<Namespace, Option<usize>>;

/// The plans of the prelude's collections.
fn plans(restorer: &Restorer<'_>, entries: Vec<Entry>, name: &str) -> Result<(Vec<Plan>, Places)> {
    let mut plans = Vec::new();
    let mut places = HashMap::new();
    for entry in entries {
        if entry.kind == TIME_SERIES {
            // Under this name its documents come.
            let buckets = format!("{BUCKETS}{}", entry.namespace.collection);
            let buckets = Namespace::new(&entry.namespace.database, buckets);
            places.insert(buckets, None);
        }
        // What is left out may well be of a kind that cannot be restored.
        if !restorer.takes(&entry.namespace) {
            places.insert(entry.namespace, None);
            continue;
        }
        if entry.namespace.database.is_empty() && entry.namespace.collection == OPLOG {
            restorer.leave_oplog();
            places.insert(entry.namespace, None);
            continue;
        }
        let place = format!("`{name}`: metadata of `{}`", entry.namespace);
        let collection = &entry.namespace.collection;
        let mut definition = metadata::from_text(&entry.metadata, collection, &place)?;
        // The prelude's name is the one that blocks have.
        definition.name.clone_from(collection);
        let plan = restorer.plan(entry.namespace.clone(), definition, None)?;
        let place = plan.as_ref().map(|_| plans.len());
        places.insert(entry.namespace, place);
        plans.extend(plan);
    }
    Ok((plans, places))
}

/// Moves a block's first document, which was read into the batch of the block before, to where it belongs.
fn move_document(
    restorer: &mut Restorer<'_>,
    plans: &[Plan],
    before: Option<&Plan>,
    start: usize,
    place: Option<usize>,
    scratch: &mut Vec<u8>,
) -> Result<()> {
    if let Some(before) = before {
        scratch.clear();
        let batch = restorer.batch(before);
        scratch.extend_from_slice(&batch.documents[start..]);
        batch.documents.truncate(start);
    }
    let Some(place) = place else {
        return Ok(());
    };
    let plan = &plans[place];
    let batch = restorer.batch(plan);
    let start = batch.documents.len();
    batch.documents.extend_from_slice(scratch);
    restorer.note(plan, start)
}
