//! The kind of indexes whose pattern has the field `$**`, or `a.b.$**`: they keep every value of a document, or of a part of it, with the
//! path that leads to the value.
//!
//! A key has the path, without positions in arrays, and the value: no document that has fields and no array but one within another array, whose elements have
//! no path of their own. An empty document is a value, and an empty array is kept as undefined, so that every path that is there
//! has a key at it or below it. The `wildcardProjection` says which paths are kept; `_id` is not, unless it is asked for. A document has one more
//! key for each path at which it has an array, by which plans learn that several keys there may be one document's.
//! The other fields of a compound index stand before and behind, in every combination; a document without any value that
//! is kept has no key. Leaves out: the plans that read it (`planner/wildcard.rs`).

use std::any::Any;
use std::sync::Arc;

use quarry_bson::{Document, RawArray, RawDocument, RawValue};
use quarry_database::{Index, KeyField, SpecialKeys, TakeKey};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::{FieldPath, PathPart};
use crate::geo_index::unknown_option;
use crate::interrupts;
use crate::memory::Charge;

/// The keys of one document that an index keeps at most.
const KEYS_MAX: usize = 1_000_000;

/// The first value of a key that says that there is an array at a path; others begin with a path.
pub(crate) const ARRAY_MARK: RawValue<'static> = RawValue::Int32(1);

/// The fields that a projection names at most.
const PROJECTED_MAX: usize = 1000;

/// As many of a projection's names are compared for a unit of work.
const NAMES_A_UNIT: usize = 8;

const PROJECTION: &str = "wildcardProjection";

/// The maker of the keys of a wildcard index.
#[derive(Debug)]
pub(crate) struct WildcardKeys {
    before: Vec<FieldPath>,
    behind: Vec<FieldPath>,
    rules: Rules,
}

/// The paths that are kept.
#[derive(Debug)]
struct Rules {
    /// The paths are those to keep; otherwise those to leave out.
    includes: bool,
    paths: Vec<String>,
    keeps_id: bool,
}

/// How much is kept of what stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    /// All but some paths below.
    Most,
    /// Some paths below.
    Some,
    Nothing,
}

impl WildcardKeys {
    /// The maker of an index's keys, if it is a wildcard one.
    pub fn of(index: &Index) -> Option<&WildcardKeys> {
        (index.special.as_deref()? as &dyn Any).downcast_ref()
    }

    /// The number of fields before the wildcard one.
    pub fn place(&self) -> usize {
        self.before.len()
    }

    /// Whether every value that a document has at the path has a key.
    pub fn keeps(&self, path: &str) -> bool {
        matches!(self.rules.of(path), Kept::All | Kept::Most)
    }
}

/// Whether the path `inner` is `outer` or leads through it.
fn holds(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Rules {
    fn of(&self, path: &str) -> Kept {
        if holds("_id", path) && !self.keeps_id && !self.includes {
            return Kept::Nothing;
        }
        let is_named = self.paths.iter().any(|named| holds(named, path));
        let leads_there = || self.paths.iter().any(|named| holds(path, named));
        match self.includes {
            true if is_named => Kept::All,
            true if leads_there() => Kept::Some,
            true => Kept::Nothing,
            false if is_named => Kept::Nothing,
            false if leads_there() => Kept::Most,
            false => Kept::All,
        }
    }

    /// Those of a pattern's wildcard field and of its projection.
    fn parse(field: &KeyField, projection: Option<RawValue<'_>>) -> Result<Rules> {
        let root = field.path.strip_suffix("$**").unwrap_or_default();
        if let Some(root) = root.strip_suffix('.') {
            return match projection {
                None => Ok(Rules {
                    includes: true,
                    paths: vec![root.to_owned()],
                    keeps_id: false,
                }),
                Some(_) => Err(Error::failed_to_parse(
                    "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}",
                )),
            };
        }
        let mut rules = Rules {
            includes: false,
            paths: Vec::new(),
            keeps_id: false,
        };
        let Some(projection) = projection else {
            return Ok(rules);
        };
        let fields = projection.as_document().ok_or_else(|| {
            let text = format!(
                "The field 'wildcardProjection' must be a non-empty object, but got {}",
                projection.element_type().alias()
            );
            Error::type_mismatch(text)
        })?;
        if fields.is_empty() {
            let text = "The 'wildcardProjection' field can't be an empty object";
            return Err(Error::failed_to_parse(text));
        }
        let mut mode = None;
        rules.read(fields, None, &mut mode)?;
        rules.includes = mode.unwrap_or(rules.keeps_id);
        if rules.includes && rules.keeps_id {
            rules.paths.push("_id".to_owned());
        }
        Ok(rules)
    }

    /// Recursion is bounded by the depth of the specification, a validated document.
    fn read(
        &mut self,
        fields: RawDocument<'_>,
        outer: Option<&FieldPath>,
        mode: &mut Option<bool>,
    ) -> Result<()> {
        for field in fields {
            let path = FieldPath::parse_strictly(field.name().as_str()?)?.within(outer)?;
            let value = field.value();
            let is_flag = value.is_number() || matches!(value, RawValue::Boolean(_));
            if let RawValue::Document(within) = value
                && !within.is_empty()
            {
                self.read(within, Some(&path), mode)?;
                continue;
            }
            if !is_flag {
                let text = format!(
                    "Bad projection specification, cannot use an expression in a wildcardProjection: {fields}"
                );
                return Err(Error::failed_to_parse(text));
            }
            if path.as_str() == "_id" {
                self.keeps_id = value.is_truthy();
                continue;
            }
            if *mode.get_or_insert(value.is_truthy()) != value.is_truthy() {
                let (does, other, number) = match value.is_truthy() {
                    true => ("inclusion", "exclusion", 31_253),
                    false => ("exclusion", "inclusion", 31_254),
                };
                let text = format!(
                    "Cannot do {does} on field {} in {other} projection",
                    path.as_str()
                );
                return Err(Error::location(number, text));
            }
            if self.paths.len() == PROJECTED_MAX {
                let text = format!("a wildcardProjection names more than {PROJECTED_MAX} fields");
                return Err(Error::bad_value(text));
            }
            self.paths.push(path.as_str().to_owned());
        }
        Ok(())
    }
}

/// Checks the definition of a wildcard index, and returns its projection.
pub(crate) fn check(index: &Index) -> Result<Document> {
    let refused = |option: &str| {
        let text = format!("Index type 'wildcard' does not support the {option} option");
        Err(Error::cannot_create_index(text))
    };
    if index.unique || index.prepare_unique {
        return refused("unique");
    }
    if index.sparse {
        return refused("sparse");
    }
    let options = index.kind_options.as_raw();
    if let Some(other) = options.iter().find(|option| option.name() != PROJECTION) {
        let name = other.name().to_string_lossy();
        return Err(unknown_option(name.as_ref(), "wildcard"));
    }
    let keys = keys_of(index)?;
    for path in keys.before.iter().chain(&keys.behind) {
        if keys.rules.of(path.as_str()) != Kept::Nothing {
            let text = format!(
                "the field '{}' of a compound wildcard index is one of those that its wildcard stands for; a wildcardProjection can leave it out: {}",
                path.as_str(),
                index.pattern.document
            );
            return Err(Error::cannot_create_index(text));
        }
    }
    Ok(options.to_owned_document())
}

/// Makes the maker of keys of a definition that was checked.
pub(crate) fn compile(index: &Index) -> Result<Arc<dyn SpecialKeys>> {
    Ok(Arc::new(keys_of(index)?))
}

fn keys_of(index: &Index) -> Result<WildcardKeys> {
    let fields = &index.pattern.fields;
    let place = fields.iter().position(|field| field.is_special);
    let place = place.unwrap_or_default();
    let paths = |fields: &[KeyField]| {
        let paths = fields.iter().map(|field| FieldPath::parse(&field.path));
        paths.collect::<Result<Vec<_>>>()
    };
    let projection = index.kind_options.as_raw().get(PROJECTION);
    Ok(WildcardKeys {
        before: paths(&fields[..place])?,
        behind: paths(&fields[place + 1..])?,
        rules: Rules::parse(&fields[place], projection)?,
    })
}

/// A walk over one document, with the values that it has found.
struct Walk<'r, 'd> {
    rules: &'r Rules,
    /// The path of where the walk stands.
    path: String,
    /// The paths that values were found at.
    paths: Vec<String>,
    /// The values, each with the number of its path.
    values: Vec<(usize, RawValue<'d>)>,
    /// The numbers of the paths with arrays.
    arrays: Vec<usize>,
    held: Charge,
}

impl<'d> Walk<'_, 'd> {
    /// Whether something of the document is kept. Recursion is bounded by the depth of a validated document.
    fn document(&mut self, document: RawDocument<'d>, kept: Kept) -> Result<bool> {
        let mut any = false;
        for field in document {
            interrupts::work(1)?;
            // No path can name such a field.
            let Some(name) = field
                .name()
                .as_str()
                .ok()
                .filter(|name| !name.contains('.'))
            else {
                continue;
            };
            let end = self.path.len();
            if end > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let kept = match kept {
                Kept::All => Kept::All,
                _ => {
                    interrupts::work(self.rules.paths.len() / NAMES_A_UNIT)?;
                    self.rules.of(&self.path)
                }
            };
            if kept != Kept::Nothing {
                any |= self.at_path(field.value(), kept)?;
            }
            self.path.truncate(end);
        }
        Ok(any)
    }

    /// Like `document`, for the value of a field.
    fn at_path(&mut self, value: RawValue<'d>, kept: Kept) -> Result<bool> {
        let path = self.paths.len();
        self.held.grow(size_of::<String>() + self.path.len())?;
        self.paths.push(self.path.clone());
        let RawValue::Array(array) = value else {
            return self.value(path, value, kept);
        };
        self.arrays.push(path);
        let mut any = false;
        for element in array {
            interrupts::work(1)?;
            any |= self.value(path, element, kept)?;
        }
        if !any {
            self.add(path, RawValue::Undefined)?;
        }
        Ok(true)
    }

    /// A value that is no array, or an array within another one, which is kept whole.
    fn value(&mut self, path: usize, value: RawValue<'d>, kept: Kept) -> Result<bool> {
        match value {
            RawValue::Document(document) => {
                if !self.document(document, kept)? {
                    self.add(path, RawValue::Document(RawDocument::EMPTY))?;
                }
            }
            RawValue::Array(_) => self.add(path, value)?,
            _ if kept == Kept::Some => return Ok(false),
            value => self.add(path, value)?,
        }
        Ok(true)
    }

    fn add(&mut self, path: usize, value: RawValue<'d>) -> Result<()> {
        if self.values.len() == KEYS_MAX {
            return Err(too_many());
        }
        self.held.grow(size_of::<(usize, RawValue<'_>)>())?;
        self.values.push((path, value));
        Ok(())
    }
}

fn too_many() -> Error {
    let text = format!("a document has more than {KEYS_MAX} keys in a wildcard index");
    Error::new(ErrorCode::CANNOT_BUILD_INDEX_KEYS, text)
}

/// The values of a field that is no wildcard, as indexes keep them: those of arrays one by one.
#[derive(Default)]
struct Values<'d> {
    list: Vec<RawValue<'d>>,
    /// There is an array at the path or on the way to it.
    has_array: bool,
}

impl<'d> Values<'d> {
    fn of(document: RawDocument<'d>, path: &FieldPath) -> Result<Values<'d>> {
        let mut values = Values::default();
        values.follow(Some(RawValue::Document(document)), path.parts())?;
        Ok(values)
    }

    /// Recursion is as deep as the path is long.
    fn follow(&mut self, value: Option<RawValue<'d>>, rest: &[PathPart]) -> Result<()> {
        match (value, rest.split_first()) {
            (Some(RawValue::Array(array)), _) => self.open(array, rest),
            (value, None) => {
                self.list.push(value.unwrap_or(RawValue::Null));
                Ok(())
            }
            (Some(RawValue::Document(document)), Some((part, after))) => {
                self.follow(document.get(part.name()), after)
            }
            (_, Some(_)) => {
                self.list.push(RawValue::Null);
                Ok(())
            }
        }
    }

    fn open(&mut self, array: RawArray<'d>, rest: &[PathPart]) -> Result<()> {
        self.has_array = true;
        if array.is_empty() {
            self.list.push(match rest {
                [] => RawValue::Undefined,
                _ => RawValue::Null,
            });
        }
        for element in array {
            interrupts::work(1)?;
            match (element, rest) {
                (element, []) => self.list.push(element),
                (RawValue::Document(_), rest) => self.follow(Some(element), rest)?,
                _ => self.list.push(RawValue::Null),
            }
        }
        Ok(())
    }
}

impl WildcardKeys {
    fn append_keys(&self, document: RawDocument<'_>, take: &mut TakeKey<'_>) -> Result<u64> {
        let mut walk = Walk {
            rules: &self.rules,
            path: String::new(),
            paths: Vec::new(),
            values: Vec::new(),
            arrays: Vec::new(),
            held: Charge::default(),
        };
        walk.document(document, Kept::Some)?;
        let mut marks = u64::from(!walk.arrays.is_empty()) << self.before.len();
        let mut others = Vec::new();
        for (number, path) in self.before.iter().chain(&self.behind).enumerate() {
            let values = Values::of(document, path)?;
            let place = number + usize::from(number >= self.before.len());
            marks |= u64::from(values.has_array) << place;
            others.push(values.list);
        }
        let combinations = others.iter().map(Vec::len);
        let combinations = combinations.fold(1, usize::saturating_mul);
        if combinations.saturating_mul(walk.values.len()) > KEYS_MAX {
            return Err(too_many());
        }
        let mut key = Vec::with_capacity(self.before.len() + self.behind.len() + 2);
        for combination in 0..combinations {
            for (path, value) in &walk.values {
                interrupts::work(1)?;
                let path = RawValue::from(walk.paths[*path].as_str());
                self.fill(&mut key, (path, *value), |number| {
                    let mut left = combination;
                    for list in &others[..number] {
                        left /= list.len();
                    }
                    others[number][left % others[number].len()]
                });
                take(&key).map_err(Error::from)?;
            }
        }
        for path in &walk.arrays {
            let path = RawValue::from(walk.paths[*path].as_str());
            self.fill(&mut key, (ARRAY_MARK, path), |_| RawValue::MinKey);
            take(&key).map_err(Error::from)?;
        }
        Ok(marks)
    }

    /// Makes a key of the wildcard field's two values and of the others by their numbers.
    fn fill<'d>(
        &self,
        key: &mut Vec<RawValue<'d>>,
        (first, second): (RawValue<'d>, RawValue<'d>),
        other: impl Fn(usize) -> RawValue<'d>,
    ) {
        key.clear();
        let before = self.before.len();
        key.extend((0..before).map(&other));
        key.push(first);
        key.push(second);
        key.extend((before..before + self.behind.len()).map(other));
    }
}

impl SpecialKeys for WildcardKeys {
    fn keys(
        &self,
        document: RawDocument<'_>,
        take: &mut TakeKey<'_>,
    ) -> quarry_database::Result<u64> {
        self.append_keys(document, take)
            .map_err(Error::into_database)
    }
}
