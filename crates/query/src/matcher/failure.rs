//! Why a document does not match a filter, in the shape of the `errInfo.details` of MongoDB's DocumentValidationFailure.
//!
//! The filter is followed as it was written: each clause stands for itself, is asked by itself, and is shown as it was given.
//! A negation tells of what did match. Recursion is as deep as the filter, whose parser bounds it.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, doc};

use quarry_geometry::parse_stored;

use super::Matcher;
use super::json_schema::{Details, JsonSchema};
use super::parse::{Level, is_operators};
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, ExpressionContext};
use crate::field_path::FieldPath;
use crate::interrupts;

/// Values of one path that are shown at most, as in MongoDB.
const CONSIDERED_MAX: usize = 10;

/// The telling of one document's failure.
struct Telling<'t> {
    document: RawDocument<'t>,
    context: &'t ExpressionContext,
    details: Details,
}

/// Whether it is told why a clause failed, or, within a negation, why it did not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Unmet,
    Met,
}

impl Matcher {
    /// Tells why the document does not match the filter, which parses.
    pub fn failure(
        filter: RawDocument<'_>,
        document: RawDocument<'_>,
        context: &ExpressionContext,
    ) -> Result<Document> {
        let mut telling = Telling {
            document,
            context,
            details: Details::default(),
        };
        telling.filter(filter, Told::Unmet)
    }
}

impl Telling<'_> {
    /// A filter that fails on the document does not match it, as for the validator.
    fn matches(&self, filter: RawDocument<'_>) -> Result<bool> {
        match Matcher::parse_in(filter, self.context)?.try_matches(self.document) {
            Err(error) if !error.ends_operation() => Ok(false),
            answer => answer,
        }
    }

    /// A finding about an operator, with what was asked as far as there is room for it.
    fn finding(&mut self, name: &str, clause: RawDocument<'_>) -> Document {
        let mut finding = doc! { "operatorName": name };
        self.details.show_asked(&mut finding, clause);
        finding
    }

    /// Tells of a filter: of its only clause, or of an `$and` of several.
    fn filter(&mut self, filter: RawDocument<'_>, told: Told) -> Result<Document> {
        let clauses = clauses(filter);
        match clauses.as_slice() {
            [only] => self.clause(only.as_raw(), told),
            all => self.logic("$and", all.iter().map(Document::as_raw), told),
        }
    }

    /// Tells of a filter of one operator.
    fn clause(&mut self, clause: RawDocument<'_>, told: Told) -> Result<Document> {
        interrupts::work(1)?;
        let Some(element) = clause.first() else {
            return Ok(Document::new());
        };
        let name = element.name().as_str()?;
        match (name, element.value()) {
            ("$and" | "$or" | "$nor", RawValue::Array(members)) => {
                let members = members.iter().filter_map(|member| member.as_document());
                self.logic(name, members, told)
            }
            ("$jsonSchema", schema) if told == Told::Unmet => {
                let level = Level::outermost(self.context);
                JsonSchema::parse(schema, level)?.failure(self.document, &mut self.details)
            }
            ("$jsonSchema", _) => {
                let mut finding = self.finding(name, clause);
                finding.append("reason", "schema matched");
                Ok(finding)
            }
            ("$expr", expression) => self.expression(clause, expression, told),
            (top, _) if top.starts_with('$') => {
                let mut finding = self.finding(top, clause);
                let reason = match told {
                    Told::Unmet => "expression always evaluates to false",
                    Told::Met => "expression always evaluates to true",
                };
                finding.append("reason", reason);
                Ok(finding)
            }
            (path, operand) => self.field(clause, path, operand, told),
        }
    }

    /// Tells of the members of `$and`, `$or` or `$nor`, or of the clauses of a filter.
    fn logic<'m>(
        &mut self,
        name: &str,
        members: impl Iterator<Item = RawDocument<'m>>,
        told: Told,
    ) -> Result<Document> {
        // A `$nor` fails because of members that match.
        let of_members = match (name, told) {
            ("$nor", Told::Unmet) => Told::Met,
            ("$nor", Told::Met) => Told::Unmet,
            (_, told) => told,
        };
        let mut clauses: Vec<Value> = Vec::new();
        for (index, member) in (0_i32..).zip(members) {
            if self.matches(member)? == (of_members == Told::Met) && self.details.take() {
                let details = self.filter(member, of_members)?;
                clauses.push(doc! { "index": index, "details": details }.into());
            }
        }
        let list = match of_members {
            Told::Unmet => "clausesNotSatisfied",
            Told::Met => "clausesSatisfied",
        };
        Ok(doc! { "operatorName": name, (list): clauses })
    }

    fn expression(
        &mut self,
        clause: RawDocument<'_>,
        expression: RawValue<'_>,
        told: Told,
    ) -> Result<Document> {
        let mut finding = self.finding("$expr", clause);
        let expression = Expression::parse(expression, self.context)?;
        let mut context = Context::new(self.document);
        match expression.evaluate(&mut context) {
            Ok(result) => {
                let reason = match told {
                    Told::Unmet => "expression did not match",
                    Told::Met => "expression did match",
                };
                finding.append("reason", reason);
                let result = result.into_value().unwrap_or_default();
                self.details
                    .show(&mut finding, "expressionResult", result.as_raw());
            }
            Err(error) if error.ends_operation() => return Err(error),
            Err(error) => {
                finding.append("reason", "failed to evaluate aggregation expression");
                let details = doc! {
                    "code": (error.code()),
                    "codeName": (error.code.name().as_ref()),
                    "errmsg": (error.message),
                };
                finding.append("details", details);
            }
        }
        Ok(finding)
    }

    /// Tells of an operator on a field.
    fn field(
        &mut self,
        clause: RawDocument<'_>,
        path: &str,
        operand: RawValue<'_>,
        told: Told,
    ) -> Result<Document> {
        let (name, operand) = match operand {
            RawValue::Document(operators) if is_operators(operators) => {
                let operator = operators.first().map(|first| (first.name(), first.value()));
                let (name, operand) = operator.unwrap_or(("$eq".into(), operand));
                (name.as_str()?, operand)
            }
            RawValue::Regex(_) => ("$regex", operand),
            _ => ("$eq", operand),
        };
        if name == "$not" {
            let inner = Document::build(|out| {
                out.append(path, operand);
            });
            let of_inner = match told {
                Told::Unmet => Told::Met,
                Told::Met => Told::Unmet,
            };
            let details = self.filter(inner.as_raw(), of_inner)?;
            return Ok(doc! { "operatorName": name, "details": details });
        }
        let mut finding = self.finding(name, clause);
        let path = FieldPath::parse(path)?;
        let gathered = |are_whole| {
            let mut gathering = Gathering {
                path: &path,
                are_whole,
                values: Vec::new(),
            };
            gathering.gather(RawValue::Document(self.document), 0)?;
            Ok::<_, Error>(gathering.values)
        };
        let mut values = gathered(true)?;
        let is_about_presence = name == "$exists";
        let reason = match values.as_slice() {
            [] if !is_about_presence => "field was missing",
            places if is_geo(name) && !places.iter().any(|place| is_geometry(*place)) => {
                "could not find a valid geometry at the given path"
            }
            _ => reason(name, operand, told),
        };
        finding.append("reason", reason);
        if is_geo(name) {
            values = gathered(false)?;
        }
        if !is_about_presence {
            self.append_considered(name, &values, &mut finding);
        }
        Ok(finding)
    }

    /// Shows the values that the operator was asked of.
    fn append_considered(&mut self, name: &str, values: &[RawValue<'_>], finding: &mut Document) {
        match values {
            [] => {}
            [only] => {
                self.details.show(finding, "consideredValue", *only);
                if name == "$type" {
                    finding.append("consideredType", only.element_type().alias());
                }
            }
            several => {
                let shown = several.iter().take(CONSIDERED_MAX);
                let shown: Vec<Value> = shown.map(|value| Value::from(*value)).collect();
                let shown = Value::from(shown);
                self.details
                    .show(finding, "consideredValues", shown.as_raw());
                if several.len() > CONSIDERED_MAX {
                    finding.append("consideredValuesTruncated", true);
                }
                if name == "$type" {
                    let mut types: Vec<&str> = Vec::new();
                    for value in several {
                        let alias = value.element_type().alias();
                        if !types.contains(&alias) {
                            types.push(alias);
                        }
                    }
                    let types: Vec<Value> = types.into_iter().map(Value::from).collect();
                    finding.append("consideredTypes", types);
                }
            }
        }
    }
}

/// The clauses of a filter: its fields, each operator of a field by itself. A comment is none.
fn clauses(filter: RawDocument<'_>) -> Vec<Document> {
    let mut clauses = Vec::new();
    for element in filter {
        match element.value() {
            _ if element.name() == "$comment" => {}
            RawValue::Document(operators)
                if is_operators(operators) && !element.name().as_bytes().starts_with(b"$") =>
            {
                for operator in operators.iter().filter(|one| one.name() != "$options") {
                    clauses.push(Document::build(|out| {
                        let mut field = out.document(element.name().as_bytes());
                        field.append_element(operator);
                        let options = operators.get_element("$options");
                        if let Some(options) = options.filter(|_| operator.name() == "$regex") {
                            field.append_element(options);
                        }
                        field.finish();
                    }));
                }
            }
            _ => clauses.push(Document::build(|out| {
                out.append_element(element);
            })),
        }
    }
    clauses
}

/// The values that a path reaches, as far as they are shown.
struct Gathering<'v, 'p> {
    path: &'p FieldPath,
    /// An array at the path's end stands behind its elements; else only an empty one does.
    are_whole: bool,
    values: Vec<RawValue<'v>>,
}

impl<'v> Gathering<'v, '_> {
    /// Adds what the path reaches from a value on. Recursion is as deep as the path is long, and once more for each array.
    fn gather(&mut self, value: RawValue<'v>, depth: usize) -> Result<()> {
        interrupts::work(1)?;
        if self.values.len() > CONSIDERED_MAX {
            return Ok(());
        }
        let Some(part) = self.path.parts().get(depth) else {
            if let RawValue::Array(array) = value {
                self.values.extend(array.iter().take(CONSIDERED_MAX));
                if !self.are_whole && !array.is_empty() {
                    return Ok(());
                }
            }
            self.values.push(value);
            return Ok(());
        };
        match value {
            RawValue::Document(document) => match document.get(part.name()) {
                Some(value) => self.gather(value, depth + 1),
                None => Ok(()),
            },
            RawValue::Array(array) => self.gather_from_array(array, depth),
            _ => Ok(()),
        }
    }

    fn gather_from_array(&mut self, array: RawArray<'v>, depth: usize) -> Result<()> {
        let index_wanted = self.path.parts()[depth].index();
        for (index, element) in (0_u32..).zip(array) {
            if let RawValue::Document(_) = element {
                self.gather(element, depth)?;
            }
            if index_wanted == Some(index) {
                self.gather(element, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn is_geo(operator: &str) -> bool {
    ["$geoWithin", "$within", "$geoIntersects"].contains(&operator)
}

fn is_geometry(value: RawValue<'_>) -> bool {
    parse_stored(value, interrupts::is_over).is_ok()
}

/// The reason that MongoDB gives for an operator.
fn reason(operator: &str, operand: RawValue<'_>, told: Told) -> &'static str {
    let is_met = told == Told::Met;
    let choose = |unmet, met| if is_met { met } else { unmet };
    match operator {
        // These are negations of the operator that the reason is of.
        "$ne" => match told {
            Told::Unmet => "comparison succeeded",
            Told::Met => "comparison failed",
        },
        "$nin" => match told {
            Told::Unmet => "matching value found in array",
            Told::Met => "no matching value found in array",
        },
        "$exists" if operand.is_truthy() => choose("path does not exist", "path does exist"),
        "$exists" => choose("path does exist", "path does not exist"),
        "$in" => choose(
            "no matching value found in array",
            "matching value found in array",
        ),
        "$type" => choose("type did not match", "type did match"),
        "$regex" => choose(
            "regular expression did not match",
            "regular expression did match",
        ),
        "$mod" => choose(
            "$mod did not evaluate to expected remainder",
            "$mod did evaluate to expected remainder",
        ),
        "$size" => choose(
            "array length was not equal to given size",
            "array length was equal to given size",
        ),
        "$all" => choose(
            "array did not contain all specified values",
            "array did contain all specified values",
        ),
        "$elemMatch" => choose(
            "array did not satisfy the child predicate",
            "array did satisfy the child predicate",
        ),
        "$geoWithin" | "$within" => choose(
            "none of the considered geometries were contained within the expression’s geometry",
            "at least one of considered geometries was contained within the expression’s geometry",
        ),
        "$geoIntersects" => choose(
            "none of the considered geometries intersected the expression’s geometry",
            "at least one of considered geometries intersected the expression’s geometry",
        ),
        "$bitsAllClear" | "$bitsAllSet" | "$bitsAnyClear" | "$bitsAnySet" => choose(
            "bitwise operator failed to match",
            "bitwise operator matched successfully",
        ),
        _ => choose("comparison failed", "comparison succeeded"),
    }
}
