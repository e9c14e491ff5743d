//! The part that update, delete and findAndModify share: finding the records that match, a piece at a time, and changing
//! those that still match under their locks.

use std::cell::{Cell, OnceCell};

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{
    Change, Collation, Collection, CollectionSnapshot, Error, Ident, Level, Modified, Namespace,
    NewDocument, Operation, PIECE_BYTES_MAX, PIECE_DOCUMENTS_MAX, PlanSummary, Scope,
};
use quarry_timing::{Phase, phase};

use super::collation::imposed;
use super::find::{plan, whole_id};
use super::series;
use crate::error::Result;
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::interrupts;
use crate::matcher::{MatchDetails, Matcher};
use crate::plan::{
    CollectionScan, Flow, Kept, Leaf, Node, Parsed, PlanContext, PlanNode, Purpose, SeenRecords,
    run,
};
use crate::planner::Wanted;
use crate::query_shape::QueryParts;
use crate::update::Update;

/// How often a single change looks for another document when others changed the one it found.
const ATTEMPTS_MAX: u32 = 1000;

/// The work of a change by `_id` that finds nothing.
const UNITS_OF_A_LOOK: usize = 200;

/// The records a write is meant for.
pub(super) struct Target<'t> {
    pub scope: Scope<'t>,
    pub operation: &'t Operation,
    /// The level that its pieces will be waited for.
    pub level: Level,
    pub namespace: &'t Namespace,
    filter: RawDocument<'t>,
    /// The order in which the first document is sought.
    sort: Option<RawDocument<'t>>,
    /// Whether a document is made where none matches.
    pub is_upsert: bool,
    hint: Option<RawValue<'t>>,
    context: Option<&'t ExpressionContext>,
    /// The context where the request gives none, made when something asks for it.
    own_context: OnceCell<ExpressionContext>,
    /// The `_id` that the filter asks for, if it asks for nothing else.
    id: Option<RawValue<'t>>,
    /// A filter that is one `_id` is parsed only when something needs it.
    parsed: OnceCell<Box<Parsed>>,
    /// The collation of the collection, where the statement was parsed without; nothing is changed then.
    imposed: Cell<Option<Collation>>,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub matched: u64,
    pub modified: u64,
    pub deleted: u64,
    pub error: Option<crate::Error>,
    /// The LSN of the last commit.
    pub lsn: Option<u64>,
}

/// The change to be made.
#[derive(Clone, Copy)]
pub(super) enum Effect<'u> {
    Delete,
    Update(&'u Update),
    /// A change or removal of one document by findAndModify.
    FindAndModify,
}

/// Computes the change of a document that matches.
pub(super) type Compute<'c> =
    dyn FnMut(RawDocument<'_>, &MatchDetails, &mut NewDocument) -> Result<Change> + 'c;

impl<'t> Target<'t> {
    pub fn new(
        scope: Scope<'t>,
        operation: &'t Operation,
        level: Level,
        namespace: &'t Namespace,
        filter: RawDocument<'t>,
        hint: Option<RawValue<'t>>,
        context: Option<&'t ExpressionContext>,
    ) -> Target<'t> {
        Target {
            id: whole_id(filter, context).filter(|_| hint.is_none()),
            own_context: OnceCell::new(),
            context,
            scope,
            operation,
            level,
            namespace,
            filter,
            hint,
            sort: None,
            is_upsert: false,
            parsed: OnceCell::new(),
            imposed: Cell::new(None),
        }
    }

    /// Refuses a filter that is none. One `_id` always is one.
    pub fn check(&self) -> Result<()> {
        match self.id {
            Some(_) => Ok(()),
            None => self.check_steady(),
        }
    }

    /// Refuses a filter that draws at random: a document is matched again once it is locked, and would be drawn twice.
    pub fn check_steady(&self) -> Result<()> {
        if self.parsed()?.matcher.varies() {
            let text = "$rand and $sampleRate in the filter of a write are not supported yet";
            return Err(crate::Error::new(ErrorCode::NOT_IMPLEMENTED, text));
        }
        Ok(())
    }

    /// The filter parsed already, with the order in which the first document is sought.
    pub fn set_parsed(&mut self, parsed: Box<Parsed>, sort: Option<RawDocument<'t>>) {
        self.sort = sort;
        self.parsed = OnceCell::from(parsed);
    }

    /// Refuses a filter from which no document can be made: what `$expr` asks names no fields.
    pub fn check_upsert(&self) -> Result<()> {
        if self.id.is_none() && self.parsed()?.matcher.holds_expr() {
            let text = "$expr is not allowed in the query predicate for an upsert";
            return Err(crate::Error::new(
                ErrorCode::QUERY_FEATURE_NOT_ALLOWED,
                text,
            ));
        }
        Ok(())
    }

    /// The context that all expressions of the command share.
    pub fn context(&self) -> &ExpressionContext {
        match self.context {
            Some(context) => context,
            None => self.own_context.get_or_init(ExpressionContext::default),
        }
    }

    pub fn parsed(&self) -> Result<&Parsed> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed);
        }
        let parsed = Parsed::parse(self.filter, None, None, self.context())?;
        Ok(self.parsed.get_or_init(|| Box::new(parsed)))
    }

    /// The collation that the statement is to begin again with, if it has met one.
    pub fn take_imposed(&self) -> Option<Collation> {
        self.imposed.take()
    }

    /// Notes that the collection has a collation that the statement was parsed without; false if it has none.
    fn is_imposed(&self, collection: &Collection) -> bool {
        let collation = imposed(self.context, collection);
        let is_imposed = collation.is_some();
        if is_imposed {
            self.imposed.set(collation);
        }
        is_imposed
    }

    /// Refuses a change of a view, and one that a time series cannot have.
    fn refuse(&self, collection: &Collection, effect: Effect<'_>, is_multi: bool) -> Result<()> {
        collection.refuse_view()?;
        let Some(series) = &collection.series else {
            return Ok(());
        };
        if self.scope.is_in_transaction() {
            collection.refuse_in_transaction()?;
        }
        match effect {
            Effect::Delete => Ok(()),
            Effect::FindAndModify => Err(series::no_find_and_modify(self.namespace)),
            Effect::Update(update) => {
                series::check_kind(series, is_multi, self.is_upsert)?;
                series::check_update(series, &self.parsed()?.matcher, update)
            }
        }
    }

    /// Changes the first document that matches, or none.
    pub fn modify_one(&self, effect: Effect<'_>, compute: &mut Compute<'_>) -> Result<Totals> {
        let mut totals = Totals::default();
        if let Some(id) = self.id {
            interrupts::work(UNITS_OF_A_LOOK)?;
            let Some(collection) = self.scope.collection(self.namespace, self.operation)? else {
                return Ok(totals);
            };
            self.refuse(&collection, effect, false)?;
            if self.is_imposed(&collection) {
                return Ok(totals);
            }
            if collection.is_clustered() {
                let key = collection.record_key(id);
                self.operation.plan.get_or_init(|| PlanSummary::IdHack);
                collection.count_by_id();
                self.piece(collection.ident, &[key], None, compute, &mut totals)?;
                let examined = u64::from(totals.matched > 0);
                self.operation.count_examined(examined, examined);
                return Ok(totals);
            }
        }
        let matcher = Some(&self.parsed()?.matcher);
        for _ in 0..ATTEMPTS_MAX {
            self.operation.check()?;
            let Some((ident, key)) = self.first(effect)? else {
                return Ok(totals);
            };
            self.piece(ident, &[key], matcher, compute, &mut totals)?;
            if totals.matched > 0 || totals.error.is_some() {
                return Ok(totals);
            }
        }
        Err(Error::WriteConflict.into())
    }

    /// Changes every document that matches, each once. Where an index moves documents ahead of its scan, or shows them
    /// under several keys, the scan remembers those that it has met; when these get too many it goes on over the whole
    /// collection, where nothing moves, and leaves out those it remembers.
    pub fn modify_all(&self, effect: Effect<'_>, compute: &mut Compute<'_>) -> Result<Totals> {
        let mut totals = Totals::default();
        let Some(snapshot) = self.scope.snapshot(self.namespace, self.operation)? else {
            return Ok(totals);
        };
        self.refuse(&snapshot.collection, effect, true)?;
        if self.is_imposed(&snapshot.collection) {
            return Ok(totals);
        }
        let ident = snapshot.collection.ident;
        let parsed = self.parsed()?;
        let asked = self.asked(parsed);
        let mut root = plan(&snapshot, parsed, Some(self.operation), self.wanted(&asked))?;
        let purpose = effect.purpose(&*root, &snapshot)?;
        root.set_purpose(purpose);
        // Who names a sparse index means no documents but its own.
        let mut sparse = None;
        let mut snapshot = Some(snapshot);
        loop {
            let Some(current) = snapshot.take() else {
                return Ok(totals);
            };
            if current.collection.ident != ident {
                let text = format!("collection dropped. UUID of {} has changed", self.namespace);
                return Err(Error::QueryPlanKilled(text).into());
            }
            if let Some(met) = root.take_full() {
                sparse = incomplete_index(&*root);
                root = others(&current, met, purpose);
            }
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let mut bytes = 0;
            let context = self.plan_context(&current, parsed);
            let more = run(&mut *root, &context, &mut |row| {
                let document = row.document.unwrap_or(RawDocument::EMPTY);
                if !is_indexed(&current, sparse, document)? {
                    return Ok(Flow::Continue);
                }
                keys.push(row.record.to_vec());
                bytes += document.as_bytes().len();
                let is_full = keys.len() == PIECE_DOCUMENTS_MAX || bytes >= PIECE_BYTES_MAX;
                Ok(if is_full { Flow::Stop } else { Flow::Continue })
            })?;
            drop(current);
            if purpose == Purpose::Delete {
                // A scan that forgets may show a document of an index with arrays twice.
                keys.sort_unstable();
                keys.dedup();
            }
            if !keys.is_empty() {
                let matcher = Some(&parsed.matcher);
                self.piece(ident, &keys, matcher, compute, &mut totals)?;
            }
            if !more || totals.error.is_some() {
                return Ok(totals);
            }
            self.operation.check()?;
            snapshot = self.scope.snapshot(self.namespace, self.operation)?;
        }
    }

    /// Changes the records with these keys, in as many pieces as their index entries ask for. Without a matcher the key says it
    /// all.
    pub(super) fn piece(
        &self,
        ident: Ident,
        mut keys: &[Vec<u8>],
        matcher: Option<&Matcher>,
        compute: &mut Compute<'_>,
        totals: &mut Totals,
    ) -> Result<()> {
        while !keys.is_empty() && totals.error.is_none() {
            let taken = self.piece_of_first(ident, keys, matcher, compute, totals)?;
            keys = &keys[taken..];
        }
        Ok(())
    }

    /// Changes the first of the records with these keys; returns how many it has looked at.
    fn piece_of_first(
        &self,
        ident: Ident,
        keys: &[Vec<u8>],
        matcher: Option<&Matcher>,
        compute: &mut Compute<'_>,
        totals: &mut Totals,
    ) -> Result<usize> {
        let mut change_matching = |document: RawDocument<'_>, out: &mut NewDocument| {
            let details = match matcher {
                None => MatchDetails::default(),
                Some(matcher) => match matcher.try_match_details(document)? {
                    Some(details) => details,
                    None => return Ok(Change::NoMatch),
                },
            };
            let _scope = phase(Phase::Splice);
            compute(document, &details, out)
        };
        let mut change = |_: usize, document: RawDocument<'_>, out: &mut NewDocument| {
            change_matching(document, out).map_err(crate::Error::into_database)
        };
        let outcome = self.scope.modify_piece(
            self.operation,
            self.namespace,
            ident,
            keys,
            self.level,
            &mut change,
        );
        let Modified {
            taken,
            matched,
            modified,
            deleted,
            error,
            lsn,
        } = match outcome {
            // What was committed before is waited for all the same.
            Err(error) if totals.lsn.is_some() => {
                totals.error = Some(error.into());
                return Ok(keys.len());
            }
            outcome => outcome?,
        };
        totals.matched += matched;
        totals.modified += modified;
        totals.deleted += deleted;
        totals.error = error.map(crate::Error::from);
        totals.lsn = lsn.or(totals.lsn);
        Ok(taken)
    }

    /// The record key of the first document that matches, in the wanted order.
    fn first(&self, effect: Effect<'_>) -> Result<Option<(Ident, Vec<u8>)>> {
        let Some(snapshot) = self.scope.snapshot(self.namespace, self.operation)? else {
            return Ok(None);
        };
        self.refuse(&snapshot.collection, effect, false)?;
        if self.is_imposed(&snapshot.collection) {
            return Ok(None);
        }
        let parsed = self.parsed()?;
        let asked = self.asked(parsed);
        let wanted = Wanted {
            limit: Some(1),
            ..self.wanted(&asked)
        };
        let mut root = plan(&snapshot, parsed, Some(self.operation), wanted)?;
        let mut found = None;
        run(
            &mut *root,
            &self.plan_context(&snapshot, parsed),
            &mut |row| {
                found = Some(row.record.to_vec());
                Ok(Flow::Stop)
            },
        )?;
        Ok(found.map(|key| (snapshot.collection.ident, key)))
    }

    /// The query that finds what is changed.
    fn asked<'q>(&'q self, parsed: &'q Parsed) -> QueryParts<'q> {
        QueryParts {
            sort: self.sort,
            ..QueryParts::of(self.filter, parsed.matcher.collation())
        }
    }

    /// The plan of a write gives the keys of records.
    fn wanted<'w>(&'w self, asked: &'w QueryParts<'w>) -> Wanted<'w> {
        Wanted {
            asked: Some(asked),
            hint: self.hint,
            stops_itself: true,
            kept: Kept::Record,
            ..Wanted::default()
        }
    }

    fn plan_context<'v>(
        &'v self,
        snapshot: &'v CollectionSnapshot,
        parsed: &'v Parsed,
    ) -> PlanContext<'v> {
        PlanContext {
            snapshot,
            operation: self.operation,
            parsed,
            is_replay: false,
        }
    }
}

/// A plan for the records that match and were not met.
fn others(snapshot: &CollectionSnapshot, met: Box<SeenRecords>, purpose: Purpose) -> Node {
    let mut scan = CollectionScan::of_other_matches(&snapshot.collection, met);
    scan.set_purpose(purpose);
    Box::new(scan)
}

impl Effect<'_> {
    /// Why a plan reads the records that the change is for.
    fn purpose(self, plan: &dyn PlanNode, snapshot: &CollectionSnapshot) -> Result<Purpose> {
        let Effect::Update(update) = self else {
            return Ok(Purpose::Delete);
        };
        let indexes = &snapshot.index_catalog()?.indexes;
        let mut may_move = false;
        plan.leaves(&mut |leaf| {
            if let Leaf::Index(access) = leaf
                && !access.is_of_records
            {
                // What a kind makes keys of may stand in fields that the pattern does not name.
                let index = indexes.iter().find(|index| index.ident == access.ident);
                let special = index.and_then(|index| index.special.as_deref());
                may_move |= special.is_some_and(|special| match special.further_fields() {
                    Some(fields) => fields.iter().any(|path| update.may_change(path)),
                    None => true,
                });
                let mut names = access.pattern.iter().map(|field| field.name());
                // A name that is not UTF-8 is no path that an update can name.
                may_move |=
                    names.any(|name| name.as_str().is_ok_and(|path| update.may_change(path)));
            }
        });
        Ok(match may_move {
            true => Purpose::Move,
            false => Purpose::ChangeInPlace,
        })
    }
}

/// The index that a plan goes through, if it lacks documents that the plan's filter may mean. The indexes of a union lack none
/// of those.
fn incomplete_index(plan: &dyn PlanNode) -> Option<Ident> {
    let (mut incomplete, mut leaves) = (None, 0);
    plan.leaves(&mut |leaf| {
        leaves += 1;
        if let Leaf::Index(access) = leaf
            && (access.is_sparse || access.is_partial)
        {
            incomplete = Some(access.ident);
        }
    });
    incomplete.filter(|_| leaves == 1)
}

/// Whether an index, if there is one in question, has the document.
fn is_indexed(
    snapshot: &CollectionSnapshot,
    index: Option<Ident>,
    document: RawDocument<'_>,
) -> Result<bool> {
    let Some(ident) = index else {
        return Ok(true);
    };
    Ok(snapshot.index_catalog()?.has_entries(ident, document)?)
}

impl Totals {
    /// Waits for what was committed, then tells the error, if any.
    pub fn settle(&mut self, scope: Scope<'_>, level: Level) -> Result<()> {
        scope.settle(self.lsn, level)?;
        self.error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    //! Changes of more documents than a scan can remember; the bound is small here.

    use super::super::request::{DeleteRequest, FindRequest, InsertRequest, UpdateRequest};
    use super::super::{delete, find, insert, update};
    use super::*;
    use proptest::prelude::*;
    use quarry_bson::{Document, doc};
    use quarry_database::{Database, Options};
    use std::sync::Arc;

    /// Several times what a scan remembers.
    const DOCUMENTS: i32 = 1500;

    struct Fixture {
        database: Database,
        operation: Operation,
        namespace: Namespace,
    }

    /// Documents of which each stands in the index on `a` and, under several keys, in the one on `list`; half of them
    /// have a field of the sparse index.
    fn fixture() -> Fixture {
        let fixture = Fixture {
            database: Database::open_in_memory().unwrap(),
            operation: Operation::default(),
            namespace: Namespace::parse("db.c").unwrap(),
        };
        let documents: Vec<Document> = (0..DOCUMENTS)
            .map(|n| {
                let mut document =
                    doc! { "_id": n, "a": n, "n": 0, "list": [n, (n + 7), (n + 700)] };
                if n % 2 == 0 {
                    document.append("s", n);
                }
                document
            })
            .collect();
        let documents: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest::new(&fixture.namespace, &documents);
        let level = Level::Written;
        insert(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            level,
        )
        .unwrap();
        let indexes = [
            doc! { "key": { "a": 1 }, "name": "a" },
            doc! { "key": { "list": 1 }, "name": "list" },
            doc! { "key": { "s": 1 }, "name": "s", "sparse": true },
        ];
        fixture
            .database
            .create_indexes(&fixture.namespace, &indexes, &fixture.operation, level)
            .unwrap();
        fixture
    }

    impl Fixture {
        /// How many documents an update of all that a filter finds through one index has changed.
        fn update_all(&self, filter: &Document, change: &Document, hint: &str) -> u64 {
            let request = UpdateRequest {
                array_filters: None,
                constants: None,
                sort: None,
                namespace: &self.namespace,
                context: None,
                collation: None,
                filter: filter.as_raw(),
                update: RawValue::Document(change.as_raw()),
                is_upsert: false,
                is_multi: true,
                hint: Some(hint)
                    .filter(|hint| !hint.is_empty())
                    .map(RawValue::from),
                keeps_empty_timestamps: false,
            };
            let outcome = update(
                (&self.database).into(),
                &self.operation,
                request,
                Level::Written,
            )
            .unwrap();
            assert_eq!(outcome.matched, outcome.modified);
            outcome.modified
        }

        fn delete_all(&self, filter: &Document, hint: &str) -> u64 {
            let request = DeleteRequest {
                namespace: &self.namespace,
                context: None,
                collation: None,
                filter: filter.as_raw(),
                is_multi: true,
                hint: Some(hint)
                    .filter(|hint| !hint.is_empty())
                    .map(RawValue::from),
            };
            delete(
                (&self.database).into(),
                &self.operation,
                request,
                Level::Written,
            )
            .unwrap()
        }

        fn find(&self, filter: &Document) -> Vec<Document> {
            self.find_with(filter, |_| {})
        }

        fn find_with<'f>(
            &'f self,
            filter: &'f Document,
            adjust: impl FnOnce(&mut FindRequest<'f>),
        ) -> Vec<Document> {
            let mut request = FindRequest::new(&self.namespace);
            request.filter = filter.as_raw();
            adjust(&mut request);
            let mut executor = find((&self.database).into(), &self.operation, request).unwrap();
            let (mut found, mut document) = (Vec::new(), Vec::new());
            while executor.next(&self.operation, &mut document).unwrap() {
                found.push(Document::from_bytes(std::mem::take(&mut document)).unwrap());
            }
            found
        }
    }

    #[test]
    fn an_update_that_moves_more_documents_than_it_remembers_changes_each_once() {
        let fixture = fixture();
        let all = doc! { "a": { "$gte": 0 } };
        let change = doc! { "$inc": { "a": 10, "n": 1 } };
        let count = u64::from(DOCUMENTS.unsigned_abs());
        assert_eq!(fixture.update_all(&all, &change, "a"), count);
        assert_eq!(fixture.find(&doc! { "n": 1 }).len() as u64, count);
    }

    #[test]
    fn an_update_through_an_index_with_arrays_changes_each_document_once() {
        let fixture = fixture();
        let count = u64::from(DOCUMENTS.unsigned_abs());
        for (round, change) in [
            doc! { "$inc": { "n": 1 } },
            doc! { "$inc": { "n": 1, "list.0": 5 } },
        ]
        .iter()
        .enumerate()
        {
            let all = doc! { "list": { "$gte": 0 } };
            assert_eq!(fixture.update_all(&all, change, "list"), count, "{round}");
            let changed = doc! { "n": (round as i32 + 1) };
            assert_eq!(fixture.find(&changed).len() as u64, count, "{round}");
        }
    }

    #[test]
    fn an_update_through_a_sparse_index_changes_what_the_index_has() {
        let fixture = fixture();
        let count = u64::from(DOCUMENTS.unsigned_abs()) / 2;
        let change = doc! { "$inc": { "s": 10, "n": 1 } };
        assert_eq!(fixture.update_all(&Document::new(), &change, "s"), count);
        let changed = fixture.find(&doc! { "n": 1 });
        assert_eq!(changed.len() as u64, count);
        assert!(changed.iter().all(|document| document.get("s").is_some()));
    }

    #[test]
    fn a_scan_of_what_an_update_leaves_in_place_remembers_nothing() {
        let fixture = fixture();
        let change = doc! { "$inc": { "n": 1, "list.1": 1 } };
        let update = Update::parse(RawValue::Document(change.as_raw())).unwrap();
        let snapshot = fixture
            .database
            .snapshot(&fixture.namespace)
            .unwrap()
            .unwrap();
        let filter = doc! { "a": { "$gte": 0 } };
        let parsed =
            Parsed::parse(filter.as_raw(), None, None, &ExpressionContext::default()).unwrap();
        let planned = |hint| {
            let wanted = Wanted {
                hint: Some(RawValue::from(hint)),
                ..Wanted::default()
            };
            plan(&snapshot, &parsed, None, wanted).unwrap()
        };
        assert_eq!(
            Effect::Update(&update)
                .purpose(&*planned("a"), &snapshot)
                .unwrap(),
            Purpose::ChangeInPlace
        );
        assert_eq!(
            Effect::Update(&update)
                .purpose(&*planned("list"), &snapshot)
                .unwrap(),
            Purpose::Move
        );
        let mut root = planned("a");
        root.set_purpose(Purpose::ChangeInPlace);
        let context = PlanContext {
            snapshot: &snapshot,
            operation: &fixture.operation,
            parsed: &parsed,
            is_replay: false,
        };
        let more = run(&mut *root, &context, &mut |_| Ok(Flow::Continue));
        assert!(!more.unwrap() && root.take_full().is_none());
    }

    /// Every document but the last hundred is met by both branches, and there are more than can be remembered.
    fn either() -> Document {
        doc! { "$or": [{ "a": { "$gte": 0 } }, { "list": { "$gte": 700 } }] }
    }

    #[test]
    fn a_union_that_can_remember_no_more_reads_each_document_once() {
        let fixture = fixture();
        let mut ids: Vec<i32> = fixture
            .find(&either())
            .iter()
            .filter_map(|found| found.get("_id")?.as_i32())
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..DOCUMENTS).collect::<Vec<_>>());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever it can remember, and whether it is sorted or not.
        #[test]
        fn a_union_finds_what_a_scan_finds(
            (from_a, from_list, below) in (0..DOCUMENTS, 0..DOCUMENTS, 0..DOCUMENTS),
            sort in prop::sample::select(vec!["", "list.2", "absent"]),
            skip in 0..40u64,
            limit in prop::option::of(1..2000u64),
        ) {
            let fixture = fixture();
            let filter = doc! { "$or": [
                { "a": { "$gte": from_a } }, { "list": { "$gte": from_list } }, { "s": { "$gte": 0, "$lt": below } },
            ] };
            let (order, natural) = (doc! { sort: (-1), "n": 1 }, doc! { "$natural": 1 });
            let ids = |hint: Option<RawValue<'static>>, is_whole: bool| {
                let found = fixture.find_with(&filter, |request| {
                    request.hint = hint;
                    if !is_whole {
                        (request.skip, request.limit) = (skip, limit);
                    }
                    if !sort.is_empty() {
                        request.sort = Some(Box::leak(Box::new(order.clone())).as_raw());
                    }
                });
                found.iter().map(|found| found.get("_id").unwrap().as_i32().unwrap()).collect::<Vec<_>>()
            };
            let natural: &'static Document = Box::leak(Box::new(natural));
            let mut wanted = ids(Some(RawValue::Document(natural.as_raw())), true);
            let mut all = ids(None, true);
            if sort == "list.2" {
                prop_assert_eq!(&all, &wanted);
            }
            let some = ids(None, false);
            let left = (wanted.len() as u64).saturating_sub(skip);
            prop_assert_eq!(some.len() as u64, left.min(limit.unwrap_or(u64::MAX)));
            wanted.sort_unstable();
            all.sort_unstable();
            prop_assert_eq!(all, wanted);
        }
    }

    #[test]
    fn changes_through_a_union_change_each_document_once() {
        let fixture = fixture();
        let count = u64::from(DOCUMENTS.unsigned_abs());
        for (round, change) in [
            doc! { "$inc": { "n": 1 } },
            doc! { "$inc": { "n": 1, "a": 10, "list.1": 900 } },
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(fixture.update_all(&either(), change, ""), count, "{round}");
            let changed = doc! { "n": (round as i32 + 1) };
            assert_eq!(fixture.find(&changed).len() as u64, count, "{round}");
        }
        assert_eq!(fixture.delete_all(&either(), ""), count);
        assert!(fixture.find(&Document::new()).is_empty());
    }

    /// A batch that ends within what was read ahead has the next one read that again, wherever the union stood.
    #[test]
    fn a_union_goes_on_where_a_batch_has_ended() {
        let fixture = fixture();
        let filter = either();
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        let mut executor = find((&fixture.database).into(), &fixture.operation, request).unwrap();
        let (mut ids, mut document) = (Vec::new(), Vec::new());
        loop {
            for _ in 0..37 {
                if executor.next(&fixture.operation, &mut document).unwrap() {
                    let found = RawDocument::new(&document).unwrap();
                    ids.push(found.get("_id").unwrap().as_i64_exact().unwrap());
                }
                document.clear();
            }
            if executor.is_dead() {
                break;
            }
            executor.save(&fixture.operation).unwrap();
            executor
                .restore((&fixture.database).into(), &fixture.operation)
                .unwrap();
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..i64::from(DOCUMENTS)).collect::<Vec<_>>());
    }

    /// Documents of words, half of which have two of three.
    fn searched() -> Fixture {
        let options = Options {
            index_kinds: crate::index_kinds(),
            ..Options::default()
        };
        let engine = Arc::new(quarry_storage::Memory::new());
        let fixture = Fixture {
            database: Database::open(engine, options).unwrap(),
            operation: Operation::default(),
            namespace: Namespace::parse("db.c").unwrap(),
        };
        let texts = ["apple", "pear apple", "plum", "plum pear"];
        let documents: Vec<Document> = (0..DOCUMENTS)
            .zip(texts.iter().cycle())
            .map(|(n, text)| doc! { "_id": n, "n": 0, "t": *text })
            .collect();
        let documents: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest::new(&fixture.namespace, &documents);
        let (scope, operation) = ((&fixture.database).into(), &fixture.operation);
        insert(scope, operation, request, Level::Written).unwrap();
        let index = [doc! { "key": { "t": "text" } }];
        let created = (fixture.database).create_indexes(
            &fixture.namespace,
            &index,
            operation,
            Level::Written,
        );
        created.unwrap();
        fixture
    }

    #[test]
    fn a_search_that_can_remember_no_more_gives_each_document_once() {
        let fixture = searched();
        let search = doc! { "$text": { "$search": "apple pear plum" } };
        let mut ids: Vec<i32> = fixture
            .find(&search)
            .iter()
            .filter_map(|found| found.get("_id")?.as_i32())
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..DOCUMENTS).collect::<Vec<_>>());
        let count = u64::from(DOCUMENTS.unsigned_abs());
        let change = doc! { "$inc": { "n": 1 } };
        assert_eq!(fixture.update_all(&search, &change, ""), count);
        assert_eq!(fixture.find(&doc! { "n": 1 }).len() as u64, count);
        // What moves the records along the index has to know them all.
        let moving = doc! { "$set": { "t": "apple plum" } };
        let request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &fixture.namespace,
            context: None,
            collation: None,
            filter: search.as_raw(),
            update: RawValue::Document(moving.as_raw()),
            is_upsert: false,
            is_multi: true,
            hint: None,
            keeps_empty_timestamps: false,
        };
        let (scope, operation) = ((&fixture.database).into(), &fixture.operation);
        let refused = update(scope, operation, request, Level::Written);
        assert_eq!(refused.unwrap_err().code(), 292);
        assert_eq!(fixture.delete_all(&search, ""), count);
        assert!(fixture.find(&Document::new()).is_empty());
    }

    #[test]
    fn a_delete_takes_more_documents_than_a_scan_remembers() {
        for (field, hint) in [("a", "a"), ("list", "list")] {
            let fixture = fixture();
            let most = DOCUMENTS - 40;
            let filter = doc! { "n": 0, "a": { "$lt": most } };
            let mut by_index = doc! { field: { "$gte": 0 } };
            by_index.append("$and", vec![quarry_bson::Value::from(filter)]);
            let deleted = fixture.delete_all(&by_index, hint);
            assert_eq!(deleted, u64::from(most.unsigned_abs()), "{hint}");
            assert_eq!(fixture.find(&Document::new()).len(), 40, "{hint}");
        }
    }
}
