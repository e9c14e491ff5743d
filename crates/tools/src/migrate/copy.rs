//! The copy of the documents, while the source is written to.

use std::sync::Arc;

use quarry_bson::doc;
use quarry_client::Connection;

use super::documents::KILLED;
use super::{Item, Migration, Rest};
use crate::definition::{self, Kind};
use crate::error::{Error, Result};
use crate::loader::{Loader, Target, Verb};
use crate::namespaces::Namespace;
use crate::progress::Progress;
use crate::server;

/// How often a collection is begun anew because it was renamed.
const ATTEMPTS_MAX: usize = 20;

impl Migration<'_> {
    /// Copies the documents of the items; their number.
    pub(super) fn copy<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i Item> + Clone,
    ) -> Result<u64> {
        let total = items
            .clone()
            .filter_map(|item| definition::count(&mut self.source, &item.from))
            .sum();
        let progress = Progress::of_documents("copy", Some(total));
        let writers = usize::from(self.options.writers);
        let options = self.options;
        let mut copy = Copy {
            source: &mut self.source,
            reader: server::connect(&self.source_settings)?,
            loader: Loader::start(&self.destination_settings, writers)?,
            progress,
            rest: options.rest.as_ref(),
        };
        items.try_fold(0, |copied, item| Ok(copied + copy.collection(item)?))
    }
}

struct Copy<'c> {
    /// Asked for names while the other connection has a cursor.
    source: &'c mut Connection,
    reader: Connection,
    loader: Loader,
    progress: Progress,
    rest: Option<&'c Rest>,
}

impl Copy<'_> {
    /// Copies a collection under the name that it has by now; the number of its documents.
    fn collection(&mut self, item: &Item) -> Result<u64> {
        // A measurement is not known again by its `_id`: a second copy would have it twice.
        let is_series = item.definition.kind == Kind::TimeSeries;
        for _ in 0..ATTEMPTS_MAX {
            let Some(name) = name_of(self.source, item, &item.from)? else {
                // It has been dropped, which comes among the changes.
                return Ok(0);
            };
            match self.read(item, &name) {
                Ok(Some(copied)) => return Ok(copied),
                // It got another name, so that this one may be of another collection. What has been copied is met again, and stays.
                Ok(None) => {}
                Err(Error::Server { why, .. })
                    if !is_series && why.code().is_some_and(|code| KILLED.contains(&code)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Incomplete(format!(
            "`{}` is renamed again and again",
            item.from
        )))
    }

    /// Copies what has the name; none, and nothing is copied, where that is not the item's collection.
    fn read(&mut self, item: &Item, name: &Namespace) -> Result<Option<u64>> {
        let target = Arc::new(Target {
            namespace: item.to.clone(),
            verb: Verb::Insert,
            is_ordered: false,
            is_in_sequence: item.definition.is_capped(),
            gives_back: false,
            // The source's documents are as they are.
            bypasses_validation: true,
        });
        let failed = Error::server(name);
        let find = doc! { "find": (name.collection.as_str()) };
        let mut cursor = self.reader.cursor(&name.database, &find).map_err(&failed)?;
        if name_of(self.source, item, name)?.as_ref() != Some(name) {
            return Ok(None);
        }
        let mut batch = self.loader.batch();
        let mut copied = 0;
        while cursor.advance().map_err(&failed)? {
            self.rest.map_or(Ok(()), Rest::check_stop)?;
            for document in cursor.batch() {
                batch.documents.extend_from_slice(document.as_bytes());
                copied += 1;
                batch.note(copied);
                self.progress.add(document.len_bytes() as u64, 1);
                if batch.is_full() {
                    self.loader.send(&target, std::mem::take(&mut batch))?;
                    batch = self.loader.batch();
                }
            }
        }
        if !batch.is_empty() {
            self.loader.send(&target, batch)?;
        }
        self.loader.wait()?;
        for outcome in self.loader.outcomes() {
            // A document that moved in the source's order is met twice, and is there the second time.
            if let Some(failure) = outcome.failures.iter().find(|failure| !failure.is_same_id) {
                return Err(Error::Incomplete(format!(
                    "`{}`: {}",
                    item.to, failure.message
                )));
            }
        }
        Ok(Some(copied))
    }
}

/// The name that the item's collection has now; none where it has been dropped.
fn name_of(source: &mut Connection, item: &Item, likely: &Namespace) -> Result<Option<Namespace>> {
    match &item.definition.uuid {
        Some(uuid) => definition::name_of(source, uuid, likely),
        None => Ok(Some(item.from.clone())),
    }
}
