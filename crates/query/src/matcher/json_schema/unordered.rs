//! Values with the fields of their documents sorted by name: JSON Schema knows no order of fields, so `enum` and
//! `uniqueItems` compare such copies.

use quarry_bson::{
    ArrayBuilder, Document, DocumentBuilder, RawArray, RawDocument, RawValue, Value,
};

/// Copies the value with sorted fields. Recursion is bounded by the depth of a validated document.
pub(super) fn with_sorted_fields(value: RawValue<'_>) -> Value {
    match value {
        RawValue::Document(_) | RawValue::Array(_) => {
            let holder = Document::build(|out| append(out, "v", value));
            holder.get("v").map_or_else(Value::null, Value::from)
        }
        flat => Value::from(flat),
    }
}

fn append(out: &mut DocumentBuilder<'_>, name: impl AsRef<[u8]>, value: RawValue<'_>) {
    match value {
        RawValue::Document(document) => sort_document(document, out.document(name)),
        RawValue::Array(array) => sort_array(array, out.array(name)),
        flat => {
            out.append(name, flat);
        }
    }
}

fn sort_document(document: RawDocument<'_>, mut out: DocumentBuilder<'_>) {
    let mut elements: Vec<_> = document.iter().collect();
    elements.sort_by(|a, b| a.name().as_bytes().cmp(b.name().as_bytes()));
    for element in elements {
        append(&mut out, element.name().as_bytes(), element.value());
    }
    out.finish();
}

fn sort_array(array: RawArray<'_>, mut out: ArrayBuilder<'_>) {
    for item in array {
        match item {
            RawValue::Document(document) => sort_document(document, out.document()),
            RawValue::Array(array) => sort_array(array, out.array()),
            flat => {
                out.push(flat);
            }
        }
    }
    out.finish();
}
