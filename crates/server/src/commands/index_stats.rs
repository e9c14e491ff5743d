//! The stage `$indexStats`: how often plans have read a collection by each of its indexes.

use quarry_bson::{DateTime, Document, RawValue};
use quarry_query::ErrorCode;
use quarry_query::pipeline::Specification;

use super::stage_surroundings::Surroundings;
use crate::dispatch::error::{CommandError, Result};

/// The documents of the stage, one for each index.
pub fn documents(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let empty = matches!(specification.value, RawValue::Document(options) if options.is_empty());
    if !empty {
        let message = "The $indexStats stage specification must be an empty object";
        return Err(CommandError::new(ErrorCode(28803), message));
    }
    let Some(namespace) = surroundings.namespace else {
        let message = "{aggregate: 1} is not valid for '$indexStats'; a collection is required.";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    };
    let server = surroundings.invocation.server;
    let host = server.host();
    let uses = server.catalog().index_accesses(namespace)?;
    let documents = uses.into_iter().map(|index| {
        Document::build(|out| {
            out.append(
                "name",
                index.spec.as_raw().get_str("name").unwrap_or_default(),
            );
            if let Some(key) = index.spec.as_raw().get("key") {
                out.append("key", key);
            }
            let mut accesses = out.document("accesses");
            accesses.append("ops", i64::try_from(index.accesses).unwrap_or(i64::MAX));
            accesses.append("since", DateTime(index.since_ms));
            accesses.finish();
            out.append("host", host.as_str());
            out.append("spec", index.spec.as_raw());
            if index.is_building {
                out.append("building", true);
            }
        })
    });
    Ok(documents.collect())
}
