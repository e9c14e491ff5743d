//! From an update document to the tree. Everything that can be wrong without a document at hand is refused
//! here: unknown operators, bad arguments, bad paths, conflicts, unused or missing array filters.

use quarry_bson::{RawArray, RawDocument, RawElement, RawValue, STORED_DEPTH_MAX};
use smallvec::SmallVec;

use super::operators::rename::{RenameFrom, RenamedAway};
use super::operators::{self, Operator, Parse};
use super::parsed::{
    ARRAY_FILTERS_MAX, ArrayFilter, Beside, Kind, Operators, RENAMES_MAX, check_levels,
};
use super::tree::{Dynamic, Leaf, Step};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::interrupts::{self, units_of};
use crate::matcher::Matcher;
use crate::pipeline::Pipeline;

/// The work of parsing what an operator does to one field, and of putting it into the tree.
const UNITS_OF_A_FIELD: usize = 100;

pub(super) fn parse(
    update: RawValue<'_>,
    beside: Beside<'_>,
    context: &ExpressionContext,
) -> Result<Kind> {
    let Beside {
        array_filters,
        constants,
    } = beside;
    let document = match update {
        RawValue::Array(stages) => return parse_pipeline(stages, beside, context),
        _ if constants.is_some() => {
            let text = "Constant values may only be specified for pipeline updates";
            return Err(Error::location(51_198, text));
        }
        RawValue::Document(document) => document,
        _ => {
            return Err(Error::failed_to_parse(
                "Update argument must be either an object or an array",
            ));
        }
    };
    let operators = document
        .first()
        .is_some_and(|first| first.name().as_bytes().starts_with(b"$"));
    if operators {
        let filters = array_filters.map_or(Ok(Vec::new()), |filters| {
            parse_array_filters(filters, context)
        })?;
        return Ok(Kind::Operators(parse_operators(
            document, filters, context,
        )?));
    }
    if array_filters.is_some_and(|filters| !filters.is_empty()) {
        return Err(Error::failed_to_parse(
            "Cannot specify arrayFilters with a replacement-style update",
        ));
    }
    check_replacement(document)?;
    check_levels(document)?;
    Ok(Kind::Replacement(document.to_owned_document()))
}

fn parse_pipeline(
    stages: RawArray<'_>,
    beside: Beside<'_>,
    context: &ExpressionContext,
) -> Result<Kind> {
    if beside
        .array_filters
        .is_some_and(|filters| !filters.is_empty())
    {
        return Err(Error::failed_to_parse(
            "arrayFilters may not be specified for pipeline-style updates",
        ));
    }
    let Some(constants) = beside.constants else {
        return Pipeline::parse_of_update(stages, context).map(Kind::Pipeline);
    };
    let mut context = context.share();
    context.bind_let(constants)?;
    Pipeline::parse_of_update(stages, &context).map(Kind::Pipeline)
}

fn check_replacement(document: RawDocument<'_>) -> Result<()> {
    for element in document {
        let name = element.name();
        if name.as_bytes().starts_with(b"$") {
            return Err(Error::new(
                ErrorCode::DOLLAR_PREFIXED_FIELD_NAME,
                format!(
                    "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's \
                     replacement document. Consider using an aggregation pipeline with $replaceWith."
                ),
            ));
        }
    }
    Ok(())
}

fn parse_operators(
    document: RawDocument<'_>,
    array_filters: Vec<ArrayFilter>,
    context: &ExpressionContext,
) -> Result<Operators> {
    let mut parsed = Operators {
        array_filters,
        ..Operators::default()
    };
    for element in document {
        let name = element.name().as_str()?;
        let operator = operators::find(name)?;
        let RawValue::Document(fields) = element.value() else {
            return Err(Error::failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{name}: {}}}",
                element.element_type().alias(),
                element.value()
            )));
        };
        for field in fields {
            parsed.add(operator, field, context)?;
        }
    }
    parsed.check_filters_used(document)?;
    parsed.root.finish();
    Ok(parsed)
}

impl Operators {
    fn add(
        &mut self,
        operator: &Operator,
        field: RawElement<'_>,
        context: &ExpressionContext,
    ) -> Result<()> {
        interrupts::work(UNITS_OF_A_FIELD + units_of(field.value()))?;
        let path = parse_path(field.name().as_str()?)?;
        let parse = match &operator.parse {
            Parse::Renamed => return self.add_rename(path, field.value()),
            Parse::Removed(parse) => parse,
            Parse::Field(parse) => {
                check_storable(&path)?;
                parse
            }
        };
        self.insert(parse(path, field.value(), context)?)
    }

    fn add_rename(&mut self, from: FieldPath, to: RawValue<'_>) -> Result<()> {
        let shown = format!("{}: {to}", from.as_str());
        let RawValue::String(to) = to else {
            return Err(Error::bad_value(format!(
                "The 'to' field for $rename must be a string: {shown}"
            )));
        };
        let to = to.as_str()?;
        if to.contains('\0') {
            return Err(Error::bad_value(
                "The 'to' field for $rename cannot contain an embedded null byte",
            ));
        }
        let to = parse_path(to)?;
        if from == to {
            return Err(Error::bad_value(format!(
                "The source and target field for $rename must differ: {shown}"
            )));
        }
        if from.is_prefix_of(&to) || to.is_prefix_of(&from) {
            let text = format!(
                "The source and target field for $rename must not be on the same path: {shown}"
            );
            return Err(Error::bad_value(text));
        }
        for (path, which) in [(&from, "source"), (&to, "destination")] {
            if path.parts().iter().any(|part| is_dynamic(part.name())) {
                let text = format!(
                    "The {which} field for $rename may not be dynamic: {}",
                    path.as_str()
                );
                return Err(Error::bad_value(text));
            }
        }
        check_storable(&to)?;
        if self.renames.len() == RENAMES_MAX {
            return Err(Error::bad_value(format!(
                "an update can rename at most {RENAMES_MAX} fields"
            )));
        }
        self.renames.push((from.clone(), to.clone()));
        self.insert(Box::new(Leaf {
            path: to,
            modifier: RenameFrom(from.clone()),
        }))?;
        self.insert(Box::new(Leaf {
            path: from,
            modifier: RenamedAway,
        }))
    }

    fn insert(&mut self, leaf: Box<Leaf>) -> Result<()> {
        let path = &leaf.path;
        if path.parts().len() + leaf.modifier.depth() > STORED_DEPTH_MAX {
            let text = format!(
                "the update of '{}' would nest deeper than {STORED_DEPTH_MAX} levels",
                path.as_str()
            );
            return Err(Error::new(ErrorCode::OVERFLOW, text));
        }
        let mut steps: SmallVec<[Step; 4]> = SmallVec::new();
        for part in path.parts() {
            steps.push(self.step(part.name(), path)?);
        }
        self.root.insert(&steps, leaf)
    }

    /// Says what a component of a path is, and notes what it uses.
    fn step(&mut self, name: &str, path: &FieldPath) -> Result<Step> {
        Ok(match name {
            "$" => {
                self.uses_matched_element = true;
                Step::Dynamic(Dynamic::Matched)
            }
            "$[]" => Step::Dynamic(Dynamic::All),
            _ => match name
                .strip_prefix("$[")
                .and_then(|rest| rest.strip_suffix(']'))
            {
                None => Step::Name,
                Some(identifier) => {
                    let known = self
                        .array_filters
                        .iter()
                        .position(|filter| filter.identifier.as_ref() == identifier);
                    let Some(number) = known else {
                        return Err(Error::bad_value(format!(
                            "No array filter found for identifier '{identifier}' in path '{}'",
                            path.as_str()
                        )));
                    };
                    self.array_filters[number].is_used = true;
                    Step::Dynamic(Dynamic::Filtered(number))
                }
            },
        })
    }

    fn check_filters_used(&self, update: RawDocument<'_>) -> Result<()> {
        for filter in &self.array_filters {
            if !filter.is_used {
                return Err(Error::failed_to_parse(format!(
                    "The array filter for identifier '{}' was not used in the update {}",
                    filter.identifier,
                    RawValue::Document(update)
                )));
            }
        }
        Ok(())
    }
}

fn parse_path(dotted: &str) -> Result<FieldPath> {
    let empty_name = |text: String| Err(Error::new(ErrorCode::EMPTY_FIELD_NAME, text));
    if dotted.is_empty() {
        return empty_name("An empty update path is not valid.".to_owned());
    }
    let path = FieldPath::parse(dotted)?;
    if path.parts().iter().any(|part| part.name().is_empty()) {
        return empty_name(format!(
            "The update path '{dotted}' contains an empty field name, which is not allowed."
        ));
    }
    let first = path.first();
    if first == "$" {
        let text = format!(
            "Cannot have positional (i.e. '$') element in the first position in path '{dotted}'"
        );
        return Err(Error::bad_value(text));
    }
    if is_dynamic(first) {
        return Err(Error::bad_value(format!(
            "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '{dotted}'"
        )));
    }
    if path
        .parts()
        .iter()
        .filter(|part| part.name() == "$")
        .count()
        > 1
    {
        return Err(Error::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{dotted}'"
        )));
    }
    Ok(path)
}

fn is_dynamic(name: &str) -> bool {
    name == "$" || (name.starts_with("$[") && name.ends_with(']'))
}

/// Fields that begin with `$` are not created, but for those of a DBRef.
fn check_storable(path: &FieldPath) -> Result<()> {
    let refused = |name: &str| {
        name.starts_with('$') && !is_dynamic(name) && !matches!(name, "$ref" | "$id" | "$db")
    };
    match path.parts().iter().find(|part| refused(part.name())) {
        None => Ok(()),
        Some(part) => Err(Error::new(
            ErrorCode::DOLLAR_PREFIXED_FIELD_NAME,
            format!(
                "The dollar ($) prefixed field '{}' in '{}' is not valid for storage.",
                part.name(),
                path.as_str()
            ),
        )),
    }
}

fn parse_array_filters(
    filters: RawArray<'_>,
    context: &ExpressionContext,
) -> Result<Vec<ArrayFilter>> {
    let mut parsed: Vec<ArrayFilter> = Vec::new();
    for filter in filters {
        let RawValue::Document(filter) = filter else {
            return Err(Error::type_mismatch("array filters must be objects"));
        };
        let filter = parse_array_filter(filter, context)?;
        if parsed
            .iter()
            .any(|known| known.identifier == filter.identifier)
        {
            return Err(Error::failed_to_parse(format!(
                "Found multiple array filters with the same top-level field name {}",
                filter.identifier
            )));
        }
        if parsed.len() == ARRAY_FILTERS_MAX {
            return Err(Error::bad_value(format!(
                "an update can have at most {ARRAY_FILTERS_MAX} array filters"
            )));
        }
        parsed.push(filter);
    }
    Ok(parsed)
}

fn parse_array_filter(filter: RawDocument<'_>, context: &ExpressionContext) -> Result<ArrayFilter> {
    let matcher = Matcher::parse_of_fields(filter, context).map_err(|error| {
        Error::new(
            error.code,
            format!(
                "Error parsing array filter :: caused by :: {}",
                error.message
            ),
        )
    })?;
    let mut names = matcher.top_level_fields().map(Box::<str>::from);
    let (first, second) = (names.next(), names.next());
    drop(names);
    let Some(identifier) = first else {
        let text = "Cannot use an expression without a top-level field name in arrayFilters";
        return Err(Error::failed_to_parse(text));
    };
    if let Some(second) = second {
        return Err(Error::failed_to_parse(format!(
            "Error parsing array filter :: caused by :: Expected a single top-level field name, found '{identifier}' and '{second}'"
        )));
    }
    let mut letters = identifier.chars();
    let named_well = letters
        .next()
        .is_some_and(|letter| letter.is_ascii_lowercase())
        && letters.all(|letter| letter.is_ascii_alphanumeric());
    if !named_well {
        return Err(Error::bad_value(format!(
            "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{identifier}'"
        )));
    }
    Ok(ArrayFilter {
        identifier,
        is_used: false,
        matcher,
    })
}
