//! The filters of partial indexes: the part of the language that `partialFilterExpression` may use, compiled for the
//! database, which knows no language itself.
//!
//! The operators are those that MongoDB names: equality, `$in`, `$gt`, `$gte`, `$lt`, `$lte`, `$exists: true`, `$type`,
//! `$and` and `$or`. Each of them says something of a document that a query can be held against (`planner/implication.rs`).

use std::any::Any;
use std::sync::Arc;

use quarry_bson::RawDocument;
use quarry_database::{DocumentFilter, DocumentValidator, FilterLanguage};

use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::matcher::{MatchExpression, Matcher, Predicate};
use crate::validator::Validator;

/// How deep `$and` and `$or` may stand in each other.
const DEPTH_MAX: usize = 4;

/// The language of filters for `quarry_database::Options`.
pub fn filter_language() -> Arc<dyn FilterLanguage> {
    Arc::new(Language)
}

#[derive(Debug)]
struct Language;

/// The filter of a partial index.
#[derive(Debug)]
pub(crate) struct PartialFilter {
    matcher: Matcher,
    fields: Vec<String>,
}

impl FilterLanguage for Language {
    fn compile(
        &self,
        expression: RawDocument<'_>,
        collation: &Collation,
    ) -> quarry_database::Result<Arc<dyn DocumentFilter>> {
        let filter = PartialFilter::parse(expression, collation).map_err(Error::into_database)?;
        Ok(Arc::new(filter))
    }

    fn compile_validator(
        &self,
        expression: RawDocument<'_>,
        collation: &Collation,
    ) -> quarry_database::Result<Arc<dyn DocumentValidator>> {
        let validator = Validator::parse(expression, collation).map_err(Error::into_database)?;
        Ok(Arc::new(validator))
    }
}

impl PartialFilter {
    fn parse(expression: RawDocument<'_>, collation: &Collation) -> Result<PartialFilter> {
        let context = ExpressionContext::default().with_collation(collation.clone());
        let matcher = Matcher::parse_of_fields(expression, &context)?;
        check(matcher.root(), DEPTH_MAX, expression)?;
        let fields = matcher.top_level_fields().map(str::to_owned).collect();
        Ok(PartialFilter { matcher, fields })
    }

    /// The filter that a partial index was compiled with.
    pub fn of(filter: &dyn DocumentFilter) -> Option<&PartialFilter> {
        (filter as &dyn Any).downcast_ref()
    }

    /// The filter.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

impl DocumentFilter for PartialFilter {
    fn matches(&self, document: RawDocument<'_>) -> quarry_database::Result<bool> {
        self.matcher
            .try_matches(document)
            .map_err(Error::into_database)
    }

    fn top_level_fields(&self) -> &[String] {
        &self.fields
    }
}

/// Refuses what a partial index cannot be made of.
fn check(expression: &MatchExpression, depth_left: usize, whole: RawDocument<'_>) -> Result<()> {
    match expression {
        MatchExpression::AlwaysTrue => Ok(()),
        MatchExpression::And(children) | MatchExpression::Or(children) => {
            let Some(depth_left) = depth_left.checked_sub(1) else {
                return Err(Error::cannot_create_index(format!(
                    "partialFilterExpression depth may not exceed {DEPTH_MAX}"
                )));
            };
            let mut children = children.iter();
            children.try_for_each(|child| check(child, depth_left, whole))
        }
        MatchExpression::Field(field) => match &field.predicate {
            Predicate::Compare { .. } | Predicate::Exists => Ok(()),
            Predicate::In(list) if list.regexes().is_empty() => Ok(()),
            Predicate::Test(test) if test.types().is_some() => Ok(()),
            _ => Err(not_supported(whole)),
        },
        _ => Err(not_supported(whole)),
    }
}

fn not_supported(whole: RawDocument<'_>) -> Error {
    Error::cannot_create_index(format!(
        "Expression not supported in partial index: {whole}"
    ))
}
