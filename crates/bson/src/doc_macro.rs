//! `doc!`: documents written as they look.

/// A [`Document`](crate::Document) literal. A value is `null`, a nested `{..}` or `[..]`, or any expression
/// that is `Into<Value>`; a name is a literal, or an expression in parentheses.
///
/// ```
/// use quarry_bson::doc;
/// let n = 3;
/// let d = doc! { "a": 1, "b": { "c": [1, "x", null] }, "d": n + 1, ("e".to_string()): true };
/// assert_eq!(d.get_path("b.c.1").and_then(|v| v.as_str()), Some("x"));
/// assert_eq!(d.get_i32("d"), Some(4));
/// ```
#[macro_export]
macro_rules! doc {
    ($($tokens:tt)*) => {{
        #[allow(unused_mut)]
        let mut document = $crate::Document::new();
        $crate::__doc_fields!(document; $($tokens)*);
        document
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __doc_fields {
    ($doc:ident;) => {};
    ($doc:ident; $name:tt : null $(, $($rest:tt)*)?) => {
        $doc.append($name, $crate::Value::null());
        $crate::__doc_fields!($doc; $($($rest)*)?);
    };
    ($doc:ident; $name:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $doc.append($name, $crate::doc!($($inner)*));
        $crate::__doc_fields!($doc; $($($rest)*)?);
    };
    ($doc:ident; $name:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $doc.append($name, $crate::__doc_array!([] $($inner)*));
        $crate::__doc_fields!($doc; $($($rest)*)?);
    };
    ($doc:ident; $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $doc.append($name, $value);
        $crate::__doc_fields!($doc; $($($rest)*)?);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __doc_array {
    ([$($done:expr,)*]) => {
        $crate::Value::from(Vec::<$crate::Value>::from([$($done),*]))
    };
    ([$($done:expr,)*] null $(, $($rest:tt)*)?) => {
        $crate::__doc_array!([$($done,)* $crate::Value::null(),] $($($rest)*)?)
    };
    ([$($done:expr,)*] { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::__doc_array!([$($done,)* $crate::Value::from($crate::doc!($($inner)*)),] $($($rest)*)?)
    };
    ([$($done:expr,)*] [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::__doc_array!([$($done,)* $crate::__doc_array!([] $($inner)*),] $($($rest)*)?)
    };
    ([$($done:expr,)*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::__doc_array!([$($done,)* $crate::Value::from($value),] $($($rest)*)?)
    };
}

#[cfg(test)]
mod tests {
    use crate::{Document, Value};

    #[test]
    fn literals_build_what_they_show() {
        let names = ["x", "y"];
        let d = doc! { "a": 1, "b": {}, "c": [], "d": [[1], {"e": null}, names.len() as i64,], "f": names[1], "g": [1, 2].len() as i32, };
        crate::RawDocument::validated(d.as_bytes()).unwrap();
        assert_eq!(d.len(), 6);
        assert_eq!(d.get_path("d.1.e").map(Value::from), Some(Value::null()));
        assert_eq!(d.get_path("d.2").and_then(|v| v.as_i64_exact()), Some(2));
        assert_eq!(d.get_str("f"), Some("y"));
        assert_eq!(doc! {}, Document::new());
    }
}
