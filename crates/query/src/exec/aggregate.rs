//! `aggregate`: the head of the pipeline becomes a find, the rest runs over it. A first stage that makes documents takes
//! the place of the find. A last stage that writes the result does so before this returns; there are no documents then.

use std::sync::Arc;

use quarry_database::{Collection, Namespace, Operation, Scope};

use super::collation::context_over;
use super::collections::OtherCollections;
use super::executor::Executor;
use super::request::{AggregateRequest, FindRequest, Over};
use super::view::find;
use super::written::ResultWriter;
use crate::error::Error;
use crate::error::Result;
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::pipeline::{Input, Leading, Pipeline};

/// Plans and begins an aggregate. The executor that is returned gives its documents.
pub fn aggregate(
    scope: Scope<'_>,
    operation: &Operation,
    request: AggregateRequest<'_>,
) -> Result<Executor> {
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let collection = collection_over(scope, operation, request.over, context)?;
    let mut held = None;
    let context = context_over(context, collection.as_deref(), &mut held);
    let pipeline = Pipeline::parse_with(request.pipeline, context, request.sources)?;
    let leading = pipeline.leading();
    let read = pipeline.paths_read(leading.stages);
    let executor = match input(request.over, &pipeline)? {
        None => Executor::empty(),
        Some(namespace) => {
            let mut find_request = head(namespace, request, context, &leading, read.as_deref());
            find_request.grouped = pipeline.values_grouped(&leading);
            want_metadata(&mut find_request, &pipeline, &leading)?;
            find(scope, operation, find_request)?
        }
    };
    if leading.stages == pipeline.stages.len() {
        return Ok(executor);
    }
    let own_database = request.over.database();
    let others = OtherCollections::open(scope, operation, own_database, pipeline.collections())?;
    others.refuse_other_collations(context.collation())?;
    let executor = executor.with_stages(pipeline.start_at(leading.stages), others, request.threads);
    match pipeline.written() {
        None => Ok(executor),
        Some(written) => {
            let writer = ResultWriter {
                scope,
                operation,
                own_database,
                level: request.level,
            };
            writer.write(written, executor)?;
            Ok(Executor::empty())
        }
    }
}

/// The collection that says how a pipeline compares strings, if that is left to it.
pub(super) fn collection_over(
    scope: Scope<'_>,
    operation: &Operation,
    over: Over<'_>,
    context: &ExpressionContext,
) -> Result<Option<Arc<Collection>>> {
    match over {
        Over::Collection(namespace) if !context.has_collation() => {
            Ok(scope.collection(namespace, operation)?)
        }
        _ => Ok(None),
    }
}

/// The collection whose documents the pipeline is over, or none where its first stage makes them.
pub(super) fn input<'a>(over: Over<'a>, pipeline: &Pipeline) -> Result<Option<&'a Namespace>> {
    let refused = |text: String| Err(Error::new(ErrorCode::INVALID_NAMESPACE, text));
    match (over, pipeline.input(), pipeline.stages.first()) {
        (Over::Collection(namespace), Input::Documents, _) => Ok(Some(namespace)),
        (Over::Collection(_), Input::MadeOfCollection, _)
        | (Over::Database(_), Input::MadeOfNothing, _) => Ok(None),
        (Over::Collection(_), Input::MadeOfNothing, first) => refused(format!(
            "'{}' can only be run with {{aggregate: 1}}",
            first.map_or("", |first| first.name())
        )),
        (Over::Database(_), _, Some(first)) => refused(format!(
            "{{aggregate: 1}} is not valid for '{}'; a collection is required.",
            first.name()
        )),
        (Over::Database(_), _, None) => {
            refused("{aggregate: 1} is not valid for an empty pipeline.".to_owned())
        }
    }
}

/// Has the find attach the metadata that the stage behind it reads.
pub(super) fn want_metadata(
    find: &mut FindRequest<'_>,
    pipeline: &Pipeline,
    leading: &Leading<'_>,
) -> Result<()> {
    let metadata = pipeline.metadata_wanted(leading)?;
    if !metadata.is_empty() {
        find.key_options().metadata = metadata;
    }
    Ok(())
}

/// The find that the head of a pipeline is. `read` are the paths that its rest reads, if that is not all.
pub(super) fn head<'a>(
    namespace: &'a Namespace,
    request: AggregateRequest<'a>,
    context: &'a ExpressionContext,
    leading: &Leading<'a>,
    read: Option<&'a [FieldPath]>,
) -> FindRequest<'a> {
    let mut find = FindRequest::new(namespace);
    find.context = Some(context);
    find.filter = leading.filter.unwrap_or(find.filter);
    find.sort = leading.sort_specification;
    find.skip = leading.skip.unwrap_or(0);
    find.limit = leading.limit;
    find.hint = request.hint;
    find.read = read;
    find
}
