//! What update, delete and findAndModify share: finding the records that match, a piece at a time, and changing
//! those that still match under their locks.

use std::cell::OnceCell;
use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{
    Change, Database, Error, Ident, Modified, Namespace, Operation, PIECE_BYTES_MAX,
    PIECE_DOCUMENTS_MAX, PlanSummary, View,
};
use quarry_timing::{Phase, phase};

use super::error::Result;
use super::executor::matches;
use super::find::{Parsed, only_id};
use super::scan::{Flow, Scan};
use super::sorter::Sorter;
use crate::matcher::{MatchDetails, Matcher};

/// How often a single change looks for another document when others changed the one it found.
const ATTEMPTS_MAX: u32 = 1000;

/// The records a write is meant for.
pub(super) struct Target<'t> {
    pub database: &'t Database,
    pub operation: &'t Operation,
    pub namespace: &'t Namespace,
    filter: RawDocument<'t>,
    hint: Option<RawValue<'t>>,
    /// What the filter asks for, if it is one `_id` and nothing else.
    id: Option<RawValue<'t>>,
    /// A filter that is one `_id` is parsed only when something needs it.
    parsed: OnceCell<Parsed>,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub matched: u64,
    pub modified: u64,
    pub deleted: u64,
    pub error: Option<Error>,
    /// Of the last commit.
    pub lsn: Option<u64>,
}

/// Computes the change of a document that matches.
pub(super) type Compute<'c> =
    dyn FnMut(RawDocument<'_>, &MatchDetails, &mut Vec<u8>) -> Result<Change> + 'c;

impl<'t> Target<'t> {
    pub fn new(
        database: &'t Database,
        operation: &'t Operation,
        namespace: &'t Namespace,
        filter: RawDocument<'t>,
        hint: Option<RawValue<'t>>,
    ) -> Target<'t> {
        Target {
            database,
            operation,
            namespace,
            filter,
            hint,
            id: only_id(filter).filter(|_| hint.is_none()),
            parsed: OnceCell::new(),
        }
    }

    /// Refuses a filter that is none. One `_id` always is one.
    pub fn parse(self) -> Result<Target<'t>> {
        if self.id.is_none() {
            self.parsed()?;
        }
        Ok(self)
    }

    /// The filter parsed already, with the order in which the first document is sought.
    pub fn with_parsed(mut self, parsed: Parsed) -> Target<'t> {
        self.parsed = OnceCell::from(parsed);
        self
    }

    pub fn parsed(&self) -> Result<&Parsed> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed);
        }
        let parsed = Parsed::parse(self.filter, None, None)?;
        Ok(self.parsed.get_or_init(|| parsed))
    }

    /// Changes the first document that matches, or none.
    pub fn modify_one(&self, compute: &mut Compute<'_>) -> Result<Totals> {
        let mut totals = Totals::default();
        if let Some(id) = self.id {
            let Some(collection) = self.database.collection(self.namespace)? else {
                return Ok(totals);
            };
            if collection.is_clustered() {
                let key = Database::record_key(&collection, id);
                self.operation.plan.get_or_init(|| PlanSummary::IdHack);
                self.piece(collection.ident, &[key], None, compute, &mut totals)?;
                let examined = u64::from(totals.matched > 0);
                self.operation.keys_examined.fetch_add(examined, Relaxed);
                self.operation.docs_examined.fetch_add(examined, Relaxed);
                return Ok(totals);
            }
        }
        let matcher = Some(&self.parsed()?.matcher);
        for _ in 0..ATTEMPTS_MAX {
            self.operation.check()?;
            let Some((ident, key)) = self.first()? else {
                return Ok(totals);
            };
            self.piece(ident, &[key], matcher, compute, &mut totals)?;
            if totals.matched > 0 || totals.error.is_some() {
                return Ok(totals);
            }
        }
        Err(Error::WriteConflict)
    }

    /// Changes every document that matches.
    pub fn modify_all(&self, compute: &mut Compute<'_>) -> Result<Totals> {
        let mut totals = Totals::default();
        let Some(view) = self.database.view(self.namespace)? else {
            return Ok(totals);
        };
        let ident = view.collection.ident;
        let parsed = self.parsed()?;
        let plan = parsed.plan(&view, self.hint)?;
        let mut scan = Scan::new(plan).remember_all();
        let mut view = Some(view);
        loop {
            let Some(current) = view.take() else {
                return Ok(totals);
            };
            if current.collection.ident != ident {
                let text = format!("collection dropped. UUID of {} has changed", self.namespace);
                return Err(Error::QueryPlanKilled(text));
            }
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let mut bytes = 0;
            let more = scan.run(&current, self.operation, &mut |key, document| {
                if !matches(parsed, document)? {
                    return Ok(Flow::Continue);
                }
                keys.push(key.to_vec());
                bytes += document.as_bytes().len();
                let is_full = keys.len() == PIECE_DOCUMENTS_MAX || bytes >= PIECE_BYTES_MAX;
                Ok(if is_full { Flow::Stop } else { Flow::Continue })
            })?;
            drop(current);
            if !keys.is_empty() {
                let matcher = Some(&parsed.matcher);
                self.piece(ident, &keys, matcher, compute, &mut totals)?;
            }
            if !more || totals.error.is_some() {
                return Ok(totals);
            }
            self.operation.check()?;
            view = self.database.view(self.namespace)?;
        }
    }

    /// Without a matcher the key says it all.
    fn piece(
        &self,
        ident: Ident,
        keys: &[Vec<u8>],
        matcher: Option<&Matcher>,
        compute: &mut Compute<'_>,
        totals: &mut Totals,
    ) -> Result<()> {
        let mut change = |_: usize, document: RawDocument<'_>, out: &mut Vec<u8>| {
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
        let outcome =
            self.database
                .modify_piece(self.operation, self.namespace, ident, keys, &mut change);
        let Modified {
            matched,
            modified,
            deleted,
            error,
            lsn,
        } = match outcome {
            // What was committed before is waited for all the same.
            Err(error) if totals.lsn.is_some() => {
                totals.error = Some(error);
                return Ok(());
            }
            outcome => outcome?,
        };
        totals.matched += matched;
        totals.modified += modified;
        totals.deleted += deleted;
        totals.error = error;
        totals.lsn = lsn.or(totals.lsn);
        Ok(())
    }

    /// The record key of the first document that matches, in the wanted order.
    fn first(&self) -> Result<Option<(Ident, Vec<u8>)>> {
        let Some(view) = self.database.view(self.namespace)? else {
            return Ok(None);
        };
        let parsed = self.parsed()?;
        let mut scan = Scan::new(parsed.plan(&view, self.hint)?);
        let found = if scan.plan().is_sorted {
            self.first_in_scan(parsed, &view, &mut scan)?
        } else {
            self.first_in_order(parsed, &view, &mut scan)?
        };
        Ok(found.map(|key| (view.collection.ident, key)))
    }

    fn first_in_scan(
        &self,
        parsed: &Parsed,
        view: &View,
        scan: &mut Scan,
    ) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        scan.run(view, self.operation, &mut |key, document| {
            if !matches(parsed, document)? {
                return Ok(Flow::Continue);
            }
            found = Some(key.to_vec());
            Ok(Flow::Stop)
        })?;
        Ok(found)
    }

    fn first_in_order(
        &self,
        parsed: &Parsed,
        view: &View,
        scan: &mut Scan,
    ) -> Result<Option<Vec<u8>>> {
        let mut sorter = Sorter::new(Some(1));
        let mut sort_key = Vec::new();
        scan.run(view, self.operation, &mut |key, document| {
            if matches(parsed, document)? {
                sort_key.clear();
                if let Some(sort) = &parsed.sort {
                    sort.key(document, &mut sort_key)?;
                }
                sorter.push(&sort_key, key)?;
            }
            Ok(Flow::Continue)
        })?;
        let mut found = None;
        sorter.finish().next(|key| {
            found = Some(key.to_vec());
            Ok(())
        })?;
        Ok(found)
    }
}

impl Totals {
    /// Waits for what was committed, then tells the error, if any.
    pub fn settle(&mut self, database: &Database, level: quarry_database::Level) -> Result<()> {
        database.settle(self.lsn, level)?;
        self.error.take().map_or(Ok(()), Err)
    }
}
