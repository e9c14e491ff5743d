//! A filter behind a stage that gathers documents by the values of paths (`$group`, `$setWindowFields` with its partitions), asked in
//! front of it: the documents that were gathered under one value stay together or are left out together.
//!
//! Keeps true: the filter asks of nothing but those values, which are in front what they are behind; it answers alike for values that the
//! stage holds for one (1 and 1.0, strings that a collation does not tell apart, and, where the stage says so, a missing field and null).
//! What a filter asks by `$expr`, `$type` and the like may tell such values apart, and stays.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::renamed;
use crate::error::Result;
use crate::expression::{Expression, ExpressionContext};
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::matcher::{MatchExpression, Matcher, Predicate};

/// A key of more paths is given no filter: they are looked through for each condition.
const PATHS_MAX: usize = 64;

/// The values that a stage gathers documents by.
#[derive(Debug)]
pub(super) struct Gathered<'s> {
    /// Where each value stands behind the stage, and the path that it has in front.
    paths: Vec<(String, &'s FieldPath)>,
    /// A document without a value is gathered with those that have null.
    missing_is_null: bool,
}

impl<'s> Gathered<'s> {
    /// The values of a key that is one path or an object of paths, and stands under `_id` behind the stage. A path that leads into
    /// fields is none of them: what it finds in arrays is gathered as an array, and a filter looks at each of them.
    pub fn under_id(key: &'s Expression) -> Gathered<'s> {
        let mut paths = Vec::new();
        add_top_level(key, &mut String::from("_id"), &mut paths);
        Gathered {
            paths,
            missing_is_null: key.as_path().is_some(),
        }
    }

    /// The values of a key of documents that pass the stage as they are. No array is gathered under one path alone, so that this path
    /// may lead into fields. Those that `is_changed` names stand behind the stage with other values.
    pub fn in_place(key: &'s Expression, is_changed: impl Fn(&str) -> bool) -> Gathered<'s> {
        let only = key.as_path().map(|path| path.root_path());
        let mut found = Vec::new();
        match only {
            Some(only) => found.extend(only.map(|path| (String::new(), path))),
            None => add_top_level(key, &mut String::new(), &mut found),
        }
        let paths = found.into_iter().map(|(_, path)| path);
        let paths = paths.filter(|path| !is_changed(path.first()));
        Gathered {
            paths: paths.map(|path| (path.as_str().to_owned(), path)).collect(),
            missing_is_null: only.is_some(),
        }
    }

    /// The filter as it is asked in front of the stage; None where it has to stay.
    pub fn in_front(
        &self,
        filter: RawDocument<'_>,
        context: &ExpressionContext,
    ) -> Result<Option<Document>> {
        if self.paths.is_empty() || self.paths.len() > PATHS_MAX {
            return Ok(None);
        }
        interrupts::work(self.paths.len())?;
        let rename = |asked: &str| {
            self.paths.iter().find_map(|(behind, in_front)| {
                let rest = asked.strip_prefix(behind.as_str())?;
                let is_within = rest.is_empty() || rest.starts_with('.');
                is_within.then(|| format!("{}{rest}", in_front.as_str()))
            })
        };
        let mut bytes = Vec::new();
        let mut out = DocumentBuilder::new(&mut bytes);
        if !renamed::append(filter, &rename, &mut out)? {
            return Ok(None);
        }
        out.finish();
        let renamed = RawDocument::new(&bytes)?;
        let matcher = Matcher::parse_query(renamed, context)?;
        let may_move = answers_equals_alike(matcher.root(), &matcher)
            && (!self.missing_is_null || self.answers_missing_as_null(&matcher)?);
        Ok(may_move.then(|| renamed.to_owned_document()))
    }

    /// Whether a document without the value matches just if one with null does. There is one path.
    fn answers_missing_as_null(&self, matcher: &Matcher) -> Result<bool> {
        let Some((_, path)) = self.paths.first() else {
            return Ok(false);
        };
        let mut null = RawValue::Null.to_value();
        for part in path.parts().iter().rev() {
            let within = Document::build(|out| {
                out.append(part.name(), &null);
            });
            null = RawValue::Document(within.as_raw()).to_value();
        }
        let with_null = null.as_raw().as_document().unwrap_or(RawDocument::EMPTY);
        Ok(matcher.try_matches(RawDocument::EMPTY)? == matcher.try_matches(with_null)?)
    }
}

/// Adds the top-level fields that a key is made of, with their places in it. Recursion is as deep as the key.
fn add_top_level<'s>(
    key: &'s Expression,
    place: &mut String,
    paths: &mut Vec<(String, &'s FieldPath)>,
) {
    match key {
        Expression::Path(path) => {
            let path = path.root_path().filter(|path| path.is_top_level());
            paths.extend(path.map(|path| (place.clone(), path)));
        }
        Expression::Object(members) => {
            // A filter does not find a name with a dot.
            let members = members.iter().take(PATHS_MAX + 1);
            for (name, member) in members.filter(|(name, _)| !name.contains('.')) {
                if paths.len() > PATHS_MAX {
                    return;
                }
                let bytes = place.len();
                place.push('.');
                place.push_str(name);
                add_top_level(member, place, paths);
                place.truncate(bytes);
            }
        }
        _ => {}
    }
}

/// Whether the filter cannot tell values apart that compare as equal. Recursion is as deep as the filter, which was parsed.
fn answers_equals_alike(filter: &MatchExpression, matcher: &Matcher) -> bool {
    let all = |filters: &[MatchExpression]| {
        let mut filters = filters.iter();
        filters.all(|one| answers_equals_alike(one, matcher))
    };
    // A collation holds texts for equal of which one matches and another does not.
    let is_binary = matcher.collation().is_simple();
    match filter {
        MatchExpression::AlwaysTrue | MatchExpression::AlwaysFalse => true,
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => all(children),
        MatchExpression::Not(child) => answers_equals_alike(child, matcher),
        MatchExpression::Field(field) => match &field.predicate {
            Predicate::Compare { .. } | Predicate::Exists => true,
            Predicate::In(list) => is_binary || list.regexes().is_empty(),
            Predicate::Regex(_) => is_binary,
            Predicate::ElemMatchValue(children) => all(children),
            Predicate::ElemMatchObject(within) => answers_equals_alike(within.root(), within),
            Predicate::Test(_) => false,
        },
        MatchExpression::Expr(_)
        | MatchExpression::Schema(_)
        | MatchExpression::Near(_)
        | MatchExpression::Text(_) => false,
    }
}
