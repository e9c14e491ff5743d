//! A reader of changes that goes on from its place over crashes: each event fits what the events before it have made, and
//! all of them make what is found. Where the journal has lost what comes behind its place, it is told so and begins anew.

use std::ops::ControlFlow;

use quarry_database::{
    ChangeBody, ChangeEvent, ChangeKind, ChangePoint, ChangeScope, ChangesFrom, ChangesRead,
    Database, DefinitionKind, DocumentChange, Result,
};

use crate::history::State;

#[derive(Clone, Default, Debug)]
pub struct Follower {
    /// Behind the last event; none before the first.
    pub place: Option<ChangePoint>,
    /// The documents that the events have made.
    pub state: State,
}

impl Follower {
    /// One that begins behind everything that is there.
    pub fn behind(database: &Database, state: State) -> Follower {
        let reader = database.read_changes(ChangeScope::Everything, ChangesFrom::Now);
        Follower {
            place: Some(reader.unwrap().point()),
            state,
        }
    }

    /// The record that it has come to, or its beginning.
    pub fn lsn(&self) -> u64 {
        self.place.map_or(1, |place| place.lsn)
    }

    /// Reads so many events more, or as many as there are.
    ///
    /// # Errors
    /// ChangeStreamHistoryLost, and what becomes of a journal whose sync fails.
    pub fn follow(&mut self, database: &Database, events_max: usize) -> Result<()> {
        let from = self.place.map_or(ChangesFrom::Time(0), ChangesFrom::Behind);
        let mut reader = database.read_changes(ChangeScope::Everything, from)?;
        let mut left = events_max;
        loop {
            let read = reader.read(&mut |event| {
                self.take(event);
                left -= 1;
                Ok(match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                })
            })?;
            if read == ChangesRead::All {
                self.place = Some(reader.point());
                return Ok(());
            }
            if left == 0 {
                return Ok(());
            }
        }
    }

    fn take(&mut self, event: &ChangeEvent<'_>) {
        let before = self.place.replace(event.point);
        let is_behind = before.is_none_or(|before| before.to_bytes() < event.point.to_bytes());
        assert!(is_behind, "{:?} comes behind {before:?}", event.point);
        let number = event.namespace.strip_prefix("db.c");
        let collection: usize = number.and_then(|number| number.parse().ok()).unwrap();
        match &event.body {
            ChangeBody::Document(change) => self.change(collection, change),
            ChangeBody::Definition { kind, .. } => match kind {
                DefinitionKind::Drop => self.state.retain(|(of, _), _| *of != collection),
                DefinitionKind::Create => {
                    let is_new = self.state.keys().all(|(of, _)| *of != collection);
                    assert!(is_new, "a collection with documents is made");
                }
                _ => {}
            },
        }
    }

    fn change(&mut self, collection: usize, change: &DocumentChange<'_>) {
        let key = change.document_key();
        let id = key.get("_id").and_then(|id| id.as_i32()).unwrap();
        let before = self.state.remove(&(collection, id));
        let is_insert = change.kind == ChangeKind::Insert;
        assert_eq!(before.is_none(), is_insert, "{collection} {id}");
        let told = change.pre_image.map(|image| image.get_i32("n").unwrap());
        assert_eq!(told, before, "the document before a change of {id}");
        if let Some(document) = change.document {
            let n = document.get_i32("n").unwrap();
            self.state.insert((collection, id), n);
        }
    }
}
