//! The stage `$planCacheStats`: the plans that trials have chosen for a collection.

use quarry_bson::{Document, RawValue};
use quarry_database::CachedPlan;
use quarry_query::ErrorCode;
use quarry_query::pipeline::Specification;
use quarry_query::query_shape::{QueryShape, short_hash};

use super::stage_surroundings::Surroundings;
use crate::dispatch::error::{CommandError, Result};

/// The documents of the stage, one for each shape of queries for which a plan was chosen by a trial.
pub fn documents(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let RawValue::Document(options) = specification.value else {
        let message = "$planCacheStats value must be an object";
        return Err(CommandError::failed_to_parse(message));
    };
    for option in options {
        // One server has all plans, so that it is the same whether those of all hosts are asked for.
        if option.name() != "allHosts" || option.value().as_bool() != Some(false) {
            let message = "$planCacheStats takes no option but allHosts, which is false on a server that is no shard";
            return Err(CommandError::failed_to_parse(message));
        }
    }
    let Some(namespace) = surroundings.namespace else {
        let message =
            "{aggregate: 1} is not valid for '$planCacheStats'; a collection is required.";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    };
    let server = surroundings.invocation.server;
    let Some(collection) = server.catalog().collection(namespace)? else {
        return Ok(Vec::new());
    };
    let host = server.host();
    let plans = collection.cached_plans();
    Ok(plans.iter().map(|plan| document(plan, &host)).collect())
}

fn document(plan: &CachedPlan, host: &str) -> Document {
    Document::build(|out| {
        out.append("version", "1");
        let key = short_hash(plan.key);
        let shape = (plan.origin.as_ref()).map(|(shape, ..)| QueryShape(*shape).text());
        if let Some(shape) = &shape {
            out.append("queryHash", shape.as_str());
            out.append("planCacheShapeHash", shape.as_str());
        }
        out.append("planCacheKey", key.as_str());
        out.append("isActive", plan.is_active);
        out.append("works", i64::try_from(plan.works).unwrap_or(i64::MAX));
        out.append("worksType", "works");
        out.append("timeOfCreation", plan.created);
        if let Some((_, query, winner, _)) = &plan.origin {
            out.append("createdFromQuery", query.as_raw());
            out.append("cachedPlan", winner.as_raw());
        }
        let has_filter = plan.origin.as_ref().is_some_and(|origin| origin.3);
        out.append("indexFilterSet", has_filter);
        let bytes = i64::try_from(plan.bytes).unwrap_or(i64::MAX);
        out.append("estimatedSizeBytes", bytes);
        out.append("host", host);
    })
}
