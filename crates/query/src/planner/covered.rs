//! Whether the keys of an index have all that is read of the documents.

use quarry_database::Index;

use super::wanted::Wanted;
use crate::field_path::FieldPath;
use crate::matcher::MatchExpression;
use crate::plan::KeyDocument;

/// The document that the entries of an index make, if it serves in place of the whole one. `asks_filter` says that the filter
/// is asked of it, and `sorts` that it is put in order; the other reads are the reader's own.
pub fn key_document(
    index: &Index,
    is_clustered: bool,
    wanted: &Wanted<'_>,
    asks_filter: bool,
    sorts: bool,
) -> Option<KeyDocument> {
    let read = wanted.read?;
    if index.special.is_some() {
        return None;
    }
    let mut paths: Vec<&str> = read.iter().map(FieldPath::as_str).collect();
    if sorts {
        let fields = wanted.sort.iter().flat_map(|sort| sort.fields());
        paths.extend(fields.map(|field| field.path.as_str()));
    }
    if asks_filter && !add_paths(wanted.filter?, &mut paths) {
        return None;
    }
    // The keys have sort keys in place of strings, which tell no more than that there is one.
    if !index.collation.is_simple() && !paths.is_empty() {
        return None;
    }
    let document = KeyDocument::of(index, is_clustered, paths.into_iter())?;
    // Of an array a key has one element.
    (!document.reads_any(index.multikey_components())).then_some(document)
}

/// Adds the paths that a filter reads; false if it may read more. Recursion is as deep as the filter, whose parser bounds it.
fn add_paths<'m>(filter: &'m MatchExpression, paths: &mut Vec<&'m str>) -> bool {
    match filter {
        MatchExpression::AlwaysTrue | MatchExpression::AlwaysFalse => true,
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => children.iter().all(|child| add_paths(child, paths)),
        MatchExpression::Not(child) => add_paths(child, paths),
        MatchExpression::Field(field) => {
            paths.push(field.path.as_str());
            true
        }
        MatchExpression::Expr(_)
        | MatchExpression::Schema(_)
        | MatchExpression::Near(_)
        | MatchExpression::Text(_) => false,
    }
}
