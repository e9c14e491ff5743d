//! `let`: variables for all expressions that are parsed with a context. A command's are evaluated once, before any document
//! is read; those of a stage with a pipeline of its own are evaluated over each document that the stage is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument};

use super::variables::check_bindable;
use super::{Context, Expression, ExpressionContext};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Variables of one `let`.
const LET_VARIABLES_MAX: usize = 1000;

impl ExpressionContext {
    /// Binds the variables of a command's `let`, in order: a later one may read an earlier one. They are evaluated before
    /// any document is read.
    pub fn bind_let(&mut self, variables: RawDocument<'_>) -> Result<()> {
        for (count, variable) in variables.iter().enumerate() {
            let name = name_of(variable.name().as_str()?, count)?;
            let expression = Expression::parse(variable.value(), self)?;
            let mut fields = BTreeSet::new();
            if !expression.add_fields_read(&mut fields) || !fields.is_empty() {
                let text = "Command let Expression tried to access a field, but this is not allowed because Command let \
                            Expressions run before the query examines any documents.";
                return Err(Error::location(4_890_500, text));
            }
            let value = expression.evaluate(&mut Context::new(RawDocument::EMPTY))?;
            self.bind(&name, value.into_value())?;
        }
        Ok(())
    }
}

/// The `let` of a stage, whose variables the pipeline of that stage reads. None of them sees another.
#[derive(Debug)]
pub(crate) struct LetVariables {
    /// As it was given.
    specification: Document,
    variables: Vec<(Arc<str>, Expression)>,
}

impl LetVariables {
    /// Parses them; `context` is that of the stage.
    pub fn parse(
        specification: RawDocument<'_>,
        context: &ExpressionContext,
    ) -> Result<LetVariables> {
        let parsed = specification.iter().enumerate().map(|(count, variable)| {
            let name = name_of(variable.name().as_str()?, count)?;
            Ok((name, Expression::parse(variable.value(), context)?))
        });
        Ok(LetVariables {
            variables: parsed.collect::<Result<_>>()?,
            specification: specification.to_owned_document(),
        })
    }

    /// The variables as they were given.
    pub fn as_raw(&self) -> RawDocument<'_> {
        self.specification.as_raw()
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| &**name)
    }

    /// Makes the names known to `context`, so that a pipeline that reads them can be checked.
    pub fn declare(&self, context: &mut ExpressionContext) {
        for (name, _) in &self.variables {
            context.declare(name);
        }
    }

    /// Binds them in `context` to what they are over this document.
    pub fn bind(&self, document: RawDocument<'_>, context: &mut ExpressionContext) -> Result<()> {
        let mut surroundings = Context::new(document);
        for (name, expression) in &self.variables {
            let value = expression.evaluate(&mut surroundings)?;
            context.bind(name, value.into_value())?;
        }
        Ok(())
    }

    /// Adds the top-level fields that the variables read. False if they may read the whole document.
    pub fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        let mut expressions = self.variables.iter().map(|(_, expression)| expression);
        expressions.all(|expression| expression.add_fields_read(fields))
    }
}

/// Checks the name of the variable that stands behind `count` others.
fn name_of(name: &str, count: usize) -> Result<Arc<str>> {
    if count == LET_VARIABLES_MAX {
        let text = format!("'let' can bind at most {LET_VARIABLES_MAX} variables");
        return Err(Error::bad_value(text));
    }
    check_bindable(name)?;
    if name == "CURRENT" {
        let text = "'let' cannot bind CURRENT: this is not supported yet";
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
    }
    Ok(name.into())
}
