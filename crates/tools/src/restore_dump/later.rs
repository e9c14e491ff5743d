//! Indexes and views, which are made behind the documents. Entries of the oplog change both, before they are made.

use std::collections::BTreeMap;

use quarry_bson::{Document, RawDocument, RawValue, compare_documents, doc, values_equal};

use crate::namespaces::Namespace;
use crate::oplog::Change;

/// The indexes and views that are still to be made, by the names that they get.
#[derive(Default)]
pub struct Later {
    indexes: BTreeMap<Namespace, Vec<Document>>,
    /// Their options.
    views: BTreeMap<Namespace, Document>,
}

impl Later {
    /// Adds indexes of a collection. One takes the place of another one of its name.
    pub fn add_indexes(&mut self, namespace: &Namespace, indexes: Vec<Document>) {
        let known = self.indexes.entry(namespace.clone()).or_default();
        for index in indexes {
            known.retain(|other| index.get("name").is_none_or(|name| !is(other, name)));
            known.push(index);
        }
    }

    pub fn add_view(&mut self, namespace: &Namespace, options: Document) {
        self.views.insert(namespace.clone(), options);
    }

    pub fn indexes(&self) -> impl Iterator<Item = (&Namespace, &[Document])> {
        let indexes = self.indexes.iter();
        indexes.map(|(namespace, indexes)| (namespace, indexes.as_slice()))
    }

    pub fn views(&self) -> impl Iterator<Item = (&Namespace, &Document)> {
        self.views.iter()
    }

    /// Forgets a collection or a view.
    pub fn remove(&mut self, namespace: &Namespace) {
        self.indexes.remove(namespace);
        self.views.remove(namespace);
    }

    /// Forgets what a database has of what is restored.
    pub fn remove_database(&mut self, database: &str, takes: &dyn Fn(&Namespace) -> bool) {
        let is_left = |namespace: &Namespace| namespace.database != database || !takes(namespace);
        self.indexes.retain(|namespace, _| is_left(namespace));
        self.views.retain(|namespace, _| is_left(namespace));
    }

    /// Gives a collection another name.
    pub fn rename(&mut self, from: &Namespace, to: &Namespace) {
        let indexes = self.indexes.remove(from);
        self.remove(to);
        self.indexes
            .extend(indexes.map(|indexes| (to.clone(), indexes)));
    }

    /// Forgets indexes by their name or their key; all with `*`.
    pub fn remove_indexes(&mut self, namespace: &Namespace, wanted: RawValue<'_>) {
        if let Some(indexes) = self.indexes.get_mut(namespace) {
            indexes.retain(|index| wanted.as_str() != Some("*") && !is(index, wanted));
        }
    }

    /// Changes options of an index; false where it is not one of these.
    pub fn modify_index(&mut self, namespace: &Namespace, changed: RawDocument<'_>) -> bool {
        let wanted = changed.get("name").or_else(|| changed.get("keyPattern"));
        let indexes = self.indexes.get_mut(namespace).into_iter().flatten();
        let mut found = indexes.filter(|index| wanted.is_some_and(|wanted| is(index, wanted)));
        let Some(index) = found.next() else {
            return false;
        };
        for option in changed {
            if option.name() != "name" && option.name() != "keyPattern" {
                index.set(option.name(), option.value().to_value());
            }
        }
        true
    }

    /// Changes a view as an entry changes the document that it is in `system.views`.
    ///
    /// # Errors
    /// The text says what of the change is unknown.
    pub fn change_view(&mut self, namespace: &Namespace, change: Change) -> Result<(), String> {
        let with_id = |options: &Document| {
            let mut view = doc! { "_id": (namespace.to_string()) };
            options.iter().for_each(|option| {
                view.append_element(option);
            });
            view
        };
        let before = self.views.get(namespace).map(with_id);
        match change.apply(before)? {
            None => {
                self.views.remove(namespace);
            }
            Some(mut view) => {
                view.remove("_id");
                self.views.insert(namespace.clone(), view);
            }
        }
        Ok(())
    }
}

/// Whether the index has that name or that key.
fn is(index: &Document, wanted: RawValue<'_>) -> bool {
    match wanted {
        RawValue::Document(key) => {
            let own = index.get_document("key");
            own.is_some_and(|own| compare_documents(own, key).is_eq())
        }
        name => index.get("name").is_some_and(|own| values_equal(own, name)),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::Value;

    use super::*;

    fn named(name: &str) -> Namespace {
        Namespace::new("db", name)
    }

    fn names(later: &Later) -> Vec<String> {
        let named = later.indexes().flat_map(|(namespace, indexes)| {
            let name = |index: &Document| format!("{namespace} {}", index.get_str("name").unwrap());
            indexes.iter().map(name).collect::<Vec<_>>()
        });
        named.collect()
    }

    fn index(name: &str) -> Document {
        doc! { "v": 2, "key": { (name): 1 }, "name": name }
    }

    #[test]
    fn indexes_follow_what_becomes_of_them() {
        let mut later = Later::default();
        later.add_indexes(&named("a"), vec![index("x"), index("y"), index("z")]);
        later.add_indexes(&named("a"), vec![index("x")]);
        assert_eq!(names(&later), ["db.a y", "db.a z", "db.a x"]);
        let hidden = doc! { "name": "x", "hidden": true };
        assert!(later.modify_index(&named("a"), hidden.as_raw()));
        let by_key = doc! { "keyPattern": { "y": 1 }, "expireAfterSeconds": 5 };
        assert!(later.modify_index(&named("a"), by_key.as_raw()));
        assert!(!later.modify_index(&named("b"), hidden.as_raw()));
        let (_, indexes) = later.indexes().next().unwrap();
        assert_eq!(indexes[2].get_bool("hidden"), Some(true));
        assert_eq!(indexes[0].get_i32("expireAfterSeconds"), Some(5));
        later.remove_indexes(&named("a"), Value::from("z").as_raw());
        later.remove_indexes(&named("a"), Value::from(doc! { "y": 1 }).as_raw());
        later.add_indexes(&named("b"), vec![index("of_b")]);
        later.rename(&named("a"), &named("b"));
        assert_eq!(names(&later), ["db.b x"]);
        later.remove_indexes(&named("b"), Value::from("*").as_raw());
        assert_eq!(names(&later), [""; 0]);
    }

    #[test]
    fn views_are_changed_as_documents() {
        let mut later = Later::default();
        let view = named("v");
        let put = Change::Put(doc! { "_id": "db.v", "viewOn": "a", "pipeline": [] });
        later.change_view(&view, put).unwrap();
        let diff = Change::Diff(doc! { "u": { "viewOn": "b" } });
        later.change_view(&view, diff).unwrap();
        let expected = doc! { "viewOn": "b", "pipeline": [] };
        assert_eq!(later.views().next(), Some((&view, &expected)));
        later.change_view(&view, Change::Delete).unwrap();
        assert_eq!(later.views().count(), 0);
    }
}
