//! From the scan of a candidate's keys to the documents: fetched, made of the keys, merged by range, or read as one record.

use quarry_database::Collection;

use super::covered::key_document;
use super::filter_bounds::FilterBounds;
use super::merged::merge_of_ranges;
use super::scored::{Scan, Scored};
use super::tree::Solution;
use super::wanted::Wanted;
use crate::field_path::FieldPath;
use crate::metadata::MetadataKinds;
use crate::plan::{
    Covered, Covering, Fetch, IdHack, KeyDocument, KeySource, KeyedEntries, NoRows, Node, Watched,
};

impl Scored<'_> {
    /// The documents of the candidate.
    pub fn solution(
        &self,
        bounds: &FilterBounds<'_>,
        collection: &Collection,
        wanted: &Wanted<'_>,
    ) -> Solution {
        let scan = self.scan(bounds, wanted);
        self.access(scan, collection.is_clustered(), wanted)
    }

    /// The documents of the scan's keys, or of what is read of them.
    pub fn access(&self, scan: Scan, is_clustered: bool, wanted: &Wanted<'_>) -> Solution {
        if wanted.metadata.has(MetadataKinds::INDEX_KEY) {
            return self.keyed_access(scan, wanted);
        }
        let answers = scan.answers;
        let is_id = answers && self.candidate.is_of_records() && self.score.is_whole_unique_key;
        let (mut covered, mut is_merged) = (Covered::No, self.merged.is_some());
        let node: Node = match scan.node.ranges() {
            // No value meets what is asked of a field.
            [] => Box::new(NoRows::EOF),
            [record] if is_id => Box::new(IdHack::new(record.start.clone())),
            _ if is_merged => {
                let covering = self.covering(&scan, is_clustered, wanted);
                match (merge_of_ranges(self, scan.node), covering) {
                    (Ok(merge), Some(covering)) => {
                        covered = Covered::ByMerge;
                        Box::new(merge.covering(covering))
                    }
                    (Ok(merge), None) => Box::new(Fetch::new(Box::new(merge), !answers)),
                    (Err(scan), _) => {
                        is_merged = false;
                        Box::new(Fetch::new(scan, !answers))
                    }
                }
            }
            _ => match self.covering(&scan, is_clustered, wanted) {
                Some(covering) => {
                    covered = Covered::ByScan;
                    scan.node.covering(covering)
                }
                None => Box::new(Fetch::new(scan.node, !answers)),
            },
        };
        let node = match &self.watch {
            None => node,
            Some(watch) => Box::new(Watched::new(node, (**watch).clone())),
        };
        Solution {
            node,
            is_sorted: wanted.sort.is_none()
                || (self.order.is_some() && is_merged == self.merged.is_some()),
            is_of_branches: false,
            covered,
            key: KeySource::Nothing,
        }
    }

    /// Like `access`, with the keys by which the documents are found.
    #[cold]
    fn keyed_access(&self, scan: Scan, wanted: &Wanted<'_>) -> Solution {
        let answers = scan.answers;
        let is_of_records = self.candidate.is_of_records();
        let is_id = answers && is_of_records && self.score.is_whole_unique_key;
        let is_sorted = wanted.sort.is_none() || (self.order.is_some() && self.merged.is_none());
        let (node, key): (Node, KeySource) = match scan.node.ranges() {
            [] => (Box::new(NoRows::EOF), KeySource::Nothing),
            [record] if is_id => (Box::new(IdHack::new(record.start.clone())), KeySource::Id),
            // The order of a time series is no index, and has no keys to show.
            _ if self.candidate.is_by_time() => (
                Box::new(Fetch::new(scan.node, !answers)),
                KeySource::Nothing,
            ),
            _ if is_of_records => (Box::new(Fetch::new(scan.node, !answers)), KeySource::Id),
            _ => {
                let reads_documents = wanted.returned_key.is_none()
                    || wanted.metadata.has(MetadataKinds::SORT_KEY)
                    || !is_sorted;
                let key = match answers && !reads_documents {
                    true => KeySource::KeysAlone,
                    false => KeySource::Rows {
                        asks_filter: !answers,
                    },
                };
                (scan.node.giving_keys(KeyedEntries::new()), key)
            }
        };
        Solution {
            node,
            is_sorted,
            is_of_branches: false,
            covered: Covered::No,
            key,
        }
    }

    /// How keys serve in place of documents, if they do.
    fn covering(&self, scan: &Scan, is_clustered: bool, wanted: &Wanted<'_>) -> Option<Covering> {
        wanted.read?;
        let (asks_filter, sorts) = (!scan.answers, self.order.is_none());
        if let Some(index) = self.candidate.index {
            let document = key_document(index, is_clustered, wanted, asks_filter, sorts)?;
            return Some(Covering::new(document, asks_filter));
        }
        // The key of a record says that it is there, and that alone; gets of whole keys do not even say that.
        let counts = wanted.read.is_some_and(<[FieldPath]>::is_empty)
            && !asks_filter
            && !scan.has_whole_keys
            && (wanted.sort.is_none() || !sorts);
        counts.then(|| Covering::new(KeyDocument::default(), false))
    }
}
