//! The documents of users and roles: `admin.system.users` and `admin.system.roles`.

use quarry_bson::{Document, RawDocument, Value, doc};
use quarry_database::{Database, Level, Namespace, Operation};
use quarry_query::ErrorCode;
use quarry_query::exec::{self, DeleteRequest, FindRequest, InsertRequest, UpdateRequest};

use crate::access::name::{Kind, Name};
use crate::dispatch::error::{CommandError, Result};

/// The bytes of documents that one read may give: more do not fit an answer.
const READ_BYTES_MAX: usize = 16 << 20;

/// The database of users and roles.
pub const DATABASE: &str = "admin";

const fn collection(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "system.users",
        Kind::Role => "system.roles",
    }
}

fn namespace(kind: Kind) -> Result<Namespace> {
    Ok(Namespace::new(DATABASE, collection(kind))?)
}

/// Whether the documents of the collection are users, and so what their passwords are checked by, or roles.
pub fn keeps_users_or_roles(database: &str, name: &str) -> bool {
    let kinds = [Kind::User, Kind::Role];
    database == DATABASE && kinds.map(collection).contains(&name)
}

/// Like `keeps_users_or_roles`, of a namespace that is spelled out.
pub fn is_of_users_or_roles(namespace: &str) -> bool {
    let parts = namespace.split_once('.');
    parts.is_some_and(|(database, name)| keeps_users_or_roles(database, name))
}

/// The documents that match.
pub fn find(database: &Database, kind: Kind, filter: RawDocument<'_>) -> Result<Vec<Document>> {
    find_some(database, kind, filter, None)
}

/// Whether there is a document at all.
pub fn has_any(database: &Database, kind: Kind) -> Result<bool> {
    Ok(!find_some(database, kind, RawDocument::EMPTY, Some(1))?.is_empty())
}

/// The document of that name.
pub fn get(database: &Database, kind: Kind, name: &Name) -> Result<Option<Document>> {
    let filter = doc! { "_id": (name.id()) };
    let mut found = find_some(database, kind, filter.as_raw(), Some(1))?;
    Ok(found
        .pop()
        .filter(|document| name_of(kind, document).as_ref() == Some(name)))
}

/// The name in a document; none in one that has no name.
pub fn name_of(kind: Kind, document: &Document) -> Option<Name> {
    Some(Name::new(
        document.get_str(kind.field())?,
        document.get_str("db")?,
    ))
}

fn find_some(
    database: &Database,
    kind: Kind,
    filter: RawDocument<'_>,
    limit: Option<u64>,
) -> Result<Vec<Document>> {
    let namespace = namespace(kind)?;
    let operation = Operation::default();
    let request = FindRequest {
        filter,
        limit,
        ..FindRequest::new(&namespace)
    };
    let mut executor = exec::find(database.into(), &operation, request)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut document = Vec::new();
    while executor.next(&operation, &mut document)? {
        bytes += document.len();
        if bytes > READ_BYTES_MAX {
            let message = format!(
                "more than {READ_BYTES_MAX} bytes of users or roles; a filter selects some"
            );
            return Err(CommandError::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, message));
        }
        found.push(Document::from_bytes(std::mem::take(&mut document))?);
    }
    Ok(found)
}

/// Stores a new document, durably; false when there is one of that `_id`.
pub fn insert(database: &Database, kind: Kind, document: &Document) -> Result<bool> {
    let namespace = namespace(kind)?;
    let documents = [document.as_raw()];
    let request = InsertRequest::new(&namespace, &documents);
    let outcome = exec::insert(
        database.into(),
        &Operation::default(),
        request,
        Level::Durable,
    )?;
    match outcome.errors.into_iter().next() {
        None => Ok(true),
        Some((_, error)) => {
            let error = CommandError::from(error);
            if error.code == ErrorCode::DUPLICATE_KEY.0 {
                return Ok(false);
            }
            Err(error)
        }
    }
}

/// Changes the document of that name with update operators, durably; false when there is none.
pub fn update(database: &Database, kind: Kind, name: &Name, update: Document) -> Result<bool> {
    let filter = doc! { "_id": (name.id()) };
    Ok(update_all(database, kind, filter.as_raw(), update)? > 0)
}

/// Takes a role from every user and role that has it, durably.
pub fn take_role_from_all(database: &Database, role: &Name) -> Result<()> {
    let role = role.document(Kind::Role);
    let filter = doc! { "roles": { "$elemMatch": (role.clone()) } };
    let update = doc! { "$pull": { "roles": role } };
    for kind in [Kind::User, Kind::Role] {
        update_all(database, kind, filter.as_raw(), update.clone())?;
    }
    Ok(())
}

/// Changes the documents that match with update operators, durably; how many there were.
fn update_all(
    database: &Database,
    kind: Kind,
    filter: RawDocument<'_>,
    update: Document,
) -> Result<u64> {
    let namespace = namespace(kind)?;
    let update = Value::from(update);
    let request = UpdateRequest {
        namespace: &namespace,
        context: None,
        collation: None,
        filter,
        update: update.as_raw(),
        array_filters: None,
        constants: None,
        sort: None,
        is_upsert: false,
        is_multi: true,
        hint: None,
        keeps_empty_timestamps: false,
    };
    let outcome = exec::update(
        database.into(),
        &Operation::default(),
        request,
        Level::Durable,
    )?;
    Ok(outcome.matched)
}

/// Removes the documents that match, durably; how many there were.
pub fn delete(database: &Database, kind: Kind, filter: RawDocument<'_>) -> Result<u64> {
    let namespace = namespace(kind)?;
    let request = DeleteRequest {
        namespace: &namespace,
        context: None,
        collation: None,
        filter,
        is_multi: true,
        hint: None,
    };
    Ok(exec::delete(
        database.into(),
        &Operation::default(),
        request,
        Level::Durable,
    )?)
}
