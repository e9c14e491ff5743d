//! `min` and `max`: a scan of the keys of one index between two that the client names. The hint names the index, because bounds mean the
//! fields of its key pattern, all of them and in its order. The lower bound is inclusive, the upper one exclusive. Bounds with strings must
//! be meant as the index keeps them: by its collation.

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{
    Collection, Index, IndexCatalog, KeyRange, holds_text, is_widened_by_cut_keys, meeting_cut_keys,
};
use quarry_keystring::{Direction, TypeBits, prefix_end};

use super::candidate::{Candidate, KnownFields, candidates};
use super::covered::key_document;
use super::hints::{natural_hint, no_such_hint};
use super::tree::{Solution, above};
use super::wanted::Wanted;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::metadata::MetadataKinds;
use crate::plan::{
    Covered, Covering, Fetch, IndexAccess, IndexScan, KeySource, KeyedEntries, Node,
};
use crate::{Collation, encode_collated};

/// The bounds of an index's keys as a client names them.
#[derive(Debug, Clone, Copy)]
pub struct KeyBounds<'b> {
    min: Option<RawDocument<'b>>,
    max: Option<RawDocument<'b>>,
}

impl<'b> KeyBounds<'b> {
    /// None if no bound is named. Fails for two that do not name the same fields.
    pub fn of(
        min: Option<RawDocument<'b>>,
        max: Option<RawDocument<'b>>,
    ) -> Result<Option<KeyBounds<'b>>> {
        let names = |bound: RawDocument<'b>| bound.iter().map(|field| field.name());
        if let (Some(min), Some(max)) = (min, max)
            && !names(min).eq(names(max))
        {
            let text = "min and max must have the same field names";
            return Err(Error::location(51_176, text));
        }
        let is_asked = min.is_some() || max.is_some();
        Ok(is_asked.then_some(KeyBounds { min, max }))
    }
}

/// The plan that reads the keys between the bounds, whose strings are meant by the collation `asked`.
pub fn choose_between(
    (bounds, asked): (&KeyBounds<'_>, &Collation),
    collection: &Collection,
    index_catalog: &IndexCatalog,
    wanted: &Wanted<'_>,
) -> Result<Node> {
    let solution = solution((bounds, asked), collection, index_catalog, wanted)?;
    Ok(above(solution, wanted))
}

fn solution(
    (bounds, asked): (&KeyBounds<'_>, &Collation),
    collection: &Collection,
    index_catalog: &IndexCatalog,
    wanted: &Wanted<'_>,
) -> Result<Solution> {
    let candidate = candidate((bounds, asked), collection, index_catalog, wanted)?;
    let order = wanted
        .sort
        .and_then(|sort| candidate.order(sort, KnownFields::ALL_BOUNDED));
    let is_sorted = wanted.sort.is_none() || order.is_some();
    let (low, high) = ends(bounds, &candidate)?;
    let texts = match wanted.shows_bounds {
        true => texts(bounds, &candidate),
        false => Vec::new(),
    };
    let with_prefix = |fields: &[u8]| [candidate.prefix, fields].concat();
    let range = KeyRange::new(
        with_prefix(&low),
        match high.is_empty() {
            true => prefix_end(candidate.prefix),
            false => with_prefix(&high),
        },
    );
    let scan = Scan {
        access: candidate.access(texts),
        range,
        fields: (low, high),
        is_reversed: order.unwrap_or(false),
    };
    let covering = covering(&candidate, collection, wanted, !is_sorted);
    let found = scan.documents(&candidate, wanted.metadata, covering);
    Ok(Solution { is_sorted, ..found })
}

/// The keys to be read.
struct Scan {
    access: IndexAccess,
    range: KeyRange,
    /// Its ends without the index's prefix.
    fields: (Vec<u8>, Vec<u8>),
    is_reversed: bool,
}

impl Scan {
    /// The documents of the keys, made of the keys where these have all that is read. Ranges of stored keys are wider than the bounds where
    /// keys may be cut: each is looked at then.
    fn documents(
        self,
        candidate: &Candidate<'_>,
        metadata: MetadataKinds,
        covering: Option<Covering>,
    ) -> Solution {
        let asks_filter = true;
        let scan =
            |access, range| Box::new(IndexScan::new(access, vec![range], self.is_reversed, false));
        let found = |node, key, covered| Solution {
            node,
            is_sorted: false,
            is_of_branches: false,
            covered,
            key,
        };
        let fetched = |scan| Box::new(Fetch::new(scan, asks_filter)) as Node;
        if candidate.is_of_records() {
            let scan = scan(self.access, self.range);
            return found(fetched(scan), KeySource::Id, Covered::No);
        }
        let is_widened = candidate.has_cut_keys || is_widened_by_cut_keys(&self.range);
        let scan = scan(self.access, meeting_cut_keys(self.range));
        let mut keyed = KeyedEntries::new();
        if is_widened {
            let (low, high) = self.fields;
            keyed = keyed.within(low, high);
        }
        if metadata.has(MetadataKinds::INDEX_KEY) {
            let key = KeySource::Rows { asks_filter };
            return found(scan.giving_keys(keyed), key, Covered::No);
        }
        match covering {
            _ if is_widened => {
                let scan = scan.giving_keys(keyed.of_records());
                found(fetched(scan), KeySource::Nothing, Covered::No)
            }
            Some(covering) => found(scan.covering(covering), KeySource::Nothing, Covered::ByScan),
            None => found(fetched(scan), KeySource::Nothing, Covered::No),
        }
    }
}

/// How keys serve in place of documents, if they do.
fn covering(
    candidate: &Candidate<'_>,
    collection: &Collection,
    wanted: &Wanted<'_>,
    sorts: bool,
) -> Option<Covering> {
    let asks_filter = !wanted.filter?.matches_everything();
    let is_clustered = collection.is_clustered();
    let document = key_document(candidate.index?, is_clustered, wanted, asks_filter, sorts)?;
    Some(Covering::new(document, asks_filter))
}

/// The index that the hint names, whose fields the bounds must name.
fn candidate<'c>(
    (bounds, asked): (&KeyBounds<'_>, &Collation),
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    wanted: &Wanted<'_>,
) -> Result<Candidate<'c>> {
    let is_natural = wanted.sort.is_some_and(|sort| sort.natural().is_some());
    if is_natural || wanted.follows || natural_hint(wanted.hint)?.is_some() {
        let text = "min and max are incompatible with $natural";
        return Err(Error::new(ErrorCode::NO_QUERY_EXECUTION_PLANS, text));
    }
    let Some(hint) = wanted.hint else {
        let text = "When using min()/max() a hint of which index to use must be provided";
        return Err(Error::location(51_173, text));
    };
    let mut candidates = candidates(collection, index_catalog, asked);
    let Some(candidate) = candidates.find(|candidate| candidate.is_meant(hint)) else {
        let mut indexes = index_catalog.indexes.iter();
        let is_other = |index: &Index| index.is_meant(hint) && !index.is_outdated();
        return Err(match indexes.any(is_other) {
            true => incompatible(),
            false => no_such_hint(index_catalog, hint),
        });
    };
    let is_of_fields = |bound: &RawDocument<'_>| {
        let names = bound.iter().map(|field| field.name());
        let fields = candidate.fields().map(|(path, _)| path);
        bound.len() == candidate.fields_len() && names.zip(fields).all(|(name, path)| name == path)
    };
    let is_kept = |bound: &RawDocument<'_>| {
        candidate.is_alike || !bound.iter().any(|field| holds_text(field.value()))
    };
    let named = [bounds.min, bounds.max];
    let mut named = named.iter().flatten();
    match named.all(|bound| is_of_fields(bound) && is_kept(bound)) {
        true => Ok(candidate),
        false => Err(incompatible()),
    }
}

fn incompatible() -> Error {
    let text = "The index chosen is not compatible with min/max";
    Error::location(51_174, text)
}

/// The first bytes of the keys and the end, without the index's prefix. Without an upper bound the end has no bytes.
fn ends(bounds: &KeyBounds<'_>, candidate: &Candidate<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let directions = || candidate.fields().map(|(_, direction)| direction);
    let encoded = |values: &mut dyn Iterator<Item = RawValue<'_>>| {
        let mut key = Vec::new();
        for (value, direction) in values.zip(directions()) {
            let bits = &mut TypeBits::new();
            encode_collated(candidate.collation, &mut key, bits, value, direction);
        }
        key
    };
    let low = match bounds.min {
        Some(min) => encoded(&mut min.iter().map(|field| field.value())),
        None => encoded(&mut directions().map(|direction| match direction {
            Direction::Ascending => RawValue::MinKey,
            Direction::Descending => RawValue::MaxKey,
        })),
    };
    let Some(max) = bounds.max else {
        return Ok((low, Vec::new()));
    };
    let high = encoded(&mut max.iter().map(|field| field.value()));
    if low >= high {
        let text = "The value provided for min() does not come before the value provided for max() in the hinted index";
        return Err(Error::location(51_175, text));
    }
    Ok((low, high))
}

/// The bounds as explain prints them: exact for one field; of several, what they leave of the first one.
fn texts(bounds: &KeyBounds<'_>, candidate: &Candidate<'_>) -> Vec<(String, Vec<String>)> {
    let is_only = candidate.fields_len() == 1;
    let fields = candidate.fields().enumerate();
    let texts = fields.map(|(number, (path, direction))| {
        let (least, greatest) = match direction {
            Direction::Ascending => ("MinKey", "MaxKey"),
            Direction::Descending => ("MaxKey", "MinKey"),
        };
        let end = |bound: Option<RawDocument<'_>>, open: &str| {
            let value = bound
                .filter(|_| number == 0)
                .and_then(|bound| bound.get(path));
            value.map_or_else(|| open.to_owned(), |value| value.to_string())
        };
        let close = match is_only && bounds.max.is_some() {
            true => ')',
            false => ']',
        };
        let (low, high) = (end(bounds.min, least), end(bounds.max, greatest));
        (path.to_owned(), vec![format!("[{low}, {high}{close}")])
    });
    texts.collect()
}
