//! `$jsonSchema`: JSON Schema, draft 4, as MongoDB takes it, over stored documents.
//!
//! A schema is compiled once into a tree of rules (`parse.rs`) and asked of values (`check.rs`); why a value does not suit it
//! is told in the shape of MongoDB's `errInfo` (`failure.rs`). Keeps true: no schema is deeper than a filter may be, and work
//! is counted for each rule and for what it looks at. Leaves out `$ref` and the other keywords that MongoDB refuses, and
//! `encrypt`, which is refused as not served yet.

mod check;
mod failure;
mod parse;
mod unordered;

use std::sync::Arc;

use quarry_bson::{Document, Value};

use super::expression::CompareOp;
use super::regex::RegexPredicate;
use super::type_set::TypeSet;
use crate::value_set::ValueSet;

pub use failure::Details;

/// A schema that can be asked of documents.
#[derive(Debug)]
pub struct JsonSchema {
    root: Schema,
}

/// A schema, or one within another.
#[derive(Debug, Default)]
struct Schema {
    title: Option<String>,
    description: Option<String>,
    /// In the order in which MongoDB tells of them.
    rules: Vec<Rule>,
}

/// One keyword of a schema with all that decides about it.
#[derive(Debug)]
struct Rule {
    /// The keyword.
    name: &'static str,
    /// The keyword with its operand, for errors to show; empty where it holds schemas, which would be kept once a level.
    given: Document,
    test: Test,
}

/// The question of a rule to a value. But for `Type`, `Enum` and logic, each asks values of one type only and lets others pass.
#[derive(Debug)]
enum Test {
    /// `type` and `bsonType`.
    Type(TypeSet),
    /// `minimum` and `maximum`.
    Bound { op: CompareOp, bound: Value },
    /// `multipleOf`.
    MultipleOf(Value),
    /// `minLength` and `maxLength`, in code points.
    Length(Count),
    /// `pattern`.
    Pattern(RegexPredicate),
    /// `enum`: the values with sorted fields.
    Enum(ValueSet),
    /// `minItems` and `maxItems`.
    ItemCount(Count),
    /// `uniqueItems`.
    UniqueItems,
    /// `items` with one schema for all items.
    Items(Box<Schema>),
    /// `items` with a schema for each of the first items.
    ItemsInOrder(Vec<Schema>),
    /// `additionalItems`: of the items from that position on.
    AdditionalItems { from: usize, rest: Rest },
    /// `properties`, sorted by name.
    Properties(Vec<Property>),
    /// `patternProperties`.
    PatternProperties(Arc<Vec<PatternProperty>>),
    /// `additionalProperties`: of fields that are not named, by sorted names or patterns.
    AdditionalProperties {
        named: Vec<String>,
        patterns: Arc<Vec<PatternProperty>>,
        rest: Rest,
    },
    /// `required`, sorted.
    Required(Vec<String>),
    /// `minProperties` and `maxProperties`.
    PropertyCount(Count),
    /// `dependencies`.
    Dependencies(Vec<Dependency>),
    /// `allOf`.
    AllOf(Vec<Schema>),
    /// `anyOf`.
    AnyOf(Vec<Schema>),
    /// `oneOf`.
    OneOf(Vec<Schema>),
    /// `not`.
    Not(Box<Schema>),
}

/// A bound of a number of things.
#[derive(Debug, Clone, Copy)]
enum Count {
    AtLeast(u64),
    AtMost(u64),
}

/// The demand on the items or fields that nothing else speaks of.
#[derive(Debug)]
enum Rest {
    /// There may be none.
    Refused,
    /// They have a schema.
    Schema(Box<Schema>),
}

/// A named field and its schema.
#[derive(Debug)]
struct Property {
    name: String,
    schema: Schema,
}

/// The fields whose names a regular expression finds, and their schema.
#[derive(Debug)]
struct PatternProperty {
    pattern: RegexPredicate,
    schema: Schema,
}

/// The demand of a field that is there on its document.
#[derive(Debug)]
struct Dependency {
    name: String,
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    /// Other fields, sorted.
    Fields(Vec<String>),
    /// A schema of the whole document.
    Schema(Schema),
}

impl Count {
    fn allows(self, count: u64) -> bool {
        match self {
            Count::AtLeast(bound) => count >= bound,
            Count::AtMost(bound) => count <= bound,
        }
    }
}
