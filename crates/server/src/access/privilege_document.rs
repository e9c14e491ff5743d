//! A privilege as it stands in a role's document: `{resource: {db, collection}, actions: [...]}`.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, doc};

use crate::access::action::ActionSet;
use crate::access::resource::{Pattern, Privilege};
use crate::dispatch::error::{CommandError, Result};

/// The privileges of one role, at most.
const PRIVILEGES_MAX: usize = 10_000;

/// Reads an array of privileges.
pub fn parse_all(array: RawArray<'_>) -> Result<Vec<Privilege>> {
    let mut privileges = Vec::new();
    for value in array {
        let Some(document) = value.as_document() else {
            return Err(CommandError::type_mismatch("a privilege must be an object"));
        };
        privileges.push(parse(document)?);
        check_count(privileges.len())?;
    }
    Ok(privileges)
}

/// Refuses more privileges than one role may have.
pub fn check_count(privileges: usize) -> Result<()> {
    if privileges <= PRIVILEGES_MAX {
        return Ok(());
    }
    let message = format!("a role has at most {PRIVILEGES_MAX} privileges");
    Err(CommandError::bad_value(message))
}

fn parse(document: RawDocument<'_>) -> Result<Privilege> {
    let resource = document
        .get_document("resource")
        .ok_or_else(|| CommandError::failed_to_parse("missing resource field of a privilege"))?;
    let listed = document
        .get_array("actions")
        .ok_or_else(|| CommandError::failed_to_parse("missing actions field of a privilege"))?;
    let mut actions = ActionSet::default();
    for name in listed {
        let name = name.as_str().unwrap_or_default();
        let named = ActionSet::named(name).ok_or_else(|| {
            CommandError::bad_value(format!("Unrecognized action privilege strings: {name}"))
        })?;
        actions = actions.and(named);
    }
    Ok(Privilege {
        pattern: parse_pattern(resource)?,
        actions,
    })
}

fn parse_pattern(resource: RawDocument<'_>) -> Result<Pattern> {
    let is_set = |field| resource.get(field) == Some(RawValue::Boolean(true));
    match (
        resource.len(),
        resource.get_str("db"),
        resource.get_str("collection"),
    ) {
        (1, ..) if is_set("cluster") => Ok(Pattern::Cluster),
        (1, ..) if is_set("anyResource") => Ok(Pattern::AnyResource),
        (2, Some(database), Some(collection)) => Ok(Pattern::of(database, collection)),
        _ => Err(CommandError::failed_to_parse(
            "resource must be {db, collection}, {cluster: true} or {anyResource: true}",
        )),
    }
}

/// Writes privileges as an array.
pub fn array(privileges: &[Privilege]) -> Value {
    let documents: Vec<Document> = privileges.iter().map(document).collect();
    Value::from(documents)
}

fn document(privilege: &Privilege) -> Document {
    let resource = match &privilege.pattern {
        Pattern::Cluster => doc! { "cluster": true },
        Pattern::AnyResource => doc! { "anyResource": true },
        Pattern::Namespace {
            database,
            collection,
        } => {
            doc! { "db": database.as_str(), "collection": collection.as_str() }
        }
    };
    doc! { "resource": resource, "actions": (privilege.actions.names()) }
}
