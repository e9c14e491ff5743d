//! Events of a source, applied to the destination.
//!
//! An event may be older than the copy that it comes to, and may come twice: changes of documents say how they bear that (`documents.rs`), and which
//! changes of definitions have been made already is told by where the collections are (`places.rs`).

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, doc};

use super::documents::{Documents, Sides};
use super::places::{Place, Places, Rename};
use crate::definition::{self, Uuid};
use crate::error::{Error, Result};
use crate::namespaces::{Namespace, Selection};
use crate::time_series;

const NAMESPACE_NOT_FOUND: i32 = 26;
const INDEX_NOT_FOUND: i32 = 27;
/// An index of that name or key is there with other options: it was made anew since, and stands as it is by now.
const INDEX_MADE_ANEW: [i32; 2] = [85, 86];

/// Applies events to a destination.
pub struct Applier<'a> {
    selection: &'a Selection,
    sides: Sides,
    places: Places,
    documents: Documents,
    /// Whether events about indexes are applied. Until the copy is of one moment they are not: the source's indexes of that
    /// moment are built then.
    follows_indexes: bool,
}

impl<'a> Applier<'a> {
    pub fn new(selection: &'a Selection, mut sides: Sides, places: Places) -> Applier<'a> {
        sides.destination.keep_empty_timestamps();
        Applier {
            selection,
            sides,
            places,
            documents: Documents::default(),
            follows_indexes: false,
        }
    }

    /// From now on events about indexes are applied.
    pub fn follow_indexes(&mut self) {
        self.follows_indexes = true;
    }

    /// Where the collections are by the events that have been applied.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Applies an event, by and by: `flush` brings it to its end.
    pub fn apply(&mut self, event: RawDocument<'_>) -> Result<()> {
        // An event without a collection says nothing that those of its collections do not say.
        let Some(from) = namespace(event, "ns") else {
            return Ok(());
        };
        let kind = event.get_str("operationType").unwrap_or_default();
        let uuid = uuid(event.get("collectionUUID"));
        match kind {
            "insert" | "replace" | "update" | "delete" => self.change(kind, event, uuid, &from),
            _ => {
                self.flush()?;
                self.define(kind, event, uuid, &from)
            }
        }
    }

    /// Sends what has been gathered.
    pub fn flush(&mut self) -> Result<()> {
        self.documents.flush(&mut self.sides, &self.places)
    }

    /// Sends what is left, and has documents come to rest that a unique index has refused.
    pub fn settle(&mut self) -> Result<()> {
        self.documents.settle(&mut self.sides, &self.places)
    }

    /// A document that has not come to rest.
    pub fn refused(&self) -> Option<String> {
        self.documents.refused(&self.places)
    }

    fn takes(&self, namespace: &Namespace) -> bool {
        let collection = namespace.collection.as_str();
        let is_own = collection.starts_with("system.") && collection != "system.js";
        !is_own && self.selection.takes(namespace)
    }

    fn place(&self, from: &Namespace) -> Result<Place> {
        Ok(Place {
            from: from.clone(),
            to: self.selection.renamed(from)?,
        })
    }

    /// An event without the number of its collection, which only old servers send.
    fn unnumbered(&self, from: &Namespace) -> Result<()> {
        match self.takes(from) {
            true => Err(Error::usage(format!(
                "`{from}`: the source's changes have no collectionUUID, as they have from MongoDB 6.0 on"
            ))),
            false => Ok(()),
        }
    }

    /// Applies an event that is about a document.
    fn change(
        &mut self,
        kind: &str,
        event: RawDocument<'_>,
        uuid: Option<Uuid>,
        from: &Namespace,
    ) -> Result<()> {
        let Some(uuid) = uuid else {
            return self.unnumbered(from);
        };
        // Of a collection that was not chosen, or had gone before the copy.
        if self.places.get(&uuid).is_none() {
            return Ok(());
        }
        let Some(id) = event.get_path("documentKey._id").map(Value::from) else {
            let what = format!("`{from}`: a change of the source does not say of which document");
            return Err(Error::Incomplete(what));
        };
        let (sides, places) = (&mut self.sides, &self.places);
        match (kind, event.get_document("fullDocument")) {
            ("delete", _) => self.documents.delete(sides, places, uuid, id),
            ("insert" | "replace", Some(document)) => {
                self.documents.put(sides, places, uuid, id, document)
            }
            _ => self.documents.look_up(sides, places, uuid, id),
        }
    }

    /// Applies an event that is about a collection.
    fn define(
        &mut self,
        kind: &str,
        event: RawDocument<'_>,
        uuid: Option<Uuid>,
        from: &Namespace,
    ) -> Result<()> {
        let described = event
            .get_document("operationDescription")
            .unwrap_or(RawDocument::EMPTY);
        let known = uuid.and_then(|uuid| Some((uuid, self.places.get(&uuid)?.clone())));
        match (kind, known) {
            ("create", None) => self.create(described, uuid, from),
            ("drop", Some((uuid, place))) => self.drop(&uuid, &place),
            ("drop", None) => self.drop_view(from),
            ("rename", known) => {
                let Some(new) = namespace(event, "to") else {
                    return Ok(());
                };
                match (known, uuid) {
                    (Some((uuid, place)), _) => self.rename(&uuid, &place, from, &new, described),
                    (None, Some(uuid)) => self.rename_of_other(&uuid, from, &new),
                    (None, None) => self.unnumbered(&new),
                }
            }
            // What is known has been made; the indexes of what is not known do not matter.
            ("create", Some(_)) | ("createIndexes" | "dropIndexes", None) => Ok(()),
            ("createIndexes" | "dropIndexes", Some(_)) if !self.follows_indexes => Ok(()),
            ("createIndexes", Some((_, place))) => {
                self.create_indexes(&documents(described, "indexes"), &place.to)
            }
            ("dropIndexes", Some((_, place))) => {
                self.drop_indexes(&documents(described, "indexes"), &place.to)
            }
            ("modify", known) => self.modify(described, known.map(|(_, place)| place.to), from),
            (other, known) if known.is_some() || self.takes(from) => Err(Error::usage(format!(
                "`{from}`: following a change of the kind `{other}` is not supported yet"
            ))),
            _ => Ok(()),
        }
    }

    fn create(
        &mut self,
        options: RawDocument<'_>,
        uuid: Option<Uuid>,
        from: &Namespace,
    ) -> Result<()> {
        if !self.takes(from) {
            return Ok(());
        }
        let place = self.place(from)?;
        if options.contains("viewOn") {
            return match self.places.holder(&place.to) {
                // The name has gone to a collection since.
                Some(_) => Ok(()),
                None => {
                    definition::create(&mut self.sides.destination, &place.to, options).map(drop)
                }
            };
        }
        // It is copied at the end.
        if options.contains(time_series::OPTION) {
            return Ok(());
        }
        let Some(uuid) = uuid else {
            return self.unnumbered(from);
        };
        if self.places.is_to_be_made(&uuid, &place)? {
            definition::create(&mut self.sides.destination, &place.to, options)?;
            self.places.put(uuid, place);
        }
        Ok(())
    }

    fn drop(&mut self, uuid: &Uuid, place: &Place) -> Result<()> {
        definition::drop(&mut self.sides.destination, &place.to)?;
        self.leave(uuid);
        Ok(())
    }

    fn leave(&mut self, uuid: &Uuid) {
        self.places.remove(uuid);
        self.documents.forget(uuid);
    }

    /// Drops a view, which has no place. A collection that is not known had gone before the copy, or was not chosen.
    fn drop_view(&mut self, from: &Namespace) -> Result<()> {
        if !self.takes(from) {
            return Ok(());
        }
        let to = self.selection.renamed(from)?;
        let is_view = self.places.holder(&to).is_none()
            && definition::is_view(&mut self.sides.destination, &to)?;
        match is_view {
            true => definition::drop(&mut self.sides.destination, &to),
            false => Ok(()),
        }
    }

    fn rename(
        &mut self,
        uuid: &Uuid,
        place: &Place,
        from: &Namespace,
        new: &Namespace,
        described: RawDocument<'_>,
    ) -> Result<()> {
        if !self.takes(new) {
            // It has left the chosen names, unless it has come back to this one since.
            let has_left = place.from == *from
                && definition::name_of(&mut self.sides.source, uuid, from)?.as_ref() != Some(from);
            return match has_left {
                true => self.drop(uuid, place),
                false => Ok(()),
            };
        }
        let new = self.place(new)?;
        let removed = self::uuid(described.get("dropTarget"));
        let replaced = match self.places.rename(uuid, from, &new, removed) {
            Rename::IsMade => return Ok(()),
            Rename::IsDue => None,
            Rename::Replaces(other) => Some(other),
        };
        self.rename_there(&place.to, &new.to, replaced.is_some())?;
        if let Some(other) = replaced {
            self.leave(&other);
        }
        self.places.put(*uuid, new);
        Ok(())
    }

    fn rename_there(&mut self, to: &Namespace, new: &Namespace, drops_target: bool) -> Result<()> {
        if to == new {
            return Ok(());
        }
        let command = doc! {
            "renameCollection": (to.to_string()), "to": (new.to_string()), "dropTarget": drops_target,
        };
        let destination = &mut self.sides.destination;
        match destination.define("admin", &command) {
            // It has been sent twice, because the first reply was lost.
            Err(error)
                if error.code() == Some(NAMESPACE_NOT_FOUND)
                    && definition::exists(destination, new)? =>
            {
                Ok(())
            }
            renamed => renamed
                .map(drop)
                .map_err(Error::server(format_args!("rename of `{to}`"))),
        }
    }

    /// A rename of a collection that is not on the destination. One that gets a chosen name by it would have to be copied.
    fn rename_of_other(&mut self, uuid: &Uuid, from: &Namespace, new: &Namespace) -> Result<()> {
        let is_missing = self.takes(new)
            && definition::name_of(&mut self.sides.source, uuid, new)?
                .is_some_and(|now| self.takes(&now));
        match is_missing {
            true => Err(Error::Incomplete(format!(
                "`{from}`, which was not copied, has been renamed to `{new}`; begin anew"
            ))),
            false => Ok(()),
        }
    }

    /// Changes options of a collection, of an index of it, or of a view.
    fn modify(
        &mut self,
        changed: RawDocument<'_>,
        known: Option<Namespace>,
        from: &Namespace,
    ) -> Result<()> {
        let is_view = known.is_none() && changed.contains("viewOn") && self.takes(from);
        let to = match known {
            Some(to) => to,
            None if is_view => self.selection.renamed(from)?,
            // Of a collection that was not chosen, or had gone before the copy.
            None => return Ok(()),
        };
        if is_view && self.places.holder(&to).is_some() {
            return Ok(());
        }
        let mut command = doc! { "collMod": (to.collection.as_str()) };
        for option in changed {
            if option.name() != "index" || self.follows_indexes {
                command.append_element(option);
            }
        }
        if command.len() == 1 {
            return Ok(());
        }
        match self.sides.destination.define(&to.database, &command) {
            // The view or the index has gone since, or is made as it is by then.
            Err(error) if matches!(error.code(), Some(NAMESPACE_NOT_FOUND | INDEX_NOT_FOUND)) => {
                Ok(())
            }
            modified => modified
                .map(drop)
                .map_err(Error::server(format_args!("options of `{to}`"))),
        }
    }

    fn create_indexes(&mut self, indexes: &[Document], to: &Namespace) -> Result<()> {
        let is_made_anew = |code| INDEX_MADE_ANEW.contains(&code);
        match definition::create_indexes(&mut self.sides.destination, to, indexes) {
            Err(Error::Server { why, .. }) if why.code().is_some_and(is_made_anew) => Ok(()),
            made => made,
        }
    }

    fn drop_indexes(&mut self, indexes: &[Document], to: &Namespace) -> Result<()> {
        for index in indexes {
            let name = index.get("name").map_or_else(Value::null, Value::from);
            let command = doc! { "dropIndexes": (to.collection.as_str()), "index": name };
            match self.sides.destination.define(&to.database, &command) {
                Err(error)
                    if matches!(error.code(), Some(NAMESPACE_NOT_FOUND | INDEX_NOT_FOUND)) => {}
                dropped => {
                    dropped.map_err(Error::server(format_args!("indexes of `{to}`")))?;
                }
            }
        }
        Ok(())
    }
}

fn uuid(value: Option<RawValue<'_>>) -> Option<Uuid> {
    match value? {
        RawValue::Binary(uuid) => uuid.bytes.try_into().ok(),
        _ => None,
    }
}

fn namespace(event: RawDocument<'_>, field: &str) -> Option<Namespace> {
    let namespace = event.get_document(field)?;
    Some(Namespace::new(
        namespace.get_str("db")?,
        namespace.get_str("coll")?,
    ))
}

fn documents(described: RawDocument<'_>, field: &str) -> Vec<Document> {
    let array = described.get_array(field);
    let values = array.iter().flat_map(RawArray::iter);
    let documents = values.filter_map(|value| match value {
        RawValue::Document(document) => Some(document.to_owned_document()),
        _ => None,
    });
    documents.collect()
}
