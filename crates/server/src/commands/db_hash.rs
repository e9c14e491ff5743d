//! `dbHash`: an MD5 of the documents of each collection of a database, in natural order, and one of all of them: two databases
//! with the same documents have the same. Every document is read.

use std::collections::HashSet;
use std::time::Instant;

use md5::{Digest, Md5};
use quarry_bson::{Document, DocumentBuilder, RawBinary, RawValue};
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_query::exec::FindRequest;

use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::client_cursor::Source;

const UUID_SUBTYPE: u8 = 4;

pub static COMMAND: Command = Command {
    aliases: &["dbhash"],
    fields: Fields::named(&[array("collections")]),
    ..Command::new(
        "dbHash",
        "hashes the documents of a database",
        Requires::Each(&[need(Action::DbHash, On::Database)]),
        run,
    )
};

/// A collection to be hashed.
struct Hashed {
    name: String,
    uuid: [u8; 16],
    is_capped: bool,
}

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let started = Instant::now();
    let database = invocation.generic.database;
    quarry_database::check_database(database)?;
    let collections = collections(invocation)?;
    let (mut hashes, mut uuids) = (Document::new(), Document::new());
    let mut capped = Vec::new();
    let mut of_all = Md5::new();
    for collection in collections {
        let namespace = Namespace::new(database, &collection.name)?;
        let hash = hash(invocation, &namespace)?;
        of_all.update(hash.as_bytes());
        hashes.append(&collection.name, hash);
        let bytes = &collection.uuid;
        let uuid = RawValue::Binary(RawBinary {
            subtype: UUID_SUBTYPE,
            bytes,
        });
        uuids.append(&collection.name, quarry_bson::Value::from(uuid));
        if collection.is_capped {
            capped.push(collection.name);
        }
    }
    let host = rustix::system::uname();
    reply.append("host", &*host.nodename().to_string_lossy());
    reply.append("collections", &hashes);
    let mut list = reply.array("capped");
    for name in &capped {
        list.push(name);
    }
    list.finish();
    reply.append("uuids", &uuids);
    reply.append("md5", &hex(of_all));
    let elapsed = started.elapsed().as_millis();
    reply.append("timeMillis", i32::try_from(elapsed).unwrap_or(i32::MAX));
    Ok(())
}

/// The collections to be hashed, by name: those that are asked for, or all but the server's own. A view has no documents.
fn collections(invocation: &Invocation<'_>) -> Result<Vec<Hashed>> {
    let mut asked: HashSet<&str> = HashSet::new();
    if let Some(argument) = invocation.argument("collections") {
        for name in argument.array()? {
            let name = name.as_str().ok_or_else(|| {
                CommandError::new(
                    ErrorCode::BAD_VALUE,
                    "collections entries have to be strings",
                )
            })?;
            asked.insert(name);
        }
    }
    let mut found = Vec::new();
    let mut behind: Option<String> = None;
    loop {
        let mut take = |collection: quarry_database::Collection| {
            let name = collection.namespace.collection();
            let is_asked = asked.is_empty() || asked.contains(name);
            if collection.view.is_none() && is_asked && !name.starts_with("system.") {
                found.push(Hashed {
                    name: name.to_owned(),
                    uuid: collection.uuid,
                    is_capped: collection.capped.is_some(),
                });
            }
        };
        let catalog = invocation.server.catalog();
        let database = invocation.generic.database;
        behind = catalog.list_collections_behind(database, behind.as_deref(), &mut take)?;
        invocation.operation.check()?;
        if behind.is_none() {
            found.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(found);
        }
    }
}

fn hash(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<String> {
    let source = invocation
        .data()
        .find(invocation.operation, FindRequest::new(namespace))?;
    let mut hash = Md5::new();
    if let Source::Executor(mut executor) = source {
        let mut document = Vec::new();
        while executor.next(invocation.operation, &mut document)? {
            hash.update(&document);
            document.clear();
        }
    }
    Ok(hex(hash))
}

fn hex(hash: Md5) -> String {
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
