//! `listCollections`: the collections of a database.

use quarry_bson::{Document, DocumentBuilder, RawDocument, Value, doc};
use quarry_database::{
    CLUSTERED_INDEX, Collection, CollectionKind, ID_INDEX_NAME, Namespace, Operation,
};
use quarry_query::matcher::Matcher;

use crate::access::resource::Need;
use crate::access::user::User;
use crate::catalog::Catalog;
use crate::commands::first_batch::{FirstBatch, answer};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag, object};
use crate::dispatch::privilege::{Action, Requires, Resource};
use crate::replication::oplog_view;
use crate::sessions::client_cursor::{ClientCursor, DocumentStream, Source};

/// The collection that the cursor is said to be over.
const NAMESPACE: &str = "$cmd.listCollections";
const UUID_SUBTYPE: u8 = 4;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("filter"),
        flag("nameOnly"),
        flag("authorizedCollections"),
        object("cursor"),
        flag("includePendingDrops").ignored(),
    ]),
    is_in_api_1: true,
    ..Command::new(
        "listCollections",
        "lists the collections of a database",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = invocation.generic.database;
    quarry_database::check_database(name)?;
    let batch = FirstBatch::parse(invocation)?;
    let filter = invocation.document("filter")?;
    let is_name_only = invocation.boolean("nameOnly")?;
    let user = restriction(invocation, is_name_only)?;
    let listing = Listing {
        catalog: invocation.server.catalog(),
        name: name.to_owned(),
        has_view: super::own_views::is_log(invocation, oplog_view::COLLECTION),
        is_name_only,
        user,
        only: filter
            .and_then(|filter| filter.get_str("name"))
            .map(str::to_owned),
        filter: filter.map(Matcher::parse).transpose()?,
        next: Next::First,
        page: Page::default(),
    };
    let shown = format!("{name}.{NAMESPACE}");
    let lists_all = listing.user.is_none();
    let source = Source::Stream(Box::new(listing));
    let mut cursor = ClientCursor::new(shown, invocation.generic.session, source);
    if lists_all {
        let need = Need::of(Action::ListCollections, Resource::Database(name));
        cursor.needs = [need].into();
    }
    answer(cursor, invocation, batch, reply)
}

/// The user whose collections alone are listed; none where all are. Names of its own every user may list that has any right
/// in the database.
fn restriction(invocation: &Invocation<'_>, is_name_only: bool) -> Result<Option<User>> {
    let name = invocation.generic.database;
    let resource = Resource::Database(name);
    if invocation.may(Action::ListCollections, resource) {
        return Ok(None);
    }
    let wants_own = is_name_only && invocation.boolean("authorizedCollections")?;
    match invocation
        .user
        .filter(|user| wants_own && user.sees_database(name))
    {
        Some(user) => Ok(Some(user.clone())),
        None => invocation
            .require(Action::ListCollections, resource)
            .map(|()| None),
    }
}

/// The collections of a database, read from the catalog as they are asked for: a cursor holds a piece of the list, however
/// long that is. A collection that is there all the time is listed once; one that comes or goes meanwhile may be or not.
struct Listing {
    catalog: &'static dyn Catalog,
    name: String,
    /// `local.oplog.rs` is listed before all others.
    has_view: bool,
    is_name_only: bool,
    /// Only collections that this user may do something to.
    user: Option<User>,
    /// The filter asks for the collection of this name, which is looked up.
    only: Option<String>,
    filter: Option<Matcher>,
    next: Next,
    page: Page,
}

/// The entries that were read and are handed out one after the other. They stand in one buffer, because a million of them are
/// listed in the time that as many allocations would take.
#[derive(Default)]
struct Page {
    entries: Vec<u8>,
    /// The place of the entry that was handed out last in this batch.
    last: Option<usize>,
    /// The place of the next one.
    next: usize,
}

/// Where the list goes on.
enum Next {
    First,
    Behind(String),
    End,
}

impl DocumentStream for Listing {
    fn next(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool> {
        loop {
            if let Some(entry) = self.page.take() {
                out.extend_from_slice(entry.as_bytes());
                return Ok(true);
            }
            operation.check()?;
            match std::mem::replace(&mut self.next, Next::End) {
                Next::End => return Ok(false),
                Next::First => self.read(None)?,
                Next::Behind(name) => self.read(Some(&name))?,
            }
        }
    }

    /// Forgets what was read and not handed out, which the next batch reads again: an idle cursor holds a name.
    fn save(&mut self) {
        let page = std::mem::take(&mut self.page);
        if let Some(name) = page.goes_on_behind() {
            self.next = Next::Behind(name.to_owned());
        }
    }
}

impl Page {
    /// Keeps an entry, if the filter takes it.
    fn keep(&mut self, filter: Option<&Matcher>, write: impl FnOnce(&mut Vec<u8>)) {
        let place = self.entries.len();
        write(&mut self.entries);
        let is_kept = |filter: &Matcher| {
            entry_at(&self.entries, place).is_some_and(|entry| filter.matches(entry))
        };
        if !filter.is_none_or(is_kept) {
            self.entries.truncate(place);
        }
    }

    /// The next entry. Behind the last one the buffer is there for more.
    fn take(&mut self) -> Option<RawDocument<'_>> {
        if self.next == self.entries.len() {
            self.entries.clear();
            (self.last, self.next) = (None, 0);
            return None;
        }
        let entry = entry_at(&self.entries, self.next)?;
        self.last = Some(self.next);
        self.next += entry.len_bytes();
        Some(entry)
    }

    /// The name behind which the list goes on, where entries were not handed out.
    fn goes_on_behind(&self) -> Option<&str> {
        let is_left = self.next < self.entries.len();
        entry_at(&self.entries, self.last.filter(|_| is_left)?)?.get_str("name")
    }
}

fn entry_at(entries: &[u8], place: usize) -> Option<RawDocument<'_>> {
    RawDocument::split_first(&entries[place..]).map(|(entry, _)| entry)
}

impl Listing {
    fn read(&mut self, behind: Option<&str>) -> Result<()> {
        let (filter, page) = (self.filter.as_ref(), &mut self.page);
        if self.has_view && behind.is_none() {
            page.keep(filter, |out| describe_view(out, self.is_name_only));
        }
        if let Some(only) = &self.only {
            // No collection can have a name that is none.
            let Ok(namespace) = Namespace::new(&self.name, only) else {
                return Ok(());
            };
            if let Some(collection) = self.catalog.collection(&namespace)?
                && is_seen(self.user.as_ref(), &self.name, only)
            {
                page.keep(filter, |out| describe(out, &collection, self.is_name_only));
            }
            return Ok(());
        }
        let next = if self.is_name_only {
            let (user, database) = (self.user.as_ref(), self.name.as_str());
            let mut take = |name: &str, kind: CollectionKind| {
                if is_seen(user, database, name) {
                    page.keep(filter, |out| {
                        describe_name(&mut DocumentBuilder::new(out), name, kind);
                    });
                }
            };
            (self.catalog).list_names_behind(&self.name, behind, &mut take)?
        } else {
            let mut take = |collection: Collection| {
                page.keep(filter, |out| describe(out, &collection, false));
            };
            (self.catalog).list_collections_behind(&self.name, behind, &mut take)?
        };
        if let Some(name) = next {
            self.next = Next::Behind(name);
        }
        Ok(())
    }
}

fn is_seen(user: Option<&User>, database: &str, collection: &str) -> bool {
    user.is_none_or(|user| user.sees_collection(database, collection))
}

fn describe_name(entry: &mut DocumentBuilder<'_>, name: &str, kind: CollectionKind) {
    entry.append("name", name);
    entry.append("type", kind.name());
}

/// The entry of `local.oplog.rs`, which can only be read.
fn describe_view(out: &mut Vec<u8>, is_name_only: bool) {
    let mut entry = DocumentBuilder::new(out);
    describe_name(
        &mut entry,
        oplog_view::COLLECTION,
        CollectionKind::Collection,
    );
    if !is_name_only {
        entry.append("options", doc! { "capped": true }.as_raw());
        entry.append("info", doc! { "readOnly": true }.as_raw());
    }
}

fn describe(out: &mut Vec<u8>, collection: &Collection, is_name_only: bool) {
    let kind = collection.kind();
    let mut entry = DocumentBuilder::new(out);
    describe_name(&mut entry, collection.namespace.collection(), kind);
    if is_name_only {
        return;
    }
    entry.append("options", collection.options());
    let info = match kind {
        CollectionKind::View => doc! { "readOnly": true },
        // That of MongoDB's buckets is not shown there either.
        CollectionKind::TimeSeries => doc! { "readOnly": false },
        CollectionKind::Collection => {
            doc! { "readOnly": false, "uuid": (Value::binary(UUID_SUBTYPE, &collection.uuid)) }
        }
    };
    entry.append("info", info.as_raw());
    let is_clustered = collection.options().contains(CLUSTERED_INDEX);
    if kind == CollectionKind::Collection && !is_clustered {
        entry.append("idIndex", id_index().as_raw());
    }
}

fn id_index() -> Document {
    doc! { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX_NAME }
}

#[cfg(test)]
mod tests {
    use quarry_database::{Database, Level};

    use super::*;

    #[test]
    fn an_idle_list_holds_none_of_it_and_goes_on_where_it_was() {
        let database: &'static Database = Box::leak(Box::new(Database::open_in_memory().unwrap()));
        let operation = Operation::default();
        let names: Vec<String> = (0..30).map(|n| format!("c{n:02}")).collect();
        for name in &names {
            let namespace = Namespace::new("db", name).unwrap();
            let none = Document::new();
            database
                .create_collection(&namespace, none.as_raw(), &operation, Level::Written)
                .unwrap();
        }
        let mut listing = Listing {
            catalog: database,
            name: "db".into(),
            has_view: false,
            is_name_only: false,
            only: None,
            filter: None,
            next: Next::First,
            page: Page::default(),
            user: None,
        };
        let mut listed = Vec::new();
        loop {
            let mut out = Vec::new();
            if !listing.next(&operation, &mut out).unwrap() {
                break;
            }
            let entry = Document::from_bytes(out).unwrap();
            listed.push(entry.get_str("name").unwrap().to_owned());
            if listed.len() % 7 == 0 {
                listing.save();
                assert_eq!(listing.page.entries.capacity(), 0);
            }
        }
        assert_eq!(listed, names);
    }
}
