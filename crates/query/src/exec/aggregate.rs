//! `aggregate`: the head of the pipeline becomes a find, the rest runs over it.

use quarry_database::{Database, Operation};

use super::error::Result;
use super::executor::Executor;
use super::find::find;
use super::foreign::Foreign;
use super::now_ms;
use super::request::{AggregateRequest, FindRequest};
use crate::pipeline::{Leading, Pipeline};

pub fn aggregate(
    database: &Database,
    operation: &Operation,
    request: AggregateRequest<'_>,
) -> Result<Executor> {
    let pipeline = Pipeline::parse(request.pipeline)?;
    let leading = pipeline.leading();
    let executor = find(database, operation, head(request, &leading))?;
    if leading.stages == pipeline.stages.len() {
        return Ok(executor);
    }
    let foreign = Foreign::open(
        database,
        request.namespace.database(),
        pipeline.foreign_collections(),
    )?;
    Ok(executor.with_stages(pipeline.start_at(leading.stages, now_ms()), foreign))
}

/// The find that the head of a pipeline is.
pub(super) fn head<'a>(request: AggregateRequest<'a>, leading: &Leading<'a>) -> FindRequest<'a> {
    let mut find = FindRequest::new(request.namespace);
    find.filter = leading.filter.unwrap_or(find.filter);
    find.sort = leading.sort_specification;
    find.skip = leading.skip.unwrap_or(0);
    find.limit = leading.limit;
    find.hint = request.hint;
    find
}
