//! The values of an index key under the names of the index's fields, as errors and reports show them.

use quarry_bson::{Document, RawValue};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use crate::index::definition::Index;
use crate::index::entry::IndexEntry;

/// The part of a wildcard index's keys that names the path.
const PATH: &str = "$_path";

/// The key of an entry; no fields where the bytes are none of a key. A sort key that stands for a text is shown as hexadecimal
/// digits.
pub(crate) fn shown_key(index: &Index, entry: &IndexEntry<'_>) -> Document {
    let (mut names, mut directions) = (
        SmallVec::<[&str; 8]>::new(),
        SmallVec::<[Direction; 8]>::new(),
    );
    for field in &index.pattern.fields {
        if field.is_wildcard {
            names.push(PATH);
            directions.push(Direction::Ascending);
        }
        names.push(&field.path);
        directions.push(field.direction);
    }
    let mut shown = Document::new();
    let values = quarry_keystring::decode(entry.fields, entry.type_bits, &directions);
    for (name, value) in names.iter().zip(values.iter().flatten()) {
        match value.as_raw() {
            RawValue::String(key) if !index.collation.is_simple() => {
                shown.append(name, hexadecimal(key.as_bytes()).as_str());
            }
            value => {
                shown.append(name, value);
            }
        }
    }
    shown
}

/// A sort key as MongoDB shows one.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}
