//! Index keys of a document: one pass over it for all indexes of its collection.
//!
//! A `FieldSet` of every first path component that any index names fills a slot table; each key field then goes on
//! from its slot. A path that meets an array gives one key an element (multikey), as MongoDB does: all fields of one
//! index that meet arrays must meet the same one. Missing fields are keyed as null, an empty array as undefined.
//! Keys come as complete index entries (docs/formats/keyspace.md), appended to a buffer that the caller reuses.

use quarry_bson::{FieldSet, RawArray, RawDocument, RawValue};
use quarry_keystring::{Direction, append_encoded_text, encode_value};
use smallvec::SmallVec;

use crate::collation::encode_collated;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{CUT_KEYS, ID_INDEX_NAME, Index, KeyField};
use crate::index::entry::cut;
use crate::index::found_fields::{Found, VALUE_BYTES};
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::index::kind::SpecialKeys;
use crate::keyspace::varint::write_len;

const KEYS_TOO_LARGE: ErrorCode = ErrorCode(17_280);

/// The bytes that an entry is taken to need beside its fields, of `VALUE_BYTES` each, when room is made for the entries of a piece.
const ENTRY_BYTES: usize = 32;
/// More than that is made room for as it comes.
const RESERVED_BYTES_MAX: usize = 1024 * 1024;

/// Compiled from a collection's indexes.
#[derive(Default)]
pub struct KeyGenerator {
    fields: Option<FieldSet>,
    slot_count: usize,
    /// The number of fields of all indexes together.
    fields_len: usize,
    /// For each index, where each of its key fields is found.
    fields_of: Vec<SmallVec<[FieldSlot; 4]>>,
    /// For each index, whether its entries depend on all fields.
    are_of_every_path: Vec<bool>,
    /// For each index, whether one of its paths may name a place in an array.
    name_places: Vec<bool>,
    /// For each index, the further slots that the filter of a partial one reads, and the kind of one that has a kind.
    filtered_by: Vec<SmallVec<[u16; 4]>>,
}

/// Where one key field of an index is found.
#[derive(Clone, Copy)]
struct FieldSlot {
    slot: u16,
    /// The path has no further component.
    is_whole: bool,
    direction: Direction,
}

/// The record that the entries of one document point to.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub document: u32,
    pub record_key: &'a [u8],
    /// The `_id` of a clustered collection, whose type bits the entry keeps; none for a capped one.
    pub id: Option<RawValue<'a>>,
}

impl KeyGenerator {
    /// Compiles the indexes of a collection.
    pub fn new(indexes: &[Index]) -> KeyGenerator {
        let mut names: Vec<&str> = Vec::new();
        let mut fields_of = Vec::with_capacity(indexes.len());
        let mut filtered_by = Vec::with_capacity(indexes.len());
        for index in indexes {
            let of_index = index.pattern.fields.iter().map(|field| FieldSlot {
                slot: slot_of(&mut names, &field.components[0]),
                is_whole: field.components.len() == 1,
                direction: field.direction,
            });
            fields_of.push(of_index.collect());
            let filter = index
                .filter
                .iter()
                .flat_map(|filter| filter.top_level_fields());
            let special = index.special.as_deref();
            let further = special.and_then(SpecialKeys::further_fields);
            let read = filter.chain(further.unwrap_or_default());
            filtered_by.push(read.map(|name| slot_of(&mut names, name)).collect());
        }
        let slot_count = names.len();
        let fields = (slot_count > 0).then(|| FieldSet::new(names.iter().copied()));
        let fields_len: usize = fields_of.iter().map(SmallVec::len).sum();
        let are_of_every_path = indexes
            .iter()
            .map(|index| {
                let special = index.special.as_deref();
                index.pattern.is_of_every_path()
                    || special.is_some_and(|special| special.further_fields().is_none())
            })
            .collect();
        let name_places = indexes
            .iter()
            .map(|index| {
                index.pattern.kind.is_none() && index.pattern.fields.iter().any(names_place)
            })
            .collect();
        KeyGenerator {
            are_of_every_path,
            name_places,
            fields,
            slot_count,
            fields_len,
            fields_of,
            filtered_by,
        }
    }

    /// Whether there is no field to look for, because there is no index.
    pub fn is_empty(&self) -> bool {
        self.slot_count == 0
    }

    /// Makes room for the entries of so many documents, of short values and without arrays.
    pub fn reserve(&self, documents: usize, buffer: &mut KeyBuffer) {
        let entries = documents * self.fields_of.len();
        let bytes = entries * ENTRY_BYTES + documents * self.fields_len * VALUE_BYTES;
        buffer.entries.reserve(entries);
        buffer.bytes.reserve(bytes.min(RESERVED_BYTES_MAX));
    }

    /// Finds what the indexes name in `document`.
    pub fn extract<'a>(&self, document: RawDocument<'a>) -> Found<'a> {
        let mut found = Found::default();
        self.extract_into(document, &mut found);
        found
    }

    /// Like `extract`, into what the caller has in its place: it has hundreds of bytes, which nobody has to move then.
    pub fn extract_into<'a>(&self, document: RawDocument<'a>, found: &mut Found<'a>) {
        found.slots.resize(self.slot_count, None);
        found.document = Some(document);
        if let Some(fields) = &self.fields {
            fields.extract(document, &mut found.slots);
        }
    }

    /// Like `extract_into`, for callers that make the entries of all indexes.
    pub fn extract_for_all<'a>(&self, document: RawDocument<'a>, found: &mut Found<'a>) {
        self.extract_into(document, found);
        let are_most_shared = self.fields_len >= 2 * self.slot_count;
        if are_most_shared {
            found.encode_texts();
        }
    }

    /// Whether index number `index` sees the same bytes in both documents.
    pub fn unchanged(&self, index: usize, old: &Found<'_>, new: &Found<'_>) -> bool {
        if self.are_of_every_path[index] {
            return false;
        }
        let is_unchanged = |slot: u16| {
            let slot = usize::from(slot);
            match (&old.slots[slot], &new.slots[slot]) {
                (None, None) => true,
                (Some(a), Some(b)) => a.as_bytes() == b.as_bytes(),
                _ => false,
            }
        };
        self.fields_of[index]
            .iter()
            .all(|field| is_unchanged(field.slot))
            && self.filtered_by[index]
                .iter()
                .all(|slot| is_unchanged(*slot))
    }

    /// Appends the entries of index number `number` of a document that comes; returns the marks (`Index::marks`) they ask for. A
    /// document is refused that has a field with the name of a place in an array which a path of the index names.
    pub fn entries(
        &self,
        number: usize,
        index: &Index,
        found: &Found<'_>,
        target: Target<'_>,
        buffer: &mut KeyBuffer,
    ) -> Result<u64> {
        let first = buffer.entries.len();
        let marks = self.standing_entries(number, index, found, target, buffer)?;
        if self.name_places[number]
            && let Some((component, array)) = self.ambiguous(number, index, found)
            && is_of_index(index, found)?
        {
            buffer.entries.truncate(first);
            return Err(ambiguous_field(component, array));
        }
        Ok(marks)
    }

    /// The place that a path of an index names in an array, and an element of the array has a field of that name.
    #[cold]
    fn ambiguous<'a, 'p>(
        &self,
        number: usize,
        index: &'p Index,
        found: &Found<'a>,
    ) -> Option<(&'p str, RawArray<'a>)> {
        let fields = index.pattern.fields.iter().zip(&self.fields_of[number]);
        fields.filter(|(field, _)| names_place(field)).find_map(
            |(field, &FieldSlot { slot, .. })| {
                let value = found.slots[usize::from(slot)].map(|element| element.value());
                ambiguous_place(value?, &field.components[1..])
            },
        )
    }

    /// Like `entries`, of a document that is stored: a build that let ambiguous names pass may have put it there. A partial index has
    /// none of a document that its filter does not match, whatever that has in the index's fields.
    pub fn standing_entries(
        &self,
        number: usize,
        index: &Index,
        found: &Found<'_>,
        target: Target<'_>,
        buffer: &mut KeyBuffer,
    ) -> Result<u64> {
        if !is_of_index(index, found)? {
            return Ok(0);
        }
        debug_assert!(
            index.partial.is_some() == index.filter.is_some(),
            "a partial index was not compiled"
        );
        if index.pattern.kind.is_some() {
            return special_entries(number, index, found, target, buffer);
        }
        let fields = &self.fields_of[number];
        if !index.collation.is_simple() {
            return collated_entries((number, fields), index, found, target, buffer);
        }
        let mut emit = Emit {
            number,
            index,
            target,
            buffer,
            marks: 0,
        };
        if emit.emit_whole(fields, found)? {
            return Ok(emit.marks);
        }
        let first = emit.buffer.entries.len();
        emit.expand(&states(index, fields, found))?;
        let marks = emit.marks;
        if marks != 0 {
            remove_repeated(buffer, first);
        }
        Ok(marks)
    }
}

impl KeyGenerator {
    /// Like `entries`, for a document that goes. An index that is being built has none of a document that it cannot have entries of:
    /// neither a writer nor the build has put any. So somebody can delete that document, or put another one in its place, before
    /// it fails the build.
    pub fn entries_that_go(
        &self,
        number: usize,
        index: &Index,
        found: &Found<'_>,
        target: Target<'_>,
        buffer: &mut KeyBuffer,
    ) -> Result<()> {
        match self.standing_entries(number, index, found, target, buffer) {
            Err(error) if index.building && refuses_document(&error) => {
                let is_its = |entry: &Entry| {
                    entry.document == target.document && usize::from(entry.index) == number
                };
                buffer.entries.retain(|entry| !is_its(entry));
                Ok(())
            }
            made => made.map(drop),
        }
    }
}

/// Whether the index is of the document, if it is partial. A sparse index is of one of which it has no entry, too.
#[inline]
fn is_of_index(index: &Index, found: &Found<'_>) -> Result<bool> {
    let document = found.document.unwrap_or(RawDocument::EMPTY);
    (index.filter.as_ref()).map_or(Ok(true), |filter| filter.matches(document))
}

/// Whether key generation failed for what the document is, and would have failed the same way when it was written. Not so where
/// its entries are too many, which depends on those of other indexes, this build cannot make the index's keys at all, or the server is short of memory.
fn refuses_document(error: &Error) -> bool {
    let Error::Invalid { code, .. } = error else {
        return false;
    };
    ![
        KEYS_TOO_LARGE,
        ErrorCode::INCOMPATIBLE_COLLATION_VERSION,
        ErrorCode::EXCEEDED_MEMORY_LIMIT,
    ]
    .contains(code)
}

/// Follows the path of each field up to its end or an array.
fn states<'a, 'p>(index: &'p Index, fields: &[FieldSlot], found: &Found<'a>) -> States<'a, 'p> {
    let fields = index.pattern.fields.iter().zip(fields);
    let states = fields.map(|(field, &FieldSlot { slot, .. })| {
        let value = found.slots[usize::from(slot)].map(|element| element.value());
        resolve(value, &field.components[1..])
    });
    states.collect()
}

/// Appends the entries of an index that keeps sort keys in place of strings. Two elements of an array may have one.
#[cold]
fn collated_entries(
    (number, fields): (usize, &[FieldSlot]),
    index: &Index,
    found: &Found<'_>,
    target: Target<'_>,
    buffer: &mut KeyBuffer,
) -> Result<u64> {
    index.check_sort_keys()?;
    let first = buffer.entries.len();
    let mut emit = Emit {
        number,
        index,
        target,
        buffer,
        marks: 0,
    };
    emit.expand(&states(index, fields, found))?;
    let marks = emit.marks;
    if marks != 0 {
        remove_repeated(buffer, first);
    }
    Ok(marks)
}

/// Appends the entries of an index whose kind makes them.
#[cold]
fn special_entries(
    number: usize,
    index: &Index,
    found: &Found<'_>,
    target: Target<'_>,
    buffer: &mut KeyBuffer,
) -> Result<u64> {
    index.check_sort_keys()?;
    let special = index.special.as_ref();
    let special = special.expect("the catalog compiles each index that has a kind");
    let first = buffer.entries.len();
    let mut emit = Emit {
        number,
        index,
        target,
        buffer,
        marks: 0,
    };
    let document = found.document.unwrap_or(RawDocument::EMPTY);
    let several = special.keys(document, &mut |values| emit.emit_special(values))?;
    let marks = emit.marks | several;
    remove_repeated(buffer, first);
    Ok(marks)
}

#[derive(Clone, Copy)]
enum State<'a, 'p> {
    Value(Option<RawValue<'a>>),
    /// Stands before an array; `rest` is the path inside each element.
    Array(RawArray<'a>, &'p [String]),
}

type States<'a, 'p> = SmallVec<[State<'a, 'p>; 8]>;

/// Follows `rest` from `value` until its end or an array.
fn resolve<'a, 'p>(mut value: Option<RawValue<'a>>, mut rest: &'p [String]) -> State<'a, 'p> {
    loop {
        match (value, rest.split_first()) {
            (Some(RawValue::Array(array)), Some((component, after))) => {
                match array_position(component) {
                    Some(position) if array.get(position).is_some() => {
                        value = array.get(position);
                        rest = after;
                    }
                    _ => return State::Array(array, rest),
                }
            }
            (Some(RawValue::Array(array)), None) => return State::Array(array, rest),
            (Some(RawValue::Document(document)), Some((component, after))) => {
                value = document.get(component);
                rest = after;
            }
            (_, None) => return State::Value(value),
            (_, Some(_)) => return State::Value(None),
        }
    }
}

/// The number a path component names, if it can be an array position.
fn array_position(component: &str) -> Option<usize> {
    let plain = component.as_bytes().iter().all(u8::is_ascii_digit)
        && (component.len() == 1 || !component.starts_with('0'));
    if plain { component.parse().ok() } else { None }
}

/// Whether the path of a field may name a place in an array.
fn names_place(field: &KeyField) -> bool {
    let mut inner = field.components[1..].iter();
    inner.any(|component| array_position(component).is_some())
}

/// The first place that `rest` names in an array below `value` while an element of the array has a field of that name. Depth is
/// bounded by the number of components.
fn ambiguous_place<'a, 'p>(
    value: RawValue<'a>,
    rest: &'p [String],
) -> Option<(&'p str, RawArray<'a>)> {
    let (component, after) = rest.split_first()?;
    let array = match value {
        RawValue::Document(document) => return ambiguous_place(document.get(component)?, after),
        RawValue::Array(array) => array,
        _ => return None,
    };
    let documents = array.iter().filter_map(|element| element.as_document());
    match array_position(component).and_then(|position| array.get(position)) {
        Some(element) => {
            let mut named = documents.filter(|document| document.contains(component));
            match named.next() {
                Some(_) => Some((component, array)),
                None => ambiguous_place(element, after),
            }
        }
        None => {
            let mut found = documents.filter_map(|document| document.get(component));
            found.find_map(|value| ambiguous_place(value, after))
        }
    }
}

fn ambiguous_field(component: &str, array: RawArray<'_>) -> Error {
    /// A longer text is shown without its middle.
    const SHOWN_MAX: usize = 1024;
    let shown =
        RawDocument::new(array.as_bytes()).map_or_else(|_| String::new(), |it| it.to_string());
    let shown = match shown.len() {
        0..SHOWN_MAX => shown,
        length => {
            let part = SHOWN_MAX / 3;
            let boundary = |from: usize| (from..length).find(|at| shown.is_char_boundary(*at));
            let (head, tail) = (boundary(part), boundary(length - part));
            let (head, tail) = (head.unwrap_or(length), tail.unwrap_or(length));
            format!("{} .......... {}", &shown[..head], &shown[tail..])
        }
    };
    Error::invalid(
        ErrorCode(16_746),
        format!(
            "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: '{component}' for array: {shown}"
        ),
    )
}

struct Emit<'e, 't> {
    number: usize,
    index: &'e Index,
    target: Target<'t>,
    buffer: &'e mut KeyBuffer,
    marks: u64,
}

impl Emit<'_, '_> {
    /// Depth is bounded by the number of components of the longest path.
    fn expand(&mut self, states: &States<'_, '_>) -> Result<()> {
        let mut array: Option<RawArray<'_>> = None;
        for (i, state) in states.iter().enumerate() {
            let State::Array(met, _) = state else {
                continue;
            };
            self.marks |= 1 << i;
            match array {
                None => array = Some(*met),
                Some(first) if std::ptr::eq(first.as_bytes(), met.as_bytes()) => {}
                Some(_) => return Err(self.parallel_arrays(states)),
            }
        }
        let Some(array) = array else {
            return self.emit(values(states));
        };
        if array.is_empty() {
            return self.emit(values(&with_element(states, None)));
        }
        for element in array {
            self.expand(&with_element(states, Some(element)))?;
        }
        Ok(())
    }

    /// The entry of an index each of whose fields is the whole of its slot and no array; false if it is not that.
    fn emit_whole(&mut self, fields: &[FieldSlot], found: &Found<'_>) -> Result<bool> {
        let start = self.begin();
        let KeyBuffer { bytes, bits, .. } = &mut *self.buffer;
        let mut are_missing = true;
        for &FieldSlot {
            slot,
            is_whole,
            direction,
        } in fields
        {
            let slot = usize::from(slot);
            let value = match found.encoded_text(slot) {
                Some(text) if is_whole => {
                    append_encoded_text(bytes, bits, text, direction);
                    are_missing = false;
                    continue;
                }
                _ => found.slots[slot].map(|element| element.value()),
            };
            if !is_whole || matches!(value, Some(RawValue::Array(_))) {
                bytes.truncate(start);
                return Ok(false);
            }
            are_missing &= value.is_none();
            encode_value(bytes, bits, value.unwrap_or(RawValue::Null), direction);
        }
        match are_missing && self.index.sparse {
            true => bytes.truncate(start),
            false => self.finish(start)?,
        }
        Ok(true)
    }

    /// The entry of one value for each field.
    fn emit<'a>(
        &mut self,
        values: impl Iterator<Item = Option<RawValue<'a>>> + Clone,
    ) -> Result<()> {
        if self.index.sparse && values.clone().all(|value| value.is_none()) {
            return Ok(());
        }
        let start = self.begin();
        let KeyBuffer { bytes, bits, .. } = &mut *self.buffer;
        let collation = &self.index.collation;
        for (KeyField { direction, .. }, value) in self.index.pattern.fields.iter().zip(values) {
            let value = value.unwrap_or(RawValue::Null);
            encode_collated(collation, bytes, bits, value, *direction);
        }
        self.finish(start)
    }

    /// The entry of values that a kind has made. The path of a wildcard field stays as it is, whatever the collation.
    fn emit_special(&mut self, values: &[RawValue<'_>]) -> Result<()> {
        let start = self.begin();
        let KeyBuffer { bytes, bits, .. } = &mut *self.buffer;
        let collation = &self.index.collation;
        let mut values = values.iter();
        for field in &self.index.pattern.fields {
            if field.is_wildcard
                && let Some(path) = values.next()
            {
                encode_value(bytes, bits, *path, Direction::Ascending);
            }
            if let Some(value) = values.next() {
                encode_collated(collation, bytes, bits, *value, field.direction);
            }
        }
        self.finish(start)
    }

    /// Begins an entry; returns where.
    fn begin(&mut self) -> usize {
        let KeyBuffer { bytes, bits, .. } = &mut *self.buffer;
        let start = bytes.len();
        bits.clear();
        self.index.prefix.append_to(bytes);
        start
    }

    /// Appends what follows the fields of the entry that begins at `start`.
    fn finish(&mut self, start: usize) -> Result<()> {
        let KeyBuffer {
            bytes,
            entries,
            bits,
            bytes_max,
        } = &mut *self.buffer;
        let fields_end = bytes.len();
        match self.target.id {
            Some(id) if !has_plain_type(id) => {
                encode_value(bytes, bits, id, Direction::Ascending);
            }
            _ => bytes.extend_from_slice(self.target.record_key),
        }
        let end = if self.index.unique_entries {
            fields_end
        } else {
            bytes.len()
        };
        let mut key_end = end;
        if end - start > quarry_storage::KEY_BYTES_MAX {
            if &*self.index.name == ID_INDEX_NAME {
                bytes.truncate(start);
                return Err(Error::id_too_long());
            }
            let record_key = self.target.record_key;
            key_end = cut(bytes, self.index, start, (fields_end, end), record_key);
            self.marks |= CUT_KEYS;
        } else if self.index.unique_entries {
            bytes.truncate(fields_end);
            write_len(bytes, self.target.record_key.len());
            bytes.extend_from_slice(self.target.record_key);
        }
        if bytes.len() > *bytes_max {
            bytes.truncate(start);
            return Err(too_large(self.index));
        }
        debug_assert!(
            bytes[start..key_end].starts_with(self.index.prefix.as_bytes())
                && key_end - start <= quarry_storage::KEY_BYTES_MAX,
            "a key of index `{}` stands outside of its range or is too long",
            self.index.name
        );
        bits.append_to(bytes);
        let end = offset(bytes.len());
        entries.push(Entry {
            index: u16::try_from(self.number).expect("at most 64 indexes"),
            document: self.target.document,
            key: offset(start)..offset(key_end),
            value: offset(key_end)..end,
        });
        Ok(())
    }

    fn parallel_arrays(&self, states: &States<'_, '_>) -> Error {
        let met = states.iter().zip(&self.index.pattern.fields);
        let names: Vec<String> = met
            .filter(|(state, _)| matches!(state, State::Array(..)))
            .map(|(_, field)| format!("[{}]", field.components.last().map_or("", String::as_str)))
            .collect();
        Error::invalid(
            ErrorCode::CANNOT_INDEX_PARALLEL_ARRAYS,
            format!("cannot index parallel arrays {}", names.join(" ")),
        )
    }
}

/// The refusal of a document whose index entries outgrow what one may have.
#[cold]
fn too_large(index: &Index) -> Error {
    let message = format!(
        "the index entries of one document take too many bytes, with those of index `{}`",
        index.name
    );
    Error::invalid(KEYS_TOO_LARGE, message)
}

/// Whether an `_id` adds nothing to the type bits, so that its entries end in its record key.
fn has_plain_type(id: RawValue<'_>) -> bool {
    matches!(
        id,
        RawValue::ObjectId(_) | RawValue::String(_) | RawValue::Int32(_)
    )
}

/// The values of states without arrays.
fn values<'s, 'a>(
    states: &'s States<'a, '_>,
) -> impl Iterator<Item = Option<RawValue<'a>>> + Clone + 's {
    states.iter().map(|state| match state {
        State::Value(value) => *value,
        State::Array(..) => unreachable!("arrays are expanded before"),
    })
}

/// The states with every array replaced by one of its elements, or by what an empty array stands for.
fn with_element<'a, 'p>(states: &States<'a, 'p>, element: Option<RawValue<'a>>) -> States<'a, 'p> {
    let replaced = states.iter().map(|state| match (*state, element) {
        (State::Array(_, []), None) => State::Value(Some(RawValue::Undefined)),
        (State::Array(_, []), Some(element)) => State::Value(Some(element)),
        (State::Array(_, rest), Some(element @ RawValue::Document(_))) => {
            resolve(Some(element), rest)
        }
        (State::Array(..), _) => State::Value(None),
        (value, _) => value,
    });
    replaced.collect()
}

/// Two elements can give one key: an entry is written once.
fn remove_repeated(buffer: &mut KeyBuffer, first: usize) {
    let KeyBuffer { bytes, entries, .. } = buffer;
    let key = |entry: &Entry| &bytes[entry.key.start as usize..entry.key.end as usize];
    entries[first..].sort_by(|a, b| key(a).cmp(key(b)));
    let mut kept = first;
    for i in first..entries.len() {
        if i == first || key(&entries[i]) != key(&entries[kept - 1]) {
            entries.swap(kept, i);
            kept += 1;
        }
    }
    entries.truncate(kept);
    debug_assert!(
        entries[first..]
            .windows(2)
            .all(|pair| key(&pair[0]) < key(&pair[1])),
        "an entry is written twice"
    );
}

fn slot_of<'n>(names: &mut Vec<&'n str>, name: &'n str) -> u16 {
    let slot = names
        .iter()
        .position(|known| *known == name)
        .unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
    u16::try_from(slot).expect("at most 64 indexes of 32 fields")
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a piece's keys are bounded by its documents")
}
