//! The `let` of a command or of `$lookup`: variables for all expressions that are parsed with the context.

use std::collections::BTreeSet;

use quarry_bson::RawDocument;

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
            let name = variable.name().as_str()?;
            if count == LET_VARIABLES_MAX {
                let text = format!("'let' can bind at most {LET_VARIABLES_MAX} variables");
                return Err(Error::bad_value(text));
            }
            check_bindable(name)?;
            if name == "CURRENT" {
                let text = "'let' cannot bind CURRENT: this is not supported yet";
                return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
            }
            let expression = Expression::parse(variable.value(), self)?;
            let mut fields = BTreeSet::new();
            if !expression.add_fields_read(&mut fields) || !fields.is_empty() {
                let text = "Command let Expression tried to access a field, but this is not allowed because Command let \
                            Expressions run before the query examines any documents.";
                return Err(Error::location(4_890_500, text));
            }
            let value = expression.evaluate(&mut Context::new(RawDocument::EMPTY))?;
            self.bind(name, value.into_value())?;
        }
        Ok(())
    }
}
