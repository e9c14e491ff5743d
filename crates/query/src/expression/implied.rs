//! Finds what must hold of a document's fields if an expression is true of it, in terms that an index can answer.

use quarry_bson::{RawValue, Value};

use super::{Call, Expression};
use crate::field_path::FieldPath;

impl Expression {
    /// The equalities that hold, as a filter compares, wherever the expression is true: paths with their values. They
    /// need not be enough for it to be true.
    ///
    /// `$eq` of a path and a constant that is no array is such a one. It is not true where an array stands on the path, which
    /// an expression makes an array of; where there is none, an expression and a filter find the same value.
    pub(crate) fn implied_equalities(&self) -> Vec<(FieldPath, Value)> {
        let mut equalities = Vec::new();
        self.add_implied(&mut equalities);
        equalities
    }

    fn add_implied(&self, equalities: &mut Vec<(FieldPath, Value)>) {
        let Expression::Call(call) = self else {
            return;
        };
        match call.name() {
            "$and" => {
                for argument in &call.arguments {
                    argument.add_implied(equalities);
                }
            }
            "$eq" => equalities.extend(equality(call)),
            _ => {}
        }
    }
}

fn equality(call: &Call) -> Option<(FieldPath, Value)> {
    let [left, right] = &*call.arguments else {
        return None;
    };
    let ((Expression::Path(path), Expression::Literal(value))
    | (Expression::Literal(value), Expression::Path(path))) = (left, right)
    else {
        return None;
    };
    match value.as_raw() {
        // A filter compares with the elements of an array, too, and with Undefined not at all.
        RawValue::Array(_) | RawValue::Undefined => None,
        _ => Some((path.root_path()?.clone(), value.clone())),
    }
}
