//! `encryptedFields` of `create`: which fields of a collection clients keep encrypted. The server keeps the option and shows it, so that
//! drivers find it; they encrypt, decrypt, and make the collections beside it.
//!
//! The option is held against MongoDB's rules. What a client asks of the server for encrypted fields, by `encryptionInformation`, is
//! not served: there is no queryable encryption.

use std::collections::{BTreeSet, HashSet};

use quarry_bson::{RawBinary, RawDocument, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::argument::Argument;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, array, flag, number, text};

pub const ENCRYPTED_FIELDS: &str = "encryptedFields";

static OPTION: Fields = Fields::named(&[
    text("escCollection"),
    text("ecocCollection"),
    array("fields").required(),
    number("strEncodeVersion").not_served(),
]);

static FIELD: Fields = Fields::named(&[
    any("keyId").required(),
    text("path").required(),
    text("bsonType"),
    any("queries"),
]);

static QUERIES: Fields = Fields::named(&[
    text("queryType").required(),
    number("contention"),
    any("min"),
    any("max"),
    number("sparsity"),
    number("precision"),
    number("trimFactor"),
    number("strMaxLength").not_served(),
    number("strMinQueryLength").not_served(),
    number("strMaxQueryLength").not_served(),
    flag("caseSensitive").not_served(),
    flag("diacriticSensitive").not_served(),
]);

/// The types of values that can be encrypted so that they are found by equality.
const EQUALITY_TYPES: [&str; 12] = [
    "binData",
    "bool",
    "date",
    "dbPointer",
    "int",
    "javascript",
    "long",
    "objectId",
    "regex",
    "string",
    "symbol",
    "timestamp",
];
/// Those that are found by ranges.
const RANGE_TYPES: [&str; 5] = ["date", "decimal", "double", "int", "long"];
/// Those that can be encrypted beside `EQUALITY_TYPES`.
const OTHER_TYPES: [&str; 5] = [
    "array",
    "decimal",
    "double",
    "javascriptWithScope",
    "object",
];
/// Those that cannot be encrypted.
const UNENCRYPTED_TYPES: [&str; 4] = ["maxKey", "minKey", "null", "undefined"];

/// One field of the option.
#[derive(Default)]
struct Encrypted<'a> {
    key: Option<RawBinary<'a>>,
    path: &'a str,
    bson_type: Option<&'a str>,
    queries: Option<RawValue<'a>>,
}

/// Refuses an option that MongoDB refuses.
pub(super) fn check(invocation: &Invocation<'_>, option: &Argument<'_>) -> Result<()> {
    if invocation.boolean("capped")? {
        let text = "Encrypted fields cannot be used with capped collections";
        return Err(refused(6_367_301, text));
    }
    if invocation.get("viewOn").is_some() || invocation.get("timeseries").is_some() {
        let text = "Encrypted fields cannot be used with views or timeseries collections";
        return Err(refused(6_346_401, text));
    }
    if invocation.server.replica_set.is_none() {
        let text = "Encrypted collections are not supported on standalone";
        return Err(refused(6_346_402, text));
    }
    let mut fields: Vec<Encrypted<'_>> = Vec::new();
    let mut beside = Beside::default();
    OPTION.read("create.encryptedFields", option.document()?, |given| {
        match given.name().as_bytes() {
            b"fields" => {
                for field in given.documents()? {
                    let field = read_field(field)?;
                    invocation.operation.check()?;
                    beside.add(&field)?;
                    fields.push(field);
                }
            }
            b"escCollection" => check_state(given.text()?, "State", "esc", 7_406_900)?,
            b"ecocCollection" => check_state(given.text()?, "Compaction", "ecoc", 7_406_902)?,
            _ => {}
        }
        Ok(())
    })?;
    fields.iter().try_for_each(check_queries)
}

fn read_field(field: RawDocument<'_>) -> Result<Encrypted<'_>> {
    let mut read = Encrypted::default();
    FIELD.read("create.encryptedFields.fields", field, |given| {
        match given.name().as_bytes() {
            b"keyId" => match given.value() {
                RawValue::Binary(key) if key.subtype == 4 && key.bytes.len() == 16 => {
                    read.key = Some(key);
                }
                _ => return Err(given.wrong_type("UUID")),
            },
            b"path" => read.path = given.text()?,
            b"bsonType" => read.bson_type = Some(given.text()?),
            b"queries" if !given.value().is_nullish() => read.queries = Some(given.value()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(read)
}

/// The keys and paths of the fields so far.
#[derive(Default)]
struct Beside<'e> {
    keys: HashSet<Option<&'e [u8]>>,
    /// With a NUL in place of each dot.
    paths: BTreeSet<String>,
}

/// Whether the one path is below the other.
fn is_below(one: &str, other: &str) -> bool {
    one.strip_prefix(other)
        .is_some_and(|rest| rest.starts_with('\0'))
}

impl<'e> Beside<'e> {
    /// Takes a field; refuses one that cannot stand beside those before it.
    fn add(&mut self, field: &Encrypted<'e>) -> Result<()> {
        if !self.keys.insert(field.key.map(|key| key.bytes)) {
            return Err(refused(6_338_401, "Duplicate key ids are not allowed"));
        }
        let path = field.path;
        if path.is_empty() {
            let text = "Encrypted field must have a non-empty path";
            return Err(refused(6_316_402, text));
        }
        if path.split('.').next() == Some("_id") {
            return Err(refused(6_316_403, "Cannot encrypt _id or its subfields"));
        }
        // In the order of components nothing but what is below a path stands right behind it.
        let key = path.replace('.', "\0");
        let before = self.paths.range(..key.clone()).next_back();
        let outer = before.filter(|before| is_below(&key, before));
        let behind = self.paths.range(key.clone()..).next();
        if behind == Some(&key) {
            return Err(refused(6_338_402, "Duplicate paths are not allowed"));
        }
        let inner = behind.filter(|behind| is_below(behind, &key));
        if let Some(other) = outer.or(inner) {
            let other = other.replace('\0', ".");
            let text = format!(
                "Conflicting index paths found as one is a prefix of another '{path}' and '{other}'"
            );
            return Err(refused(6_338_403, text));
        }
        self.paths.insert(key);
        Ok(())
    }
}

/// Refuses a name that none of the collections beside an encrypted one has.
fn check_state(name: &str, what: &str, ending: &str, code: i32) -> Result<()> {
    let is_state = name.starts_with("enxcol_.")
        && [".esc", ".ecc", ".ecoc"]
            .iter()
            .any(|ending| name.ends_with(ending));
    if is_state {
        return Ok(());
    }
    let text = format!(
        "Encrypted {what} Collection name should follow enxcol_.<collection>.{ending} naming pattern"
    );
    Err(refused(code, text))
}

/// Refuses queries that a field of its type cannot be found by.
fn check_queries(field: &Encrypted<'_>) -> Result<()> {
    let known = EQUALITY_TYPES.iter().chain(&OTHER_TYPES);
    if let Some(kind) = field.bson_type
        && !known
            .clone()
            .chain(&UNENCRYPTED_TYPES)
            .any(|name| *name == kind)
    {
        let text = format!("BSON type name '{kind}' is not valid");
        return Err(CommandError::bad_value(text));
    }
    let asked = match field.queries {
        None => {
            let kind = field
                .bson_type
                .filter(|kind| !known.clone().any(|it| it == kind));
            return match kind {
                None => Ok(()),
                Some(kind) => Err(refused(
                    6_338_406,
                    format!("Type '{kind}' is not a supported unindexed type"),
                )),
            };
        }
        Some(RawValue::Document(one)) => one,
        Some(RawValue::Array(several)) => match (several.len(), several.get(0)) {
            (1, Some(RawValue::Document(one))) => one,
            _ => {
                let text = "Exactly one query type should be specified per field";
                return Err(refused(6_338_404, text));
            }
        },
        Some(_) => {
            let text = "encryptedFields.fields.queries is an object or an array of objects";
            return Err(CommandError::type_mismatch(text));
        }
    };
    let Some(kind) = field.bson_type else {
        let text = "BSON type needs to be specified for an indexed field";
        return Err(refused(6_412_601, text));
    };
    check_query_type(asked, kind)
}

fn check_query_type(asked: RawDocument<'_>, kind: &str) -> Result<()> {
    let mut query_type = "";
    QUERIES.read("create.encryptedFields.fields.queries", asked, |given| {
        let bounds = match given.name().as_bytes() {
            b"queryType" => {
                query_type = given.one_of(&["equality", "range", "rangePreview"])?;
                return Ok(());
            }
            b"contention" | b"precision" | b"trimFactor" => 0..=i64::MAX,
            b"sparsity" => 1..=8,
            _ => return Ok(()),
        };
        match bounds.contains(&given.number()?) {
            true => Ok(()),
            false => {
                let text = format!("BSON field '{}' value is out of its bounds", given.name());
                Err(CommandError::bad_value(text))
            }
        }
    })?;
    match query_type {
        "rangePreview" => Err(refused(
            8_575_605,
            "Cannot create a collection with an encrypted field with query type rangePreview, as it is deprecated",
        )),
        "range" => check_range(asked, kind),
        _ => check_equality(asked, kind),
    }
}

fn check_equality(asked: RawDocument<'_>, kind: &str) -> Result<()> {
    if !EQUALITY_TYPES.contains(&kind) {
        let text = format!("Type '{kind}' is not a supported equality indexed type");
        return Err(refused(6_338_405, text));
    }
    for (name, code) in [
        ("sparsity", 6_775_205),
        ("min", 6_775_206),
        ("max", 6_775_207),
        ("trimFactor", 8_574_104),
    ] {
        if asked.get(name).is_some_and(|value| !value.is_nullish()) {
            let text =
                format!("The field '{name}' is not allowed for equality index but is present");
            return Err(refused(code, text));
        }
    }
    Ok(())
}

fn check_range(asked: RawDocument<'_>, kind: &str) -> Result<()> {
    if !RANGE_TYPES.contains(&kind) {
        let text = format!("Type '{kind}' is not a supported range indexed type");
        return Err(refused(6_775_201, text));
    }
    for (name, code) in [("min", 7_018_200), ("max", 7_018_201)] {
        let bound = asked.get(name).filter(|value| !value.is_nullish());
        if let Some(bound) = bound.filter(|bound| bound.element_type().alias() != kind) {
            let found = bound.element_type().alias();
            let text =
                format!("the bound '{name}' of a range is of type {found}, and its field {kind}");
            return Err(refused(code, text));
        }
    }
    Ok(())
}

fn refused(code: i32, text: impl Into<String>) -> CommandError {
    CommandError::new(ErrorCode(code), text)
}
