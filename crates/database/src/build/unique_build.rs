//! A unique index while it is built: what becomes of a key that another document has.
//!
//! The constraint is checked when the build ends, as in MongoDB. Until then a user's write that makes a duplicate goes
//! through, and the build fails if the duplicate still stands at its end.
//!
//! The index is written in its final form from the start. An entry is put only where its key is free, or its own, and
//! deleted only by the document it names. A document that could not put an entry is *noted*, under the locks of its
//! record and of the key, before its piece is committed. So this holds at any time: an entry names a document that has
//! its key; and a document that a writer or the build has met has an entry for each of its keys, or is noted.
//!
//! The commit that finishes the build holds the collection exclusively. It reads the noted documents again, puts the
//! entries whose keys have become free since, and fails with the first key, in the order of the index, that another
//! document has. Then every document has its entries, and no two share one.
//!
//! Notes are kept in memory with the running build (`noted`): a build does not outlive its process (`builds`). A note too
//! many (the piece was refused after all) costs one read.

use hashbrown::HashMap;
use quarry_bson::RawDocument;
use quarry_storage::WriteBatch;

use crate::build::IndexBuilder;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::error::Result;
use crate::index::entry::split_unique_value;
use crate::index::key_buffer::KeyBuffer;
use crate::index::keys::Target;
use crate::keyspace::ident::Ident;
use crate::snapshot::reads::Reads;
use crate::write::duplicate::duplicate_key;

impl IndexBuilder {
    /// Gives the noted documents their entries, or fails with the first duplicate. The caller holds the collection
    /// exclusively.
    pub(crate) fn settle_noted(
        &self,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        ident: Ident,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let noted = self.parts.builds.noted(ident)?;
        let found = index_catalog.indexes.iter().enumerate();
        let Some((number, index)) = found.into_iter().find(|(_, index)| index.ident == ident)
        else {
            return Ok(());
        };
        let prefix_bytes = collection.prefix.as_bytes().len();
        let mut keys = KeyBuffer::default();
        let mut settled = Settled::default();
        for record_key in noted {
            let own = &record_key[prefix_bytes..];
            let mut document = Vec::new();
            if !self
                .parts
                .reads
                .get_record(&record_key, &mut |bytes| document.extend_from_slice(bytes))?
            {
                continue;
            }
            let document = RawDocument::new(&document)?;
            let target = Target {
                document: 0,
                record_key: own,
                id: document.get("_id").filter(|_| collection.is_clustered()),
            };
            keys.clear();
            let found = index_catalog.keys.extract(document);
            index_catalog
                .keys
                .entries(number, index, &found, target, &mut keys)?;
            for entry in &keys.entries {
                settled.put(
                    &self.parts.reads,
                    own,
                    (keys.key(entry), keys.value(entry)),
                    batch,
                )?;
            }
        }
        match settled.taken {
            Some((key, value)) => Err(duplicate_key(collection, index, &key, &value)),
            None => Ok(()),
        }
    }
}

/// The entries of noted documents.
#[derive(Default)]
struct Settled {
    /// The keys that are put, and the documents they are put for.
    put: HashMap<Vec<u8>, Box<[u8]>>,
    /// The first entry in the order of the index whose key another document has. The notes have no order.
    taken: Option<(Vec<u8>, Vec<u8>)>,
}

impl Settled {
    /// Puts an entry of the document `own` if its key is free.
    fn put(
        &mut self,
        reads: &Reads,
        own: &[u8],
        (key, value): (&[u8], &[u8]),
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let mut owner = self.put.get(key).cloned();
        if owner.is_none() {
            reads.get(key, &mut |value| {
                owner = split_unique_value(value).map(|(owner, _)| owner.into());
            })?;
        }
        match owner {
            Some(owner) if *owner == *own => {}
            Some(_) => {
                if self
                    .taken
                    .as_ref()
                    .is_none_or(|(first, _)| key < first.as_slice())
                {
                    self.taken = Some((key.to_vec(), value.to_vec()));
                }
            }
            None => {
                batch.put(key, value);
                self.put.insert(key.to_vec(), own.into());
            }
        }
        Ok(())
    }
}
