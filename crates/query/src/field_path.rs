//! A dotted path, split once when a request is parsed: `a.0.b` names field `b` of element (or field) `0` of
//! field `a`. A component that is a plain decimal number may also name an array position; which of the two is
//! meant depends on the document, so both forms are kept. Paths are bounded in depth. What `$` means inside a
//! path is for the update and projection parsers to say.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Deeper paths can name nothing: documents are at most 180 levels deep.
pub const PATH_COMPONENTS_MAX: usize = 200;

/// A dotted path, checked and taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    /// None for a path of one part, which is its own text: most paths are, and are parsed with every request.
    dotted: Option<Box<str>>,
    parts: SmallVec<[PathPart; 1]>,
}

/// One component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPart {
    name: Box<str>,
    index: Option<u32>,
}

impl FieldPath {
    /// Checks a dotted path. Fails for one that no field can have.
    pub fn parse(dotted: &str) -> Result<FieldPath> {
        let dots = dotted.bytes().filter(|byte| *byte == b'.').count();
        if dots >= PATH_COMPONENTS_MAX {
            return Err(Error::new(ErrorCode::OVERFLOW, "FieldPath is too long"));
        }
        if dots == 0 {
            return Ok(FieldPath {
                dotted: None,
                parts: smallvec![PathPart::new(dotted)],
            });
        }
        Ok(FieldPath {
            dotted: Some(dotted.into()),
            parts: dotted.split('.').map(PathPart::new).collect(),
        })
    }

    /// Checks a dotted path as expressions and stages name fields: no part of it may be empty or begin with `$`.
    pub fn parse_strictly(dotted: &str) -> Result<FieldPath> {
        if dotted.is_empty() {
            let text = "FieldPath cannot be constructed with empty string";
            return Err(Error::location(40352, text));
        }
        if dotted.ends_with('.') {
            return Err(Error::location(40353, "FieldPath must not end with a '.'."));
        }
        let path = FieldPath::parse(dotted)?;
        path.parts()
            .iter()
            .try_for_each(|part| check_name(part.name()))?;
        Ok(path)
    }

    /// The path from where another one leads to. Fails where both together are too long.
    pub fn within(self, outer: Option<&FieldPath>) -> Result<FieldPath> {
        match outer {
            None => Ok(self),
            Some(outer) => FieldPath::parse(&format!("{}.{}", outer.as_str(), self.as_str())),
        }
    }

    /// The path with its dots.
    pub fn as_str(&self) -> &str {
        self.dotted.as_deref().unwrap_or(&self.parts[0].name)
    }

    /// At least one.
    pub fn parts(&self) -> &[PathPart] {
        &self.parts
    }

    /// The top-level field the path begins with.
    pub fn first(&self) -> &str {
        &self.parts[0].name
    }

    /// Whether the path has one component.
    pub fn is_top_level(&self) -> bool {
        self.parts.len() == 1
    }

    /// True if `self` names `other` or something that holds it.
    pub fn is_prefix_of(&self, other: &FieldPath) -> bool {
        self.parts.len() <= other.parts.len()
            && self
                .parts
                .iter()
                .zip(other.parts.iter())
                .all(|(a, b)| a.name == b.name)
    }
}

impl PathPart {
    fn new(name: &str) -> PathPart {
        PathPart {
            name: name.into(),
            index: array_index(name),
        }
    }

    /// The component's text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The array position that the component may stand for.
    pub fn index(&self) -> Option<u32> {
        self.index
    }
}

/// Whether a component behind the first may be the position of an element.
pub fn may_name_positions(path: &str) -> bool {
    path.as_bytes().contains(&b'.')
        && path
            .split('.')
            .skip(1)
            .any(|component| array_index(component).is_some())
}

/// Checks one name of a path, as `$project` and expression objects check theirs.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::location(
            15998,
            "FieldPath field names may not be empty strings.",
        ));
    }
    if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
        let text =
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
        return Err(Error::location(16410, text));
    }
    if name.contains('\0') {
        return Err(Error::location(
            16411,
            "FieldPath field names may not contain '\\0'.",
        ));
    }
    if name.contains('.') {
        let text =
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.";
        return Err(Error::location(16412, text));
    }
    Ok(())
}

/// `0`, `7`, `12`, but neither `07`, `-1` nor the empty name.
pub fn array_index(name: &str) -> Option<u32> {
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = name.len() == 1 || !name.starts_with('0');
    if digits && canonical {
        name.parse().ok()
    } else {
        None
    }
}
