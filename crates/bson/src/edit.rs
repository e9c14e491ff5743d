//! Edits of an owned document by splicing: the bytes of one element are exchanged, the lengths around it
//! patched, nothing else is touched.

use std::ops::Range;

use crate::{
    DEPTH_MAX, Document, ElementType, Error, Result, Value,
    document::split_path,
    element::Step,
    encode::write_head,
    layout::{self, NameLens},
};

impl Document {
    /// Gives the first field of that name a value, in its place; appends the field if there is none.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) -> &mut Self {
        let name = name.as_ref();
        match find(self.as_bytes(), 0, name) {
            Some(found) => self.splice(found.bytes(), &element_bytes(name, &value.into()), &[0]),
            None => {
                self.append(name, value);
            }
        }
        self
    }

    /// Takes the first field of that name out.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> Option<Value> {
        let value = self.get_element(name.as_ref()).map(Value::from)?;
        let found = find(self.as_bytes(), 0, name.as_ref())?;
        self.splice(found.bytes(), &[], &[0]);
        Some(value)
    }

    /// Gives the element at a dotted path a value. Documents that are missing on the way are made; an array's
    /// elements are replaced by position, and neither added nor spread. A path that runs into another value, or
    /// beyond an array's end, is an error and changes nothing; so is one of more parts than documents may be deep.
    pub fn set_path(&mut self, path: impl AsRef<[u8]>, value: impl Into<Value>) -> Result<()> {
        if path.as_ref().split(|b| *b == b'.').count() > DEPTH_MAX {
            return Err(Error::TooDeep {
                offset: 0,
                path: String::new(),
            });
        }
        let mut frames = vec![0];
        let mut frame_type = ElementType::Document;
        let mut rest = path.as_ref();
        loop {
            let frame = *frames.last().unwrap_or(&0);
            let (name, after) = split_path(rest);
            let found = find(self.as_bytes(), frame, name);
            if let (
                Some(Found {
                    element_type: below @ (ElementType::Document | ElementType::Array),
                    value,
                    ..
                }),
                Some(after),
            ) = (&found, after)
            {
                frames.push(value.start);
                frame_type = *below;
                rest = after;
                continue;
            }
            let range = match (found, after) {
                (Some(found), None) => found.bytes(),
                (None, _) if frame_type == ElementType::Document => self.end_of(frame),
                _ => return Err(blocked(path.as_ref(), name)),
            };
            let missing = after
                .into_iter()
                .flat_map(|after| after.rsplit(|b| *b == b'.'));
            let value = missing.fold(value.into(), |inner, name| {
                Value::from(Document::build(|d| {
                    d.append(name, &inner);
                }))
            });
            self.splice(range, &element_bytes(name, &value), &frames);
            return Ok(());
        }
    }

    /// Takes the element at a dotted path out; false if there is none. In an array, Null takes its place, so
    /// that the others keep their positions.
    pub fn remove_path(&mut self, path: impl AsRef<[u8]>) -> bool {
        let mut frames = vec![0];
        let mut frame_type = ElementType::Document;
        let mut rest = path.as_ref();
        loop {
            let frame = *frames.last().unwrap_or(&0);
            let (name, after) = split_path(rest);
            let Some(found) = find(self.as_bytes(), frame, name) else {
                return false;
            };
            let Some(after) = after else {
                let in_array = frame_type == ElementType::Array;
                let left = if in_array {
                    element_bytes(name, &Value::null())
                } else {
                    Vec::new()
                };
                self.splice(found.bytes(), &left, &frames);
                return true;
            };
            if !matches!(
                found.element_type,
                ElementType::Document | ElementType::Array
            ) {
                return false;
            }
            frames.push(found.value.start);
            frame_type = found.element_type;
            rest = after;
        }
    }

    /// Exchanges a range of bytes and patches the lengths of the documents, by their offsets, that enclose it.
    fn splice(&mut self, range: Range<usize>, new: &[u8], frames: &[usize]) {
        let (removed, added) = (range.len(), new.len());
        let bytes = self.bytes_mut();
        bytes.splice(range, new.iter().copied());
        for frame in frames {
            let len = layout::read_len(bytes, *frame).unwrap_or_default() + added - removed;
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            bytes[*frame..frame + 4].copy_from_slice(&len.to_le_bytes());
        }
    }

    /// Where an element could be added to the document at an offset.
    fn end_of(&self, frame: usize) -> Range<usize> {
        let end = frame + layout::read_len(self.as_bytes(), frame).unwrap_or_default() - 1;
        end..end
    }
}

/// Where an element stands.
struct Found {
    start: usize,
    element_type: ElementType,
    value: Range<usize>,
}

impl Found {
    fn bytes(&self) -> Range<usize> {
        self.start..self.value.end
    }
}

/// The first element of a name in the document that starts at an offset.
fn find(bytes: &[u8], frame: usize, name: &[u8]) -> Option<Found> {
    let end = frame + layout::read_len(bytes, frame)?;
    let mut rest = bytes.get(frame + 4..end)?;
    let key = layout::name_key(name);
    let mut names = NameLens::new();
    while let Some(step) = Step::read(rest, &mut names) {
        if step.has_name(key, name) {
            let start = end - rest.len();
            let value = start + step.name_len + 2..start + step.bytes.len();
            return Some(Found {
                start,
                element_type: step.element_type,
                value,
            });
        }
        rest = step.rest;
    }
    None
}

fn element_bytes(name: &[u8], value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2 + value.as_bytes().len());
    write_head(&mut bytes, value.element_type(), name);
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

#[cold]
fn blocked(path: &[u8], name: &[u8]) -> Error {
    let text = String::from_utf8_lossy;
    Error::Unrepresentable {
        what: format!("path `{}` cannot be set at `{}`", text(path), text(name)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, RawDocument, Value, doc};

    fn sound(document: &Document) {
        RawDocument::validated(document.as_bytes()).unwrap();
    }

    #[test]
    fn fields_change_in_place() {
        let mut d = doc! { "a": 1, "b": "two", "c": true };
        d.set("b", "a longer text")
            .set("d", 4)
            .set("a", Value::null());
        sound(&d);
        assert_eq!(
            d,
            doc! { "a": null, "b": "a longer text", "c": true, "d": 4 }
        );
        assert_eq!(d.remove("b"), Some(Value::from("a longer text")));
        assert_eq!(d.remove("b"), None);
        sound(&d);
        assert_eq!(d, doc! { "a": null, "c": true, "d": 4 });
    }

    #[test]
    fn paths_reach_into_documents_and_arrays() {
        let mut d = doc! { "a": { "l": [1, { "x": 2 }], "z": 0 }, "s": "text" };
        d.set_path("a.l.1.x", "deep").unwrap();
        d.set_path("a.l.0", 9).unwrap();
        d.set_path("n.o.p", 5).unwrap();
        d.set_path("a.l.1.new.y", 6).unwrap();
        sound(&d);
        let wanted = doc! { "a": { "l": [9, { "x": "deep", "new": { "y": 6 } }], "z": 0 }, "s": "text", "n": { "o": { "p": 5 } } };
        assert_eq!(d, wanted);
        for path in ["s.x", "a.l.2", "a.l.x", "a.z.b.c"] {
            assert!(d.set_path(path, 1).is_err(), "{path}");
            assert!(!d.remove_path(path), "{path}");
        }
        assert_eq!(d, wanted);
        assert!(
            d.remove_path("a.l.1.new")
                && d.remove_path("a.l.0")
                && d.remove_path("n")
                && d.remove_path("a.z")
        );
        sound(&d);
        assert_eq!(
            d,
            doc! { "a": { "l": [null, { "x": "deep" }] }, "s": "text" }
        );
    }
}
