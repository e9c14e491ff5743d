//! The document that an index entry tells of: the fields that somebody reads, with the values that the entry has, so that the
//! record itself need not be read.
//!
//! Keeps true: a document that is made has what the record has at the paths that were asked for. A missing field is keyed
//! as null, and an array by its elements; an entry with a null among the values that are needed makes no document, and
//! whoever reads whole values makes none of fields that have met arrays.

use quarry_bson::{DocumentBuilder, ElementType};
use quarry_database::{Index, IndexEntry};
use quarry_keystring::{Decoder, Direction};
use smallvec::SmallVec;

use crate::error::Result;
use crate::exec::broken_entry;
use crate::field_path::may_name_positions;

/// Which values of an index's entries make which fields.
#[derive(Debug, Default)]
pub struct KeyDocument {
    /// Those of the entry's fields, up to the last one that is used.
    directions: SmallVec<[Direction; 4]>,
    /// Behind the fields stands the `_id` that the record key is.
    has_id: bool,
    root: Vec<Field>,
}

/// A field's name and value.
type Field = (Box<str>, Part);

#[derive(Debug)]
enum Part {
    /// A value of the entry, by number.
    Value(usize),
    /// A document on the way to others.
    Document(Vec<Field>),
}

/// The memory in which documents are made.
#[derive(Debug, Default)]
pub struct KeyBuffer {
    values: Vec<u8>,
    /// The type of each value, and where it begins in `values`.
    places: Vec<(ElementType, usize)>,
    made: Vec<u8>,
}

impl KeyDocument {
    /// Whether it has a value of one of the index's fields whose bits are set.
    pub fn reads_any(&self, fields: u64) -> bool {
        fn reads(of: &[Field], fields: u64) -> bool {
            of.iter().any(|(_, part)| match part {
                Part::Value(number) => fields & (1 << number) != 0,
                Part::Document(within) => reads(within, fields),
            })
        }
        reads(&self.root, fields)
    }

    /// The document with the values at `paths`; None if an entry does not tell one of them. The `_id` is told by the record
    /// key of a clustered collection.
    pub fn of<'p>(
        index: &Index,
        is_clustered: bool,
        paths: impl Iterator<Item = &'p str>,
    ) -> Option<KeyDocument> {
        let fields = &index.pattern.fields;
        let mut used: SmallVec<[usize; 8]> = SmallVec::new();
        for path in paths {
            // The field that holds the most of those that hold the path: two that are used never hold each other.
            let holders = fields
                .iter()
                .enumerate()
                .filter(|(_, field)| holds(&field.path, path) && !may_name_positions(&field.path));
            let holder = holders.min_by_key(|(_, field)| field.path.len());
            let number = match holder {
                Some((number, _)) => number,
                None if is_clustered && holds("_id", path) => fields.len(),
                None => return None,
            };
            if !used.contains(&number) {
                used.push(number);
            }
        }
        used.sort_unstable();
        let has_id = used.last() == Some(&fields.len());
        let len = used.last().map_or(0, |last| (last + 1).min(fields.len()));
        let directions = fields[..len].iter().map(|field| field.direction);
        let mut document = KeyDocument {
            directions: directions.collect(),
            has_id,
            root: Vec::new(),
        };
        // An `_id` stands first, as it does in what is stored.
        let path_of = |number: usize| fields.get(number).map_or("_id", |field| &*field.path);
        used.sort_by_key(|number| !holds("_id", path_of(*number)));
        for number in used {
            insert(&mut document.root, path_of(number), number);
        }
        Some(document)
    }

    /// Whether nobody reads a field.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Makes the document of an entry; None if one of its values may stand for a field that is not there.
    pub fn make<'b>(
        &self,
        entry: &IndexEntry<'_>,
        buffer: &'b mut KeyBuffer,
    ) -> Result<Option<&'b [u8]>> {
        let KeyBuffer {
            values,
            places,
            made,
        } = buffer;
        values.clear();
        places.clear();
        made.clear();
        let mut decoder = Decoder::new(entry.fields, entry.type_bits);
        for direction in &self.directions {
            let start = values.len();
            let element_type = decoder
                .append_next(*direction, values)
                .map_err(broken_entry)?;
            places.push((element_type, start));
        }
        if self.has_id {
            decoder.go_on_in(entry.record_key);
            let start = values.len();
            let element_type = decoder.append_next(Direction::Ascending, values);
            places.push((element_type.map_err(broken_entry)?, start));
        }
        let mut builder = DocumentBuilder::new(made);
        let is_made = append(&self.root, values, places, &mut builder);
        builder.finish();
        Ok(is_made.then_some(made.as_slice()))
    }
}

/// Whether the value at `outer` holds the value at `inner`.
fn holds(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Puts the value `number` where its path leads to. No path that was inserted holds another one.
fn insert(fields: &mut Vec<Field>, path: &str, number: usize) {
    let Some((first, rest)) = path.split_once('.') else {
        fields.push((path.into(), Part::Value(number)));
        return;
    };
    let place = fields.iter().position(|(name, _)| &**name == first);
    let place = place.unwrap_or_else(|| {
        fields.push((first.into(), Part::Document(Vec::new())));
        fields.len() - 1
    });
    match &mut fields[place].1 {
        Part::Document(within) => insert(within, rest, number),
        Part::Value(_) => debug_assert!(false, "a value holds `{path}`"),
    }
}

/// Appends fields, as deep as their paths are; false if one of the values is null.
fn append(
    fields: &[Field],
    values: &[u8],
    places: &[(ElementType, usize)],
    out: &mut DocumentBuilder<'_>,
) -> bool {
    fields.iter().all(|(name, part)| match part {
        Part::Document(within) => {
            let mut document = out.document(&**name);
            let is_made = append(within, values, places, &mut document);
            document.finish();
            is_made
        }
        Part::Value(number) => {
            let (element_type, start) = places[*number];
            let end = places.get(number + 1).map_or(values.len(), |next| next.1);
            out.append_bytes(&**name, element_type, &values[start..end]);
            element_type != ElementType::Null
        }
    })
}
