//! The comparison at the end: the same collections under their names, with the same number of documents each.

use std::collections::HashSet;

use quarry_bson::doc;
use quarry_client::Connection;

use super::follow::Follower;
use super::places::Places;
use super::{Item, Migration, collections};
use crate::definition::Kind;
use crate::error::{Error, Result};
use crate::namespaces::Namespace;

/// How often the sides are compared again behind further changes, while the source is written to.
const COMPARISONS_MAX: usize = 20;

impl Migration<'_> {
    /// Compares the collections that the source has now, behind further changes if they differ. `places` is where they are if
    /// changes are not followed.
    pub(super) fn compare(
        &mut self,
        places: &Places,
        mut follower: Option<&mut Follower<'_>>,
    ) -> Result<()> {
        let mut different = Vec::new();
        for _ in 0..COMPARISONS_MAX {
            if let Some(follower) = &mut follower {
                follower.catch_up()?;
            }
            different.clear();
            different.extend(follower.as_ref().and_then(|follower| follower.refused()));
            let items = self.items()?;
            let places = follower
                .as_ref()
                .map_or(places, |follower| follower.places());
            different.extend(misplaced(&items, places));
            different.extend(self.miscounted(&items)?);
            if different.is_empty() {
                self.say(&format!(
                    "{} collections and views have been compared: their counts are equal",
                    items.len()
                ));
                return Ok(());
            }
            if follower.is_none() {
                break;
            }
        }
        Err(Error::Incomplete(format!(
            "{}; is the source still written to?",
            different.join(", ")
        )))
    }

    /// Collections that do not have as many documents on both sides.
    fn miscounted(&mut self, items: &[Item]) -> Result<Vec<String>> {
        let mut different = Vec::new();
        let counted = items
            .iter()
            .filter(|item| item.definition.kind != Kind::View);
        for item in counted {
            let here = exact_count(&mut self.source, &item.from)?;
            let there = exact_count(&mut self.destination, &item.to)?;
            if here != there {
                different.push(format!(
                    "`{}` has {here} documents and `{}` {there}",
                    item.from, item.to
                ));
            }
        }
        Ok(different)
    }
}

/// Collections of the source that are not on the destination under their names, and those that are there only.
fn misplaced(items: &[Item], places: &Places) -> Vec<String> {
    let mut different = Vec::new();
    for item in collections(items) {
        let place = item.definition.uuid.map(|uuid| places.get(&uuid));
        match place {
            Some(None) => different.push(format!("`{}` has not been copied", item.from)),
            Some(Some(place)) if place.to != item.to => {
                different.push(format!(
                    "`{}` is named `{}` instead of `{}`",
                    item.from, place.to, item.to
                ));
            }
            _ => {}
        }
    }
    let there: HashSet<_> = collections(items)
        .filter_map(|item| item.definition.uuid)
        .collect();
    for (uuid, place) in places.iter() {
        if !there.contains(uuid) {
            different.push(format!("`{}` is there no more", place.from));
        }
    }
    different
}

fn exact_count(connection: &mut Connection, namespace: &Namespace) -> Result<i64> {
    let command = doc! {
        "aggregate": (namespace.collection.as_str()), "pipeline": [{ "$count": "n" }], "cursor": {},
    };
    let counted = connection
        .cursor(&namespace.database, &command)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server(format_args!("count of `{namespace}`")))?;
    let count = counted
        .first()
        .and_then(|count| count.get("n")?.as_i64_exact());
    Ok(count.unwrap_or(0))
}
