//! Dotted paths as MongoDB's filters follow them: through arrays.
//!
//! Where a path meets an array before its end it goes on in every element that is a document, and, if its next
//! part is a number, in the element at that position too. An array at the path's end is one value; whoever
//! wants its elements looks into it. Arrays directly inside arrays are entered by position only.

use std::ops::ControlFlow;

use crate::{DEPTH_MAX, RawArray, RawDocument, RawValue, document::split_path};

impl<'a> RawDocument<'a> {
    /// Visits each value that a dotted path leads to, in document order, until the visitor breaks. Says whether
    /// it was let through to the end.
    pub fn visit_path(
        &self,
        path: impl AsRef<[u8]>,
        mut visit: impl FnMut(RawValue<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        in_document(*self, path.as_ref(), &mut visit, 0)
    }

    /// Whether any value that a dotted path leads to satisfies the condition.
    pub fn any_at_path(
        &self,
        path: impl AsRef<[u8]>,
        mut condition: impl FnMut(RawValue<'a>) -> bool,
    ) -> bool {
        let visited = self.visit_path(path, |value| match condition(value) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        visited.is_break()
    }
}

type Visit<'v, 'a> = &'v mut dyn FnMut(RawValue<'a>) -> ControlFlow<()>;

fn in_document<'a>(
    document: RawDocument<'a>,
    path: &[u8],
    visit: Visit<'_, 'a>,
    depth: usize,
) -> ControlFlow<()> {
    let (name, rest) = split_path(path);
    match document.get(name) {
        Some(value) => in_value(value, rest, visit, depth + 1),
        None => ControlFlow::Continue(()),
    }
}

fn in_value<'a>(
    value: RawValue<'a>,
    rest: Option<&[u8]>,
    visit: Visit<'_, 'a>,
    depth: usize,
) -> ControlFlow<()> {
    let Some(rest) = rest else {
        return visit(value);
    };
    if depth > DEPTH_MAX {
        return ControlFlow::Continue(());
    }
    match value {
        RawValue::Document(document) => in_document(document, rest, visit, depth),
        RawValue::Array(array) => in_array(array, rest, visit, depth),
        _ => ControlFlow::Continue(()),
    }
}

fn in_array<'a>(
    array: RawArray<'a>,
    path: &[u8],
    visit: Visit<'_, 'a>,
    depth: usize,
) -> ControlFlow<()> {
    let (name, rest) = split_path(path);
    if let Some(value) = position(name).and_then(|at| array.get(at)) {
        in_value(value, rest, visit, depth + 1)?;
    }
    for value in array {
        if let RawValue::Document(document) = value {
            in_document(document, path, visit, depth + 1)?;
        }
    }
    ControlFlow::Continue(())
}

/// A path's part as an array position: digits without a leading zero.
fn position(part: &[u8]) -> Option<usize> {
    let plain = part.iter().all(u8::is_ascii_digit) && (part.len() == 1 || !part.starts_with(b"0"));
    if plain {
        str::from_utf8(part).ok()?.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    fn found(document: &crate::Document, path: &str) -> Vec<String> {
        let mut values = Vec::new();
        let visited = document.as_raw().visit_path(path, |value| {
            values.push(value.to_string());
            ControlFlow::Continue(())
        });
        assert!(visited.is_continue());
        values
    }

    #[test]
    fn arrays_are_spread_and_entered_by_position() {
        let d = doc! {
            "a": [{ "b": 1 }, { "b": [2, 3] }, 7, [{ "b": 9 }], { "0": "named" }], "s": 5, "n": { "m": { "x": null } },
        };
        assert_eq!(found(&d, "a.b"), ["1", "[ 2, 3 ]"]);
        assert_eq!(found(&d, "a.1.b"), ["[ 2, 3 ]"]);
        assert_eq!(found(&d, "a.1.b.1"), ["3"]);
        assert_eq!(found(&d, "a.3.b"), ["9"]);
        assert_eq!(found(&d, "a.0"), ["{ b: 1 }", "'named'"]);
        assert_eq!(found(&d, "a.00"), [""; 0]);
        assert_eq!(found(&d, "n.m.x"), ["null"]);
        assert_eq!(found(&d, "s.x"), [""; 0]);
        assert_eq!(found(&d, "s"), ["5"]);
        assert!(d.as_raw().any_at_path("a.b", |v| v.as_i32() == Some(1)));
        assert!(!d.as_raw().any_at_path("a.b", |v| v.as_i32() == Some(2)));
    }
}
