//! Finds what must hold of a document's fields if an expression is true of it, in terms that an index can answer.

use quarry_bson::{RawValue, Value};

use super::{Call, Expression};
use crate::field_path::FieldPath;
use crate::matcher::CompareOp;

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

impl Expression {
    /// The orders that hold wherever the expression is true: the value at a path stands so to a constant, in the order of all types,
    /// a missing one below null. Equalities are not among them.
    pub(crate) fn implied_orders(&self) -> Vec<(&str, CompareOp, &Value)> {
        let mut orders = Vec::new();
        self.add_orders(&mut orders);
        orders
    }

    fn add_orders<'e>(&'e self, orders: &mut Vec<(&'e str, CompareOp, &'e Value)>) {
        let Expression::Call(call) = self else {
            return;
        };
        let (op, turned) = match call.name() {
            "$and" => {
                for argument in &call.arguments {
                    argument.add_orders(orders);
                }
                return;
            }
            "$gt" => (CompareOp::Gt, CompareOp::Lt),
            "$gte" => (CompareOp::Gte, CompareOp::Lte),
            "$lt" => (CompareOp::Lt, CompareOp::Gt),
            "$lte" => (CompareOp::Lte, CompareOp::Gte),
            _ => return,
        };
        let (path, op, value) = match &*call.arguments {
            [Expression::Path(path), Expression::Literal(value)] => (path, op, value),
            [Expression::Literal(value), Expression::Path(path)] => (path, turned, value),
            _ => return,
        };
        if let Some(path) = path.root_path() {
            orders.push((path.as_str(), op, value));
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
