//! The expression of `$redact`: it is evaluated over documents within the document, and answers with one of three variables.

use std::sync::Arc;

use quarry_bson::{RawDocument, RawValue, Value};

use super::{Context, Evaluated, Expression, ExpressionContext, Variables};
use crate::error::Result;

/// The slot of `$$CURRENT`: it is bound before anything else.
const CURRENT_SLOT: usize = 0;
/// The variables that it may answer with, and their values.
const ANSWERS: [(&str, &str); 3] = [("DESCEND", "descend"), ("PRUNE", "prune"), ("KEEP", "keep")];

impl Expression {
    /// Parses the expression of `$redact`, to be evaluated in a context with a `$$CURRENT` of its own. The kinds of metadata that it asks for
    /// are named in the context of its stage.
    pub(crate) fn parse_redaction(
        value: RawValue<'_>,
        stage: &ExpressionContext,
    ) -> Result<Expression> {
        let mut context = stage.share();
        for (name, answer) in ANSWERS {
            context.bind(&Arc::from(name), Some(Value::from(answer)))?;
        }
        let mut variables = Variables::new(&context);
        let slot = variables.bind("CURRENT")?;
        debug_assert_eq!(slot, CURRENT_SLOT, "the first slot");
        let expression = Expression::read(value, &mut variables)?.folded()?;
        stage.name_metadata(context.metadata_named());
        Ok(expression)
    }
}

impl<'a> Context<'a> {
    /// A context over a document within another one.
    pub(crate) fn with_current(root: RawDocument<'a>, current: RawDocument<'a>) -> Context<'a> {
        let mut context = Context::new(root);
        context.set(CURRENT_SLOT, Evaluated::Raw(RawValue::Document(current)));
        context
    }
}
