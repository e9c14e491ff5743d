//! From the document of a schema to its rules. Unknown keywords, wrong operands, and schemas that are too deep are refused
//! here, with MongoDB's codes.

use std::sync::Arc;

use quarry_bson::{Document, RawArray, RawDocument, RawElement, RawValue};

use super::unordered::with_sorted_fields;
use super::{
    Asked, Count, Dependency, JsonSchema, PatternProperty, Property, Rest, Rule, Schema, Test,
};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::matcher::expression::CompareOp;
use crate::matcher::parse::Level;
use crate::matcher::regex::RegexPredicate;
use crate::matcher::type_set::TypeSet;
use crate::value_set::ValueSet;

/// The work of parsing one schema.
const UNITS_OF_A_SCHEMA: usize = 100;
/// The work of parsing one member of a list.
const UNITS_OF_A_MEMBER: usize = 20;

/// Sorted, for a search by halves.
const KEYWORDS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "bsonType",
    "dependencies",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// Keywords of draft 4 that MongoDB refuses.
const REFUSED: &[&str] = &["$ref", "$schema", "default", "definitions", "format", "id"];
/// Keywords of MongoDB that are not served.
const NOT_SERVED: &[&str] = &["encrypt", "encryptMetadata"];

impl JsonSchema {
    /// Parses the operand of `$jsonSchema`, which stands at that level of its filter.
    pub(in crate::matcher) fn parse(operand: RawValue<'_>, level: Level<'_>) -> Result<JsonSchema> {
        let RawValue::Document(schema) = operand else {
            return Err(Error::type_mismatch("$jsonSchema must be an object"));
        };
        let root = parse_schema(schema, level)?;
        Ok(JsonSchema { root })
    }
}

/// The rules of a schema as they are read, keyword by keyword.
struct Reading<'s> {
    source: RawDocument<'s>,
    level: Level<'s>,
    rules: Vec<Rule>,
}

fn parse_schema(source: RawDocument<'_>, level: Level<'_>) -> Result<Schema> {
    interrupts::work(UNITS_OF_A_SCHEMA)?;
    check_keywords(source)?;
    let mut reading = Reading {
        source,
        level: level.deeper()?,
        rules: Vec::new(),
    };
    reading.numbers()?;
    reading.texts()?;
    reading.values()?;
    reading.arrays()?;
    reading.documents()?;
    reading.logic()?;
    reading.types()?;
    Ok(Schema {
        title: reading.label("title")?,
        description: reading.label("description")?,
        rules: reading.rules,
    })
}

fn check_keywords(source: RawDocument<'_>) -> Result<()> {
    let mut seen = 0_u64;
    for element in source {
        let name = element.name().as_str()?;
        let Ok(place) = KEYWORDS.binary_search(&name) else {
            if REFUSED.contains(&name) {
                let text = format!("$jsonSchema keyword '{name}' is not currently supported");
                return Err(Error::failed_to_parse(text));
            }
            if NOT_SERVED.contains(&name) {
                let text = format!("$jsonSchema keyword '{name}' is not supported yet");
                return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
            }
            let text = format!("Unknown $jsonSchema keyword: {name}");
            return Err(Error::failed_to_parse(text));
        };
        if seen & (1 << place) != 0 {
            let text = format!("Duplicate $jsonSchema keyword: {name}");
            return Err(Error::failed_to_parse(text));
        }
        seen |= 1 << place;
    }
    Ok(())
}

impl<'s> Reading<'s> {
    /// Adds a rule that shows what was given for the keyword.
    fn add_shown(&mut self, element: RawElement<'s>, name: &'static str, test: Test) {
        let mut given = Document::new();
        given.append_element(element);
        self.rules.push(Rule { name, given, test });
    }

    fn add(&mut self, name: &'static str, test: Test) {
        let given = Document::new();
        self.rules.push(Rule { name, given, test });
    }

    fn label(&self, name: &'static str) -> Result<Option<String>> {
        match self.source.get(name) {
            None => Ok(None),
            Some(RawValue::String(text)) => Ok(Some(text.as_str()?.to_owned())),
            Some(_) => Err(must_be(name, "of type string")),
        }
    }

    fn numbers(&mut self) -> Result<()> {
        self.bound("maximum", "exclusiveMaximum", CompareOp::Lte, CompareOp::Lt)?;
        self.bound("minimum", "exclusiveMinimum", CompareOp::Gte, CompareOp::Gt)?;
        let Some(element) = self.source.get_element("multipleOf") else {
            return Ok(());
        };
        let divisor = element.value();
        if !divisor.is_number() {
            return Err(must_be("multipleOf", "a number"));
        }
        if !divisor.as_f64_lossy().is_some_and(|divisor| divisor > 0.0) {
            let text = "$jsonSchema keyword 'multipleOf' must have a positive value";
            return Err(Error::failed_to_parse(text));
        }
        self.add_shown(element, "multipleOf", Test::MultipleOf(divisor.to_value()));
        Ok(())
    }

    fn bound(
        &mut self,
        name: &'static str,
        exclusive: &'static str,
        op: CompareOp,
        exclusive_op: CompareOp,
    ) -> Result<()> {
        let is_exclusive = match self.source.get_element(exclusive) {
            None => None,
            Some(flag) => match flag.value() {
                RawValue::Boolean(is_exclusive) => Some((flag, is_exclusive)),
                _ => return Err(must_be(exclusive, "a boolean")),
            },
        };
        let Some(element) = self.source.get_element(name) else {
            return match is_exclusive {
                None => Ok(()),
                Some(_) => Err(Error::failed_to_parse(format!(
                    "$jsonSchema keyword '{name}' must be a present if {exclusive} is present"
                ))),
            };
        };
        if !element.value().is_number() {
            return Err(must_be(name, "a number"));
        }
        let op = match is_exclusive {
            Some((_, true)) => exclusive_op,
            _ => op,
        };
        let bound = element.value().to_value();
        self.add_shown(element, name, Test::Bound { op, bound });
        if let (Some((flag, _)), Some(rule)) = (is_exclusive, self.rules.last_mut()) {
            rule.given.append_element(flag);
        }
        Ok(())
    }

    fn texts(&mut self) -> Result<()> {
        self.count("maxLength", Count::AtMost, Test::Length)?;
        self.count("minLength", Count::AtLeast, Test::Length)?;
        let Some(element) = self.source.get_element("pattern") else {
            return Ok(());
        };
        let RawValue::String(pattern) = element.value() else {
            return Err(must_be("pattern", "a string"));
        };
        let pattern = RegexPredicate::new(pattern.as_str()?, "")?;
        self.add_shown(element, "pattern", Test::Pattern(pattern));
        Ok(())
    }

    /// Reads a keyword that bounds a number of things.
    fn count(
        &mut self,
        name: &'static str,
        bound: fn(u64) -> Count,
        test: fn(Count) -> Test,
    ) -> Result<()> {
        let Some(element) = self.source.get_element(name) else {
            return Ok(());
        };
        let value = element.value();
        let reason = match value.as_i64_exact() {
            Some(count) if count >= 0 => {
                self.add_shown(element, name, test(bound(count.unsigned_abs())));
                return Ok(());
            }
            Some(_) => "Expected a non-negative number in",
            None if value.is_number() => "Expected an integer",
            None => "Expected a number in",
        };
        Err(Error::failed_to_parse(format!("{reason}: {name}: {value}")))
    }

    fn values(&mut self) -> Result<()> {
        let Some(element) = self.source.get_element("enum") else {
            return Ok(());
        };
        let values = list(element, "enum")?;
        let mut set = ValueSet::default();
        for value in values {
            interrupts::work(UNITS_OF_A_MEMBER)?;
            let (_, grew) = set.insert(with_sorted_fields(value).as_raw())?;
            if grew == 0 {
                let text = "$jsonSchema keyword 'enum' array cannot contain duplicate values.";
                return Err(Error::failed_to_parse(text));
            }
        }
        self.add_shown(element, "enum", Test::Enum(set));
        Ok(())
    }

    fn arrays(&mut self) -> Result<()> {
        self.count("minItems", Count::AtLeast, Test::ItemCount)?;
        self.count("maxItems", Count::AtMost, Test::ItemCount)?;
        if let Some(element) = self.source.get_element("uniqueItems") {
            match element.value() {
                RawValue::Boolean(true) => {
                    self.add_shown(element, "uniqueItems", Test::UniqueItems);
                }
                RawValue::Boolean(false) => {}
                _ => return Err(must_be("uniqueItems", "a boolean")),
            }
        }
        let items_in_order = self.items()?;
        let rest = self.rest("additionalItems")?;
        if let (Some(from), Some((element, rest))) = (items_in_order, rest) {
            self.add_rest(element, "additionalItems", rest, |rest| {
                Test::AdditionalItems { from, rest }
            });
        }
        Ok(())
    }

    /// Reads `items`; returns how many of the first items have a schema of their own, if any may.
    fn items(&mut self) -> Result<Option<usize>> {
        match self.source.get("items") {
            None => Ok(None),
            Some(RawValue::Document(all)) => {
                let schema = parse_schema(all, self.level)?;
                self.add("items", Test::Items(Box::new(schema)));
                Ok(None)
            }
            Some(RawValue::Array(each)) => {
                let schemas = self.schemas("items", each)?;
                let count = schemas.len();
                self.add("items", Test::ItemsInOrder(schemas));
                Ok(Some(count))
            }
            Some(other) => Err(Error::type_mismatch(format!(
                "$jsonSchema keyword 'items' must be an array or an object, not {}",
                other.element_type().alias()
            ))),
        }
    }

    /// Reads a keyword that is true, false or a schema; None where everything is allowed.
    fn rest(&self, name: &'static str) -> Result<Option<(RawElement<'s>, Rest)>> {
        let Some(element) = self.source.get_element(name) else {
            return Ok(None);
        };
        match element.value() {
            RawValue::Boolean(true) => Ok(None),
            RawValue::Boolean(false) => Ok(Some((element, Rest::Refused))),
            RawValue::Document(schema) => {
                let schema = parse_schema(schema, self.level)?;
                Ok(Some((element, Rest::Schema(Box::new(schema)))))
            }
            _ => Err(must_be(name, "either an object or a boolean")),
        }
    }

    fn add_rest(
        &mut self,
        element: RawElement<'s>,
        name: &'static str,
        rest: Rest,
        test: impl FnOnce(Rest) -> Test,
    ) {
        match rest {
            Rest::Refused => self.add_shown(element, name, test(rest)),
            Rest::Schema(_) => self.add(name, test(rest)),
        }
    }

    fn documents(&mut self) -> Result<()> {
        let named = self.properties()?;
        self.other_properties(named)?;
        if let Some(element) = self.source.get_element("required") {
            let mut names = names(element, "required", "required")?;
            names.sort_unstable();
            self.add_shown(element, "required", Test::Required(names));
        }
        self.count("minProperties", Count::AtLeast, Test::PropertyCount)?;
        self.count("maxProperties", Count::AtMost, Test::PropertyCount)?;
        self.dependencies()
    }

    /// Reads `properties`; returns their names, sorted.
    fn properties(&mut self) -> Result<Vec<String>> {
        let Some(value) = self.source.get("properties") else {
            return Ok(Vec::new());
        };
        let RawValue::Document(listed) = value else {
            return Err(must_be("properties", "an object"));
        };
        let mut properties = Vec::new();
        for element in listed {
            let name = element.name().as_str()?.to_owned();
            let RawValue::Document(schema) = element.value() else {
                return Err(Error::type_mismatch(format!(
                    "Nested schema for $jsonSchema property '{name}' must be an object"
                )));
            };
            let schema = parse_schema(schema, self.level)?;
            properties.push(Property { name, schema });
        }
        // Of two with one name the first decides, as wherever a field is read.
        properties.sort_by(|a, b| a.name.cmp(&b.name));
        properties.dedup_by(|later, first| later.name == first.name);
        let names = properties.iter().map(|property| property.name.clone());
        let names = names.collect();
        self.add("properties", Test::Properties(properties));
        Ok(names)
    }

    /// Reads `patternProperties` and `additionalProperties`.
    fn other_properties(&mut self, named: Vec<String>) -> Result<()> {
        let mut patterns = Vec::new();
        match self.source.get("patternProperties") {
            None => {}
            Some(RawValue::Document(listed)) => {
                for element in listed {
                    let name = element.name().as_str()?;
                    let RawValue::Document(schema) = element.value() else {
                        return Err(Error::type_mismatch(format!(
                            "$jsonSchema keyword 'patternProperties' has property '{name}' which is not an object"
                        )));
                    };
                    let pattern = RegexPredicate::new(name, "")?;
                    let schema = parse_schema(schema, self.level)?;
                    patterns.push(PatternProperty { pattern, schema });
                }
            }
            Some(_) => return Err(must_be("patternProperties", "an object")),
        }
        let patterns = Arc::new(patterns);
        if !patterns.is_empty() {
            let test = Test::PatternProperties(Arc::clone(&patterns));
            self.add("patternProperties", test);
        }
        if let Some((element, rest)) = self.rest("additionalProperties")? {
            self.add_rest(element, "additionalProperties", rest, |rest| {
                Test::AdditionalProperties {
                    named,
                    patterns,
                    rest,
                }
            });
        }
        Ok(())
    }

    fn dependencies(&mut self) -> Result<()> {
        let Some(value) = self.source.get("dependencies") else {
            return Ok(());
        };
        let RawValue::Document(listed) = value else {
            return Err(must_be("dependencies", "an object"));
        };
        let mut dependencies = Vec::new();
        for element in listed {
            let name = element.name().as_str()?.to_owned();
            let asked = match element.value() {
                RawValue::Document(schema) => Asked::Schema(parse_schema(schema, self.level)?),
                RawValue::Array(_) => {
                    let keyword = format!("{name}' in 'dependencies");
                    let mut names = names(element, "dependencies", &keyword)?;
                    names.sort_unstable();
                    Asked::Fields(names)
                }
                other => {
                    return Err(Error::type_mismatch(format!(
                        "$jsonSchema keyword '{name}' in 'dependencies' must be either an object or an array, but found an element of type {}",
                        other.element_type().alias()
                    )));
                }
            };
            dependencies.push(Dependency { name, asked });
        }
        self.add("dependencies", Test::Dependencies(dependencies));
        Ok(())
    }

    fn logic(&mut self) -> Result<()> {
        for (name, test) in [
            ("allOf", Test::AllOf as fn(Vec<Schema>) -> Test),
            ("anyOf", Test::AnyOf),
            ("oneOf", Test::OneOf),
        ] {
            let Some(value) = self.source.get(name) else {
                continue;
            };
            let RawValue::Array(members) = value else {
                return Err(must_be(name, "an array"));
            };
            if members.is_empty() {
                let text = format!("$jsonSchema keyword '{name}' must be a non-empty array");
                return Err(Error::bad_value(text));
            }
            let schemas = self.schemas(name, members)?;
            self.add(name, test(schemas));
        }
        match self.source.get("not") {
            None => {}
            Some(RawValue::Document(schema)) => {
                let schema = parse_schema(schema, self.level)?;
                self.add("not", Test::Not(Box::new(schema)));
            }
            Some(_) => return Err(must_be("not", "an object")),
        }
        Ok(())
    }

    fn schemas(&self, name: &str, members: RawArray<'_>) -> Result<Vec<Schema>> {
        let parse = |member: RawValue<'_>| match member {
            RawValue::Document(schema) => parse_schema(schema, self.level),
            other => Err(Error::type_mismatch(format!(
                "$jsonSchema keyword '{name}' must be an array of objects, but found an element of type {}",
                other.element_type().alias()
            ))),
        };
        members.iter().map(parse).collect()
    }

    fn types(&mut self) -> Result<()> {
        let json = self.source.get_element("type");
        let bson = self.source.get_element("bsonType");
        let (element, name) = match (json, bson) {
            (None, None) => return Ok(()),
            (Some(_), Some(_)) => {
                return Err(Error::failed_to_parse(
                    "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
                ));
            }
            (Some(json), None) => (json, "type"),
            (None, Some(bson)) => (bson, "bsonType"),
        };
        let not_texts = || must_be(name, "either a string or an array of strings");
        let mut aliases = Vec::new();
        match element.value() {
            RawValue::Array(members) => {
                for member in members {
                    let alias = alias(name, member.as_str().ok_or_else(not_texts)?)?;
                    if aliases.contains(&alias) {
                        let text =
                            format!("$jsonSchema keyword '{name}' has duplicate value: {alias}");
                        return Err(Error::failed_to_parse(text));
                    }
                    aliases.push(alias);
                }
            }
            single => aliases.push(alias(name, single.as_str().ok_or_else(not_texts)?)?),
        }
        let types = TypeSet::of_aliases(&aliases)?;
        self.add_shown(element, name, Test::Type(types));
        Ok(())
    }
}

/// The alias of a BSON type that a name in `type` or `bsonType` means.
fn alias<'n>(keyword: &str, name: &'n str) -> Result<&'n str> {
    match (keyword, name) {
        ("bsonType", name) => Ok(name),
        (_, "boolean") => Ok("bool"),
        (_, "object" | "array" | "number" | "string" | "null") => Ok(name),
        (_, "integer") => Err(Error::failed_to_parse(
            "$jsonSchema type 'integer' is not currently supported.",
        )),
        _ => Err(Error::bad_value(format!("Unknown type name alias: {name}"))),
    }
}

/// The array that a keyword lists its values in, which may not be empty.
fn list<'s>(element: RawElement<'s>, keyword: &str) -> Result<RawArray<'s>> {
    match element.value() {
        RawValue::Array(members) if members.is_empty() => Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{keyword}' cannot be an empty array"
        ))),
        RawValue::Array(members) => Ok(members),
        other => Err(Error::type_mismatch(format!(
            "$jsonSchema keyword '{keyword}' must be an array, but found an element of type {}",
            other.element_type().alias()
        ))),
    }
}

/// The names in an array of them, each of which stands there once.
fn names(element: RawElement<'_>, set: &str, keyword: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut seen = ValueSet::default();
    for member in list(element, keyword)? {
        let RawValue::String(name) = member else {
            return Err(Error::type_mismatch(format!(
                "$jsonSchema keyword '{keyword}' must be an array of strings, but found an element of type: {}",
                member.element_type().alias()
            )));
        };
        if seen.insert(member)?.1 == 0 {
            return Err(Error::failed_to_parse(format!(
                "$jsonSchema keyword '{set}' array cannot contain duplicate values"
            )));
        }
        names.push(name.as_str()?.to_owned());
    }
    Ok(names)
}

fn must_be(keyword: &str, what: &str) -> Error {
    Error::type_mismatch(format!("$jsonSchema keyword '{keyword}' must be {what}"))
}

#[cfg(test)]
mod tests {
    use super::KEYWORDS;

    #[test]
    fn the_keywords_are_sorted_and_have_a_bit_each() {
        assert!(KEYWORDS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(KEYWORDS.len() <= 64);
    }
}
