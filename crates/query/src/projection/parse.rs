//! From a projection document to the tree. A projection either includes or excludes; `_id` may go its own way.
//! The first plain inclusion or exclusion decides which it is.

use quarry_bson::{RawDocument, RawElement, RawValue};

use super::node::{Branch, Node};
use super::slice::Slice;
use super::{Fields, Mode, Projection};
use crate::error::{Error, Result};
use crate::expression::{Expression, ExpressionContext};
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::matcher::{MatchExpression, Matcher};
use crate::metadata::SORT_KEY;

/// The work of parsing what is said of one field.
const UNITS_OF_A_FIELD: usize = 50;

/// Levels of documents in a projection.
const PROJECTION_DEPTH_MAX: usize = 100;

pub(super) fn parse(
    projection: RawDocument<'_>,
    filter: Option<&Matcher>,
    context: &ExpressionContext,
) -> Result<Projection> {
    let mut parser = Parser {
        filter,
        context,
        root: Branch::default(),
        mode: None,
        includes_id: None,
        has_elem_match: false,
        has_matched: false,
        paths: Vec::new(),
        has_other: false,
        sort_keys: Vec::new(),
    };
    // Those of the filter are not the projection's.
    context.take_metadata_named();
    for element in projection {
        parser.field("", element, 0)?;
    }
    parser.finish()
}

struct Parser<'f> {
    filter: Option<&'f Matcher>,
    context: &'f ExpressionContext,
    root: Branch,
    mode: Option<Mode>,
    /// Whether the projection includes `_id`, if it says so.
    includes_id: Option<bool>,
    has_elem_match: bool,
    has_matched: bool,
    paths: Vec<FieldPath>,
    has_other: bool,
    sort_keys: Vec<FieldPath>,
}

impl Parser<'_> {
    fn field(&mut self, prefix: &str, element: RawElement<'_>, depth: usize) -> Result<()> {
        if depth > PROJECTION_DEPTH_MAX {
            return Err(Error::bad_value(format!(
                "a projection nests deeper than {PROJECTION_DEPTH_MAX} levels"
            )));
        }
        interrupts::work(UNITS_OF_A_FIELD)?;
        let name = element.name().as_str()?;
        let dotted = if prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{prefix}.{name}")
        };
        if let Some(array) = dotted.strip_suffix(".$") {
            check_positional(element.value())?;
            return self.matched(array, &dotted, element.value());
        }
        let path = parse_path(&dotted)?;
        match element.value() {
            RawValue::Document(document) => self.document(path, document, element, depth),
            flag if flag.is_number() || matches!(flag, RawValue::Boolean(_)) => {
                self.flag(path, flag.is_truthy())
            }
            _ => self.computed(path, element),
        }
    }

    fn flag(&mut self, path: FieldPath, include: bool) -> Result<()> {
        if path.as_str() == "_id" {
            if self.includes_id.replace(include).is_some() {
                return Err(Error::location(31250, "Path collision at _id"));
            }
            return Ok(());
        }
        if include {
            self.set_mode(Mode::Drop, &path)?;
            self.paths.push(path.clone());
            self.root.insert(&path, Node::Include)
        } else {
            self.set_mode(Mode::Keep, &path)?;
            self.root.insert(&path, Node::Exclude)
        }
    }

    fn set_mode(&mut self, mode: Mode, path: &FieldPath) -> Result<()> {
        let known = *self.mode.get_or_insert(mode);
        match (known, mode) {
            (Mode::Keep, Mode::Drop) => {
                let text = format!(
                    "Cannot do inclusion on field {} in exclusion projection",
                    path.as_str()
                );
                Err(Error::location(31253, text))
            }
            (Mode::Drop, Mode::Keep) => {
                let text = format!(
                    "Cannot do exclusion on field {} in inclusion projection",
                    path.as_str()
                );
                Err(Error::location(31254, text))
            }
            _ => Ok(()),
        }
    }

    fn document(
        &mut self,
        path: FieldPath,
        document: RawDocument<'_>,
        element: RawElement<'_>,
        depth: usize,
    ) -> Result<()> {
        let Some(first) = document.first() else {
            let text = format!(
                "An empty sub-projection is not a valid value. Found empty object at path {}",
                path.as_str()
            );
            return Err(Error::location(51270, text));
        };
        if !first.name().as_bytes().starts_with(b"$") {
            return document
                .iter()
                .try_for_each(|inner| self.field(path.as_str(), inner, depth + 1));
        }
        if document.len() != 1 {
            let text = format!(
                "an object representing an expression must have exactly one field: {}",
                element.value()
            );
            return Err(Error::location(15983, text));
        }
        match first.name().as_bytes() {
            b"$slice" => self.slice(path, first.value(), element),
            b"$elemMatch" => self.elem_match(&path, first.value()),
            b"$meta" => self.meta(path, first.value(), element),
            _ => self.computed(path, element),
        }
    }

    /// Metadata alone neither includes nor excludes other fields.
    fn meta(&mut self, path: FieldPath, kind: RawValue<'_>, element: RawElement<'_>) -> Result<()> {
        let expression = Expression::parse(element.value(), self.context)?;
        if kind.as_str() == Some(SORT_KEY) {
            self.sort_keys.push(path.clone());
        }
        self.has_other = true;
        self.root.insert(&path, Node::Computed(expression))
    }

    fn slice(
        &mut self,
        path: FieldPath,
        operand: RawValue<'_>,
        element: RawElement<'_>,
    ) -> Result<()> {
        if let Some(slice) = Slice::parse(operand) {
            self.has_other = true;
            return self.root.insert(&path, Node::Slice(slice));
        }
        // `{$slice: ["$array", 2]}` is an expression; numbers alone can only be meant for the form above.
        let numbers = match operand {
            RawValue::Array(parts) => parts.iter().all(|part| part.is_number()),
            _ => true,
        };
        let parsed = if numbers {
            Err(Error::bad_value("the limit must be positive"))
        } else {
            self.computed(path, element)
        };
        parsed.map_err(|error| {
            if matches!(error.code(), 31252 | 31310) {
                return error;
            }
            let text = format!(
                "Invalid $slice syntax. The given syntax {} did not match the find() syntax because :: $slice only \
                 supports numbers and [skip, limit] arrays :: The given syntax did not match the expression $slice \
                 syntax. :: caused by :: {error}",
                element.value()
            );
            Error::location(28667, text)
        })
    }

    fn elem_match(&mut self, path: &FieldPath, operand: RawValue<'_>) -> Result<()> {
        let RawValue::Document(_) = operand else {
            let found = operand.element_type().alias();
            return Err(Error::location(
                31274,
                format!("elemMatch: Invalid argument, object required, but got {found}"),
            ));
        };
        if !path.is_top_level() {
            return Err(Error::location(
                31275,
                "Cannot use $elemMatch projection on a nested field",
            ));
        }
        if self.has_matched {
            return Err(positional_with_elem_match());
        }
        self.has_elem_match = true;
        self.has_other = true;
        let filter = Matcher::parse_elem_match(operand, self.context)?;
        self.root.insert(path, Node::ElemMatch(filter))
    }

    fn matched(&mut self, array: &str, dotted: &str, flag: RawValue<'_>) -> Result<()> {
        let path = parse_path(array)?;
        if !flag.is_truthy() || self.mode == Some(Mode::Keep) {
            return Err(Error::location(
                31395,
                "positional projection cannot be used with exclusion",
            ));
        }
        if self.has_matched {
            return Err(Error::location(
                31276,
                "Cannot specify more than one positional projection per query.",
            ));
        }
        if self.has_elem_match {
            return Err(positional_with_elem_match());
        }
        let asked = self
            .filter
            .is_some_and(|filter| asks_about(filter.root(), path.first()));
        if !asked {
            let text =
                format!("Positional projection '{dotted}' does not match the query document.");
            return Err(Error::location(31277, text));
        }
        self.set_mode(Mode::Drop, &path)?;
        self.has_matched = true;
        self.has_other = true;
        self.root.insert(&path, Node::Matched)
    }

    fn computed(&mut self, path: FieldPath, element: RawElement<'_>) -> Result<()> {
        if self.mode == Some(Mode::Keep) {
            if element.value().as_document().is_some() {
                let text = "Cannot use expression other than $meta in exclusion projection";
                return Err(Error::location(31252, text));
            }
            let text = format!(
                "Cannot use an expression {}: {} in an exclusion projection",
                path.as_str(),
                element.value()
            );
            return Err(Error::location(31310, text));
        }
        self.mode = Some(Mode::Drop);
        self.has_other = true;
        let expression = Expression::parse(element.value(), self.context)?;
        self.root.insert(&path, Node::Computed(expression))
    }

    fn finish(mut self) -> Result<Projection> {
        let implied = if self.has_elem_match || self.includes_id == Some(true) {
            Mode::Drop
        } else {
            Mode::Keep
        };
        let mode = self.mode.unwrap_or(implied);
        let id = FieldPath::parse("_id")?;
        let names_id = self.root.find(b"_id").is_some();
        match (mode, self.includes_id) {
            (_, Some(_)) if names_id => {
                return Err(Error::location(31250, "Path collision at _id"));
            }
            (Mode::Drop, Some(false)) | (Mode::Keep | Mode::Add, None | Some(true)) => {}
            (Mode::Drop, _) if names_id => {}
            (Mode::Drop, _) => {
                self.paths.push(id.clone());
                self.root.insert(&id, Node::Include)?;
            }
            (Mode::Keep | Mode::Add, Some(false)) => self.root.insert(&id, Node::Exclude)?,
        }
        self.root.fold()?;
        let plain = mode == Mode::Drop && !self.has_other;
        Ok(Projection {
            fields: Fields {
                mode,
                root: self.root,
            },
            required: plain.then_some(self.paths),
            uses_matched_element: self.has_matched,
            metadata: self.context.metadata_named(),
            sort_keys: self.sort_keys,
        })
    }
}

fn positional_with_elem_match() -> Error {
    Error::location(31255, "Cannot specify positional operator and $elemMatch.")
}

/// Refuses what cannot stand behind a path that ends in `$`: it says whether the element is included, and nothing else.
fn check_positional(value: RawValue<'_>) -> Result<()> {
    match value {
        RawValue::Document(_) => Err(Error::location(
            31271,
            "positional projection cannot be used with an expression or sub object",
        )),
        RawValue::Boolean(_) => Ok(()),
        number if number.is_number() => Ok(()),
        _ => Err(Error::location(
            31308,
            "positional projection cannot be used with a literal",
        )),
    }
}

fn parse_path(dotted: &str) -> Result<FieldPath> {
    if dotted.is_empty() {
        return Err(Error::location(
            40352,
            "FieldPath cannot be constructed with empty string",
        ));
    }
    if dotted.ends_with('.') {
        return Err(Error::location(40353, "FieldPath must not end with a '.'."));
    }
    let path = FieldPath::parse(dotted)?;
    for (place, part) in path.parts().iter().enumerate() {
        if part.name().is_empty() {
            return Err(Error::location(
                15998,
                "FieldPath field names may not be empty strings.",
            ));
        }
        if part.name() == "$" && place > 0 {
            return Err(Error::location(
                31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a path. Positional projection \
                 may only be used at the end, for example: a.b.$. If the query previously used a form like a.b.$.d, \
                 remove the parts following the '$' and the results will be equivalent.",
            ));
        }
        if part.name().starts_with('$') && !matches!(part.name(), "$ref" | "$id" | "$db") {
            return Err(Error::location(
                16410,
                "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
            ));
        }
    }
    Ok(path)
}

/// Whether a predicate of the filter goes through a top-level field.
fn asks_about(expression: &MatchExpression, field: &str) -> bool {
    match expression {
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => children.iter().any(|child| asks_about(child, field)),
        MatchExpression::Not(child) => asks_about(child, field),
        MatchExpression::Field(predicate) => predicate.path.first() == field,
        _ => false,
    }
}
