//! The paths that a collection's indexes name, numbered once for the planner: a filter's paths are looked up, and
//! from there on candidates are compared by number.

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::index::definition::Index;

/// The number of the path that records are ordered by, if they are: `_id`, or the time of a time series.
const RECORDS: u16 = 0;

/// Numbers for the paths that the indexes of a collection name, so that plans compare numbers instead of texts.
pub struct PathNumbers {
    numbers: HashMap<Box<str>, u16>,
    /// For each index, the number of each of its key fields.
    of_indexes: Vec<SmallVec<[u16; 4]>>,
}

impl PathNumbers {
    pub(crate) fn new(indexes: &[Index], of_records: Option<&str>) -> PathNumbers {
        let mut numbers = HashMap::new();
        numbers.insert(Box::from(of_records.unwrap_or("_id")), RECORDS);
        let mut of_indexes = Vec::with_capacity(indexes.len());
        for index in indexes {
            let fields = index.pattern.fields.iter().map(|field| {
                let next = u16::try_from(numbers.len()).expect("at most 64 indexes of 32 fields");
                *numbers.entry(field.path.as_str().into()).or_insert(next)
            });
            of_indexes.push(fields.collect());
        }
        PathNumbers {
            numbers,
            of_indexes,
        }
    }

    /// None for a path that no index names.
    pub fn get(&self, path: &str) -> Option<u16> {
        self.numbers.get(path).copied()
    }

    /// The numbers of the fields of the index at that position among the collection's.
    pub fn of_index(&self, position: usize) -> &[u16] {
        &self.of_indexes[position]
    }

    /// The numbers of the key of records that are ordered by a path.
    pub fn of_records(&self) -> &'static [u16] {
        &[RECORDS]
    }

    /// Numbers are below it.
    pub fn end(&self) -> usize {
        self.numbers.len()
    }
}
