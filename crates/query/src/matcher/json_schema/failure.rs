//! Why a value does not suit a schema, in the shape of MongoDB's `errInfo.details`: a document for each rule that is not met,
//! with the keyword as `operatorName`, what was asked (`specifiedAs`), a reason and the value.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, doc};

use super::check::{duplicate_item, first_unfit_item, is_additional, missing, property};
use super::{Asked, Dependency, JsonSchema, PatternProperty, Property, Rest, Rule, Schema, Test};
use crate::error::Result;
use crate::memory;

/// The findings that the details of one document tell at most.
const FINDINGS_MAX: usize = 1000;
/// The bytes that these details show at most of the document and of what was asked: values, names, operands.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// The bytes of a name in a list, beside its own.
const NAME_BYTES: usize = 16;

/// The room that is left for the details of one document, which a client's document and schema could make very long.
#[derive(Debug)]
pub struct Details {
    findings: usize,
    bytes: usize,
}

impl Default for Details {
    fn default() -> Details {
        Details {
            findings: FINDINGS_MAX,
            bytes: SHOWN_BYTES_MAX,
        }
    }
}

impl Details {
    /// Takes the room of one finding; false if there is none.
    pub(in crate::matcher) fn take(&mut self) -> bool {
        let has_room = self.findings > 0;
        self.findings = self.findings.saturating_sub(1);
        has_room
    }

    /// Takes the room of so many bytes; false if there is less.
    fn take_bytes(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    /// Shows what was asked. What there is no room for is left out.
    pub(in crate::matcher) fn show_asked(
        &mut self,
        finding: &mut Document,
        asked: RawDocument<'_>,
    ) {
        if self.take_bytes(asked.len_bytes()) {
            finding.append("specifiedAs", asked);
        }
    }

    /// Shows a text of the schema or of the document. One that there is no room for is left out.
    fn show_text(&mut self, finding: &mut Document, name: &str, text: &str) {
        if self.take_bytes(NAME_BYTES + text.len()) {
            finding.append(name, text);
        }
    }

    /// The first of these names, as many as there is room for.
    fn listed<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) -> Vec<Value> {
        let names = names.into_iter();
        let names = names.take_while(|name| self.take_bytes(NAME_BYTES + name.len()));
        names.map(Value::from).collect()
    }

    /// Shows the value under that name. One that there is no room for is said to be left out, as MongoDB says it.
    pub(in crate::matcher) fn show(
        &mut self,
        finding: &mut Document,
        name: &str,
        value: RawValue<'_>,
    ) {
        const TRUNCATED: &str = "consideredValuesTruncated";
        if self.take_bytes(memory::bytes_of(value)) {
            finding.append(name, Value::from(value));
        } else if finding.get(TRUNCATED).is_none() {
            finding.append(TRUNCATED, true);
        }
    }
}

impl JsonSchema {
    /// Tells why the document does not suit the schema.
    pub(in crate::matcher) fn failure(
        &self,
        document: RawDocument<'_>,
        details: &mut Details,
    ) -> Result<Document> {
        let mut told = doc! { "operatorName": "$jsonSchema" };
        self.root.append_labels(&mut told, details);
        let rules = self.root.failures(RawValue::Document(document), details)?;
        told.append("schemaRulesNotSatisfied", rules);
        Ok(told)
    }
}

impl Schema {
    fn append_labels(&self, out: &mut Document, details: &mut Details) {
        if let Some(title) = &self.title {
            details.show_text(out, "title", title);
        }
        if let Some(description) = &self.description {
            details.show_text(out, "description", description);
        }
    }

    /// Tells of each rule that the value does not meet.
    fn failures(&self, value: RawValue<'_>, details: &mut Details) -> Result<Vec<Value>> {
        let mut told = Vec::new();
        for rule in &self.rules {
            if !rule.accepts(value)? && details.take() {
                told.push(rule.failure(value, details)?.into());
            }
        }
        Ok(told)
    }

    /// Finishes a finding about a part of the value with the labels of its schema and the rules that it does not meet.
    fn finish(
        &self,
        mut finding: Document,
        value: RawValue<'_>,
        details: &mut Details,
    ) -> Result<Value> {
        self.append_labels(&mut finding, details);
        finding.append("details", self.failures(value, details)?);
        Ok(finding.into())
    }
}

impl Rule {
    fn failure(&self, value: RawValue<'_>, details: &mut Details) -> Result<Document> {
        let mut told = doc! { "operatorName": (self.name) };
        if !self.given.is_empty() {
            details.show_asked(&mut told, self.given.as_raw());
        }
        match value {
            RawValue::Document(document) => {
                self.append_of_document(document, &mut told, details)?;
            }
            RawValue::Array(array) => self.append_of_array(array, &mut told, details)?,
            _ => {}
        }
        self.append_logic(value, &mut told, details)?;
        if let Some(reason) = self.test.reason() {
            told.append("reason", reason);
            details.show(&mut told, "consideredValue", value);
            if let Test::Type(_) = self.test {
                told.append("consideredType", value.element_type().alias());
            }
        }
        Ok(told)
    }

    fn append_logic(
        &self,
        value: RawValue<'_>,
        told: &mut Document,
        details: &mut Details,
    ) -> Result<()> {
        match &self.test {
            Test::OneOf(schemas) => {
                let mut matching: Vec<Value> = Vec::new();
                for (index, schema) in (0_i32..).zip(schemas) {
                    if schema.accepts(value)? {
                        matching.push(index.into());
                    }
                }
                if matching.is_empty() {
                    let unmet = unmet(schemas, value, details)?;
                    told.append("schemasNotSatisfied", unmet);
                } else {
                    told.append("reason", "more than one subschema matched");
                    told.append("matchingSchemaIndexes", matching);
                }
            }
            Test::AllOf(schemas) | Test::AnyOf(schemas) => {
                told.append("schemasNotSatisfied", unmet(schemas, value, details)?);
            }
            Test::Not(_) => {
                told.append("reason", "child expression matched");
            }
            _ => {}
        }
        Ok(())
    }

    fn append_of_array(
        &self,
        array: RawArray<'_>,
        told: &mut Document,
        details: &mut Details,
    ) -> Result<()> {
        match &self.test {
            Test::UniqueItems => {
                told.append("reason", "found a duplicate item");
                details.show(told, "consideredValue", RawValue::Array(array));
                if let Some(item) = duplicate_item(array)? {
                    details.show(told, "duplicatedValue", item);
                }
            }
            Test::Items(schema) => {
                let reason = "At least one item did not match the sub-schema";
                append_unfit_item(schema, array, 0, reason, told, details)?;
            }
            Test::ItemsInOrder(schemas) => {
                let mut unmet = Vec::new();
                for ((index, item), schema) in (0_i32..).zip(array).zip(schemas) {
                    if !schema.accepts(item)? && details.take() {
                        unmet.push(schema.finish(doc! { "itemIndex": index }, item, details)?);
                    }
                }
                told.append("details", unmet);
            }
            Test::AdditionalItems { from, rest } => match rest {
                Rest::Refused => {
                    let mut items: Vec<Value> = Vec::new();
                    for item in array.iter().skip(*from) {
                        if !details.take() {
                            break;
                        }
                        items.push(item.into());
                    }
                    told.append("reason", "found additional items");
                    let items = Value::from(items);
                    details.show(told, "additionalItems", items.as_raw());
                }
                Rest::Schema(schema) => {
                    let reason = "At least one additional item did not match the sub-schema";
                    append_unfit_item(schema, array, *from, reason, told, details)?;
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn append_of_document(
        &self,
        document: RawDocument<'_>,
        told: &mut Document,
        details: &mut Details,
    ) -> Result<()> {
        match &self.test {
            Test::Properties(properties) => {
                let unmet = unmet_properties(properties, document, details)?;
                told.append("propertiesNotSatisfied", unmet);
            }
            Test::PatternProperties(patterns) => {
                told.append("details", unmet_patterns(patterns, document, details)?);
            }
            Test::AdditionalProperties {
                named,
                patterns,
                rest,
            } => append_additional(named, patterns, rest, document, told, details)?,
            Test::Required(names) => {
                let missing = details.listed(missing(names, document)?);
                told.append("missingProperties", missing);
            }
            Test::PropertyCount(_) => {
                let count = document.iter().count();
                told.append("reason", "specified number of properties was not satisfied");
                told.append(
                    "numberOfProperties",
                    i32::try_from(count).unwrap_or(i32::MAX),
                );
            }
            Test::Dependencies(dependencies) => {
                let mut failing = Vec::new();
                for dependency in dependencies {
                    if !dependency.is_met(document)? && details.take() {
                        failing.push(dependency.failure(document, details)?);
                    }
                }
                told.append("failingDependencies", failing);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Test {
    /// The reason that stands beside the value; None for rules that tell of parts.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Test::Type(_) => Some("type did not match"),
            Test::Bound { .. } => Some("comparison failed"),
            Test::MultipleOf(_) => {
                Some("considered value is not a multiple of the specified value")
            }
            Test::Length(_) => Some("specified string length was not satisfied"),
            Test::Pattern(_) => Some("regular expression did not match"),
            Test::Enum(_) => Some("value was not found in enum"),
            Test::ItemCount(_) => Some("array did not match specified length"),
            _ => None,
        }
    }
}

impl Dependency {
    fn failure(&self, document: RawDocument<'_>, details: &mut Details) -> Result<Value> {
        let mut told = Document::new();
        details.show_text(&mut told, "conditionalProperty", &self.name);
        match &self.asked {
            Asked::Fields(names) => {
                let missing = details.listed(missing(names, document)?);
                told.append("missingProperties", missing);
                Ok(told.into())
            }
            Asked::Schema(schema) => schema.finish(told, RawValue::Document(document), details),
        }
    }
}

/// Tells of each of the schemas that the value does not suit.
fn unmet(schemas: &[Schema], value: RawValue<'_>, details: &mut Details) -> Result<Vec<Value>> {
    let mut unmet = Vec::new();
    for (index, schema) in (0_i32..).zip(schemas) {
        if !schema.accepts(value)? && details.take() {
            unmet.push(schema.finish(doc! { "index": index }, value, details)?);
        }
    }
    Ok(unmet)
}

fn append_unfit_item(
    schema: &Schema,
    array: RawArray<'_>,
    from: usize,
    reason: &str,
    told: &mut Document,
    details: &mut Details,
) -> Result<()> {
    told.append("reason", reason);
    if let Some(position) = first_unfit_item(schema, array, from)?
        && let Some(item) = array.get(position)
    {
        told.append("itemIndex", i32::try_from(position).unwrap_or(i32::MAX));
        told.append("details", schema.failures(item, details)?);
    }
    Ok(())
}

fn unmet_properties(
    properties: &[Property],
    document: RawDocument<'_>,
    details: &mut Details,
) -> Result<Vec<Value>> {
    let mut unmet = Vec::new();
    for field in document {
        let Some(property) = property(properties, field)? else {
            continue;
        };
        if !property.schema.accepts(field.value())? && details.take() {
            let mut finding = Document::new();
            details.show_text(&mut finding, "propertyName", &property.name);
            unmet.push(property.schema.finish(finding, field.value(), details)?);
        }
    }
    Ok(unmet)
}

fn unmet_patterns(
    patterns: &[PatternProperty],
    document: RawDocument<'_>,
    details: &mut Details,
) -> Result<Vec<Value>> {
    let mut unmet = Vec::new();
    for field in document {
        for property in patterns {
            if property.names(field)? && !property.schema.accepts(field.value())? && details.take()
            {
                let mut finding = Document::new();
                details.show_text(
                    &mut finding,
                    "propertyName",
                    &field.name().to_string_lossy(),
                );
                details.show_text(&mut finding, "regexMatched", property.pattern.pattern());
                unmet.push(property.schema.finish(finding, field.value(), details)?);
            }
        }
    }
    Ok(unmet)
}

fn append_additional(
    named: &[String],
    patterns: &[PatternProperty],
    rest: &Rest,
    document: RawDocument<'_>,
    told: &mut Document,
    details: &mut Details,
) -> Result<()> {
    let mut additional: Vec<Value> = Vec::new();
    for field in document {
        if !is_additional(field, named, patterns)? || rest.accepts(field.value())? {
            continue;
        }
        let name = field.name().to_string_lossy();
        match rest {
            Rest::Refused if details.take() => {
                additional.extend(details.listed([name.as_ref()]));
            }
            Rest::Refused => break,
            Rest::Schema(schema) => {
                let reason = "at least one additional property did not match the subschema";
                told.append("reason", reason);
                details.show_text(told, "failingProperty", &name);
                told.append("details", schema.failures(field.value(), details)?);
                return Ok(());
            }
        }
    }
    told.append("additionalProperties", additional);
    Ok(())
}
