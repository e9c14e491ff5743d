//! Changes of documents on their way to the destination, applied so that a change may come twice, and may come to documents that are newer already.
//!
//! A document that was inserted or replaced is put as the change has it, one that was updated as the source has it by now; what happened to it since then comes
//! behind, and brings it to the same end. One that is gone by now is left to the change that says so. A unique index may meanwhile refuse what it takes
//! a change later: such documents are looked at again behind each batch.
//!
//! Everything goes by the number of the collection: its names are asked for when something is sent or looked up.

use std::collections::{HashMap, HashSet};

use quarry_bson::{RawDocument, Value, doc};
use quarry_client::Connection;

use super::places::{Place, Places};
use crate::definition::{self, Uuid};
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::statements::{Verb, append_delete, append_put, key, send};

/// Statements that go together.
const STATEMENTS_BYTES: usize = 4 << 20;
const STATEMENTS_MAX: usize = 10_000;
/// Documents that are looked up together, and held until it is certain of which collection they are.
const LOOKED_UP_MAX: usize = 1000;
const LOOKED_UP_BYTES: usize = 16 << 20;
/// How often a collection may be renamed while a document is looked up.
const RENAMES_MAX: usize = 20;
/// Codes of a cursor whose collection has been dropped or renamed.
pub const KILLED: [i32; 3] = [43, 175, 237];
/// Documents that a unique index refuses for now.
const PENDING_MAX: usize = 100_000;

/// The connections to both sides.
pub struct Sides {
    pub source: Connection,
    pub destination: Connection,
}

/// Documents of a collection and what is to become of them; and those that wait for a unique index.
#[derive(Default)]
pub struct Documents {
    open: Option<Statements>,
    /// By collection and `_id`, as bytes.
    pending: HashMap<(Uuid, Vec<u8>), Value>,
}

/// Statements for one collection that have not been sent.
struct Statements {
    uuid: Uuid,
    verb: Verb,
    bytes: Vec<u8>,
    ids: Vec<Value>,
    /// Documents that are to be put as the source has them by now.
    looked_up: Vec<Value>,
}

impl Documents {
    /// Puts a document.
    pub fn put(
        &mut self,
        sides: &mut Sides,
        places: &Places,
        uuid: Uuid,
        id: Value,
        document: RawDocument<'_>,
    ) -> Result<()> {
        let statements = self.statements(sides, places, uuid, Verb::Put)?;
        append_put(&id, document, &mut statements.bytes);
        statements.ids.push(id);
        Ok(())
    }

    /// Puts a document as the source has it when it is sent.
    pub fn look_up(
        &mut self,
        sides: &mut Sides,
        places: &Places,
        uuid: Uuid,
        id: Value,
    ) -> Result<()> {
        let statements = self.statements(sides, places, uuid, Verb::Put)?;
        statements.looked_up.push(id);
        Ok(())
    }

    /// Deletes a document.
    pub fn delete(
        &mut self,
        sides: &mut Sides,
        places: &Places,
        uuid: Uuid,
        id: Value,
    ) -> Result<()> {
        let statements = self.statements(sides, places, uuid, Verb::Delete)?;
        append_delete(&id, &mut statements.bytes);
        statements.ids.push(id);
        Ok(())
    }

    /// Forgets what waits for a collection that is gone.
    pub fn forget(&mut self, uuid: &Uuid) {
        self.pending.retain(|(of, _), _| of != uuid);
    }

    /// The statements that the next one joins; others are sent first.
    fn statements(
        &mut self,
        sides: &mut Sides,
        places: &Places,
        uuid: Uuid,
        verb: Verb,
    ) -> Result<&mut Statements> {
        let joins = self.open.as_ref().is_some_and(|open| {
            open.uuid == uuid
                && open.verb == verb
                && open.bytes.len() < STATEMENTS_BYTES
                && open.ids.len() < STATEMENTS_MAX
                && open.looked_up.len() < LOOKED_UP_MAX
        });
        if !joins {
            self.flush(sides, places)?;
        }
        Ok(self.open.get_or_insert_with(|| Statements {
            uuid,
            verb,
            bytes: Vec::new(),
            ids: Vec::new(),
            looked_up: Vec::new(),
        }))
    }

    /// Sends what has been gathered.
    pub fn flush(&mut self, sides: &mut Sides, places: &Places) -> Result<()> {
        // After an error the changes come again, from behind the last batch that was applied.
        let Some(statements) = self.open.take() else {
            return Ok(());
        };
        let Some(place) = places.get(&statements.uuid) else {
            return Ok(());
        };
        let Statements {
            uuid,
            verb,
            bytes,
            ids,
            looked_up,
        } = statements;
        let mut refused = send(&mut sides.destination, &place.to, verb, &bytes, &ids)?;
        // What is looked up is newer than what the changes have.
        refused.extend(put_as_it_is(sides, &uuid, place, looked_up)?);
        for id in refused {
            self.wait_for(uuid, id, &place.to)?;
        }
        self.look_again(sides, places)
    }

    fn wait_for(&mut self, uuid: Uuid, id: Value, to: &Namespace) -> Result<()> {
        self.pending.insert((uuid, key(&id)), id);
        match self.pending.len() > PENDING_MAX {
            true => Err(Error::Incomplete(format!(
                "a unique index of `{to}` refuses more than {PENDING_MAX} documents"
            ))),
            false => Ok(()),
        }
    }

    /// The documents that wait, by their collections.
    fn waiting(&self) -> HashMap<Uuid, Vec<Value>> {
        let mut waiting: HashMap<Uuid, Vec<Value>> = HashMap::new();
        for ((uuid, _), id) in &self.pending {
            waiting.entry(*uuid).or_default().push(id.clone());
        }
        waiting
    }

    /// Puts documents that a unique index has refused as the source has them now. After an error all of them wait still.
    fn look_again(&mut self, sides: &mut Sides, places: &Places) -> Result<()> {
        let mut left = HashMap::new();
        for (uuid, ids) in self.waiting() {
            let Some(place) = places.get(&uuid) else {
                continue;
            };
            for ids in ids.chunks(LOOKED_UP_MAX) {
                for id in put_as_it_is(sides, &uuid, place, ids.to_vec())? {
                    left.insert((uuid, key(&id)), id);
                }
            }
        }
        self.pending = left;
        Ok(())
    }

    /// Sends what is left, and makes room for documents that a unique index refuses: they are removed together and put again, so that
    /// two that have exchanged their values do not wait for each other.
    pub fn settle(&mut self, sides: &mut Sides, places: &Places) -> Result<()> {
        self.flush(sides, places)?;
        for (uuid, ids) in self.waiting() {
            let Some(place) = places.get(&uuid) else {
                continue;
            };
            for ids in ids.chunks(LOOKED_UP_MAX) {
                let mut bytes = Vec::new();
                ids.iter().for_each(|id| append_delete(id, &mut bytes));
                send(&mut sides.destination, &place.to, Verb::Delete, &bytes, ids)?;
            }
        }
        self.look_again(sides, places)
    }

    /// A document that a unique index refuses still, because of another one whose change has not come yet.
    pub fn refused(&self, places: &Places) -> Option<String> {
        let ((uuid, _), id) = self.pending.iter().next()?;
        let to = &places.get(uuid)?.to;
        Some(format!(
            "a unique index of `{to}` refuses the document of _id {id}"
        ))
    }
}

/// Puts the documents of a collection as the source has them now; the ids of those that a unique index refuses. Those that the source has no more are left.
fn put_as_it_is(
    sides: &mut Sides,
    uuid: &Uuid,
    place: &Place,
    ids: Vec<Value>,
) -> Result<Vec<Value>> {
    let mut left: HashMap<Vec<u8>, Value> = ids.into_iter().map(|id| (key(&id), id)).collect();
    let mut from = place.from.clone();
    let mut refused = Vec::new();
    let mut renames = 0;
    while !left.is_empty() {
        let found = find(&mut sides.source, &from, left.values())?;
        // Only a collection that has the name still had it while it was read.
        let Some(name) = definition::name_of(&mut sides.source, uuid, &from)? else {
            break;
        };
        let found = match found {
            Some(found) if name == from => found,
            _ if renames == RENAMES_MAX => {
                let what = format!("`{from}` is renamed again and again");
                return Err(Error::Incomplete(what));
            }
            _ => {
                renames += 1;
                from = name;
                continue;
            }
        };
        refused.extend(send(
            &mut sides.destination,
            &place.to,
            Verb::Put,
            &found.statements,
            &found.ids,
        )?);
        let found_ids: HashSet<Vec<u8>> = found.ids.iter().map(key).collect();
        left.retain(|id, _| !found_ids.contains(id));
        if found.is_all || found_ids.is_empty() {
            break;
        }
    }
    Ok(refused)
}

/// Documents that have been looked up, as statements that put them.
struct Found {
    statements: Vec<u8>,
    ids: Vec<Value>,
    /// Whether there are no others of those that were looked for.
    is_all: bool,
}

/// Looks documents up by their ids, until they are large; none where the collection was renamed meanwhile.
fn find<'i>(
    source: &mut Connection,
    from: &Namespace,
    ids: impl Iterator<Item = &'i Value>,
) -> Result<Option<Found>> {
    let ids: Value = ids.cloned().collect();
    let find = doc! { "find": (from.collection.as_str()), "filter": { "_id": { "$in": ids } } };
    let failed = Error::server(from);
    let mut found = Found {
        statements: Vec::new(),
        ids: Vec::new(),
        is_all: true,
    };
    let mut cursor = source.cursor(&from.database, &find).map_err(&failed)?;
    loop {
        match cursor.advance() {
            Ok(true) => {}
            Ok(false) => return Ok(Some(found)),
            Err(error) if error.code().is_some_and(|code| KILLED.contains(&code)) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        }
        for document in cursor.batch() {
            if found.statements.len() >= LOOKED_UP_BYTES {
                found.is_all = false;
                return Ok(Some(found));
            }
            let id = document.get("_id").map_or_else(Value::null, Value::from);
            append_put(&id, document, &mut found.statements);
            found.ids.push(id);
        }
    }
}
