//! A collation at work: comparing, hashing, and what an index keeps.

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use icu_collator::CollatorBorrowed;
use quarry_bson::compare::{canonical_type, compare_values, hash_value};
use quarry_bson::{
    ArrayBuilder, DEPTH_MAX, Document, DocumentBuilder, ElementType, RawArray, RawDocument, RawStr,
    RawValue, Value,
};

use crate::error::Result;
use crate::specification::{Given, SIMPLE};

/// How strings are compared: byte by byte, or by the rules of a language. A copy shares the rules.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Collation(Option<Arc<Rules>>);

/// The rules of a language, and the specification that asks for them, completed.
struct Rules {
    collator: CollatorBorrowed<'static>,
    specification: Document,
}

impl Collation {
    /// Byte by byte.
    pub const SIMPLE: Collation = Collation(None);

    /// Reads a specification. `{locale: "simple"}` is the simple collation.
    ///
    /// # Errors
    /// With MongoDB's code for what a specification may not be, and 238 for what the library cannot do.
    pub fn parse(specification: RawDocument<'_>) -> Result<Collation> {
        let given = Given::read(specification)?;
        if given.locale == SIMPLE {
            return Ok(Collation::SIMPLE);
        }
        let (collator, specification) = given.build(specification)?;
        Ok(Collation(Some(Arc::new(Rules {
            collator,
            specification,
        }))))
    }

    /// Whether strings are compared byte by byte.
    #[inline]
    pub fn is_simple(&self) -> bool {
        self.0.is_none()
    }

    /// The specification with all fields, in MongoDB's order; none of the simple collation.
    pub fn specification(&self) -> Option<&Document> {
        self.0.as_ref().map(|rules| &rules.specification)
    }

    /// Whether the collation has a say in how the value is compared: whether it is or holds a string. The simple one never has.
    #[inline]
    pub fn concerns(&self, value: RawValue<'_>) -> bool {
        self.0.is_some() && holds_text(value)
    }

    /// Compares two values as `compare_values` does, but strings by the collation.
    #[inline]
    pub fn compare(&self, a: RawValue<'_>, b: RawValue<'_>) -> Ordering {
        match &self.0 {
            None => compare_values(a, b),
            Some(rules) => rules.compare(a, b, 0),
        }
    }

    /// Whether two values compare as equal.
    #[inline]
    pub fn are_equal(&self, a: RawValue<'_>, b: RawValue<'_>) -> bool {
        self.compare(a, b).is_eq()
    }

    /// Hashes a value so that values that compare as equal have equal hashes.
    #[inline]
    pub fn hash<H: Hasher>(&self, value: RawValue<'_>, state: &mut H) {
        match self.index_value(value) {
            None => hash_value(value, state),
            Some(kept) => hash_value(kept.as_raw(), state),
        }
    }

    /// The value that an index keeps in place of this one, with a sort key for each string, so that the kept values order by
    /// their bytes as the values do by the collation; none where the value itself is kept.
    #[inline]
    pub fn index_value(&self, value: RawValue<'_>) -> Option<Value> {
        let rules = self.0.as_ref()?;
        holds_text(value).then(|| rules.index_value(value))
    }
}

impl Rules {
    /// `depth` bounds the recursion over bytes that nobody validated.
    fn compare(&self, a: RawValue<'_>, b: RawValue<'_>, depth: usize) -> Ordering {
        use RawValue as V;
        match (a, b) {
            (V::String(a) | V::Symbol(a), V::String(b) | V::Symbol(b)) => {
                self.collator.compare_utf8(a.as_bytes(), b.as_bytes())
            }
            (V::Document(a), V::Document(b)) => self.compare_fields(a, b, true, depth),
            (V::Array(a), V::Array(b)) => {
                self.compare_fields(a.as_document(), b.as_document(), false, depth)
            }
            _ => compare_values(a, b),
        }
    }

    fn compare_fields(
        &self,
        a: RawDocument<'_>,
        b: RawDocument<'_>,
        names_count: bool,
        depth: usize,
    ) -> Ordering {
        if depth >= DEPTH_MAX {
            return a.as_bytes().cmp(b.as_bytes());
        }
        let (mut left, mut right) = (a.iter(), b.iter());
        loop {
            let (l, r) = match (left.next(), right.next()) {
                (Some(l), Some(r)) => (l, r),
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
            };
            let mut order = canonical_type(l.value()).cmp(&canonical_type(r.value()));
            if names_count {
                order = order.then_with(|| l.name().cmp(&r.name()));
            }
            let order = order.then_with(|| self.compare(l.value(), r.value(), depth + 1));
            if order.is_ne() {
                return order;
            }
        }
    }

    fn index_value(&self, value: RawValue<'_>) -> Value {
        let mut bytes = Vec::new();
        let element_type = value.element_type();
        match value {
            RawValue::String(text) => {
                self.append_sort_key(text, &mut bytes);
                return Value::from(RawValue::String(RawStr::from_bytes(&bytes)));
            }
            RawValue::Symbol(text) => {
                self.append_sort_key(text, &mut bytes);
                return Value::from(RawValue::Symbol(RawStr::from_bytes(&bytes)));
            }
            RawValue::Document(document) => {
                self.append_fields(document, DocumentBuilder::new(&mut bytes), 0);
            }
            RawValue::Array(array) => {
                self.append_items(array, ArrayBuilder::new(&mut bytes), 0);
            }
            other => return Value::from(other),
        }
        let kept = RawValue::from_bytes(element_type, &bytes);
        kept.map_or_else(|_| Value::from(value), Value::from)
    }

    fn append_fields(&self, from: RawDocument<'_>, mut to: DocumentBuilder<'_>, depth: usize) {
        let mut key = Vec::new();
        for element in from {
            let name = element.name();
            let name = name.as_bytes();
            match element.value() {
                RawValue::Document(document) if depth < DEPTH_MAX => {
                    self.append_fields(document, to.document(name), depth + 1);
                }
                RawValue::Array(array) if depth < DEPTH_MAX => {
                    self.append_items(array, to.array(name), depth + 1);
                }
                value => {
                    to.append(name, self.kept(value, &mut key));
                }
            }
        }
    }

    fn append_items(&self, from: RawArray<'_>, mut to: ArrayBuilder<'_>, depth: usize) {
        let mut key = Vec::new();
        for value in from {
            match value {
                RawValue::Document(document) if depth < DEPTH_MAX => {
                    self.append_fields(document, to.document(), depth + 1);
                }
                RawValue::Array(array) if depth < DEPTH_MAX => {
                    self.append_items(array, to.array(), depth + 1);
                }
                value => {
                    to.push(self.kept(value, &mut key));
                }
            }
        }
    }

    /// A value that is no document and no array, with its sort key in place of a string.
    fn kept<'v>(&self, value: RawValue<'v>, key: &'v mut Vec<u8>) -> RawValue<'v> {
        key.clear();
        match value {
            RawValue::String(text) => {
                self.append_sort_key(text, key);
                RawValue::String(RawStr::from_bytes(key))
            }
            RawValue::Symbol(text) => {
                self.append_sort_key(text, key);
                RawValue::Symbol(RawStr::from_bytes(key))
            }
            other => other,
        }
    }

    fn append_sort_key(&self, text: RawStr<'_>, key: &mut Vec<u8>) {
        let Ok(()) = self.collator.write_sort_key_utf8_to(text.as_bytes(), key);
    }
}

/// Whether a value is or holds a string, so that collations may compare it otherwise than each other.
pub fn holds_text(value: RawValue<'_>) -> bool {
    holds_text_at(value, 0)
}

/// `depth` bounds the recursion over bytes that nobody validated; what nests deeper is taken to hold one.
fn holds_text_at(value: RawValue<'_>, depth: usize) -> bool {
    match value {
        RawValue::String(_) | RawValue::Symbol(_) => true,
        RawValue::Document(_) | RawValue::Array(_) if depth >= DEPTH_MAX => true,
        RawValue::Document(document) => document.iter().any(|element| {
            may_hold_text(element.element_type()) && holds_text_at(element.value(), depth + 1)
        }),
        RawValue::Array(array) => array.iter().any(|value| holds_text_at(value, depth + 1)),
        _ => false,
    }
}

fn may_hold_text(element_type: ElementType) -> bool {
    use ElementType as T;
    matches!(element_type, T::String | T::Symbol | T::Document | T::Array)
}

impl PartialEq for Rules {
    fn eq(&self, other: &Rules) -> bool {
        self.specification.as_bytes() == other.specification.as_bytes()
    }
}

impl Eq for Rules {}

impl fmt::Debug for Collation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.specification() {
            None => out.write_str("simple"),
            Some(specification) => write!(out, "{specification}"),
        }
    }
}
