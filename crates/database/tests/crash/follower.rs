//! A reader of changes that goes on from its place over every crash. It holds each event against what the events before it
//! have made: a document that changes is there, and its pre-image is the document as the events left it; a collection is
//! made before it is written to. What it has made in the end is what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use quarry_bson::{Document, RawDocument};
use quarry_database::{
    ChangeBody, ChangeEvent, ChangeKind, ChangePoint, ChangeScope, ChangesFrom, ChangesRead,
    Database, DefinitionKind, DocumentChange, KeyRange, Namespace,
};

/// One collection: its definition, and its documents by their `_id`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    pub definition: Definition,
    pub documents: BTreeMap<i32, Document>,
}

/// The parts of a collection's definition that events tell of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    pub keeps_pre_images: bool,
    /// The names of its finished indexes but `_id_`.
    pub indexes: BTreeSet<String>,
}

/// All collections by their names.
pub type Collections = BTreeMap<String, Followed>;

#[derive(Default)]
pub struct Follower {
    /// Behind the last event; none before the first.
    place: Option<ChangePoint>,
    collections: Collections,
    /// How many pre-images and changes of definitions it has been told.
    pub pre_images: u64,
    pub definitions: u64,
}

impl Follower {
    /// Reads so many events more, or as many as there are.
    pub fn follow(&mut self, database: &Database, events_max: usize) {
        let from = self.place.map_or(ChangesFrom::Time(0), ChangesFrom::Behind);
        let mut reader = database
            .read_changes(ChangeScope::Everything, from)
            .unwrap();
        let mut left = events_max;
        loop {
            let read = reader.read(&mut |event| {
                self.take(event);
                left -= 1;
                Ok(match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                })
            });
            if read.unwrap() == ChangesRead::All {
                self.place = Some(reader.point());
                return;
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Reads what is left, and holds what all events have made against what is there.
    pub fn compare(&mut self, database: &Database) {
        self.follow(database, usize::MAX);
        assert_eq!(self.collections, collections(database));
    }

    fn take(&mut self, event: &ChangeEvent<'_>) {
        let before = self.place.replace(event.point);
        let is_behind = before.is_none_or(|before| before.to_bytes() < event.point.to_bytes());
        assert!(is_behind, "{:?} comes behind {before:?}", event.point);
        match &event.body {
            ChangeBody::Document(change) => self.change(event.namespace, change),
            ChangeBody::Definition { kind, body } => self.define(event.namespace, *kind, *body),
        }
    }

    fn change(&mut self, namespace: &str, change: &DocumentChange<'_>) {
        let key = change.document_key();
        let id = key.get("_id").and_then(|id| id.as_i32()).unwrap();
        let followed = self.collections.get_mut(namespace);
        let followed = followed.unwrap_or_else(|| panic!("`{namespace}` changes and is not there"));
        let before = followed.documents.remove(&id);
        let is_insert = change.kind == ChangeKind::Insert;
        assert_eq!(before.is_none(), is_insert, "`{namespace}` {id}");
        let told = change.pre_image.map(|image| image.to_owned_document());
        self.pre_images += u64::from(told.is_some());
        let wanted = before.filter(|_| followed.definition.keeps_pre_images);
        assert_eq!(told, wanted, "the pre-image of {id} in `{namespace}`");
        if let Some(document) = change.document {
            let document = document.to_owned_document();
            followed.documents.insert(id, document);
        }
    }

    fn define(&mut self, namespace: &str, kind: DefinitionKind, body: RawDocument<'_>) {
        self.definitions += 1;
        let mut names = Vec::new();
        for spec in body.get_array("indexes").into_iter().flatten() {
            let name = spec.as_document().and_then(|spec| spec.get_str("name"));
            names.push(name.unwrap().to_owned());
        }
        let pre_images = body.get_path("o.changeStreamPreAndPostImages.enabled");
        let keeps_pre_images = pre_images.is_some_and(|enabled| enabled.is_truthy());
        let there = || format!("{kind:?} of `{namespace}`, which is not there");
        match kind {
            DefinitionKind::Create => {
                let mut made = Followed::default();
                made.definition.keeps_pre_images = keeps_pre_images;
                let before = self.collections.insert(namespace.to_owned(), made);
                assert!(before.is_none(), "`{namespace}` is made twice");
            }
            DefinitionKind::Drop => {
                self.collections
                    .remove(namespace)
                    .unwrap_or_else(|| panic!("{}", there()));
            }
            DefinitionKind::Rename => {
                let moved = self
                    .collections
                    .remove(namespace)
                    .unwrap_or_else(|| panic!("{}", there()));
                let to = body.get_str("to").unwrap();
                let replaced = self.collections.insert(to.to_owned(), moved);
                assert_eq!(replaced.is_some(), body.get("dropTarget").is_some());
            }
            DefinitionKind::DropDatabase => {
                let of_it = format!("{namespace}.");
                let left = self
                    .collections
                    .keys()
                    .find(|name| name.starts_with(&of_it));
                assert_eq!(left, None, "its drop comes before that of its database");
            }
            DefinitionKind::CreateIndexes
            | DefinitionKind::DropIndexes
            | DefinitionKind::Modify => {
                let followed = self.collections.get_mut(namespace);
                let definition = &mut followed.unwrap_or_else(|| panic!("{}", there())).definition;
                for name in names {
                    let is_new = match kind {
                        DefinitionKind::CreateIndexes => definition.indexes.insert(name),
                        _ => definition.indexes.remove(&name),
                    };
                    assert!(is_new, "{kind:?} of an index of `{namespace}`");
                }
                if pre_images.is_some() {
                    definition.keeps_pre_images = keeps_pre_images;
                }
            }
        }
    }
}

/// Everything that a database holds.
fn collections(database: &Database) -> Collections {
    let mut found = Collections::new();
    for (name, definition) in definitions(database) {
        let mut documents = BTreeMap::new();
        let namespace = Namespace::parse(&name).unwrap();
        let snapshot = database.snapshot(&namespace).unwrap().unwrap();
        let range = KeyRange::prefix(snapshot.collection.prefix.as_bytes());
        let mut cursor = snapshot.cursor(range).unwrap();
        cursor.first().unwrap();
        while cursor.valid() {
            let document = Document::from_bytes(cursor.value().to_vec()).unwrap();
            let id = document.get("_id").and_then(|id| id.as_i32()).unwrap();
            documents.insert(id, document);
            cursor.next().unwrap();
        }
        drop(cursor);
        found.insert(
            name,
            Followed {
                definition,
                documents,
            },
        );
    }
    found
}

/// The definitions of all collections, by their names.
pub fn definitions(database: &Database) -> BTreeMap<String, Definition> {
    let mut found = BTreeMap::new();
    for name in database.list_databases().unwrap() {
        for collection in database.list_collections(&name).unwrap() {
            let snapshot = database.snapshot(&collection.namespace).unwrap().unwrap();
            let indexes = &snapshot.index_catalog().unwrap().indexes;
            let finished = indexes.iter().filter(|index| !index.building);
            let definition = Definition {
                keeps_pre_images: collection.keeps_pre_images,
                indexes: finished.map(|index| index.name.to_string()).collect(),
            };
            found.insert(collection.namespace.to_string(), definition);
        }
    }
    found
}
