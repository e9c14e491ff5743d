//! Entry points for bytes and text from anyone: each function must come back, and must find what it checks.
//!
//! Shared by the random test in this folder and by the fuzz targets.

use std::hash::{DefaultHasher, Hasher};

use quarry_bson::{
    Document, FieldSet, Index, RawDocument, RawElement, RawValue, compare_documents, extjson,
    hash_value,
};

/// Levels that the walks below go down.
const DEPTH_MAX: usize = 64;

pub fn decode(data: &[u8]) {
    let Ok(document) = Document::decode(data) else {
        return;
    };
    assert_eq!(document.as_bytes(), data);
    let canonical = extjson::canonical(document.as_raw());
    let read = extjson::parse(&canonical).map(|d| extjson::canonical(d.as_raw()));
    // A key such as $oid over other content is a document in BSON and an error in Extended JSON.
    if let Ok(again) = read {
        assert_eq!(again, canonical);
    }
    extjson::relaxed(document.as_raw());
    let rebuilt = Document::build(|out| {
        for element in &document {
            out.append(element.name(), element.value());
        }
    });
    assert_eq!(rebuilt.as_bytes(), data);
}

pub fn iterate(data: &[u8]) {
    let Ok(document) = RawDocument::new(data) else {
        return;
    };
    walk(document, 0);
    // The walk from within and the walk from without end at the same element.
    let mut elements = document.iter();
    let within = document.iter().fold(0, |n, e| n + e.as_bytes().len());
    let without = (&mut elements).map(|e| e.as_bytes().len()).sum::<usize>();
    assert_eq!(within, without);
    assert!(elements.malformed() || document.len_bytes() == within + 5);
    assert!(compare_documents(document, document).is_eq());
    hash_value(document.into(), &mut DefaultHasher::new());
    assert!(!document.to_string().is_empty());
    extjson::canonical(document);
}

fn walk(document: RawDocument<'_>, depth: usize) -> usize {
    if depth > DEPTH_MAX {
        return 0;
    }
    document
        .iter()
        .map(|element| 1 + value(element.value(), depth))
        .sum()
}

fn value(value: RawValue<'_>, depth: usize) -> usize {
    let copy = value.to_value();
    assert_eq!(copy.element_type(), value.element_type());
    value.as_f64_lossy();
    value.as_i64_exact();
    value.as_str();
    match value {
        RawValue::Document(inner) => walk(inner, depth + 1),
        RawValue::Array(inner) => inner.iter().map(|v| self::value(v, depth + 1)).sum(),
        RawValue::JavaScriptWithScope(code) => walk(code.scope, depth + 1),
        _ => 0,
    }
}

pub fn validate(data: &[u8]) {
    match RawDocument::validated(data) {
        Ok(document) => assert!(sound(document)),
        Err(error) => {
            assert!(error.offset().is_none_or(|at| at <= data.len()), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Over validated bytes no walk ends early, at any level.
fn sound(document: RawDocument<'_>) -> bool {
    let mut elements = document.iter();
    let below = elements.by_ref().all(|element| {
        element.name().as_str().is_ok()
            && match element.value() {
                RawValue::String(text) => text.as_str().is_ok(),
                RawValue::Document(inner) => sound(inner),
                RawValue::Array(inner) => sound(inner.as_document()),
                _ => true,
            }
    });
    below && !elements.malformed()
}

/// FieldSet and Index find what a plain walk finds, whatever the bytes and hints are.
pub fn field_set(data: &[u8]) {
    let Ok(document) = RawDocument::new(data) else {
        return;
    };
    let mut paths: Vec<String> = document
        .iter()
        .filter_map(|e| e.name().as_str().ok().map(str::to_owned))
        .take(80)
        .collect();
    let nested: Vec<String> = document
        .iter()
        .filter_map(|e| Some(format!("{}.{}", e.name().as_str().ok()?, nested_name(e)?)))
        .take(20)
        .collect();
    paths.extend(nested);
    paths.extend([
        "missing".to_owned(),
        "a".to_owned(),
        "a.b".to_owned(),
        "l.1".to_owned(),
    ]);
    let set = FieldSet::new(paths.iter().map(String::as_str));
    // Each document leaves hints about order to the next, which may be wrong for it.
    let turned = turned(document);
    for document in [
        document,
        document,
        turned.as_raw(),
        document,
        turned.as_raw(),
    ] {
        let mut slots = vec![None; set.len()];
        set.extract(document, &mut slots);
        for (path, slot) in paths.iter().zip(&slots) {
            assert_eq!(*slot, document.get_path_element(path), "{path}");
        }
    }
    let mut index = Index::new();
    let indexed = index.of(document);
    for path in &paths {
        assert_eq!(
            indexed.get_element(path),
            document.get_element(path),
            "{path}"
        );
    }
    assert!(indexed.iter().eq(document.iter()));
    for path in paths.iter().rev() {
        assert_eq!(
            index.get_path_element(document, path),
            document.get_path_element(path),
            "{path}"
        );
    }
}

/// The document's elements in reverse, the last one first.
fn turned(document: RawDocument<'_>) -> Document {
    let elements: Vec<_> = document.iter().collect();
    Document::build(|out| {
        for element in elements.iter().rev() {
            out.append_element(*element);
        }
    })
}

fn nested_name(element: RawElement<'_>) -> Option<String> {
    let inner = match element.value() {
        RawValue::Document(inner) => inner,
        RawValue::Array(inner) => inner.as_document(),
        _ => return None,
    };
    inner.iter().last()?.name().as_str().ok().map(str::to_owned)
}

pub fn extended_json(text: &str) {
    for read in [extjson::parse(text), extjson::parse_legacy(text)]
        .into_iter()
        .flatten()
    {
        let checked =
            RawDocument::validated(read.as_bytes()).expect("parsed text is a sound document");
        let canonical = extjson::canonical(checked);
        let again = extjson::parse(&canonical).expect("canonical text parses");
        assert_eq!(extjson::canonical(again.as_raw()), canonical);
    }
}

/// Checks that the `bson` crate reads what Quarry accepts, and the other way round.
pub fn differential(data: &[u8]) {
    let ours = RawDocument::validated(data);
    let theirs = bson::Document::from_reader(data);
    match (&ours, &theirs) {
        (Ok(document), Err(error)) => panic!("accepted: {document}; the bson crate: {error}"),
        (Err(error), Ok(document)) if !known_difference(data) => {
            panic!("refused: {error}; the bson crate: {document}")
        }
        _ => {}
    }
}

/// The crate reads one document from the start of its input and leaves what follows.
fn known_difference(data: &[u8]) -> bool {
    let len = data
        .first_chunk::<4>()
        .map(|b| u32::from_le_bytes(*b) as usize);
    len.is_some_and(|len| len < data.len())
}

/// Keeps the hasher used: equal documents must hash alike.
pub fn order(a: &[u8], b: &[u8]) {
    let (Ok(a), Ok(b)) = (RawDocument::new(a), RawDocument::new(b)) else {
        return;
    };
    let order = compare_documents(a, b);
    assert_eq!(order, compare_documents(b, a).reverse());
    let hash = |d: RawDocument<'_>| {
        let mut state = DefaultHasher::new();
        hash_value(d.into(), &mut state);
        state.finish()
    };
    assert!(order.is_ne() || hash(a) == hash(b));
}
