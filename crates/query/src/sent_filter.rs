//! A filter as it was sent, for those that show or name it without what the parser makes of it: explain, `$queryStats`, the shape of a
//! query. They read it by the same rules, and each writes what it is for.

use quarry_bson::{DocumentBuilder, RawArray, RawDocument};

/// The filters that an operator such as `$or` lists.
#[inline]
pub fn documents_of(children: RawArray<'_>) -> impl Iterator<Item = RawDocument<'_>> {
    children.iter().filter_map(|child| child.as_document())
}

/// Whether the value of a path is operators, and not a document to compare with.
#[inline]
pub fn holds_operators(document: RawDocument<'_>) -> bool {
    let first = document.first();
    first.is_some_and(|first| first.name().as_bytes().starts_with(b"$"))
}

/// Appends the conditions of a filter, several of them as an `$and`.
pub fn append_conditions<T>(
    conditions: &[T],
    append: impl Fn(&T, &mut DocumentBuilder<'_>),
    out: &mut DocumentBuilder<'_>,
) {
    match conditions {
        [] => {}
        [only] => append(only, out),
        several => {
            let mut all = out.array("$and");
            for condition in several {
                let mut one = all.document();
                append(condition, &mut one);
                one.finish();
            }
            all.finish();
        }
    }
}

/// Appends `$or` or `$nor`, each of its filters as `write_filter` writes it.
pub fn append_branches(
    operator: &str,
    branches: RawArray<'_>,
    write_filter: impl Fn(RawDocument<'_>, &mut DocumentBuilder<'_>),
    out: &mut DocumentBuilder<'_>,
) {
    let mut list = out.array(operator);
    for branch in documents_of(branches) {
        let mut one = list.document();
        write_filter(branch, &mut one);
        one.finish();
    }
    list.finish();
}
