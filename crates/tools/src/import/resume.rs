//! How far an import is, in a small file: enough to go on behind an interruption with every document there once.
//!
//! The file has the place in the input behind the last batch of which all before it is written too, and `horizon`, the place up to which batches may have been sent.
//! It is written anew, durably, before a batch beyond the horizon is sent. An import that goes on sends what stands between the two again: a document
//! that is there by then was written by the run before. So that this can be told, a document without `_id` gets one that is made of the import's seed and the
//! document's number.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_bson::{Document, ObjectId, RawValue, Value, doc, extjson};

use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::new_file::{sync_directory_of, with_ending};

/// How far the horizon is put beyond the batch that is sent, so that the file is written seldom.
const HORIZON_BYTES: u64 = 64 << 20;
/// Bytes of an id that the seed gives: four of the time, three of chance. The other five count.
const SEED_BYTES: usize = 7;

/// A place in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub offset: u64,
    /// The number of the line, from 1.
    pub line: u64,
    /// Whether it is between the documents of an array.
    pub is_in_array: bool,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            offset: 0,
            line: 1,
            is_in_array: false,
        }
    }
}

/// A place between documents, with the number of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    place: Place,
    ordinal: u64,
}

/// The state of an import, which a file keeps if there is one.
pub struct Resume {
    path: Option<PathBuf>,
    /// The collection and the input that the file must be about.
    about: Document,
    seed: [u8; SEED_BYTES],
    /// The place at which this run began.
    begun: Mark,
    /// Behind the last batch before which everything is written.
    written: Mark,
    /// Up to here a run may have sent.
    horizon: u64,
    /// Up to here the run before may have sent.
    horizon_before: u64,
    goes_on: bool,
    ordinal: u64,
    /// The last place that progress was counted up to.
    counted: u64,
    next_batch: u64,
    /// Batches under way, by their numbers: where each begins and ends, and whether it is written.
    batches: BTreeMap<u64, (u64, Mark, bool)>,
    last_sent: u64,
}

impl Resume {
    /// The state that the file holds, or a new one.
    pub fn open(path: Option<&Path>, to: &Namespace, from: Option<&Path>) -> Result<Resume> {
        let from = from.map_or(String::new(), |path| path.display().to_string());
        let about = doc! { "collection": (to.to_string()), "file": from };
        let mut resume = Resume {
            path: path.map(Path::to_owned),
            about,
            seed: seed()?,
            begun: Mark::default(),
            written: Mark::default(),
            horizon: 0,
            horizon_before: 0,
            goes_on: false,
            ordinal: 0,
            counted: 0,
            next_batch: 0,
            batches: BTreeMap::new(),
            last_sent: 0,
        };
        if let Some(path) = path
            && path.exists()
        {
            let text = fs::read_to_string(path).map_err(Error::file(path))?;
            resume.read(&text, path)?;
        }
        Ok(resume)
    }

    fn read(&mut self, text: &str, path: &Path) -> Result<()> {
        let damaged = |what: &str| Error::damaged(format_args!("`{}`", path.display()), what);
        let state = extjson::parse(text).map_err(|error| damaged(&error.to_string()))?;
        if state.get_document("about") != Some(self.about.as_raw()) {
            return Err(damaged("this is of another import"));
        }
        let number = |name| {
            let value = state.get(name).and_then(|value| value.as_i64_exact());
            value
                .and_then(|value| u64::try_from(value).ok())
                .ok_or_else(|| damaged("a number is missing"))
        };
        match state.get("seed") {
            Some(RawValue::Binary(seed)) if seed.bytes.len() == SEED_BYTES => {
                self.seed.copy_from_slice(seed.bytes);
            }
            _ => return Err(damaged("the seed is missing")),
        }
        self.begun = Mark {
            place: Place {
                offset: number("offset")?,
                line: number("line")?.max(1),
                is_in_array: state.get_bool("array") == Some(true),
            },
            ordinal: number("documents")?,
        };
        self.horizon_before = number("horizon")?;
        self.horizon = self.horizon_before;
        self.written = self.begun;
        self.ordinal = self.begun.ordinal;
        self.counted = self.begun.place.offset;
        self.last_sent = self.begun.place.offset;
        self.goes_on = true;
        Ok(())
    }

    /// The place at which the import begins.
    pub fn place(&self) -> Place {
        self.begun.place
    }

    /// Whether a run before has begun.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The number of the next document.
    pub fn next_ordinal(&mut self) -> u64 {
        self.ordinal += 1;
        self.ordinal
    }

    /// The id of the document of that number.
    pub fn id(&self, ordinal: u64) -> ObjectId {
        let mut bytes = [0; 12];
        bytes[..SEED_BYTES].copy_from_slice(&self.seed);
        bytes[SEED_BYTES..].copy_from_slice(&ordinal.to_be_bytes()[3..]);
        ObjectId::from_bytes(bytes)
    }

    /// Whether the id is one that this import has made.
    pub fn is_own_id(&self, id: RawValue<'_>) -> bool {
        match id {
            RawValue::ObjectId(id) => id.bytes().starts_with(&self.seed),
            _ => false,
        }
    }

    /// The bytes since the last place, for progress.
    pub fn advance(&mut self, behind: Place) -> u64 {
        let bytes = behind.offset.saturating_sub(self.counted);
        self.counted = behind.offset;
        bytes
    }

    /// Notes that a batch which ends at the place is about to be sent; its number.
    pub fn sent(&mut self, behind: Place) -> Result<u64> {
        if self.path.is_some() && behind.offset > self.horizon {
            self.horizon = behind.offset + HORIZON_BYTES;
            self.write()?;
        }
        let mark = Mark {
            place: behind,
            ordinal: self.ordinal,
        };
        self.next_batch += 1;
        self.batches
            .insert(self.next_batch, (self.last_sent, mark, false));
        self.last_sent = behind.offset;
        Ok(self.next_batch)
    }

    /// Whether documents of the batch may have been written by the run before.
    pub fn may_be_there(&self, batch: u64) -> bool {
        let begins = self.batches.get(&batch).map(|(begins, ..)| *begins);
        self.goes_on && begins.is_some_and(|begins| begins < self.horizon_before)
    }

    /// Notes that a batch is written.
    pub fn written(&mut self, batch: u64) -> Result<()> {
        if let Some((.., is_written)) = self.batches.get_mut(&batch) {
            *is_written = true;
        }
        while let Some(first) = self.batches.first_entry()
            && first.get().2
        {
            self.written = first.remove().1;
        }
        Ok(())
    }

    /// The import is done: nothing is left to go on with.
    pub fn done(mut self) -> Result<()> {
        match self.path.take() {
            Some(path) if path.exists() => fs::remove_file(&path).map_err(Error::file(&path)),
            _ => Ok(()),
        }
    }

    fn write(&self) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let Mark { place, ordinal } = self.written;
        let state = doc! {
            "about": (&self.about), "seed": (Value::binary(0, &self.seed)), "offset": (number(place.offset)),
            "line": (number(place.line)), "array": (place.is_in_array), "documents": (number(ordinal)),
            "horizon": (number(self.horizon)),
        };
        let next = with_ending(path, ".new");
        let text = extjson::relaxed(state.as_raw());
        let write = || {
            let mut file = File::create(&next)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&next, path)?;
            // The name, too, has to be there before what it tells of is sent.
            sync_directory_of(path)
        };
        write().map_err(Error::file(path))
    }
}

impl Drop for Resume {
    fn drop(&mut self) {
        // An import that ends with an error goes on as near as it can; without this, at the place of the last horizon. One that has sent nothing has
        // not begun.
        if self.horizon > 0 {
            let _ = self.write();
        }
    }
}

fn seed() -> Result<[u8; SEED_BYTES]> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = seconds.map_or(0, |since| since.as_secs()) as u32;
    let mut seed = [0; SEED_BYTES];
    getrandom::fill(&mut seed).map_err(|error| Error::usage(error.to_string()))?;
    seed[..4].copy_from_slice(&seconds.to_be_bytes());
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64) -> Place {
        Place {
            offset,
            line: offset / 10 + 1,
            is_in_array: true,
        }
    }

    #[test]
    fn an_import_goes_on_behind_the_last_gap() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let to = Namespace::new("db", "c");
        let from = Path::new("x.json");
        let open = |to: &Namespace| Resume::open(Some(&path), to, Some(from));
        let mut first = open(&to).unwrap();
        assert!(!first.goes_on() && !path.exists());
        let mut batches = Vec::new();
        for end in [100, 200, 300, 400] {
            first.next_ordinal();
            batches.push(first.sent(place(end)).unwrap());
            assert!(
                path.exists(),
                "the horizon is noted before anything is sent"
            );
        }
        let id = first.id(2);
        for written in [0, 1, 3] {
            first.written(batches[written]).unwrap();
        }
        drop(first);
        let mut second = open(&to).unwrap();
        assert!(second.goes_on());
        // The third batch was not written, whatever became of the fourth.
        assert_eq!(second.place(), place(200));
        assert_eq!(second.next_ordinal(), 3);
        assert_eq!(second.id(2), id);
        let batch = second.sent(place(400)).unwrap();
        assert!(second.may_be_there(batch));
        let beyond = second.sent(place(400 + HORIZON_BYTES * 2)).unwrap();
        assert!(second.may_be_there(beyond), "it begins before the horizon");
        let far = second.sent(place(400 + HORIZON_BYTES * 3)).unwrap();
        assert!(!second.may_be_there(far));
        assert!(open(&Namespace::new("db", "other")).is_err());
        second.done().unwrap();
        assert!(!path.exists());
    }
}
